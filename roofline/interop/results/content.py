"""Contents of a file before its format is known: documents of JSON, lines of text, tables."""

import csv
import gzip
import json
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from roofline.content import label
from roofline.errors import DocumentError
from roofline.interop.files import unpacked
from roofline.interop.results.node import LocatedValue
from roofline.schema.files import most_unpacked, too_packed, unreadable
from roofline.units import PREFIX

_JSON: Final = re.compile(r"\s*(?:\{|\[\s*(?:[\[{\]]|$))")
"""Beginning of JSON; a line of a log may begin with a bracket too."""
_SPACE: Final = re.compile(r"\s*+")
_RULE: Final = re.compile(r":?-+:?")
MOST_BYTES: Final = int(64 * PREFIX["Mi"])
"""Size of an unpacked file: one that keeps each request of a long run has tens of MiB. [B]"""
MOST_DOCUMENTS: Final = 100_000
"""JSON documents, one after the other, or rows of a table. [1]"""
LONGEST_HEADER: Final = 2**16
"""Characters of the first line of a table. [1]"""


class Content(Struct, frozen=True):
    """A file."""

    source: str
    """Path as it is shown."""
    text: str
    """All of it."""
    documents: tuple[LocatedValue, ...] | None
    """Documents of JSON, one or one a line; None where it is not JSON."""

    @property
    def first(self) -> dict[str, Any]:
        """The first document; of a list its first item; empty where it is no mapping."""
        if not self.documents:
            return {}
        value = self.documents[0].value
        if isinstance(value, list) and value:
            value = value[0]
        return value if isinstance(value, dict) else {}

    @property
    def heading(self) -> str:
        """The first line that says anything."""
        return self.text.lstrip().partition("\n")[0].rstrip()

    def lines(self) -> Iterator[str]:
        """Lines without their ends, made one after the other: a list takes more than the text."""
        start = 0
        while (end := self.text.find("\n", start)) >= 0:
            yield self.text[start:end]
            start = end + 1
        yield self.text[start:]

    def records(self) -> list[LocatedValue]:
        """Every document, those in lists one by one."""
        out: list[LocatedValue] = []
        for document in self.documents or ():
            whole = isinstance(document.value, list)
            out += document.items() if whole else [document]
        return out

    def error(self, message: str, hint: str, line: int = 0) -> DocumentError:
        """Error at a line, or of the whole file."""
        where = f"{self.source}:{line}" if line else self.source
        return DocumentError(message, hint=hint, where=where)


def content_of(path: Path) -> Content:
    """Read a file, unpacked where its name ends in ``.gz``.

    DocumentError where it cannot be read, is not UTF-8, is empty, or is JSON that is cut off.
    """
    source = label(path)
    hints = {"folder": "name the files in it", "packed": "copy it again"}
    with unpacked(source, **hints), path.open("rb") as file:
        packed = path.suffix == ".gz"
        if not packed and path.stat().st_size > MOST_BYTES:
            raise _too_large(source)
        most = most_unpacked(path, source)
        data = (gzip.GzipFile(fileobj=file) if packed else file).read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise _too_large(source)
    if len(data) > most:
        raise too_packed(source, 1)
    text = _decoded(data, source)
    if not text.strip():
        raise DocumentError(
            "the file is empty", hint="check that the benchmark ended before copying", where=source
        )
    documents = _documents(text, source) if _JSON.match(text) else None
    return Content(source, text, documents)


def _too_large(source: str) -> DocumentError:
    return unreadable(
        source, f"is larger than {MOST_BYTES:,} bytes", "save it without single requests"
    )


def _decoded(data: bytes, source: str) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"the byte 0x{data[error.start]:02X} is not UTF-8"
        raise DocumentError(
            message, hint="save the file as UTF-8", where=f"{source}:{line}"
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise DocumentError(
            "the line has a character that is no text",
            hint="check that this is a result of a benchmark, and not packed",
            where=f"{source}:{line}",
        )
    return text


def _documents(text: str, source: str) -> tuple[LocatedValue, ...]:
    """One document, or several one after the other as appending clients write them."""
    decoder = json.JSONDecoder()
    found: list[LocatedValue] = []
    line, before, at = 1, 0, _skip(text, 0)
    while at < len(text):
        line += text.count("\n", before, at)
        before = at
        if len(found) == MOST_DOCUMENTS:
            raise DocumentError(
                f"there are more than {MOST_DOCUMENTS:,} documents",
                hint="save it without single requests",
                where=f"{source}:{line}",
            )
        try:
            value, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise _not_json(text, source, error) from None
        except (RecursionError, ValueError):
            raise DocumentError(
                "this is nested too deep, or has a number that is too long",
                hint="check that this is a result of a benchmark",
                where=f"{source}:{line}",
            ) from None
        found.append(LocatedValue(value, f"{source}:{line}"))
        at = _skip(text, end)
    if len(found) == 1:
        return (LocatedValue(found[0].value, source),)
    return tuple(found)


def _skip(text: str, at: int) -> int:
    found: re.Match[str] | None = _SPACE.match(text, at)
    return found.end() if found else at


def _not_json(text: str, source: str, error: json.JSONDecodeError) -> DocumentError:
    where = f"{source}:{error.lineno}:{error.colno}"
    if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
        return DocumentError(
            "the file is cut off",
            hint="copy the whole file again, or run the benchmark to its end",
            where=where,
        )
    return DocumentError(
        f"this is not JSON: {error.msg[:1].lower()}{error.msg[1:]}",
        hint="check that the file is as the benchmark wrote it",
        where=where,
    )


def header(content: Content) -> tuple[str, ...]:
    """Names of the columns of a CSV file, in lower case; empty where the first line has none."""
    if content.documents is not None or len(content.heading) > LONGEST_HEADER:
        return ()
    try:
        return tuple(name.strip().lower() for name in next(csv.reader([content.heading])))
    except csv.Error:
        return ()


def lines(content: Content) -> Iterator[tuple[int, list[str]]]:
    """Number and values of each line of a CSV file; DocumentError at a line that is no CSV."""
    reader = csv.reader(content.lines(), strict=True)
    try:
        for cells in reader:
            yield reader.line_num, cells
    except csv.Error:
        raise content.error(
            "the line is not CSV", "check commas and quotes", reader.line_num
        ) from None


def rows(content: Content) -> list[LocatedValue]:
    """Rows of a CSV file as mappings from column to text; empty cells are left out.

    DocumentError at the line that has more or fewer values than the header, or is no CSV.
    """
    names = header(content)
    if not names:
        raise content.error("this is no table", "name a CSV file with a header", 1)
    if len(set(names)) != len(names):
        raise content.error("a column is there twice", "remove one of them", 1)
    for number, (line, _) in enumerate(_filled(content, len(names))):
        if number > MOST_DOCUMENTS:  # before any is kept
            message = f"the table has more than {MOST_DOCUMENTS:,} rows"
            raise content.error(message, "save one row for each run", line)
    return [
        LocatedValue(
            {name: cell.strip() for name, cell in zip(names, cells, strict=True) if cell.strip()},
            f"{content.source}:{line}",
        )
        for line, cells in islice(_filled(content, len(names)), 1, None)
    ]


def _filled(content: Content, width: int) -> Iterator[tuple[int, list[str]]]:
    """Number and values of each line that has any, the header too, all of one width."""
    for line, cells in lines(content):
        blank = not any(cell.strip() for cell in cells)
        if len(cells) > width or (len(cells) < width and not blank):
            raise _ragged(content, line, len(cells), width)
        if not blank:
            yield line, cells


def _ragged(content: Content, line: int, have: int, want: int) -> DocumentError:
    last = line > content.text.count("\n")
    if last and have < want:
        hint = "copy the whole file again, or remove the line"
        return content.error("the last line is cut off", hint, line)
    return content.error(f"the line has {have} values, the header {want}", "check commas", line)


def bars(content: Content) -> list[LocatedValue]:
    """Rows of all Markdown tables of a text, as mappings from column to text.

    DocumentError at the line that has more or fewer cells than the header above it.
    """
    names: list[str] = []
    out = []
    for number, line in enumerate(content.lines(), 1):
        if not line.lstrip().startswith("|"):
            names = []
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not names:
            names = [cell.lower() for cell in cells]
        elif all(_RULE.fullmatch(cell) for cell in cells):
            continue
        elif len(cells) != len(names):
            raise _ragged(content, number, len(cells), len(names))
        else:
            value = {name: cell for name, cell in zip(names, cells, strict=True) if name and cell}
            out.append(LocatedValue(value, f"{content.source}:{number}"))
    return out
