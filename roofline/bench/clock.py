"""NumPy as a place where probes run, and the clock that times it.

With one thread the clock is the processor time of that thread: on a machine that others use too,
time in which the thread was not running is not the kernel's. With more threads it is the wall's.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any, Final

import numpy as np

from roofline.bench.backend import Launch, Timer
from roofline.bench.processor import Processor
from roofline.bench.stopping import median
from roofline.units import parse

THREADS: Final = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""What BLAS libraries read when they are loaded, the first one first."""
SPAN_S: Final = parse("300 µs", "s")
MEMORY_SHARE: Final = 0.125
"""Of the machine's memory, for probes."""
NOISE_S: Final = 1.0
BLOCKS: Final = 10
SIDE: Final = 256
"""Of the matrices whose product is watched for noise."""
CALM: Final = 0.05
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
    name: str = "numpy"
    xp: Any = np

    def timer(self, launches: Sequence[Launch]) -> Timer:
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
    drift
        Widest difference between the medians of blocks, as a share. [1]
    spread
        Half of the 95 % interval of the median of all pieces, as a share. [1]
    taken
        Share of the time in which others had the processor. [1]
    """

    drift: float
    spread: float
    taken: float

    @property
    def calm(self) -> bool:
        """Whether times can be trusted to a few percent."""
        return self.drift <= CALM

    def __str__(self) -> str:
        """In percent."""
        return (
            f"equal work differs by {self.drift:.1%} between blocks (calm: {CALM:.0%}), "
            f"others had the processor for {self.taken:.0%} of the time"
        )


def noise(backend: NumpyBackend, seconds: float = NOISE_S) -> Noise:
    """Repeat the same small product for some time and see how alike the times are.

    Parameters
    ----------
    backend
        Whose clock is asked.
    seconds
        How long. [s]
    """
    numbers = np.random.default_rng(0).standard_normal((SIDE, SIDE), dtype=np.float32)
    out = np.empty_like(numbers)
    timer = backend.timer([lambda: np.matmul(numbers, numbers, out=out)])
    timer(3)
    samples: list[float] = []
    began, began_here = time.perf_counter(), time.process_time()
    while (wall := time.perf_counter() - began) < seconds or len(samples) < BLOCKS:
        samples.append(timer(1))
    here = (time.process_time() - began_here) / backend.threads
    blocks = [median(block.tolist()).value for block in np.array_split(samples, BLOCKS)]
    return Noise(
        drift=max(blocks) / min(blocks) - 1.0,
        spread=median(samples).half,
        taken=max(0.0, 1.0 - here / wall),
    )
