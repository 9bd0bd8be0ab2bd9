"""What a section puts on the page: its facts, its figures, its tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from roofline.report.text import Amount

NO_UNIT: Final = "\N{NO-BREAK SPACE}"
"""Unit of a number that has none and stands in a column with those that have."""


@dataclass(frozen=True, slots=True)
class Key:
    """An entry of a figure's legend.

    Attributes
    ----------
    tint
        Colour of the theme.
    shape
        ``"square"``, ``"hatched"``, ``"crossed"``, ``"dotted"``, ``"open"``, ``"circle"``,
        ``"diamond"``, ``"star"``, ``"cross"``, ``"x"``, ``"triangle-up"``, ``"band"``,
        ``"stem"`` or ``"whisker"``.
    """

    text: str
    tint: str
    shape: str = "square"


@dataclass(frozen=True, slots=True)
class Figure:
    """A plotly figure as plain data.

    Attributes
    ----------
    key
        Identifier on the page; letters and dashes.
    title
        What is shown, in a few words.
    summary
        What a reader who cannot see it should know.
    spec
        ``data`` and ``layout``; colours are names of the theme, see `roofline.report.figures`.
    legend
        Set in HTML above the figure, where it wraps as text does.
    """

    key: str
    title: str
    summary: str
    spec: Mapping[str, Any]
    legend: tuple[Key, ...] = ()


@dataclass(frozen=True, slots=True)
class Head:
    """Head of a column.

    Attributes
    ----------
    text
        What the column holds.
    numeric
        Whether it is aligned as numbers.
    minor
        Whether paper can do without it.
    wide
        Whether it has sentences.
    short
        Whether it has names that stay on one line.
    """

    text: str
    numeric: bool = False
    minor: bool = False
    wide: bool = False
    short: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: text, a unit that is aligned by itself, and how it is meant.

    Attributes
    ----------
    tone
        ``""``, ``"good"``, ``"bad"``, ``"muted"``, ``"code"`` or ``"badge"``.
    """

    text: str
    unit: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Grid:
    """A table on the page; the first cell of a row names the row."""

    key: str
    caption: str
    heads: tuple[Head, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True)
class Block:
    """One section of the page.

    Attributes
    ----------
    key
        Anchor; letters and dashes.
    title
        Heading, also in the list of contents.
    template
        File under ``reports/templates/sections``.
    facts
        What the template shows, all of it text by now.
    figures, grids
        Drawn and printed by the template, by key.
    script
        File under ``reports`` that its controls need; empty for none.
    """

    key: str
    title: str
    template: str
    facts: Any = None
    figures: tuple[Figure, ...] = ()
    grids: tuple[Grid, ...] = ()
    script: str = ""


def cell(value: Amount, tone: str = "") -> Cell:
    """Cell of a number with a unit."""
    return Cell(value.number, value.unit, tone)


def heads(numbers: Sequence[str] = (), minor: Sequence[str] = (), **texts: str) -> tuple[Head, ...]:
    """Heads by key; keys in ``numbers`` are numeric, those in ``minor`` are left out on paper.

    >>> heads(numbers=["seconds"], op="Operator", seconds="Time")[1].numeric
    True
    """
    return tuple(Head(text, key in numbers, key in minor) for key, text in texts.items())
