"""What a plan says of speculative decoding: nothing, where nothing drafts."""

from collections.abc import Mapping
from typing import Any, Final

from roofline.serving.draft_trees import Tree
from roofline.serving.drafts import Draft
from roofline.study.plan.plan import Plan
from roofline.study.plan.sensitivity import REFUSED
from roofline.units import significant

SOURCE: Final = (
    f"what-ifs move the share that is refused by ±{REFUSED:.0%}, as far apart as topics are in "
    "arXiv 2412.19437, section 5.4.3"
)
STARTED: Final = ("mtp", "ngram", "model")
"""Drafts that a command starts: by their name alone, or by that of the network."""


def facts(plan: Plan) -> dict[str, Any]:
    """What drafts, in the words of the record."""
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


def summary(plan: Plan) -> tuple[str, ...]:
    """A sentence of the verdict."""
    found = drafted(plan)
    if found is None:
        return ()
    draft, tree = found
    return (
        f"Each decode step verifies {tree} drafted by {draft.title}, and yields "
        f"{significant(tree.tokens)} tokens at an acceptance of "
        f"{plan.question.demand.acceptance}.",
    )


def notes(plan: Plan) -> tuple[str, ...]:
    """What figures with drafts leave out, and what the command that starts them lacks."""
    found = drafted(plan)
    if found is None:
        return ()
    draft, _ = found
    out = [
        "How many drafted tokens are accepted is drawn for every round, all text and sequences "
        "alike; contexts and pages grow as they do on average, and drafted tokens take nothing of "
        "the token budget.",
    ]
    if draft.kind not in STARTED:
        says = f"The command that starts an instance does not say that {draft.title}"
        out.append(
            f"{says} draft: it has no words for them."
            if draft.kind == "medusa"
            else f"{says} drafts: add --draft {draft.kind} --draft-model and its checkpoint."
        )
    return tuple(out)


def words(plan: Plan) -> Mapping[str, str | int]:
    """What the command that starts an instance is told of it."""
    found = drafted(plan)
    if found is None or found[0].kind not in STARTED:
        return {}
    draft, tree = found
    named = {"--draft-model": draft.title} if draft.kind == "model" else {}
    return {"--draft": draft.kind, "--draft-tokens": tree.depth, **named}


def assumed(plan: Plan) -> tuple[str, ...]:
    """The acceptance that was given, if any."""
    given = plan.question.demand.acceptance
    return () if given is None else (str(given),)


def drafted(plan: Plan) -> tuple[Draft, Tree] | None:
    """What drafts, and what of it a round has; None where decoding is plain."""
    kind = plan.kinds[0]
    if kind.speculation is None:
        return None
    return kind.speculation.draft(kind.base), kind.speculation.tree(plan.question.demand)
