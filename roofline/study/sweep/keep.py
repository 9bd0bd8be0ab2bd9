"""Points of a sweep that are kept: all, those that keep to the limits, or the best of these.

A point is beaten by one that is nowhere worse and somewhere better; equals do not beat each other.
A point that is beaten inside its lane is beaten in the whole sweep, too. So most points are dropped
lane by lane, and only the rest are compared across lanes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.cost.work import Array

BLOCK: Final = 256
"""Points that are compared pair by pair. [1]"""
CELLS: Final = 4096
"""Most cells of a coarse grid over all objectives but one."""
ROUNDS: Final = 2
"""Grids, each over what the one before left."""
SAMPLE: Final = 512
"""Points that the lines of a grid are taken from."""

Mask = NDArray[np.bool_]

_BEFORE: Final[Mask] = np.triu(np.ones((BLOCK, BLOCK), np.bool_), 1)

ALL: Final = "all"
FEASIBLE: Final = "feasible"
PARETO: Final = "pareto"
TOP: Final = "top-"
MEMORY: Final = "memory"
"""Miss of a point that does not fit."""
UNKNOWN: Final = " unknown"
"""Suffix of a column among the misses, of points whose figure is unknown."""
BETWEEN: Final = ("tpot", "user_tok_s")
"""Prefixes of figures between tokens, which an answer of one token lacks: it keeps to any limit."""
WAITING: Final = 256
"""Points that wait, beside as many as there are already, to be compared with all of those."""


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
            left = left[~CoarseGrid.of(values[left]).beat(values[left])]
    keep = np.zeros(len(values), np.bool_)
    # In this order what beats a point comes before it, and is nowhere worse in what is left.
    order = left[np.lexsort(values[left].T[::-1])]
    ordered = values[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    best = _unbeaten_in_order(ordered[new, 1:])
    keep[order] = best[np.cumsum(new) - 1]
    return keep


def best_of(values: Array, keep: str) -> NDArray[np.intp]:
    """Places of the points that ``"pareto"`` or ``"top-K"`` keeps, in their order."""
    if keep == PARETO:
        return np.flatnonzero(unbeaten(values))
    return np.sort(np.lexsort(values.T[::-1])[: int(keep.removeprefix(TOP))])


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
    """Mask of pairs: each of these is nowhere worse than each of those."""
    found = np.ones((len(these), len(those)), np.bool_)
    for mine, theirs in zip(these.T, those.T, strict=True):
        found &= mine[:, None] <= theirs[None, :]
    return found


class _Front(Protocol):
    """Points that nothing has beaten so far."""

    def beats(self, some: Array) -> Mask:
        """Mask of the points that one of the front equals or beats."""

    def add(self, some: Array) -> None:
        """Take in points that nothing beats."""


class _Pairs:
    """Front that compares each new point with all of its own."""

    def __init__(self, objectives: int) -> None:
        self.points: Array = np.empty((0, objectives))

    def beats(self, some: Array) -> Mask:
        return np.asarray(_as_good(self.points, some).any(axis=0))

    def add(self, some: Array) -> None:
        self.points = np.concatenate([self.points, some])


class _Staircase:
    """Front of two objectives: the least of the second one up to each value of the first."""

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


class CoarseGrid(Struct, frozen=True):
    """A coarse grid over all objectives but the last, with the least of the last in each cell."""

    lines: tuple[Array, ...]
    """Between the cells, of each objective."""
    below: Array
    """Least of the last objective in all cells that are lower in every direction."""

    @classmethod
    def of(cls, values: Array) -> "CoarseGrid":
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
        """Mask of points beaten from a lower cell: by a better one that is as good in the last."""
        last = values[:, -1]
        return np.asarray((self.below[_cell(values, self.lines)] <= last) & ~np.isinf(last))


def _cell(values: Array, lines: tuple[Array, ...] | list[Array]) -> NDArray[np.intp]:
    """Number of the cell of each point."""
    cell = np.zeros(len(values), np.intp)
    for column, between in zip(values.T, lines, strict=False):
        cell *= len(between) + 1
        cell += np.searchsorted(between, column, side="right")
    return cell


class FigureLimit(Struct, frozen=True):
    """Limit on a figure: its most, or its least."""

    column: str
    value: float
    at_least: bool = False

    def __str__(self) -> str:
        """Text of the limit in results: ``"<= 0.06"``."""
        return f"{'>=' if self.at_least else '<='} {self.value!r}"

    def kept(self, values: Array) -> NDArray[np.bool_]:
        """Mask of the values within the limit; nan, an unknown figure, is not."""
        return np.asarray(values >= self.value if self.at_least else values <= self.value)


class SweepObjective(Struct, frozen=True):
    """Figure that is to be small, or large."""

    column: str
    largest: bool = False

    def __str__(self) -> str:
        """Text of the objective: ``"min usd_per_mtok"``."""
        return f"{'max' if self.largest else 'min'} {self.column}"


class PointRows(Protocol):
    """Some points of a lane, with their figures by column."""

    @property
    def rows(self) -> int:
        """Number of points."""

    @property
    def names(self) -> Mapping[str, str | int]:
        """Names of the lane, by column."""

    def __getitem__(self, name: str, /) -> Any:
        """Values of a column."""

    def taken(self, rows: NDArray[np.intp], /) -> "PointRows":
        """Points of these rows alone."""


@dataclass(slots=True)
class KeptPoints:
    """Points that are kept of some lanes, one after the other."""

    keep: str
    """``"all"``, ``"feasible"``: what fits and keeps to the limits; of that ``"pareto"``: what no
    other point beats in all objectives, equals included, or ``"top-5"``: the first few by the
    first objective, among equals by the others and by number."""
    limits: Sequence[FigureLimit] = ()
    objectives: Sequence[SweepObjective] = ()
    """Objectives in their order."""
    missed: dict[str, int] = field(default_factory=dict)
    """Number of points by what they missed first; ``""`` for those that missed nothing. [1]"""
    _parts: list[PointRows] = field(default_factory=list, repr=False)
    _values: list[Array] = field(default_factory=list, repr=False)
    _cells: CoarseGrid | None = field(default=None, repr=False)
    _waiting: int = 0
    _settled: int = 0

    def add(self, columns: PointRows) -> None:
        """Look at points of a lane; numbers of configurations go up from call to call."""
        if self.keep == ALL:
            self._parts.append(columns)
        columns = self._feasible(columns)
        if self.keep == FEASIBLE:
            self._parts.append(columns)
        elif self.keep != ALL and columns.rows:
            self._compare(columns)

    def parts(self) -> list[PointRows]:
        """Points that are kept, lane by lane."""
        self._settle()
        return [part for part in self._parts if part.rows]

    def _feasible(self, columns: PointRows) -> PointRows:
        """Points that fit and keep to the limits; the others are counted."""
        columns = self._passing(columns, MEMORY, columns["fits"])
        for limit in self.limits:
            if not columns.rows:  # figures of nothing are not priced
                break
            _, unknown = judged(limit, columns)
            columns = self._passing(columns, limit.column + UNKNOWN, ~unknown)
            columns = self._passing(columns, limit.column, judged(limit, columns)[0])
        self.missed[""] = self.missed.get("", 0) + columns.rows
        return columns

    def _passing(self, columns: PointRows, name: str, met: NDArray[np.bool_]) -> PointRows:
        """Points of a mask; the others are counted as missing what is named."""
        rows = np.flatnonzero(met)
        if len(rows) == columns.rows:
            return columns
        self.missed[name] = self.missed.get(name, 0) + columns.rows - len(rows)
        return columns.taken(rows)

    def _compare(self, columns: PointRows) -> None:
        """Drop what is beaten inside the lane, or by what was left of the lanes before."""
        values = losses(columns, self.objectives)
        rows = np.arange(len(values))
        if self._cells is not None:
            rows = np.flatnonzero(~self._cells.beat(values))
            values = values[rows]
        best = best_of(values, self.keep)
        rows, values = rows[best], values[best]
        if not len(rows):
            return
        self._parts.append(columns.taken(rows))
        self._values.append(values)
        self._waiting += len(rows)
        if self._waiting > self._settled + WAITING:
            self._settle()

    def _settle(self) -> None:
        """Drop what is beaten by points of other lanes."""
        if not self._values:
            return
        values = np.concatenate(self._values)
        best = np.zeros(len(values), np.bool_)
        best[best_of(values, self.keep)] = True
        masks = np.split(best, np.cumsum([len(part) for part in self._values])[:-1])
        pairs = [
            (part.taken(np.flatnonzero(mask)), own[mask])
            for part, own, mask in zip(self._parts, self._values, masks, strict=True)
            if mask.any()
        ]
        self._parts, self._values = [part for part, _ in pairs], [own for _, own in pairs]
        self._settled, self._waiting = int(best.sum()), 0
        if self.keep == PARETO and len(self.objectives) > 1:
            self._cells = CoarseGrid.of(values[best])


def judged(limit: FigureLimit, columns: Any) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Masks of points that keep to a limit, and of points whose figure is not known."""
    values = columns[limit.column]
    met, unknown = limit.kept(values), np.isnan(values)
    if limit.column.startswith(BETWEEN) and unknown.any():
        without = ~np.asarray(columns["decodes"], bool)
        return met | without, unknown & ~without
    return met, unknown


def losses(columns: Any, objectives: Sequence[SweepObjective]) -> Array:
    """Objectives of shape (points, objectives), wanted small; what is unknown is worst."""
    values = [
        np.asarray(columns[each.column], np.float64) * (-1.0 if each.largest else 1.0)
        for each in objectives
    ]
    found = np.stack(values, axis=1)
    return np.where(np.isnan(found), np.inf, found)
