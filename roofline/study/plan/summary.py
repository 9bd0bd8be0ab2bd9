"""A plan in a few sentences: what to buy and why, or what is in the way and lifts it."""

from collections.abc import Sequence

from roofline.study.plan import speculation
from roofline.study.plan.figures import missed, shape, usd_per_mtok
from roofline.study.plan.lifts import MEMORY, RATE, Lift, limit
from roofline.study.plan.option import Option
from roofline.study.plan.plan import Plan
from roofline.units import chance, counted, show, significant


def summary(plan: Plan, found: Sequence[Lift]) -> tuple[str, ...]:
    """What a reader should take away, a sentence each.

    Parameters
    ----------
    plan
        What was planned.
    found
        Ways out, where nothing fits.
    """
    best = plan.best
    if best is None:
        return (_nothing(plan), *_ways(found))
    option = best.option
    price = ""
    if option.usd_per_hour:
        each = usd_per_mtok(option, plan.full.output)
        price = f", {option.usd_per_hour:,.2f} $/h, {each:,.2f} $ per million output tokens"
    first = option.kind
    out = [
        f"{option.gpus} × {first.base.node.gpu.title}: {shape(option)}, {first.weights} weights"
        f"{price}.",
        *speculation.summary(plan),
    ]
    room = f"It carries {significant(option.capacity)} requests/s, {option.headroom:.0%} more"
    promised = ", ".join(
        f"{each.kept.objective.name} {show(each.kept.value_s, 's')} of "
        f"{show(each.kept.objective.limit_s, 's')}"
        for each in best.promises[: len(plan.goal.promises)]
    )
    reason = "the queue grows without end" if option.binds == RATE else f"{option.binds} breaks"
    out.append(f"{room} than is asked for, before {reason}." if promised else f"{room}.")
    if promised:
        known = best.probability
        sure = "" if known is None else f"; {chance(known)} sure that all hold"
        out.append(f"In simulation {promised}{sure}.")
    return (*out, *_unranked(plan, option))


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
    if plan.refused:
        cheapest = plan.refused[0]
        return (
            f"{what}: by its curves {shape(cheapest.option)} is enough for "
            f"{significant(plan.full.rate)} requests/s, and simulated whole it is not, "
            f"{missed(cheapest)}."
        )
    if binds == RATE:
        return f"{what}: they do not carry {significant(plan.full.rate)} requests/s."
    limit_s = next(each.limit_s for each in plan.goal.promises if each.name == binds)
    return f"{what}: {binds} is above {show(limit_s, 's')} even where there is nobody else."


def _ways(found: Sequence[Lift]) -> tuple[str, ...]:
    if not found:
        return ("Nothing that was tried lifts that.",)
    return tuple(
        f"It would with {each.change} ({each.asked}): {shape(each.option)}{_bound(each.option)}."
        for each in found
    )


def _bound(option: Option) -> str:
    """That an option is a bound, where it is."""
    return ", a bound at published rates" if option.kind.bounded else ""
