"""A fixed NumPy loop, timed just before and after each benchmark.

Machines differ in speed, and one machine differs from minute to minute. The loop does the same work
for ever, so a figure in loops compares where a figure in seconds does not. It must never change.
"""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Final

import numpy as np

RUNS: Final = 5
"""Runs of the loop before a benchmark, and as many after it."""
ITERATIONS: Final = 200
POINTS: Final = np.linspace(0.0, 1.0, 4096)
EDGES: Final = np.linspace(0.0, 1.0, 1024) ** 2


def loop_seconds() -> float:
    """Processor time of one run: elementwise arithmetic, a sum and a search. [s]"""
    began, total = time.process_time(), 0.0
    for number in range(ITERATIONS):
        values = np.exp(-POINTS * (1.0 + number)) * POINTS + 0.5
        total += float(values.sum()) + int(EDGES.searchsorted(values % 1.0).max())
    assert total > 0.0
    return time.process_time() - began


@dataclass
class Reference:
    """Processor times of the loop around one benchmark."""

    runs: list[float] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Median of all runs. [s]"""
        return median(self.runs)

    def time(self, seconds: float) -> str:
        """Time of a benchmark in loops, in words."""
        return f"[{_digits(seconds / self.seconds)} loops of {self.seconds * 1e3:.1f} ms]"

    def rate(self, per_second: float) -> str:
        """Rate of a benchmark by the loop, in words."""
        return f"[{_digits(per_second * self.seconds)} a loop of {self.seconds * 1e3:.1f} ms]"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


@contextmanager
def reference() -> Iterator[Reference]:
    """Times of the loop before and after the block; they are complete when it ends."""
    gc.collect()
    gc.freeze()  # what the tests hold is not searched for garbage
    loop_seconds()  # caches and the processor's clock are warm
    found = Reference([loop_seconds() for _ in range(RUNS)])
    yield found
    found.runs += [loop_seconds() for _ in range(RUNS)]
