"""Measure a point of a probe: argument sets, warm-up, samples until the median is known."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from roofline.bench.backend import Backend, Launch, Pool, Sizes, bytes_of
from roofline.bench.probe import Point
from roofline.bench.stopping import Median, Stop, median, sample
from roofline.errors import InputError, MissingEnvironmentError

COLD: Final = 3.0
"""Times the cache that argument sets fill together, so that none is left when its turn comes."""
MOST_SETS: Final = 1024
MOST_RUNS: Final = 10_000
POOL: Final = 4.0
"""Times the memory of a point that the pool may keep, so that numbers of one type need not make
room for those of another."""
SPENT: Final = "the budget is spent"


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
        Why there are no more samples: ``"converged"``, ``"time"``, ``"samples"``, or ``"slowed"``
        where the clock was held down all the time.
    dropped
        Samples that do not count, by the reason for which the clock was held down. [1]
    clocks
        Clocks, power and temperature right after, as the backend tells them.
    """

    point: Point
    samples: tuple[float, ...]
    runs: int
    sets: int
    stopped: str
    dropped: Mapping[str, int] = field(default_factory=dict)
    clocks: Mapping[str, float] = field(default_factory=dict)

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
    numbers
        Elements that are read, of all sets, by number type. [1]
    room
        What is written. [B]
    """

    sets: int
    numbers: Mapping[str, int]
    room: int

    @property
    def total_bytes(self) -> float:
        """All together. [B]"""
        return float(bytes_of(self.numbers) + self.room)


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
        sets = max(1, int(min(wanted, MOST_SETS, memory_bytes / max(1, sizes.total_bytes))))
    numbers = {name: sets * count for name, count in sizes.numbers.items()}
    return Footprint(sets, numbers, sets * sizes.room)


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
    InputError
        The device does not serve that shape.
    MissingEnvironmentError
        The device has no memory left for it.
    """
    try:
        needs = footprint(point, backend.cache_bytes, backend.memory_bytes)
        pool.reserve(needs.numbers, needs.room)
        launches = _launches(point, backend, pool, needs.sets)
        timer = backend.timer(launches, captured=point.probe.captured)
        backend.synchronise()
    except MemoryError:
        raise MissingEnvironmentError(
            f"no memory is left for {point.name}", hint="close other programs, or lower --budget"
        ) from None
    timer(1)  # the first run compiles, loads and touches
    once = max(min(timer(1), timer(1)), backend.span_s / MOST_RUNS)
    runs = max(1, math.ceil(backend.span_s / once))
    if backend.whole_rounds:
        runs = math.ceil(runs / needs.sets) * needs.sets
    if runs > 1:
        timer(runs)
    found = sample(lambda: timer(runs), backend.slowed, stop)
    return Measurement(
        point, found.values, runs, needs.sets, found.stopped, found.dropped, dict(backend.clocks())
    )


def _launches(point: Point, backend: Backend, pool: Pool, sets: int) -> list[Launch]:
    """One launch for each argument set; all share the arguments that are not streamed."""
    probe = point.probe
    shared: Mapping[str, Any] = probe.arguments(pool, point.at)
    launches = [backend.bind(probe, shared)]
    for _ in range(sets - 1):
        fresh = probe.arguments(pool, point.at)
        streamed = {name: fresh[name] for name in probe.streamed}
        launches.append(backend.bind(probe, {**shared, **streamed}))
    return launches


def run(
    points: list[Point],
    backend: Backend,
    keep: Callable[[Measurement], object],
    *,
    stop: Stop,
    deadline: float = math.inf,
) -> list[tuple[Point, str]]:
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
        Points that were left out, and why: the deadline, or a shape that is not served.
    """
    pool = Pool(backend.xp, POOL * backend.memory_bytes)
    left: list[tuple[Point, str]] = []
    for index, point in enumerate(points):
        if time.perf_counter() >= deadline:
            return [*left, *((late, SPENT) for late in points[index:])]
        try:
            keep(measure(point, backend, pool, stop))
        except InputError as error:
            left.append((point, error.message))
    return left
