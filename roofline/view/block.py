"""Parts of an answer before it is written: figures, tables, cards, and the section of a page."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, overload

from msgspec import Struct

from roofline.view.text import Amount

NO_UNIT: Final = "\N{NO-BREAK SPACE}"
"""Unit of a number that has none and stands in a column with those that have."""


class Key(Struct, frozen=True):
    """An entry of a figure's legend."""

    text: str
    tint: str
    """Colour of the theme."""
    shape: str = "square"
    """``"square"``, ``"hatched"``, ``"crossed"``, ``"dotted"``, ``"open"``, ``"circle"``,
    ``"diamond"``, ``"star"``, ``"cross"``, ``"x"``, ``"triangle-up"``, ``"band"``,
    ``"stem"``, ``"whisker"``, ``"line"``, ``"dash"`` or ``"dot"``."""
    soft: bool = False
    """True where its points are drawn as a ring around a lighter inside."""


class Figure(Struct, frozen=True):
    """A plotly figure as plain data."""

    key: str
    """Identifier on the page; letters and dashes."""
    title: str
    """Title, a few words."""
    summary: str
    """Sentences for a reader who cannot see it."""
    spec: Mapping[str, Any]
    """``data`` and ``layout``; colours are names of the theme, see `roofline.report.figures`."""
    legend: tuple[Key, ...] = ()
    """Set in HTML above the figure, where it wraps as text does."""


class Head(Struct, frozen=True):
    """Head of a column."""

    text: str
    """Name of the column."""
    numeric: bool = False
    """True where it is aligned as numbers."""
    minor: bool = False
    """True where paper can do without it."""
    wide: bool = False
    """True where it has sentences."""
    short: bool = False
    """True where it has names that stay on one line."""


class Cell(Struct, frozen=True):
    """One cell: text, a unit that is aligned by itself, and how it is meant."""

    text: str
    unit: str = ""
    tone: str = ""
    """``""``, ``"good"``, ``"bad"``, ``"muted"``, ``"code"`` or ``"badge"``."""


class TableRows(Sequence[tuple[Cell, ...]]):
    """Rows of a table, written when they are looked at: a terminal shows few of many.

    Args:
        rows: Values by column.
        write: A cell of a row, for each column.
    """

    def __init__(
        self,
        rows: Sequence[Mapping[str, Any]],
        write: Sequence[Callable[[Mapping[str, Any]], Cell]],
    ) -> None:
        self._rows, self._write = rows, write

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, at: int) -> tuple[Cell, ...]: ...

    @overload
    def __getitem__(self, at: slice) -> "TableRows": ...

    def __getitem__(self, at: int | slice) -> "tuple[Cell, ...] | TableRows":
        if isinstance(at, slice):
            return TableRows(self._rows[at], self._write)
        row = self._rows[at]
        return tuple(write(row) for write in self._write)


class PageTable(Struct, frozen=True):
    """A table on the page; the first cell of a row names the row."""

    key: str
    caption: str
    heads: tuple[Head, ...]
    rows: Sequence[tuple[Cell, ...]]
    few: int = 0
    """Rows that a terminal prints; 0 for all. [1]"""


class Card(Struct, frozen=True):
    """A figure that people ask for first, the interval where there is one, and a line or two."""

    name: str
    value: Amount
    interval: Amount | None
    said: tuple[str, ...] = ()
    basis: str = ""
    explained: str = ""
    """Key of its derivation; empty if there is none."""


class Verdict(Struct, frozen=True):
    """Answer in short: a line, sentences and cards."""

    status: str
    """The answer in a line; empty where there is none."""
    good: bool
    sentences: tuple[str, ...] = ()
    cards: tuple[Card, ...] = ()
    at: str = ""
    """Numbers that the status is of."""
    known: tuple[str, str] = ("", "")
    """Basis of the figures, and its meaning."""
    deployed: tuple[tuple[str, str], ...] = ()
    """Names and values of what else is known of a deployment."""
    asked: tuple[str, ...] = ()
    """Question in words, where it stands below the answer."""


class Section(Struct, frozen=True):
    """One section of the page."""

    order: int
    """Place on the page, the first least."""
    key: str
    """Anchor; letters and dashes."""
    title: str
    """Heading, also in the list of contents."""
    template: str
    """File under ``reports/templates/sections``."""
    facts: Any = None
    """Content of the template, all of it text by now."""
    figures: tuple[Figure, ...] = ()
    grids: tuple[PageTable, ...] = ()
    """Drawn and printed by the template, by key."""
    script: str = ""
    """File under ``reports`` that its controls need; empty for none."""


def number_cell(value: Amount, tone: str = "") -> Cell:
    """Cell of a number with a unit."""
    return Cell(value.number, value.unit, tone)
