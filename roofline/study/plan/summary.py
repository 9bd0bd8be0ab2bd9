"""A plan in a few sentences: what to buy and why, or what is in the way and relaxes it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from roofline.serving.draft_trees import Tree
from roofline.serving.drafts import Draft
from roofline.study.plan.choose import PLAIN, RunnerUp
from roofline.study.plan.figures import shape, usd_per_mtok
from roofline.study.plan.option import Option, compared_cost
from roofline.study.plan.plan import Plan
from roofline.study.plan.relaxations import MEMORY, RATE, Relaxation, limit
from roofline.units import chance, counted, dollars, show, significant

STARTED: Final = ("mtp", "ngram", "model")
"""Drafts that a command starts: by their name alone, or by that of the network."""


def drafting_facts(plan: Plan) -> dict[str, Any]:
    """Draft, its length and its acceptance as metadata; empty where nothing drafts."""
    found = drafted(plan)
    if found is None:
        return {}
    draft, tree = found
    return {
        "draft": draft.title,
        "draft_kind": draft.kind,
        "draft_length": tree.depth,
        "acceptance": str(plan.question.demand.acceptance),
        "tokens_per_round": tree.tokens,
    }


def drafting_notes(plan: Plan) -> list[str]:
    """Omissions of figures with drafts, and of the command that starts an instance."""
    found = drafted(plan)
    if found is None:
        return []
    draft, _ = found
    out = [
        "How many drafted tokens are accepted is drawn for every round; each sequence has room for "
        "its drafted tokens in the cache, and they count in the token budget. Contexts and pages "
        "grow as they do on average."
    ]
    if draft.kind not in STARTED:
        says = f"The command that starts an instance does not say that {draft.title}"
        out.append(
            f"{says} draft: it has no words for them."
            if draft.kind == "medusa"
            else f"{says} drafts: add `draft={draft.kind}` `draft_model` and its checkpoint."
        )
    return out


def drafting_options(plan: Plan) -> Mapping[str, str | int]:
    """Options of the draft in the command that starts an instance, by name."""
    found = drafted(plan)
    if found is None or found[0].kind not in STARTED:
        return {}
    draft, tree = found
    named = {"draft_model": draft.title} if draft.kind == "model" else {}
    return {"draft": draft.kind, "draft_tokens": tree.depth, **named}


def drafted(plan: Plan) -> tuple[Draft, Tree] | None:
    """Draft, and the tree of a round; None where decoding is plain."""
    kind = plan.kinds[0]
    if kind.speculation is None:
        return None
    return kind.speculation.draft(kind.base), kind.speculation.tree(plan.question.demand)


def summary(
    plan: Plan, found: Sequence[Relaxation], others: Sequence[RunnerUp] = (), *, peak: bool = False
) -> tuple[str, ...]:
    """Sentences that a reader should take away.

    Args:
        found: What would lift the limits, where nothing keeps them.
        others: Deployments beside the recommended one, as their table has them.
        peak: Whether the rate is the peak of a curve.
    """
    best = plan.best
    if best is None:
        return (_nothing(plan), *_ways(found))
    option = best.option
    price = ""
    each = usd_per_mtok(option, plan.demand.output)
    if each is not None:
        price = f", {dollars(option.usd_per_hour)}/h, {dollars(each)} per million output tokens"
        price += " at the peak" * peak
    first = option.kind
    out = [
        f"{option.gpus} × {first.base.node.gpu.title}: {shape(option)}, {first.weights} weights"
        f"{price}."
    ]
    if (drafts := drafted(plan)) is not None:
        draft, tree = drafts
        out.append(
            f"Each decode step verifies {tree} drafted by {draft.title}, and yields "
            f"{significant(tree.tokens)} tokens at an acceptance of {plan.demand.acceptance}."
        )
    told = ", ".join(
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
        more = f"{option.headroom:.0%}" if option.headroom >= 0.005 else "less than 1%"
        room += f", {more} more than is asked for"
        room += f", before {reason}" if told else ""
    out.append(f"{room}.")
    if told:
        likely = "" if known is None else f"; {chance(known)} likely that all hold"
        out.append(f"In simulation {told}{likely}.")
    # What held by estimates of steps may be larger where it was simulated whole.
    whole = (each.done.option for each in others if PLAIN in each.why)
    plain = next(whole, plan.choice.plain)
    return (*out, *_plain(plan, option, plain), *_unranked(plan, option))


def _plain(plan: Plan, option: Option, plain: Option | None) -> tuple[str, ...]:
    """The cheapest plain deployment beside another one, and the reason for the difference."""
    if option.usual:
        return ()
    if plain is None:
        return ("One pool of replicas inside nodes is not enough on the GPUs that are allowed.",)
    (pool,) = plain.pools
    more = compared_cost(plan.question.cost(plain), plan.question.cost(option))
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
        f"{more}: {why}.",
    )


def _unranked(plan: Plan, option: Option) -> tuple[str, ...]:
    """Note on kinds that are not ranked, or that the recommendation is a bound itself."""
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
    cost = f" and {dollars(price)}/h" if price else ""
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
        f"It would with {each.change} ({each.asked}): {shape(each.option)}"
        + ", a bound at published rates" * each.option.kind.bounded
        + "."
        for each in found
    )
