"""Decode of a lane: time between tokens, mean over each answer.

A step depends on the batch and on the context, which grows with every token.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.cost.pipeline import period
from roofline.cost.work import Array, Number
from roofline.serving.phases import turns
from roofline.serving.quadrature import nodes
from roofline.study.sweep.gridded import Gridded, GridStep, bounds, grid_step
from roofline.study.sweep.lane import Lane
from roofline.study.sweep.points import Points

BLOCK: Final = 2**17
"""Steps that are priced together."""


class Decode(Protocol):
    """Decode of the points of a lane; 0 for answers of one token."""

    def seconds(self, points: Points) -> Array:
        """Time between tokens. [s]"""

    def log_sd(self, points: Points) -> Array:
        """Standard deviation of its logarithm. [1]"""

    def bound(self, points: Points) -> Array:
        """Index into `BOUNDS` of what binds most of the time."""

    def basis(self, points: Points) -> Array:
        """Index into `roofline.table.BASES` of the worst of it."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Decode steps at batches × contexts.

    Attributes
    ----------
    seconds
        Between two tokens of a sequence. [s]
    step
        By stage and operator.
    """

    seconds: Array
    step: Gridded

    def log_sds(self) -> list[Array]:
        """Standard deviation of the logarithm of each different stage's time. [1]"""
        return [self.step.wide(stage.parts.log_sd) for stage in self.step.different]

    def times(self) -> list[Array]:
        """Time of each different stage. [s]"""
        return [self.step.wide(stage.seconds()) for stage in self.step.different]

    def bases(self) -> list[Array]:
        """Index into `roofline.table.BASES` of the worst operator of each different stage."""
        return [self.step.wide(stage.parts.basis) for stage in self.step.different]

    def bounds(self) -> list[Array]:
        """Time of each different stage by what binds it: of shape (`BOUNDS`, *grid*). [s]"""
        return [bounds(stage, self.step.shape) for stage in self.step.different]


@dataclass(frozen=True, slots=True)
class DecodeSteps:
    """Decode steps before they are priced.

    Attributes
    ----------
    step
        Of one micro-batch.
    number
        Micro-batches that take turns, for each batch. [1]
    """

    step: GridStep
    number: Number

    def priced(self) -> Steps:
        """The steps with their times."""
        step = self.step.priced()
        return Steps(step.wide(period(step.seconds(), self.number)), step)


def decode_steps(lane: Lane, batches: Array, contexts: Array) -> DecodeSteps:
    """Decode steps of a lane.

    Parameters
    ----------
    lane
        What runs.
    batches, contexts
        Sequences [1], and keys that each sees. [token]
    """
    number, size = turns(batches[:, None], lane.deployment.layout)
    wide = contexts[None, :]
    new = 1.0 if lane.kv_cache else wide
    return DecodeSteps(grid_step(lane.deployment, size, new, wide), number)


Over: TypeAlias = Callable[[Array, Array], Array]
"""Puts together the values of the steps of an answer, which stand for as many steps as weights."""


def _mean(values: Array, weights: Array) -> Array:
    return np.asarray((values * weights).sum(axis=-1))


def _plain_mean(values: Array, _: Array) -> Array:
    return np.asarray(values.mean(axis=-1))


def _largest(values: Array, _: Array) -> Array:
    return np.asarray(values.max(axis=-1))


@dataclass(slots=True)
class Exact:
    """Decode priced as a static batch is, at the nodes of each answer.

    Attributes
    ----------
    lane
        What runs.
    """

    lane: Lane
    _known: dict[str, tuple[Array, Steps]] = field(default_factory=dict, repr=False)

    def seconds(self, points: Points) -> Array:
        """Time between tokens. [s]"""
        return np.asarray(self._each(points, lambda some: [some.seconds], _mean)[:, 0])

    def log_sd(self, points: Points) -> Array:
        """Standard deviation of its logarithm. [1]"""
        return np.asarray(self._of_slowest(points, lambda some: some.log_sds())[:, 0])

    def bound(self, points: Points) -> Array:
        """Index into `BOUNDS` of what binds most of the time."""
        found = self._of_slowest(points, lambda some: [e for b in some.bounds() for e in b])
        return np.asarray(np.argmax(found, axis=1), np.float64)

    def basis(self, points: Points) -> Array:
        """Index into `roofline.table.BASES` of the worst of it."""
        return np.asarray(self._of_slowest(points, lambda some: some.bases(), _largest)[:, 0])

    def _of_slowest(
        self,
        points: Points,
        values: Callable[[Steps], list[Array]],
        over: Over = _mean,
    ) -> Array:
        """Values of the stage that takes longest; each has as many."""
        times = self._each(points, lambda some: some.times(), _plain_mean)
        found = self._each(points, values, over)
        by_stage = found.reshape(len(points), times.shape[1], -1)
        return np.asarray(by_stage[np.arange(len(points)), np.argmax(times, axis=1)])

    def _each(
        self,
        points: Points,
        values: Callable[[Steps], list[Array]],
        over: Over,
    ) -> Array:
        """Values of the steps of each answer put together: of shape (points, values)."""
        answers, of_point = np.unique(
            np.stack([points.prompt, points.output]), axis=1, return_inverse=True
        )
        batches, of_batch = np.unique(points.batch, return_inverse=True)
        priced = [_nodes(prompt, output) for prompt, output in answers.T]
        out: list[Array] = []
        for rows, contexts, some in self._steps(batches, priced):
            found = np.stack(values(some), axis=1)[rows]
            block = np.zeros((*found.shape[:2], len(priced)))
            for number, (at, weights) in enumerate(priced):
                if len(at):
                    places = np.searchsorted(contexts, at)
                    # Taken in order of memory: sums of the same numbers are the same to the bit.
                    block[:, :, number] = over(np.take(found, places, axis=2), weights)
            out.append(block)
        whole = np.concatenate(out)
        return np.asarray(whole[of_batch.ravel(), :, of_point.ravel()])

    def _steps(
        self, batches: Array, priced: Sequence[tuple[Array, Array]]
    ) -> Iterator[tuple[NDArray[np.intp], Array, Steps]]:
        """Steps of some batches at all contexts that are asked for: rows of them, and where.

        Those of a lane with few of them are priced once, whatever part of it is asked for.
        """
        axes = self.lane.axes
        if axes.steps <= BLOCK:
            if not self._known:
                every = [_nodes(p, o) for p in axes.prompt.nodes for o in axes.output.nodes]
                contexts = np.unique(np.concatenate([at for at, _ in every]))
                self._known["steps"] = (
                    contexts,
                    decode_steps(self.lane, axes.batch.nodes, contexts).priced(),
                )
            yield np.searchsorted(axes.batch.nodes, batches), *self._known["steps"]
            return
        contexts = np.unique(np.concatenate([at for at, _ in priced]))
        rows = max(BLOCK // max(len(contexts), 1), 1)
        for start in range(0, len(batches), rows):
            some = batches[start : start + rows]
            yield np.arange(len(some)), contexts, decode_steps(self.lane, some, contexts).priced()


def _nodes(prompt: float, output: float) -> tuple[Array, Array]:
    """Contexts of an answer's steps that are priced, and their weights; none for one token."""
    if output <= 1:
        return np.empty(0), np.empty(0)
    return nodes(int(prompt) + 1, int(prompt + output) - 1)
