"""Sensitivity of a plan: each input lower and higher, and planned again."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from roofline.study.plan.choose import replanned
from roofline.study.plan.confirm import Confirmed
from roofline.study.plan.option import Option
from roofline.study.plan.question import Question
from roofline.study.plan.tabled import Tables

STEP: Final = 0.2
"""Share by which inputs are moved."""
REFUSED: Final = 0.2
"""Share by which what is refused of a draft is moved: what one drafter is accepted less or more on
one text than on another. Source: the ends of what is published of DeepSeek-V3's over various topics
(arXiv 2412.19437, section 5.4.3), 0.85 and 0.90: 0.875 with 20 % more and less refused."""
FEW: Final = 2
"""Options that are looked at where requests change, as each needs another curve. [1]"""


@dataclass(frozen=True, slots=True)
class Bar:
    """Input moved to both sides."""

    what: str
    """The input."""
    said: tuple[str, str]
    """Ends that it was moved to, low and high, in words."""
    low: Option | None
    base: Option
    high: Option | None
    """Preferred option there; None where none of those looked at is enough."""
    outputs: tuple[float, float]
    """Mean tokens of an answer there. [token]"""
    prices: tuple[Mapping[str, float], Mapping[str, float]]
    """Of a device by kind there, where it is not that of the kind. [$/h]"""


def tornado(
    best: Confirmed, options: Sequence[Option], question: Question, tables: Tables
) -> tuple[Bar, ...]:
    """Bars of every input, the one that moves the price most first.

    Planned again by curves, over all options; where requests change over the best few of them.
    """
    base = best.option
    every = [*options, base]
    few = [base, *(each for each in options if each.layout != base.layout)][:FEW]

    def bar(
        what: str, said: tuple[str, str], asked: Sequence[Question], some: Sequence[Option]
    ) -> Bar:
        tables.tell(f"what if: {what} {said[0]}, {said[1]}")
        low, high = (replanned(some, each, tables) for each in asked)
        outputs = (asked[0].demand.output, asked[1].demand.output)
        return Bar(what, said, low, base, high, outputs, (asked[0].prices, asked[1].prices))

    share = (f"−{STEP:.0%}", f"+{STEP:.0%}")
    ends = (1.0 - STEP, 1.0 + STEP)
    bars = [bar("traffic", share, [question.at(question.demand.rate * x) for x in ends], every)]
    if question.goal.objectives:
        bars.append(bar("limits of the SLO", share, [_limits(question, x) for x in ends], every))
    for kind in {pool.kind.name: pool.kind for pool in base.pools}.values():
        if kind.usd_per_hour:
            asked = [replace(question, prices={kind.name: kind.usd_per_hour * x}) for x in ends]
            bars.append(bar(f"price of {kind.gpu}", share, asked, every))
    for what, name in (("prompts", "prompt"), ("answers", "output")):
        asked = [_lengths(question, name, x) for x in ends]
        bars.append(bar(what, share, asked, few))
    if question.demand.acceptance is not None:
        demands = [question.demand.refused(1.0 + x * REFUSED) for x in (1.0, -1.0)]
        low, high = (str(each.acceptance) for each in demands)
        bars.append(
            bar("acceptance", (low, high), [replace(question, demand=d) for d in demands], few)
        )
    if best.step_sd:
        sd = best.step_sd
        asked = [replace(question, factor=float(np.exp(x * sd))) for x in (-1.0, 1.0)]
        slow = (f"{np.exp(-sd) - 1:+.1%}".replace("-", "−"), f"{np.exp(sd) - 1:+.1%}")
        bars.append(bar("time of steps, 1 σ", slow, asked, every))
    return tuple(sorted(bars, key=lambda each: -_swing(each, question)))


def _limits(question: Question, factor: float) -> Question:
    goal = question.goal
    limits = tuple(replace(each, limit_s=each.limit_s * factor) for each in goal.objectives)
    return replace(question, goal=replace(goal, objectives=limits))


def _lengths(question: Question, name: str, factor: float) -> Question:
    demand = question.demand
    longer = demand.scaled(prompt=factor) if name == "prompt" else demand.scaled(output=factor)
    return replace(question, demand=longer)


def _swing(bar: Bar, question: Question) -> float:
    """How far the price of a token moves, from one side to the other."""
    return float(np.ptp(list(_costs(bar, question))))


def _costs(bar: Bar, question: Question) -> Iterator[float]:
    for option, output, prices in zip((bar.low, bar.high), bar.outputs, bar.prices, strict=True):
        if option is not None:
            yield option.cost(prices) / (option.rate * output)
    yield question.cost(bar.base) / (bar.base.rate * question.demand.output)


def changed(bar_option: Option | None, base: Option) -> bool:
    """Whether another deployment is the best: other devices, formats, layouts or pools."""
    if bar_option is None:
        return True
    one, other = (
        [(pool.kind.name, pool.candidate.layout, pool.role) for pool in option.pools]
        for option in (bar_option, base)
    )
    return one != other
