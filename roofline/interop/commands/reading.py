"""What was read from a command, and the engines that can be read."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from roofline.errors import InputError
from roofline.interop.commands.served import Served
from roofline.interop.commands.words import Line, Word
from roofline.schema.document import Document

Files = Callable[[str], Document]
"""Reads a file that a command names."""


@dataclass(frozen=True, slots=True)
class Read:
    """A command as it was understood."""

    served: Served
    """What it tells the server."""
    unused: tuple[str, ...] = ()
    """Flags that say nothing about cost, or nothing that is modelled, as they were written."""
    notes: tuple[str, ...] = ()
    """What a reader must know, one sentence each."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where a program's name stands among the words of a command."""

    first: int
    end: int
    """Places of its first word and of its first argument. [1]"""

    def before(self, line: Line) -> tuple[str, ...]:
        """What starts the program, in one piece: a launcher, a container."""
        return (" ".join(word.text for word in line.words[: self.first]),) if self.first else ()


def after(words: Sequence[Word], *programs: tuple[str, ...]) -> Start | None:
    """Where one of some programs starts; None if none of them does.

    The first word of a program may have a path before it.
    """
    texts = [word.text for word in words]
    for place in range(len(texts)):
        for program in programs:
            end = place + len(program)
            found = [texts[place].rpartition("/")[2], *texts[place + 1 : end]]
            if found == list(program):
                return Start(place, end)
    return None


@contextmanager
def placed(where: str) -> Iterator[None]:
    """Give a place to errors in what was read together, which have none of their own."""
    try:
        yield
    except InputError as error:
        if error.where:
            raise
        raise type(error)(error.message, hint=error.hint, where=where) from None


def told(line: Line, name: str) -> Word | None:
    """A variable that is set for the command."""
    return dict(line.environment).get(name)


def others(line: Line, *taken: str) -> tuple[str, ...]:
    """Variables that are not read."""
    return tuple(f"{name}={word.text}" for name, word in line.environment if name not in taken)
