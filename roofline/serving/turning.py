"""Where a gain of speculative decoding becomes a loss: other drafts, batches, acceptances."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from roofline.cost.deployment import Deployment
from roofline.cost.work import Array, distinct
from roofline.serving.acceptance import Acceptance
from roofline.serving.draft_trees import Tree, chain
from roofline.serving.drafts import Draft
from roofline.serving.rounds import Round, Sheet, sheet
from roofline.serving.workload import Workload


@dataclass(frozen=True, slots=True)
class Choice:
    """Something else that could be drafted, and its round."""

    tree: Tree
    round: Round


@dataclass(frozen=True, slots=True)
class AtBatch:
    """Another batch: the round there, and what would be best to draft."""

    batch: int
    """Sequences. [1]"""
    round: Round
    """With the same draft."""
    best: Choice
    """With what takes least there."""
    fits: bool
    """Whether it fits in memory, with what drafts."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Where a gain becomes a loss as the batch grows, or a loss a gain."""

    batch: int
    """The first that is otherwise. [1]"""
    gains: bool
    """Whether it gains from there on."""


def at_batch(many: Sheet, place: int, batch: int, most: int) -> AtBatch:
    """A batch of a sheet whose first tree is what is drafted, the others what could be."""
    other = Sheet(many.trees[1:], many.passes[1:], many.verify[1:], many.step)
    found = other.best(place)
    choice = Choice(other.trees[found], other.round(found, place))
    return AtBatch(batch, many.round(0, place), choice, batch <= most)


def batch_axis(batch: int, most: int) -> Array:
    """Powers of two to beyond what fits, and the batch itself."""
    last = max(4 * batch, 2 * most, 16)
    return distinct(np.append(2.0 ** np.arange(0, min(np.log2(last) + 1, 20)), batch))


def turns(many: Sheet, batches: Array, gains: Callable[[int], bool]) -> tuple[Turn, ...]:
    """Where gain and loss change places, to the sequence."""
    out = []
    signs = [many.round(0, place).speed_up >= 1.0 for place in range(len(batches))]
    for (low, before), (high, after) in pairwise(zip(batches.astype(int), signs, strict=True)):
        if before == after:
            continue
        first, last = int(low), int(high)
        while last - first > 1:
            middle = (first + last) // 2
            first, last = (first, middle) if gains(middle) == after else (middle, last)
        out.append(Turn(last, after))
    return tuple(out)


def least_acceptance(
    draft: Draft,
    target: Deployment,
    workload: Workload,
    tree: Tree,
    acceptance: Acceptance,
    batch: Array,
) -> float | None:
    """Acceptance from which a chain of that length gains, where all positions are alike. [1]"""
    if not tree.is_chain or acceptance.deepest is not None:
        return None

    def gains(rate: float) -> bool:
        other = chain(Acceptance(((rate,),)), tree.depth)
        return sheet(draft, target, workload, [other], batch).round().speed_up >= 1.0

    if not gains(1.0):
        return None
    low, high = 0.0, 1.0
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (low, middle) if gains(middle) else (middle, high)
    return high
