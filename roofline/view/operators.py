"""Every operator of a step with its counts and times."""

from typing import Any, Final

from roofline.table import Result
from roofline.view.block import NO_UNIT, Cell, Head, PageTable, number_cell
from roofline.view.grids import INTERVAL
from roofline.view.known import at_roof, calibrated, ends, inside
from roofline.view.text import UNKNOWN, amount, between, percent, plain

COLUMNS: Final = (
    ("op", "Operator", "", False),
    ("kind", "Kind", "text", True),
    ("repeat", "Times", "", False),
    ("seconds", "Time", "s", False),
    ("share", "Share", "share", False),
    ("bound", "Bound by", "text", False),
    ("flops", "FLOPs", "FLOP", False),
    ("hbm_bytes", "HBM bytes", "B", False),
    ("intensity", "Intensity", "FLOP/B", False),
    ("arithmetic", "Arithmetic", "text", True),
    ("compute_s", "At arithmetic roof", "s", True),
    ("memory_s", "At memory roof", "s", True),
    ("wire_s", "On the links", "s", True),
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
"""Key, head, unit and whether paper and terminals can do without it."""
LEAD: Final = ("op", "seconds", "share", "bound")
"""Columns that come first where times are predicted."""
KNOWN: Final = (
    ("low_s", INTERVAL, "interval", False),
    ("roof_s", "Datasheet floor", "s", True),
    ("roof", "Floor over time", "roof", False),
    ("basis", "Basis", "basis", True),
)
"""The same of a predicted time, after it; nothing is said of no overlap."""


def operator_grids(result: Result) -> tuple[PageTable, ...]:
    """A table for each phase, in the order of execution; none without operators."""
    table = result.tables.get("ops")
    if table is None or not len(table):
        return ()
    known = [column for column in COLUMNS if column[0] in table.columns]
    # A column of zeros says nothing: one device has no wires, and no algorithm for them.
    shown = [column for column in known if not column[2] or any(table[column[0]])]
    if calibrated(result):
        lead = [column for column in shown if column[0] in LEAD]
        rest = [column for column in shown if column[0] not in (*LEAD, "serial_s")]
        rest = [(*column[:3], column[3] or column[0] == "intensity") for column in rest]
        shown = [*lead[:2], *KNOWN, *lead[2:], *rest]
    rows = list(table.rows())
    return tuple(
        PageTable(
            f"operators-{place}",
            f"{phase.capitalize()}: operators of one step on one device, all repeats together",
            tuple(
                Head(text, unit not in ("text", "basis") and key != "op", minor)
                for key, text, unit, minor in shown
            ),
            tuple(
                tuple(_cell(row, key, unit) for key, _, unit, _ in shown)
                for row in rows
                if row["phase"] == phase
            ),
        )
        for place, phase in enumerate(dict.fromkeys(str(row["phase"]) for row in rows))
    )


def _cell(row: dict[str, Any], key: str, unit: str) -> Cell:
    if unit in ("interval", "roof", "basis"):
        return _known(row, unit)
    value = row[key]
    if unit == "text" or key == "op":
        return Cell(str(value) or UNKNOWN, tone="bound" if key == "bound" else "")
    if not value:
        return Cell(UNKNOWN, NO_UNIT if unit not in ("", "share") else "")
    if unit == "share":
        return Cell(percent(value))
    if not unit:
        return Cell(plain(value, 6))
    return number_cell(amount(value, unit))


def _known(row: dict[str, Any], what: str) -> Cell:
    """Basis, interval or datasheet share of a predicted time."""
    if what == "basis":
        if inside(row):
            return Cell("in the product", tone="muted")
        return Cell(row["basis"], tone="badge")
    if what == "roof":
        share = at_roof(row)
        return Cell(percent(share) if share else UNKNOWN)
    known = ends(row)
    if known is None:
        return Cell(UNKNOWN, NO_UNIT)
    return number_cell(between(*known, "s"))
