"""What a run with other requests would say: how far parts of this one differ."""

from dataclasses import fields
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from roofline.serving.objectives import Finished, kept, spread, window
from roofline.serving.run import tables

if TYPE_CHECKING:
    from roofline.serving.run.result import Run

Name = tuple[str, str]
"""A figure: metric or promise, and which figure of it."""
PARTS: Final = 20
"""Parts of a run whose figures are compared."""
LEAST: Final = 5
"""Requests of a part."""
LASTING: Final = ("offered_requests_per_s", "saturation_requests_per_s")
"""Rates that no run of this length measures."""


def noise_of(run: "Run") -> dict[Name, float]:
    """Standard error of figures, by how far parts of the run differ in them.

    Parameters
    ----------
    run
        Whose requests count in the order of arrival, its rates over time.

    Notes
    -----
    Source: batch means, Asmussen and Glynn 2007, Stochastic Simulation, section IV.5.
    """
    done = run.finished
    number = min(PARTS, len(done) // LEAST)
    if number < 2:
        return {}
    every = [_rows(done, each) for each in np.array_split(np.arange(len(done)), number)]
    values: dict[Name, list[float]] = {}
    for some in every:
        for metric in ("ttft", "queueing", "tpot", "e2e"):
            if (made := spread(getattr(some, metric))) is not None:
                name = "latency_s" if metric == "e2e" else f"{metric}_s"
                for each in ("mean", "p50", "p90", "p95", "p99"):
                    values.setdefault((name, each), []).append(getattr(made, each))
        for promise in kept(some, run.objectives):
            name = promise.objective.name
            values.setdefault((name, "value_s"), []).append(promise.value_s)
            values.setdefault((name, "attainment"), []).append(promise.attainment)
    out = {name: _error(each) for name, each in values.items()}
    reported = "p50" if run.load.statistic == "median" else "mean"
    out |= {(name, "reported"): error for (name, each), error in out.items() if each == reported}
    share = _rate_error(done, number)
    for row in tables.throughput(run, done).rows():
        if row["metric"] not in LASTING:
            out[row["metric"], "value"] = share * row["value"]
    return out


def _error(values: list[float]) -> float:
    """Standard error of the mean of parts."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def _rate_error(done: Finished, number: int) -> float:
    """Standard error of the rate over the rate, from parts of the time. [1]"""
    start, seconds = float(done.arrival.min()), window(done)
    ends = np.linspace(start, start + seconds, number + 1)[1:-1]
    place = np.searchsorted(ends, done.finish)
    tokens = np.bincount(place, weights=done.output, minlength=number)
    # The first and the last part see the run begin and end.
    inside = tokens[1:-1] if tokens[1:-1].any() else tokens
    return _error(inside.tolist()) / float(inside.mean())


def _rows(done: Finished, rows: NDArray[np.intp]) -> Finished:
    return Finished(*(getattr(done, column.name)[rows] for column in fields(Finished)))
