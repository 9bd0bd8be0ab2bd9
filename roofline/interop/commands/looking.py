"""Values of a document that others wrote: of the kind that is expected, or refused."""

from typing import Any, Final

from roofline.errors import DocumentError
from roofline.schema.document import Document, Text, shown

Path = tuple[str | int, ...]
MOST: Final = 2**20
"""Largest number of replicas that is believed. [1]"""


def mapping(document: Document, *path: str | int) -> dict[str, Any]:
    """A mapping; an empty one where nothing is. DocumentError where something else is."""
    value = _value(document, path)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise fault(document, path, f"{shown(value)} is no mapping", "write key: value")
    return value


def items(document: Document, *path: str | int) -> list[Any]:
    """A list; an empty one where nothing is. DocumentError where something else is."""
    value = _value(document, path)
    if value is None:
        return []
    if not isinstance(value, list):
        raise fault(document, path, f"{shown(value)} is no list", "write - item")
    return value


def text(document: Document, *path: str | int) -> str:
    """Text, or a number as it is written; empty where nothing is. DocumentError for the rest."""
    value = _value(document, path)
    if isinstance(value, (dict, list)):
        raise fault(document, path, f"{shown(value)} is no text", "write one value, in quotes")
    return "" if value is None else str(value)


def count(document: Document, *path: str | int) -> int:
    """A whole number of 1 or more; 1 where nothing is. DocumentError for something else. [1]"""
    value = _value(document, path)
    if value is None:
        return 1
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise fault(
            document, path, f"{shown(value)} is no number of 1 or more", "write a whole number"
        )
    if value > MOST:
        raise fault(document, path, f"more than {MOST:,} of it", "write a smaller number")
    return value


def fault(document: Document, path: Path, message: str, hint: str) -> DocumentError:
    """An error that is located at a value."""
    source = Text(document.text, document.source)
    return source.error(document.offset(*path), message, hint)


def _value(document: Document, path: Path) -> Any:
    value = document.data
    for step in path:
        inside = isinstance(value, dict) and step in value
        inside = inside or (isinstance(value, list) and step in range(len(value)))
        if not inside:
            return None
        value = value[step]
    return value
