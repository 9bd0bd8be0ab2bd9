"""A document that was read: plain data, and the place of every value in its file."""

import json
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from roofline.errors import DocumentError

_SHOWN_CHARACTERS: Final = 60

Place: TypeAlias = "tuple[int, int, dict[str, Place] | list[Place] | None]"
"""Offset of the key (of the value where there is no key), of the value, and places inside it."""


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
    """Content of one file.

    Attributes
    ----------
    data
        Dictionaries with text keys, lists, text, numbers, truth values and None. Not to be changed.
    source
        Path, as shown to the user.
    text, place
        What the data was read from, and where in it.
    """

    data: Any
    source: str
    text: str = field(default="", repr=False, compare=False)
    place: Place = field(default=(0, 0, None), repr=False, compare=False)

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

    def _find(self, path: tuple[str | int, ...]) -> Place:
        place: Any = self.place
        for step in path:
            inside = place[2]
            in_mapping = isinstance(inside, dict) and isinstance(step, str) and step in inside
            in_list = isinstance(inside, list) and isinstance(step, int) and step < len(inside)
            if not (in_mapping or in_list):
                break
            place = inside[step]
        found: Place = place
        return found


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
