"""Two pools by the length of the prompt: short ones and long ones each have replicas of their own.

Both pools are planned as if the other's traffic did not exist, and keep all limits by themselves:
where each has so many of a hundred requests within a limit, all of them together have. Every
threshold that is tried is a quantile of the prompts.

Source: the router of a fleet that sends a request by its prompt's length; Splitwise, Patel et al.
2024 (arXiv 2311.18677), for pools of unlike layouts.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from roofline.errors import InputError
from roofline.records import replace
from roofline.serving.requests import picked_rows
from roofline.study.plan.candidate import DeploymentKind
from roofline.study.plan.demand import Demand, Goal
from roofline.study.plan.figures import shape
from roofline.study.plan.option import compared_cost
from roofline.study.plan.plan import Plan
from roofline.study.plan.plan import plan as planned
from roofline.study.plan.tabled import Tell
from roofline.table import Table, table

QUANTILES: Final = (0.5, 0.75, 0.9, 0.95)
"""Shares of the requests that are short, of the thresholds that are tried. [1]"""
FEWEST: Final = 100
"""Requests of a pool at least: of fewer, a 99th percentile is just the slowest one. [1]"""


class LengthSplit(Struct, frozen=True):
    """Pools for prompts up to a length, and for longer ones."""

    threshold: int
    """Longest prompt of the first pool. [token]"""
    short: Plan
    long: Plan
    """Plans of both."""

    @property
    def plans(self) -> tuple[Plan, Plan]:
        """Plan of the short prompts, and of the long ones."""
        return self.short, self.long

    @property
    def gpus(self) -> int:
        """Devices of both; 0 where one of them has no plan. [1]"""
        best = [each.best.option.gpus for each in self.plans if each.best is not None]
        return sum(best) if len(best) == 2 else 0

    def cost(self) -> float:
        """Dollars for an hour of both, by which splits are ordered; none is endless. [$/h]"""
        if not self.gpus:
            return np.inf
        return sum(
            each.question.cost(each.best.option) for each in self.plans if each.best is not None
        )


def parted(demand: Demand, threshold: int) -> tuple[Demand, Demand]:
    """Requests with prompts up to a length [token], and the others, each at its share of the rate.

    Source: definition of the router.
    """
    short = demand.requests.prompt <= threshold

    def some(rows: "np.ndarray[tuple[int], np.dtype[np.bool_]]", name: str) -> Demand:
        share = float(rows.mean())
        return replace(
            demand,
            requests=picked_rows(demand.requests, np.flatnonzero(rows)),
            drawn_per_s=demand.drawn_per_s * share,
            rate=demand.rate * share,
            warmup=int(rows[: demand.warmup].sum()),
            name=f"{demand.name}, prompts {name} {threshold}",
        )

    return some(short, "up to"), some(~short, "beyond")


def thresholds(demand: Demand) -> list[int]:
    """Prompt lengths at `QUANTILES` that leave enough requests on both sides. [token]"""
    prompts = demand.requests.prompt
    found = {int(np.quantile(prompts, share, method="lower")) for share in QUANTILES}
    return [
        each
        for each in sorted(found)
        if FEWEST <= int((prompts <= each).sum()) <= len(prompts) - FEWEST
    ]


def by_length(
    kinds: Sequence[DeploymentKind],
    demand: Demand,
    goal: Goal,
    *,
    pools: bool = True,
    ffn: bool = False,
    tell: Tell = lambda _: None,
) -> tuple[LengthSplit, ...]:
    """Two pools for each threshold, those that cost least first.

    Args:
        kinds, demand, goal, pools, ffn, tell: As of `roofline.study.plan.plan.plan`.

    Raises:
        InputError: Requests follow others, so that prompts of a session grow from one pool into
            the other; or prompts are nearly all of one length.
    """
    if (demand.requests.after >= 0).any():
        raise InputError(
            "pools by length for sessions, whose prompts grow from one into the other",
            hint="leave `length_pools` out, or give single requests",
        )
    lengths = thresholds(demand)
    if not lengths:
        if len(demand.requests) < 2 * FEWEST:
            raise InputError(
                f"pools by length for {len(demand.requests):,} requests",
                hint=f"give {2 * FEWEST} or more: each pool takes {FEWEST} for its percentiles",
            )
        raise InputError(
            "pools by length for prompts that are nearly all of one length",
            hint="leave `length_pools` out",
        )
    out = []
    for each in lengths:
        tell(f"pools for prompts up to {each:,} tokens, and for longer ones")
        short, long = (
            planned(kinds, part, goal, pools=pools, ffn=ffn, least=1, kept=0, tell=tell)
            for part in parted(demand, each)
        )
        out.append(LengthSplit(each, short, long))
    able = [each for each in out if each.gpus <= goal.gpus]
    return tuple(sorted(able, key=LengthSplit.cost))


def tabulated(splits: Sequence[LengthSplit], whole: Plan) -> Table:
    """Pools by length beside one for all, the cheapest first."""
    rows = [
        {
            "threshold": each.threshold,
            "share": each.short.demand.rate / whole.demand.rate,
            "short": _shape(each.short),
            "long": _shape(each.long),
            "gpus": each.gpus or None,
            "usd_per_hour": _price(each.plans),
        }
        for each in splits
    ]
    rows.append(
        {
            "threshold": None,
            "share": 1.0,
            "short": _shape(whole),
            "long": "",
            "gpus": None if whole.best is None else whole.best.option.gpus,
            "usd_per_hour": _price((whole,)),
        }
    )
    return table(rows, {"threshold": "token", "usd_per_hour": "$/h"})


def _shape(plan: Plan) -> str:
    return "none is enough" if plan.best is None else shape(plan.best.option)


def _price(plans: Sequence[Plan]) -> float | None:
    """Dollars for an hour; None where one has no plan, or a device no price. [$/h]"""
    prices = [0.0 if each.best is None else each.best.option.usd_per_hour for each in plans]
    return sum(prices) if all(prices) else None


def said(splits: Sequence[LengthSplit], whole: Plan) -> str:
    """A sentence on whether pools by length pay."""
    best = next(iter(splits), None)
    if best is None or not best.gpus:
        return "No two pools by prompt length are enough on the GPUs that are allowed."
    pools = (
        f"{_shape(best.short)} for prompts up to {best.threshold:,} tokens and "
        f"{_shape(best.long)} for longer ones: {best.gpus} GPUs"
    )
    if whole.best is None:
        return f"Pools by prompt length are enough where one for all is not: {pools}."
    alone = whole.question.cost(whole.best.option)
    more = compared_cost(best.cost(), alone)
    if best.cost() < alone:
        return f"Pools by prompt length cost {more}: {pools}."
    return f"Pools by prompt length do not pay: {pools}, {more} than one for all."
