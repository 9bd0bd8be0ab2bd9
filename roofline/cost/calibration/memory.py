"""What operators took before: prices that a process remembers, and rows that come again."""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofline.cost.calibration import grids
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

    scopes: OrderedDict[int, tuple[Calibration, Gpu]] = field(default_factory=OrderedDict)
    told_apart: int = 0
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
        for number, each in self.scopes.items():
            if (each[0] is calibration and each[1] is gpu) or each == asked:
                return number
        # A number is never given again: somebody may still ask by it.
        self.told_apart += 1
        self.scopes[self.told_apart] = asked
        if len(self.scopes) > MOST_SCOPES:
            self.scopes.popitem(last=False)
        return self.told_apart

    def keep(self, key: Hashable, price: Measured | None) -> None:
        """Remember a price; what was not used for longest is forgotten."""
        self.known[key] = price
        self.held += _size(price)
        while self.held > MOST_BYTES:
            self.held -= _size(self.known.popitem(last=False)[1])


SHARED: Final = Memory()
"""That of the process."""


def _size(price: Measured | None) -> int:
    """About what is kept for a price: itself and its key, which is some times as long. [B]"""
    return 1024 if price is None else 1024 + 8 * np.asarray(price.seconds).nbytes
