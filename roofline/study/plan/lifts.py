"""Why nothing fits, and what would lift that limit: each way tried, and told only if it works."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from roofline.errors import RooflineError
from roofline.serving.objectives import Objective
from roofline.study.plan.candidate import Candidate
from roofline.study.plan.demand import Goal
from roofline.study.plan.kinds import Kind
from roofline.study.plan.option import Option
from roofline.study.plan.plan import Plan, without_drafts
from roofline.study.plan.plan import plan as planned
from roofline.study.plan.question import Question
from roofline.study.plan.replan import replanned
from roofline.study.plan.search import option, sized
from roofline.units import counted, show, significant

Remake = Callable[[int, str | None], Sequence[Kind]]
"""Kinds with room for a number of devices, and other weights; None for those that were asked."""
MORE: Final = 16
"""Times the devices that are allowed: more of them are not tried."""
FASTEST: Final = 3
"""Layouts that are tabulated to find the tightest promise that can be kept."""
NARROWER: Final = ("fp8", "int4-awq")
SHORTER: Final = (0.75, 0.5, 0.25, 0.1)
HALVINGS: Final = 20
LOOSEST: Final = 1000.0
"""Factor on a limit beyond which nobody would go."""
MARGIN: Final = 1.01
ATTEMPTS: Final = 6
"""What is told is so much beyond the least that works by curves; where that is not enough in the
whole simulation, the square of it, and so on."""
MEMORY, RATE = "memory", "rate"


@dataclass(frozen=True, slots=True)
class Lift:
    """A way out.

    Attributes
    ----------
    change
        What to do, in words.
    asked
        As it is asked for: ``"--gpus 16"``.
    option
        What is then the cheapest that was found.
    """

    change: str
    asked: str
    option: Option


def limit(plan: Plan) -> str:
    """What is in the way: ``"memory"``, the name of a promise, or ``"rate"``.

    Of what stops each layout, that which is met last: weights first have to fit, then a promise has
    to hold in an idle replica, then there have to be devices enough.
    """
    stops = [reason.partition(":")[0] for reason in plan.found.dropped.values()]
    able = [option for option in plan.found.short if option.capacity > 0]
    if able or RATE in stops or plan.found.options:
        return RATE
    promised = [each.name for each in plan.goal.promises]
    met = [option.binds for option in plan.found.short] + stops
    return next((name for name in promised if name in met), MEMORY)


def lifts(plan: Plan, remake: Remake) -> tuple[Lift, ...]:
    """Ways out, each of which was planned again and works.

    Parameters
    ----------
    plan
        In which nothing fits.
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


def _found(plan: Plan, remake: Remake) -> tuple[Lift, ...]:
    binds = limit(plan)
    tries = [_devices(plan, remake), _weights(plan, remake)]
    if binds == MEMORY:
        tries.append(_shorter(plan))
    else:
        tries += [_looser(plan, binds), _shorter(plan)]
    if binds == RATE:
        tries.append(_slower(plan))
    if plan.full.acceptance is not None:
        tries.append(_plain(plan))
    return tuple(lift for each in tries for lift in each)


def _devices(plan: Plan, remake: Remake) -> Iterator[Lift]:
    gpus = plan.goal.gpus * 2
    while gpus <= plan.goal.gpus * MORE:
        plan.tables.tell(f"what if: {counted(gpus, 'GPU')}")
        found = _with(plan, remake, gpus)
        if found is not None:
            # Fewer devices may be in another node.
            fewer = _with(plan, remake, found.gpus) if found.gpus < gpus else found
            number = gpus if fewer is None else found.gpus
            yield Lift(counted(number, "GPU"), f"--gpus {number}", fewer or found)
            return
        gpus *= 2


def _with(plan: Plan, remake: Remake, gpus: int, weights: str | None = None) -> Option | None:
    """What is the cheapest on so many devices, with other weights; None if nothing is."""
    try:
        kinds = remake(gpus, weights)
    except RooflineError:
        return None
    return _best(planned(kinds, plan.full, replace(plan.goal, gpus=gpus), pools=False, least=1))


def _best(made: Plan) -> Option | None:
    return None if made.best is None else made.best.option


def _weights(plan: Plan, remake: Remake) -> Iterator[Lift]:
    had = {kind.weights for kind in plan.compared}
    for weights in NARROWER:
        if weights in had:
            continue
        plan.tables.tell(f"what if: {weights} weights")
        found = _with(plan, remake, plan.goal.gpus, weights)
        if found is not None:
            yield Lift(f"{weights} weights", f"--weights {weights}", found)
            return


def _shorter(plan: Plan) -> Iterator[Lift]:
    for factor in SHORTER:
        plan.tables.tell(f"what if: requests of {factor:.0%} of their length")
        full = plan.full.scaled(factor, factor)
        found = _best(planned(plan.compared, full, plan.goal, pools=False, least=1))
        if found is not None:
            yield Lift(
                f"prompts and answers of {factor:.0%} of their length: at most "
                f"{full.longest:,} tokens together",
                "--prompt, --output",
                found,
            )
            return


def _looser(plan: Plan, binds: str) -> Iterator[Lift]:
    """The promise that is in the way looser, or all of them where it is none of them."""
    goal = plan.goal
    names = {binds} & {each.name for each in goal.promises} or {each.name for each in goal.promises}
    if not names:
        return

    def question(factor: float) -> Question:
        promises = tuple(
            replace(each, limit_s=each.limit_s * factor) if each.name in names else each
            for each in goal.promises
        )
        return replace(plan.question, goal=replace(goal, promises=promises))

    def able(asked: Question) -> bool:
        return replanned(plan.tables.made, asked, plan.tables, pools=False) is not None

    plan.tables.tell("what if: looser promises")
    for candidate in _fastest(plan, names, question(LOOSEST)):
        option(candidate, question(LOOSEST), plan.tables)
    if not able(question(LOOSEST)):
        return
    low, high = 1.0, LOOSEST
    for _ in range(HALVINGS):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if able(question(middle)) else (middle, high)
    for attempt in range(ATTEMPTS):
        final = _written(question(high * MARGIN ** (2**attempt)).goal)
        found = _best(
            planned(plan.compared, plan.full, final, pools=False, least=1, tables=plan.tables)
        )
        if found is not None:
            yield _loosened(goal, final, found)
            return


def _loosened(goal: Goal, final: Goal, found: Option) -> Lift:
    text = ",".join(f"{each.name}={_short(each)}" for each in final.promises)
    worse = ", ".join(
        f"{new.name} {show(old.limit_s, 's')} → {show(new.limit_s, 's')}"
        for old, new in zip(goal.promises, final.promises, strict=True)
        if old.limit_s != new.limit_s
    )
    return Lift(f"looser promises: {worse}", f"--slo {text}", found)


def _fastest(plan: Plan, names: set[str], loosest: Question) -> list[Candidate]:
    """Layouts that fit, those first that are fastest in what is promised."""
    able = [
        each for each in plan.candidates if not each.refusal(loosest.demand, loosest.goal.promises)
    ]
    out: list[Candidate] = []
    for name in sorted(names):
        able.sort(
            key=lambda each: (
                each.first_s.get(name, each.floor_s(loosest.demand)),
                each.layout.spelled,
            )
        )
        out += able[:FASTEST]
    return out


def _written(goal: Goal) -> Goal:
    """The goal with limits as they are written, rounded."""
    promises = tuple(replace(each, limit_s=float(f"{each.limit_s:.3g}")) for each in goal.promises)
    return replace(goal, promises=promises)


def _short(promise: Objective) -> str:
    return show(promise.limit_s, "s").replace(" ", "").replace(",", "")


def _plain(plan: Plan) -> Iterator[Lift]:
    plan.tables.tell("what if: nothing drafts")
    found = _best(without_drafts(plan, pools=False))
    if found is not None:
        yield Lift("plain decoding", "no --draft", found)


def _slower(plan: Plan) -> Iterator[Lift]:
    """Less traffic: what the devices carry."""
    question, goal = plan.question, plan.goal
    plan.tables.tell("what if: less traffic")
    for candidate in _strongest(plan):
        option(candidate, question, plan.tables)
    rates = [0.0]
    for replica in plan.tables.made:
        pool = sized("all", replica, question, plan.tables)
        whole = goal.gpus // pool.candidate.devices - goal.spares
        rates.append(whole * pool.carries / (1.0 + goal.headroom))
    for attempt in range(ATTEMPTS if max(rates) > 0 else 0):
        rate = float(f"{max(rates) / MARGIN ** (2**attempt):.3g}")
        full = replace(plan.full, rate=rate)
        found = _best(planned(plan.compared, full, goal, pools=False, least=1, tables=plan.tables))
        if found is not None:
            yield Lift(f"{significant(rate)} requests a second", f"--rate {rate:g}", found)
            return


def _strongest(plan: Plan) -> list[Candidate]:
    """Layouts that keep all promises when idle, those first that may carry most."""
    demand, promises = plan.question.demand, plan.goal.promises
    able = [each for each in plan.candidates if not each.refusal(demand, promises)]
    able.sort(key=lambda each: (-each.bound(demand, promises) / each.devices, each.layout.spelled))
    return able[:FASTEST]
