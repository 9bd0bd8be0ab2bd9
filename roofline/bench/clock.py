"""NumPy as a place where probes run, and the clock that times it.

With one thread the clock is the processor time of that thread: on a machine that others use too,
time in which the thread was not running is not the kernel's. With more threads it is the wall's.
"""

import math
import os
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import cycle, islice
from typing import Any, Final

import numpy as np
from msgspec import Struct

from roofline.bench.backend import Launch, Timer, missing
from roofline.bench.capacity import look
from roofline.bench.probe import Probe, ProbePoint
from roofline.bench.published import Processor
from roofline.units import PREFIX, parse

THREADS: Final = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables that BLAS libraries read when they are loaded, the first one first."""
SPAN_S: Final = parse("300 µs", "s")
FILL_BYTES_PER_S: Final = parse("2 GB/s", "B/s")
"""Rate at which fresh memory is filled with numbers; assumed."""
MEMORY_SHARE: Final = 0.125
"""Share of the machine's memory for probes."""
NOISE_S: Final = 1.5
BLOCKS: Final = 5
CHUNK: Final = int(4 * PREFIX["Mi"])
BEYOND: Final = 3.0
"""Times the cache that arrays have whose copying is watched, and what is copied at once. [B]"""
CALM_TAKEN: Final = 0.3
"""Share of the time in which others may have a core whose times can be trusted: what they leave in
its caches is in the time of whatever runs next."""
CALM_SLOWED: Final = 0.6
"""Share of the rest in which they may slow it down: that does not count, and only costs time."""
CALM_MEMORY: Final = 0.15
"""Most that blocks of equal copies may differ there."""
SIDE: Final = 64
"""Rows of the matrices of the piece: it fits into the first cache, and disturbs little there."""
SETTLING: Final = 3
PIECES: Final = 8
"""Products that bring the piece back into that cache, and products that are timed."""
SLOWER: Final = 1.1
"""Times its usual time from which the piece counts as slowed down."""
USUAL: Final = 0.1
"""Quantile of its times that is usual: of a core that is shared most of the time, too."""
EVERY: Final = 64
"""Readings after which what is usual is looked up again."""
OTHERS: Final = "others on the core"


def threads() -> int:
    """Threads that BLAS uses in this process: what the environment says, else one per core."""
    for name in THREADS:
        if (value := os.environ.get(name, "")).isdigit() and int(value):
            return int(value)
    return os.cpu_count() or 1


def clock(threads: int) -> Callable[[], float]:
    """Clock for that many threads. [s]"""
    return time.thread_time if threads == 1 else time.perf_counter


class Quiet:
    """Reads how fast a core is beside the samples of a probe: a small piece of work, timed again.

    Hardware threads of a core share its units, and clocks fall with the load of a socket. Neither
    shows in the time that an operating system counts: a thread that ran all the time was slow all
    the same.

    Args:
        now: Clock of the samples. [s]
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._numbers = np.random.default_rng(0).standard_normal((SIDE, SIDE), dtype=np.float32)
        self._product = np.empty_like(self._numbers)
        self._readings = array("d")
        self._usual = self._last = self.read()

    def read(self) -> float:
        """Time of the piece, which is remembered. [s]"""
        for _ in range(SETTLING):
            np.matmul(self._numbers, self._numbers, out=self._product)
        began = self._now()
        for _ in range(PIECES):
            np.matmul(self._numbers, self._numbers, out=self._product)
        self._readings.append(self._now() - began)
        if len(self._readings) % EVERY == 0:
            self._usual = float(np.quantile(self._readings, USUAL))
        return self._readings[-1]

    def slowed(self) -> tuple[str, ...]:
        """`OTHERS` if the core was slow now or at the reading before; nothing if it was quiet."""
        before, self._last = self._last, self.read()
        return (OTHERS,) if max(before, self._last) > SLOWER * self._usual else ()

    @property
    def share(self) -> float:
        """Share of all readings that were slowed down. [1]"""
        return float(np.mean(np.asarray(self._readings) > SLOWER * self._usual))


class NumpyBackend(Struct, frozen=True):
    """Probes in this process; see `roofline.bench.backend.Backend`."""

    threads: int
    cache_bytes: float
    memory_bytes: float
    quiet: Quiet
    span_s: float = SPAN_S
    fill_bytes_per_s: float = FILL_BYTES_PER_S
    whole_rounds: bool = False
    replays: bool = False
    passes: int = 1
    shared: bool = True
    name: str = "numpy"
    xp: Any = np

    def refusal(self, point: ProbePoint) -> str:
        """Packages of the probe that are not installed."""
        return missing(point.probe)

    def bind(self, probe: Probe, arguments: Mapping[str, Any]) -> Launch:
        """The launch of the probe itself."""
        return partial(probe.launch, np, **arguments)

    def slowed(self) -> tuple[str, ...]:
        """`OTHERS` where they slow the core down."""
        return self.quiet.slowed()

    def timer(self, launches: Sequence[Launch], *, captured: bool = True) -> Timer:
        """Times runs of these launches in rotation."""
        return rotating(launches, clock(self.threads))

    def clocks(self) -> Mapping[str, float]:
        """Unknown."""
        return {}

    def synchronise(self) -> None:
        """Nothing to wait for."""

    def recover(self) -> None:
        """Nothing is left behind."""


def rotating(launches: Sequence[Launch], now: Callable[[], float]) -> Timer:
    """Times runs of launches that take turns, from one call to the next."""
    turn = cycle(launches)

    def mean(runs: int) -> float:
        batch = list(islice(turn, runs))
        began = now()
        for launch in batch:
            launch()
        return (now() - began) / runs

    return mean


def backend(processor: Processor) -> NumpyBackend:
    """NumPy on this machine, with the threads that it has in this process.

    A second goes into finding out how much of the cache it gets.
    """
    now = clock(threads())
    return NumpyBackend(
        threads(),
        look(partial(rotating, now=now), processor.cache_bytes),
        MEMORY_SHARE * processor.memory_bytes,
        Quiet(now),
    )


class MachineNoise(Struct, frozen=True):
    """Disturbances of a machine: what makes equal pieces of work take unequal times on it."""

    slowed: float
    """Share of the copies that others on the core slowed down, which do not count. [1]"""
    memory: float
    """Widest difference between the medians of blocks of equal copies in memory, which all that
    runs on the socket uses, among those that count. [1]"""
    taken: float
    """Share of the time in which others had the processor. [1]"""

    @property
    def calm(self) -> bool:
        """True where times can be trusted to a few percent."""
        return (
            self.taken <= CALM_TAKEN and self.slowed <= CALM_SLOWED and self.memory <= CALM_MEMORY
        )

    @property
    def lost(self) -> float:
        """Share of the time in which nothing can be measured. [1]"""
        return 1.0 - (1.0 - self.slowed) * (1.0 - self.taken)

    def __str__(self) -> str:
        """Shares in percent, beside those of a calm machine."""
        return (
            f"others had the core for {self.taken:.0%} of the time (calm: {CALM_TAKEN:.0%}) and "
            f"slowed it down for {self.slowed:.0%} of the rest (calm: {CALM_SLOWED:.0%}), equal "
            f"copies in memory differed by {self.memory:.1%} (calm: {CALM_MEMORY:.0%})"
        )


def noise(backend: NumpyBackend, seconds: float = NOISE_S) -> MachineNoise:
    """Noise of a machine on which equal work is repeated for some seconds, block by block."""
    chunks = max(1, int(BEYOND * backend.cache_bytes) // CHUNK)
    many = np.ones((2, chunks, CHUNK // 4), dtype=np.float32)
    timer = backend.timer([partial(np.copyto, many[1, i], many[0, i]) for i in range(chunks)])
    timer(chunks)
    began, began_here = time.perf_counter(), time.process_time()
    blocks = [_block(timer, backend.slowed, seconds / BLOCKS) for _ in range(BLOCKS)]
    wall = time.perf_counter() - began
    here = (time.process_time() - began_here) / backend.threads
    pieces = [piece for block in blocks for piece in block]
    calm = [np.median(good) for block in blocks if (good := [s for s, slow in block if not slow])]
    return MachineNoise(
        slowed=sum(slow for _, slow in pieces) / len(pieces),
        memory=float(max(calm) / min(calm) - 1.0) if calm else math.inf,
        taken=max(0.0, 1.0 - here / wall),
    )


def _block(
    timer: Timer, slowed: Callable[[], tuple[str, ...]], seconds: float
) -> list[tuple[float, bool]]:
    """Times of what is measured meanwhile, of one piece at least, and whether each was slow. [s]"""
    pieces: list[tuple[float, bool]] = []
    began = time.perf_counter()
    while not pieces or time.perf_counter() - began < seconds:
        pieces.append((timer(1), bool(slowed())))
    return pieces
