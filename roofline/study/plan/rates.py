"""Devices by rate: the steps at which traffic needs another deployment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from roofline.study.plan.choose import renewed, replanned
from roofline.study.plan.option import Option
from roofline.study.plan.question import ROUNDING, Question
from roofline.study.plan.tabled import Tables

MOST: Final = 60
"""Rates that are looked at. [1]"""


@dataclass(frozen=True, slots=True)
class Step:
    """Range of rates that one deployment is preferred for."""

    low: float
    high: float
    """Above this, up to that. [1/s]"""
    option: Option
    """Deployment at the upper end."""


def steps(
    options: Sequence[Option],
    question: Question,
    tables: Tables,
    *,
    best: Option | None = None,
    refused: Sequence[Option] = (),
) -> tuple[Step, ...]:
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
            if (dearer and rate < asked) or (rate > asked and _cheaper(made, best, question)):
                made = best if rate < asked else None
        found[rate] = made
    return _merged(found)


def _cheaper(option: Option, best: Option, question: Question) -> bool:
    return question.cost(option) < question.cost(best) * (1.0 - ROUNDING)


def _merged(found: Mapping[float, Option | None]) -> tuple[Step, ...]:
    """Ranges that have the same option."""
    out: list[Step] = []
    low = 0.0
    for rate in sorted(found):
        best = found[rate]
        if best is None:
            continue
        if out and out[-1].option.same(best):
            out[-1] = Step(out[-1].low, rate, best)
        else:
            out.append(Step(low, rate, best))
        low = rate
    return tuple(out)


def _thresholds(options: Sequence[Option], question: Question) -> list[float]:
    """Largest rates that whole numbers of instances carry, and the one that is asked for. [1/s]"""
    goal = question.goal
    found = {question.demand.rate}
    for option in options:
        for pool in option.pools:
            most = goal.gpus // pool.candidate.devices - goal.spares
            for number in range(1, most + 1):
                rate = number * pool.carries / (1.0 + goal.headroom) * (1.0 - ROUNDING)
                if rate > 0:
                    found.add(rate)
    every = sorted(found)
    stride = -(-len(every) // MOST) or 1
    asked = every.index(question.demand.rate)
    return [rate for place, rate in enumerate(every) if not (place - asked) % stride]
