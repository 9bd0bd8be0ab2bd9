"""Configurations by number: lanes of names, in each the same points of numbers.

Configuration i is point i mod P of lane i div P. Both are decoded by division, nothing is listed:
a grid of 10^12 configurations takes as much memory as its axes.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from math import prod
from typing import Final, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.cost.work import Array
from roofline.errors import InputError

Name: TypeAlias = str | int
Ints: TypeAlias = NDArray[np.int64]

MOST: Final = 2**63 - 1
"""Configurations of a grid: their numbers are 64 bits."""


class NameAxis(Struct, frozen=True):
    """An axis of names, or several that go together."""

    names: tuple[str, ...]
    """Names of the axes."""
    rows: tuple[tuple[Name, ...], ...]
    """Values of all of them, place by place."""

    def __len__(self) -> int:
        return len(self.rows)


class ListedNumbers(Struct, frozen=True):
    """Numbers one by one."""

    values: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.values)

    def at(self, places: Ints) -> Array:
        """Numbers at places counted from 0."""
        return np.asarray(np.asarray(self.values, np.float64)[places])


class SteppedNumbers(Struct, frozen=True):
    """``first``, ``first + step``, … as many as ``places``."""

    first: float
    step: float
    places: int

    def __len__(self) -> int:
        return self.places

    def at(self, places: Ints) -> Array:
        """Numbers at places counted from 0."""
        return np.asarray(self.first + self.step * places.astype(np.float64))


Series: TypeAlias = ListedNumbers | SteppedNumbers


class NumberAxis(Struct, frozen=True):
    """An axis of numbers, or several of equal length that go together."""

    series: Mapping[str, Series]

    def __len__(self) -> int:
        return len(next(iter(self.series.values())))


@dataclass(frozen=True, slots=True)
class SweepGrid:
    """Every combination of some names with every combination of some numbers.

    Raises:
        InputError: There is nothing in it, or more than can be numbered.

    Examples:
        >>> two = NameAxis(("gpu",), (("a100",), ("h100",)))
        >>> grid = SweepGrid(((two,),), (NumberAxis({"batch": SteppedNumbers(1, 1, 3)}),))
        >>> len(grid), grid.lane(1), grid.numbers(1, 3)["batch"].tolist()
        (6, {'gpu': 'h100'}, [2.0, 3.0])
    """

    blocks: tuple[tuple[NameAxis, ...], ...]
    """Axes of names, the last one fastest; the lanes of a block follow those of the one before.
    More than one where names depend on each other: layouts of a network on a GPU."""
    axes: tuple[NumberAxis, ...]
    """Axes of numbers, the last one fastest."""
    points: int = field(init=False)
    _ends: tuple[int, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Count, and refuse what cannot be numbered."""
        ends = accumulate(prod(len(axis) for axis in block) for block in self.blocks)
        object.__setattr__(self, "_ends", tuple(ends))
        object.__setattr__(self, "points", prod(len(axis) for axis in self.axes))
        if not 1 <= self.size <= MOST:
            raise InputError(
                f"{self.size:,} configurations", hint=f"ask for 1 to {MOST:,}: check the axes"
            )

    @property
    def lanes(self) -> int:
        """Combinations of names. [1]"""
        return self._ends[-1] if self._ends else 0

    @property
    def size(self) -> int:
        """Configurations: lanes × points. [1]"""
        return self.lanes * self.points

    def __len__(self) -> int:
        """Configurations. [1]"""
        return self.size

    def lane(self, number: int) -> dict[str, Name]:
        """Names of a lane, which is counted from 0; IndexError where there is no such lane."""
        if not 0 <= number < self.lanes:
            raise IndexError(f"lane {number} of {self.lanes}")
        block = bisect_right(self._ends, number)
        rest = number - (self._ends[block - 1] if block else 0)
        out: list[tuple[str, Name]] = []
        for axis in reversed(self.blocks[block]):
            rest, place = divmod(rest, len(axis))
            out[:0] = zip(axis.names, axis.rows[place], strict=True)
        return dict(out)

    def numbers(self, start: int, stop: int) -> dict[str, Array]:
        """Numbers of the points of a lane from one up to before another; IndexError beyond them."""
        if not 0 <= start <= stop <= self.points:
            raise IndexError(f"points {start} to {stop} of {self.points}")
        rest: Ints = np.arange(start, stop, dtype=np.int64)
        out: dict[str, Array] = {}
        for axis in reversed(self.axes):
            rest, places = np.divmod(rest, len(axis))
            out = {name: series.at(places) for name, series in axis.series.items()} | out
        return out

    def spans(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """Configurations from one up to before another, lane by lane: lane, first point, stop."""
        while start < stop:
            lane, first = divmod(start, self.points)
            count = min(self.points - first, stop - start)
            yield lane, first, first + count
            start += count
