"""What the figures rest on, with the source of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from roofline.table import Result
from roofline.view.block import Block, Cell, Grid, heads
from roofline.view.known import calibrated
from roofline.view.text import UNKNOWN, amount, percent

ORDER: Final = 20
FEW: Final = 8
"""Rows that are not folded. [1]"""


@dataclass(frozen=True, slots=True)
class AssumptionFacts:
    """Keys of the tables that a reader unfolds, and how many rows each has."""

    folded: dict[str, int]


def _assumptions(key: str, title: str, rows: Sequence[Mapping[str, Any]]) -> Grid:
    return Grid(
        key,
        title,
        heads(what="What", value="Value", basis="Basis", source="Source and note"),
        tuple(
            (
                Cell(_what(str(row["what"]))),
                Cell(str(row["value"])),
                Cell(str(row["basis"]), tone="badge"),
                Cell(": ".join(str(row[key]) for key in ("source", "note") if row[key])),
            )
            for row in rows
        ),
    )


def _what(name: str) -> str:
    """An input in words; of a field of a file the last word is its path.

    >>> _what("h100-sxm price.per_hour"), _what("llama-3.1-8b d_model"), _what("prefix hit")
    ('h100-sxm price per hour', 'llama-3.1-8b d_model', 'prefix hit')
    """
    of, space, field = name.rpartition(" ")
    return f"{of}{space}{field.replace('.', ' ').replace('_', ' ') if '.' in field else field}"


def _kernels(result: Result) -> Grid:
    name = result.metadata.get("calibration")
    return Grid(
        "kernels-table",
        "Measured kernels that predict the times" + (f": calibration {name}" if name else ""),
        heads(
            numbers=["prefill", "decode"],
            kernel="Kernel",
            device="Measured on",
            basis="Basis",
            prefill="Of prefill",
            decode="Of decode",
            operators="Operators",
            source="Measurements and note",
        ),
        tuple(
            (
                Cell(f"{row['kernel']}, {row['of']}" if row["kernel"] else UNKNOWN),
                Cell(str(row["measured on"]) or UNKNOWN),
                Cell(str(row["basis"]), tone="badge"),
                Cell(percent(row["prefill"])),
                Cell(percent(row["decode"])),
                Cell(str(row["operators"])),
                Cell("; ".join(str(row[key]) for key in ("note", "source") if row[key])),
            )
            for row in result.tables["kernels"].rows()
        ),
    )


def _roofs(result: Result) -> Grid:
    return Grid(
        "roofs-table",
        "Datasheet rates of one device, the roofs"
        if calibrated(result)
        else "Rates of one device that the times are computed with",
        heads(
            numbers=["rate"], name="Roof", kind="Kind", rate="Rate", basis="Basis", source="Source"
        ),
        tuple(
            (
                Cell(str(row["name"])),
                Cell(str(row["kind"])),
                Cell(*_split(row["rate"], str(row["unit"]))),
                Cell(str(row["basis"]), tone="badge"),
                Cell(str(row["source"])),
            )
            for row in result.tables["roofs"].rows()
        ),
    )


def _split(value: object, unit: str) -> tuple[str, str]:
    shown = amount(value, unit, 4)
    return shown.number, shown.unit


def build(result: Result) -> Block | None:
    """Section of the page."""
    rows = list(result.tables["assumptions"].rows()) if "assumptions" in result.tables else []
    guesses = [row for row in rows if row["basis"] == "assumed"]
    grids = []
    if len(rows) > FEW and guesses:
        grids.append(_assumptions("assumed-table", "What nobody measured or published", guesses))
    if rows:
        title = "Inputs and where they come from"
        grids.append(_assumptions("assumptions-table", title, rows))
    if len(result.tables.get("kernels", ())):
        grids.append(_kernels(result))
    if len(result.tables.get("roofs", ())):
        grids.append(_roofs(result))
    if not grids:
        return None
    folded = {
        grid.key: len(grid.rows)
        for grid in grids
        if grid.key in ("assumptions-table", "kernels-table") and len(grid.rows) > FEW
    }
    facts = AssumptionFacts(folded)
    return Block("assumptions", "Assumptions", "assumptions.html", facts, grids=tuple(grids))
