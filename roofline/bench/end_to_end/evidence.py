"""What the rules about a figure that is outside its interval may look at."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from roofline.bench.end_to_end.bounds import Bounds, Poor, bounds, poor
from roofline.bench.end_to_end.comparing import Compared, Figure
from roofline.bench.end_to_end.replay import OPEN

RATES: Final = ("output_tok_s", "total_tok_s", "input_tok_s", "requests_s")
"""Metrics of which more is better."""
GAPS: Final = ("tpot_s", "itl_s")
"""Metrics of the time between tokens."""


@dataclass(frozen=True)
class Context:
    """A figure that is outside, and what the rules may look at.

    Attributes
    ----------
    figure, run
        The figure, and its run.
    series
        Runs of the same deployment and lengths, one of each load, by load; the run among them.
    """

    figure: Figure
    run: Compared
    series: Sequence[Compared]

    @cached_property
    def bounds(self) -> Bounds:
        """What it cannot beat."""
        return bounds(self.run.known)

    @cached_property
    def poor(self) -> Poor:
        """How much of its step was not measured."""
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
    def gaps(self) -> Figure | None:
        """TPOT, or what stands for it."""
        return self.run.get("tpot_s") or self.run.get("itl_s")


def load(run: Compared) -> float:
    """Clients, or sequences of a batch; at a rate what is in flight, by the law of Little. [1]"""
    row = run.known.row
    if row.mode != OPEN:
        return row.batch
    figures = {each.metric: each.predicted for each in run.figures}
    gaps = figures.get("tpot_s", figures.get("itl_s", 0.0))
    latency = figures.get("latency_s", run.alone + row.osl * gaps)
    return row.rate * latency


def series(run: Compared, runs: Sequence[Compared]) -> list[Compared]:
    """Runs of the same deployment, kind and lengths, from the lightest load on; one of each load.

    Of its own load it is the run itself: the same measured again says nothing of other loads.
    """

    def like(each: Compared) -> tuple[object, ...]:
        row = each.known.row
        return row.case, row.engine, row.mode, f"{row.isl:.2g}", f"{row.osl:.2g}"

    def loaded(each: Compared) -> tuple[float, float]:
        return each.known.row.batch, each.known.row.rate

    by_load = {loaded(each): each for each in runs if like(each) == like(run)}
    by_load[loaded(run)] = run
    return [by_load[key] for key in sorted(by_load)]
