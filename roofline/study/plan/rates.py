"""Devices by rate: the steps at which traffic needs another deployment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from roofline.study.plan.option import Option
from roofline.study.plan.pools import disaggregated
from roofline.study.plan.question import ROUNDING, Question
from roofline.study.plan.replan import at_rate, replanned
from roofline.study.plan.tabled import Tables

MOST: Final = 100
"""Rates that are looked at, in a round."""
ROUNDS: Final = 3


@dataclass(frozen=True, slots=True)
class Step:
    """A range of rates that one deployment is the cheapest for.

    Attributes
    ----------
    low, high
        Above this, up to that. [1/s]
    option
        At the upper end.
    """

    low: float
    high: float
    option: Option


def steps(
    options: Sequence[Option],
    question: Question,
    tables: Tables,
    *,
    pools: bool,
    refuted: Sequence[Option] = (),
) -> tuple[Step, ...]:
    """What is the cheapest, from no traffic to the most that the devices carry.

    Parameters
    ----------
    options
        Whose instances say at which rates one more is needed.
    question, tables
        What is planned for, and what was tabulated.
    pools
        Whether prefill and decode may have instances of their own.
    refuted
        Options that are not enough at the rate that is asked for, and so at no higher one.
    """
    found: dict[float, Option | None] = {}
    every = tuple(options)
    if pools:
        # Where none is enough for what is asked, one may be for less.
        least = at_rate(question, min(_thresholds(every, question)))
        every += disaggregated(tables.made, least, tables)
    known = every
    for _ in range(ROUNDS):
        wanted = _thresholds(every, question)
        new = [rate for rate in wanted if rate not in found]
        if not new:
            break
        for rate in new:
            out = refuted if rate >= question.demand.rate else ()
            found[rate] = replanned(
                tables.made, at_rate(question, rate), tables, pools=pools, refuted=out
            )
        # Pairs of pools that were not known have thresholds of their own.
        every = (*known, *(option for option in found.values() if option is not None))
    return _merged(found)


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
                found.add(number * pool.carries / (1.0 + goal.headroom) * (1.0 - ROUNDING))
    every = sorted(found)
    stride = -(-len(every) // MOST) or 1
    asked = every.index(question.demand.rate)
    return [rate for place, rate in enumerate(every) if not (place - asked) % stride]
