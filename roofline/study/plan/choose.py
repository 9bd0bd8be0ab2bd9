"""From what a search found to what is recommended: the cheapest that simulation confirms."""

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final

from roofline.study.plan.confirm import NODES, Confirmed, confirm, holds
from roofline.study.plan.option import Option, Pool
from roofline.study.plan.question import CHEAPER, ROUNDING, Question
from roofline.study.plan.search import sized, tunings
from roofline.study.plan.tabled import Tables, key_of
from roofline.units import counted

OPTIMISM: Final = 1.25
"""Factor on what a curve says is carried that simulation is given the chance to confirm. [1]"""
EVEN: Final = 1.4
"""The same where TTFT binds: a curve is of Poisson arrivals, and requests that take turns at
replicas come to each of them more evenly. [1]"""
KEPT: Final = 22
"""Runs that are left for what follows: intervals, other confidences, others. [1]"""
RETUNED: Final = 2
"""Other settings that are tried where those of the engine are not enough. [1]"""


@dataclass
class Choice:
    """Options as simulation leaves them."""

    best: Confirmed | None = None
    """The recommended option; None where none is enough."""
    plain: Option | None = None
    """The cheapest usual one that was confirmed, which may be the same; None where there is
    none."""
    others: tuple[Option, ...] = ()
    """Other options that are enough by their curves, cheapest first."""
    refused: list[Option] = field(default_factory=list)
    """Options that are enough by their curves and not in simulation, in the order of the runs."""
    tried: dict[tuple[object, ...], bool] = field(default_factory=dict, repr=False)
    """Whether limits held in a run, by pools and instances."""


def chosen(
    options: Iterable[Option],
    question: Question,
    tables: Tables,
    *,
    kept: int = KEPT,
) -> Choice:
    """The cheapest option that keeps all limits when it is simulated whole.

    One pool of replicas inside nodes comes first; anything else has to be cheaper by `CHEAPER`.

    Curves are closed forms, off by some ten percent: each option is tried from the fewest instances
    that could be enough, cheapest first. What is found by estimates of steps is confirmed with
    tables, and made larger where they do not agree.

    Args:
        kept: Runs that are left for other things. [1]
    """
    every, choice = list(options), Choice()
    usual = [each for each in every if each.usual]
    others = [each for each in every if not each.usual]
    while choice.best is None and tables.budget.left >= len(NODES):
        choice.plain = _settled(usual, question, tables, choice, math.inf, kept)
        ceiling = math.inf
        if choice.plain is not None:
            ceiling = question.cost(choice.plain) * (1.0 - CHEAPER)
        option = _settled(others, question, tables, choice, ceiling, kept) or choice.plain
        if option is None:
            break
        done = confirm(option, question, tables)
        if done.enough:
            choice.best = done
        else:
            choice.tried[_key(option)] = False
            choice.refused.append(option)
    choice.others = _others(every, question, tables, choice)
    while choice.best is not None and tables.budget.left > kept:
        # Runs correct curves: what they now have as enough is tried, too.
        best = choice.best.option
        better = (each for each in choice.others if question.preferred([best, each]) is each)
        option = next((each for each in better if _key(each) not in choice.tried), None)
        if option is None:
            break
        choice.tried[_key(option)] = holds(option, question, tables)
        if choice.tried[_key(option)]:
            done = confirm(option, question, tables)
            choice.tried[_key(option)] = done.enough
            choice.best = done if done.enough else choice.best
        choice.others = _others(every, question, tables, choice)
    return choice


def _others(
    options: Sequence[Option], question: Question, tables: Tables, choice: Choice
) -> tuple[Option, ...]:
    """Options beside the best that curves have as enough and no run refuted, cheapest first."""
    best = None if choice.best is None else choice.best.option
    rest = (renewed(each, question, tables) for each in options)
    able = [
        each
        for each in rest
        if question.enough(each)
        and not (best is not None and each.same(best))
        and not any(each.same(one) for one in choice.refused)
        and choice.tried.get(_key(each), True)
    ]
    return tuple(sorted(able, key=question.order))


def _settled(
    options: Sequence[Option],
    question: Question,
    tables: Tables,
    choice: Choice,
    ceiling: float,
    kept: int,
) -> Option | None:
    """The cheapest option up to a cost that holds in a run by estimates."""
    number = count()
    starts = (_fewest(each, question) for each in options if each.capacity > 0)
    queue = [
        (*question.order(each), next(number), each)
        for each in starts
        if each.gpus <= question.goal.gpus
    ]
    heapq.heapify(queue)
    while queue and tables.budget.left > kept:
        *_, option = heapq.heappop(queue)
        if question.cost(option) > ceiling * (1.0 + ROUNDING):
            return None
        tables.tell(f"simulating {counted(option.gpus, 'GPU')}: {option.layout}")
        key = _key(option)
        if key not in choice.tried:
            choice.tried[key] = holds(option, question, tables)
        if choice.tried[key]:
            return renewed(option, question, tables, instances=True)
        wanted = question.demand.rate * (1.0 + question.goal.headroom)
        if option.capacity >= wanted and not any(option.same(one) for one in choice.refused):
            choice.refused.append(option)
        more = [_larger(option, question, tables)]
        if option.pools[0].server == option.pools[0].replica.servers[0] and not option.wires:
            more += _retuned(option, question, tables)
        for each in more:
            if each.gpus <= question.goal.gpus:
                heapq.heappush(queue, (*question.order(each), next(number), each))
    # Where no run is left curves have the last word.
    rest = (renewed(each, question, tables) for *_, each in queue)
    able = (
        each
        for each in rest
        if question.enough(each)
        and question.cost(each) <= ceiling * (1.0 + ROUNDING)
        and choice.tried.get(_key(each), True)
    )
    return min(able, key=question.order, default=None)


def _key(option: Option) -> tuple[object, ...]:
    """Pools and instances, which tell options apart."""
    return tuple(
        (key_of(pool.candidate), pool.role, pool.server, pool.instances) for pool in option.pools
    )


def _larger(option: Option, question: Question, tables: Tables) -> Option:
    """The option with an instance more, or the fewest that could be enough by corrected curves."""
    larger = option.resized(1)
    least = _fewest(renewed(option, question, tables), question)
    return replace(
        larger,
        pools=tuple(
            replace(pool, instances=max(pool.instances, one.instances)) if one.carries else pool
            for pool, one in zip(larger.pools, least.pools, strict=True)
        ),
    )


def _retuned(option: Option, question: Question, tables: Tables) -> list[Option]:
    """The option as large, with other settings that might be enough."""
    (pool,) = option.pools
    load = question.demand.rate * (1.0 + question.goal.headroom)
    load /= max(pool.instances - question.goal.spares, 1)
    ways = [
        replace(each, instances=pool.instances)
        for each in tunings(pool, question, tables)
        if each.carries * OPTIMISM >= load
    ]
    return [replace(option, pools=(each,)) for each in ways[:RETUNED]]


def _fewest(option: Option, question: Question) -> Option:
    """The option with the fewest instances that could be enough."""

    def fewer(pool: Pool) -> Pool:
        optimism = EVEN if pool.binds.startswith("ttft") else OPTIMISM
        least = question.replicas(pool.carries * optimism)
        return replace(pool, instances=min(pool.instances, least))

    return replace(option, pools=tuple(fewer(pool) for pool in option.pools))


def renewed(
    option: Option, question: Question, tables: Tables, *, instances: bool = False
) -> Option:
    """The option by curves as they were moved.

    Args:
        instances: Whether it keeps as many instances as it has.
    """

    def again(pool: Pool) -> Pool:
        made = sized(pool.role, pool.replica, question, tables, pool.server)
        # Hand-over may need more instances than the pool's own curve says.
        if option.wires is not None and pool.carries < made.carries:
            made = replace(made, carries=pool.carries, binds=pool.binds)
        kept = instances or not made.carries
        return replace(made, instances=pool.instances if kept else question.replicas(made.carries))

    pools = tuple(again(pool) for pool in option.pools)
    return replace(option, pools=pools, rate=question.demand.rate)


def replanned(
    options: Iterable[Option],
    question: Question,
    tables: Tables,
    *,
    refused: Sequence[Option] = (),
) -> Option | None:
    """The option that is preferred by curves; None where none is enough.

    Args:
        options: Layouts and settings that may be used, in as many instances as it takes.
        question, tables: Question, and curves; those that are missing are made.
        refused: Options that are not enough whatever their curves say: larger ones take their
            places.
    """
    able = []
    for each in options:
        option = renewed(each, question, tables)
        while option.capacity > 0 and any(option.same(one) for one in refused):
            option = option.resized(1)
        if question.enough(option):
            able.append(option)
    return question.preferred(able)
