"""Tables that no other section shows, as they are."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

from roofline.report.block import Block, Cell, Grid, Head
from roofline.report.text import clean, is_number
from roofline.report.words import cell, head, heading, is_share, spoken
from roofline.table import Column, Result, Table

ORDER: Final = 85

ELSEWHERE: Final = frozenset(
    {
        "assumptions",
        "batch_curve",
        "capacity",
        "factors",
        "objectives",
        "figures",
        "groups",
        "headline",
        "kernels",
        "memory",
        "ops",
        "points",
        "published_results",
        "reasons",
        "refused",
        "roofs",
        "scores",
        "static_batch",
        "summary",
        "what_if",
    }
)
"""Tables that have a section of their own."""
PLANNED: Final = frozenset(
    {
        "verdict",
        "relaxations",
        "confidences",
        "runners_up",
        "frontier",
        "bounds",
        "gpus_by_rate",
        "sensitivity",
    }
)
"""Those of a plan."""
EMPTY: Final = Column(())
INTERVAL: Final = "80\N{NO-BREAK SPACE}%"
MIXED: Final = frozenset({"value", "low", "high", "measured", "predicted", "without"})
"""Columns whose unit is that of their row, where rows have one."""
OF: Final = ("metric", "what", "part")
"""Columns that say what such a value is of."""
MOST: Final = 200
"""Rows of a table that a page has room for."""


def grid(key: str, title: str, table: Table, names: Sequence[str] = (), most: int = MOST) -> Grid:
    """A table as it is, its first rows where it has very many.

    Two columns that are the ends of an interval are shown as one.

    Args:
        key, title: Anchor and caption.
        table: What is shown.
        names: Columns in their order; all if not stated. Those without a value are left out.
        most: Rows at most. [1]
    """
    shown = list(islice(table.rows(), most))
    columns = _columns(table, names)
    highs = {low: high for low in columns if (high := _partner(low, columns))}
    points = {low for low, high in highs.items() if columns[low].values == columns[high].values}
    left_out = {*highs.values(), *points}
    kept = {name: column for name, column in columns.items() if name not in left_out}
    caption = title if len(table) <= most else f"{title}: the first {most:,} of {len(table):,} rows"
    return Grid(
        key,
        caption,
        tuple(
            Head(INTERVAL, numeric=True) if name in highs else head(name, column)
            for name, column in kept.items()
        ),
        tuple(
            tuple(
                _range(row, name, highs[name], column.unit)
                if name in highs
                else _cell(row, name, column.unit)
                for name, column in kept.items()
            )
            for row in shown
        ),
    )


def _columns(table: Table, names: Sequence[str]) -> dict[str, Column]:
    """Columns that have a value, without the unit of rows, which is said with each."""
    said = "unit" in table.columns and not MIXED.isdisjoint(table.columns)
    return {
        name: table.columns[name]
        for name in names or table.columns
        if any(value not in ("", None) for value in table.columns.get(name, EMPTY).values)
        and not (said and name == "unit")
    }


def _partner(low: str, columns: Mapping[str, Column]) -> str:
    """The column of the other end, where both ends are numbers; else empty.

    >>> _partner("ttft_low_s", {"ttft_low_s": Column((1.0,)), "ttft_high_s": Column((2.0,))})
    'ttft_high_s'
    """
    parts = low.split("_")
    if "low" not in parts:
        return ""
    high = "_".join("high" if part == "low" else part for part in parts)
    ends = (*columns[low].values, *columns.get(high, EMPTY).values)
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
        return Cell(clean(spoken(value, name)))
    if name not in MIXED or not is_number(value):
        return cell(name, value, unit)
    of = next((str(row[key]) for key in OF if row.get(key)), name)
    return cell(of if is_share(of) else name, value, str(row.get("unit") or unit))


def build(result: Result) -> Block | None:
    """Section of the page."""
    elsewhere = ELSEWHERE | (PLANNED if "verdict" in result.tables else frozenset())
    grids = tuple(
        grid(f"table-{place}", clean(heading(name)), table)
        for place, (name, table) in enumerate(result.tables.items())
        if name not in elsewhere and len(table)
    )
    return Block("tables", "Tables", "folded.html", grids=grids) if grids else None
