"""Deployments large enough for traffic, and the question of a plan by which they are compared."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Final

from msgspec import Struct

from roofline.records import replace
from roofline.serving.objectives import Objective
from roofline.serving.simulate.disaggregated import Handover
from roofline.serving.simulate.server import Server
from roofline.study.plan.candidate import Candidate, DeploymentKind
from roofline.study.plan.curve import SHARES, Curve, Role
from roofline.study.plan.demand import Demand, Goal
from roofline.study.plan.tabled import Replica

UNPRICED: Final = float(2**30)
"""Cost by which devices without a price rank behind all others, the fewest first. [$/h]"""

ROUNDING: Final = 2.0**-40
CHEAPER: Final = 0.1
"""Share by which something unusual has to be cheaper to be recommended."""


def compared_cost(cost: float, other: float) -> str:
    """A cost beside another one, in words: ``"12% more"``."""
    if max(cost, other) >= UNPRICED > min(cost, other):
        return "at a price that is not known"
    return f"{abs(cost / other - 1.0):.0%} {'less' if cost < other else 'more'}"


@dataclass(frozen=True, slots=True)
class Pool:
    """Equal instances."""

    role: Role
    """Phases of a request that they serve."""
    replica: Replica
    server: Server = field(repr=False)
    """Each of them, and its settings."""
    curve: Curve = field(repr=False)
    """Latencies of each under load, as expected."""
    carries: float
    """Most requests a second of each for which all limits hold with the confidence asked for.
    [1/s]"""
    binds: str
    """Limit that is in the way of more: name of an objective, ``"rate"`` or ``"interconnect"``."""
    instances: int
    """Number of instances. [1]"""

    @property
    def candidate(self) -> Candidate:
        """Layout and kind."""
        return self.replica.candidate

    @property
    def kind(self) -> DeploymentKind:
        """Device and formats."""
        return self.replica.candidate.kind

    @property
    def gpus(self) -> int:
        """Devices of all instances. [1]"""
        return self.instances * self.candidate.devices


class Option(Struct, frozen=True):
    """Pools that serve all of the traffic together."""

    pools: tuple[Pool, ...]
    """One whose instances do everything; or one that prefills and one that decodes."""
    rate: float
    """Rate of all requests. [1/s]"""
    wires: Handover | None = None
    """Between the two pools; None for a single one."""
    handover_s: float = 0.0
    """Time of a cache of mean length on its way between them. [s]"""

    @property
    def mode(self) -> str:
        """``"aggregated"`` or ``"disaggregated"``."""
        return "aggregated" if len(self.pools) == 1 else "disaggregated"

    @property
    def kind(self) -> DeploymentKind:
        """Kind of the first pool."""
        return self.pools[0].kind

    @property
    def layout(self) -> str:
        """Layout as the command line takes it; of both pools one after the other."""
        return " + ".join(pool.candidate.spelled for pool in self.pools)

    @property
    def gpus(self) -> int:
        """Devices of all pools. [1]"""
        return sum(pool.gpus for pool in self.pools)

    @property
    def usd_per_hour(self) -> float:
        """Price of all devices; 0 where one has none. [$/h]"""
        prices = [pool.kind.usd_per_hour for pool in self.pools]
        return self.cost({}) if all(prices) else 0.0

    def cost(self, prices: Mapping[str, float]) -> float:
        """Cost by which options are ordered, at other prices than the kinds' where given. [$/h]"""
        return sum(
            pool.gpus * (prices.get(pool.kind.name, pool.kind.usd_per_hour) or UNPRICED)
            for pool in self.pools
        )

    @property
    def usual(self) -> bool:
        """True if there is one pool, each instance inside a node, as engines are usually run."""
        return len(self.pools) == 1 and self.pools[0].candidate.usual

    @property
    def plainness(self) -> tuple[bool, bool, bool]:
        """Sort key by what engines are run with, of the pool that is least so."""
        return max(pool.candidate.plainness for pool in self.pools)

    @property
    def capacity(self) -> float:
        """Requests a second for which all limits hold. [1/s]"""
        return min(pool.carries * pool.instances for pool in self.pools)

    @property
    def saturation(self) -> float:
        """Requests a second beyond which the queue grows without end. [1/s]"""
        return min(pool.curve.saturation * pool.instances for pool in self.pools)

    @property
    def tightest(self) -> Pool:
        """The pool that carries least."""
        return min(self.pools, key=lambda pool: pool.carries * pool.instances)

    @property
    def binds(self) -> str:
        """Limit that is in the way of more."""
        return self.tightest.binds

    @property
    def headroom(self) -> float:
        """Share by which traffic may grow. [1]"""
        return self.capacity / self.rate - 1.0

    def seconds(self, name: str) -> float:
        """Latency of an objective at the load. [s]

        Of two pools both, and the hand-over, have a part in TTFT: percentiles are added up.
        """
        if not name.startswith("ttft"):
            return self._part(name, self.pools[-1])
        return sum(self._part(name, pool) for pool in self.pools) + self.handover_s

    def _part(self, name: str, pool: Pool) -> float:
        return pool.curve.at(name, self.rate / pool.instances)

    def elsewhere(self, pool: Pool) -> dict[str, float]:
        """Part of each TTFT that is not a pool's own. [s]"""
        names = (name for name in pool.curve.seconds if name.startswith("ttft"))
        return {name: self.seconds(name) - self._part(name, pool) for name in names}

    def same(self, other: "Option") -> bool:
        """True if both are made of the same instances, as many of each."""
        return len(self.pools) == len(other.pools) and all(
            one.candidate is two.candidate and one.instances == two.instances
            for one, two in zip(self.pools, other.pools, strict=True)
        )

    def larger(self) -> "Option":
        """The option with one more instance of the pool that carries least."""
        tight = self.tightest
        pools = tuple(
            replace(pool, instances=pool.instances + 1) if pool is tight else pool
            for pool in self.pools
        )
        return replace(self, pools=pools)

    def without(self, spares: int) -> "Option":
        """The option when so many instances of every pool are lost."""
        pools = tuple(replace(pool, instances=pool.instances - spares) for pool in self.pools)
        return replace(self, pools=pools)


@dataclass(frozen=True, slots=True)
class PlanQuestion:
    """Question of a plan."""

    demand: Demand
    goal: Goal
    """Traffic, and the limits that have to be kept."""
    factor: float = 1.0
    """On the time of all devices. [1]"""
    prices: Mapping[str, float] = field(default_factory=dict)
    """Price of a device by kind where it is not that of the kind. [$/h]"""

    def slowness(self, kind: DeploymentKind, role: Role = "all") -> float:
        """Factor on the time of a kind in a role that the confidence asks for. [1]"""
        sd = kind.uncertainty.of(role).step
        return self.factor * math.exp(deviations(self.goal.confidence) * sd)

    def objectives(self, kind: DeploymentKind, role: Role = "all") -> tuple[Objective, ...]:
        """Limits, of a first token with what the confidence asks for beside slower steps."""
        known = kind.uncertainty.of(role)
        more = math.exp(deviations(self.goal.confidence) * max(known.first - known.step, 0.0))
        return tuple(
            replace(each, limit_s=each.limit_s / more) if each.metric == "ttft" else each
            for each in self.goal.objectives
        )

    def beside(self, seconds: Mapping[str, float]) -> "PlanQuestion":
        """The question to one of several pools: limits less what the others take. [s]"""
        limits = tuple(
            replace(each, limit_s=each.limit_s - seconds.get(each.name, 0.0))
            for each in self.goal.objectives
        )
        return replace(self, goal=replace(self.goal, objectives=limits))

    def at(self, rate: float) -> "PlanQuestion":
        """The question at another rate of requests. [1/s]"""
        return replace(self, demand=replace(self.demand, rate=rate))

    def refusal(self, candidate: Candidate) -> str:
        """Reason why a layout cannot serve at all; empty where it might."""
        kind = candidate.kind
        return candidate.refusal(self.demand, self.objectives(kind), self.slowness(kind))

    def bound(self, candidate: Candidate, role: Role = "all", *, likely: bool = False) -> float:
        """Requests a second that a replica could carry at best: see `Candidate.bound`. [1/s]"""
        kind = candidate.kind
        limits, factor = self.objectives(kind), self.slowness(kind)
        return candidate.bound(self.demand, limits, factor, role, likely=likely)

    def enough(self, option: Option) -> bool:
        """True if an option carries traffic by its curves, on the devices that are allowed."""
        return option.capacity > 0 and self.allowed(option)

    def allowed(self, option: Option) -> bool:
        """True if an option has no more devices than are allowed.

        Where each GPU has a number of its own, pools of two share what they stand for.
        """
        if not self.goal.held:
            return option.gpus <= self.goal.gpus
        used = sum(pool.gpus / self.goal.most(pool.kind.gpu) for pool in option.pools)
        return option.gpus <= self.goal.gpus and used <= 1.0 + ROUNDING

    def cost(self, option: Option) -> float:
        """Dollars for an hour, by which options are ordered; `UNPRICED` for each device without.

        Devices that are given back cost the share of it in which they serve. [$/h]
        """
        cost = option.cost(self.prices)
        if not self.goal.returned:
            return cost
        # A job costs as much on any number of replicas, whatever their last digits say.
        return float(f"{cost * self.demand.rate / option.saturation:.12g}")

    def least_cost(self, candidate: Candidate, carries: float) -> float:
        """Dollars for an hour of a candidate whose replicas carry so much at best [1/s]. [$/h]"""
        kind, replicas = candidate.kind, float(self.replicas(carries))
        if self.goal.returned:
            replicas = self.demand.rate * SHARES[-1] / (carries * self.slowness(kind))
        each = self.prices.get(kind.name, kind.usd_per_hour) or UNPRICED
        return replicas * candidate.devices * each

    def order(self, option: Option) -> tuple[float, int, tuple[bool, ...], float]:
        """Sort key of options: the cheapest, of those the plainest, then what carries most."""
        return self.cost(option), option.gpus, option.plainness, -option.capacity

    def preferred(self, options: Sequence[Option]) -> Option | None:
        """The option to recommend: the cheapest usual one, or one that is so much cheaper."""
        usual = min((each for each in options if each.usual), key=self.order, default=None)
        least = min(options, key=self.order, default=None)
        if usual is None or least is None:
            return least
        return least if self.cheaper(least, usual) else usual

    def cheaper(self, option: Option, usual: Option) -> bool:
        """True if an option costs so much less than a usual one that it is preferred."""
        return self.cost(option) <= self.cost(usual) * (1.0 - CHEAPER) * (1.0 + ROUNDING)

    def replicas(self, carries: float) -> int:
        """Replicas that are enough, if each carries so many requests a second, above 0. [1]"""
        wanted = self.demand.rate * (1.0 + self.goal.headroom)
        return max(math.ceil(wanted / carries * (1.0 - ROUNDING)), 1) + self.goal.spares


def deviations(confidence: float) -> float:
    """Standard deviations that a confidence asks for; 0 for what is expected. [1]

    Quantile of the normal distribution at a probability below 1. Source: definition.

    Examples:
        >>> round(deviations(0.9), 3), deviations(0.3)
        (1.282, 0.0)
    """
    return max(NormalDist().inv_cdf(confidence), 0.0) if confidence else 0.0
