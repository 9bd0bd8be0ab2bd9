"""A recommended deployment over a rate curve: a fleet that follows the load beside a fixed one."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from roofline.cost.work import Array
from roofline.errors import InputError
from roofline.records import replace
from roofline.serving.traffic.rate_curve import RateCurve
from roofline.study.plan.confirm import holds
from roofline.study.plan.figures import shape
from roofline.study.plan.option import ROUNDING, Option, PlanQuestion, Pool
from roofline.study.plan.scaling import (
    LateRequests,
    Policy,
    PoolHours,
    ScaledPool,
    fixed,
    followed,
    joined,
    late,
)
from roofline.study.plan.start_up import StartUp, start_up
from roofline.study.plan.tabled import Tables
from roofline.units import SECONDS_PER_HOUR, counted

FIXED, FOLLOWS, REACTS = "fixed for the peak", "follows the load", "follows it, no look-ahead"
AFTER: Final = ", follows"
"""Names of fleets; end of the name of one of another deployment."""


class FollowRule(Struct, frozen=True):
    """Rate curve, and how a fleet follows it."""

    curve: RateCurve
    policy: Policy
    """Rates, and the rules by which replicas are ordered and given back."""
    reserved: Mapping[str, float]
    """Price of a reserved device by the name of its GPU; empty where none is asked for. [$/h]"""


class DayFleet(Struct, frozen=True):
    """A fleet over the period of a rate curve."""

    name: str
    pools: tuple[PoolHours, ...]
    """Name, and the replicas of each pool."""
    late: LateRequests
    """Requests that come while replicas are missing."""

    @property
    def gpus(self) -> tuple[Array, Array]:
        """Times [s], and devices that are paid for from there on [1]."""
        edges, counts = joined([each.paid for each in self.pools])
        return edges, np.array([each.pool.devices for each in self.pools]) @ counts

    @property
    def gpu_hours(self) -> float:
        """Device hours a day. [1]"""
        return sum(each.gpu_hours for each in self.pools)

    @property
    def usd_per_day(self) -> float:
        """Price of them on demand; 0 where one has none. [$]"""
        prices = [each.gpu_hours * each.pool.usd_per_hour for each in self.pools]
        return sum(prices) if all(prices) else 0.0


class Day(Struct, frozen=True):
    """Fleets of a deployment over a rate curve."""

    curve: RateCurve
    option: Option
    """Rates, and the deployment at their peak."""
    starts: tuple[StartUp, ...]
    """Start of a replica of each pool."""
    policy: Policy
    """Rules by which replicas are ordered and given back."""
    simulated: tuple[int, ...]
    """Numbers of replicas that were simulated at the largest rate that they serve. [1]"""
    fleets: tuple[DayFleet, ...]
    """The fixed fleet, the one that follows the load, and others: the last ones of other
    deployments."""

    @property
    def follows(self) -> DayFleet:
        """The fleet that follows the load."""
        return self.fleets[1]


def day_of(
    best: Option,
    others: Sequence[Option],
    question: PlanQuestion,
    asked: FollowRule,
    tables: Tables,
) -> Day:
    """Fleets that serve a rate curve with what is recommended for its peak, and with others.

    A replica carries what its curve says, as long as that gives the replicas that were confirmed at
    the peak; else its share of the peak. Of one pool, smaller numbers of what is recommended are
    simulated at the largest rate that each has to serve, as far as runs are left.
    """
    policy, goal = asked.policy, question.goal
    starts, pools = _pools(best, question, asked)
    if (least := _least(pools, policy)) > goal.gpus:
        raise InputError(
            f"{counted(policy.least, 'replica')} at least of {shape(best)} are "
            f"{counted(least, 'GPU')}, more than the {goal.gpus:,} that are allowed",
            hint="give a smaller min in `scaling`, or more `gpus`",
        )
    simulated: tuple[int, ...] = ()
    if len(pools) == 1:
        pools[0], simulated = _tried(pools[0], best, question, asked.curve, tables)
    fleets = [_fixed(best, pools, asked), _moving(FOLLOWS, pools, question, asked)]
    if policy.look_ahead_s != 0:
        reacts = replace(asked, policy=replace(policy, look_ahead_s=0.0))
        fleets.append(_moving(REACTS, pools, question, reacts))
    for (name, kind), option in {(shape(each), each.kind.name): each for each in others}.items():
        more = _pools(option, question, asked)[1]
        if (name, kind) != (shape(best), best.kind.name) and _least(more, policy) <= goal.gpus:
            where = "" if kind == best.kind.name else f" of {kind}"
            fleets.append(_moving(f"{name}{where}{AFTER}", more, question, asked))
    return Day(asked.curve, best, starts, policy, simulated, tuple(fleets))


def _least(pools: Sequence[ScaledPool], policy: Policy) -> int:
    """Devices of the fewest replicas that the policy allows. [1]"""
    return policy.least * sum(pool.devices for pool in pools)


def _pools(
    option: Option, question: PlanQuestion, asked: FollowRule
) -> tuple[tuple[StartUp, ...], list[ScaledPool]]:
    """Starts of a replica, and what each carries, of every pool of an option."""
    starts = tuple(start_up(pool.replica.deployment, asked.policy.start) for pool in option.pools)
    return starts, [
        _scaled(pool, question, start, asked.reserved)
        for pool, start in zip(option.pools, starts, strict=True)
    ]


def _fixed(option: Option, pools: Sequence[ScaledPool], asked: FollowRule) -> DayFleet:
    """The replicas of the peak at all times, and no fewer than the policy allows."""
    made = tuple(
        fixed(asked.curve, pool, max(of.instances, asked.policy.least))
        for pool, of in zip(pools, option.pools, strict=True)
    )
    return DayFleet(FIXED, made, late(asked.curve, made))


def _moving(
    name: str, pools: Sequence[ScaledPool], question: PlanQuestion, asked: FollowRule
) -> DayFleet:
    """Replicas that follow the load."""
    goal, curve = question.goal, asked.curve
    made = tuple(followed(curve, pool, asked.policy, goal.headroom, goal.spares) for pool in pools)
    hours = np.arange(round(curve.period_s / SECONDS_PER_HOUR)) * SECONDS_PER_HOUR
    return DayFleet(name, made, late(curve, made, hours.tolist()))


def _tried(
    pool: ScaledPool, option: Option, question: PlanQuestion, curve: RateCurve, tables: Tables
) -> tuple[ScaledPool, tuple[int, ...]]:
    """The pool with the numbers of replicas that simulation refuses, and those that were tried."""
    goal, (of,) = question.goal, option.pools
    rates = np.unique(curve.rates)
    numbers = pool.number(rates * (1.0 + goal.headroom)).astype(int)
    largest = {int(number): float(rate) for number, rate in zip(numbers, rates, strict=True)}
    refused: list[int] = []
    tried: list[int] = []
    for number, rate in sorted(largest.items(), reverse=True):
        if 0 < number < of.instances - goal.spares and tables.budget.left:
            fewer = replace(option, pools=(replace(of, instances=number + goal.spares),), rate=rate)
            tried.append(number)
            if not holds(fewer, question.at(rate), tables):
                refused.append(number)
    return replace(pool, refused=frozenset(refused)), tuple(sorted(tried))


def _scaled(
    pool: Pool, question: PlanQuestion, start: StartUp, reserved: Mapping[str, float]
) -> ScaledPool:
    """A pool whose replicas come and go."""
    goal, kind = question.goal, pool.kind
    wanted = question.demand.rate * (1.0 + goal.headroom)
    number = pool.instances - goal.spares
    agrees = pool.carries > 0 and math.ceil(wanted / pool.carries * (1.0 - ROUNDING)) == number
    carries = pool.carries if agrees else wanted / number
    saturation = max(pool.curve.saturation / question.slowness(kind, pool.role), carries)
    price = kind.usd_per_hour
    held = reserved.get(kind.gpu)
    if held is not None and not price:
        raise InputError(
            f"a price of reserved {kind.gpu} without one on demand", hint="give `usd_per_hour`, too"
        )
    return ScaledPool(carries, saturation, pool.candidate.devices, start.seconds, price, held)
