"""Which points no other point beats: smaller is better in every column.

A point is beaten by one that is nowhere worse and somewhere better; equals do not beat each other.
"""

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from roofline.cost.work import Array

BLOCK: Final = 256
"""Points that are compared with each other, pair by pair."""
CELLS: Final = 4096
"""Of a coarse grid over all objectives but one, at most."""
ROUNDS: Final = 2
"""Grids, each over what the one before left."""
SAMPLE: Final = 512
"""Points that the lines of a grid are taken from."""

Mask = NDArray[np.bool_]

_BEFORE: Final[Mask] = np.triu(np.ones((BLOCK, BLOCK), np.bool_), 1)


def unbeaten(values: Array) -> Mask:
    """Points that no other one beats.

    Args:
        values: Of shape (points, objectives), without nan; smaller is better.

    Examples:
        >>> unbeaten(np.array([[1.0, 2.0], [2.0, 1.0], [2.0, 2.0], [1.0, 2.0]])).tolist()
        [True, True, False, True]
    """
    left = np.arange(len(values))
    for _ in range(ROUNDS):
        if len(left) > BLOCK and values.shape[1] > 1:
            left = left[~Cells.of(values[left]).beat(values[left])]
    keep = np.zeros(len(values), np.bool_)
    # In this order what beats a point comes before it, and is nowhere worse in what is left.
    order = left[np.lexsort(values[left].T[::-1])]
    ordered = values[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    best = _unbeaten_in_order(ordered[new, 1:])
    keep[order] = best[np.cumsum(new) - 1]
    return keep


def _unbeaten_in_order(rest: Array) -> Mask:
    """Points that none before them beats: that none before them equals or beats in the rest."""
    out = np.zeros(len(rest), np.bool_)
    front: _Front = _Staircase() if rest.shape[1] == 2 else _Pairs(rest.shape[1])
    for start in range(0, len(rest), BLOCK):
        some = rest[start : start + BLOCK]
        rows = np.flatnonzero(~front.beats(some))
        some = some[rows]
        rows = rows[~(_as_good(some, some) & _BEFORE[: len(some), : len(some)]).any(axis=0)]
        out[start + rows] = True
        front.add(rest[start + rows])
    return out


def _as_good(these: Array, those: Array) -> Mask:
    """Whether each of these is nowhere worse than each of those."""
    found = np.ones((len(these), len(those)), np.bool_)
    for mine, theirs in zip(these.T, those.T, strict=True):
        found &= mine[:, None] <= theirs[None, :]
    return found


class _Front(Protocol):
    """Points that were not beaten so far."""

    def beats(self, some: Array) -> Mask:
        """Whether one of them is nowhere worse."""

    def add(self, some: Array) -> None:
        """Points that are not beaten."""


class _Pairs:
    """Compared with each of them."""

    def __init__(self, objectives: int) -> None:
        self.points: Array = np.empty((0, objectives))

    def beats(self, some: Array) -> Mask:
        return np.asarray(_as_good(self.points, some).any(axis=0))

    def add(self, some: Array) -> None:
        self.points = np.concatenate([self.points, some])


class _Staircase:
    """Of two objectives: the least of the second one up to each value of the first."""

    def __init__(self) -> None:
        self.first: Array = np.array([-np.inf])
        self.least: Array = np.array([np.inf])

    def beats(self, some: Array) -> Mask:
        step = np.searchsorted(self.first, some[:, 0], side="right") - 1
        return np.asarray((self.least[step] <= some[:, 1]) & (step > 0))

    def add(self, some: Array) -> None:
        first = np.concatenate([self.first, some[:, 0]])
        least = np.concatenate([self.least, some[:, 1]])
        order = np.argsort(first, kind="stable")
        self.first, self.least = first[order], np.minimum.accumulate(least[order])


@dataclass(frozen=True, slots=True)
class Cells:
    """A coarse grid over all objectives but the last, of which it has the least in each cell."""

    lines: tuple[Array, ...]
    """Between the cells, of each objective."""
    below: Array
    """Least of the last objective in all cells that are lower in every direction."""

    @classmethod
    def of(cls, values: Array) -> "Cells":
        """The grid of some points."""
        many = values.shape[1] - 1
        cells = max(int(CELLS ** (1.0 / many)), 2)
        lines = []
        for column in values.T[:-1]:
            sample = np.sort(column[:: max(len(column) // SAMPLE, 1)])
            places = np.arange(1, cells) * (len(sample) - 1) // cells
            lines.append(sample[places])
        least = np.full((cells + 1,) * many, np.inf)
        inside = least[(slice(1, None),) * many]
        whole = np.full(cells**many, np.inf)
        np.minimum.at(whole, _cell(values, lines), values[:, -1])
        inside[...] = whole.reshape(inside.shape)
        for axis in range(many):
            np.minimum.accumulate(least, axis=axis, out=least)
        return cls(tuple(lines), np.ascontiguousarray(least[(slice(None, -1),) * many]).ravel())

    def beat(self, values: Array) -> Mask:
        """Points that those of a lower cell beat: they are better in all but one, where as good."""
        last = values[:, -1]
        return np.asarray((self.below[_cell(values, self.lines)] <= last) & ~np.isinf(last))


def _cell(values: Array, lines: tuple[Array, ...] | list[Array]) -> NDArray[np.intp]:
    """Number of the cell of each point."""
    cell = np.zeros(len(values), np.intp)
    for column, between in zip(values.T, lines, strict=False):
        cell *= len(between) + 1
        cell += np.searchsorted(between, column, side="right")
    return cell
