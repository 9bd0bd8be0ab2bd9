"""First tokens of batches × prompts."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roofline.cost.work import Array, Number
from roofline.serving.phases import last_of, left_over, together
from roofline.study.sweep.gridded import Gridded, GridStep, bounds, grid_step
from roofline.study.sweep.lane import Lane


@dataclass(frozen=True, slots=True)
class Prefill:
    """Prefill over batches × prompts.

    Attributes
    ----------
    seconds
        Arrival to first token of the prompt that is prefilled last. [s]
    parts
        Full steps of some of the prompts, and which these are.
    """

    seconds: Array
    parts: tuple[tuple[NDArray[np.bool_], Gridded], ...]

    def log_sd(self) -> Array:
        """Standard deviation of the logarithm of the time. [1]"""
        return self._filled(lambda step: step.of_slowest(lambda stage: stage.parts.log_sd))

    def bound(self) -> Array:
        """Index into `roofline.cost.roof.BOUNDS` of what binds most of the time."""
        return self._filled(
            lambda step: step.of_slowest(
                lambda stage: bounds(stage, step.shape).argmax(axis=0).astype(np.float64)
            )
        )

    def basis(self) -> Array:
        """Index into `roofline.table.BASES` of the worst of it."""
        return self._filled(lambda step: step.of_slowest(lambda stage: stage.parts.basis))

    def _filled(self, value: Callable[[Gridded], Array]) -> Array:
        out = np.empty_like(self.seconds)
        for some, step in self.parts:
            out[:, some] = value(step)
        return out


@dataclass(frozen=True, slots=True)
class Alike:
    """Prompts that all have several new tokens, or all of them one, before they are priced.

    Attributes
    ----------
    which
        Of the prompts.
    batch, in_a_step
        Sequences, and how many prompts are prefilled in one step. [1]
    step
        Full ones.
    tails
        Of what is left over, each number of prompts of a length once, and which of these each place
        of the grid is; None where nothing is.
    """

    which: NDArray[np.bool_]
    batch: Array
    in_a_step: Number
    step: GridStep
    tails: tuple[GridStep, NDArray[np.intp]] | None

    def priced(self) -> tuple[Array, Gridded]:
        """Time to the first token of the last prompt [s], and full steps."""
        step, last = self.step.priced(), None
        if self.tails is not None:
            tail, place = self.tails
            last = [each.ravel()[place].reshape(step.shape) for each in tail.priced().seconds()]
        return step.wide(last_of(step.seconds(), last, self.batch, self.in_a_step)), step


@dataclass(frozen=True, slots=True)
class PrefillSteps:
    """Prefill over batches × prompts, before it is priced."""

    batches: int
    parts: tuple[Alike, ...]

    @property
    def steps(self) -> Iterator[GridStep]:
        """All that is to be priced."""
        for part in self.parts:
            yield part.step
            if part.tails is not None:
                yield part.tails[0]

    def priced(self) -> Prefill:
        """First tokens at the nodes of a lane's batches and prompts."""
        seconds = np.empty((self.batches, len(self.parts[0].which)))
        parts = []
        for part in self.parts:
            seconds[:, part.which], step = part.priced()
            parts.append((part.which, step))
        return Prefill(seconds, tuple(parts))


def prefill_steps(lane: Lane) -> PrefillSteps:
    """First tokens at the nodes of a lane's batches and prompts."""
    batches, prompts = lane.axes.batch.nodes, lane.axes.prompt.nodes
    new = lane.new(prompts)
    single = new == 1.0  # one new token is a step of decode, whose kernels are others
    parts = [
        _alike(lane, which, batches[:, None], new[which], prompts[which])
        for which in (single, ~single)
        if which.any()
    ]
    return PrefillSteps(len(batches), tuple(parts))


def _alike(lane: Lane, which: NDArray[np.bool_], batch: Array, new: Array, prompts: Array) -> Alike:
    deployment, work = lane.deployment, lane.workload(max(lane.prefill_batch, 1), 1, 1)
    each: Number = 1.0 if new[0] == 1.0 else new[None, :]
    context = prompts[None, :]
    in_a_step = together(deployment, work, batch, new[None, :])
    step, tails = grid_step(deployment, in_a_step, each, context), None
    left = left_over(batch, in_a_step)
    if left is not None:
        pairs = np.stack(np.broadcast_arrays(left, new[None, :], context), axis=-1)
        some, place = np.unique(pairs.reshape(-1, 3), axis=0, return_inverse=True)
        count, tokens, seen = some.T[:, :, None]
        each = 1.0 if new[0] == 1.0 else tokens
        tails = grid_step(deployment, count, each, seen), place.ravel()
    return Alike(which, batch, in_a_step, step, tails)
