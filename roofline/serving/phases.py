"""Phases of static batches over a grid: of batches and prompts, then of batches and contexts.

Rows are batches, or layouts; a single batch has no axis of rows. Every other static batch, of one
deployment, of a sweep or of every layout, is made of these two.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofline.cost.deployment import Deployment
from roofline.cost.engine_costs import EngineCosts
from roofline.cost.kernels.form import longest
from roofline.cost.roof import BOUNDS
from roofline.cost.work import Array, Number, anywhere
from roofline.model.architecture import Architecture, Attention, Block
from roofline.records import replace
from roofline.serving.quadrature import Answers, ContextSums, between_nodes, context_nodes
from roofline.serving.room import prompts_in_a_step
from roofline.serving.stages import GridStep, finish, finish_with, grid_step, pace, period, wires
from roofline.serving.workload import turns_of

ENGINE: Final = "engine"
"""Name of what an engine's software adds to a step: scheduling, sampling, launches."""
LIMITS: Final = (*BOUNDS, ENGINE)
"""Limits that may bind most of a phase."""
SHARED: Final = frozenset({"gemm", "moe", "pointwise", "adapter", "lookup", "collective"})
"""Kinds of operators that see all new tokens of a step at once, but for those of a group."""


def prompts_per_step(
    deployment: Deployment, batch: Number, new: Number, prefill_batch: Number = 0
) -> Number:
    """Prompts prefilled in one step: as asked, else all; in a pipeline, what a step holds. [1]

    Args:
        deployment: Layout and engine.
        batch: Sequences. [1]
        new: Tokens of each prompt that are not cached. [token]
        prefill_batch: Prompts in one step if they were asked for, else 0. [1]
    """
    asked, layout = np.asarray(prefill_batch, np.float64), deployment.layout
    if asked.all():
        return np.minimum(batch, asked)
    if deployment.turns == 1:
        usual = batch
    else:
        _, usual = turns_of(batch, deployment)
        if not layout.microbatches:
            usual = np.minimum(usual, prompts_in_a_step(deployment, new))
    return np.where(asked > 0, np.minimum(batch, asked), usual) if asked.any() else usual


def left_over(batch: Number, prompts: Number) -> Number | None:
    """Prompts of the step after the full ones, 1 where there is no such step; None without any.

    Args:
        batch, prompts: Sequences, and how many are prefilled in one step. [1]

    Examples:
        >>> left_over(10.0, 4.0), left_over(8.0, 4.0)
        (np.float64(2.0), None)
    """
    left = batch - np.floor(batch / prompts) * prompts
    return np.where(left > 0, left, 1.0)[()] if anywhere(left) else None


def last_of(
    stages: Sequence[Number], last: Sequence[Number] | None, batch: Number, prompts: Number
) -> Number:
    """When the last prompt of a batch has its first token. [s]

    Args:
        stages, last: Time of each stage in a full prefill step, and in one of those that are
            `left_over`. [s]
        batch, prompts: Sequences, and how many are prefilled in one step. [1]
    """
    full = np.floor(batch / prompts)
    if last is None:
        return finish(stages, full)
    ends = finish_with(stages, full, last)
    return np.where(batch > full * prompts, ends, finish(stages, full))[()]


@dataclass(eq=False)
class FirstTokens:
    """Prefill of batches in as many steps as it takes."""

    costs: EngineCosts
    """Time that the engine's software adds."""
    batch: Number
    prompts: Number
    """Sequences, and how many are prefilled in one step. [1]"""
    full: GridStep
    rest: GridStep | None
    """A step of as many, and of those that are left over; None where none ever are."""

    @property
    def steps(self) -> list[GridStep]:
        """All that is to be priced."""
        return [self.full] if self.rest is None else [self.full, self.rest]

    @property
    def software_s(self) -> Number:
        """Time that the engine's software adds to all steps. [s]"""
        steps = np.ceil(self.batch / self.prompts)
        return self.costs.arrival_s + steps * self.costs.prefill_step_s

    def stages_s(self, step: GridStep, *, serial: bool = False) -> list[Number]:
        """Time of the kernels of each stage as the engine runs them. [s]"""
        times = step.seconds(serial=serial)
        return [self.costs.prefill_kernels(each, len(times)) for each in times]

    def at(self, *, serial: bool = False) -> Array:
        """Arrival to first token of the prompt that is prefilled last. [s]"""
        rest = None if self.rest is None else self.stages_s(self.rest, serial=serial)
        full = self.stages_s(self.full, serial=serial)
        return self.full.wide(last_of(full, rest, self.batch, self.prompts) + self.software_s)

    @cached_property
    def launching_s(self) -> Array:
        """Time that the slowest stage of a full step waits for launches. [s]"""
        kernels = self.full.wide(pace(self.full.seconds()))
        stages = len(self.full.stages)
        return np.asarray(
            self.costs.prefill_kernels(kernels, stages) - self.costs.prefill_gain * kernels
        )

    @cached_property
    def seconds(self) -> Array:
        """Arrival to first token of the prompt that is prefilled last. [s]"""
        return self.at()

    @cached_property
    def busy_s(self) -> Array:
        """Time for which prompts keep the slowest stage busy, with the engine around it. [s]"""
        each = self.costs.prefill_step(pace(self.full.seconds()))
        return self.full.wide(self.batch / self.prompts * each)

    @cached_property
    def log_sd(self) -> Array:
        """Standard deviation of the logarithm of the time. [1]"""
        kernels = self.full.of_slowest(lambda stage: stage.parts.log_sd)
        return np.asarray(self.costs.log_sd(kernels, 1.0 - self.software_s / self.seconds))

    @cached_property
    def bound(self) -> Array:
        """Place in `LIMITS` of what takes most of a full step."""
        times = [self.costs.prefill_gain * each for each in self.full.bound_times()]
        software = self.costs.prefill_step_s + self.launching_s
        return longest(*times, software).astype(np.float64)

    @cached_property
    def basis(self) -> Array:
        """Place in `roofline.table.BASES` of the worst of it."""
        return self.full.of_slowest(lambda stage: stage.parts.basis)


def first_tokens(
    deployment: Deployment,
    batch: Number,
    prompt: Number,
    cached: Number = 0.0,
    prefill_batch: Number = 0,
) -> FirstTokens:
    """Prefill of batches of prompts, which all have several tokens to compute or all of them one.

    Args:
        deployment: What runs.
        batch: Sequences. [1]
        prompt, cached: Tokens of each prompt, and how many of them are cached. [token]
        prefill_batch: Prompts in one step if they were asked for, else 0. [1]
    """
    new = prompt - cached
    prompts = prompts_per_step(deployment, batch, new, prefill_batch)
    left = left_over(batch, prompts)
    # One new token is a step of decode, whose kernels are others.
    each = 1.0 if np.all(np.asarray(new) == 1.0) else new
    rest = None if left is None else grid_step(deployment, left, each, prompt)
    full = grid_step(deployment, prompts, each, prompt)
    return FirstTokens(deployment.engine_costs, batch, prompts, full, rest)


def cut_prompts(
    deployment: Deployment, count: Number, prompt: Number, cached: Number
) -> FirstTokens:
    """First tokens of prompts on an idle server, in the steps that the engine cuts them into.

    A prompt is in one group of attention data parallelism, which has its part of a step's tokens.
    Chunks are taken as equally long, at the mean of the contexts that they see: attention is linear
    in these.

    Args:
        deployment: What runs; the degrees of its layout may be a column of the grid.
        count: Prompts side by side. [1]
        prompt, cached: Tokens of each prompt, and how many of them are cached. [token]
    """
    new = prompt - cached
    steps = chunks_of(deployment, new)
    each = 1.0 if np.all(np.asarray(new) == 1.0) else new / steps
    context = cached + (new + new / steps) / 2.0
    full = grid_step(deployment, count, each, context)
    return FirstTokens(deployment.engine_costs, count * steps, count, full, None)


def chunks_of(deployment: Deployment, new: Number) -> Number:
    """Steps into which an engine cuts a prompt of so many new tokens on an idle server. [1]"""
    limit = np.asarray(deployment.step_tokens / deployment.layout.dp)
    if deployment.engine.policy != "chunked" or not limit.any():
        return new * 0.0 + 1.0
    found: Number = np.ceil(new / np.maximum(limit, 1.0))[()]
    return found


@dataclass(eq=False)
class DecodeSteps:
    """Decode steps of batches at contexts between which time is linear."""

    costs: EngineCosts
    """Time that the engine's software adds."""
    contexts: Array
    """As `roofline.serving.quadrature.context_nodes` has them. [token]"""
    number: Number
    """Micro-batches that take turns, for each row. [1]"""
    step: GridStep
    """Step of one micro-batch."""
    _sums: dict[str, ContextSums | None] = field(default_factory=dict, repr=False)

    @cached_property
    def seconds(self) -> Array:
        """Kernels between two tokens of a sequence, for each row and context. [s]"""
        return self._rows(period(self.step.seconds(), self.number))

    @cached_property
    def shared_s(self) -> Array:
        """Part of the slowest stage's step that prompts beside it have in common, for each row. [s]

        Operators on all new tokens at once, at the gain of steps with prompts, and the engine's
        time of a step.
        """
        kernels = pace(
            [
                sum(
                    time.seconds
                    for op, time in stage.ops.values()
                    if op.kind in SHARED and (op.kind == "collective" or not op.by_group)
                )
                for stage in self.step.different
            ]
        )
        whole = self.costs.prefill_gain * np.asarray(kernels) + self.costs.step_s
        return np.broadcast_to(whole, (self.step.shape[0], 1))

    def serial(self) -> Array:
        """The same if nothing overlapped. [s]"""
        return self._rows(period(self.step.seconds(serial=True), self.number))

    def log_sd(self) -> Array:
        """Standard deviation of the logarithm of the slowest stage's time. [1]"""
        return self._rows(self.step.of_slowest(lambda stage: stage.parts.log_sd))

    def wires(self) -> Array:
        """Share of the time of all stages that collectives take. [1]"""
        return self._rows(wires(self.step))

    def mean(self, name: str, answers: Answers, rows: NDArray[np.intp]) -> Array | float:
        """Mean over the steps of answers.

        Args:
            name: ``"seconds"``, ``"log_sd"``, ``"serial"``, ``"wires"``, or one of `BOUNDS` for the
                time that it binds.
            answers, rows: Which contexts of which rows.
        """
        if name not in self._sums:
            if name in BOUNDS:
                times = dict(zip(BOUNDS, self.step.bound_times(), strict=True))
                for bound, each in times.items():
                    there = self._of(self._rows(each)) if anywhere(each) else None
                    self._sums[bound] = there
            else:
                values = getattr(self, name)
                self._sums[name] = self._of(values if name == "seconds" else values())
        found = self._sums[name]
        return 0.0 if found is None else found.mean(answers, rows)

    def bound(self, answers: Answers, rows: NDArray[np.intp], software_s: Array) -> Array:
        """Place in `LIMITS` of what takes most of the mean step.

        Args:
            answers, rows: As for `mean`.
            software_s: What the engine adds to it. [s]
        """
        times = [self.costs.decode_gain * self.mean(name, answers, rows) for name in BOUNDS]
        return longest(*times, software_s).astype(np.float64)

    def basis(self, answers: Answers, rows: NDArray[np.intp]) -> Array:
        """Place in `roofline.table.BASES` of the worst of it, at the nodes around answers."""
        worst = self._rows(self.step.of_slowest(lambda stage: stage.parts.basis))
        least = worst.min()
        out = np.full(np.broadcast(rows, answers.last).shape, least)
        last = answers.last + 1 + (answers.beyond > 0)
        for level in range(int(least) + 1, int(worst.max()) + 1):
            there = np.zeros((worst.shape[0], worst.shape[1] + 1), np.intp)
            np.cumsum(worst >= level, axis=1, out=there[:, 1:])
            np.maximum(out, level * (there[rows, last] > there[rows, answers.first]), out=out)
        return out

    def _rows(self, value: Number) -> Array:
        return self.step.wide(value).reshape(-1, len(self.contexts))

    def _of(self, values: Array) -> ContextSums:
        return ContextSums.of(self.contexts, values)


def decode_between(
    deployment: Deployment, batch: Number, low: float, high: float, *, kv_cache: bool = True
) -> DecodeSteps:
    """Decode steps of batches from one context to another.

    A window that no step fills is as long as the next node: it bends no time and adds no node, so
    that a window as long as the context is none, to the last bit.

    Args:
        deployment: What runs.
        batch: Sequences: a number, or an array of shape (rows, 1). [1]
        low, high: The shortest prompt, and the longest context of a step. [token]
        kv_cache: False to compute the whole context again for every token.
    """
    network = deployment.architecture
    unfilled = [window for window in between_nodes(network) if window >= high]
    if unfilled:
        longer = {window: int(context_nodes(None, low, window)[-1]) for window in unfilled}
        network = _with_windows(network, longer)
        deployment = replace(deployment, architecture=network)
    contexts = context_nodes(network, low, high, cached=kv_cache)
    return decode_steps(deployment, batch, contexts, kv_cache=kv_cache)


def _with_windows(network: Architecture, longer: Mapping[int, int]) -> Architecture:
    """The network with other windows, by those that it has."""

    def changed(block: Block) -> Block:
        part = block.mixer
        if not isinstance(part, Attention) or part.window is None or part.window not in longer:
            return block
        return replace(block, mixer=replace(part, window=longer[part.window]))

    kinds = {block: changed(block) for block in network.kinds}
    return replace(network, layers=tuple(kinds[block] for block in network.layers))


def decode_steps(
    deployment: Deployment, batch: Number, contexts: Array, *, kv_cache: bool = True
) -> DecodeSteps:
    """Decode steps of batches as `decode_between`, at contexts that are given. [token]"""
    number, size = turns_of(batch, deployment)
    rows = max(np.ndim(size), np.ndim(deployment.layout.tp))
    wide = contexts[None, :] if rows else contexts
    step = grid_step(deployment, size, 1.0 if kv_cache else wide, wide)
    return DecodeSteps(deployment.engine_costs, contexts, number, step)
