"""What both readers share: the caps, what a text may contain, and how values become a document."""

import re
from typing import Any, Final

from roofline.errors import DocumentError
from roofline.schema.document import Document, Place, Text, shown
from roofline.units import PREFIX

MAX_BYTES: Final = int(PREFIX["Mi"])
MAX_DEPTH: Final = 32
MAX_NODES: Final = 100_000
MAX_DIGITS: Final = 64

# Nothing that people read has these: C0 except tab and line ends, DEL, C1, surrogates.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


class Builder:
    """Makes a document of keys and values as they come, within the caps.

    Data and places grow side by side on an explicit stack, so that depth costs no recursion.
    """

    __slots__ = ("_key", "_key_at", "_nodes", "_places", "_spots", "_stack", "_text", "_values")

    def __init__(self, text: Text) -> None:
        self._text = text
        self._places: list[Place] = []
        # Innermost container: where values go, where places go, the key that waits for its value.
        self._values: Any = []
        self._spots: Any = self._places
        self._key: str | None = None
        self._key_at = 0
        self._stack: list[tuple[Any, Any]] = []
        self._nodes = 0

    @property
    def wants_key(self) -> bool:
        """Whether a key has to come next."""
        return self._key is None and type(self._values) is dict

    def add_key(self, key: str, at: int) -> None:
        """Take the key of the next value."""
        if key in self._values:
            first = self._text.mark(self._spots[key][0]).line
            message = f"the key {shown(key)} is here twice; the first is in line {first}"
            raise self._text.error(at, message, "remove or rename one of them")
        self._key, self._key_at = key, at
        self._nodes += 1

    def add(self, value: object, at: int, inside: Any = None) -> None:
        """Take a value, and places inside it."""
        self._nodes += 1
        if self._nodes > MAX_NODES:
            message = f"the document has more than {MAX_NODES:,} keys and values"
            raise self._text.error(at, message, "split it, or pass the part needed")
        key = self._key
        if key is None:
            self._values.append(value)
            self._spots.append((at, at, inside))
        else:
            self._values[key] = value
            self._spots[key] = (self._key_at, at, inside)
            self._key = None

    def open(self, at: int, *, mapping: bool) -> None:
        """Start a mapping or list, which takes what comes until it is closed."""
        if len(self._stack) >= MAX_DEPTH:
            message = f"lists and mappings are nested more than {MAX_DEPTH} deep"
            raise self._text.error(at, message, "flatten the document")
        inner: Any = {} if mapping else []
        inside: Any = {} if mapping else []
        self.add(inner, at, inside)
        self._stack.append((self._values, self._spots))
        self._values, self._spots = inner, inside

    def close(self) -> None:
        """End the innermost mapping or list."""
        self._values, self._spots = self._stack.pop()

    def document(self) -> Document:
        """Document of the one value taken outside all containers."""
        (data,) = self._values
        return Document(data, self._text.source, self._text.content, self._places[0])


def admit(content: str, source: str) -> Text:
    """Refuse a text that is too large or has characters nobody can see.

    A byte order mark at the start is dropped.

    Raises
    ------
    DocumentError
        At the character, or at the start of a text that is too large.
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


def check_digits(text: Text, at: int, number: str) -> None:
    """Refuse a number that is written with too many digits; signs, points and ``e`` do not count."""
    if sum(map(str.isdigit, number)) > MAX_DIGITS:
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
