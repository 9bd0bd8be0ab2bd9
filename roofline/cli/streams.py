"""Standard streams of a command that may be closed, full, left by their reader, or not Unicode."""

import codecs
import io
import os
import re
import sys
from contextlib import suppress
from typing import Any, Final, TextIO
from unicodedata import name, normalize

from roofline.errors import OutputError, ReaderLeftError

PLAIN: Final = {
    "×": "x",
    "·": "*",
    "→": "->",
    "±": "+/-",
    "≥": ">=",
    "≤": "<=",
    "≈": "~",
    "−": "-",
    "–": "-",
    "—": "-",
    "…": "...",
    "µ": "u",
    "─": "-",
    "²": "^2",
    "³": "^3",
    "∞": "inf",
    "▲": "^",
    "▼": "v",
    "√": "sqrt",
    "←": "<-",
    "∝": "~",
    "Σ": "sum",
    "Π": "prod",
}
"""Characters in place of those that the encoding of a stream lacks."""


def open_streams() -> None:
    """Make standard streams safe to use: what cannot be written is one error, or none on stderr."""
    codecs.register_error("roofline", _plain)
    for number in range(3):  # else the next file that is opened would be taken for the stream
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115  # it stays open as long as the program
    if os.name == "posix":  # the console of Windows is no file
        sys.stdout = _opened(sys.stdout, _Output(1, "w", closefd=False))
        sys.stderr = _opened(sys.stderr, _Notes(2, "w", closefd=False), at_once=True)


def _opened(before: TextIO | None, raw: io.FileIO, *, at_once: bool = False) -> TextIO:
    """A stream in the encoding of the one before."""
    encoding = before.encoding if before is not None else "utf-8"
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding, "roofline", line_buffering=at_once or raw.isatty()
    )


class _Output(io.FileIO):
    """Standard output: takes nothing more after an error."""

    _failed = False

    def write(self, content: Any, /) -> int:
        if self._failed:
            return len(content)
        try:
            return super().write(content)
        except BrokenPipeError:
            self._failed = True
            raise ReaderLeftError from None
        except OSError as error:
            self._failed = True
            raise OutputError(
                f"standard output cannot be written: {error.strerror}",
                hint="free some space there, or send it to a file that can be written",
            ) from None


class _Notes(io.FileIO):
    """Standard error: what is said there is no answer, and must not be in the way of one."""

    def write(self, content: Any, /) -> int:
        with suppress(OSError):
            return super().write(content)
        return len(content)


def _plain(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    missing = error.object[error.start : error.end]
    return "".join(map(plain, missing)), error.end


def plain(character: str) -> str:
    """Text in ASCII for a character; a question mark where it has no likeness.

    >>> plain("×"), plain("é"), plain("σ"), plain("表")
    ('x', 'e', 'sigma', '?')
    """
    if character in PLAIN:
        return PLAIN[character]
    like = normalize("NFKD", character).encode("ascii", "ignore").decode()
    greek = re.fullmatch(r"GREEK \w+ LETTER (\w+)", name(character, ""))
    return like or (greek[1].lower() if greek else "?")
