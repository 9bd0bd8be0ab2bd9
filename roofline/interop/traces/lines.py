"""Lines of a file that need not fit in memory, each with its number, and errors at a line."""

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Final

from roofline.content import label
from roofline.errors import DocumentError
from roofline.units import PREFIX

LONGEST: Final = int(PREFIX["Mi"])
"""Bytes of a line: a prompt of a million tokens in blocks of 16 is half of that."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line, without its end."""

    number: int
    """From 1. [1]"""
    text: str
    """What it says."""
    whole: bool = True
    """Whether it ended as a line does; only the last one may not."""


def located(source: str, line: int, message: str, hint: str) -> DocumentError:
    """Error at a line of a file."""
    return DocumentError(message, hint=hint, where=f"{source}:{line}")


def cut_off(source: str, line: int) -> DocumentError:
    """Error for a last line of which a part is missing."""
    return located(
        source, line, "the last line is cut off", "copy the whole file again, or remove the line"
    )


def source_of(path: Path) -> str:
    """A path as it is shown, whatever bytes are in its name."""
    return label(path).encode("utf-8", "backslashreplace").decode("utf-8")


def lines(path: Path) -> Iterator[Line]:
    """Lines of a text file, of which those without any text are left out; gzip by the name.

    Args:
        path: UTF-8, with or without a byte order mark; lines end with a newline.

    Raises:
        DocumentError: It cannot be read, is not UTF-8, or has a line that is too long.
    """
    source = source_of(path)
    try:
        with _opened(path) as file:
            number = 0
            while raw := file.readline(LONGEST + 1):
                number += 1
                if len(raw) > LONGEST:
                    message = f"the line is longer than {LONGEST:,} bytes"
                    raise located(source, number, message, "check that this is a trace")
                text = _decoded(raw, source, number)
                if text.strip():
                    yield Line(number, text.rstrip("\r\n"), raw.endswith(b"\n"))
    except FileNotFoundError:
        raise _unreadable(source, "does not exist", "check the spelling of the path") from None
    except IsADirectoryError:
        raise _unreadable(source, "is a folder", "name a file in it") from None
    except PermissionError:
        hint = "give yourself permission to read it"
        raise _unreadable(source, "may not be read", hint) from None
    except (gzip.BadGzipFile, zlib.error, EOFError):
        hint = "copy the whole file again"
        raise _unreadable(source, "is not a whole gzip file", hint) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _unreadable(source, f"cannot be read: {reason}", "check the path") from None


def _opened(path: Path) -> gzip.GzipFile | BufferedReader:
    return gzip.GzipFile(path, "rb") if path.suffix == ".gz" else path.open("rb")


def _decoded(raw: bytes, source: str, number: int) -> str:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"the byte 0x{raw[error.start]:02X} is not UTF-8"
        raise located(source, number, message, "save the file as UTF-8") from None
    text = text.removeprefix("\ufeff") if number == 1 else text
    if "\0" in text:
        message = "the line has a character that is no text"
        raise located(source, number, message, "check that this is a trace, and not packed")
    return text


def _unreadable(source: str, message: str, hint: str) -> DocumentError:
    return DocumentError(f"{source} {message}", hint=hint)
