"""A document that was read: plain data, and the place of every value in its file."""

import json
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from roofline.errors import DocumentError

_SHOWN_CHARACTERS: Final = 60

Spot: TypeAlias = "int | list[Spot]"
"""Offset of a value; for a list or mapping, a list that starts with its own and goes on with those
inside it, in a mapping in pairs: key, value. Tuples would cost a large document twice the time."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Position in a text, as editors show it: both count from 1, columns count characters."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Text:
    """What a file says, and the name it has for the user."""

    content: str
    source: str

    def mark(self, offset: int) -> Mark:
        r"""Line and column of a character; lines end with ``\n``, ``\r\n`` or ``\r``."""
        content = self.content
        pairs = content.count("\r\n", 0, offset)
        breaks = content.count("\n", 0, offset) + content.count("\r", 0, offset) - pairs
        start = max(content.rfind("\n", 0, offset), content.rfind("\r", 0, offset)) + 1
        return Mark(breaks + 1, offset - start + 1)

    def where(self, offset: int) -> str:
        """``file:line:column`` of a character."""
        mark = self.mark(offset)
        return f"{self.source}:{mark.line}:{mark.column}"

    def error(self, offset: int, message: str, hint: str) -> DocumentError:
        """Error located at a character."""
        return DocumentError(message, hint=hint, where=self.where(offset))


@dataclass(frozen=True, slots=True)
class Document:
    """Content of one file."""

    data: Any
    """Dictionaries with text keys, lists, text, numbers, truth values and None. Not to be
    changed."""
    source: str
    """Path, as shown to the user."""
    text: str = field(default="", repr=False, compare=False)
    spot: Spot = field(default=0, repr=False, compare=False)
    """What the data was read from, and where in it."""

    def where(self, *path: str | int) -> str:
        """``file:line:column`` of the value at a path of keys and indices.

        A path that leads nowhere gives the last value on it.
        """
        return Text(self.text, self.source).where(self.offset(*path))

    def where_key(self, *path: str | int) -> str:
        """``file:line:column`` of the key at the end of a path; of the item in a list."""
        return Text(self.text, self.source).where(self._find(path)[0])

    def offset(self, *path: str | int) -> int:
        """Characters before the value at a path. [1]"""
        return self._find(path)[1]

    def _find(self, path: tuple[str | int, ...]) -> tuple[int, int]:
        """Offsets of the key and the value; the key of an item in a list is the item."""
        data, spot = self.data, self.spot
        key_at = at = _start(spot)
        for step in path:
            if isinstance(spot, int):
                break
            if isinstance(data, dict) and step in data:
                index = 1 + 2 * list(data).index(step)
                key, spot = spot[index], spot[index + 1]
            elif isinstance(data, list) and isinstance(step, int) and 0 <= step < len(data):
                key = spot = spot[1 + step]
            else:
                break
            data = data[step]
            key_at, at = _start(key), _start(spot)
        return key_at, at


def _start(spot: Spot) -> int:
    while not isinstance(spot, int):
        spot = spot[0]
    return spot


def shown(value: object) -> str:
    """Value as a message quotes it: short, on one line, without control characters.

    >>> shown("8")
    "'8'"
    >>> shown({"a": 1}), shown(None), shown(True)
    ('a mapping', 'nothing', 'true')
    """
    match value:
        case None:
            return "nothing"
        case dict():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case bool():
            return json.dumps(value)
        case str() if len(value) > _SHOWN_CHARACTERS:
            return repr(value[:_SHOWN_CHARACTERS] + "…")
        case _:
            return repr(value)
