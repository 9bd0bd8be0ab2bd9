"""Points at which to price a function, so that sums or straight lines between them stand for it."""

from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.cost.work import Array, Number, distinct, picked, union
from roofline.model.architecture import Architecture, Attention

PER_OCTAVE: Final = 8
"""Contexts that are priced between one and twice as many, whatever the workload, beside both sides
of powers of two and of the middle between them, where kernels often take on another split. Against
the sum of all steps, over networks, devices, batches and lengths of the sweep among the benchmarks,
means are off by 2e-5 (median), 3.4e-4 (9 of 10) and 2.3e-3 (99 of 100); 97 of 100 are within 1e-3,
98.7 with four times as many contexts. A short answer at whose context another kernel takes over is
off by as much as both differ, 2 % at most there. At published rates time is a straight line between
the contexts."""
SPLIT: Final = 5
"""Octave from which on kernels split contexts."""
PER_OCTAVE_COMPUTED: Final = 96
"""The same where every step computes the whole context again: time is a parabola of the context."""
OCTAVES: Final = 32

NODES = 1025
"""Steps priced at most. The price bends where a bound changes or a window fills, and without a
cache it is a curve; with so many nodes the mean is within 1e-4 of the sum of all steps."""


def nodes(first: int, last: int, most: int = NODES) -> tuple[Array, Array]:
    """Integers to evaluate at, and weights that turn the values into a mean over first..last.

    The function is taken as linear between neighbouring nodes, and that is summed over every
    integer exactly; up to ``most`` integers there is nothing between the nodes.

    Args:
        first, last: Ends of the range, both included. [token]
        most: Nodes at most, at least 2. [1]

    Examples:
        >>> x, w = nodes(1, 10_000)
        >>> len(x), round(float(w @ x), 9)
        (1025, 5000.5)
    """
    assert last >= first, "an empty range has no mean"
    steps = last - first + 1
    points = distinct(np.rint(np.linspace(first, last, min(most, steps))))
    weights = np.ones_like(points)
    # Between nodes a and b lie n = b − a − 1 integers; linear interpolation gives each end n / 2.
    between = (np.diff(points) - 1.0) / 2.0
    weights[:-1] += between
    weights[1:] += between
    return points, weights / steps


def mean(price: Callable[[Array], Number], first: int, last: int) -> float:
    """Mean of a price over the integers first..last."""
    points, weights = nodes(first, last)
    return float(weights @ np.broadcast_to(price(points), weights.shape))


def between_nodes(network: Architecture) -> list[int]:
    """Windows of a network that end between two contexts priced for any workload, sorted."""
    mixers = [block.mixer for block in network.kinds]
    windows = {mixer.window for mixer in mixers if isinstance(mixer, Attention) and mixer.window}
    return sorted(windows.difference(_octaves(PER_OCTAVE).tolist()))


def context_nodes(
    network: Architecture | None, low: float, high: float, *, cached: bool = True
) -> Array:
    """Contexts at which decode steps are priced: the same few of every octave for any workload.

    Time is taken as linear between them, so that an answer costs the same whatever it is priced
    beside. Where a window is full, or attention starts on another chunk, there is one more.

    Args:
        network: Whose windows and chunks; None for one without.
        low, high: Contexts that are to lie between the first node and the last. [token]
        cached: False where every step computes the whole context again.
    """
    base = _octaves(PER_OCTAVE if cached else PER_OCTAVE_COMPUTED)
    first = int(np.searchsorted(base, low, side="right")) - 1
    last = max(int(np.searchsorted(base, high)), first + 1)
    points = base[first : last + 1]
    bends: list[Array] = []
    for block in network.kinds if network else ():
        index = getattr(block.mixer, "index", None)
        for full in (getattr(block.mixer, "window", None), index and index.top_k):
            bends += [np.array([float(full)])] if full else []
        if chunk := getattr(block.mixer, "chunk", None):
            ends = chunk * np.arange(points[0] // chunk, points[-1] // chunk + 1.0)
            bends += [ends, ends + 1.0]
    if not bends:
        return points
    found = np.concatenate(bends)
    return union(points, found[(found > points[0]) & (found < points[-1])])


def answer_nodes(
    network: Architecture, prompt: float, output: float, *, cached: bool = True
) -> tuple[Array, Array]:
    """Contexts at which the decode steps of an answer are priced, and their weights in the mean.

    As `context_nodes`; prompts have any tokens, answers 2 or more. [token]
    """
    contexts = context_nodes(network, prompt, prompt + output - 1.0, cached=cached)
    answer = Answers.of(contexts, np.array([prompt]), np.array([output]))
    return contexts, answer.weights(contexts)


@cache
def _octaves(each: int) -> Array:
    """Whole numbers from 1 on, so many to the octave, and both sides of where kernels split."""
    spread = np.rint(2.0 ** (np.arange(OCTAVES * each + 1) / each))
    splits = 2.0 ** np.arange(SPLIT, OCTAVES)
    splits = np.concatenate([splits, 1.5 * splits])
    beyond = np.where(spread < splits[0], spread, spread + 1.0)
    return distinct(np.concatenate([beyond, splits, splits + 1.0]))


class Answers(Struct, frozen=True):
    """Steps of answers among contexts that are priced: the cells that they begin and end in."""

    first: NDArray[np.intp]
    last: NDArray[np.intp]
    """Cell between two nodes in which the prompt ends, and the answer. [1]"""
    before: Array
    beyond: Array
    """Tokens of each beyond the lower node of its cell. [token]"""
    steps: Array
    """Decode steps of the answer, 1 where there is none. [1]"""

    @classmethod
    def of(cls, nodes: Array, prompt: Array, output: Array) -> "Answers":
        """Answers of some tokens to prompts of some tokens, as columns or as axes. [token]"""
        until = prompt + np.maximum(output - 1.0, 1.0)
        first, last = (np.searchsorted(nodes[1:-1], at, side="right") for at in (prompt, until))
        return cls(first, last, prompt - nodes[first], until - nodes[last], until - prompt)

    def taken(self, rows: NDArray[np.intp], shape: tuple[int, ...]) -> "Answers":
        """Answers of some points, which are counted along axes of a shape."""
        first, last = picked(self.first, rows, shape), picked(self.last, rows, shape)
        others = (self.before, self.beyond, self.steps)
        return Answers(first, last, *(picked(each, rows, shape) for each in others))

    def weights(self, nodes: Array) -> Array:
        """Share of each node in the mean over the steps of a single answer. [1]"""
        every = np.arange(len(nodes))
        return ContextSums.of(nodes, np.eye(len(nodes))).mean(self, every)


class ContextSums(Struct, frozen=True):
    """Sums over whole contexts of values that are linear between nodes."""

    start: Array
    slope: Array
    bend: Array
    """Coefficients by row and node but the last: up to d tokens beyond the node the sum is
    start + d · (slope + d · bend)."""

    @classmethod
    def of(cls, nodes: Array, values: Array) -> "ContextSums":
        """Sums of values of shape (rows, nodes).

        Examples:
            >>> nodes = np.array([4.0, 8.0])
            >>> answers = Answers.of(nodes, np.array([4.0]), np.array([4.0]))
            >>> ContextSums.of(nodes, nodes[None]).mean(answers, np.array([0])).tolist()  # 5, 6, 7
            [6.0]
        """
        gaps = np.diff(nodes)
        rise = (values[:, 1:] - values[:, :-1]) / gaps
        whole = gaps * (values[:, :-1] + rise * ((gaps + 1.0) / 2.0))
        start = np.zeros_like(whole)
        np.cumsum(whole[:, :-1], axis=1, out=start[:, 1:])
        rise /= 2.0
        return cls(start, values[:, :-1] + rise, rise)

    def mean(self, answers: Answers, rows: NDArray[np.intp]) -> Array:
        """Mean over the steps of answers, each of a row; rows may be an axis beside theirs."""
        wide = rows * self.start.shape[1]
        first, last = wide + answers.first, wide + answers.last
        start, slope, bend = self.start.ravel(), self.slope.ravel(), self.bend.ravel()
        out: Array = bend[last] * answers.beyond
        out += slope[last]
        out *= answers.beyond
        before = bend[first] * answers.before
        before += slope[first]
        before *= answers.before
        out -= before
        out += start[last] - start[first]
        out /= answers.steps
        return out


TOLERANCE: Final = 2.0**-11
"""Largest error over the function's value, in the middle between two points: 0.05 %."""
ROUNDS: Final = 12
MOST: Final = 4096
"""Points at which refining ends: a price with a step at every multiple has no end of its own."""


def spaced(low: int, high: int, per_octave: int, whole: int = 0) -> Array:
    """Integers from one to another: every one up to ``whole``, then so many to the octave.

    Args:
        low, high: Ends, both included. [1]
        per_octave: Points between a number and twice that number. [1]
        whole: Up to where every integer is a point. [1]

    Examples:
        >>> spaced(1, 32, 1, 4).tolist()
        [1.0, 2.0, 3.0, 4.0, 8.0, 16.0, 32.0]
        >>> spaced(1, 3, 1, 4).tolist()
        [1.0, 2.0, 3.0]
    """
    dense = np.arange(low, min(whole, high) + 1, dtype=float)
    start = min(max(low, whole, 1), high)
    octaves = np.log2(max(high / start, 1.0))
    sparse = start * 2.0 ** np.linspace(0.0, octaves, int(np.ceil(octaves * per_octave)) + 1)
    return distinct(np.concatenate([dense, np.rint(sparse), [float(low), float(high)]]))


def refined(
    value: Callable[[Array], Array],
    points: Array,
    *,
    tolerance: float = TOLERANCE,
    most: int = MOST,
    rounds: int = ROUNDS,
) -> Array:
    """Points with more of them where the function bends.

    An interval is halved, at an integer, until the line between its ends meets the function in its
    middle.

    Args:
        value: Function of an axis of integers; further axes of its result are looked at together.
        points: Integers to begin with, in order.
        tolerance: Of the function's value. [1]
        most: Points at which refining ends. [1]
        rounds: Halvings at most. [1]

    Examples:
        >>> bend = lambda x: np.maximum(x, 10.0)
        >>> refined(bend, np.array([1.0, 64.0])).tolist()
        [1.0, 8.0, 10.0, 12.0, 16.0, 32.0, 64.0]
    """
    values = value(points)
    open_ = np.diff(points) > 1
    for _ in range(rounds):
        left = np.flatnonzero(open_)
        if not len(left) or len(points) + len(left) > most:
            break
        middle = np.rint((points[left] + points[left + 1]) / 2.0)
        share = (middle - points[left]) / (points[left + 1] - points[left])
        share = share.reshape(-1, *[1] * (values.ndim - 1))
        found = value(middle)
        line = values[left] * (1.0 - share) + values[left + 1] * share
        off = np.abs(line - found) > tolerance * np.abs(found)
        bent = off.reshape(len(left), -1).any(axis=1)
        open_[left] = False
        keep = left[bent] + 1
        points = np.insert(points, keep, middle[bent])
        values = np.insert(values, keep, found[bent], axis=0)
        # Both halves of a bent interval are looked at again.
        open_ = np.insert(open_, keep, True)
        open_[np.flatnonzero(open_) - 1] = True
        open_ &= np.diff(points) > 1
    return points


def between(points: Array, x: Array | float) -> tuple[NDArray[np.intp], Array]:
    """Interval of points that each number lies in, the last one for what is beyond; share of it.

    Examples:
        >>> place, share = between(np.array([1.0, 2.0, 4.0]), np.array([1.5, 5.0]))
        >>> place.tolist(), share.tolist()
        ([0, 1], [0.5, 1.5])
    """
    i = np.clip(np.searchsorted(points, x, side="right") - 1, 0, len(points) - 2)
    return i, (x - points[i]) / (points[i + 1] - points[i])


def halved(points: Array, new: Array, rounds: int) -> Array:
    """Some points with all that `refined` may ask about after them.

    Args:
        points: All points so far, in order.
        new: Those of them on whose both sides intervals are halved.
        rounds: Halvings. [1]

    Examples:
        >>> halved(np.array([0.0, 8.0, 16.0]), np.array([16.0]), 2).tolist()
        [10.0, 12.0, 14.0, 16.0]
    """
    for _ in range(rounds):
        middle = np.rint((points[:-1] + points[1:]) / 2.0)
        beside = np.isin(points[:-1], new) | np.isin(points[1:], new)
        new = union(new, middle[beside])
        points = union(points, new)
    return new
