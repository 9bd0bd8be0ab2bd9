"""Commands that were read, and where a program stands in one."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise

from msgspec import Struct

from roofline.errors import InputError
from roofline.interop.commands.flags import EngineFlags, GivenFlags, Value, flags
from roofline.interop.commands.served import ReplicaServer
from roofline.interop.commands.words import CommandLine, Word
from roofline.schema.document import Document

Files = Callable[[str], Document]
"""Reads a file that a command names."""


class ParsedCommand(Struct, frozen=True):
    """A command as it was understood."""

    served: ReplicaServer
    """Settings of the server."""
    unused: tuple[str, ...] = ()
    """Flags that say nothing about cost, or nothing that is modelled, as they were written."""
    notes: tuple[str, ...] = ()
    """Sentences that a reader must know."""


class Start(Struct, frozen=True):
    """Place of a program's name among the words of a command."""

    first: int
    end: int
    """Places of its first word and of its first argument. [1]"""


def after(line: CommandLine, *programs: tuple[str, ...]) -> Start | None:
    """Start of the first of some programs in a command; None if it starts none of them.

    The first word of a program may have a path before it.
    """
    texts = [word.text for word in line.words]
    for place in range(len(texts)):
        for program in programs:
            end = place + len(program)
            found = [texts[place].rpartition("/")[2], *texts[place + 1 : end]]
            if found == list(program):
                return Start(place, end)
    return None


def opened(
    line: CommandLine, start: Start | None, known: EngineFlags, stages: str = ""
) -> tuple[GivenFlags, tuple[str, ...]]:
    """Flags of a program, and words of the command that are not read.

    Args:
        line, start: The command, and where the program is in it.
        known: Flags of the program.
        stages: Variable with the layers of pipeline stages, which becomes the flag ``stages``.

    Returns:
        tuple[GivenFlags, tuple[str, ...]]: The launcher or container before the program, in one
            piece, and the other variables are the words that are not read.
    """
    assert start is not None, "not a command of this program"
    given = flags(line.words[start.end :], known, line.source)
    ignored = [" ".join(word.text for word in line.words[: start.first])] if start.first else []
    for name, word in line.environment:
        if name == stages:
            given.values["stages"] = [Value(word.text, name, word.at, line.source)]
        else:
            ignored.append(f"{name}={word.text}")
    return given, tuple(ignored)


def variables(line: CommandLine, start: Start | None) -> Iterator[tuple[str, Word]]:
    """Variables of the environment: before a command, and ``-e NAME=VALUE`` of its container."""
    yield from line.environment
    before = line.words[: start.first] if start else ()
    for option, word in pairwise(before):
        name, equals, value = word.text.partition("=")
        if option.text in ("-e", "--env") and equals:
            yield name, Word(value, word.at)


def without(ignored: Iterable[str], name: str, value: str) -> tuple[str, ...]:
    """Words that are not read, without a variable that was, alone or of a container."""
    said = f"{name}={value}"
    kept = (each for each in ignored if each != said)
    return tuple(each.replace(f" -e {said}", "").replace(f" --env {said}", "") for each in kept)


@contextmanager
def placed(where: str) -> Iterator[None]:
    """Give a place to errors in what was read together, which have none of their own."""
    try:
        yield
    except InputError as error:
        if error.where:
            raise
        raise type(error)(error.message, hint=error.hint, where=where) from None
