"""A plan for other rates, inputs and confidences, and the frontier of cost and quality."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from roofline.records import replace
from roofline.study.plan.choose import renewed, replanned
from roofline.study.plan.confirm import SimulatedOption, holds
from roofline.study.plan.figures import LatencyNames
from roofline.study.plan.option import ROUNDING, Option, PlanQuestion
from roofline.study.plan.tabled import Tables

AIMS: Final = ("ttft", "tpot", "headroom")

LEVELS: Final = (0.5, 0.75, 0.9, 0.95, 0.99)
"""Probabilities that are shown. [1]"""
TRIES: Final = 3
"""Options that are simulated for each at most. [1]"""

MOST: Final = 60
"""Rates that are looked at. [1]"""

STEP: Final = 0.2
"""Share by which inputs are moved."""
REFUSED: Final = 0.2
"""Share by which what is refused of a draft is moved: what one drafter is accepted less or more on
one text than on another. Source: the ends of what is published of DeepSeek-V3's over various topics
(arXiv 2412.19437, section 5.4.3), 0.85 and 0.90: 0.875 with 20 % more and less refused."""
FEW: Final = 2
"""Options that are looked at where requests change, as each needs another curve. [1]"""


def frontier(
    every: Sequence[SimulatedOption], question: PlanQuestion, names: LatencyNames
) -> list[tuple[SimulatedOption, tuple[str, ...]]]:
    """Deployments that nothing at their cost or below beats in some of `AIMS`, with these aims.

    The cheapest comes first.
    """
    some = sorted(every, key=lambda each: question.order(each.option))
    costs = [(question.cost(each.option), each.option.gpus) for each in some]
    values = {
        "ttft": [each.seconds(names.ttft).kept.value_s for each in some],
        "tpot": [each.seconds(names.tpot).kept.value_s for each in some],
        "headroom": [-each.option.capacity for each in some],
    }
    best = {name: _least(values[name], costs) for name in AIMS}
    return [
        (each, aims)
        for place, each in enumerate(some)
        if (aims := tuple(name for name in AIMS if place in best[name]))
    ]


def _least(values: Sequence[float], costs: Sequence[tuple[float, int]]) -> set[int]:
    """Places of values lower than all that cost less, or as much on no more devices."""
    found: set[int] = set()
    lowest = float("inf")
    order = sorted(range(len(values)), key=lambda place: (costs[place], values[place]))
    for place in order:
        if values[place] < lowest * (1.0 - ROUNDING if lowest > 0 else 1.0 + ROUNDING):
            lowest = values[place]
            found.add(place)
    return found


def levels(
    best: SimulatedOption,
    options: Sequence[Option],
    question: PlanQuestion,
    tables: Tables,
    *,
    spare: int,
) -> dict[float, Option | None]:
    """Preferred deployments by probability that all limits hold: `LEVELS`, and the one asked for.

    None where none of those looked at is enough; empty where errors are not known. More confidence
    never costs less: what keeps a higher one keeps a lower one too. Some runs are spared. [1]
    """
    if not best.step_sd:
        return {}
    asked = question.goal.confidence
    some = [*options, best.option]
    found: dict[float, Option | None] = {asked: best.option} if asked else {}
    for confidence in sorted(LEVELS, key=lambda each: abs(each - asked)):
        if confidence not in found:
            at = replace(question, goal=replace(question.goal, confidence=confidence))
            found[confidence] = _held(at, some, tables, spare)
    above: Option | None = None
    for confidence in sorted(found, reverse=True):
        option = found[confidence]
        dearer = above is not None and (
            option is None or question.cost(above) < question.cost(option)
        )
        if dearer and confidence != asked:
            found[confidence] = above
        above = found[confidence]
    return dict(sorted(found.items()))


def _held(
    question: PlanQuestion, options: Sequence[Option], tables: Tables, spare: int
) -> Option | None:
    """The preferred option that holds in a run; by its curve where no run is left."""
    refused: list[Option] = []
    for _ in range(TRIES):
        option = replanned(options, question, tables, refused=refused)
        if option is None or tables.budget.left <= spare:
            return option
        if holds(option, question, tables):
            return option
        refused.append(option)
    return replanned(options, question, tables, refused=refused)


class PreferredRange(Struct, frozen=True):
    """Range of rates that one deployment is preferred for."""

    low: float
    high: float
    """Above this, up to that. [1/s]"""
    option: Option
    """Deployment at the upper end."""


def steps(
    options: Sequence[Option],
    question: PlanQuestion,
    tables: Tables,
    *,
    best: Option | None = None,
    refused: Sequence[Option] = (),
) -> tuple[PreferredRange, ...]:
    """Preferred deployments, from no traffic to the most that the devices carry.

    Args:
        options: Layouts whose instances say at which rates one more is needed.
        best: Option that is recommended at the rate asked for; None where there is none.
        refused: Options that are not enough at that rate, and so at no higher one.
    """
    asked = question.demand.rate
    found: dict[float, Option | None] = {}
    known = [renewed(each, question, tables) for each in options]
    for rate in _thresholds(known, question):
        again = question.at(rate)
        made = replanned(options, again, tables, refused=refused if rate >= asked else ())
        if best is not None and rate == asked:
            made = best
        elif best is not None and made is not None:
            # What is simulated at one rate carries less, and more is never cheaper.
            dearer = question.cost(made) > question.cost(best)
            cheaper = question.cost(made) < question.cost(best) * (1.0 - ROUNDING)
            if (dearer and rate < asked) or (rate > asked and cheaper):
                made = best if rate < asked else None
        found[rate] = made
    return _merged(found)


def _merged(found: Mapping[float, Option | None]) -> tuple[PreferredRange, ...]:
    """Ranges that have the same option."""
    out: list[PreferredRange] = []
    low = 0.0
    for rate in sorted(found):
        best = found[rate]
        if best is None:
            continue
        if out and out[-1].option.same(best):
            out[-1] = PreferredRange(out[-1].low, rate, best)
        else:
            out.append(PreferredRange(low, rate, best))
        low = rate
    return tuple(out)


def _thresholds(options: Sequence[Option], question: PlanQuestion) -> list[float]:
    """Largest rates that whole numbers of instances carry, and the one that is asked for. [1/s]"""
    goal = question.goal
    found = {question.demand.rate}
    for option in options:
        for pool in option.pools:
            most = goal.most(pool.kind.gpu) // pool.candidate.devices - goal.spares
            for number in range(1, most + 1):
                rate = number * pool.carries / (1.0 + goal.headroom) * (1.0 - ROUNDING)
                if rate > 0:
                    found.add(rate)
    every = sorted(found)
    stride = -(-len(every) // MOST) or 1
    asked = every.index(question.demand.rate)
    return [rate for place, rate in enumerate(every) if not (place - asked) % stride]


class InputSensitivity(Struct, frozen=True):
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
    """Price of a device by kind there, where it is not that of the kind. [$/h]"""


def tornado(
    best: SimulatedOption, options: Sequence[Option], question: PlanQuestion, tables: Tables
) -> tuple[InputSensitivity, ...]:
    """Bars of every input, the one that moves the price most first.

    Planned again by curves, over all options; where requests change over the best few of them.
    """
    base = best.option
    every = [*options, base]
    few = [base, *(each for each in options if each.layout != base.layout)][:FEW]

    def bar(
        what: str, said: tuple[str, str], asked: Sequence[PlanQuestion], some: Sequence[Option]
    ) -> InputSensitivity:
        tables.tell(f"what if: {what} {said[0]}, {said[1]}")
        low, high = (replanned(some, each, tables) for each in asked)
        outputs = (asked[0].demand.output, asked[1].demand.output)
        return InputSensitivity(
            what, said, low, base, high, outputs, (asked[0].prices, asked[1].prices)
        )

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
        asked = [replace(question, demand=question.demand.scaled(**{name: x})) for x in ends]
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


def _limits(question: PlanQuestion, factor: float) -> PlanQuestion:
    goal = question.goal
    limits = tuple(replace(each, limit_s=each.limit_s * factor) for each in goal.objectives)
    return replace(question, goal=replace(goal, objectives=limits))


def _swing(bar: InputSensitivity, question: PlanQuestion) -> float:
    """Range of the price of a token, from one side to the other."""
    costs = [question.cost(bar.base) / (bar.base.rate * question.demand.output)]
    for option, output, prices in zip((bar.low, bar.high), bar.outputs, bar.prices, strict=True):
        if option is not None:
            costs.append(option.cost(prices) / (option.rate * output))
    return float(np.ptp(costs))


def changed(bar_option: Option | None, base: Option) -> bool:
    """True if another deployment is the best: other devices, formats, layouts or pools."""
    if bar_option is None:
        return True
    one, other = (
        [(pool.kind.name, pool.candidate.spelled, pool.role) for pool in option.pools]
        for option in (bar_option, base)
    )
    return one != other
