"""Deployments that nothing at their cost or below beats, among those that were simulated."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from roofline.study.plan.confirm import Confirmed
from roofline.study.plan.figures import Named
from roofline.study.plan.question import ROUNDING, Question

AIMS: Final = ("ttft", "tpot", "headroom")


@dataclass(frozen=True, slots=True)
class Point:
    """A deployment that nothing at its cost or below beats in what is named."""

    done: Confirmed
    """Option and its simulation."""
    best_in: tuple[str, ...]
    """Some of ``"ttft"``, ``"tpot"`` and ``"headroom"``."""


def frontier(every: Sequence[Confirmed], question: Question, names: Named) -> tuple[Point, ...]:
    """Deployments of which none is both cheaper and better, for each aim; cheapest first."""
    some = sorted(every, key=lambda each: question.order(each.option))
    costs = [question.cost(each.option) for each in some]
    values = {
        "ttft": [each.seconds(names.ttft).kept.value_s for each in some],
        "tpot": [each.seconds(names.tpot).kept.value_s for each in some],
        "headroom": [-each.option.capacity for each in some],
    }
    best = {name: _least(values[name], costs) for name in AIMS}
    return tuple(
        Point(each, aims)
        for place, each in enumerate(some)
        if (aims := tuple(name for name in AIMS if place in best[name]))
    )


def _least(values: Sequence[float], costs: Sequence[float]) -> set[int]:
    """Places of values lower than all that cost less, or as much."""
    found: set[int] = set()
    lowest = float("inf")
    order = sorted(range(len(values)), key=lambda place: (costs[place], values[place]))
    for place in order:
        if values[place] < lowest * (1.0 - ROUNDING if lowest > 0 else 1.0 + ROUNDING):
            lowest = values[place]
            found.add(place)
    return found
