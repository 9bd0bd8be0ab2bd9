"""Interface of a place where probes run: an array module, memory and a clock."""

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Protocol, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.bench.elements import random, stored
from roofline.bench.probe import Probe, ProbePoint
from roofline.bench.published import PublishedRates

Launch: TypeAlias = Callable[[], object]
"""One run of a probe, its arguments bound."""
Timer: TypeAlias = Callable[[int], float]
"""Mean time of a run, over at least so many. [s]"""

WORD_BYTES = 4
ALIGNMENT = 256
"""Alignment of every array: cuBLASLt takes it for granted, and it is whole cache lines. [B]"""
SEED = 0
TILE = 1 << 20
"""Random numbers that are drawn; more repeat them. [1]"""


class CaptureError(RuntimeError):
    """Launches that cannot be replayed as a graph: the host has to launch them."""


class Backend(Protocol):
    """A device and its libraries, on which probes run."""

    @property
    def name(self) -> str:
        """``"numpy"``, ``"cupy"``."""

    @property
    def xp(self) -> Any:
        """Array module that launches use."""

    @property
    def cache_bytes(self) -> float:
        """Last-level cache. [B]"""

    @property
    def memory_bytes(self) -> float:
        """Memory that probes may allocate in all. [B]"""

    @property
    def span_s(self) -> float:
        """Least time between two readings of the clock. [s]"""

    @property
    def fill_bytes_per_s(self) -> float:
        """Rate at which fresh memory is filled with numbers. [B/s]"""

    @property
    def whole_rounds(self) -> bool:
        """True where a timer always runs every launch equally often."""

    @property
    def replays(self) -> bool:
        """True where launches can be captured as a graph, which is then replayed."""

    @property
    def passes(self) -> int:
        """Runs of the device for each that is timed: one goes ahead where it must not idle. [1]"""

    @property
    def shared(self) -> bool:
        """True where others use it too, so that what slows it down now may be over later."""

    def refusal(self, point: ProbePoint) -> str:
        """Reason why a point cannot run there; empty where it can."""

    def bind(self, probe: Probe, arguments: Mapping[str, Any]) -> Launch:
        """One run on these arguments, everything that is done once already done."""

    def timer(self, launches: Sequence[Launch], *, captured: bool = True) -> Timer:
        """Times runs of these launches in rotation, everything else on the device finished.

        Args:
            launches: One for each argument set.
            captured: Whether as a graph; the timer raises `CaptureError` where they cannot be.
        """

    def synchronise(self) -> None:
        """Wait until everything launched is done."""

    def recover(self) -> None:
        """Give back what a point that failed left behind; raises where the device is lost."""

    def slowed(self) -> tuple[str, ...]:
        """Reasons for which the clock is held down now; none where it is free or unknown."""

    def clocks(self) -> Mapping[str, float]:
        """Clocks, power and temperature now, by name with unit; empty where unknown."""


def missing(probe: Probe) -> str:
    """Packages that a probe needs and are not installed, in words; empty where all are there."""
    lacking = [name for name in probe.needs if importlib.util.find_spec(name) is None]
    return f"{' and '.join(lacking)} is not installed" if lacking else ""


class ArrayPool:
    """Device memory that the arguments of one point after another are cut from.

    Allocating and filling argument sets afresh would take longer than measuring them. Numbers
    that launches read are random and stay so: they are cut from parts that no launch writes, one
    for each number type.
    """

    def __init__(self, xp: Any, memory_bytes: float = float("inf")) -> None:
        self._xp, self._memory_bytes = xp, memory_bytes
        self._numbers: dict[str, Any] = {}
        self._room = xp.empty(0, dtype=xp.float32)
        self._number_at: dict[str, int] = {}
        self._room_at = 0
        self._constants: dict[tuple[Any, ...], Any] = {}

    def reserve(self, numbers: Mapping[str, int], room: int) -> None:
        """Have so many elements of each type, and so many bytes to write, and begin anew."""
        held = {name: array.nbytes for name, array in self._numbers.items()}
        wanted = {name: count * stored(name).itemsize for name, count in numbers.items()}
        grown = {name: max(held.get(name, 0), wanted.get(name, 0)) for name in {**held, **wanted}}
        if sum(grown.values()) + max(room, self._room.nbytes) > self._memory_bytes:
            self._numbers, self._room = {}, self._xp.empty(0, dtype=self._xp.float32)
        for name, count in numbers.items():
            if name not in self._numbers or count > self._numbers[name].size:
                self._numbers.pop(name, None)  # given back before more is asked for
                self._numbers[name] = _filled(self._xp, random(name, min(count, TILE), SEED), count)
        if room > self._room.nbytes:
            self._room = None
            self._room = self._xp.ones(room // WORD_BYTES, dtype=self._xp.float32)
        self._number_at, self._room_at = dict.fromkeys(numbers, 0), 0
        self._constants.clear()

    def normal(self, *shape: int, of: str = "fp32") -> Any:
        """Next random numbers."""
        pool, at = self._numbers.get(of), self._number_at.get(of, 0)
        self._number_at[of] = at + padded(shape, of) // stored(of).itemsize
        assert pool is not None, "the pool was not reserved for this"
        assert at + prod(shape) <= pool.size, "the pool was not reserved for this"
        return pool[at : at + prod(shape)].reshape(shape)

    def empty(self, *shape: int, of: str = "fp32") -> Any:
        """Next room."""
        at, words = self._room_at, padded(shape, of) // WORD_BYTES
        self._room_at = at + words
        assert self._room_at <= self._room.size, "the pool was not reserved for this"
        return self._room[at : at + words].view(stored(of))[: prod(shape)].reshape(shape)

    def constant(self, build: Callable[..., NDArray[Any]], *arguments: int) -> Any:
        """Array that a function builds, made once for all argument sets of a point."""
        key = build, arguments
        if key not in self._constants:
            self._constants[key] = self._xp.asarray(build(*arguments))
        return self._constants[key]


class Sizes:
    """Stands in for a pool and counts what would be cut from it; its arrays are empty."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        """Elements that are read, by type. [1]"""
        self.room = 0
        """Room for what is written. [B]"""
        self._made: dict[int, tuple[NDArray[Any], str, str, tuple[int, ...]]] = {}
        """Empty arrays, kept so that their identities are not given again; how each is made."""

    def normal(self, *shape: int, of: str = "fp32") -> Any:
        """Count random numbers."""
        self.numbers[of] = self.numbers.get(of, 0) + padded(shape, of) // stored(of).itemsize
        return self._stand_in("normal", shape, of)

    def empty(self, *shape: int, of: str = "fp32") -> Any:
        """Count room."""
        self.room += padded(shape, of)
        return self._stand_in("empty", shape, of)

    def constant(self, build: Callable[..., NDArray[Any]], *arguments: int) -> Any:
        """Not made, and too small to count."""
        return None

    def make(self, array: Any, maker: "ArrayPool | Sizes") -> Any:
        """Array that one made here stands for, made there; None for anything else."""
        found = self._made.get(id(array))
        if found is None:
            return None
        _, how, of, shape = found
        return getattr(maker, how)(*shape, of=of)

    @property
    def total_bytes(self) -> int:
        """All together. [B]"""
        return bytes_of(self.numbers) + self.room

    def _stand_in(self, how: str, shape: tuple[int, ...], of: str) -> NDArray[Any]:
        array = np.empty(0, dtype=stored(of))
        self._made[id(array)] = array, how, of, shape
        return array


def bytes_of(numbers: Mapping[str, int]) -> int:
    """Size of so many elements of each type. [B]"""
    return sum(count * int(stored(name).itemsize) for name, count in numbers.items())


def padded(shape: tuple[int, ...], of: str = "fp32") -> int:
    """Size of an array, up to the next alignment. [B]

    >>> padded((3, 5), "bf16"), padded((64,)), padded((65,))
    (256, 256, 512)
    """
    size = prod(shape) * int(stored(of).itemsize)
    return -(-size // ALIGNMENT) * ALIGNMENT


def _filled(xp: Any, drawn: NDArray[Any], count: int) -> Any:
    """Numbers that repeat, on the device: what was drawn crosses to it once."""
    tile, numbers = xp.asarray(drawn), xp.empty(count, dtype=drawn.dtype)
    for at in range(0, count, len(drawn)):
        part = numbers[at : at + len(drawn)]
        part[...] = tile[: part.size]
    if isinstance(numbers, np.ndarray):
        numbers.flags.writeable = False
    return numbers


class Disturbances(Protocol):
    """Disturbances of a machine, which its text states in a clause."""

    @property
    def calm(self) -> bool:
        """True where times can be trusted to a few percent."""

    @property
    def lost(self) -> float:
        """Share of the time in which others make the device useless. [1]"""


class ProbePlace(Struct, frozen=True):
    """A device and its libraries, on which probes run."""

    backend: Backend
    """Runs and times them."""
    published: PublishedRates
    """Rates of its datasheet, or what stands in for one."""
    environment: Mapping[str, str]
    """Facts that the times depend on besides the probes."""
    noise: Callable[[], Disturbances | None]
    """Measures the noise of the machine."""
    title: str
    """Name for people."""
