"""Intervals of the figures of a run: the same requests, at prices within their uncertainty.

Seven runs: as predicted, and at six points around it at the 10th and 90th percentile of what is
not known of decode and of prefill. A quadric through them says what a figure is at any other
prices, and so how it spreads. To that comes what another run with other requests would say; and,
of TTFT and TPOT, what predictions of the engine were off by for reasons that no price has.
"""

from collections.abc import Mapping
from math import exp, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from roofline.cost.deployment import Deployment
from roofline.cost.step import SequenceGroup
from roofline.cost.work import Array
from roofline.records import replace
from roofline.serving.objectives import FinishedRequests, kept, window
from roofline.serving.requests import Requests, part
from roofline.serving.run import tables
from roofline.serving.run.serve import Fleet, saturation, serve
from roofline.serving.simulate.prices import StepPrices
from roofline.serving.simulate.served import ServedRequests
from roofline.serving.stages import PricedStage, price_step, slowest
from roofline.serving.static import CENTRAL
from roofline.serving.workload import turns_of

if TYPE_CHECKING:
    from roofline.serving.run.result import Run

Name = tuple[str, str]
"""A figure: metric or objective, and which figure of it."""
PARTS: Final = 20
"""Parts of a run whose figures are compared."""
LEAST: Final = 5
"""Requests of a part."""
LASTING: Final = ("offered_requests_per_s", "saturation_requests_per_s")
"""Rates that no run of this length measures."""
MOST: Final = 32_768
"""Requests that are served again at other prices; of more, the first ones."""
ANGLES: Final = np.arange(6) * np.pi / 3.0
AROUND: Final = CENTRAL * np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)
"""Prices that are tried beside those predicted, in standard deviations."""
POINTS: Final = 24
"""Points of each direction and of the noise, equally likely."""
PLACES: Final = np.array([NormalDist().inv_cdf((i + 0.5) / POINTS) for i in range(POINTS)])
SATURATION: Final = ("saturation_requests_per_s", "value")


class StepUncertainty(Struct, frozen=True):
    """Errors of step prices, lognormal."""

    decode_sd: float
    prefill_sd: float
    """Log standard deviation of what decode takes, and of what prompts add. [1]"""
    correlation: float
    """Correlation of the two. [1]"""
    misses: Mapping[str, float]
    """Log standard deviation of measured from predicted, by metric (``"ttft_s"``): of the engine
    end to end, on what its profile never saw. [1]"""

    def scaled(self, prices: StepPrices, first: float, second: float) -> StepPrices:
        """Prices that are off by as much.

        Args:
            prices: As predicted.
            first, second: Independent, in standard deviations: of decode; of prompts beside what
                they share. [1]
        """
        rest = sqrt(1.0 - self.correlation**2)
        decode = exp(self.decode_sd * first)
        prefill = exp(self.prefill_sd * (self.correlation * first + rest * second))
        costs = prices.engine
        return replace(
            prices,
            engine=replace(
                costs,
                step_s=costs.step_s * decode,
                sequence_s=costs.sequence_s * decode,
                front_end_s=costs.front_end_s * decode,
                prefill_s=costs.prefill_s * prefill,
                launch_s=costs.launch_s * prefill,
                decode_gain=costs.decode_gain * decode,
                prefill_gain=costs.prefill_gain * prefill,
            ),
        )


def step_uncertainty(
    deployment: Deployment,
    *,
    batch: float,
    context: float,
    prompt: float,
    misses: Mapping[str, float],
) -> StepUncertainty:
    """Errors of the steps of a deployment, with what is in them on average.

    Errors of kernels of one kind go together, those of two kinds do not. What an engine is off by
    end to end contains those of its kernels: where it is more, the rest is common to all steps.
    Source: variances and covariance of two sums, by the delta method.

    Args:
        deployment: With measured kernels.
        batch, context: Sequences that decode in a step, and what each sees. [1] [token]
        prompt: Tokens that a prompt has in a step. [token]
        misses: As of `StepUncertainty`; may be empty.
    """
    _, size = turns_of(np.array(max(batch, 1.0)), deployment)
    decode = _spreads(slowest(price_step(deployment, SequenceGroup(size, 1.0, max(context, 1.0)))))
    groups = float(deployment.layout.dp)
    tokens = max(prompt / groups, 1.0)
    prefill = _spreads(slowest(price_step(deployment, SequenceGroup(groups, tokens, tokens))))
    own, other = (sum(each**2 for each in some.values()) for some in (decode, prefill))
    both = sum(spread * prefill.get(kind, 0.0) for kind, spread in decode.items())
    common = max(misses.get("tpot_s", 0.0) ** 2 - own, 0.0)
    own, other, both = own + common, other + common, both + common
    correlation = both / sqrt(own * other) if own and other else 0.0
    return StepUncertainty(sqrt(own), sqrt(other), min(correlation, 1.0), misses)


def _spreads(stage: PricedStage) -> dict[str, float]:
    """Log standard deviation of the step for that of one kind of operator alone, by kind. [1]"""
    whole = float(np.mean(stage.seconds()))
    return {kind: float(np.mean(each)) / whole for kind, each in stage.parts.spreads.items()}


def noise_of(run: "Run") -> dict[Name, float]:
    """Standard error of figures, by how far parts of the run differ in them.

    Requests count in the order of arrival, rates over time. Source: batch means, Asmussen and Glynn
    2007, Stochastic Simulation, section IV.5.
    """
    done = run.finished
    number = min(PARTS, len(done) // LEAST)
    if number < 2:
        return {}
    values: dict[Name, list[float]] = {}
    for rows in np.array_split(np.arange(len(done)), number):
        some = FinishedRequests(
            *(getattr(done, name)[rows] for name in FinishedRequests.__struct_fields__)
        )
        for name, value in _of_requests(run, some).items():
            values.setdefault(name, []).append(value)
    out = {name: _error(each) for name, each in values.items()}
    share = _rate_error(done, number)
    for row in tables.throughput(run, done).rows():
        if row["metric"] not in LASTING:
            out[row["metric"], "value"] = share * row["value"]
    return out


def _error(values: list[float]) -> float:
    """Standard error of the mean of parts."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def _rate_error(done: FinishedRequests, number: int) -> float:
    """Standard error of the rate over the rate, from parts of the time. [1]"""
    start, seconds = float(done.arrival.min()), window(done)
    ends = np.linspace(start, start + seconds, number + 1)[1:-1]
    place = np.searchsorted(ends, done.finish)
    tokens = np.bincount(place, weights=done.output, minlength=number)
    # The first and the last part see the run begin and end.
    inside = tokens[1:-1] if tokens[1:-1].any() else tokens
    return _error(inside.tolist()) / float(inside.mean())


class Intervals(Struct, frozen=True):
    """Central 80 % of the figures of a run, and how likely the SLO is kept."""

    doubt: StepUncertainty
    """Uncertainty of the prices."""
    bounds: Mapping[Name, tuple[float, float]]
    """Low and high, by figure."""
    chances: Mapping[str, float]
    """Probability that an objective is kept, by name. [1]"""
    stable: float
    """Probability that the load can be served at all. [1]"""

    def of(self, metric: str, figure: str) -> tuple[float | None, float | None]:
        """Low and high of a figure; none where it has no interval."""
        return self.bounds.get((metric, figure), (None, None))


def intervals(run: "Run", doubt: StepUncertainty) -> Intervals:
    """Serve the requests of a run again at other prices.

    Everything but the prices is the same. Of a figure above zero the logarithm is taken.
    """
    short, there = run, figures(run)
    if len(run.requests) > MOST:
        # Up to the last session that ends by then.
        starts = np.flatnonzero(run.requests.after < 0)
        end = int(starts[np.searchsorted(starts, MOST, side="right") - 1]) or len(run.requests)
        first = part(run.requests, 0, end)
        short = replace(run, requests=first, served=_served(run, run.fleet, first))
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
    for objective in run.objectives:
        within = (values[objective.name, "value_s"] <= objective.limit_s).mean(axis=1)
        chances[objective.name] = float((within * served).mean())
        name = (objective.name, "attainment")
        # Misses change the share of requests within the limit.
        misses = np.exp(_miss(doubt, (objective.name, "value_s")) * PLACES)
        seconds, limit = run.finished.seconds(objective.metric), objective.limit_s
        late = np.array([(seconds * factor > limit).mean() for factor in misses])
        values[name] = values[name] + ((seconds > limit).mean() - late)
    bounds = {name: _bounds(each, name) for name, each in values.items()}
    return Intervals(doubt, bounds, chances, float(served.mean()))


def figures(run: "Run") -> dict[Name, float]:
    """Every figure that has an interval."""
    out = _of_requests(run, run.finished)
    for row in tables.throughput(run, run.finished).rows():
        out[row["metric"], "value"] = row["value"]
    return out


def _of_requests(run: "Run", done: FinishedRequests) -> dict[Name, float]:
    """Latencies and objectives over some requests of a run."""
    out: dict[Name, float] = {}
    for row in tables.latencies(done, "", run.load.statistic).rows():
        for name in tables.SPREAD_UNITS:
            out[row["metric"], name] = row[name]
    for reached in kept(done, run.objectives):
        out[reached.objective.name, "value_s"] = reached.value_s
        out[reached.objective.name, "attainment"] = reached.attainment
    return out


def _miss(doubt: StepUncertainty, name: Name) -> float:
    """Log standard deviation of measured from predicted times of that metric. [1]"""
    if name[1] == "attainment":
        return 0.0
    return doubt.misses.get(name[0].split("_")[0] + "_s", 0.0)


def _values(value: float, tried: Array, grid: Array, noise: float, miss: float) -> Array:
    """Values of a figure, of shape (prices, noise), all equally likely.

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
    """Weights of the terms that come closest to seven runs: as predicted, and at `AROUND`."""
    z = np.concatenate([np.zeros((1, 2)), AROUND])
    return np.asarray(np.linalg.lstsq(terms(*z.T), values, rcond=None)[0], dtype=np.float64)


def terms(first: Array, second: Array) -> Array:
    """Terms of a quadric, of shape (points, 6), at standard deviations from the prediction. [1]"""
    x, y = first.ravel(), second.ravel()
    return np.stack([np.ones_like(x), x, y, x * x, x * y, y * y], axis=1)


def _bounds(values: Array, name: Name) -> tuple[float, float]:
    """Central 80 %: nothing below 0, no share above 1."""
    low, high = (max(float(each), 0.0) for each in np.quantile(values, (0.1, 0.9)))
    return (min(low, 1.0), min(high, 1.0)) if name[1] == "attainment" else (low, high)


def _again(run: "Run", doubt: StepUncertainty, first: float, second: float) -> "Run":
    """The run at other prices."""
    fleet = replace(run.fleet, prices=doubt.scaled(run.fleet.prices, first, second))
    return replace(
        run,
        fleet=fleet,
        served=_served(run, fleet, run.requests),
        saturation=saturation(fleet, run.requests) if run.load.rate else 0.0,
    )


def _served(run: "Run", fleet: Fleet, requests: Requests) -> ServedRequests:
    """Requests of a run, driven as those of it were, on a fleet."""
    load = run.load
    return serve(fleet, requests, concurrency=load.concurrency, ramp_s=load.ramp_s)
