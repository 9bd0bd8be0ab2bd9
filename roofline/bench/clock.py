"""NumPy as a place where probes run, and the clock that times it.

With one thread the clock is the processor time of that thread: on a machine that others use too,
time in which the thread was not running is not the kernel's. With more threads it is the wall's.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from typing import Any, Final

import numpy as np

from roofline.bench.backend import Launch, Timer, missing
from roofline.bench.probe import Point, Probe
from roofline.bench.processor import Processor
from roofline.units import parse

THREADS: Final = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""What BLAS libraries read when they are loaded, the first one first."""
SPAN_S: Final = parse("300 µs", "s")
FILL_BYTES_PER_S: Final = parse("2 GB/s", "B/s")
"""At which fresh memory is filled with numbers; assumed."""
MEMORY_SHARE: Final = 0.125
"""Of the machine's memory, for probes."""
NOISE_S: Final = 1.5
BLOCKS: Final = 10
SIDE: Final = 256
"""Of the matrices whose product is watched for noise."""
BEYOND: Final = 2.0
"""Times the cache that an array has whose copying is watched."""
CALM: Final = 0.05
CALM_MEMORY: Final = 0.15
"""Most that blocks of equal work may differ on a machine whose times can be trusted."""


def threads() -> int:
    """Threads that BLAS uses in this process: what the environment says, else one per core."""
    for name in THREADS:
        if (value := os.environ.get(name, "")).isdigit() and int(value):
            return int(value)
    return os.cpu_count() or 1


def clock(threads: int) -> Callable[[], float]:
    """Clock for that many threads. [s]"""
    return time.thread_time if threads == 1 else time.perf_counter


@dataclass(frozen=True, slots=True)
class NumpyBackend:
    """Probes in this process; see `roofline.bench.backend.Backend`."""

    threads: int
    cache_bytes: float
    memory_bytes: float
    span_s: float = SPAN_S
    fill_bytes_per_s: float = FILL_BYTES_PER_S
    whole_rounds: bool = False
    name: str = "numpy"
    xp: Any = np

    def refusal(self, point: Point) -> str:
        """What NumPy lacks, or the packages of the probe."""
        return missing(point.probe)

    def bind(self, probe: Probe, arguments: Mapping[str, Any]) -> Launch:
        """The launch of the probe itself."""
        return partial(probe.launch, np, **arguments)

    def slowed(self) -> tuple[str, ...]:
        """Unknown."""
        return ()

    def clocks(self) -> Mapping[str, float]:
        """Unknown."""
        return {}

    def timer(self, launches: Sequence[Launch], *, captured: bool = True) -> Timer:
        """Times runs of these launches in rotation."""
        turn = cycle(launches)
        now = clock(self.threads)

        def mean(runs: int) -> float:
            batch = list(islice(turn, runs))
            began = now()
            for launch in batch:
                launch()
            return (now() - began) / runs

        return mean

    def synchronise(self) -> None:
        """Nothing to wait for."""


def backend(processor: Processor) -> NumpyBackend:
    """NumPy on this machine, with the threads that it has in this process."""
    return NumpyBackend(threads(), processor.cache_bytes, MEMORY_SHARE * processor.memory_bytes)


@dataclass(frozen=True, slots=True)
class Noise:
    """How much a machine disturbs equal pieces of work.

    Attributes
    ----------
    arithmetic, memory
        Widest difference between the medians of blocks of equal work, as a share: of products in
        the caches, and of copies in memory, which others on the machine use too. [1]
    taken
        Share of the time in which others had the processor. [1]
    """

    arithmetic: float
    memory: float
    taken: float

    @property
    def calm(self) -> bool:
        """Whether times can be trusted to a few percent."""
        return self.arithmetic <= CALM and self.memory <= CALM_MEMORY

    def __str__(self) -> str:
        """In percent."""
        return (
            f"equal work differed by {self.arithmetic:.1%} in arithmetic (calm: {CALM:.0%}) and by "
            f"{self.memory:.1%} in memory (calm: {CALM_MEMORY:.0%}), others had the processor for "
            f"{self.taken:.0%} of the time"
        )


def noise(backend: NumpyBackend, seconds: float = NOISE_S) -> Noise:
    """Repeat equal work for some time, block by block, and see how alike the times are.

    Parameters
    ----------
    backend
        Whose clock is asked.
    seconds
        How long. [s]
    """
    numbers = np.random.default_rng(0).standard_normal((SIDE, SIDE), dtype=np.float32)
    product = np.empty_like(numbers)
    many = np.ones(int(BEYOND * backend.cache_bytes) // numbers.itemsize, dtype=np.float32)
    copied = np.empty_like(many)
    timers = (
        backend.timer([lambda: np.matmul(numbers, numbers, out=product)]),
        backend.timer([lambda: np.copyto(copied, many)]),
    )
    for timer in timers:
        timer(2)
    began, began_here = time.perf_counter(), time.process_time()
    blocks = [[_block(timer, seconds / BLOCKS / 2.0) for timer in timers] for _ in range(BLOCKS)]
    wall = time.perf_counter() - began
    here = (time.process_time() - began_here) / backend.threads
    arithmetic, memory = (max(each) / min(each) - 1.0 for each in zip(*blocks, strict=True))
    return Noise(arithmetic, memory, taken=max(0.0, 1.0 - here / wall))


def _block(timer: Timer, seconds: float) -> float:
    """Median of what is measured in that time, of one piece at least. [s]"""
    samples: list[float] = []
    began = time.perf_counter()
    while not samples or time.perf_counter() - began < seconds:
        samples.append(timer(1))
    return float(np.median(samples))
