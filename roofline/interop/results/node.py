"""Values of a file with the place of each, so that every refusal says where."""

import math
import re
from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

from roofline.errors import DocumentError

_SHOWN: Final = 40
_THOUSANDS: Final = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
MOST: Final = 2.0**53
LEAST: Final = 1 / MOST
"""Nothing that is measured is beyond these; a float would round larger counts."""


class LocatedValue(Struct, frozen=True):
    """A value, and where it is."""

    value: Any
    """Plain data."""
    source: str
    """The file as it is shown, with the line of its document where there are several."""
    path: str = ""
    """Keys that lead to it, ``benchmarks[0].metrics``; empty for the whole document."""

    @property
    def where(self) -> str:
        """File, line and path."""
        return f"{self.source}: {self.path:.200}" if self.path else self.source

    def error(self, message: str, hint: str) -> DocumentError:
        """Error at this value."""
        return DocumentError(message, hint=hint, where=self.where)

    def get(self, *keys: str) -> "LocatedValue | None":
        """Value at a path of keys; None where there is none, or it is null."""
        node = self
        for key in keys:
            if not isinstance(node.value, dict) or node.value.get(key) is None:
                return None
            path = f"{node.path}.{key}" if node.path else key
            node = LocatedValue(node.value[key], self.source, path)
        return node

    def at(self, *keys: str) -> "LocatedValue":
        """Value at a path of keys; DocumentError where there is none."""
        found = self.get(*keys)
        if found is None:
            hint = "check that the benchmark ended and the file is whole; `format_` forces a format"
            raise self.error(f"{'.'.join(keys)} is missing", hint)
        return found

    def names(self) -> list[str]:
        """Keys of a mapping; DocumentError where it is none."""
        if not isinstance(self.value, dict):
            raise self.error(f"{self._shown()} is no mapping", "check that the file is whole")
        return list(self.value)

    def items(self) -> "Iterator[LocatedValue]":
        """Items of a list; DocumentError where it is none."""
        if not isinstance(self.value, list):
            raise self.error(f"{self._shown()} is no list", "check that the file is whole")
        for place, value in enumerate(self.value):
            yield LocatedValue(value, self.source, f"{self.path}[{place}]")

    def number(self) -> float:
        """A number of 0 or more, which text may spell; DocumentError where it is none."""
        value = self.value
        if isinstance(value, str):
            value = _spelled(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(
                f"{self._shown()} is no number", "check the file; null is read as not measured"
            )
        if isinstance(value, float) and not math.isfinite(value):
            raise self.error(f"{self._shown()} is not finite", "no request was measured: run again")
        if value < 0:
            raise self.error(f"{self._shown()} is negative", "check the file")
        if value and not LEAST < value < MOST:
            raise self.error(f"{self._shown()} is beyond all measure", "check the file")
        return float(value)

    def count(self) -> int:
        """A whole number of 0 or more; DocumentError where it is none."""
        number = self.number()
        if number != int(number):
            raise self.error(f"{self._shown()} is no whole number", "check the file")
        return int(number)

    def text(self) -> str:
        """Text without what is around it; DocumentError where it is none."""
        if not isinstance(self.value, str):
            raise self.error(f"{self._shown()} is no text", "check the file")
        return self.value.strip()

    def _shown(self) -> str:
        match self.value:
            case dict():
                return "a mapping"
            case list():
                return "a list"
            case _:
                text = repr(self.value)
                return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _spelled(text: str) -> float | None:
    """Number that a text spells; commas are between thousands, never before decimals.

    >>> _spelled("1,100.50"), _spelled("1,5"), _spelled("soon")
    (1100.5, None, None)
    """
    bare = text.replace(",", "") if _THOUSANDS.fullmatch(text.strip()) else text
    try:
        return float(bare)
    except ValueError:
        return None


def count(node: LocatedValue | None, *keys: str) -> int | None:
    """A whole number above 0 at a path, None where there is none."""
    found = node.get(*keys) if node else None
    return None if found is None else found.count() or None


def number(node: LocatedValue | None, *keys: str) -> float | None:
    """A number above 0 at a path, None where there is none."""
    found = node.get(*keys) if node else None
    return None if found is None else found.number() or None


def text(node: LocatedValue | None, *keys: str) -> str:
    """Text at a path, empty where there is none or it says that there is none."""
    found = node.get(*keys) if node else None
    said = "" if found is None else found.text()
    return "" if said.lower() in ("none", "null", "n/a") else said
