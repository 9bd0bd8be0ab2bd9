"""The README shows what the commands print."""

import re
import shlex
from pathlib import Path

import pytest

from roofline.cli import run

README = Path(__file__).resolve().parent.parent / "README.md"
BLOCKS = re.findall(r"```console\n\$ roofline ([^\n]*)\n(.*?)```", README.read_text("utf-8"), re.S)


def test_there_are_examples() -> None:
    assert len(BLOCKS) >= 2


@pytest.mark.parametrize(("command", "shown"), BLOCKS, ids=[command for command, _ in BLOCKS])
def test_an_example_prints_what_the_readme_shows(
    command: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(shlex.split(command)) == 0
    assert capsys.readouterr().out.strip() == shown.strip()


def test_python_examples_run() -> None:
    for block in re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.S):
        exec(compile(block, str(README), "exec"), {})
