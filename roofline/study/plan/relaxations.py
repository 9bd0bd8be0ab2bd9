"""Limits that are in the way where nothing fits, and relaxations with which something does.

Each is found by bounds and curves, and told only where one simulation confirms it.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from roofline.errors import RooflineError
from roofline.serving.objectives import Objective
from roofline.study.plan.candidate import Candidate
from roofline.study.plan.confirm import holds
from roofline.study.plan.demand import Demand, Goal
from roofline.study.plan.kinds import Kind
from roofline.study.plan.option import Option
from roofline.study.plan.plan import Plan, without_drafts
from roofline.study.plan.question import Question
from roofline.study.plan.screen import screen
from roofline.study.plan.search import option, search, sized
from roofline.study.plan.tabled import Tables, key_of
from roofline.units import counted, show, significant

Remake = Callable[[int, str | None], Sequence[Kind]]
"""Kinds with room for a number of devices, and other weights; None for those that were asked."""
MORE: Final = 16
"""Times the devices that are allowed: more of them are not tried. [1]"""
FASTEST: Final = 1
"""Layouts whose curves say how loose each limit has to be. [1]"""
STRONGEST: Final = 4
"""Layouts whose curves say how slow traffic has to be. [1]"""
NARROWER: Final = ("fp8", "int4-awq")
SHORTER: Final = (0.5, 0.25, 0.1)
"""Factors on the lengths of requests that are tried. [1]"""
LOOSEST: Final = 1000.0
"""Limit beyond which nobody would go. [s]"""
MARGIN: Final = 1.04
ATTEMPTS: Final = 7
"""Factor on limits and rates beyond what works by curves; where a run does not confirm it,
the square of it, and so on."""
TRIES: Final = 3
"""Sizes of an option that are simulated. [1]"""
LOWEST: Final = 16.0
"""Factor below the most traffic by a curve down to which less is tried. [1]"""
HALVINGS: Final = 6
"""Rates that are tried. [1]"""
MEMORY, RATE = "memory", "rate"


@dataclass(frozen=True, slots=True)
class Relaxation:
    """A change with which something fits.

    Attributes
    ----------
    change
        Change, in words.
    asked
        Its option on the command line: ``"--gpus 16"``.
    option
        Deployment that then is enough.
    """

    change: str
    asked: str
    option: Option


def limit(plan: Plan) -> str:
    """Name of what is in the way: ``"memory"``, an objective, or ``"rate"``.

    Of what stops each layout, that which is met last: weights first have to fit, then a limit has
    to hold in an idle replica, then there have to be devices enough.
    """
    stops = [reason.partition(":")[0] for reason in plan.found.dropped.values()]
    able = [option for option in plan.found.short if option.capacity > 0]
    if able or RATE in stops or plan.found.options:
        return RATE
    names = [each.name for each in plan.goal.objectives]
    met = [option.binds for option in plan.found.short] + stops
    return next((name for name in names if name in met), MEMORY)


def relaxations(plan: Plan, remake: Remake) -> tuple[Relaxation, ...]:
    """Relaxations, each of which was simulated and is enough.

    Parameters
    ----------
    plan
        Plan in which nothing fits.
    remake
        Makes other kinds.

    Notes
    -----
    Bounds at published rates count only where nothing helps what was measured.
    """
    if plan.bounds is not None:
        measured = replace(plan, left=(), bounds=None)
        found = _found(measured, lambda *asked: [k for k in remake(*asked) if not k.bounded])
        if found:
            return found
    return _found(plan, remake)


def _found(plan: Plan, remake: Remake) -> tuple[Relaxation, ...]:
    binds = limit(plan)
    tries = [_devices(plan, remake, binds), _weights(plan, remake)]
    if binds != MEMORY:
        tries.append(_looser(plan))
    tries.append(_shorter(plan))
    if binds == RATE:
        tries.append(_slower(plan))
    if plan.demand.acceptance is not None:
        tries.append(_plain(plan))
    return tuple(each for some in tries for each in some)


def _devices(plan: Plan, remake: Remake, binds: str) -> Iterator[Relaxation]:
    sizes = [plan.goal.gpus * 2**n for n in range(1, MORE.bit_length())]
    if binds == RATE:
        # Replicas that are enough by curves, of which one may be too few.
        least = min((each.gpus for each in plan.found.short if each.capacity > 0), default=sizes[0])
        sizes = [each for each in sizes if 2 * each >= least]
    elif binds != MEMORY:
        # Beyond a node more devices make nothing faster when idle that is not so with a few more.
        nodes = max(kind.base.node.gpus for kind in plan.compared)
        sizes = sizes[:1] if plan.goal.gpus >= nodes else sizes
        if not _open(plan, remake, sizes[-1]):
            return
    for gpus in sizes:
        plan.tables.tell(f"what if: {counted(gpus, 'GPU')}")
        found = _with(plan, remake, gpus)
        if found is not None:
            # Fewer devices may be in another node.
            fewer = _with(plan, remake, found.gpus) if found.gpus < gpus else found
            number = gpus if fewer is None else found.gpus
            yield Relaxation(counted(number, "GPU"), f"--gpus {number}", fewer or found)
            return


def _open(plan: Plan, remake: Remake, gpus: int) -> bool:
    """Whether a layout on so many devices is not refused by its bounds."""
    try:
        kinds = remake(gpus, None)
    except RooflineError:
        return False
    question = replace(plan.question, goal=replace(plan.goal, gpus=gpus))
    return any(not _refused(each, question) for each in _screened(kinds, question))


def _screened(kinds: Sequence[Kind], question: Question) -> list[Candidate]:
    return [each for kind in kinds for each in screen(kind, question.demand, question.goal.gpus)]


def _refused(candidate: Candidate, question: Question) -> str:
    kind = candidate.kind
    return candidate.refusal(question.demand, question.objectives(kind), question.slowness(kind))


def _with(plan: Plan, remake: Remake, gpus: int, weights: str | None = None) -> Option | None:
    """The cheapest option on so many devices, with other weights; None if nothing is enough."""
    try:
        kinds = remake(gpus, weights)
    except RooflineError:
        return None
    goal = replace(plan.goal, gpus=gpus)
    return _best(kinds, replace(plan.question, goal=goal), plan.tables)


def _best(kinds: Sequence[Kind], question: Question, tables: Tables) -> Option | None:
    """The cheapest option by curves that a run confirms; None if none does."""
    own = _fresh(tables)
    found = search(_screened(kinds, question), question, own, least=1)
    return _held(question.preferred(found.options), question, own)


def _fresh(tables: Tables) -> Tables:
    """Tables without curves, for another question of the same budget."""
    return Tables(tables.probes, tables.tell, tables.budget)


def _held(best: Option | None, question: Question, tables: Tables) -> Option | None:
    """The option, larger where a run asks for it; None where that is not enough."""
    for _ in range(TRIES):
        if best is None or best.gpus > question.goal.gpus or not tables.budget.left:
            return None
        if holds(best, question, tables):
            return best
        best = best.resized(1)
    return None


def _weights(plan: Plan, remake: Remake) -> Iterator[Relaxation]:
    had = {kind.weights for kind in plan.compared}
    for weights in NARROWER:
        if weights in had:
            continue
        plan.tables.tell(f"what if: {weights} weights")
        found = _with(plan, remake, plan.goal.gpus, weights)
        if found is not None:
            yield Relaxation(f"{weights} weights", f"--weights {weights}", found)
            return


def _shorter(plan: Plan) -> Iterator[Relaxation]:
    for factor in SHORTER:
        plan.tables.tell(f"what if: requests of {factor:.0%} of their length")
        demand = plan.demand.scaled(factor, factor)
        found = _best(plan.compared, replace(plan.question, demand=demand), plan.tables)
        if found is not None:
            yield Relaxation(
                f"prompts and answers of {factor:.0%} of their length: at most "
                f"{demand.longest:,} tokens together",
                "--prompt, --output",
                found,
            )
            return


def _looser(plan: Plan) -> Iterator[Relaxation]:
    """Limits that the fastest layouts can keep on all of the devices that are allowed."""
    question, goal = plan.question, plan.goal
    if not goal.objectives:
        return
    plan.tables.tell("what if: looser limits")
    own = _fresh(plan.tables)
    ways = [each for each in (_needed(one, question, own) for one in _fastest(plan)) if each]
    if not ways:
        return
    made, factors = min(ways, key=lambda each: (math.prod(each[1]), each[0].layout))
    for attempt in range(ATTEMPTS):
        more = MARGIN ** (2**attempt)
        limits = tuple(
            replace(each, limit_s=float(f"{each.limit_s * factor * more:.3g}"))
            if factor > 1.0
            else each
            for each, factor in zip(goal.objectives, factors, strict=True)
        )
        final = replace(question, goal=replace(goal, objectives=limits))
        found = _held(made, final, own)
        if found is not None:
            yield Relaxation(*_said(goal, final.goal), found)
            return


def _needed(
    candidate: Candidate, question: Question, tables: Tables
) -> tuple[Option, list[float]] | None:
    """A layout on all devices, and the factor on each limit with which it is enough."""
    replica = tables.replica(candidate, question.demand)
    if isinstance(replica, str):
        return None
    goal, pool = question.goal, sized("all", replica, question, tables)
    instances = goal.gpus // candidate.devices
    if instances <= goal.spares:
        return None
    load = question.demand.rate * (1.0 + goal.headroom) / (instances - goal.spares)
    curve = pool.curve.slower(question.slowness(candidate.kind))
    if load > curve.loads[-1]:
        return None
    factors = [
        max(curve.at(each.name, load) / each.limit_s, 1.0)
        for each in question.objectives(candidate.kind)
    ]
    return Option((replace(pool, instances=instances),), question.demand.rate), factors


def _fastest(plan: Plan) -> list[Candidate]:
    """Layouts that fit: the fastest in each limit when idle, and those that may carry most."""
    question, goal = plan.question, plan.goal
    demand = question.demand
    loose = tuple(replace(each, limit_s=LOOSEST) for each in goal.objectives)
    able = [each for each in plan.candidates if not each.refusal(demand, loose)]
    out: list[Candidate] = []
    for limit_ in goal.objectives:
        able.sort(key=lambda each: (not each.usual, _idle(each, demand, limit_), each.rank))
        out += able[:FASTEST]
    able.sort(key=lambda each: (not each.usual, *_likely(each, question)))
    return list({key_of(each): each for each in (*out, *able[:FASTEST])}.values())


def _idle(candidate: Candidate, demand: Demand, objective: Objective) -> float:
    """Latency of an objective in an idle replica. [s]"""
    if objective.metric == "ttft":
        return candidate.first_s(demand, objective)
    return candidate.floor_s(demand)


def _likely(candidate: Candidate, question: Question) -> tuple[float, tuple[object, ...]]:
    """Sort key: those first that may carry most for each device."""
    loose = tuple(replace(each, limit_s=LOOSEST) for each in question.goal.objectives)
    carries = candidate.bound(question.demand, loose, likely=True)
    return -carries / candidate.devices, candidate.rank


def _able(some: Sequence[Candidate], question: Question, tables: Tables) -> Option | None:
    """The preferred option of some layouts by curves; None where none is enough."""
    made = [option(each, question, tables) for each in some]
    able = [
        each
        for each in made
        if not isinstance(each, str) and each.capacity > 0 and each.gpus <= question.goal.gpus
    ]
    return question.preferred(able)


def _said(goal: Goal, final: Goal) -> tuple[str, str]:
    """Looser limits in words, and as an option."""
    text = ",".join(
        f"{each.name}={show(each.limit_s, 's').replace(' ', '').replace(',', '')}"
        for each in final.objectives
    )
    worse = ", ".join(
        f"{new.name} {show(old.limit_s, 's')} → {show(new.limit_s, 's')}"
        for old, new in zip(goal.objectives, final.objectives, strict=True)
        if old.limit_s != new.limit_s
    )
    return f"a looser SLO: {worse}", f"--slo {text}"


def _plain(plan: Plan) -> Iterator[Relaxation]:
    plan.tables.tell("what if: nothing drafts")
    best = without_drafts(plan, pools=False).best
    if best is not None:
        yield Relaxation("plain decoding", "no --draft", best.option)


def _slower(plan: Plan) -> Iterator[Relaxation]:
    """Less traffic: what the devices carry."""
    question, goal = plan.question, plan.goal
    plan.tables.tell("what if: less traffic")
    own = _fresh(plan.tables)
    able = [each for each in plan.candidates if not _refused(each, question)]
    able.sort(key=lambda each: _likely(each, question))
    some = able[:STRONGEST]
    made = (option(each, question, own) for each in some)
    pools = [pool for each in made if not isinstance(each, str) for pool in each.pools]
    whole = [goal.gpus // each.candidate.devices - goal.spares for each in pools]
    most = max((n * each.carries for n, each in zip(whole, pools, strict=True)), default=0.0)
    low, high = most / LOWEST, most / (1.0 + goal.headroom)
    best: Relaxation | None = None
    for attempt in range(HALVINGS if most > 0.0 else 0):
        rate = float(f"{math.sqrt(low * high) if attempt else high / MARGIN:.3g}")
        at = replace(question, demand=replace(question.demand, rate=rate))
        tried = _able(some, at, own) or _able(some, at, _fresh(own))
        found = _held(tried, at, own)
        if found is None:
            high = rate
            continue
        low = rate
        best = Relaxation(f"{significant(rate)} requests a second", f"--rate {rate:g}", found)
        if not attempt:
            break
    if best is not None:
        yield best
