"""Replicas that follow a rate curve: how many are paid for and how many serve, in closed form."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct

from roofline.cost.work import Array
from roofline.errors import InputError, QuantityError
from roofline.records import replace
from roofline.serving.traffic.rate_curve import RateCurve
from roofline.study.plan.option import ROUNDING
from roofline.units import SECONDS_PER_HOUR, duration

COOL_DOWN: Final = 300.0
"""Time for which replicas are kept that are needed no more. [s] Source: Kubernetes, HPA scaling
rules, ``scaleDown.stabilizationWindowSeconds``: the highest recommendation of the last 300 s."""
LOAD: Final = 0.7
"""Share of its saturation that a simulated replica is meant to carry: queues are short there.
Assumed. [1]"""
HINT: Final = "write start=nvme,look-ahead=2min,cool-down=5min,min=1,max=8, or some of it"


class Policy(Struct, frozen=True):
    """Rules by which replicas are ordered and given back."""

    start: str = "nvme"
    """Source of the weights, or time until a replica serves: see `start_up`."""
    look_ahead_s: float | None = None
    """Time before the load by which replicas are ordered; None for as long as they take to start.
    [s]"""
    cool_down_s: float = COOL_DOWN
    """Time for which they are kept when they are needed no more. [s]"""
    least: int = 1
    most: int | None = None
    """Replicas of a pool; None for what the peak needs. [1]"""
    load: float | None = None
    """Share of its saturation that a simulated replica is meant to carry; None for `LOAD`. A plan's
    carries what keeps its SLO. [1]"""


def policy_of(asked: str) -> Policy:
    """Policy from text; InputError where it has other words.

    Examples:
        >>> policy_of("start=90s, look-ahead=0s").look_ahead_s
        0.0
    """
    found: dict[str, Any] = {}
    for part in filter(None, (each.strip() for each in asked.split(","))):
        name, _, text = (each.strip() for each in part.partition("="))
        if name not in _WORDS or not text:
            raise InputError(f"scaling has no {part!r:.40}", hint=HINT)
        field, read = _WORDS[name]
        try:
            found[field] = read(text)
        except (QuantityError, ValueError):
            raise InputError(f"scaling with {part!r:.40}", hint=HINT) from None
    made = Policy(**found)
    if made.least < 0 or (made.most is not None and made.most < max(made.least, 1)):
        raise InputError(
            f"from {made.least} to {made.most} replicas", hint="give 0 or more, and max above min"
        )
    return made


def _share(text: str) -> float:
    """A share, in percent or as such; ValueError where it is none above 0."""
    value = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    if not 0.0 < value <= 1.0:
        raise ValueError
    return value


_WORDS: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "start": ("start", str),
    "look-ahead": ("look_ahead_s", duration),
    "cool-down": ("cool_down_s", duration),
    "min": ("least", int),
    "max": ("most", int),
    "load": ("load", _share),
}


class PeriodicValues(Struct, frozen=True):
    """Values that hold from one time to the next, again in every period."""

    starts_s: Array
    """Times from which they hold, ascending; the first is 0. [s]"""
    values: Array
    period_s: float
    """Values; time after which they begin again. [s]"""

    @property
    def lasting_s(self) -> Array:
        """Time for which each holds. [s]"""
        return np.diff(np.append(self.starts_s, self.period_s))

    def until(self, time: float) -> float:
        """Integral over time from 0 to a time of any period. [value · s]

        Examples:
            >>> PeriodicValues(np.array([0.0, 2.0]), np.array([1.0, 3.0]), 4.0).until(7.0)
            13.0
        """
        rounds, rest = divmod(time, self.period_s)
        part = np.clip(rest - self.starts_s, 0.0, self.lasting_s) @ self.values
        return float(rounds * self.period_s * self.mean + part)

    @property
    def mean(self) -> float:
        """Mean over time."""
        return float(self.lasting_s @ self.values) / self.period_s

    def at(self, time: Array) -> Array:
        """Values at times within the period."""
        found: Array = self.values[np.searchsorted(self.starts_s, time, side="right") - 1]
        return found

    def share_above(self, level: float) -> float:
        """Share of the time in which the value is larger. [1]"""
        return float(self.lasting_s[self.values > level].sum()) / self.period_s

    def reach(self, before: float, after: float, *, largest: bool) -> "PeriodicValues":
        """Largest or smallest value from so long before until so long after each time. [s]"""
        period, starts = self.period_s, self.starts_s
        edges = np.unique(np.concatenate([[0.0], starts + before, starts - after]) % period)
        middle = (edges + np.append(edges[1:], period)) / 2.0
        rounds = np.arange(-np.ceil(before / period) - 1, np.ceil(after / period) + 2) * period
        first = (rounds[:, None] + starts).ravel()
        last = first + np.tile(self.lasting_s, len(rounds))
        met = (first < middle[:, None] + after) & (last > middle[:, None] - before)
        values = np.tile(self.values, len(rounds))
        if largest:
            return PeriodicValues(edges, np.where(met, values, -np.inf).max(axis=1), period)
        return PeriodicValues(edges, np.where(met, values, np.inf).min(axis=1), period)


def joined(parts: Sequence[PeriodicValues]) -> tuple[Array, Array]:
    """Times at which any of some steps changes [s], and the values of each from there on."""
    edges = np.unique(np.concatenate([part.starts_s for part in parts]))
    return edges, np.stack([part.at(edges) for part in parts])


class ScaledPool(Struct, frozen=True):
    """Pool of equal replicas, of which some or more run."""

    carries: float
    """Most requests a second of each for which all limits hold. [1/s]"""
    saturation: float
    """Requests a second of each beyond which its queue grows. [1/s]"""
    devices: int
    """Devices of each. [1]"""
    start_s: float
    """Time until one that is ordered serves. [s]"""
    usd_per_hour: float = 0.0
    """Price of a device on demand; 0 where none is known. [$/h]"""
    reserved_usd_per_hour: float | None = None
    """Price of a device that is reserved for good; None where none is asked for. [$/h]"""
    refused: frozenset[int] = frozenset()
    """Numbers of replicas that did not keep all limits in simulation at the load that they carry:
    there is one more. [1]"""

    def number(self, rate: Array) -> Array:
        """Replicas that keep all limits at rates of requests [1/s]: ⌈rate / carries⌉. [1]

        Examples:
            >>> pool = ScaledPool(10.0, 12.0, 1, 60.0, refused=frozenset({1}))
            >>> pool.number(np.array([0.0, 8.0, 11.0]))
            array([0., 2., 2.])
        """
        found: Array = np.ceil(rate / self.carries * (1.0 - ROUNDING))
        return found + np.isin(found, list(self.refused))


class PoolHours(Struct, frozen=True):
    """Replicas of a pool over the period."""

    pool: ScaledPool
    paid: PeriodicValues
    """Replicas that are paid for, those that start included. [1]"""
    ready: PeriodicValues
    """Replicas that serve. [1]"""

    @property
    def gpu_hours(self) -> float:
        """Device hours a day. [1]"""
        return self.paid.mean * self.pool.devices * 24.0


def needed(
    curve: RateCurve, pool: ScaledPool, policy: Policy, headroom: float, spares: int
) -> PeriodicValues:
    """Replicas that a rate curve needs at each time. [1]

    ⌈rate · (1 + headroom) / carries⌉ and the spares, between the least and the most. Source:
    `roofline.study.plan.option.PlanQuestion.replicas`.

    Args:
        curve: Rates.
        pool: Replicas.
        policy: Least and most replicas.
        headroom: Share by which traffic may grow. [1]
        spares: Replicas that may be lost. [1]
    """
    wanted = pool.number(np.array(curve.rates) * (1.0 + headroom))
    counts = np.maximum(wanted + spares * (wanted > 0), policy.least)
    most = np.inf if policy.most is None else policy.most
    return PeriodicValues(np.array(curve.starts_s), np.minimum(counts, most), curve.period_s)


def followed(
    curve: RateCurve, pool: ScaledPool, policy: Policy, headroom: float = 0.0, spares: int = 0
) -> PoolHours:
    """Replicas of a pool that follow a rate curve.

    Paid for is the most that is needed from the cool-down before until the look-ahead after a time:
    what is ordered early and given back late. Ready is the least that was paid for over the last
    start-up: the newest are given back first. Source: the two windows of the policy; ordering and
    giving back replica by replica counts the same.

    Args:
        curve: Rates.
        pool: Replicas.
        policy: Look-ahead and cool-down; least and most replicas.
        headroom: Share by which traffic may grow. [1]
        spares: Replicas that may be lost. [1]
    """
    ahead = pool.start_s if policy.look_ahead_s is None else policy.look_ahead_s
    need = needed(curve, pool, policy, headroom, spares)
    paid = need.reach(policy.cool_down_s, ahead, largest=True)
    return PoolHours(pool, paid, paid.reach(pool.start_s, 0.0, largest=False))


def fixed(curve: RateCurve, pool: ScaledPool, instances: int) -> PoolHours:
    """As many replicas of a pool at all times. [1]"""
    always = PeriodicValues(np.zeros(1), np.full(1, float(instances)), curve.period_s)
    return PoolHours(pool, always, always)


class LateRequests(Struct, frozen=True):
    """Requests outside the SLO for lack of replicas. Arrays have an entry for each stretch."""

    starts_s: Array
    """Time at which the stretch begins. [s]"""
    requests: Array
    """Requests that come in it. [1]"""
    late: Array
    """Requests of them that come while too few replicas serve, or while others wait. [1]"""
    backlog: Array
    """Requests beyond what is served, at its end. [1]"""

    @property
    def share(self) -> float:
        """Share of all requests. [1]"""
        return float(self.late.sum() / self.requests.sum())


def late(curve: RateCurve, pools: Sequence[PoolHours], extra: Sequence[float] = ()) -> LateRequests:
    """Requests that come while replicas are too few, and until their queue is gone again.

    Rates and replicas are constant in a stretch: requests are outside where more come than all
    limits hold for; where more come than saturation they wait, as a fluid that the replicas work
    off. A second period begins with what the first left. Source: fluid limit of a queue, Newell
    1982, Applications of Queueing Theory, chapter 2.

    Args:
        curve: Rates.
        pools: Replicas of each pool that a request goes through.
        extra: Times at which a stretch ends, too. [s]
    """
    parts = [PeriodicValues(np.array(curve.starts_s), np.array(curve.rates), curve.period_s)]
    parts += [each.ready for each in pools]
    if len(extra):
        parts.append(PeriodicValues(np.array(extra), np.zeros(len(extra)), curve.period_s))
    edges, values = joined(parts)
    seconds, rate = np.diff(np.append(edges, curve.period_s)), values[0]
    ready = values[1 : 1 + len(pools)]
    few = [n < each.pool.number(rate) for n, each in zip(ready, pools, strict=True)]
    short = np.any(few, axis=0)
    served = np.min(
        [n * each.pool.saturation for n, each in zip(ready, pools, strict=True)], axis=0
    )
    behind = np.zeros(len(edges))
    waiting, queue = np.zeros(len(edges)), 0.0
    for _ in range(2):
        for place in range(len(edges)):
            grows = rate[place] - served[place]
            waiting[place] = 0.0
            if queue > 0 or grows > 0:
                empty = seconds[place] if grows >= 0 else queue / -grows
                waiting[place] = min(empty, seconds[place])
            queue = max(queue + grows * seconds[place], 0.0)
            behind[place] = queue
    lasting = np.where(short, seconds, waiting)
    return LateRequests(edges, rate * seconds, rate * lasting, behind)


def reserve(hours: PoolHours) -> tuple[int, float]:
    """Devices to reserve, the rest on demand, and what all cost for a day. [1] [$]

    The fewest of which no more are missing than in a share of the time of reserved over on-demand
    price: F(r) ≥ 1 − p_reserved / p_demand. Source: the newsvendor's quantile, Arrow, Harris and
    Marschak 1951, Optimal Inventory Policy, Econometrica 19.

    Args:
        hours: Replicas, and the prices of their devices.
    """
    pool, paid = hours.pool, hours.paid
    held, demand = pool.reserved_usd_per_hour, pool.usd_per_hour
    levels = (0.0, *np.unique(paid.values).tolist())
    number = 0.0
    if held is not None and demand:
        number = next(r for r in levels if paid.share_above(r) * demand <= held or r == levels[-1])
        number = number if held < demand else 0.0
    beyond = replace(paid, values=np.maximum(paid.values - number, 0.0)).mean
    cost = 24.0 * pool.devices * (number * (held or 0.0) + beyond * demand)
    return int(number) * pool.devices, cost


def by_hours(edges: Array, values: Array, period_s: float) -> Array:
    """Integral of steps over every hour of a period. [value · s]

    Args:
        edges: Times from which values hold; the first is 0. [s]
        values: Values.
        period_s: End of the last. [s]
    """
    whole = np.concatenate([[0.0], np.cumsum(np.diff(np.append(edges, period_s)) * values)])
    hours = np.arange(round(period_s / SECONDS_PER_HOUR) + 1) * SECONDS_PER_HOUR
    found: Array = np.diff(np.interp(hours, np.append(edges, period_s), whole))
    return found
