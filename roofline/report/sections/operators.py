"""Every operator with its counts and times."""

from typing import Any, Final

from roofline.report.block import Block, Cell, Grid, Head, cell
from roofline.report.text import UNKNOWN, amount, percent, plain
from roofline.table import Result

ORDER: Final = 80

COLUMNS: Final = (
    ("op", "Operator", "", False),
    ("kind", "Kind", "text", True),
    ("repeat", "Repeats", "", True),
    ("seconds", "Time", "s", False),
    ("share", "Share", "share", False),
    ("bound", "Bound by", "text", False),
    ("flops", "FLOPs", "FLOP", False),
    ("hbm_bytes", "HBM bytes", "B", False),
    ("intensity", "Intensity", "FLOP/B", False),
    ("arithmetic", "Arithmetic", "text", True),
    ("compute_s", "At arithmetic roof", "s", True),
    ("memory_s", "At memory roof", "s", True),
    ("wire_s", "On the wires", "s", True),
    ("algorithm", "Algorithm", "text", True),
    ("host_s", "Loading", "s", True),
    ("serial_s", "No overlap", "s", False),
    ("weight_bytes", "Weights", "B", True),
    ("activation_bytes", "Activations", "B", True),
    ("kv_bytes", "KV cache", "B", True),
    ("wire_bytes", "Sent", "B", True),
    ("network_bytes", "Sent out of the node", "B", True),
    ("host_bytes", "Loaded", "B", True),
)
"""Key, head, unit and whether paper can do without it."""


def operator_grids(result: Result) -> tuple[Grid, ...]:
    """A table for each phase, in the order of execution."""
    table = result.tables["ops"]
    known = [column for column in COLUMNS if column[0] in table.columns]
    # A column of zeros says nothing: one device has no wires, and no algorithm for them.
    shown = [column for column in known if not column[2] or any(table[column[0]])]
    rows = list(table.rows())
    return tuple(
        Grid(
            f"operators-{place}",
            f"{phase.capitalize()}: operators of one step on one device, all repeats together",
            tuple(
                Head(text, unit != "text" and key != "op", minor)
                for key, text, unit, minor in shown
            ),
            tuple(
                tuple(_cell(row[key], key, unit) for key, _, unit, _ in shown)
                for row in rows
                if row["phase"] == phase
            ),
        )
        for place, phase in enumerate(dict.fromkeys(str(row["phase"]) for row in rows))
    )


def _cell(value: Any, key: str, unit: str) -> Cell:
    if unit == "text" or key == "op":
        return Cell(str(value) or UNKNOWN, tone="bound" if key == "bound" else "")
    if not value:
        return Cell(UNKNOWN, "\N{NO-BREAK SPACE}" if unit not in ("", "share") else "")
    if unit == "share":
        return Cell(percent(value))
    if not unit:
        return Cell(plain(value, 6))
    return cell(amount(value, unit))


def build(result: Result) -> Block | None:
    """Section of the page."""
    if "ops" not in result.tables or not len(result.tables["ops"]):
        return None
    return Block("operators", "Operators", "grids.html", grids=operator_grids(result))
