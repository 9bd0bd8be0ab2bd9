"""Errors a user can act on. Everything else is a bug and keeps its traceback."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, Final

BUG: Final = 70
"""Exit code of what is neither an answer nor an error of these."""
EXIT_CODES: Final[Mapping[int, str]] = {
    0: "an answer",
    1: "an answer that is no: it does not fit, is overloaded, breaks a limit",
    2: "the question, or a file in it, is wrong",
    3: "something outside is missing: a GPU, an extra, a folder that can be written",
    4: "stopped before its end, and what was finished is kept",
    5: "standard output cannot be written",
    BUG: "a bug of roofline, whose traceback is in a file",
    130: "interrupted",
    141: "the reader of standard output left before the end",
}
"""Exit codes of all commands, and the meaning of each."""


def printable(text: str) -> str:
    """Text with escapes in place of characters that cannot be seen."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class RooflineError(Exception):
    """A problem the user can solve: what is wrong, and what to do about it.

    Args:
        message: What is wrong, in one sentence.
        hint: What to do next, in one sentence.
        where: ``file:line:column`` when a file is at fault, else empty.
    """

    exit_code: ClassVar[int] = 2

    def __init__(self, message: str, *, hint: str, where: str = "") -> None:
        # Names in a file that somebody else wrote must not steer a terminal.
        self.message, self.hint, self.where = map(printable, (message, hint, where))
        super().__init__(self.told)

    @property
    def told(self) -> str:
        """Message with the place in a file that is at fault."""
        return f"{self.where}: {self.message}" if self.where else self.message

    def __str__(self) -> str:
        """Message, and on a line of its own the hint."""
        return f"{self.told}\nhint: {self.hint}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Cross to another process whole: an exception alone would lose its keywords."""
        return partial(type(self), hint=self.hint, where=self.where), (self.message,)


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Beginning of a hint that names what is most alike; empty where nothing is.

    >>> did_you_mean("vlm", ["vllm", "sglang"]), did_you_mean("x", ["vllm"])
    ('did you mean vllm? ', '')
    """
    from difflib import get_close_matches  # most names are known

    close = get_close_matches(name[:60], list(known), 1, cutoff)
    return f"did you mean {close[0]}? " if close else ""


@contextmanager
def prefixed(what: str) -> Iterator[None]:
    """Have errors begin with what they are about."""
    try:
        yield
    except RooflineError as error:
        message = f"{what}: {error.message}"
        raise type(error)(message, hint=error.hint, where=error.where) from None


def described(error: Exception) -> str:
    """Message of an error in one line, with its hint in brackets."""
    return f"{error.told} ({error.hint})" if isinstance(error, RooflineError) else str(error)


class InputError(RooflineError):
    """A value the user gave is outside what has a meaning."""


class QuantityError(InputError):
    """A quantity string has no number, or not the unit asked for."""


class UnknownNameError(InputError):
    """A catalog has no entry of that name."""


class DocumentError(RooflineError):
    """A file cannot be read, or says something that is not allowed there."""


class UnsupportedModelError(DocumentError):
    """A network has a feature that changes its cost and is not understood."""


class MissingRateError(RooflineError):
    """A machine has no rate for an arithmetic type, and no named way around it."""


class LayoutError(InputError):
    """A network cannot be laid out over that many devices."""


class InfeasibleError(RooflineError):
    """The deployment asked for cannot exist, for example because it does not fit."""

    exit_code = 1


class MissingEnvironmentError(RooflineError):
    """Something outside the project is missing: a GPU, an extra, a writable folder."""

    exit_code = 3


class OutputError(RooflineError):
    """Standard output cannot be written."""

    exit_code = 5


class ReaderLeftError(Exception):
    """The reader of standard output has what it wants: nothing is left to say."""

    exit_code: ClassVar[int] = 141


class StoppedError(RooflineError):
    """The user stopped it."""

    exit_code = 130


class PartialError(RooflineError):
    """The work stopped before its end; what was finished is kept, and can be gone on from."""

    exit_code = 4


def not_one_of(name: str, value: object, allowed: Iterable[object]) -> InputError:
    """Error about a word that is not one of those allowed."""
    hint = f"it is one of {', '.join(map(str, allowed))}"
    return InputError(f"{name} is {value!r:.40}", hint=hint)
