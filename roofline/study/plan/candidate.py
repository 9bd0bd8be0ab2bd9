"""Kinds of device, and layouts of each: whether one can serve at all, and an estimate of its steps.

Estimates are coarse tables of `roofline.study.plan.screen`, made for all layouts at once. Bounds
are optimistic: every step is the mean one, with as many prompts as go with the sequences in it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import log
from typing import Final

import numpy as np
from msgspec import Struct

from roofline.cost.deployment import Deployment
from roofline.cost.ffn_pool import with_ffn_pool
from roofline.cost.layout import Layout
from roofline.cost.work import Array
from roofline.errors import LayoutError
from roofline.records import replace
from roofline.serving.disaggregated import UNFITTED
from roofline.serving.draft_trees import Tree, chain
from roofline.serving.drafts import Draft
from roofline.serving.objectives import Objective
from roofline.serving.quadrature import between
from roofline.serving.run.intervals import StepUncertainty
from roofline.serving.simulate.denoising import BlockDiffusion
from roofline.serving.simulate.drafting import RoundDraft
from roofline.serving.simulate.prices import StepPrices
from roofline.study.plan.curve import SHARES, Role
from roofline.study.plan.demand import Demand
from roofline.units import show, show_binary

UNDRAFTED: Final = (
    "speculative decoding and denoising are not priced with pipelines or shared contexts"
)

SLACK: Final = 0.9
"""Factor on times of a bound: estimates lie between few points, and steps are not quite convex.
Assumed."""
BETWEEN: Final = 0.75
"""The same of limits on the time between tokens: near a limit tiles, experts and windows make steps
of some batches cheaper than those around them. Assumed; no layout of the tests needs more."""
TAIL: Final = 1.3
"""Percentiles of the time between tokens over their mean, by which layouts are ordered. Assumed."""
MEDIAN: Final = 50.0
"""Percentile from which a limit on the time between tokens holds for the mean too."""


class PriceUncertainty(Struct, frozen=True):
    """Errors of an engine's predictions where it was not fitted."""

    step: float = 0.0
    """Log standard deviation of times between tokens. [1]"""
    first: float = 0.0
    """Log standard deviation of the time to a first token. [1]"""
    source: str = ""
    """Source of both; empty where nothing is known."""

    def of(self, role: Role) -> "PriceUncertainty":
        """Errors of a pool in a role: wider where prefill and decode are apart, as never fitted."""
        if role == "all":
            return self
        return PriceUncertainty(self.step * UNFITTED, self.first * UNFITTED, self.source)


class PlannedDrafts(Struct, frozen=True):
    """Drafts for a network, wherever it runs."""

    draft: Callable[[Deployment], Draft]
    """Draft of a deployment."""
    length: int
    """Tokens drafted in a row. [token]"""
    seed: int = 0
    """Seed of how many of them are accepted. [1]"""

    def tree(self, demand: Demand) -> Tree:
        """Tree of a round for a demand, which says how often drafts are accepted."""
        assert demand.acceptance is not None, "drafts for text of which nothing is known"
        return chain(demand.acceptance, self.length)

    def drafting(self, draft: Draft, demand: Demand) -> RoundDraft:
        """Rounds of a draft for a demand."""
        return RoundDraft(draft, self.tree(demand), self.seed, demand.acceptance)


class DeploymentKind(Struct, frozen=True):
    """A kind of device and the formats that run on it."""

    base: Deployment
    """Network, node, formats, engine, calibration; its own layout is not used."""
    usd_per_hour: float
    """Price of a device; 0 where none is known. [$/h]"""
    utilization: float | None = None
    """Share of device memory the engine takes; None for its default. [1]"""
    uncertainty: PriceUncertainty = PriceUncertainty()
    """Errors of the engine's predictions."""
    speculation: PlannedDrafts | None = None
    """Drafts; None where decoding is plain."""
    tier_bytes: float = 0.0
    disk_bytes: float = 0.0
    """Memory of the host and its drives, for prefixes of a replica that leave the GPU. [B]"""
    blocks: BlockDiffusion | None = None
    """Blocks that answers are denoised in; None where decoding is token by token."""

    @property
    def gpu(self) -> str:
        """Name of the device."""
        return self.base.node.gpu.name

    @property
    def weights(self) -> str:
        """Format of the weights."""
        return self.base.weights_name

    @property
    def kv(self) -> str:
        """Format of the cache."""
        return self.base.precision.kv.name

    @property
    def name(self) -> str:
        """Device and formats, in a few words."""
        return f"{self.gpu}, {self.weights} weights, {self.kv} KV"

    @property
    def bounded(self) -> bool:
        """True if its times are at published rates: the least possible, and no forecast."""
        return self.base.calibration is None

    def round_tokens(self, demand: Demand) -> float:
        """Tokens that a decode step is expected to yield for each sequence. [token]"""
        if self.blocks is not None:
            return self.blocks.block / self.blocks.steps
        return 1.0 if self.speculation is None else self.speculation.tree(demand).tokens

    def drafts_on(self, layout: Layout) -> bool:
        """True if decoding is plain, or its rounds are priced for a layout."""
        plain = self.speculation is None and self.blocks is None
        return plain or bool(layout.pp == 1 and layout.cp == 1)

    def deployed(self, layout: Layout) -> Deployment:
        """A replica of it; LayoutError where the layout cannot be, or its drafts are not priced."""
        if not self.drafts_on(layout):
            raise LayoutError(
                f"layout: {UNDRAFTED}", hint="use tensor, expert and attention data parallelism"
            )
        return replace(self.base, layout=layout)


class FeedForwardPools(Struct, frozen=True):
    """A pool of its own for the feed-forward parts of an instance that decodes."""

    layout: Layout
    microbatches: int
    """Its layout, and micro-batches that take turns. [1]"""


def paced(prices: StepPrices, factor: float) -> StepPrices:
    """Prices of steps that all take so much longer."""
    common = StepUncertainty(log(factor), log(factor), 1.0, {})
    return prices if factor == 1.0 else common.scaled(prices, 1.0, 0.0)


@dataclass(frozen=True)
class Candidate:
    """Layout of a kind, and what is known of it before its steps are tabulated."""

    kind: DeploymentKind
    layout: Layout
    """Network, formats, device; degrees."""
    free: float
    """Memory of a device that is left for the cache; negative where weights do not fit. [B]"""
    sequences: float
    """Sequences of typical length that its memory holds at once. [1]"""
    tokens: float
    """Room of the cache. [token]"""
    estimate: StepPrices | None = field(repr=False)
    """Coarse prices of its steps; None where memory rules it out."""
    ffn: FeedForwardPools | None = None
    """Pool of its feed-forward parts, whose groups of the layout are instances of attention; None
    where all is in one."""

    @property
    def devices(self) -> int:
        """Devices of a replica. [1]"""
        return int(self.layout.devices) + (0 if self.ffn is None else int(self.ffn.layout.devices))

    @property
    def spelled(self) -> str:
        """Layout as the command line takes it; of both pools one after the other."""
        own = self.layout.spelled
        return own if self.ffn is None else f"{own} + {self.ffn.layout.spelled}"

    def deployed(self) -> Deployment:
        """A replica; LayoutError where it cannot be."""
        if self.ffn is None:
            return self.kind.deployed(self.layout)
        alone = self.kind.deployed(replace(self.layout, dp=1))
        inside = self.devices <= alone.node.gpus and alone.node.link is not None
        return with_ffn_pool(
            alone,
            int(self.layout.dp),
            self.ffn.layout,
            microbatches=self.ffn.microbatches,
            over="link" if inside else "network",
        )

    @property
    def usual(self) -> bool:
        """True if a replica is inside a node, as engines are usually run."""
        return self.devices <= self.kind.base.node.gpus and self.ffn is None

    @cached_property
    def plainness(self) -> tuple[bool, bool, bool]:
        """Sort key by what engines are run with: no pipeline, no shared contexts or sequences."""
        layout = self.layout
        return int(layout.pp) > 1, int(np.max(layout.cp)) > 1, layout.sequence_parallel

    @cached_property
    def rank(self) -> tuple[bool, bool, bool, str]:
        """Sort key of layouts of one cost: the plainest first, then by name."""
        return *self.plainness, self.spelled

    def step_s(self, demand: Demand) -> Array:
        """Decode steps at the batches of the estimate. [s]"""
        prices, engine = self._estimate, self._estimate.engine
        i, share = between(prices.contexts, demand.mean_context)
        seconds = (1.0 - share) * prices.decode_s[:, i] + share * prices.decode_s[:, i + 1]
        found: Array = engine.decode_gain * seconds
        return found + engine.step_s + engine.sequence_s * prices.batches

    def floor_s(self, demand: Demand) -> float:
        """Least time between tokens: that of a single sequence. [s]"""
        return float(self.step_s(demand)[0]) / self.kind.round_tokens(demand)

    def first_s(self, demand: Demand, objective: Objective) -> float:
        """Time to a first token of a prompt alone, at an objective's percentile or the mean. [s]"""
        new = demand.new_tokens_at(objective.percentile)
        engine = self._estimate.engine
        return float(engine.prefill_step(self._estimate.prompt_s(new))) + engine.request_s

    def bound(
        self,
        demand: Demand,
        objectives: Sequence[Objective],
        factor: float = 1.0,
        role: Role = "all",
        *,
        likely: bool = False,
    ) -> float:
        """Requests a second that a replica could carry at best; 0 where it cannot at all. [1/s]

        Args:
            factor: Factor on the time of the device. [1]
            role: Phases that it serves.
            likely: True for a guess, by which layouts are ordered, in place of a bound.
        """
        for each in objectives:
            late = each.metric == "ttft" and role != "decode"
            if late and self.first_s(demand, each) * SLACK * factor > each.limit_s:
                return 0.0
        new = demand.mean_new_tokens
        groups, base = float(np.max(self.layout.dp)), self.kind.base
        limit = float(base.engine.step_tokens_on(base.node.gpu, groups))
        budget = limit or new * groups
        prompt = self._estimate.engine.prefill_gain * self._estimate.prompt_s(new, budget)
        if role == "prefill" or not demand.steps:
            return SHARES[-1] / (prompt * factor * SLACK)
        tokens, prices = self.kind.round_tokens(demand), self._estimate
        alone = self.step_s(demand)
        rounds = demand.steps / tokens
        work = (
            alone
            if role == "decode"
            else self._mixed_s(demand, alone, rounds, prompt, likely=likely)
        )
        batches = np.concatenate([[0.0], prices.batches])
        between = np.concatenate([alone[:1], work]) * factor
        most = full = min(self.sequences, float(batches[-1]))
        for each in objectives:
            if _lasting(each):
                limit = each.limit_s * tokens / (TAIL if likely else BETWEEN)
                if between[0] > limit:
                    return float(1.0 / (between[0] * rounds)) if likely else 0.0
                most = min(most, float(np.interp(limit, np.maximum.accumulate(between), batches)))
        if full < 1.0 or not most:
            return 0.0
        return min(
            _served(most, batches, between * SLACK, rounds),
            SHARES[-1] * _served(full, batches, between * SLACK, rounds),
        )

    def _mixed_s(
        self, demand: Demand, alone: Array, rounds: float, prompt: float, *, likely: bool
    ) -> Array:
        """Steps of the batches with as many prompts as go with them, each of so long. [s]"""
        prices = self._estimate
        flux = prices.batches / rounds
        if self.kind.base.architecture.mixtures and not likely:
            # Few tokens need as many experts as many do: steps are not convex in their tokens.
            return np.maximum(alone, flux * prompt)
        new = demand.mean_new_tokens
        if prices.groups > 1:
            # As if a prompt were alone in its steps: most are, at the loads of an objective.
            guess: Array = alone + flux * prices.engine.prefill_gain * prices.prompt_s(new)
            return guess
        each = np.interp(new, prices.chunks, prices.attention_s[:, 0])
        tokens = prices.batches + flux * new
        others = np.interp(tokens, prices.tokens, prices.others_s[0])
        others = others * np.maximum(tokens / prices.tokens[-1], 1.0)
        added = (others - prices.alone_s + flux * new * each) * prices.engine.prefill_gain
        mixed: Array = alone + np.maximum(added, 0.0)
        return mixed

    def refusal(self, demand: Demand, objectives: Sequence[Objective], factor: float = 1.0) -> str:
        """Reason why it cannot serve at all; empty where it might."""
        if not self.kind.drafts_on(self.layout):
            return f"layout: {UNDRAFTED}"
        if self.free <= 0:
            return f"memory: weights want {show_binary(-self.free)} more than a device has"
        if self.tokens < demand.longest:
            return short_of(self.tokens, demand)
        for each in objectives:
            limit = show(each.limit_s, "s")
            if each.metric == "ttft":
                least = self.first_s(demand, each) * factor
                if least * SLACK > each.limit_s:
                    return f"{each.name}: {show(least, 's')} when idle, the limit is {limit}"
            elif _lasting(each):
                least = self.floor_s(demand) * factor
                if least * BETWEEN > each.limit_s:
                    return f"{each.name}: {show(least, 's')} at batch 1, the limit is {limit}"
        return ""

    @property
    def _estimate(self) -> StepPrices:
        assert self.estimate is not None, "steps of a layout that does not fit"
        return self.estimate


def short_of(tokens: float, demand: Demand) -> str:
    """Refusal of a cache without room for the longest request. [token]"""
    return f"memory: room for {tokens:,.0f} tokens, the longest request has {demand.longest:,}"


def _served(most: float, batches: Array, between: Array, steps: float) -> float:
    """Requests a second with up to so many sequences, steps of an answer and their times. [1/s]"""
    points = np.append(batches[batches < most], most)
    each = points / np.interp(points, batches, between) / steps
    return float(each.max())


def _lasting(objective: Objective) -> bool:
    """True if a limit holds for the mean time between tokens too, or for more."""
    return objective.metric == "tpot" and (objective.percentile or MEDIAN) >= MEDIAN
