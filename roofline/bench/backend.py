"""What the engine needs of a place where probes run: an array module, memory and a clock."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Launch: TypeAlias = Callable[[], object]
"""One run of a probe, its arguments bound."""
Timer: TypeAlias = Callable[[int], float]
"""Mean time of a run, over at least so many. [s]"""

ITEM_BYTES = 4
ALIGNMENT = 64
"""Of every array: a cache line, and what vector instructions like. [B]"""
SEED = 0
TILE = 1 << 20
"""Random numbers that are drawn; more repeat them. [1]"""


class Backend(Protocol):
    """Where probes run.

    Attributes
    ----------
    name
        ``"numpy"``, ``"cupy"``.
    xp
        Array module that launches use.
    cache_bytes
        Last-level cache. [B]
    memory_bytes
        What probes may allocate in all. [B]
    span_s
        Least time between two readings of the clock. [s]
    """

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def xp(self) -> Any:
        """Array module."""

    @property
    def cache_bytes(self) -> float:
        """Last-level cache. [B]"""

    @property
    def memory_bytes(self) -> float:
        """For probes. [B]"""

    @property
    def span_s(self) -> float:
        """Least span. [s]"""

    def timer(self, launches: Sequence[Launch]) -> Timer:
        """Times runs of these launches in rotation, everything else on the device finished."""

    def synchronise(self) -> None:
        """Wait until everything launched is done."""


class Pool:
    """Device memory that the arguments of one point after another are cut from.

    Allocating and filling argument sets afresh would take longer than measuring them. Numbers
    that launches read are normal and stay so: they are cut from a part that no launch writes.
    """

    def __init__(self, xp: Any) -> None:
        self._xp = xp
        self._numbers = xp.empty(0, dtype=xp.float32)
        self._room = xp.empty(0, dtype=xp.float32)
        self._number_at = self._room_at = 0

    def reserve(self, numbers: int, room: int) -> None:
        """Have so many elements of each kind, and begin from the start."""
        if numbers > self._numbers.size:
            drawn = np.random.default_rng(SEED).standard_normal(TILE, dtype=np.float32)
            self._numbers = self._xp.asarray(np.resize(drawn, numbers))
            if isinstance(self._numbers, np.ndarray):
                self._numbers.flags.writeable = False
        if room > self._room.size:
            self._room = self._xp.ones(room, dtype=self._xp.float32)
        self._number_at = self._room_at = 0

    def normal(self, *shape: int) -> Any:
        """Next normal random numbers."""
        array, self._number_at = _cut(self._numbers, self._number_at, shape)
        return array

    def empty(self, *shape: int) -> Any:
        """Next room."""
        array, self._room_at = _cut(self._room, self._room_at, shape)
        return array


class Sizes:
    """Stands in for a pool and counts what would be cut from it; its arrays are empty."""

    def __init__(self) -> None:
        self.numbers = self.room = 0
        self._bytes: dict[int, int] = {}
        self._made: list[NDArray[np.float32]] = []

    def normal(self, *shape: int) -> Any:
        """Count random numbers."""
        self.numbers += padded(shape)
        return self._stand_in(shape)

    def empty(self, *shape: int) -> Any:
        """Count room."""
        self.room += padded(shape)
        return self._stand_in(shape)

    def bytes_of(self, array: Any) -> int:
        """Size that an array made here stands for; 0 for anything else. [B]"""
        return self._bytes.get(id(array), 0)

    def _stand_in(self, shape: tuple[int, ...]) -> NDArray[np.float32]:
        array = np.empty(0, dtype=np.float32)
        self._made.append(array)  # keeps its id from being given again
        self._bytes[id(array)] = padded(shape) * ITEM_BYTES
        return array


def padded(shape: tuple[int, ...]) -> int:
    """Elements of an array, up to the next cache line. [1]"""
    count = 1
    for length in shape:
        count *= length
    line = ALIGNMENT // ITEM_BYTES
    return -(-count // line) * line


def _cut(pool: Any, at: int, shape: tuple[int, ...]) -> tuple[Any, int]:
    count = 1
    for length in shape:
        count *= length
    assert at + count <= pool.size, "the pool was not reserved for this"
    return pool[at : at + count].reshape(shape), at + padded(shape)
