"""A command that was written: its words, the files that it wants, and what it does not say."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Command:
    """How to start a server, and how to measure it."""

    title: str
    """Whose command it is, with the version that its flags are of."""
    parts: tuple[tuple[str, ...], ...]
    """Words that belong on one line, in order."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables set for it."""
    files: Mapping[str, str] = field(default_factory=dict)
    """What it reads, by name."""
    benchmark: tuple[tuple[str, ...], ...] = ()
    """Words of the command that measures it, like ``parts``."""
    notes: tuple[str, ...] = ()
    """What a reader must know, one sentence each."""
    lost: frozenset[str] = frozenset()
    """Fields of `Served` that it cannot say; every one is in a note."""

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
        written = [_heredoc(name, content) for name, content in self.files.items()]
        return "\n".join([*written, self.line])


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


def _heredoc(name: str, content: str) -> str:
    """Write a file as it is: nothing in it is expanded, and nothing in it ends it."""
    end = "EOF"
    while end in content.splitlines():
        end += "_"
    return f"cat > {shlex.quote(name)} <<'{end}'\n{content.rstrip()}\n{end}"


class Notes:
    """Notes and what is lost, gathered while a command is written."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.lost: set[str] = set()

    def say(self, sentence: str) -> None:
        """Something to know."""
        self.said.append(sentence)

    def lose(self, field_: str, sentence: str) -> None:
        """Something that the command cannot say."""
        self.said.append(sentence)
        self.lost.add(field_)
