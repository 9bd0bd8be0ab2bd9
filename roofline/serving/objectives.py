"""Latencies that users see, and service-level objectives on them.

TTFT is from arrival to first token, queueing included; TPOT = (E2E − TTFT) / (tokens − 1), which a
request of one token does not have; E2E is from arrival to last token.
"""

import re
from collections.abc import Sequence
from typing import Final, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.cost.work import Array
from roofline.errors import InputError, QuantityError, did_you_mean
from roofline.serving.requests import Integers
from roofline.units import parse

Metric = Literal["ttft", "tpot", "e2e"]
METRICS: Final[tuple[Metric, ...]] = ("ttft", "tpot", "e2e")
_PLAIN: Final = re.compile(r"[0-9.]+")
_OBJECTIVE: Final = re.compile(r"(\w+?)(?:_(mean|p[0-9]{1,2}(?:\.[0-9]{1,3})?))?")


class FinishedRequests(Struct, frozen=True):
    """Requests that were served, one row each, in order of arrival."""

    arrival: Array
    admitted: Array
    first_token: Array
    finish: Array
    """Arrival, start of the first step, and ends of those of the first and last token. [s]"""
    prompt: Integers
    output: Integers
    """Lengths. [token]"""

    def __len__(self) -> int:
        """Requests."""
        return len(self.arrival)

    @property
    def ttft_s(self) -> Array:
        """Arrival to first token. [s]"""
        return self.first_token - self.arrival

    @property
    def queue_s(self) -> Array:
        """Arrival to the first step. [s]"""
        return self.admitted - self.arrival

    @property
    def latency_s(self) -> Array:
        """Arrival to last token. [s]"""
        return self.finish - self.arrival

    @property
    def tpot_s(self) -> Array:
        """(latency − TTFT) / (tokens − 1); NaN for a single token. [s]"""
        gaps = self.output - 1.0
        out = np.full(len(self), np.nan)
        np.divide(self.finish - self.first_token, gaps, out=out, where=gaps > 0)
        return out

    def seconds(self, metric: Metric) -> Array:
        """Latency that an objective is about. [s]"""
        return {"ttft": self.ttft_s, "tpot": self.tpot_s, "e2e": self.latency_s}[metric]


def after_warmup(served: FinishedRequests, warmup: int) -> FinishedRequests:
    """Requests after a warm-up of so many [1]; InputError where none would be left."""
    if not 0 <= warmup < len(served):
        raise InputError(
            f"warm-up takes {warmup} of {len(served)} requests",
            hint="leave out fewer, or send more",
        )
    return FinishedRequests(
        *(getattr(served, name)[warmup:] for name in FinishedRequests.__struct_fields__)
    )


class Spread(Struct, frozen=True):
    """Distribution of a latency over requests. Percentiles between two are interpolated."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    """Mean and percentiles over the requests that have it. [s]"""
    requests: int
    """Requests that have it. [1]"""


def spread(seconds: Array) -> Spread | None:
    """Mean and percentiles [s]; NaN is a request that has none. None where no request has one.

    Examples:
        >>> spread(np.array([1.0, 2.0, 3.0, np.nan])).p50
        2.0
    """
    have = seconds[~np.isnan(seconds)]
    if not len(have):
        return None
    p50, p90, p95, p99 = (float(each) for each in np.percentile(have, (50, 90, 95, 99)))
    return Spread(float(have.mean()), p50, p90, p95, p99, len(have))


class Objective(Struct, frozen=True):
    """Limit on one latency."""

    metric: Metric
    """``"ttft"``, ``"tpot"`` or ``"e2e"``."""
    limit_s: float
    """Longest allowed. [s]"""
    percentile: float | None = 99.0
    """Share of the requests that must keep to it, in percent; None for their mean. [1]"""

    @property
    def name(self) -> str:
        """Metric and percentile: ``"ttft_p99"``."""
        said = "mean" if self.percentile is None else f"p{self.percentile:g}"
        return f"{self.metric}_{said}"


def parse_slo(text: str) -> tuple[Objective, ...]:
    """Read objectives: ``ttft=500ms,tpot_p90=50ms,e2e_mean=10s``; without a percentile it is p99.

    Raises:
        InputError: The text has another form, or an objective twice.

    Examples:
        >>> [(each.name, each.limit_s) for each in parse_slo("ttft=500ms,tpot_p90=50ms")]
        [('ttft_p99', 0.5), ('tpot_p90', 0.05)]
    """
    out: list[Objective] = []
    for words in text.split(",") if text.strip() else ():
        name, equals, limit = (part.strip() for part in words.partition("="))
        found = _OBJECTIVE.fullmatch(name.lower())
        metric = next((known for known in METRICS if found and known == found[1]), None)
        if not equals or found is None or metric is None:
            raise InputError(
                f"{words.strip()!r:.60} is no objective",
                hint=did_you_mean(name.lower().partition("_")[0], METRICS)
                + "write ttft=500ms,tpot=50ms; e2e, and _p90 or _mean after a name, go too",
            )
        try:
            seconds = parse(limit, "s")
        except QuantityError:
            wrong = "has no unit" if _PLAIN.fullmatch(limit) else f"{limit!r:.40} is no time"
            raise InputError(
                f"{words.strip()!r:.60}: {wrong}", hint=f"write {name}=500ms or {name}=2s"
            ) from None
        if seconds <= 0:
            raise InputError(
                f"{words.strip()!r:.60} is no time to keep to", hint="give more than 0 s"
            )
        share = None if found[2] == "mean" else float((found[2] or "p99").removeprefix("p"))
        if share == 0:
            raise InputError("p0 limits nothing", hint="give a percentile above 0, like p90")
        objective = Objective(metric, seconds, share)
        if any(objective.name == other.name for other in out):
            raise InputError(f"{objective.name} has two limits", hint="leave out one of the two")
        out.append(objective)
    return tuple(out)


class Attainment(Struct, frozen=True):
    """Attainment of an objective."""

    objective: Objective
    value_s: float
    """Its percentile, or mean; 0 where no request has the latency. [s]"""
    attainment: float
    """Share of the requests within the limit; those without the latency are. [1]"""
    met: bool
    """Whether the value is within the limit."""


def kept(served: FinishedRequests, objectives: Sequence[Objective]) -> tuple[Attainment, ...]:
    """Attainment of each objective."""
    out = []
    for objective in objectives:
        seconds, percentile = served.seconds(objective.metric), objective.percentile
        have = seconds[~np.isnan(seconds)]
        value = 0.0
        if len(have):
            value = float(have.mean() if percentile is None else np.percentile(have, percentile))
        within = float(_within(served, objective).mean())
        out.append(Attainment(objective, value, within, value <= objective.limit_s))
    return tuple(out)


def _within(served: FinishedRequests, objective: Objective) -> NDArray[np.bool_]:
    """Requests within a limit; those without the latency are."""
    return ~(served.seconds(objective.metric) > objective.limit_s)


def good(served: FinishedRequests, objectives: Sequence[Objective]) -> NDArray[np.bool_]:
    """Requests within the limits of all objectives."""
    out = np.ones(len(served), np.bool_)
    for objective in objectives:
        out &= _within(served, objective)
    return out


def window(served: FinishedRequests) -> float:
    """First arrival to last token. [s]"""
    return float(served.finish.max() - served.arrival.min())


def goodput(served: FinishedRequests, objectives: Sequence[Objective]) -> float:
    """Requests a second that are within the limits of all objectives. [1/s]

    Source: DistServe (arXiv 2401.09670), section 1, here without a target for the share.
    """
    return float(good(served, objectives).sum()) / window(served)
