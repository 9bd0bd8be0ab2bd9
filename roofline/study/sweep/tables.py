"""Decode of a lane by tables: steps at every batch and some contexts, straight lines between.

The sum over all steps of an answer is the difference of two cumulative sums, each of them a
parabola between two contexts: an answer of any length takes as long to price.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofline.cost.roof import BOUNDS
from roofline.cost.work import Array
from roofline.serving.spacing import spaced
from roofline.study.sweep.decode import DecodeSteps, Steps, decode_steps
from roofline.study.sweep.lane import Lane
from roofline.study.sweep.points import Points, Until
from roofline.table import BASES

PER_OCTAVE: Final = 4
"""Contexts that are priced from one to twice as many, beside those of `MOST_PROMPTS`."""
PER_OCTAVE_ALONE: Final = 8
"""The same where there are more prompts."""
MOST_PROMPTS: Final = 32
"""Prompts behind each of which contexts are priced, so that short answers are near one."""
MOST_SPANS: Final = 64
"""Spans of attention in chunks whose ends are priced."""


@dataclass(frozen=True, slots=True)
class Sums:
    """Cumulative sums over whole contexts of values that are linear between nodes.

    Attributes
    ----------
    start, slope, bend
        For each batch and node but the last: up to d tokens beyond the node the sum is
        start + d · (slope + d · bend).
    """

    start: Array
    slope: Array
    bend: Array

    @classmethod
    def of(cls, nodes: Array, values: Array) -> "Sums":
        """Sums of values of shape (batches, nodes).

        Examples
        --------
        >>> sums = Sums.of(np.array([4.0, 8.0]), np.array([[4.0, 8.0]]))
        >>> sums.until(Until.of(np.array([4.0, 8.0]), np.array([7.0])), np.array([0])).tolist()
        [18.0]
        """
        gaps = np.diff(nodes)
        rise = np.diff(values, axis=1) / gaps
        whole = gaps * (values[:, :-1] + rise * ((gaps + 1.0) / 2.0))
        start = np.zeros_like(whole)
        np.cumsum(whole[:, :-1], axis=1, out=start[:, 1:])
        return cls(start, values[:, :-1] + rise / 2.0, rise / 2.0)

    def until(self, place: Until, rows: NDArray[np.intp]) -> Array:
        """Sum over the contexts beyond the first node, of batches up to contexts."""
        flat = rows * self.start.shape[1] + place.below
        found: Array = self.bend.ravel()[flat]
        found *= place.beyond
        found += self.slope.ravel()[flat]
        found *= place.beyond
        found += self.start.ravel()[flat]
        return found


@dataclass(slots=True)
class Tables:
    """Decode of a lane between nodes.

    Attributes
    ----------
    contexts
        Nodes. [token]
    steps
        At every batch and node.
    """

    contexts: Array
    steps: Steps
    _sums: dict[str, list[Sums]] = field(default_factory=dict, repr=False)

    def seconds(self, points: Points) -> Array:
        """Time between tokens. [s]"""
        return self._mean(points, self._of("seconds")[0])

    def log_sd(self, points: Points) -> Array:
        """Standard deviation of its logarithm. [1]"""
        return self._of_slowest(points, self._of("log_sds"))

    def bound(self, points: Points) -> Array:
        """Index into `BOUNDS` of what binds most of the time."""
        every, kinds = self._of("bounds"), len(BOUNDS)
        each = [self._of_slowest(points, every[kind::kinds]) for kind in range(kinds)]
        return np.asarray(np.argmax(np.stack(each), axis=0), np.float64)

    def basis(self, points: Points) -> Array:
        """Index into `roofline.table.BASES` of the worst of it, at the nodes around the answer."""
        rows = points.batches.nearest()
        first = Until.of(self.contexts, points.prompt + 1.0).below
        last = Until.of(self.contexts, points.prompt + points.output - 1.0).below + 2
        found = []
        for worst in self.steps.bases():
            out = np.zeros(len(points))
            for level in range(1, len(BASES)):
                there = np.zeros((worst.shape[0], worst.shape[1] + 1), np.intp)
                np.cumsum(worst >= level, axis=1, out=there[:, 1:])
                out[there[rows, last] > there[rows, first]] = level
            found.append(out)
        return self._slowest(points, found)

    def _of(self, name: str) -> list[Sums]:
        """Sums of what the steps tell."""
        if name not in self._sums:
            told: dict[str, Callable[[], list[Array]]] = {
                "seconds": lambda: [self.steps.seconds],
                "times": self.steps.times,
                "log_sds": self.steps.log_sds,
                "bounds": lambda: [each for stage in self.steps.bounds() for each in stage],
            }
            self._sums[name] = [Sums.of(self.contexts, values) for values in told[name]()]
        return self._sums[name]

    def _of_slowest(self, points: Points, stages: list[Sums]) -> Array:
        """Mean of the stage that takes longest."""
        return self._slowest(points, [self._mean(points, each) for each in stages])

    def _slowest(self, points: Points, values: list[Array]) -> Array:
        """Of each stage's values those of the stage that takes longest; of equals the first."""
        if len(values) == 1:
            return values[0]
        times = np.stack([self._mean(points, each) for each in self._of("times")])
        most = times.argmax(axis=0)[None]
        return np.asarray(np.take_along_axis(np.stack(values), most, axis=0)[0])

    def _mean(self, points: Points, sums: Sums) -> Array:
        """Mean over the steps of each answer."""
        first, last = points.answers(self.contexts)
        upper = points.batches.at(partial(sums.until, last))
        upper -= points.batches.at(partial(sums.until, first))
        upper /= np.maximum(points.output - 1.0, 1.0)
        return upper


@dataclass(frozen=True, slots=True)
class TableSteps:
    """Tables of a lane before they are priced.

    Attributes
    ----------
    contexts
        Nodes. [token]
    decode
        Steps at every batch and node.
    """

    contexts: Array
    decode: DecodeSteps

    def priced(self) -> Tables:
        """The tables with their times."""
        return Tables(self.contexts, self.decode.priced())


def table_steps(lane: Lane) -> TableSteps:
    """Decode steps of a lane at every batch and some contexts."""
    contexts = _contexts(lane)
    return TableSteps(contexts, decode_steps(lane, lane.axes.batch.nodes, contexts))


def _contexts(lane: Lane) -> Array:
    """Contexts to price: so many to the octave, and where layers see no more, or start again."""
    axes = lane.axes
    low = int(axes.prompt.low)
    high = max(int(axes.prompt.high + axes.output.high) - 1, low + 1)
    limit = lane.deployment.architecture.max_context
    if limit is not None:
        high = max(min(high, limit), low + 1)
    bends: set[float] = set()
    for block in lane.deployment.architecture.kinds:
        window = getattr(block.mixer, "window", None)
        index = getattr(block.mixer, "index", None)
        bends |= {float(each) for each in (window, index and index.top_k) if each}
        if chunk := getattr(block.mixer, "chunk", None):
            ends = float(chunk) * np.arange(1, min(high // chunk, MOST_SPANS) + 1)
            bends |= {*ends.tolist(), *(ends + 1.0).tolist()}
    each = PER_OCTAVE_ALONE
    if len(axes.prompt.nodes) <= MOST_PROMPTS:
        each = PER_OCTAVE
        for length in (2.0, axes.output.high):  # where answers begin, and where they end
            bends |= set((axes.prompt.nodes + length - 1.0).tolist())
    inside = [bend for bend in sorted(bends) if low < bend < high]
    return np.union1d(spaced(low, high, each), inside)
