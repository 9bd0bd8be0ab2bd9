"""Documents as they are read: plain data, the place of every value in its file, and the caps."""

import gc
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from msgspec import Struct

from roofline.errors import DocumentError, RooflineError
from roofline.units import PREFIX

_SHOWN_CHARACTERS: Final = 60

Spot: TypeAlias = "int | list[Spot]"
"""Offset of a value; for a list or mapping, a list that starts with its own and goes on with those
inside it, in a mapping in pairs: key, value. Tuples would cost a large document twice the time."""

MAX_BYTES: Final = int(PREFIX["Mi"])
MAX_DEPTH: Final = 32
MAX_NODES: Final = 100_000
MAX_DIGITS: Final = 64

# Nothing that people read has these: C0 except tab and line ends, DEL, C1, surrogates.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


class Mark(Struct, frozen=True):
    """Position in a text, as editors show it: both count from 1, columns count characters."""

    line: int
    column: int


class Text(Struct, frozen=True):
    """Content of a file, and the name it has for the user."""

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
    """Text that the data was read from, and the place in it."""

    def where(self, *path: str | int) -> str:
        """``file:line:column`` of the value at a path of keys and indices.

        A path that leads nowhere gives the last value on it.
        """
        return Text(self.text, self.source).where(self.offset(*path))

    def where_key(self, *path: str | int) -> str:
        """``file:line:column`` of the key at the end of a path; of the item in a list."""
        return Text(self.text, self.source).where(self._find(path)[0])

    @contextmanager
    def at(self, *path: str | int) -> Iterator[None]:
        """Tell errors the place they come from, unless they know a better one."""
        try:
            yield
        except RooflineError as error:
            where = error.where or self.where(*path)
            raise DocumentError(error.message, hint=error.hint, where=where) from None

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


class Builder:
    """Makes a document of keys and values as they come, within the caps.

    Data and places grow side by side on an explicit stack, so that depth costs no recursion.
    """

    __slots__ = (
        "_key", "_mapping", "_nodes", "_root", "_spots", "_stack", "_text", "_values", "wants_key",
    )  # fmt: skip

    def __init__(self, text: Text) -> None:
        self._text = text
        self._root: list[Spot] = []
        # Innermost container: where values go, where their places go, and what it is.
        self._values: Any = []
        self._spots: Any = self._root
        self._mapping = False
        self._key = ""
        self._stack: list[tuple[Any, Any, bool]] = []
        self._nodes = 0
        self.wants_key = False  # whether a key has to come next

    def add_key(self, key: str, at: int) -> None:
        """Take the key of the next value."""
        if key in self._values:
            first = self._text.mark(self._spots[1 + 2 * list(self._values).index(key)]).line
            message = f"the key {shown(key)} is here twice; the first is in line {first}"
            raise self._text.error(at, message, "remove or rename one of them")
        self._nodes += 1
        self._key = key
        self._spots.append(at)
        self.wants_key = False

    def add(self, value: object, at: int, inside: list[Spot] | None = None) -> None:
        """Take a value; a container comes with the list for the places inside it."""
        self._nodes += 1
        if self._nodes > MAX_NODES:
            message = f"the document has more than {MAX_NODES:,} keys and values"
            raise self._text.error(at, message, "split it, or pass the part needed")
        if self._mapping:
            self._values[self._key] = value
            self.wants_key = True
        else:
            self._values.append(value)
        self._spots.append(at if inside is None else inside)

    def open(self, at: int, *, mapping: bool) -> None:
        """Start a mapping or list, which takes what comes until it is closed."""
        if len(self._stack) >= MAX_DEPTH:
            message = f"lists and mappings are nested more than {MAX_DEPTH} deep"
            raise self._text.error(at, message, "flatten the document")
        inner: Any = {} if mapping else []
        inside: list[Spot] = [at]
        self.add(inner, at, inside)
        self._stack.append((self._values, self._spots, self._mapping))
        self._values, self._spots = inner, inside
        self._mapping = self.wants_key = mapping

    def close(self) -> None:
        """End the innermost mapping or list."""
        self._values, self._spots, self.wants_key = self._stack.pop()
        self._mapping = self.wants_key

    def document(self) -> Document:
        """Document of the one value taken outside all containers."""
        (data,) = self._values
        return Document(data, self._text.source, self._text.content, self._root[0])


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the garbage collector from walking, again and again, over values that all stay.

    A document at the caps takes a fifth less time.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def admit(content: str, source: str) -> Text:
    """Refuse a text that is too large or has characters nobody can see.

    A byte order mark at the start is dropped.

    Raises:
        DocumentError: At the character, or at the start of a text that is too large.
    """
    text = Text(content.removeprefix("\ufeff"), source)
    if len(content) > MAX_BYTES or (
        not content.isascii() and len(content.encode("utf-8", "surrogatepass")) > MAX_BYTES
    ):
        raise too_large(source)
    if found := _CONTROL.search(text.content):
        raise text.error(
            found.start(),
            f"the character U+{ord(found.group()):04X} is not allowed",
            "remove it; only printable characters, tabs and line ends are read",
        )
    return text


def too_large(source: str) -> DocumentError:
    """Error for a text beyond the cap on size."""
    message = f"the file is larger than {MAX_BYTES:,} bytes"
    return Text("", source).error(0, message, "split it, or pass the part needed")


def check_decoded(text: Text, at: int, value: str) -> None:
    """Refuse a text whose escapes make characters that cannot be shown."""
    if found := _CONTROL.search(value):
        raise text.error(
            at,
            f"the text contains the character U+{ord(found.group()):04X}",
            "remove its escape sequence; only printable characters, tabs and line ends are read",
        )


def check_digits(text: Text, at: int, number: str, base: int = 10) -> None:
    """Refuse a number that is written with too many digits; signs and points do not count."""
    if len(number) <= MAX_DIGITS:
        return
    digits = sum(map(str.isdigit, number)) if base == 10 else len(number) - len("0x")
    if digits > MAX_DIGITS:
        raise text.error(
            at,
            f"the number has more than {MAX_DIGITS} digits",
            "round it, or quote it if it is not a number",
        )


def not_finite(text: Text, at: int, written: str) -> DocumentError:
    """Error for a number that a float cannot hold."""
    return text.error(
        at,
        f"{shown(written)} is not a finite number",
        "write a number below 1.8e308, or quote it if it is text",
    )
