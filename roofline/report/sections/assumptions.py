"""Inputs, kernels and rates that the figures rest on, with the source of each."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from roofline.table import Result
from roofline.view.block import Cell, PageTable, Section, number_cell
from roofline.view.grids import grid, percents
from roofline.view.known import calibrated
from roofline.view.text import UNKNOWN, amount

FEW: Final = 8
"""Rows that are not folded. [1]"""


def _joined(*names: str, by: str = "; ") -> Callable[[Mapping[str, Any]], Cell]:
    """Writer of what a row says in several columns."""
    return lambda row: Cell(by.join(str(row[name]) for name in names if row[name]))


def _what(name: str) -> str:
    """An input in words; of a field of a file the last word is its path.

    >>> _what("h100-sxm price.per_hour"), _what("llama-3.1-8b d_model"), _what("prefix hit")
    ('h100-sxm price per hour', 'llama-3.1-8b d_model', 'prefix hit')
    """
    of, space, field = name.rpartition(" ")
    return f"{of}{space}{field.replace('.', ' ').replace('_', ' ') if '.' in field else field}"


def _grids(result: Result) -> Iterator[PageTable]:
    given = {name: table for name, table in result.tables.items() if len(table)}
    if rows := given.get("assumptions"):
        made = partial(
            grid,
            table=rows,
            columns="what, value, basis, source=Source and note",
            most=len(rows),
            writers={
                "what": lambda row: Cell(_what(str(row["what"]))),
                "source": _joined("source", "note", by=": "),
            },
        )
        title = "What nobody measured or published"
        guesses = made("assumed-table", title, where=lambda row: row["basis"] == "assumed")
        if len(rows) > FEW and guesses.rows:
            yield guesses
        yield made("assumptions-table", "Inputs and where they come from")
    if kernels := given.get("kernels"):
        name = result.metadata.get("calibration")
        yield grid(
            "kernels-table",
            "Kernels that predict the times" + (f": calibration {name}" if name else ""),
            kernels,
            "kernel, measured on, basis, prefill=Of prefill, decode=Of decode, operators, "
            "source=Measurements and note",
            writers={
                "kernel": lambda row: Cell(
                    f"{row['kernel']}, {row['of']}" if row["kernel"] else UNKNOWN
                ),
                "measured on": lambda row: Cell(str(row["measured on"]) or UNKNOWN),
                **percents("prefill", "decode"),
                "source": _joined("note", "source"),
            },
        )
    if roofs := given.get("roofs"):
        title = "Datasheet rates of one device, the roofs"
        if not calibrated(result):
            title = "Rates of one device that the times are computed with"
        columns = "name=Roof, kind, rate, basis, source"
        yield grid(
            "roofs-table",
            title,
            roofs,
            columns,
            writers={"rate": lambda row: number_cell(amount(row["rate"], str(row["unit"]), 4))},
        )


def build(result: Result) -> Section | None:
    """Section of the page."""
    grids = tuple(_grids(result))
    if not grids:
        return None
    folded = {
        grid.key: len(grid.rows)
        for grid in grids
        if (grid.key in ("assumptions-table", "kernels-table") and len(grid.rows) > FEW)
        or (grid.key == "roofs-table" and calibrated(result))  # figures are not computed with it
    }
    return Section(20, "assumptions", "Assumptions", "assumptions.html", folded, grids=grids)
