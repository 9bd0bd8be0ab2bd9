"""Pages that show what commands and calls print, and what these print now.

``python -m tests.documents FILE…`` puts what is printed now into the files.
"""

import contextlib
import doctest
import io
import re
import shlex
import sys
from pathlib import Path
from typing import Any, Final

from roofline.cli import run

ROOT: Final = Path(__file__).resolve().parent.parent
README: Final = ROOT / "README.md"
TUTORIAL: Final = ROOT / "scenarios" / "TUTORIAL.md"
GUIDE: Final = sorted((ROOT / "scenarios" / "guide").glob("*.md"))
_COMMAND: Final = re.compile(r"```console\n\$ roofline ([^\n]*)\n(.*?)```", re.S)
_CALLS: Final = re.compile(r"```python\n(>>> .*?)```", re.S)
_CODE: Final = re.compile(r"```python\n((?!>>> ).*?)```", re.S)


def commands(page: Path) -> list[tuple[str, str]]:
    """Commands of a page and what it shows of each."""
    return _COMMAND.findall(page.read_text("utf-8"))


def code(page: Path) -> list[str]:
    """Blocks of Python that show no output."""
    return _CODE.findall(page.read_text("utf-8"))


def calls(page: Path) -> list[doctest.Example]:
    """Calls of a page with what it shows of each, in one session."""
    blocks = _CALLS.finditer(page.read_text("utf-8"))
    return [example for block in blocks for example in _examples(block[1])]


def _examples(block: str) -> list[doctest.Example]:
    """Calls of a block; unlike those of `doctest`, what they print may have empty lines."""
    found = re.findall(r"^>>> (.*(?:\n\.\.\..*)*)\n((?:(?!>>> ).*\n)*)", block, re.M)
    return [
        doctest.Example(re.sub(r"(?m)^\.\.\. ?", "", source), printed) for source, printed in found
    ]


def command_prints(command: str) -> str:
    """Standard output of a command that succeeds."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert run(shlex.split(command)) == 0, command
    return out.getvalue()


def call_prints(source: str, session: dict[str, Any]) -> str:
    """Output of a line of a session."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(source, "session", "single"), session)
    return out.getvalue()


def renewed(text: str) -> str:
    """A page with what its commands and calls print now."""
    session: dict[str, Any] = {}

    def command(block: re.Match[str]) -> str:
        return f"```console\n$ roofline {block[1]}\n{command_prints(block[1])}```"

    def block(found: re.Match[str]) -> str:
        lines = []
        for example in _examples(found[1]):
            first, *more = example.source.rstrip("\n").split("\n")
            lines += [f">>> {first}", *(f"... {line}".rstrip() for line in more)]
            lines += call_prints(example.source, session).splitlines()
        return "\n".join(["```python", *lines, "```"])

    return _CALLS.sub(block, _COMMAND.sub(command, text))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        page = Path(name)
        page.write_text(renewed(page.read_text("utf-8")), "utf-8")
