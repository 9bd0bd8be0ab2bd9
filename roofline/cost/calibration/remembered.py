"""A calibration that prices an operator of a grid on the axes it depends on, and only once.

Most operators of a step see the batch and not the context, and deployments that differ in one
format have all other kernels in common.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofline.cost.calibration import grids
from roofline.cost.calibration.asked import alike
from roofline.cost.engine_costs import EngineCosts
from roofline.cost.measured import Calibration, Measured
from roofline.cost.work import Number, Op
from roofline.hardware.machine import Gpu

MOST_BYTES: Final = 2**26
"""Of prices that a process remembers."""
MOST_LINES: Final = 64
"""Columns whose repeats are known."""
MOST_DIFFERENT: Final = 0.8
"""Share of rows that differ, beyond which all are priced."""
MOST_SCOPES: Final = 64
"""Devices under an engine that it tells apart."""


@dataclass(frozen=True, slots=True)
class Repeats:
    """Rows of a line that differ from all others, and which of them each row is."""

    first: NDArray[np.intp]
    place: NDArray[np.intp]

    def hold(self, value: Number) -> bool:
        """Whether rows of a column that are to be one are equal."""
        if not isinstance(value, np.ndarray) or value.size == 1:
            return True
        return bool((value[self.first][self.place] == value).all())


@dataclass(slots=True)
class Memory:
    """What operators took, the last ones used."""

    scopes: list[tuple[Calibration, Gpu]] = field(default_factory=list)
    known: OrderedDict[Hashable, Measured | None] = field(default_factory=OrderedDict)
    held: int = 0
    lines: OrderedDict[bytes, Repeats] = field(default_factory=OrderedDict)

    def repeats(self, line: Op) -> Repeats | None:
        """Rows that come again in an operator that sees a product of its axes; None if few do.

        Sixteen prompts of a thousand tokens are as many tokens as four of four thousand.
        """
        seen = next(
            (dim for dim in line.dims.values() if isinstance(dim, np.ndarray) and dim.size > 1),
            None,
        )
        if seen is None:
            return None
        key = seen.tobytes()
        if key not in self.lines:
            _, first, place = np.unique(seen, return_index=True, return_inverse=True)
            self.lines[key] = Repeats(first, place)
            if len(self.lines) > MOST_LINES:
                self.lines.popitem(last=False)
        found = self.lines[key]
        if len(found.first) > len(found.place) * MOST_DIFFERENT:
            return None
        return found if all(found.hold(value) for value in grids.numbers(line)) else None

    def scope(self, calibration: Calibration, gpu: Gpu) -> int:
        """Number of a device's calibration, by which its prices are told from those of others."""
        asked = (calibration, gpu)
        for number, each in enumerate(self.scopes):
            if (each[0] is calibration and each[1] is gpu) or each == asked:
                return number
        if len(self.scopes) == MOST_SCOPES:
            self.scopes.clear()
            self.known.clear()
            self.held = 0
        self.scopes.append(asked)
        return len(self.scopes) - 1

    def keep(self, key: Hashable, price: Measured | None) -> None:
        """Remember a price; what was not used for longest is forgotten."""
        self.known[key] = price
        self.held += _size(price)
        while self.held > MOST_BYTES:
            self.held -= _size(self.known.popitem(last=False)[1])


SHARED: Final = Memory()
"""That of the process."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """A calibration whose prices are remembered; the numbers of operators may be grids.

    Attributes
    ----------
    inner
        Which one.
    gpu
        The device that is asked about.
    memory
        Where prices are kept.
    """

    inner: Calibration
    gpu: Gpu
    memory: Memory = field(default_factory=lambda: SHARED, repr=False)
    scope: int = field(init=False)

    def __post_init__(self) -> None:
        """Find what is remembered of it."""
        object.__setattr__(self, "scope", self.memory.scope(self.inner, self.gpu))

    @property
    def name(self) -> str:
        """What the profile is called."""
        return self.inner.name

    @property
    def costs(self) -> EngineCosts:
        """What the engine's software adds to a step."""
        return self.inner.costs

    def price(self, op: Op, gpu: Gpu) -> Measured | None:
        """Time of an operator, in the shape of the axes that it depends on."""
        key = (self.scope, *_key(op))
        known = self.memory.known
        if key in known:
            known.move_to_end(key)
            return known[key]
        found = self._price(op, gpu)
        self.memory.keep(key, found)
        return found

    def _price(self, op: Op, gpu: Gpu) -> Measured | None:
        wide = grids.shape(op)
        if len(wide) < 2:
            return self.inner.price(op, gpu)
        line = grids.in_line(op, wide)
        again = self.memory.repeats(line) if min(wide) > 1 else None
        if again is None:
            found = self.inner.price(line, gpu)
        else:
            found = self.inner.price(grids.taken(line, again.first), gpu)
        return None if found is None else _spread(found, wide, again)


def _key(op: Op) -> tuple[Hashable, ...]:
    """Everything that a price depends on."""
    told = (alike(op), op.kind, op.arithmetic, *op.dims, *op.formats.values())
    return (*told, *(_content(value) for value in grids.numbers(op)))


def _content(value: Number) -> Hashable:
    if isinstance(value, np.ndarray):
        return (value.shape, value.tobytes())
    return float(value)


def _spread(found: Measured, wide: tuple[int, ...], again: Repeats | None) -> Measured:
    """Numbers in line as the grid that they were."""

    def spread(value: Number) -> Number:
        if not isinstance(value, np.ndarray) or not value.ndim:
            return value
        return (value if again is None else value[again.place]).reshape(wide)

    return replace(
        found,
        seconds=spread(found.seconds),
        log_sd=spread(found.log_sd),
        basis=spread(found.basis),
    )


def _size(price: Measured | None) -> int:
    """About what is kept for a price: itself and its key, which is some times as long. [B]"""
    return 1024 if price is None else 1024 + 8 * np.asarray(price.seconds).nbytes
