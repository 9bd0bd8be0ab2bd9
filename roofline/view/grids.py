"""A table as text: heads of columns, cells with their units, intervals in one column."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from roofline.records import replace
from roofline.table import Column, Table
from roofline.view.block import NO_UNIT, Cell, Head, PageTable, TableRows, number_cell
from roofline.view.text import UNKNOWN, amount, clean, is_number, percent
from roofline.view.words import cell, head, spoken

EMPTY: Final = Column(())
INTERVAL: Final = "80\N{NO-BREAK SPACE}%"
MIXED: Final = frozenset(
    {"value", "low", "high", "serial", "roof", "without", "measured", "predicted", "rate"}
    | {"shipped", "learnt"}
)
"""Columns whose unit is that of their row, where rows have one."""
OF: Final = ("metric", "what", "part")
"""Columns that say what such a value is of."""
DEVICE: Final = frozenset({"pool_bytes"})
"""Metrics that are a part of device memory, which is sold in powers of two."""
NONE: Final = frozenset({"tpot_s", "user_tok_s"})
"""Metrics of which 0 says that there is none: one token has no time between tokens."""
FLAGS: Final = frozenset({"asked", "best", "chosen"})
"""Columns that mark rows by their own name."""
SHORT: Final = re.compile(r"-?\d{1,2}(?:\.\d)?|-?0\.\d+")
"""Numbers that may have fewer digits than others of their column."""
DIGITS: Final = 3
WHOLE: Final = 100
"""Digits of a number, and numbers from which on they are written without a point. [1]"""
MOST: Final = 200
"""Rows of a table that a page has room for. [1]"""

Writers = Mapping[str, Callable[[Mapping[str, Any]], Cell]]
"""Cells of a row in columns that are written in their own way."""


def grid(
    key: str,
    title: str,
    table: Table,
    columns: str = "",
    *,
    few: int = 0,
    most: int = MOST,
    where: Callable[[Mapping[str, Any]], object] | None = None,
    writers: Writers | None = None,
) -> PageTable:
    """A table as text, its first rows where it has very many.

    Two columns that are the ends of an interval are shown as one.

    Args:
        key, title: Anchor and caption.
        table: What is shown.
        columns: Names with commas between; all if empty. Those without a value are left out.
            ``name=Head`` has another head, ``name?`` is left out where all rows say the same, and
            paper and terminals do without those behind ``|``, of which ``*`` is all others.
        few, most: Rows that a terminal (0 for all) and a page have room for. [1]
        where: Whether a row is shown; None for all of them.
        writers: Columns, of the table or made of others, that are written in their own way.
    """
    given, own = table.columns, writers or {}
    rows = [row for row in table.rows() if where is None or where(row)]
    mixed = "unit" in given and not MIXED.isdisjoint(given)
    every = ", ".join(name for name in given if name != "unit" or not mixed)
    asked, _, rest = (columns or every).partition(" | ")
    minor = [part for part in rest.replace("*", every).split(", ") if part]
    heads: list[Head] = []
    write: list[Callable[[Mapping[str, Any]], Cell]] = []
    taken: set[str] = set()
    for less, part in [(False, part) for part in asked.split(", ")] + [(True, p) for p in minor]:
        name, _, said = part.partition("=")
        bare = name.removesuffix("?")
        column, high = given.get(bare, EMPTY), _partner(bare, given)
        values = (str(row[bare]) for row in rows if row.get(bare) not in ("", None))
        first = next(values, None)
        silent = first is None or (bare != name and all(value == first for value in values))
        if bare in taken or (silent and bare not in own):
            continue
        taken |= {bare, *([] if bare in own else [high])}
        if high and bare not in own:
            if column.values != given[high].values:
                heads.append(Head(said or INTERVAL, numeric=True, minor=less))
                write.append(partial(_range, low=bare, high=high, unit=column.unit))
            continue
        shape = head(bare, column)
        exact = bare not in MIXED and any(_broken(row.get(bare)) for row in rows)
        words = said or ("" if bare in FLAGS else shape.text)
        heads.append(replace(shape, text=words, minor=less))
        plain = partial(_cell, name=bare, unit=column.unit)
        write.append(own.get(bare) or (partial(_padded, write=plain) if exact else plain))
    caption = title if len(rows) <= most else f"{title}: the first {most:,} of {len(rows):,} rows"
    return PageTable(key, caption, tuple(heads), TableRows(rows[:most], write), few)


def _broken(value: object) -> bool:
    """True for a small number that is no whole one."""
    return is_number(value) and abs(value) < WHOLE and value != round(value)


def _padded(row: Mapping[str, Any], write: Callable[[Mapping[str, Any]], Cell]) -> Cell:
    """A cell of a column with broken numbers: whole ones have as many digits, 10.0 beside 8.02.

    >>> _padded({}, lambda _: Cell("23")).text, _padded({}, lambda _: Cell("1,530")).text
    ('23.0', '1,530')
    """
    cell = write(row)
    if not SHORT.fullmatch(cell.text) or float(cell.text) == 0.0:
        return cell
    return replace(cell, text=f"{float(cell.text):#.{DIGITS}g}".removesuffix("."))


def percents(*names: str) -> Writers:
    """Writers of columns of shares that are not named like ones."""

    def written(row: Mapping[str, Any], name: str) -> Cell:
        return Cell(percent(row[name]))

    return {name: partial(written, name=name) for name in names}


def _partner(low: str, columns: Mapping[str, Column]) -> str:
    """The column of the other end, where both ends are numbers; else empty.

    >>> _partner("ttft_low_s", {"ttft_low_s": Column((1.0,)), "ttft_high_s": Column((2.0,))})
    'ttft_high_s'
    """
    parts = low.split("_")
    if "low" not in parts:
        return ""
    high = "_".join("high" if part == "low" else part for part in parts)
    ends = (*columns.get(low, EMPTY).values, *columns.get(high, EMPTY).values)
    numeric = all(value is None or is_number(value) for value in ends)
    return high if high in columns and numeric else ""


def _range(row: Mapping[str, Any], low: str, high: str, unit: str) -> Cell:
    """An interval in one cell; nothing where both ends are the same."""
    ends = row[low], row[high]
    if not (is_number(ends[0]) and is_number(ends[1]) and ends[0] < ends[1]):
        return Cell("")
    first, last = (_cell(row, name, unit) for name in (low, high))
    same = first.unit == last.unit
    start = first.text if same or not first.unit else f"{first.text}\N{NO-BREAK SPACE}{first.unit}"
    return Cell(f"{start} – {last.text.removeprefix('$')}", last.unit, "muted")


def _cell(row: Mapping[str, Any], name: str, unit: str) -> Cell:
    """A value, read as its row says where that says it: by a unit, or by what it is of."""
    value = row[name]
    if isinstance(value, str):
        tone = "badge" if name == "basis" else name if name == "bound" else ""
        return Cell(clean(spoken(value, name)) or UNKNOWN * bool(tone), tone=tone)
    if name == "fits":
        return Cell("fits", tone="good") if value else Cell("does not fit", tone="bad")
    if name in FLAGS:
        return Cell(name if value else "")
    if name not in MIXED or not is_number(value):
        return cell(name, value, unit)
    of = next((str(row[key]) for key in OF if row.get(key)), name)
    unit = str(row.get("unit") or unit).removeprefix("1")
    if of in NONE and not value:
        return Cell(UNKNOWN, NO_UNIT)
    if unit == "B" and of not in DEVICE:  # what is moved is counted in powers of ten
        return number_cell(amount(value, unit))
    return cell(of if unit == "" else name, value, unit)
