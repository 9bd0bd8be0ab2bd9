"""The cheapest option that simulation confirms, and other deployments beside it."""

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from msgspec import Struct

from roofline.records import replace
from roofline.study.plan.confirm import NODES, SimulatedOption, confirm, holds
from roofline.study.plan.figures import named
from roofline.study.plan.option import CHEAPER, ROUNDING, Option, PlanQuestion, Pool
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

NEXT, PLAIN, APART = "next cheapest", "one pool inside nodes", "pools of their own"
FED: Final = "feed-forward parts on a pool of their own"
FEW: Final = 2
"""Other deployments that are simulated for one kind at most. [1]"""
TRIES: Final = 2
"""Sizes of each that are tried. [1]"""
LARGER: Final = 2
"""Larger sizes of what is recommended that are simulated. [1]"""


@dataclass
class PlanChoice:
    """Options as simulation leaves them."""

    best: SimulatedOption | None = None
    """The recommended option; None where none is enough."""
    plain: Option | None = None
    """The cheapest usual one that was confirmed, which may be the same; None where there is
    none."""
    others: tuple[Option, ...] = ()
    """Other options that are enough by their curves, cheapest first."""
    refused: list[Option] = field(default_factory=list)
    """Options that are enough by their curves and not in simulation, in the order of the runs."""
    tried: dict[tuple[object, ...], bool] = field(default_factory=dict, repr=False)
    """Verdict of a run on the limits, by pools and instances."""


def chosen(
    options: Iterable[Option], question: PlanQuestion, tables: Tables, *, kept: int = KEPT
) -> PlanChoice:
    """The cheapest option that keeps all limits when it is simulated whole.

    One pool of replicas inside nodes comes first; anything else has to be cheaper by `CHEAPER`.

    Curves are closed forms, off by some ten percent: each option is tried from the fewest instances
    that could be enough, cheapest first. What is found by estimates of steps is confirmed with
    tables, and made larger where they do not agree. Some runs are kept for other things. [1]
    """
    every, choice = list(options), PlanChoice()
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
    options: Sequence[Option], question: PlanQuestion, tables: Tables, choice: PlanChoice
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
    question: PlanQuestion,
    tables: Tables,
    choice: PlanChoice,
    ceiling: float,
    kept: int,
) -> Option | None:
    """The cheapest option up to a cost that holds in a run by estimates."""
    number = count()
    starts = (_fewest(each, question) for each in options if each.capacity > 0)
    queue = [
        (*question.order(each), next(number), each) for each in starts if question.allowed(each)
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
            if question.allowed(each):
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


def _larger(option: Option, question: PlanQuestion, tables: Tables) -> Option:
    """The option with an instance more, or the fewest that could be enough by corrected curves."""
    larger = option.larger()
    least = _fewest(renewed(option, question, tables), question)
    return replace(
        larger,
        pools=tuple(
            replace(pool, instances=max(pool.instances, one.instances)) if one.carries else pool
            for pool, one in zip(larger.pools, least.pools, strict=True)
        ),
    )


def _retuned(option: Option, question: PlanQuestion, tables: Tables) -> list[Option]:
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


def _fewest(option: Option, question: PlanQuestion) -> Option:
    """The option with the fewest instances that could be enough."""

    def fewer(pool: Pool) -> Pool:
        optimism = EVEN if pool.binds.startswith("ttft") else OPTIMISM
        least = question.replicas(pool.carries * optimism)
        return replace(pool, instances=min(pool.instances, least))

    return replace(option, pools=tuple(fewer(pool) for pool in option.pools))


def renewed(
    option: Option, question: PlanQuestion, tables: Tables, *, instances: bool = False
) -> Option:
    """The option by curves as they were moved, with as many instances as it has or as it takes."""

    def again(pool: Pool) -> Pool:
        own = question.beside(option.elsewhere(pool))
        made = sized(pool.role, pool.replica, own, tables, pool.server)
        # Hand-over may need more instances than the pool's own curve says.
        if option.wires is not None and pool.carries < made.carries:
            made = replace(made, carries=pool.carries, binds=pool.binds)
        kept = instances or not made.carries
        return replace(made, instances=pool.instances if kept else question.replicas(made.carries))

    pools = tuple(again(pool) for pool in option.pools)
    return replace(option, pools=pools, rate=question.demand.rate)


def replanned(
    options: Iterable[Option],
    question: PlanQuestion,
    tables: Tables,
    *,
    refused: Sequence[Option] = (),
) -> Option | None:
    """The option that is preferred by curves, of any size; None where none is enough.

    Refused options are not enough whatever their curves say: larger ones take their places.
    """
    able = []
    for each in options:
        option = renewed(each, question, tables)
        while option.capacity > 0 and any(option.same(one) for one in refused):
            option = option.larger()
        if question.enough(option):
            able.append(option)
    return question.preferred(able)


class RunnerUp(Struct, frozen=True):
    """Another option."""

    done: SimulatedOption
    """Option and its simulation."""
    why: str
    """Aims in which it is best, in words."""


def runners_up(choice: PlanChoice, question: PlanQuestion, tables: Tables) -> tuple[RunnerUp, ...]:
    """The plain deployment beside any other, the next cheapest, and the fastest; cheapest first."""
    assert choice.best is not None, "others beside nothing"
    best, names = choice.best.option, named(question.goal.objectives)
    every = list(choice.others)
    picked: list[tuple[Option, str]] = []

    def pick(why: str, some: Sequence[Option], name: str = "") -> None:
        if some:
            key = (lambda each: each.seconds(name)) if name else question.order
            picked.append((min(some, key=key), why))

    if choice.plain is not None and not best.usual:
        usual = [each for each in every if each.usual]
        same = [each for each in usual if each.layout == choice.plain.layout]
        pick(PLAIN, same or [choice.plain])
    if not best.wires:
        pick(APART, [each for each in every if each.wires])
    if not _fed(best):
        pick(FED, [each for each in every if _fed(each)])
    pick(NEXT, every)
    for name in dict.fromkeys(each.kind.name for each in every):
        some = [each for each in every if each.kind.name == name]
        if name != best.kind.name:
            pick(f"best on {some[0].kind.gpu}, {some[0].kind.weights}", some)
    # What a layout that is less plain adds is seldom worth its trouble.
    alike = [
        each for each in every if each.usual == best.usual and each.plainness <= best.plainness
    ]
    pick("fastest tokens", alike, names.tpot)
    pick("fastest first token", alike, names.ttft)
    reasons: dict[int, tuple[Option, list[str]]] = {}
    for option, why in picked:
        must = why in (PLAIN, APART, FED) or why.startswith("best on")
        if id(option) in reasons or must or len(reasons) < FEW:
            reasons.setdefault(id(option), (option, []))[1].append(why)
    out = []
    for option, whys in reasons.values():
        done = confirmed(option, question, tables)
        if done is not None and not done.option.same(best):
            out.append(RunnerUp(done, ", ".join(whys)))
    return tuple(sorted(out, key=lambda each: question.order(each.done.option)))


def _fed(option: Option) -> bool:
    return any(pool.candidate.ffn is not None for pool in option.pools)


def larger(best: Option, question: PlanQuestion, tables: Tables) -> list[SimulatedOption]:
    """The recommended option with more instances, simulated."""
    out: list[SimulatedOption] = []
    option = best.larger()
    while question.allowed(option) and len(out) < LARGER and tables.budget.left:
        out.append(confirm(option, question, tables, interval=False))
        option = option.larger()
    return out


def confirmed(option: Option, question: PlanQuestion, tables: Tables) -> SimulatedOption | None:
    """An option simulated whole, larger where it has to be; None where that is not enough."""
    for _ in range(TRIES):
        if not question.allowed(option) or tables.budget.left < TRIES:
            return None
        if holds(option, question, tables, closely=True):
            done = confirm(option, question, tables, interval=False)
            return done if done.met else None
        option = option.larger()
    return None
