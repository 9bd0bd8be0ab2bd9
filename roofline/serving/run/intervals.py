"""Where the figures of a run lie: the same requests, over prices that are off as prices are.

Seven runs: as predicted, and at six points around it at the 10th and 90th percentile of what is
not known of decode and of prefill. A quadric through them says what a figure is at any other
prices, and so how it spreads. To that comes what another run with other requests would say; and,
of TTFT and TPOT, what predictions of the engine were off by for reasons that no price has.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from math import sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from roofline.cost.work import Array
from roofline.serving.objectives import Finished, Objective, kept, spread, window
from roofline.serving.requests import Requests
from roofline.serving.run import tables
from roofline.serving.run.doubt import Doubt
from roofline.serving.run.serve import Fleet, saturation, serve
from roofline.serving.simulate.served import Served
from roofline.serving.static import CENTRAL
from roofline.serving.traffic.columns import Ints, part

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

    Source: batch means, Asmussen and Glynn 2007, Stochastic Simulation, section IV.5.

    Args:
        run: Whose requests count in the order of arrival, its rates over time.
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


MOST: Final = 32_768
"""Requests that are served again at other prices; of more, the first ones."""
ANGLES: Final = np.arange(6) * np.pi / 3.0
AROUND: Final = CENTRAL * np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)
"""Prices that are tried beside those predicted, in standard deviations."""
POINTS: Final = 24
"""Of each direction and of the noise, equally likely."""
PLACES: Final = np.array([NormalDist().inv_cdf((i + 0.5) / POINTS) for i in range(POINTS)])
SATURATION: Final = ("saturation_requests_per_s", "value")


@dataclass(frozen=True, slots=True)
class Intervals:
    """Central 80 % of the figures of a run, and how likely promises are kept."""

    doubt: Doubt
    """What is not known of prices."""
    bounds: Mapping[Name, tuple[float, float]]
    """Low and high, by figure."""
    chances: Mapping[str, float]
    """Probability that a promise is kept, by name. [1]"""
    stable: float
    """That the load can be served at all. [1]"""

    def of(self, metric: str, figure: str) -> tuple[float | None, float | None]:
        """Low and high of a figure; none where it has no interval."""
        return self.bounds.get((metric, figure), (None, None))


def intervals(run: "Run", doubt: Doubt) -> Intervals:
    """Serve the requests of a run again at other prices.

    Everything but the prices is the same. Of a figure above zero the logarithm is taken.
    """
    short = _shortened(run)
    there = figures(run)
    center = there if short is run else figures(short)
    others = [figures(_again(short, doubt, *point)) for point in AROUND.tolist()]
    noise, grid = noise_of(run), terms(*np.meshgrid(PLACES, PLACES))
    # All values that a figure may have: by prices, and by noise.
    values: dict[Name, Array] = {}
    for name, value in there.items():
        if all(name in some for some in (center, *others)):
            tried = np.array([center[name], *(other[name] for other in others)])
            values[name] = _values(value, tried, grid, noise.get(name, 0.0), _miss(doubt, name))
    served = np.ones(len(grid))
    if run.load.rate:
        served = (values[SATURATION] > run.load.rate).mean(axis=1)
    chances = {}
    for promise in run.objectives:
        within = (values[promise.name, "value_s"] <= promise.limit_s).mean(axis=1)
        chances[promise.name] = float((within * served).mean())
        name = (promise.name, "attainment")
        values[name] = values[name] + _shift(
            run.finished, promise, _miss(doubt, (promise.name, "value_s"))
        )
    bounds = {name: _bounds(each, name) for name, each in values.items()}
    return Intervals(doubt, bounds, chances, float(served.mean()))


def figures(run: "Run") -> dict[Name, float]:
    """Every figure that has an interval."""
    done = run.finished
    out: dict[Name, float] = {}
    for row in tables.latencies(done, "", run.load.statistic).rows():
        for name in tables.SPREAD_UNITS:
            out[row["metric"], name] = row[name]
    for row in tables.throughput(run, done).rows():
        out[row["metric"], "value"] = row["value"]
    for promise in kept(done, run.objectives):
        out[promise.objective.name, "value_s"] = promise.value_s
        out[promise.objective.name, "attainment"] = promise.attainment
    return out


def _miss(doubt: Doubt, name: Name) -> float:
    """What predictions of that metric were off by, of a time. [1]"""
    if name[1] == "attainment":
        return 0.0
    return doubt.misses.get(name[0].split("_")[0] + "_s", 0.0)


def _values(value: float, tried: Array, grid: Array, noise: float, miss: float) -> Array:
    """What a figure may be, of shape (prices, noise), all equally likely.

    It is ``value`` as predicted; ``tried`` are that of the runs that were repeated.
    """
    if min(value, float(tried.min())) <= 0:
        shifted: Array = (value + grid @ quadric(tried - tried[0]))[:, None] + noise * PLACES
        return shifted
    found: Array = float(np.log(value)) + grid @ quadric(np.log(tried / tried[0]))
    # Misses have those of prices in them: the rest is added.
    wide = (noise / value) ** 2 + max(miss**2 - float(found.var()), 0.0)
    spread = found[:, None] + sqrt(wide) * PLACES
    return np.exp(spread)


def quadric(values: Array) -> Array:
    """Weights of the terms that come closest to the seven runs.

    Args:
        values: As predicted, and at the points `AROUND`: of shape (7, …).
    """
    z = np.concatenate([np.zeros((1, 2)), AROUND])
    return np.asarray(np.linalg.lstsq(terms(*z.T), values, rcond=None)[0], dtype=np.float64)


def terms(first: Array, second: Array) -> Array:
    """Terms of a quadric at points, of shape (points, 6).

    Args:
        first, second: Standard deviations from what is predicted. [1]
    """
    x, y = first.ravel(), second.ravel()
    return np.stack([np.ones_like(x), x, y, x * x, x * y, y * y], axis=1)


def _shift(done: Finished, promise: Objective, miss: float) -> Array:
    """What misses change of the share of requests within a limit. [1]"""
    seconds = getattr(done, promise.metric)
    late = [(seconds * factor > promise.limit_s).mean() for factor in np.exp(miss * PLACES)]
    shifted: Array = (seconds > promise.limit_s).mean() - np.array(late)
    return shifted


def _bounds(values: Array, name: Name) -> tuple[float, float]:
    """Central 80 %: nothing below 0, no share above 1."""
    low, high = (max(float(each), 0.0) for each in np.quantile(values, (0.1, 0.9)))
    return (min(low, 1.0), min(high, 1.0)) if name[1] == "attainment" else (low, high)


def _shortened(run: "Run") -> "Run":
    """The run, or that of its first requests alone."""
    if len(run.requests) <= MOST:
        return run
    first = part(run.requests, 0, _whole(run.requests.after, MOST))
    return replace(run, requests=first, served=_served(run, run.fleet, first))


def _whole(after: Ints, most: int) -> int:
    """Rows up to the last session that ends by then. [1]"""
    starts = np.flatnonzero(after < 0)
    return int(starts[np.searchsorted(starts, most, side="right") - 1]) or len(after)


def _again(run: "Run", doubt: Doubt, first: float, second: float) -> "Run":
    """The run at other prices."""
    fleet = replace(run.fleet, prices=doubt.scaled(run.fleet.prices, first, second))
    return replace(
        run,
        fleet=fleet,
        served=_served(run, fleet, run.requests),
        saturation=saturation(fleet, run.requests) if run.load.rate else 0.0,
    )


def _served(run: "Run", fleet: Fleet, requests: Requests) -> Served:
    """Requests of a run, driven as those of it were, on a fleet."""
    load = run.load
    return serve(fleet, requests, concurrency=load.concurrency, ramp_s=load.ramp_s)
