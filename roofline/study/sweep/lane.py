"""A lane of a sweep: one deployment, over batches, prompts and answers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from roofline.cost.deployment import Deployment
from roofline.cost.work import Array, distinct
from roofline.serving.spacing import spaced
from roofline.serving.workload import Workload

AXES: Final = ("batch", "prompt", "output")
"""Numbers of a lane by column."""
LISTED: Final = 512
"""Values of an axis beyond which only some of them are priced."""
PER_OCTAVE: Final = 24
"""Those some, where there are more."""
CELLS: Final = 2**14
"""Pairs of a batch and a prompt that are priced at most."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Numbers that a batch or a length takes in a lane."""

    low: float
    high: float
    """The least and the largest. [1]"""
    nodes: Array
    """Where it is priced: its values, or some between the ends where there are too many."""

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


@dataclass(frozen=True, slots=True)
class Axes:
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


@dataclass(frozen=True, slots=True, eq=False)
class Lane:
    """One deployment of a sweep."""

    deployment: Deployment
    """Network, node, formats, layout, engine, calibration."""
    axes: Axes
    """The numbers that the sweep asks it about."""
    names: Mapping[str, str | int] = field(default_factory=dict)
    """What tells it from other lanes, by column: model, gpu, layout, weights…"""
    replicas: int = 1
    """How many of them run side by side. [1]"""
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
        return np.asarray((lengths - np.array(kept, np.float64))[place])
