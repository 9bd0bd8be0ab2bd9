"""A lane of a sweep, and its points among the nodes that it is priced at."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.cost.deployment import Deployment
from roofline.cost.memory import held, memory_budget
from roofline.cost.work import Array, Number, Scalar, distinct, picked
from roofline.serving.phases import prompts_per_step
from roofline.serving.quadrature import Answers, spaced
from roofline.serving.room import host_memory
from roofline.serving.workload import Workload

AXES: Final = ("batch", "prompt", "output")
"""Numbers of a lane by column."""
LISTED: Final = 512
"""Values of an axis beyond which only some of them are priced."""
PER_OCTAVE: Final = 24
"""Number of priced values for each doubling, where there are more."""
CELLS: Final = 2**14
"""Pairs of a batch and a prompt that are priced at most."""


class Axis(Struct, frozen=True):
    """Numbers that a batch or a length takes in a lane."""

    low: float
    high: float
    """The least and the largest. [1]"""
    nodes: Array
    """Values that are priced: all, or some between the ends where there are too many."""

    @classmethod
    def of(cls, values: Iterable[float]) -> "Axis":
        """The axis of some values, in any order."""
        found = distinct(np.fromiter(values, np.float64))
        if len(found) > LISTED:
            return cls.between(int(found[0]), int(found[-1]))
        return cls(float(found[0]), float(found[-1]), found)

    @classmethod
    def between(cls, low: int, high: int) -> "Axis":
        """The axis of all whole numbers from one to another.

        Examples:
            >>> Axis.between(1, 10**6).nodes[[0, 1, -1]].tolist()
            [1.0, 2.0, 1000000.0]
        """
        if high - low < LISTED:
            return cls(float(low), float(high), np.arange(low, high + 1.0))
        return cls(float(low), float(high), spaced(low, high, PER_OCTAVE, 2 * PER_OCTAVE))

    def thinned(self, most: int) -> "Axis":
        """The axis with about so many nodes at most."""
        if len(self.nodes) <= most:
            return self
        low, high = int(self.low), int(self.high)
        per_octave = max(int(most / 2 / np.log2(high / low)), 1)
        return Axis(self.low, self.high, spaced(low, high, per_octave, most // 2))


class Axes(Struct, frozen=True):
    """Numbers of a lane."""

    batch: Axis
    """Sequences of a replica. [1]"""
    prompt: Axis
    output: Axis
    """Tokens of each prompt and of each answer. [token]"""
    points: int
    """Points of the lane, all parts of a sweep together. [1]"""

    def thinned(self) -> "Axes":
        """The axes with so few nodes that all pairs of a batch and a prompt can be priced."""
        batch, prompt = self.batch, self.prompt
        if len(batch.nodes) * len(prompt.nodes) <= CELLS:
            return self
        batch = batch.thinned(max(int(CELLS**0.5), CELLS // len(prompt.nodes)))
        prompt = prompt.thinned(CELLS // len(batch.nodes))
        return Axes(batch, prompt, self.output, self.points)


class SweepSlice(Struct, frozen=True, eq=False):
    """One deployment of a sweep."""

    deployment: Deployment
    """Network, node, formats, layout, engine, calibration."""
    axes: Axes
    """The numbers that the sweep asks it about."""
    names: Mapping[str, str | int] = {}
    """Names of the lane, by column: model, gpu, layout, weights…"""
    replicas: int = 1
    """Number of them side by side. [1]"""
    prefill_batch: int = 0
    """Prompts prefilled in one step; 0 for the whole batch. [1]"""
    prefix_hit: float = 0.0
    """Share of a prompt that is cached already. [1]"""
    kv_cache: bool = True
    """False to compute the whole context again for every token."""
    utilization: float | None = None
    """Share of device memory the engine takes; None for its default. [1]"""

    @property
    def gpus(self) -> int:
        """Devices of all replicas. [1]"""
        return self.deployment.devices * self.replicas

    def workload(self, batch: int, prompt: int, output: int) -> Workload:
        """A point of it as a static batch takes it."""
        together = min(self.prefill_batch, batch)
        return Workload(batch, prompt, output, together, self.prefix_hit, self.kv_cache)

    def new(self, prompts: Array) -> Array:
        """Tokens of prompts that are not cached. [token]"""
        if not self.prefix_hit:
            return prompts
        lengths, place = np.unique(prompts, return_inverse=True)
        kept = [self.workload(1, int(prompt), 1).cached for prompt in lengths]
        return np.asarray((lengths - np.array(kept, np.float64))[place]).reshape(prompts.shape)


class AxisPlaces(Struct, frozen=True):
    """Values among the nodes of an axis."""

    below: NDArray[np.intp]
    """The node at or below each."""
    share: Array | None = None
    """Share of the way to the next one; None where all are nodes."""

    @classmethod
    def of(cls, axis: Axis, values: Array) -> "AxisPlaces":
        """Places of values inside the ends of an axis."""
        nodes = axis.nodes
        if len(nodes) == 1:
            return cls(np.zeros(values.shape, np.intp))
        below = np.searchsorted(nodes[1:], values, side="right")
        apart = values - nodes[below]
        if not apart.any():
            return cls(below)
        below = np.minimum(below, len(nodes) - 2)
        return cls(below, (values - nodes[below]) / (nodes[below + 1] - nodes[below]))

    def taken(self, rows: NDArray[np.intp], shape: tuple[int, ...]) -> "AxisPlaces":
        """Places of some points, which are counted along axes of a shape."""
        share = None if self.share is None else picked(self.share, rows, shape)
        return AxisPlaces(picked(self.below, rows, shape), share)

    def at(self, value: Callable[[NDArray[np.intp]], Array]) -> Array:
        """A value at nodes, on the straight line between them."""
        low = value(self.below)
        if self.share is None:
            return low
        return low + (value(self.below + 1) - low) * self.share

    def nearest(self) -> NDArray[np.intp]:
        """The nearest node of each."""
        return self.below if self.share is None else self.below + (self.share > 0.5)


@dataclass(frozen=True, slots=True)
class Points:
    """Points of a lane.

    Where all batches are with all prompts and answers, in order, these are three axes, and what
    depends on one of them is known once for all points that have it in common.
    """

    batch: Array
    prompt: Array
    output: Array
    """Sequences of a replica [1]; tokens of each prompt and of each answer. [token]"""
    axes: tuple[Array, ...] = field(repr=False)
    """The same as axes, or as columns where points are others."""
    batches: AxisPlaces = field(repr=False)
    prompts: AxisPlaces = field(repr=False)
    """Places of axes among the nodes that are priced."""
    _whole: "tuple[Points, NDArray[np.intp]] | None" = field(default=None, repr=False)
    _answers: dict[bytes, Answers] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, axes: Axes, batch: Array, prompt: Array, output: Array) -> "Points":
        """Points of a lane with these axes; lanes after one another often have the same."""
        for known_axes, known in _KNOWN:
            pairs = (known.output, output), (known.batch, batch), (known.prompt, prompt)
            if known_axes is axes and all(np.array_equal(*pair) for pair in pairs):
                return known
        columns = batch.copy(), prompt.copy(), output.copy()
        own = _crossed(*columns)
        places = AxisPlaces.of(axes.batch, own[0]), AxisPlaces.of(axes.prompt, own[1])
        found = cls(*columns, own, *places)
        _KNOWN[:] = [(axes, found), *_KNOWN[:1]]
        return found

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        return np.broadcast(*self.axes).shape

    def each(self, value: NDArray[Scalar]) -> NDArray[Scalar]:
        """A value for each point, of one that may be on the axes."""
        if value.size == len(self):
            return value.ravel()
        out = np.empty(self.shape, value.dtype)
        out[...] = value
        return out.ravel()

    def answers(self, contexts: Array) -> Answers:
        """Beginnings and ends of answers among the contexts that are priced."""
        if self._whole is not None:  # which other lanes have, too
            whole, rows = self._whole
            return whole.answers(contexts).taken(rows, whole.shape)
        key = contexts.tobytes()
        if key not in self._answers:
            self._answers[key] = Answers.of(contexts, *self.axes[1:])
        return self._answers[key]

    def __len__(self) -> int:
        return len(self.batch)

    def taken(self, rows: NDArray[np.intp]) -> "Points":
        """Some of them."""
        whole, places = self._whole or (self, None)
        columns = self.batch[rows], self.prompt[rows], self.output[rows]
        return Points(
            *columns,
            columns,
            self.batches.taken(rows, self.shape),
            self.prompts.taken(rows, self.shape),
            (whole, rows if places is None else places[rows]),
        )

    def on(self, table: Array) -> Array:
        """Values of a table of batches × prompts, on the axes."""
        flat, wide = table.ravel(), table.shape[1]
        return self.batches.at(
            lambda rows: self.prompts.at(lambda columns: flat[rows * wide + columns])
        )

    def nearest_on(self, table: Array) -> Array:
        """Values of the nearest nodes of a table of batches × prompts, on the axes."""
        return np.asarray(table[self.batches.nearest(), self.prompts.nearest()])


_KNOWN: Final[list[tuple[Axes, Points]]] = []
"""The last ones whose places were looked up."""


def _crossed(*columns: Array) -> tuple[Array, ...]:
    """`Points.axes` of columns."""
    batch, prompt, _ = columns
    many = _run(batch)
    few = _run(prompt[:many])
    if not few or len(batch) % many or many % few:
        return columns
    every = [column.reshape(-1, many // few, few) for column in columns]
    axes = every[0][:, :1, :1], every[1][:1, :, :1], every[2][:1, :1]
    same = all((axis == column).all() for axis, column in zip(axes, every, strict=True))
    return axes if same else columns


def _run(values: Array) -> int:
    """Number of values at the beginning that are equal."""
    other = values != values[:1]
    return int(np.argmax(other)) if other.any() else len(values)


def room(lane: SweepSlice, points: Points) -> dict[str, NDArray[Any]]:
    """Memory of the fullest device, on axes: ``memory_bytes``, ``free_bytes`` and ``fits``.

    Bytes are in use, and left of what the engine takes, negative where the point does not fit [B];
    it fits on the devices and, as far as is known, on their host.
    """
    deployment = lane.deployment
    batch, prompt, output = points.axes
    longest = prompt + output - 1.0
    parts = held(
        deployment,
        batch=batch,
        context=longest,
        step_tokens=np.maximum(_step_tokens(lane, batch, prompt, longest), batch),
        step_rows=batch,
        cached=lane.kv_cache,
    )
    budget = memory_budget(deployment, parts, lane.utilization)
    # In the order of `Memory.pool`, so that what just fits there just fits here.
    fixed = (
        parts.weights + parts.activations + deployment.engine.runtime_bytes + deployment.graph_bytes
    )
    free = np.asarray(budget - (fixed + parts.buffer) - parts.kv)
    fits = free >= 0.0
    most = host_memory(deployment)
    if most is not None:
        on_host = parts.host * min(lane.gpus, deployment.node.gpus)
        fits = fits & (np.asarray(on_host) <= most)
    return {"memory_bytes": np.asarray(budget - free), "free_bytes": free, "fits": fits}


def _step_tokens(lane: SweepSlice, batch: Array, prompt: Array, longest: Array) -> Number:
    """New tokens of the largest step but decode: as `roofline.serving.room.step_tokens`."""
    if not lane.kv_cache:
        return batch * longest
    deployment = lane.deployment
    new = lane.new(prompt)
    tokens = prompts_per_step(deployment, batch, new, lane.prefill_batch) * new
    limit = deployment.step_tokens
    return np.minimum(tokens, limit) if np.any(limit) else tokens
