"""What a file holds, before it is known whose it is: documents of JSON, or lines of text."""

import gzip
import json
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from roofline.content import label
from roofline.errors import DocumentError
from roofline.interop.results.node import Node
from roofline.units import PREFIX

_JSON: Final = re.compile(r"\s*(?:\{|\[\s*(?:[\[{\]]|$))")
"""How JSON begins; a line of a log may begin with a bracket too."""
_SPACE: Final = re.compile(r"\s*+")
MOST_BYTES: Final = int(64 * PREFIX["Mi"])
"""Size of an unpacked file: one that keeps each request of a long run has tens of MiB. [B]"""
MOST_DOCUMENTS: Final = 100_000
"""JSON documents, one after the other, or rows of a table. [1]"""
LONGEST_HEADER: Final = 2**16
"""Characters of the first line of a table. [1]"""


@dataclass(frozen=True, slots=True)
class Content:
    """A file."""

    source: str
    """As it is shown."""
    text: str
    """All of it."""
    documents: tuple[Node, ...] | None
    """Of JSON, one or one a line; None where it is not JSON."""

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

    def records(self) -> list[Node]:
        """Every document, those in lists one by one."""
        out: list[Node] = []
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

    Raises:
        DocumentError: It cannot be read, is not UTF-8, is empty, or is JSON that is cut off.
    """
    source = label(path).encode("utf-8", "backslashreplace").decode("utf-8")
    text = _decoded(_bytes(path, source), source)
    if not text.strip():
        raise DocumentError(
            "the file is empty", hint="check that the benchmark ended before copying", where=source
        )
    documents = _documents(text, source) if _JSON.match(text) else None
    return Content(source, text, documents)


def _bytes(path: Path, source: str) -> bytes:
    try:
        with path.open("rb") as file:
            packed = path.suffix == ".gz"
            if not packed and path.stat().st_size > MOST_BYTES:
                raise _too_large(source)
            data = (gzip.GzipFile(fileobj=file) if packed else file).read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise _unreadable(source, "does not exist", "check the spelling of the path") from None
    except IsADirectoryError:
        raise _unreadable(source, "is a folder", "name the files in it") from None
    except PermissionError:
        raise _unreadable(
            source, "may not be read", "give yourself permission to read it"
        ) from None
    except (gzip.BadGzipFile, zlib.error, EOFError):
        raise _unreadable(source, "is not a whole gzip file", "copy it again") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _unreadable(source, f"cannot be read: {reason}", "check the path") from None
    if len(data) > MOST_BYTES:
        raise _too_large(source)
    return data


def _too_large(source: str) -> DocumentError:
    return _unreadable(
        source, f"is larger than {MOST_BYTES:,} bytes", "save it without single requests"
    )


def _unreadable(source: str, message: str, hint: str) -> DocumentError:
    return DocumentError(f"{source} {message}", hint=hint)


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


def _documents(text: str, source: str) -> tuple[Node, ...]:
    """One document, or several one after the other as appending clients write them."""
    decoder = json.JSONDecoder()
    found: list[Node] = []
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
        found.append(Node(value, f"{source}:{line}"))
        at = _skip(text, end)
    if len(found) == 1:
        return (Node(found[0].value, source),)
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
