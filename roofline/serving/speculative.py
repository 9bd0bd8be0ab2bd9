"""A static batch that decodes speculatively, beside the same batch without drafts."""

import math
from bisect import bisect
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np
from msgspec import Struct

from roofline.cost.deployment import Deployment
from roofline.cost.memory import MemoryBudget, budget
from roofline.cost.work import Array
from roofline.errors import InputError
from roofline.records import replace
from roofline.serving import room
from roofline.serving.acceptance import Acceptance
from roofline.serving.draft_trees import LONGEST, Tree, best, chain, full
from roofline.serving.drafts import Draft, check_layout, held, pass_
from roofline.serving.quadrature import answer_nodes
from roofline.serving.rounds import Operations, Round, Sheet, Span, operations, sheet, verification
from roofline.serving.static import (
    CENTRAL,
    OpTime,
    StaticBatch,
    check_context,
    engine_time,
    operator_times,
    static_batch,
)
from roofline.serving.static_batches import batch_axis
from roofline.serving.workload import Workload, check_decodes

BUDGETS: Final = (1, 2, 4, 8, 16, 32, 64, 128)
"""Sizes of the best trees that are compared. [token]"""


class DraftChoice(Struct, frozen=True):
    """Something else that could be drafted, and its round."""

    tree: Tree
    round: Round


class AtBatch(Struct, frozen=True):
    """Another batch: the round there, and what would be best to draft."""

    batch: int
    """Sequences. [1]"""
    round: Round
    """Round of the same draft."""
    best: DraftChoice
    """Draft that takes least there."""
    fits: bool
    """Whether it fits in memory, the draft included."""


class BreakEvenBatch(Struct, frozen=True):
    """Batch at which a gain becomes a loss as the batch grows, or a loss a gain."""

    batch: int
    """The first that is otherwise. [1]"""
    gains: bool
    """Whether it gains from there on."""


@dataclass(frozen=True, slots=True)
class Speculation:
    """Speculative decoding of a static batch. Times at datasheet rates are the least possible."""

    draft: Draft
    acceptance: Acceptance
    tree: Tree
    """Drafter, its acceptance, and its draft of a round."""
    plain: StaticBatch = field(repr=False)
    """The same batch without drafts."""
    round: Round
    serial: Round
    """A round as predicted, at datasheet rates with perfect overlap; and without any. Mean over
    the answer."""
    fast: Round
    slow: Round
    """A round at either end of the central 80 %; as ``round`` at datasheet rates."""
    passes: tuple[float, ...]
    """Drafting passes, one after the other, with perfect overlap. [s]"""
    verify: dict[str, OpTime] = field(repr=False)
    """Operators of the verification, mean over the answer."""
    prefill: Span
    """Time of the draft in the prompt. [s]"""
    memory: MemoryBudget = field(repr=False)
    """Budget of one device, without what drafts."""
    draft_weights: float
    draft_kv: float
    """Memory of the draft on each device beside that. [B]"""
    choices: tuple[DraftChoice, ...] = field(repr=False)
    """Other lengths or trees at this batch."""
    operations: tuple[Operations, ...] = field(repr=False)
    """Arithmetic of a round, of the draft and of each choice."""
    batches: tuple[AtBatch, ...] = field(repr=False)
    turns: tuple[BreakEvenBatch, ...]
    """Other batches, and where a gain becomes a loss."""
    most: int
    """Largest batch that fits. [1]"""
    least_acceptance: float | None
    """Acceptance from which a chain gains at this batch; None where none does, or where it is not
    the same at every position. [1]"""

    @property
    def target(self) -> Deployment:
        """Deployment that verifies."""
        return self.plain.deployment

    @property
    def workload(self) -> Workload:
        """Batch and lengths."""
        return self.plain.workload

    @property
    def free(self) -> float:
        """Memory left on each device; negative where it does not fit. [B]"""
        return self.memory.free - self.draft_weights - self.draft_kv

    @property
    def best(self) -> DraftChoice:
        """Draft that takes least time for each token at this batch."""
        return min(self.choices, key=lambda choice: choice.round.tpot_s)

    @property
    def calibrated(self) -> bool:
        """Whether operators were priced as measured, so that there are intervals."""
        return self.plain.calibrated

    def ttft_s(self, *, serial: bool = False, deviations: float = 0.0) -> float:
        """Arrival to first token of the prompt that is prefilled last, by both. [s]"""
        if serial:
            return self.plain.ttft_serial_s + float(self.prefill.serial)
        wide = math.exp(deviations * self.plain.ttft_log_sd)
        return self.plain.ttft_s * wide + float(self.prefill.at(deviations))

    def latency_s(self, *, serial: bool = False) -> float:
        """Arrival to last token. [s]"""
        each = self.serial if serial else self.round
        return self.ttft_s(serial=serial) + each.tpot_s * (self.workload.output - 1)


def speculate(
    target: Deployment,
    draft: Draft,
    acceptance: Acceptance,
    workload: Workload,
    *,
    length: int = 0,
    widths: tuple[int, ...] = (),
    tokens: int = 0,
    utilization: float | None = None,
) -> Speculation:
    """Price speculative decoding.

    Args:
        target, draft: What verifies, and what drafts; both on the same devices, one after the
            other.
        acceptance: How often a drafted token is accepted.
        workload: Batch and lengths.
        length: Tokens in a row. [token]
        widths, tokens: In place of a row, a tree of so many alternatives at each position, or the
            best one of so many tokens. [token]
        utilization: Share of device memory the engine takes; None for its default. [1]

    Raises:
        InputError: Nothing to verify, a network or a layout that this is not priced for.
    """
    check(target, draft, workload)
    tree, others = _trees(acceptance, length, widths, tokens)
    here = np.array([float(workload.batch)])
    plain = static_batch(target, workload, utilization=utilization)
    # One price of a step without drafts: that of the static batch, between its own contexts.
    step = Span(np.array([plain.tpot_s]), np.array([plain.tpot_serial_s]), plain.tpot_log_sd)
    priced = replace(sheet(draft, target, workload, [tree, *others], here), step=step)
    choices = (
        DraftChoice(other, priced.round(place)) for place, other in enumerate(others, start=1)
    )

    def free(batch: int) -> float:
        wider = replace(workload, batch=batch, prefill_batch=min(workload.prefill_batch, batch))
        spare = memory_of(target, tree, wider, utilization)
        return spare.free - sum(taken(target, draft, tree, wider))

    most = room.most_that_fits(free, 2 * room.largest_batch(target, workload, utilization))
    grid = batch_axis(workload.batch, most)
    many = sheet(draft, target, workload, [tree, *others], grid)

    def gains(batch: int) -> bool:
        one = sheet(draft, target, workload, [tree], np.array([float(batch)]))
        return one.round().speed_up >= 1.0

    lengths = float(workload.prompt), float(workload.output)
    contexts, shares = answer_nodes(target.architecture, *lengths)
    step_of_all = verification(target, tree, float(workload.batch), contexts - 1.0)
    verify = operator_times(step_of_all, shares, target.engine_costs.decode_gain)
    added = priced.round().verify_s - sum(entry.seconds for entry in verify.values())
    memory = memory_of(target, tree, workload, utilization)
    weights, kv = taken(target, draft, tree, workload)
    return Speculation(
        draft=draft,
        acceptance=acceptance,
        tree=tree,
        plain=plain,
        round=priced.round(),
        serial=priced.round(serial=True),
        fast=priced.round(deviations=-CENTRAL),
        slow=priced.round(deviations=CENTRAL),
        passes=tuple(float(np.asarray(each.seconds)[0]) for each in priced.passes[0]),
        verify=verify | engine_time(added, target.engine_costs),
        prefill=prefill_of(draft, target, workload),
        memory=memory,
        draft_weights=weights,
        draft_kv=kv,
        choices=tuple(choices),
        operations=operations(draft, target, workload, [tree, *others]),
        batches=tuple(at_batch(many, place, int(batch), most) for place, batch in enumerate(grid)),
        turns=turns(many, grid, gains),
        most=most,
        least_acceptance=least_acceptance(draft, target, workload, tree, acceptance, here),
    )


def _trees(
    acceptance: Acceptance, length: int, widths: tuple[int, ...], tokens: int
) -> tuple[Tree, list[Tree]]:
    """Tree that is drafted, and others that could be."""
    asked = [
        name
        for name, there in (("length", length), ("widths", widths), ("tokens", tokens))
        if there
    ]
    if len(asked) != 1:
        raise InputError(
            "nothing to draft" if not asked else f"a draft by {' and '.join(asked)}",
            hint="give a length, the widths of a tree, or the tokens of the best tree",
        )
    deepest = min(acceptance.deepest or LONGEST, LONGEST)
    if widths:
        shapes = [widths[:position] for position in range(1, len(widths) + 1)]
        return full(acceptance, widths), [full(acceptance, shape) for shape in shapes]
    if tokens:
        trees = (best(acceptance, size) for size in sorted({*BUDGETS, tokens}))
        return best(acceptance, tokens), list(dict.fromkeys(trees))
    return chain(acceptance, length), [chain(acceptance, n) for n in range(1, deepest + 1)]


def at_batch(many: Sheet, place: int, batch: int, most: int) -> AtBatch:
    """A batch of a sheet whose first tree is what is drafted, the others what could be."""
    other = Sheet(many.trees[1:], many.passes[1:], many.verify[1:], many.step)
    found = other.best(place)
    choice = DraftChoice(other.trees[found], other.round(found, place))
    return AtBatch(batch, many.round(0, place), choice, batch <= most)


def turns(many: Sheet, batches: Array, gains: Callable[[int], bool]) -> tuple[BreakEvenBatch, ...]:
    """Batches at which gain and loss change places, to the sequence."""
    out = []
    signs = [many.round(0, place).speed_up >= 1.0 for place in range(len(batches))]
    for (low, before), (high, after) in pairwise(zip(batches.astype(int), signs, strict=True)):
        if before == after:
            continue
        between = range(int(low) + 1, int(high))
        turned = bisect(between, False, key=lambda batch: gains(batch) == after)
        out.append(BreakEvenBatch(between.start + turned, after))
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


def prefill_of(draft: Draft, target: Deployment, workload: Workload) -> Span:
    """Time of the draft in the prompts, as many in a step as the target does."""
    if not draft.sequential:
        return Span(0.0, 0.0)
    parts = pass_(draft, target, workload.prefill(float(workload.together)))
    # Inside the target's steps, as drafting is: the engine's factor on kernels, and no more.
    times = target.engine_costs.prefill_gain * workload.batch / workload.together
    seconds, serial = float(parts.seconds(target)), float(parts.serial)
    return Span(seconds, serial, float(parts.log_sd)) * times


def memory_of(
    target: Deployment, tree: Tree, workload: Workload, utilization: float | None
) -> MemoryBudget:
    """Budget of one device whose steps verify: drafted tokens are cached, and have logits."""
    rows = float(workload.batch * (1 + tree.nodes))
    return budget(
        target,
        batch=workload.batch,
        context=workload.longest + tree.nodes,
        step_tokens=max(float(room.step_tokens(target, workload)), rows),
        step_rows=rows,
        utilization=utilization,
    )


def taken(target: Deployment, draft: Draft, tree: Tree, workload: Workload) -> tuple[float, float]:
    """Weights and cache of what drafts, on each device. [B]"""
    context = workload.longest + tree.nodes
    return held(draft, target, workload.batch, context, tree.depth)


def check(target: Deployment, draft: Draft, workload: Workload) -> None:
    """Refuse what speculative decoding is not priced for."""
    check_decodes(target.architecture)
    if workload.output < 2:
        raise InputError("nothing is decoded", hint="give `output` 2 or more")
    check_layout(target.layout)
    check_context(target, workload)
    if draft.kind == "model" and draft.deployment is not None:
        check_context(draft.deployment, workload)
