"""First tokens of batches × prompts."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roofline.cost.work import Array, Number
from roofline.serving.phases import last_of, together
from roofline.study.sweep.gridded import Gridded, bounds, gridded
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


def prefilled(lane: Lane) -> Prefill:
    """Price first tokens at the nodes of a lane's batches and prompts."""
    batches, prompts = lane.axes.batch.nodes, lane.axes.prompt.nodes
    new = lane.new(prompts)
    single = new == 1.0  # one new token is a step of decode, whose kernels are others
    seconds, parts = np.empty((len(batches), len(prompts))), []
    for some in (single, ~single):
        if some.any():
            seconds[:, some], step = _some(lane, batches[:, None], new[some], prompts[some])
            parts.append((some, step))
    return Prefill(seconds, tuple(parts))


def _some(lane: Lane, batch: Array, new: Array, prompts: Array) -> tuple[Array, Gridded]:
    """Of prompts that all have several new tokens, or all of them one."""
    deployment, work = lane.deployment, lane.workload(max(lane.prefill_batch, 1), 1, 1)
    each: Number = 1.0 if new[0] == 1.0 else new[None, :]
    context = prompts[None, :]
    in_a_step = together(deployment, work, batch, new[None, :])
    step = gridded(deployment, in_a_step, each, context)

    def others(left: Number) -> list[Array]:
        """Only where prompts are left over, and each number of prompts of a length once."""
        pairs = np.stack(np.broadcast_arrays(left, new[None, :], context), axis=-1)
        some, place = np.unique(pairs.reshape(-1, 3), axis=0, return_inverse=True)
        count, tokens, seen = some.T[:, :, None]
        tails = gridded(deployment, count, 1.0 if new[0] == 1.0 else tokens, seen)
        return [each.ravel()[place.ravel()].reshape(step.shape) for each in tails.seconds()]

    times = last_of(step.seconds(), others, batch, in_a_step)
    return step.wide(times), step
