"""Which measured kernels price a static batch, and what no measurement covers."""

from collections.abc import Mapping
from typing import Any, Final

from roofline.cost.calibration.kernel import Found
from roofline.cost.measured import Measured
from roofline.serving.explain.parts import worst
from roofline.serving.static import OpTime, StaticBatch
from roofline.table import Table, table

SOFTWARE: Final = "scheduling, sampling, launches: fitted to serving measured end to end"
UNMEASURED: Final = "nothing like it was measured: the least that published rates allow"
SHARED: Final = "its time is in the kernel of another operator"
COLUMNS: Final = (
    "kernel",
    "of",
    "measured on",
    "note",
    "source",
    "basis",
    "operators",
    "prefill",
    "decode",
)


def kernels(batch: StaticBatch) -> Table:
    """Fits by what they price, those that take most time first; no rows at datasheet rates.

    Columns ``prefill`` and ``decode`` are shares of the time of a step.
    """
    units = dict.fromkeys(COLUMNS, "")
    if not batch.calibrated:
        return table([], units)
    phases = {"prefill": batch.prefill, "decode": batch.decode}
    totals = {name: sum(e.seconds for e in ops.values()) for name, ops in phases.items()}
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for phase, ops in phases.items():
        for name, entry in ops.items():
            told = _told(entry)
            row = rows.setdefault(
                tuple(told.values()),
                {**told, "basis": "", "operators": [], "prefill": 0.0, "decode": 0.0},
            )
            row["basis"] = worst([row["basis"], entry.basis])
            row["operators"] = list(dict.fromkeys([*row["operators"], name]))
            row[phase] += entry.seconds / totals[phase] if totals[phase] else 0.0
    ordered = sorted(rows.values(), key=lambda row: -max(row["prefill"], row["decode"]))
    return table([{**row, "operators": ", ".join(row["operators"])} for row in ordered], units)


def _told(entry: OpTime) -> Mapping[str, str]:
    """What a fit is of, and how far it is from what was asked for."""
    if entry.op.kind == "engine":
        told = dict.fromkeys(("kernel", "of", "measured on", "source"), "")
        return {**told, "kernel": "engine", "note": SOFTWARE}
    known = entry.measured
    found = known.found if known else None
    if known is None or found is None:
        note = UNMEASURED if known is None else SHARED
        return {"kernel": "", "of": "", "measured on": "", "note": note, "source": ""}
    label = found.fit.label
    return {
        "kernel": f"{label.kind} {label.variant}",
        "of": label.provider,
        "measured on": label.device,
        "note": _distance(known, found),
        "source": _rows(found),
    }


def _distance(known: Measured, found: Found) -> str:
    """Why the fit may be off, in words; empty where it is of this very kernel."""
    parts = []
    if found.foreign:
        alike = "another generation" if found.far else "a device of the same generation"
        parts.append(f"carried over from {alike} by published rates")
    elif found.fit.model.transferred:
        parts.append("form of a like device, scaled to a sample of this one")
    if found.borrowed:
        parts.append("another engine's, in place of one that was not measured")
    return "; ".join([*parts, known.assumed] if known.assumed else parts)


def _rows(found: Found) -> str:
    """Which measurements a fit rests on."""
    return found.fit.model.source
