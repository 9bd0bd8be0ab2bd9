"""Rounds of speculative decoding: tokens are drafted, one step of the target verifies them all.

Symbols: B sequences, c tokens of each in the cache, n drafted tokens in a tree d deep. A round ends
with the token that the target puts after the last accepted one, which the next round starts from.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
from msgspec import Struct

from roofline.cost.deployment import Deployment
from roofline.cost.step import SequenceGroup
from roofline.cost.work import Array, Number, Op
from roofline.records import replace
from roofline.serving.draft_trees import Tree
from roofline.serving.drafts import Draft, pass_, pass_ops
from roofline.serving.quadrature import answer_nodes
from roofline.serving.stages import PricedStage, laid_out, price_step
from roofline.serving.workload import Workload


class Span(Struct, frozen=True):
    """A time with perfect overlap, and without any [s]; log standard deviation of the first. [1]"""

    seconds: Number
    serial: Number
    log_sd: Number = 0.0

    def __mul__(self, times: float) -> "Span":
        """So many times."""
        return Span(self.seconds * times, self.serial * times, self.log_sd)

    def at(self, deviations: float) -> Number:
        """The time so many standard deviations from its median. [s]"""
        return self.seconds * np.exp(deviations * self.log_sd)


class Round(Struct, frozen=True):
    """Times of a round at one bound of the roofline, mean over the answer."""

    tokens: float
    """Expected of each sequence. [token]"""
    draft_s: float
    verify_s: float
    """Drafting, and the target's step. [s]"""
    step_s: float
    """A decode step without drafts. [s]"""

    @property
    def round_s(self) -> float:
        """Drafting and verifying. [s]"""
        return self.draft_s + self.verify_s

    @property
    def tpot_s(self) -> float:
        """Time of a round for each token it yields. [s]"""
        return self.round_s / self.tokens

    @property
    def speed_up(self) -> float:
        """TPOT without drafts over that with them; below 1 a loss. [1]"""
        return self.step_s / self.tpot_s

    @property
    def bound(self) -> float:
        """Speed-up if a verification took no longer than a step: τ / (1 + draft / step). [1]

        Of K tokens in a row accepted alike, (1 − α^(K + 1)) / ((1 − α)·(1 + c·K)). Source:
        Leviathan et al. 2023 (arXiv 2211.17192), theorem 3.8.
        """
        return self.tokens / (1.0 + self.draft_s / self.step_s)


def verifying(target: Deployment) -> Deployment:
    """The target as it verifies: logits of every token."""
    return replace(target, options=replace(target.options, logits="all"))


def verification(target: Deployment, tree: Tree, batch: Number, cached: Number) -> PricedStage:
    """The target's step over the last token and all that was drafted after it.

    T = n + 1 and S = c + n + 1. The tokens of a tree are in a row and masked: attention is counted
    as over a chain of n, of which a path needs less. Source: Leviathan et al. 2023 (arXiv
    2211.17192), algorithm 1; Miao et al. 2024 (SpecInfer, arXiv 2305.09781), section 4.2.

    Args:
        target: What verifies, on one stage.
        tree: What was drafted.
        batch: Sequences. [1]
        cached: Tokens of each in the cache. [token]
    """
    new = 1.0 + tree.nodes
    (priced,) = price_step(verifying(target), SequenceGroup(batch, new, cached + new))
    return priced


def drafter(
    draft: Draft, target: Deployment, batch: Number, cached: Number
) -> Callable[[Tree], tuple[Span, ...]]:
    """Times of the passes that draft a tree; passes that trees have in common are priced once.

    Sequential drafts take a pass for each position. The first takes in what the draft has not in
    its cache yet: a model of its own the last token, and the one before where all that it drafted
    was accepted; a layer on the target's states all tokens of the last round. Each further pass
    takes the tokens of the position before that go on. Medusa heads run once each, on the state of
    the last token. Counts are expectations, where a batch has some of each. Left out: sampling from
    the draft, and looking n-grams up. Source: Leviathan et al. 2023 (arXiv 2211.17192), algorithm
    1; Li et al. 2024 (EAGLE, arXiv 2401.15077), section 3.1.

    Args:
        draft, target: What drafts, for what.
        batch: Sequences. [1]
        cached: Tokens of each in the target's cache. [token]
    """
    known: dict[DraftingPass, Span] = {}

    def passed(one: DraftingPass) -> Span:
        if one not in known:
            parts = pass_(draft, target, one.group(batch, cached), one.rows)
            known[one] = Span(parts.seconds(target), parts.serial, parts.log_sd)
        return known[one]

    return lambda tree: tuple(map(passed, passes(draft, tree)))


class DraftingPass(NamedTuple):
    """A drafting pass: tokens of each sequence, those drafted before them, and who predicts."""

    new: float
    ahead: int
    rows: Literal["last", "all"]

    def group(self, batch: Number, cached: Number) -> SequenceGroup:
        """Sequences with so many tokens in the target's cache."""
        return SequenceGroup(batch, self.new, cached + (1.0 + self.ahead))


def passes(draft: Draft, tree: Tree) -> tuple[DraftingPass, ...]:
    """Passes that draft a tree, as `drafter` has them."""
    if draft.deployment is None:
        return ()
    if not draft.sequential:
        return (DraftingPass(1.0, 0, "last"),) * tree.depth
    every, ahead = (
        [DraftingPass(tree.tokens if draft.feeds_on_target else 1.0 + tree.complete, 0, "last")],
        0,
    )
    for level in tree.levels[:-1]:
        ahead += level.inner
        every.append(DraftingPass(float(level.inner), ahead, "all"))
    return tuple(every)


class Operations(NamedTuple):
    """Arithmetic and memory traffic of a round on all devices, mean over the answer."""

    tokens: float
    """Expected of each sequence. [token]"""
    draft: float
    verify: float
    """Drafting, and the target's step. [FLOP]"""
    step: float
    """A decode step without drafts. [FLOP]"""
    draft_bytes: float
    verify_bytes: float
    step_bytes: float
    """Read from memory and written to it by each of them. [B]"""

    @property
    def increase(self) -> float:
        """Arithmetic of a token over that without drafts: what is refused is extra. [1]"""
        return (self.draft + self.verify) / (self.tokens * self.step)

    @property
    def traffic(self) -> float:
        """Memory traffic of a token over that without drafts: weights are read once a round. [1]"""
        return (self.draft_bytes + self.verify_bytes) / (self.tokens * self.step_bytes)


def operations(
    draft: Draft, target: Deployment, workload: Workload, trees: Sequence[Tree]
) -> tuple[Operations, ...]:
    """Arithmetic and memory traffic of a round of each tree.

    Source: Leviathan et al. 2023 (arXiv 2211.17192), theorem 3.11, with the operations of each step
    counted.
    """
    lengths = float(workload.prompt), float(workload.output)
    contexts, weights = answer_nodes(target.architecture, *lengths)
    batch, cached = np.full_like(contexts, float(workload.batch)), contexts - 1.0

    def counted(deployment: Deployment, ops: Iterable[Op]) -> Array:
        """Operations and bytes."""
        devices = deployment.layout.devices * target.layout.dp / deployment.layout.dp
        total = np.zeros(2)
        for op in ops:
            for which, each in enumerate((op.work.flops, op.work.hbm_bytes)):
                whole = np.broadcast_to(op.repeat * each, contexts.shape)
                total[which] += devices * float(whole @ weights)
        return total

    @cache
    def drafted(one: DraftingPass) -> Array:
        return counted(*pass_ops(draft, target, one.group(batch, cached), one.rows))

    def stepped(deployment: Deployment, new: float) -> Array:
        return counted(target, laid_out(deployment, SequenceGroup(batch, new, cached + new)).ops)

    def round_of(tree: Tree) -> Operations:
        drafting = sum(map(drafted, passes(draft, tree)), np.zeros(2))
        flops, moved = zip(
            drafting, stepped(verifying(target), 1.0 + tree.nodes), plain, strict=True
        )
        return Operations(tree.tokens, *map(float, flops), *map(float, moved))

    plain = stepped(target, 1.0)
    return tuple(map(round_of, trees))


class Sheet(Struct, frozen=True):
    """Mean times over the answer, of several trees at several batches."""

    trees: tuple[Tree, ...]
    """Drafts."""
    passes: tuple[tuple[Span, ...], ...]
    """Drafting passes of each tree, one after the other, at each batch. [s]"""
    verify: tuple[Span, ...]
    """Verification of each tree, at each batch. [s]"""
    step: Span
    """A decode step without drafts, at each batch. [s]"""

    def round(
        self, tree: int = 0, batch: int = 0, *, serial: bool = False, deviations: float = 0.0
    ) -> Round:
        """The round of a tree at a batch, by their places.

        Without overlap if asked, or with all times so many standard deviations from the median:
        errors of drafting, of verifying and of a plain step are taken to go together.
        """

        def at(span: Span) -> float:
            return float(np.asarray(span.serial if serial else span.at(deviations))[batch])

        drafted = sum(at(span) for span in self.passes[tree])
        return Round(self.trees[tree].tokens, drafted, at(self.verify[tree]), at(self.step))

    def best(self, batch: int = 0) -> int:
        """Place of the tree that takes least for each token; the smaller of equals."""
        return min(range(len(self.trees)), key=lambda tree: self.round(tree, batch).tpot_s)


def sheet(
    draft: Draft, target: Deployment, workload: Workload, trees: Sequence[Tree], batches: Array
) -> Sheet:
    """Price trees at batches.

    A round is one step of the engine: the verification is scheduled, sampled and sent out once,
    and drafting runs inside the same step, as vLLM's proposers and SGLang's draft workers do. So
    passes of the draft have the engine's factor on kernels and nothing of its software; all tokens
    of a round go through its front end. Rounds start anywhere in the answer alike. Left out: that
    the last one may yield more than is wanted. Source: mean over contexts, as for a decode step.
    """
    lengths = float(workload.prompt), float(workload.output)
    contexts, weights = answer_nodes(target.architecture, *lengths)
    batch, cached = np.repeat(batches, len(contexts)), np.tile(contexts - 1.0, len(batches))

    def mean(span: Span) -> Span:
        means = (
            np.broadcast_to(value, batch.shape).reshape(len(batches), -1) @ weights
            for value in (span.seconds, span.serial, span.log_sd)
        )
        return Span(*means)

    costs = target.engine_costs

    def stepped(priced: PricedStage, tokens: float = 1.0) -> Span:
        """A step of the engine that yields so many tokens of each sequence."""
        one = mean(Span(priced.seconds(), priced.seconds(serial=True), priced.parts.log_sd))
        passed = costs.front_end_s * tokens * batches
        whole, serial = (
            np.maximum(costs.decode_step(kernels, batches), passed)
            for kernels in (one.seconds, one.serial)
        )
        part = costs.decode_gain * one.seconds / whole
        return Span(whole, serial, costs.log_sd(one.log_sd, part))

    drafted = drafter(draft, target, batch, cached)
    (plain,) = price_step(target, SequenceGroup(batch, 1.0, cached + 1.0))
    return Sheet(
        tuple(trees),
        tuple(tuple(mean(each) * costs.decode_gain for each in drafted(tree)) for tree in trees),
        tuple(stepped(verification(target, tree, batch, cached), tree.tokens) for tree in trees),
        stepped(plain),
    )
