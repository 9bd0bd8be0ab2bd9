"""Measure a point of a probe: argument sets, warm-up, samples until the median is known."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from roofline.bench.backend import ITEM_BYTES, Backend, Launch, Pool, Sizes
from roofline.bench.probe import Point
from roofline.bench.stopping import Median, Stop, median, reason
from roofline.errors import MissingEnvironmentError

COLD: Final = 3.0
"""Times the cache that argument sets fill together, so that none is left when its turn comes."""
MOST_SETS: Final = 1024
MOST_RUNS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Measurement:
    """Times of one point.

    Attributes
    ----------
    point
        What was measured.
    samples
        Each the mean time of ``runs`` runs. [s]
    runs, sets
        Runs in a sample; argument sets that they rotate over. [1]
    stopped
        Why there are no more samples: ``"converged"``, ``"time"`` or ``"samples"``.
    """

    point: Point
    samples: tuple[float, ...]
    runs: int
    sets: int
    stopped: str

    @property
    def median(self) -> Median:
        """Middle of the samples. [s]"""
        return median(self.samples)


@dataclass(frozen=True, slots=True)
class Footprint:
    """Memory that a point takes.

    Attributes
    ----------
    sets
        Argument sets. [1]
    numbers, room
        Elements that are read, and that are written, of all sets. [1]
    """

    sets: int
    numbers: int
    room: int

    @property
    def total_bytes(self) -> float:
        """All together. [B]"""
        return float(ITEM_BYTES * (self.numbers + self.room))


def footprint(point: Point, cache_bytes: float, memory_bytes: float = math.inf) -> Footprint:
    """Memory that a point takes: one set if warm, enough to leave nothing cached if cold.

    Parameters
    ----------
    point
        Place in the axes of a probe.
    cache_bytes
        Last-level cache. [B]
    memory_bytes
        What may be taken; fewer sets are made to keep to it, but always one. [B]
    """
    sizes = Sizes()
    arguments = point.probe.arguments(sizes, point.at)
    sets = 1
    if point.state == "cold":
        streamed = sum(sizes.bytes_of(arguments[name]) for name in point.probe.streamed)
        wanted = math.ceil(COLD * cache_bytes / max(1, streamed))
        each = ITEM_BYTES * (sizes.numbers + sizes.room)
        sets = max(1, int(min(wanted, MOST_SETS, memory_bytes / max(1, each))))
    return Footprint(sets, sets * sizes.numbers, sets * sizes.room)


def measure(point: Point, backend: Backend, pool: Pool, stop: Stop) -> Measurement:
    """Time a point until the stop rule is content.

    Parameters
    ----------
    point
        What to measure.
    backend, pool
        Where, and its memory.
    stop
        When to stop.

    Raises
    ------
    MissingEnvironmentError
        The device has no memory left for it.
    """
    try:
        needs = footprint(point, backend.cache_bytes, backend.memory_bytes)
        pool.reserve(needs.numbers, needs.room)
        timer = backend.timer(_launches(point, backend.xp, pool, needs.sets))
        backend.synchronise()
    except MemoryError:
        raise MissingEnvironmentError(
            f"no memory is left for {point.name}", hint="close other programs, or lower --budget"
        ) from None
    timer(1)  # the first run compiles, loads and touches
    once = max(min(timer(1), timer(1)), backend.span_s / MOST_RUNS)
    runs = max(1, math.ceil(backend.span_s / once))
    samples: list[float] = []
    began = time.perf_counter()
    stopped = ""
    while not stopped:
        samples.append(timer(runs))
        stopped = reason(samples, time.perf_counter() - began, stop)
    return Measurement(point, tuple(samples), runs, needs.sets, stopped)


def _launches(point: Point, xp: Any, pool: Pool, sets: int) -> list[Launch]:
    """One launch for each argument set; all share the arguments that are not streamed."""
    shared: Mapping[str, Any] = point.probe.arguments(pool, point.at)
    launches: list[Launch] = [partial(point.probe.launch, xp, **shared)]
    for _ in range(sets - 1):
        fresh = point.probe.arguments(pool, point.at)
        streamed = {name: fresh[name] for name in point.probe.streamed}
        launches.append(partial(point.probe.launch, xp, **{**shared, **streamed}))
    return launches


def run(
    points: list[Point],
    backend: Backend,
    keep: Callable[[Measurement], object],
    *,
    stop: Stop,
    deadline: float = math.inf,
) -> list[Point]:
    """Measure points one after the other and hand each on as soon as it is finished.

    Parameters
    ----------
    points
        In order of importance.
    backend
        Where.
    keep
        Called with each finished measurement.
    stop
        When a point is finished.
    deadline
        On ``time.perf_counter``: no point is begun after it. [s]

    Returns
    -------
    list
        Points that the deadline left out.
    """
    pool = Pool(backend.xp)
    for index, point in enumerate(points):
        if time.perf_counter() >= deadline:
            return points[index:]
        keep(measure(point, backend, pool, stop))
    return []
