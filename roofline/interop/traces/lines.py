"""Lines of a file that need not fit in memory, each with its number, and errors at a line."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from roofline.content import label
from roofline.errors import DocumentError
from roofline.interop.files import unpacked
from roofline.schema.files import most_unpacked, too_packed
from roofline.units import PREFIX

LONGEST: Final = int(PREFIX["Mi"])
"""Bytes of a line: a prompt of a million tokens in blocks of 16 is half of that."""
BLOCK: Final = int(256 * PREFIX["Ki"])
"""Bytes that are read at once. [B]"""
MOST_EMPTY: Final = 100_000
"""Empty lines in a row."""


class TraceLine(NamedTuple):
    """One line, without its end."""

    number: int
    """Number of the line, from 1. [1]"""
    text: str
    whole: bool = True
    """False for a last line without an end."""


def located(source: str, line: int, message: str, hint: str) -> DocumentError:
    """Error at a line of a file."""
    return DocumentError(message, hint=hint, where=f"{source}:{line}")


def cut_off(source: str, line: int) -> DocumentError:
    """Error for a last line of which a part is missing."""
    return located(
        source, line, "the last line is cut off", "copy the whole file again, or remove the line"
    )


def lines(path: Path) -> Iterator[TraceLine]:
    """Lines of a text file, of which those without any text are left out; gzip by the name.

    Args:
        path: UTF-8, with or without a byte order mark; lines end with a newline.

    Raises:
        DocumentError: It cannot be read, is not UTF-8, or has a line that is too long.
    """
    source = label(path)
    hints = {"folder": "name a file in it", "packed": "copy the whole file again"}
    opened = gzip.open if path.suffix == ".gz" else open
    with unpacked(source, **hints), opened(path, "rb") as file:
        most = most_unpacked(path, source)
        read, number, last, rest = 0, 1, 0, b""
        while True:
            block = file.read(BLOCK)
            whole, ended, rest = (rest + block).rpartition(b"\n")
            if not block:
                whole, rest = rest, b""
            for line in _lines(whole, source, number, bool(block)):
                last = line.number
                yield line
            number += whole.count(b"\n") + len(ended)
            read += len(block)
            if not block:
                return
            if len(rest) > LONGEST:
                raise _too_long(source, number)
            if read > most:
                raise too_packed(source, number)
            if number - last > MOST_EMPTY:
                message = f"more than {MOST_EMPTY:,} lines in a row are empty"
                raise located(source, number, message, "check that this is a trace")


def _lines(content: bytes, source: str, number: int, whole: bool) -> Iterator[TraceLine]:
    """Lines with any text, of which the first has a number; what is wrong is told at its place."""
    problem, hint, text = "", "save the file as UTF-8", ""
    try:
        text = content.decode("utf-8")
        if (at := content.find(0)) >= 0:
            problem = "the line has a character that is no text"
            hint = "check that this is a trace, and not packed"
    except UnicodeDecodeError as error:
        at, problem = error.start, f"the byte 0x{content[error.start]:02X} is not UTF-8"
    if problem:
        before = content[: content.rfind(b"\n", 0, at) + 1]
        yield from _lines(before, source, number, True)
        raise located(source, number + before.count(b"\n"), problem, hint)
    text = text.removeprefix("\ufeff") if number == 1 else text
    each = text.split("\n")
    too_long, returns = max(map(len, each)) > LONGEST, "\r" in text
    for place, line in enumerate(each, number):
        if too_long and len(line) > LONGEST:
            raise _too_long(source, place)
        if line and not line.isspace():
            yield TraceLine(place, line.rstrip("\r") if returns else line, whole)


def _too_long(source: str, line: int) -> DocumentError:
    message = f"the line is longer than {LONGEST:,} bytes"
    return located(source, line, message, "check that this is a trace")
