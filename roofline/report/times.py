"""Time of each operator of a step, and how it is known."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from roofline.table import Result
from roofline.view.known import at_roof, calibrated, ends, inside

MOST_BARS: Final = 15


@dataclass(frozen=True, slots=True)
class Bar:
    """Time of an operator, all its executions in a step together."""

    op: str
    seconds: float
    serial_s: float
    """Time as predicted, else with perfect overlap at datasheet rates; there, with none. [s]"""
    share: float
    bound: str
    """``"compute"``, ``"memory"``, ``"wire"``, ``"host"``, ``"engine"``; empty for
    several together."""
    interval: tuple[float, float] | None
    """Ends of the central 80 %; None where nothing like it was measured. [s]"""
    within_s: float
    """Part of the time that datasheet rates ask for. [s]"""
    roof: float | None
    """The least at datasheet rates over the time; None where part of it is hidden. [1]"""
    basis: str
    """Basis of the time; empty for several together, and where all are datasheet bounds."""


@dataclass(frozen=True, slots=True)
class PhaseTimes:
    """A step of one phase, longest operator first."""

    phase: str
    bars: tuple[Bar, ...]
    seconds: float
    serial_s: float
    within_s: float
    by_bound: Mapping[str, float]
    inside: tuple[str, ...]
    """Operators whose time is in the kernel of another."""
    calibrated: bool
    """True where times are predicted from measured kernels."""


def time_facts(result: Result) -> tuple[PhaseTimes, ...]:
    """Time of each operator by phase, and share of each bound."""
    rows = list(result.tables["ops"].rows())
    phases = dict.fromkeys(str(row["phase"]) for row in rows)
    predicted = calibrated(result)
    return tuple(
        _phase(phase, [r for r in rows if r["phase"] == phase], predicted) for phase in phases
    )


def _phase(phase: str, rows: list[dict[str, Any]], predicted: bool) -> PhaseTimes:
    fused = [str(row["op"]) for row in rows if predicted and inside(row)]
    ordered = sorted(
        (_bar(row, predicted) for row in rows if not (predicted and inside(row))),
        key=lambda bar: -bar.seconds,
    )
    shown = len(ordered) if len(ordered) <= MOST_BARS + 1 else MOST_BARS
    rest = ordered[shown:]
    bars = ordered[:shown] + ([_together(rest)] if rest else [])
    by_bound: dict[str, float] = {}
    for bar in ordered:
        by_bound[bar.bound] = by_bound.get(bar.bound, 0.0) + bar.share
    whole = _together(ordered)
    return PhaseTimes(
        phase,
        tuple(bars),
        whole.seconds,
        whole.serial_s,
        whole.within_s,
        by_bound,
        tuple(fused),
        predicted,
    )


def _bar(row: dict[str, Any], predicted: bool) -> Bar:
    seconds, serial = row["seconds"], row["serial_s"]
    known = (str(row["op"]), seconds, serial, row["share"], str(row["bound"]))
    if not predicted:
        return Bar(*known, None, seconds, 1.0, "")
    within = min(row["roof_s"], seconds)
    return Bar(*known, ends(row), within, at_roof(row), str(row["basis"]))


def _together(bars: list[Bar]) -> Bar:
    """Sum of bars; how far their errors go together is not known here, so it has no interval."""
    seconds, serial, share, within = (
        sum(getattr(bar, name) for bar in bars)
        for name in ("seconds", "serial_s", "share", "within_s")
    )
    return Bar(f"{len(bars)} smaller", seconds, serial, share, "", None, within, None, "")
