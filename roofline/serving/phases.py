"""Phases of static batches over a grid: of batches and prompts, then of batches and contexts.

Rows are batches, or layouts; a single batch has no axis of rows. Every other static batch, of one
deployment, of a sweep or of every layout, is made of these two.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofline.cost.calibration.remembered import Remembered
from roofline.cost.calibration.remembered import together as look_up
from roofline.cost.deployment import Deployment
from roofline.cost.engine_costs import EngineCosts
from roofline.cost.kernels.form import longest
from roofline.cost.measured import Measured
from roofline.cost.pipeline import finish, finish_with, pace, period
from roofline.cost.roof import BOUNDS
from roofline.cost.step import Group
from roofline.cost.work import Array, Number, Op, anywhere, chosen, plus
from roofline.errors import RooflineError
from roofline.model.architecture import Architecture, Attention, Block
from roofline.serving.quadrature import Answers, ContextSums, between_nodes, context_nodes
from roofline.serving.room import prompts_in_a_step
from roofline.serving.stages import LaidOut, Priced, laid_out
from roofline.serving.workload import turns_of

ENGINE: Final = "engine"
"""Name of what an engine's software adds to a step: scheduling, sampling, launches."""
LIMITS: Final = (*BOUNDS, ENGINE)
"""Limits that may bind most of a phase."""
SHARED: Final = frozenset({"gemm", "moe", "pointwise", "adapter", "lookup", "collective"})
"""Kinds of operators that see all new tokens of a step at once, but for those of a group."""


def together(
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
    if layout.pp == 1:
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
class GridStep:
    """Step over a grid, priced when it is first asked about."""

    laid: LaidOut
    """Its operators on the stages of a pipeline."""
    shape: tuple[int, ...]
    """Rows and columns of the grid; empty for one step."""
    known: Sequence[Measured | None] | None = None
    """Measured times of the operators; None where they were not looked up yet."""

    @cached_property
    def stages(self) -> tuple[Priced, ...]:
        """Stages of the pipeline in order, with numbers that broadcast to the grid."""
        return self.laid.priced(self.known)

    @cached_property
    def different(self) -> tuple[Priced, ...]:
        """Stages, of equal ones the first."""
        return tuple({id(stage): stage for stage in self.stages}.values())

    def wide(self, value: Number) -> Array:
        """A number at each place of the grid."""
        return np.broadcast_to(np.asarray(value, np.float64), self.shape)

    def seconds(self, *, serial: bool = False) -> list[Number]:
        """Time of the kernels of each stage, or what it would be if nothing overlapped. [s]"""
        each = {id(stage): stage.seconds(serial) for stage in self.different}
        return [each[id(stage)] for stage in self.stages]

    def of_slowest(self, value: Callable[[Priced], Number]) -> Array:
        """A number of the stage that takes longest; of equals the first."""
        values = [value(stage) for stage in self.different]
        return self.wide(values[0] if len(values) == 1 else chosen(self._slowest, values))

    @cached_property
    def _slowest(self) -> NDArray[np.intp]:
        """Place among the different stages of the one that takes longest."""
        return longest(*(stage.seconds() for stage in self.different))

    def bound_times(self) -> list[Array]:
        """Time of the slowest stage by what binds it, one entry for each of `BOUNDS`. [s]"""
        each = {id(stage): _bound_times(stage) for stage in self.different}

        def limit(place: int) -> Array:
            return self.of_slowest(lambda stage: each[id(stage)][place])

        return [limit(place) for place in range(len(BOUNDS))]


def _bound_times(stage: Priced) -> list[Number]:
    """Time of a stage by what binds its operators, one entry for each `BOUNDS`. [s]"""
    out: list[Number] = [0.0] * len(BOUNDS)
    hides = any(map(anywhere, stage.parts.hidden(stage.deployment)))
    for op, time in stage.ops.values():
        took = stage.exposed(op, time) if hides else time.seconds
        limits = (time.compute, time.memory, time.wire, time.host)
        there = [n for n, each in enumerate(limits) if not (isinstance(each, float) and each == 0)]
        if len(there) <= 1:
            for place in there or [0]:
                out[place] = plus(out[place], took)
            continue
        binds = longest(*(limits[each] for each in there))
        for number, place in enumerate(there):
            out[place] = plus(out[place], took * (binds == number))
    return out


def grid_step(deployment: Deployment, count: Number, new: Number, context: Number) -> GridStep:
    """Operators of a step over a grid.

    Args:
        deployment: What runs; the degrees of its layout may be a column of the grid.
        count, new, context: As of `Group`: numbers, or arrays of shape (rows, 1), (1, columns) or
            both.
    """
    numbers = (count, new, context, deployment.layout.tp)
    shape = np.broadcast_shapes(*map(np.shape, numbers))
    return GridStep(laid_out(deployment, Group(count, new, context)), shape)


def remembering(deployment: Deployment) -> Deployment:
    """The deployment with kernels that are priced once, on the axes that they depend on."""
    known = deployment.calibration
    if known is None or isinstance(known, Remembered):
        return deployment
    return replace(deployment, calibration=Remembered(known, deployment.node.gpu))


def ask_together(steps: Sequence[GridStep]) -> None:
    """Ask the calibrations of several steps about all of their operators at once.

    Steps of a device that lacks the arithmetic are left as they were.
    """
    asked: list[tuple[Remembered, Op]] = []
    waiting: list[tuple[GridStep, int]] = []
    for each in steps:
        known = each.laid.deployment.calibration
        if isinstance(known, Remembered) and each.known is None:
            asked += [(known, op) for op in each.laid.ops]
            waiting.append((each, len(asked)))
    told, start = look_up(asked), 0
    for each, end in waiting:
        found = [price for price in told[start:end] if not isinstance(price, RooflineError)]
        each.known = found if len(found) == end - start else None
        start = end


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
    prompts = together(deployment, batch, new, prefill_batch)
    left = left_over(batch, prompts)
    # One new token is a step of decode, whose kernels are others.
    each = 1.0 if np.all(np.asarray(new) == 1.0) else new
    rest = None if left is None else grid_step(deployment, left, each, prompt)
    full = grid_step(deployment, prompts, each, prompt)
    return FirstTokens(deployment.engine_costs, batch, prompts, full, rest)


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


def wires(step: GridStep) -> Number:
    """Share of the time of all stages that collectives take. [1]"""
    wired: Number = sum((stage.parts.wire for stage in step.stages), 0.0)
    whole: Number = sum(step.seconds(), 0.0)
    return wired / whole
