"""Measured figures of single runs beside what is predicted of them, each with an interval.

Means and medians have the interval of their metric, for sources rarely say which of the two their
rows are; other percentiles are predicted without one, for none was ever held to rows.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from roofline.bench.end_to_end import held_out, profiles
from roofline.bench.end_to_end.cases import UnreadRow, read
from roofline.bench.end_to_end.held_out import DEVIATIONS, Spreads
from roofline.bench.end_to_end.metrics import profile_of
from roofline.bench.end_to_end.predicting import prepared
from roofline.bench.end_to_end.replay import (
    FULL,
    SINGLE,
    PreparedRow,
    itl_of,
    tpot_of,
    with_profile,
)
from roofline.cost.work import Array
from roofline.serving.phases import first_tokens
from roofline.serving.simulate.served import ServedRequests

if TYPE_CHECKING:
    import pandas

Key = tuple[str, str]
"""Metric and statistic."""

SPREAD_OF: Final[Mapping[str, str]] = {
    "ttft_s": "ttft_s",
    "tpot_s": "tpot_s",
    "itl_s": "tpot_s",
    "latency_s": "latency_s",
    "output_tok_s": "throughput_tok_s",
    "input_tok_s": "throughput_tok_s",
    "total_tok_s": "throughput_tok_s",
    "requests_s": "throughput_tok_s",
}
"""Metrics that can be compared, and the one of the fitted rows whose interval each has."""
CENTRAL: Final = ("mean", "p50")
"""Statistics that have an interval."""


class ComparedFigure(Struct, frozen=True):
    """One measured figure and its prediction."""

    metric: str
    statistic: str
    """A name of `SPREAD_OF`; ``"mean"``, ``"p50"``, ``"p99"``."""
    measured: float
    predicted: float
    """In SI units."""
    log_sd: float | None
    """Standard deviation of the prediction's logarithm; None where there is no interval. [1]"""

    @property
    def ratio(self) -> float:
        """Measured over predicted. [1]"""
        return self.measured / self.predicted

    @property
    def error(self) -> float:
        """Predicted over measured, less one. [1]"""
        return self.predicted / self.measured - 1.0

    def end(self, side: float) -> float | None:
        """End of the central 80 %: -1 for the lower one, 1 for the upper one."""
        if self.log_sd is None:
            return None
        return self.predicted * float(np.exp(side * DEVIATIONS * self.log_sd))

    @property
    def inside(self) -> bool | None:
        """Whether the measured figure is in the interval; None where there is none."""
        low, high = self.end(-1.0), self.end(1.0)
        return None if low is None or high is None else bool(low <= self.measured <= high)


class RunComparison(Struct, frozen=True):
    """A run with its figures."""

    known: PreparedRow
    """The run as it was priced; ``known.row.place`` says which it is."""
    figures: tuple[ComparedFigure, ...]
    """In the order asked for."""
    alone: float
    """TTFT that is predicted of one of its prompts with nothing beside it. [s]"""

    def get(self, metric: str) -> ComparedFigure | None:
        """The mean or median of a metric, where it was measured."""
        found = [each for each in self.figures if each.metric == metric and each.log_sd]
        return found[0] if found else None


def compare(
    frame: "pandas.DataFrame", measured: Sequence[Mapping[Key, float]], profile: Path | None = None
) -> tuple[list[RunComparison], list[UnreadRow]]:
    """Predict each run by the shipped profiles.

    Args:
        frame: One run a row, as for `roofline.bench.end_to_end.predicting.end_to_end`, with at
            least one metric of `roofline.bench.end_to_end.cases.METRICS`.
        measured: Of each run its figures.
        profile: File of an engine's constants that goes before the shipped ones.

    Returns:
        tuple: Runs in order, and those that cannot be predicted with the reason.

    Raises:
        InputError: A needed column is missing.
    """
    rows, unread = read(frame)
    found, unpriced = prepared(rows)
    logs, spreads = profiles.load(profile)
    compared = [_compared(each, measured[each.row.place], logs, spreads) for each in found]
    return compared, [*unread, *unpriced]


def _compared(
    each: PreparedRow, measured: Mapping[Key, float], logs: Array, spreads: Spreads
) -> RunComparison:
    predicted = statistics(each, logs, list(measured))
    figures = [
        ComparedFigure(*key, value, predicted[key], _log_sd(each, key, spreads))
        for key, value in measured.items()
        if predicted.get(key)
    ]
    return RunComparison(each, tuple(figures), alone(each, logs))


def alone(each: PreparedRow, logs: Array) -> float:
    """TTFT of one prompt with nothing beside it. [s]"""
    priced = with_profile(each.deployment, profile_of(each, logs))
    return float(first_tokens(priced, 1.0, max(float(int(each.row.isl)), 1.0)).seconds)


def _log_sd(each: PreparedRow, key: Key, spreads: Spreads) -> float | None:
    metric, statistic = key
    return held_out.of(spreads, each, SPREAD_OF[metric]) if statistic in CENTRAL else None


def statistics(each: PreparedRow, logs: Array, wanted: Sequence[Key]) -> dict[Key, float]:
    """Wanted figures of a run, those that can be predicted, by logarithms of all constants."""
    row, profile = each.row, profile_of(each, logs)
    if row.mode not in SINGLE or (row.mode in FULL and not row.requests):
        return _derived(each, dict(each.predicted(profile)), wanted, None)
    served = each.served(each.prices(profile))
    tpot = tpot_of(served)
    means = {
        "ttft_s": float(served.ttft_s.mean()),
        "tpot_s": float(tpot.mean()) if len(tpot) else 0.0,
        "itl_s": itl_of(served),
        "latency_s": float(served.latency_s.mean()),
    }
    return _derived(each, means, wanted, served)


def _derived(
    each: PreparedRow, means: dict[str, float], wanted: Sequence[Key], served: ServedRequests | None
) -> dict[Key, float]:
    means.setdefault("itl_s", means["tpot_s"])
    means |= _rates(each, means, served)
    out = {}
    for metric, statistic in wanted:
        if statistic == "mean" or (served is None and statistic == "p50"):
            out[metric, statistic] = float(means[metric])
        elif served is not None and statistic.startswith("p"):
            sample = _sample(served, metric)
            if len(sample):
                out[metric, statistic] = float(np.percentile(sample, float(statistic[1:])))
    return out


def _sample(served: ServedRequests, metric: str) -> Array:
    """Values that a percentile is taken of; none for gaps and rates of all requests together."""
    match metric:
        case "ttft_s":
            return served.ttft_s
        case "tpot_s":
            return tpot_of(served)
        case "latency_s":
            return served.latency_s
    return np.zeros(0)


def _rates(
    each: PreparedRow, means: Mapping[str, float], served: ServedRequests | None
) -> dict[str, float]:
    """Throughputs of all devices, whatever the row counts."""
    row = each.row
    if served is None:
        rate = means["throughput_tok_s"] * (row.devices if row.scope == "per_gpu" else 1.0)
        tokens = {"output": row.osl, "input": row.isl, "input+output": row.isl + row.osl}
        answered, prompts, answers = rate / tokens[row.counts], row.isl, row.osl
    else:
        answered = len(served) / served.totals.makespan_s
        prompts, answers = float(served.prompt.mean()), float(served.output.mean())
    return {
        "requests_s": answered,
        "input_tok_s": answered * prompts,
        "output_tok_s": answered * answers,
        "total_tok_s": answered * (prompts + answers),
    }
