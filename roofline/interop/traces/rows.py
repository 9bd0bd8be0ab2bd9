"""Recorded requests as columns, before they are requests: what every format is turned into."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofline.cost.work import Array
from roofline.errors import DocumentError
from roofline.interop.traces.lines import Line, cut_off, located
from roofline.serving.requests import MOST_TOKENS

Ints = NDArray[np.int64]
Texts = Mapping[str, Sequence[str]]
_SHOWN: Final = 40


@dataclass(frozen=True, slots=True)
class Rows:
    """Requests of some lines."""

    seconds: Array
    """When each came, from any origin. [s]"""
    prompt: Ints
    output: Ints
    """Tokens; a length of 0 where the service failed. [token]"""
    blocks: tuple[tuple[int, ...], ...] = ()
    """Ids of the whole blocks of each prompt; nothing where the format has none."""
    priority: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    after: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    think: Array = field(default_factory=lambda: np.zeros(0))
    """As in `Requests`, where the format has them."""


class Place:
    """Where the values of a chunk are in their file."""

    def __init__(self, source: str, read: Sequence[Line]) -> None:
        self.source = source
        self._read = read

    def error(self, row: int, message: str, hint: str) -> DocumentError:
        """Error at the line of a row; one that is cut off says so."""
        line = self._read[row]
        if not line.whole:
            return cut_off(self.source, line.number)
        return located(self.source, line.number, message, hint)


def numbers(texts: Texts, column: str, place: Place) -> Array:
    """Finite numbers of a column that are not negative.

    Raises:
        DocumentError: At the first line that has another.
    """
    column_texts = texts[column]
    try:
        made: Array = np.array(column_texts, dtype=np.float64)
    except ValueError:
        row = next(row for row, text in enumerate(column_texts) if not _is_number(text))
        raise place.error(
            row,
            f"{column} is {column_texts[row][:_SHOWN]!r}, which is no number",
            "write a number, with a point where it has decimals",
        ) from None
    _refuse(~np.isfinite(made), column, column_texts, place, "not finite")
    _refuse(made < 0, column, column_texts, place, "negative")
    return made


def tokens(texts: Texts, column: str, place: Place, *, least: int = 1) -> Ints:
    """Whole numbers of tokens of a column.

    Raises:
        DocumentError: At the first line that has none.
    """
    made = numbers(texts, column, place)
    _refuse(made != np.floor(made), column, texts[column], place, "not a whole number")
    _refuse(made < least, column, texts[column], place, f"less than {least}")
    _refuse(made > MOST_TOKENS, column, texts[column], place, f"more than {MOST_TOKENS:,}")
    return made.astype(np.int64)


def _is_number(text: str) -> bool:
    try:
        np.array([text], dtype=np.float64)
    except ValueError:
        return False
    return True


def _refuse(
    wrong: NDArray[np.bool_], column: str, texts: Sequence[str], place: Place, said: str
) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        raise place.error(
            row,
            f"{column} is {texts[row][:_SHOWN]!r}, which is {said}",
            "correct the line, or remove it",
        )
