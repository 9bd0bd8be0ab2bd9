"""Limits that are in the way where nothing fits, and relaxations with which something does.

Each is found by bounds and curves, and told only where one simulation confirms it. Where bounds
refuse every layout nothing is simulated: then an SLO is looser by what the closed form may be off.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from roofline.errors import RooflineError
from roofline.records import replace
from roofline.serving.objectives import Objective
from roofline.serving.simulate.steady import ERRORS
from roofline.study.plan.candidate import Candidate, DeploymentKind
from roofline.study.plan.confirm import holds
from roofline.study.plan.option import Option, PlanQuestion
from roofline.study.plan.plan import Plan, without_drafts
from roofline.study.plan.screen import screen
from roofline.study.plan.search import option, search, sized
from roofline.study.plan.tabled import Tables, key_of
from roofline.units import counted, show, significant

Remake = Callable[[int, str | None], Sequence[DeploymentKind]]
"""Kinds with room for a number of devices, and other weights; None for those that were asked."""
MORE: Final = 16
"""Times the devices that are allowed: more of them are not tried. [1]"""
STRONGEST: Final = 4
"""Layouts whose curves say how slow traffic has to be. [1]"""
NARROWER: Final = ("fp8", "int4-awq")
SHORTER: Final = (0.5, 0.25, 0.1)
"""Factors on the lengths of requests that are tried. [1]"""
LOOSEST: Final = 1000.0
"""Limit beyond which nobody would go. [s]"""
MARGIN: Final = 1.04
"""Factor on limits and rates beyond what works by curves; where a run does not confirm it,
the square of it, and so on."""
ATTEMPTS: Final = 7
KNOWN: Final = ERRORS["open to 70 %"]
"""Errors of the closed form, and the load over saturation up to which they are known."""
LOADED: Final = 0.7
TRIES: Final = 3
"""Sizes of an option that are simulated. [1]"""
LOWEST: Final = 16.0
"""Factor below the most traffic by a curve down to which less is tried. [1]"""
HALVINGS: Final = 6
"""Rates that are tried. [1]"""
MEMORY, RATE = "memory", "rate"


class Relaxation(Struct, frozen=True):
    """A change with which something fits."""

    change: str
    """Change, in words."""
    asked: str
    """Parameters that ask for it: ``"`gpus=16`"``."""
    option: Option
    """Deployment that then is enough."""
    output: float
    """Tokens of an answer, mean. [token]"""


def limit(plan: Plan) -> str:
    """Name of what is in the way: ``"memory"``, an objective, or ``"rate"``.

    It is the obstacle of any layout that is met last: weights first have to fit, then a limit has
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
    """Relaxations, each of which is enough.

    Bounds at published rates count only where nothing helps what was measured.
    """
    if plan.bounds is not None:
        measured = replace(plan, left=(), bounds=None)
        found = relaxations(measured, lambda *asked: [k for k in remake(*asked) if not k.bounded])
        if found:
            return found
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
    if plan.goal.held:  # more of them are more power, or cost more
        return
    sizes = [plan.goal.gpus * 2**n for n in range(1, MORE.bit_length())]
    if binds == RATE:
        # Replicas that are enough by curves, of which one may be too few.
        least = min((each.gpus for each in plan.found.short if each.capacity > 0), default=sizes[0])
        sizes = [each for each in sizes if 2 * each >= least]
    elif binds != MEMORY:
        # Beyond a node more devices make nothing faster when idle that is not so with a few more.
        nodes = max(kind.base.node.gpus for kind in plan.compared)
        sizes = sizes[:1] if plan.goal.gpus >= nodes else sizes
        if not any(_open(*_remade(plan, remake, sizes[-1]))):
            return
    for gpus in sizes:
        plan.tables.tell(f"what if: {counted(gpus, 'GPU')}")
        found = _best(plan, *_remade(plan, remake, gpus))
        if found is not None:
            # Fewer devices may be in another node.
            fewer = _best(plan, *_remade(plan, remake, found.gpus)) if found.gpus < gpus else found
            number = gpus if fewer is None else found.gpus
            yield Relaxation(
                counted(number, "GPU"), f"`gpus={number}`", fewer or found, plan.demand.output
            )
            return


def _weights(plan: Plan, remake: Remake) -> Iterator[Relaxation]:
    had = {kind.weights for kind in plan.compared}
    for weights in NARROWER:
        if weights in had:
            continue
        plan.tables.tell(f"what if: {weights} weights")
        found = _best(plan, *_remade(plan, remake, plan.goal.gpus, weights))
        if found is not None:
            yield Relaxation(
                f"{weights} weights", f"`weights={weights}`", found, plan.demand.output
            )
            return


def _shorter(plan: Plan) -> Iterator[Relaxation]:
    shorter = {
        factor: replace(plan.question, demand=plan.demand.scaled(factor, factor))
        for factor in SHORTER
    }
    # What bounds refuse of the shortest requests they refuse of all.
    if not any(_open(plan.compared, shorter[SHORTER[-1]])):
        return
    for factor, question in shorter.items():
        plan.tables.tell(f"what if: requests of {factor:.0%} of their length")
        found = _best(plan, plan.compared, question)
        if found is not None:
            yield Relaxation(
                f"prompts and answers of {factor:.0%} of their length: at most "
                f"{question.demand.longest:,} tokens together",
                "`prompt`, `output`",
                found,
                question.demand.output,
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

    def looser(margins: Sequence[float]) -> tuple[Objective, ...]:
        return tuple(
            replace(each, limit_s=float(f"{each.limit_s * factor * more:.3g}"))
            if factor > 1.0
            else each
            for each, factor, more in zip(goal.objectives, factors, margins, strict=True)
        )

    if not plan.tables.curves and made.rate <= LOADED * made.saturation:
        limits = looser([1.0 + _error(each) for each in goal.objectives])
        change, asked = _said(goal.objectives, limits)
        yield Relaxation(f"a looser SLO, in closed form: {change}", asked, made, plan.demand.output)
        return
    for attempt in range(ATTEMPTS):
        limits = looser([MARGIN ** (2**attempt)] * len(factors))
        found = _held(made, replace(question, goal=replace(goal, objectives=limits)), own)
        if found is not None:
            change, asked = _said(goal.objectives, limits)
            yield Relaxation(f"a looser SLO: {change}", asked, found, plan.demand.output)
            return


def _error(objective: Objective) -> float:
    """Share by which the closed form may be off, of nine loads in ten. [1]"""
    if objective.metric == "e2e":
        return KNOWN["latency_s"].p90
    percent = objective.percentile
    if percent is None:
        return KNOWN[f"{objective.metric}_s"].p90
    at = min((each for each in (50, 90, 99) if each >= percent), default=99)
    return KNOWN[f"{objective.metric}_p{at}_s"].p90


def _needed(
    candidate: Candidate, question: PlanQuestion, tables: Tables
) -> tuple[Option, list[float]] | None:
    """A layout on all devices, and the factor on each limit with which it is enough."""
    replica = tables.replica(candidate, question.demand)
    if isinstance(replica, str):
        return None
    goal, pool = question.goal, sized("all", replica, question, tables)
    instances = goal.most(candidate.kind.gpu) // candidate.devices
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
    """Layouts that fit: the fastest in each limit when idle, and that which may carry most."""
    loose = _loose(plan.question)
    able = [each for each in plan.candidates if not each.refusal(plan.demand, loose)]

    def idle(candidate: Candidate, objective: Objective) -> float:
        if objective.metric == "ttft":
            return candidate.first_s(plan.demand, objective)
        return candidate.floor_s(plan.demand)

    out = [
        min(able, key=lambda each: (not each.usual, idle(each, objective), each.rank), default=None)
        for objective in plan.goal.objectives
    ]
    out.append(
        min(able, key=lambda each: (not each.usual, *_likely(each, plan.question)), default=None)
    )
    return list({key_of(each): each for each in out if each is not None}.values())


def _slower(plan: Plan) -> Iterator[Relaxation]:
    """Less traffic: what the devices carry."""
    question, goal = plan.question, plan.goal
    plan.tables.tell("what if: less traffic")
    own = _fresh(plan.tables)
    some, most = strongest(plan.candidates, question, own)
    low, high = most / LOWEST, most / (1.0 + goal.headroom)
    best: Relaxation | None = None
    for attempt in range(HALVINGS if most > 0.0 else 0):
        rate = float(f"{math.sqrt(low * high) if attempt else high / MARGIN:.3g}")
        at = question.at(rate)
        tried = _able(some, at, own) or _able(some, at, _fresh(own))
        found = _held(tried, at, own)
        if found is None:
            high = rate
            continue
        low = rate
        words = f"{significant(rate)} requests a second"
        best = Relaxation(words, f"`rate={rate:g}`", found, plan.demand.output)
        if not attempt:
            break
    if best is not None:
        yield best


def strongest(
    candidates: Sequence[Candidate], question: PlanQuestion, tables: Tables
) -> tuple[list[Candidate], float]:
    """Layouts that are likely to carry most, and the most requests a second of one by its curve."""
    goal = question.goal
    able = [each for each in candidates if not question.refusal(each)]
    some = sorted(able, key=lambda each: _likely(each, question))[:STRONGEST]
    made = (option(each, question, tables) for each in some)
    pools = [pool for each in made if not isinstance(each, str) for pool in each.pools]
    carried = [
        (goal.most(each.kind.gpu) // each.candidate.devices - goal.spares) * each.carries
        for each in pools
    ]
    return some, max(carried, default=0.0)


def _plain(plan: Plan) -> Iterator[Relaxation]:
    plan.tables.tell("what if: nothing drafts")
    best = without_drafts(plan, pools=False).best
    if best is not None:
        yield Relaxation("plain decoding", "no `draft`", best.option, plan.demand.output)


def _remade(
    plan: Plan, remake: Remake, gpus: int, weights: str | None = None
) -> tuple[Sequence[DeploymentKind], PlanQuestion]:
    """Kinds for so many devices, none where they cannot be, and the question to them."""
    question = replace(plan.question, goal=replace(plan.goal, gpus=gpus))
    try:
        return remake(gpus, weights), question
    except RooflineError:
        return (), question


def _open(kinds: Sequence[DeploymentKind], question: PlanQuestion) -> Iterator[Candidate]:
    """Layouts that bounds do not refuse."""
    for kind in kinds:
        for each in screen(kind, question.demand, question.goal.most(kind.gpu)):
            if not question.refusal(each):
                yield each


def _best(plan: Plan, kinds: Sequence[DeploymentKind], question: PlanQuestion) -> Option | None:
    """The cheapest option by curves that a run confirms; None if none does."""
    own = _fresh(plan.tables)
    found = search(list(_open(kinds, question)), question, own, least=1)
    return _held(question.preferred(found.options), question, own)


def _able(some: Sequence[Candidate], question: PlanQuestion, tables: Tables) -> Option | None:
    """The preferred option of some layouts by curves; None where none is enough."""
    made = (option(each, question, tables) for each in some)
    return question.preferred(
        [each for each in made if not isinstance(each, str) and question.enough(each)]
    )


def _held(best: Option | None, question: PlanQuestion, tables: Tables) -> Option | None:
    """The option, larger where a run asks for it; None where that is not enough."""
    for _ in range(TRIES):
        if best is None or not question.allowed(best) or not tables.budget.left:
            return None
        if holds(best, question, tables):
            return best
        best = best.larger()
    return None


def _fresh(tables: Tables) -> Tables:
    """Tables without curves, for another question of the same budget."""
    return Tables(tables.probes, tables.tell, tables.budget)


def _likely(candidate: Candidate, question: PlanQuestion) -> tuple[float, tuple[object, ...]]:
    """Sort key: those first that may carry most for each device."""
    carries = candidate.bound(question.demand, _loose(question), likely=True)
    return -carries / candidate.devices, candidate.rank


def _loose(question: PlanQuestion) -> tuple[Objective, ...]:
    return tuple(replace(each, limit_s=LOOSEST) for each in question.goal.objectives)


def _said(old: Sequence[Objective], new: Sequence[Objective]) -> tuple[str, str]:
    """Looser limits in words, and as an option."""
    text = ",".join(
        f"{each.name}={show(each.limit_s, 's').replace(' ', '').replace(',', '')}" for each in new
    )
    worse = ", ".join(
        f"{one.name} {show(one.limit_s, 's')} → {show(other.limit_s, 's')}"
        for one, other in zip(old, new, strict=True)
        if one.limit_s != other.limit_s
    )
    return worse, f"`slo={text}`"
