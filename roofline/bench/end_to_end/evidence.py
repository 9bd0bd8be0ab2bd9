"""Evidence for rules about a figure outside its interval, and the words for it."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final

import numpy as np
from msgspec import Struct

from roofline.bench.end_to_end.comparing import ComparedFigure, RunComparison
from roofline.bench.end_to_end.replay import OPEN, PreparedRow
from roofline.cost.deployment import Deployment
from roofline.cost.roof import roof
from roofline.cost.step import SequenceGroup, step
from roofline.cost.work import Op
from roofline.records import replace
from roofline.table import BASES
from roofline.units import show

POOR: Final = BASES.index("extrapolated")
"""From this basis on a kernel was not measured at this shape on this device."""


class Bounds(Struct, frozen=True):
    """Least times at datasheet rates, with everything hidden behind the slowest."""

    prompt: float
    """Prefill of one prompt. [s]"""
    token: float
    """Step that decodes one sequence at its mean context. [s]"""
    together: float
    """Step that decodes all sequences of the run. [s]"""


def bounds(each: PreparedRow) -> Bounds:
    """Bounds of a run."""
    found, row = replace(each.deployment, calibration=None), each.row
    context = row.isl + row.osl / 2
    many = max(row.batch, 1.0)
    return Bounds(
        _least(step(found, [SequenceGroup(1.0, row.isl, row.isl, "prefill")]).values(), found),
        _least(step(found, [SequenceGroup(1.0, 1.0, context, "decode")]).values(), found),
        _least(step(found, [SequenceGroup(many, 1.0, context, "decode")]).values(), found),
    )


def _least(ops: Iterable[Op], found: Deployment) -> float:
    times = [roof(op, found, float(op.repeat)) for op in ops]
    limits = [sum(float(np.asarray(getattr(t, name))) for t in times) for name in _LIMITS]
    return max(limits)


_LIMITS: Final = ("compute", "memory")


class UnmeasuredPart(Struct, frozen=True):
    """Part of a step's time that no measurement at its shapes on its device stands behind."""

    share: float
    """Share of the step's time. [1]"""
    kind: str
    basis: str
    """Kind of operator that takes most of that time, and the basis of its price."""


def poor(each: PreparedRow, *, prefill: bool) -> UnmeasuredPart:
    """Part of a run's step that is priced by kernels of other devices or by assumed ones.

    The step computes one prompt, or decodes all sequences of the run.
    """
    row = each.row
    found = each.deployment
    group = (
        SequenceGroup(1.0, row.isl, row.isl, "prefill")
        if prefill
        else SequenceGroup(max(row.batch, 1.0), 1.0, row.isl + row.osl / 2, "decode")
    )
    whole = 0.0
    parts: dict[tuple[str, int], float] = {}
    for op in step(found, [group]).values():
        time = roof(op, found, float(op.repeat))
        seconds = float(np.asarray(time.seconds))
        basis = BASES.index("datasheet")
        if time.measured is not None:
            basis = int(np.max(np.asarray(time.measured.basis)))
        whole += seconds
        if basis >= POOR:
            key = op.kind, basis
            parts[key] = parts.get(key, 0.0) + seconds
    if not parts or whole <= 0:
        return UnmeasuredPart(0.0, "", "")
    (kind, worst), _ = max(parts.items(), key=lambda part: part[1])
    return UnmeasuredPart(sum(parts.values()) / whole, kind, BASES[worst])


RATES: Final = ("output_tok_s", "total_tok_s", "input_tok_s", "requests_s")
"""Metrics of which more is better."""
GAPS: Final = ("tpot_s", "itl_s")
"""Metrics of the time between tokens."""


class Context(Struct, frozen=True, dict=True):
    """A figure that is outside, and what the rules may look at."""

    figure: ComparedFigure
    run: RunComparison
    """The figure, and its run."""
    series: Sequence[RunComparison]
    """Runs of the same deployment and lengths, one of each load, by load; the run among them."""

    @cached_property
    def bounds(self) -> Bounds:
        """Least times at datasheet rates."""
        return bounds(self.run.known)

    @cached_property
    def poor(self) -> UnmeasuredPart:
        """Share of its step that was not measured."""
        return poor(self.run.known, prefill=self.figure.metric == "ttft_s")

    @property
    def slower(self) -> bool:
        """Whether it was measured worse than predicted."""
        return (self.figure.ratio > 1) != (self.figure.metric in RATES)

    @property
    def clients(self) -> float:
        """Load of the run. [1]"""
        return load(self.run)

    @property
    def gaps(self) -> ComparedFigure | None:
        """TPOT, or what stands for it."""
        return self.run.get("tpot_s") or self.run.get("itl_s")


def load(run: RunComparison) -> float:
    """Clients, or sequences of a batch; at a rate what is in flight, by the law of Little. [1]"""
    row = run.known.row
    if row.mode != OPEN:
        return row.batch
    figures = {each.metric: each.predicted for each in run.figures}
    gaps = figures.get("tpot_s", figures.get("itl_s", 0.0))
    latency = figures.get("latency_s", run.alone + row.osl * gaps)
    return row.rate * latency


def alike(run: RunComparison) -> tuple[object, ...]:
    """Deployment, kind and lengths of a run: runs that share them differ in their load only."""
    row = run.known.row
    return row.case, row.engine, row.mode, f"{row.isl:.2g}", f"{row.osl:.2g}"


def series(run: RunComparison, runs: Sequence[RunComparison]) -> list[RunComparison]:
    """Runs of the same deployment, kind and lengths, from the lightest load on; one of each load.

    Of its own load it is the run itself: the same measured again says nothing of other loads.
    """

    def loaded(each: RunComparison) -> tuple[float, float]:
        return each.known.row.batch, each.known.row.rate

    by_load = {loaded(each): each for each in runs if alike(each) == alike(run)}
    by_load[loaded(run)] = run
    return [by_load[key] for key in sorted(by_load)]


def time(seconds: float) -> str:
    """A time for people."""
    return show(seconds, "s")


def percent(ratio: float) -> str:
    """Error of a prediction in words, of which the measured figure is this many times.

    Predicted over measured, as errors are everywhere.

    >>> percent(1.25), percent(0.8)
    ('predicted 20 % too low', 'predicted 25 % too high')
    """
    word = "low" if ratio >= 1 else "high"
    return f"predicted {share(abs(1 / ratio - 1))} too {word}"


def share(part: float) -> str:
    """A share in percent."""
    return f"{100 * part:.0f} %"


def many(run: RunComparison) -> str:
    """The load of a run."""
    clients = load(run)
    if run.known.row.mode == OPEN:
        return f"{run.known.row.rate:g} requests/s, about {clients:,.0f} in flight"
    return f"{clients:,.0f} client{'s' if clients > 1 else ''}"
