"""Points at which to tabulate a function so that straight lines between them follow it."""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofline.cost.work import Array, distinct, union

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
