"""Written commands: their words, their files in YAML, and what they cannot say."""

import shlex
from collections.abc import Mapping
from typing import Any

import yaml
from msgspec import Struct


class ServeCommand(Struct, frozen=True):
    """A command that starts a server, and one that measures it."""

    title: str
    """Engine, with the version that the flags are of."""
    parts: tuple[tuple[str, ...], ...]
    """Words that belong on one line, in order."""
    environment: Mapping[str, str] = {}
    """Variables set for it."""
    files: Mapping[str, str] = {}
    """Contents of the files that it reads, by name."""
    benchmark: tuple[tuple[str, ...], ...] = ()
    """Words of the command that measures it, like ``parts``."""
    notes: tuple[str, ...] = ()
    """Sentences that a reader must know."""
    lost: frozenset[str] = frozenset()
    """Fields of `ReplicaServer` that it cannot say; every one is in a note."""

    @property
    def words(self) -> tuple[str, ...]:
        """Arguments as a process gets them."""
        return tuple(word for part in self.parts for word in part)

    @property
    def line(self) -> str:
        """The command as a shell takes it, without its files."""
        return shell(self.parts, self.environment)

    @property
    def script(self) -> str:
        """A script that writes the files and starts the server."""
        out = []
        for name, content in self.files.items():
            end = "EOF"  # quoted and in no line: nothing is expanded, and nothing ends it early
            while end in content.splitlines():
                end += "_"
            out.append(f"cat > {shlex.quote(name)} <<'{end}'\n{content.rstrip()}\n{end}")
        return "\n".join([*out, self.line])


def shell(parts: tuple[tuple[str, ...], ...], environment: Mapping[str, str] | None = None) -> str:
    r"""Words as a shell takes them, a part on each line.

    >>> print(shell((("vllm", "serve", "a b"), ("--port", "8000"))))
    vllm serve 'a b' \
      --port 8000
    """
    before = "".join(f"{name}={shlex.quote(value)} " for name, value in (environment or {}).items())
    return before + " \\\n  ".join(" ".join(map(shlex.quote, part)) for part in parts)


def commented(text: str) -> str:
    """Text as comments of a shell or of YAML, whatever lines it has."""
    return "\n".join(f"# {line}".rstrip() for line in text.splitlines())


class Notes:
    """Notes and lost fields, gathered while a command is written."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.lost: set[str] = set()

    def say(self, sentence: str) -> None:
        """Add a sentence that a reader must know."""
        self.said.append(sentence)

    def lose(self, field_: str, sentence: str) -> None:
        """Add a field of `ReplicaServer` that the command cannot say, and why."""
        self.said.append(sentence)
        self.lost.add(field_)


class Quoted(str):
    """Text that is written in double quotes: no reader takes it for a number or a truth value."""

    __slots__ = ()


class BlockText(str):
    """Text of several lines that is written as it is, or in double quotes where it cannot be."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Lists stand further in than their key."""
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        """Write twice what stands twice: anchors are for machines."""
        return True


_Dumper.add_representer(
    Quoted, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", str(text), '"')
)
_Dumper.add_representer(
    BlockText, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", str(text), "|")
)


def dump(*documents: Any) -> str:
    """Write documents, keys in their order, one after another.

    >>> print(dump({"model": Quoted("1e3"), "n": 2}), end="")
    model: "1e3"
    n: 2
    """
    return yaml.dump_all(
        documents,
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=False,
        width=2**16,
        explicit_start=len(documents) > 1,
    )
