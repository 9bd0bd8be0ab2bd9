"""A plan in a few sentences: what to buy and why, or what is in the way and relaxes it."""

from collections.abc import Sequence

from roofline.study.plan import speculation
from roofline.study.plan.figures import shape, usd_per_mtok
from roofline.study.plan.option import Option
from roofline.study.plan.plan import Plan
from roofline.study.plan.relaxations import MEMORY, RATE, Relaxation, limit
from roofline.units import chance, counted, show, significant


def summary(plan: Plan, found: Sequence[Relaxation]) -> tuple[str, ...]:
    """Sentences that a reader should take away."""
    best = plan.best
    if best is None:
        return (_nothing(plan), *_ways(found))
    option = best.option
    price = ""
    if option.usd_per_hour:
        each = usd_per_mtok(option, plan.demand.output)
        price = f", {option.usd_per_hour:,.2f} $/h, {each:,.2f} $ per million output tokens"
    first = option.kind
    out = [
        f"{option.gpus} × {first.base.node.gpu.title}: {shape(option)}, {first.weights} weights"
        f"{price}.",
        *speculation.summary(plan),
    ]
    promised = ", ".join(
        f"{each.kept.objective.name} {show(each.kept.value_s, 's')} of "
        f"{show(each.kept.objective.limit_s, 's')}"
        for each in best.objectives[: len(plan.goal.objectives)]
    )
    known, asked = best.probability, plan.goal.confidence
    surely = f" at {chance(asked)} confidence" if asked and known is not None else ""
    # It was simulated at the rate that is asked for; how far that may grow is read off a curve.
    carried = max(option.capacity, option.rate)
    room = f"It carries {significant(carried)} requests/s{surely}"
    if option.headroom > 0:
        reason = "the queue grows without end" if option.binds == RATE else f"{option.binds} breaks"
        room += f", {option.headroom:.0%} more than is asked for"
        room += f", before {reason}" if promised else ""
    out.append(f"{room}.")
    if promised:
        likely = "" if known is None else f"; {chance(known)} likely that all hold"
        out.append(f"In simulation {promised}{likely}.")
    return (*out, *_plain(plan, option), *_unranked(plan, option))


def _plain(plan: Plan, option: Option) -> tuple[str, ...]:
    """The cheapest plain deployment beside another one, and the reason for the difference."""
    plain = plan.choice.plain
    if option.usual:
        return ()
    if plain is None:
        return ("One pool of replicas inside nodes is not enough on the GPUs that are allowed.",)
    (pool,) = plain.pools
    more = plan.question.cost(plain) / plan.question.cost(option) - 1.0
    binds = "saturation" if pool.binds == RATE else pool.binds
    each = f"{significant(pool.carries / pool.candidate.devices)} requests/s of each GPU"
    if option.wires:
        why = f"there prompts and answers share steps, and {binds} allows {each}"
        last = option.pools[-1]
        rate = significant(last.carries / last.candidate.devices)
        why += f"; on GPUs of its own decode carries {rate}"
    else:
        (own,) = option.pools
        rate = significant(own.carries / own.candidate.devices)
        why = f"inside a node {binds} allows {each}, across nodes {rate}"
    return (
        f"One pool inside nodes, {shape(plain)}, takes {counted(plain.gpus, 'GPU')}, "
        f"{more:.0%} more: {why}.",
    )


def _unranked(plan: Plan, option: Option) -> tuple[str, ...]:
    """What is not ranked against what is recommended, or that this is a bound itself."""
    if option.kind.bounded:
        names = " and ".join(dict.fromkeys(kind.base.node.gpu.title for kind in plan.left))
        why = f": {names}, whose kernels were measured, is not enough" if names else ""
        return (f"That is a bound at published rates, no forecast{why}.",)
    if plan.bounds is None:
        return ()
    best = plan.bounds.best
    if best is None:
        titles = dict.fromkeys(kind.base.node.gpu.title for kind in plan.left)
        return (f"Even at published rates {' and '.join(titles)} would not be enough.",)
    price = best.option.usd_per_hour
    cost = f" and {price:,.2f} $/h" if price else ""
    return (
        f"Not ranked: {best.option.kind.base.node.gpu.title}, of which nothing was measured, would "
        f"need {counted(best.option.gpus, 'GPU')}{cost} at least, at published rates.",
    )


def _nothing(plan: Plan) -> str:
    binds = limit(plan)
    kinds = " or ".join(dict.fromkeys(kind.base.node.gpu.title for kind in plan.compared))
    what = f"Nothing fits on {plan.goal.gpus} × {kinds}"
    if binds == MEMORY:
        return f"{what}: the memory does not hold the weights and the longest request."
    if plan.choice.refused:
        cheapest = plan.choice.refused[0]
        surely = f" at {chance(plan.goal.confidence)} confidence" if plan.goal.confidence else ""
        return (
            f"{what}: in closed form {shape(cheapest)} is enough for "
            f"{significant(plan.demand.rate)} requests/s, and simulated whole it is not{surely}."
        )
    if binds == RATE:
        return f"{what}: they do not carry {significant(plan.demand.rate)} requests/s."
    limit_s = next(each.limit_s for each in plan.goal.objectives if each.name == binds)
    return f"{what}: {binds} is above {show(limit_s, 's')} even where there is nobody else."


def _ways(found: Sequence[Relaxation]) -> tuple[str, ...]:
    if not found:
        return ("No relaxation that was tried is enough.",)
    return tuple(
        f"It would with {each.change} ({each.asked}): {shape(each.option)}{_bound(each.option)}."
        for each in found
    )


def _bound(option: Option) -> str:
    """That an option is a bound, where it is."""
    return ", a bound at published rates" if option.kind.bounded else ""
