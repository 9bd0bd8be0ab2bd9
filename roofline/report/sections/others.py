"""Tables that no other section shows, as they are."""

from collections.abc import Sequence
from typing import Final

from roofline.report.block import Block, Cell, Grid, Head
from roofline.report.text import clean
from roofline.report.words import cell, head, heading
from roofline.table import Column, Result, Table

ORDER: Final = 85

ELSEWHERE: Final = frozenset(
    {
        "assumptions",
        "batch_curve",
        "capacity",
        "figures",
        "headline",
        "kernels",
        "memory",
        "ops",
        "points",
        "roofs",
        "what_if",
    }
)
"""Tables that have a section of their own."""
PLANNED: Final = frozenset(
    {
        "verdict",
        "objectives",
        "lifts",
        "runners_up",
        "frontier",
        "bounds",
        "gpus_by_rate",
        "sensitivity",
    }
)
"""Those of a plan."""
EMPTY: Final = Column(())
MOST: Final = 200
"""Rows of a table that a page has room for."""


def grid(key: str, title: str, table: Table, names: Sequence[str] = (), most: int = MOST) -> Grid:
    """A table as it is, its first rows where it has very many.

    Parameters
    ----------
    key, title
        Anchor and caption.
    table
        What is shown.
    names
        Columns in their order; all if not stated. Those without a value are left out.
    most
        Rows at most. [1]
    """
    shown = list(table.rows())[:most]
    columns = {
        name: table.columns[name]
        for name in names or table.columns
        if any(value not in ("", None) for value in table.columns.get(name, EMPTY).values)
    }
    caption = title if len(table) <= most else f"{title}: the first {most:,} of {len(table):,} rows"
    return Grid(
        key,
        caption,
        tuple(head(name, column) for name, column in columns.items()),
        tuple(
            tuple(cell(name, row[name], column.unit) for name, column in columns.items())
            for row in shown
        ),
    )


def listing(key: str, title: str, table: Table) -> Grid:
    """The only row of a table, a line for each of its columns."""
    (row,) = table.rows()
    lines = (
        (Cell(clean(heading(name))), cell(name, row[name], column.unit))
        for name, column in table.columns.items()
        if row[name] not in ("", None)
    )
    return Grid(key, title, (Head("What"), Head("Value", numeric=True)), tuple(lines))


def build(result: Result) -> Block | None:
    """Section of the page."""
    elsewhere = ELSEWHERE | (PLANNED if "verdict" in result.tables else frozenset())
    grids = tuple(
        grid(f"table-{place}", clean(heading(name)), table)
        for place, (name, table) in enumerate(result.tables.items())
        if name not in elsewhere and len(table)
    )
    return Block("tables", "Tables", "folded.html", grids=grids) if grids else None
