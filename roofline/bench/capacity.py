"""Part of the last-level cache that a process gets, as times of reading tell.

Operating systems tell the size of the cache. Where a socket is shared, others fill part of it, and
a virtual machine sees the size of the whole.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, Final

import numpy as np

from roofline.bench.backend import Launch, Timer
from roofline.bench.published import PublishedRates
from roofline.bench.records import Records
from roofline.cost.kernels.processor import missed
from roofline.cost.work import Array
from roofline.records import replace
from roofline.units import PREFIX

PROBE: Final = "read"
"""Probe whose points tell."""
LEAST: Final = 1.0 * PREFIX["Mi"]
"""Arrays below it are all start. [B]"""
STEP: Final = 2.0**0.5
BEYOND: Final = 2.0
"""Times the nominal size of the cache up to which is read: where it ends then shows."""
REPEATS: Final = 3
SEEN: Final = 0.1
"""Share that misses of a cache must add to the time of a byte to be seen."""
FEWEST: Final = 10
"""Times that tell three levels apart. [1]"""
HAD: Final = "cache had"
"""Key of a run's environment: what `look` found when it began. [B]"""


def look(timer: Callable[[Sequence[Launch]], Timer], nominal: float) -> float:
    """Capacity by reading arrays of growing size, up to twice the nominal one, some times. [B]

    Args:
        timer: Makes timers of launches.
        nominal: Size of the cache as the operating system tells it. [B]
    """
    octaves = max(0.0, np.log2(BEYOND * nominal / LEAST))
    sizes = LEAST * STEP ** np.arange(octaves / np.log2(STEP) + 1.0)
    numbers, out = np.ones(int(sizes[-1]) // 4, dtype=np.float32), np.empty(1, dtype=np.float32)

    def once(size: float) -> float:
        part: Any = numbers[: int(size) // 4]
        run = timer([lambda: np.max(part, keepdims=True, out=out)])
        run(1)
        return min(run(1) for _ in range(REPEATS))

    return capacity(sizes, np.array([once(float(size)) for size in sizes]) / sizes, nominal)


def capacity(touched: Array, seconds_per_byte: Array, nominal: float) -> float:
    """Size from which on arrays that are read again come from memory. [B]

    The time of a byte is that in a core's own caches, and what missing those adds, and what missing
    the last one adds; none can be negative, and the last one that adds something tells. Capacities
    are searched on a grid of half octaves, the three times by least squares of relative errors.
    Source: Lawson and Hanson 1974, Solving Least Squares Problems, chapter 23.

    Args:
        touched: Between two uses of a byte. [B]
        seconds_per_byte: Of reading. [s/B]
        nominal: What is returned where no step is seen, and the most that can be. [B]

    Examples:
        >>> sizes = 2.0 ** np.arange(20, 30)
        >>> found = capacity(sizes, 1.0 + missed(sizes, 2.0**25), 2.0**29)
        >>> bool(2.0**24.5 <= found <= 2.0**25.5)
        True
    """
    from scipy.optimize import nnls

    if len(touched) < FEWEST:
        return nominal
    steps = np.arange(np.log(LEAST), np.log(nominal) + 0.01, np.log(STEP))
    best, found = np.inf, nominal
    for own, last in product(np.exp(steps), repeat=2):
        if own > last / 2.0:
            continue
        levels = [np.ones_like(touched), missed(touched, own), missed(touched, last)]
        times, off = nnls(
            np.stack(levels, axis=-1) / seconds_per_byte[:, None], np.ones(len(touched))
        )
        if off < best:
            best, least = off, SEEN * times[0]
            found = float(last) if times[2] > least else float(own) if times[1] > least else nominal
    return found


def as_measured(published: PublishedRates, records: Records) -> PublishedRates:
    """Rates of a processor with the capacity of its last-level cache as a run tells it.

    Args:
        published: With the size that the operating system tells.
        records: Of the run: rows of `PROBE`, or what was looked up when it began, where they are
            too few.
    """
    if HAD not in records.header.environment:
        return published
    mine = [row for row in records.of(PROBE) if row.reuse >= LEAST]
    found = float(records.header.environment[HAD])
    if len(mine) >= FEWEST:
        size = np.array([row.work["activation_bytes"] for row in mine])
        time = np.array([row.median.value for row in mine])
        touched = np.array([row.reuse for row in mine])
        found = capacity(touched, time / size, published.machine.l2_bytes)
    return replace(published, machine=replace(published.machine, l2_bytes=found))
