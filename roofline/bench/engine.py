"""Measure a point of a probe: argument sets, warm-up, samples until the median is known."""

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from msgspec import Struct

from roofline.bench.backend import ArrayPool, Backend, CaptureError, Launch, Sizes, bytes_of
from roofline.bench.probe import ProbePoint
from roofline.bench.stopping import SLOWED, SampledTimes, Samples, Stop, sample
from roofline.errors import InputError

FILLED: Final[Mapping[str, float]] = {"near": 0.25, "cold": 3.0}
"""Size of all argument sets together over that of the last-level cache: well inside it, or so large
that a set has left it before its turn comes again. [1]"""
MOST_SETS: Final = 1024
MOST_RUNS: Final = 10_000
POOL: Final = 4.0
"""Memory that the pool may keep over that of one point, so that arrays of one number type need not
make room for those of another. [1]"""
TRIES: Final = 4
"""Measurements of a point that others on the device slow down, at most. [1]"""
SPENT: Final = "the budget is spent"
LOST: Final = "the device was lost"
"""Start of the reason why a point has no time, after which the device no longer answered."""
AFTER: Final = "the device had been lost"
"""Reason why the points after that one have none."""
SPARE: Final = 1.05
"""Margin on the runs of a sample that was too short, so that the next one is long enough. [1]"""


@dataclass(frozen=True, slots=True)
class PointTimes(SampledTimes):
    """Times of one point."""

    point: ProbePoint
    """Point that was measured."""
    runs: int
    sets: int
    """Runs in a sample; argument sets that they rotate over. [1]"""


class Footprint(Struct, frozen=True):
    """Memory that a point takes: everything once, and what is streamed in each further set."""

    sets: int
    """Argument sets. [1]"""
    numbers: Mapping[str, int]
    """Elements that are read, of all sets, by number type. [1]"""
    room: int
    """Room for what is written. [B]"""

    @property
    def total_bytes(self) -> float:
        """All together. [B]"""
        return float(bytes_of(self.numbers) + self.room)


def footprint(point: ProbePoint, cache_bytes: float, memory_bytes: float = math.inf) -> Footprint:
    """Memory that a point takes: one set if warm, enough to leave nothing cached if cold.

    Near ones leave a core's own cache and stay in the one that cores share.

    Args:
        point: Place in the axes of a probe.
        cache_bytes: Last-level cache. [B]
        memory_bytes: What may be taken; fewer sets are made to keep to it, but always one. [B]
    """
    sizes, more = Sizes(), Sizes()
    arguments = point.probe.arguments(sizes, point.at)
    for name in point.probe.streamed:
        sizes.make(arguments[name], more)
    sets, streamed = 1, max(1, more.total_bytes)
    if point.state in FILLED:
        wanted = math.ceil(FILLED[point.state] * cache_bytes / streamed)
        room = 1.0 + (memory_bytes - sizes.total_bytes) / streamed
        sets = max(1, int(min(wanted, MOST_SETS, room)))
    numbers = {
        name: count + (sets - 1) * more.numbers.get(name, 0)
        for name, count in sizes.numbers.items()
    }
    return Footprint(sets, numbers, sizes.room + (sets - 1) * more.room)


def measure(point: ProbePoint, backend: Backend, pool: ArrayPool, stop: Stop) -> PointTimes:
    """Time a point until the stop rule is content.

    Raises:
        InputError: The device does not serve that shape.
    """
    needs = footprint(point, backend.cache_bytes, backend.memory_bytes)
    pool.reserve(needs.numbers, needs.room)
    launches = _launches(point, backend, pool, needs.sets)
    replayed = backend.replays
    try:
        found, runs = samples(launches, backend, stop, replayed, point.probe.busy_s)
    except CaptureError:
        replayed = False
        found, runs = samples(launches, backend, stop, replayed, point.probe.busy_s)
    return PointTimes(
        point,
        runs,
        needs.sets,
        reuse=needs.total_bytes,
        samples=found.values,
        stopped=found.stopped,
        dropped=found.dropped,
        clocks=dict(backend.clocks()),
        replayed=replayed,
    )


def samples(
    launches: Sequence[Launch], backend: Backend, stop: Stop, captured: bool, busy_s: float = 0.0
) -> tuple[Samples, int]:
    """Samples of launches in rotation, and the runs in each: as many as the clock can tell.

    Args:
        launches: One for each argument set.
        backend, captured: Where, and whether launches are replayed as a graph.
        stop: When there are enough.
        busy_s: Time that the device is kept at work before the first sample. [s]
    """
    timer = backend.timer(launches, captured=captured)
    backend.synchronise()
    whole, span = len(launches) if backend.whole_rounds else 1, backend.span_s

    def rounded(runs: float) -> int:
        return max(1, math.ceil(runs / whole) * whole)

    timer(1)  # the first run compiles, loads and touches
    once = min(timer(1), timer(1))
    runs = rounded(span / max(once, span / MOST_RUNS)) if span else 1
    # A single run has the start of the device in it: many of them take less time than as many ones.
    while runs > 1 and (took := runs * timer(runs)) < span and runs < MOST_RUNS:
        runs = rounded(min(MOST_RUNS, SPARE * runs * span / max(took, span / MOST_RUNS)))
    busy = 0.0
    while busy < busy_s:
        busy += backend.passes * runs * timer(runs)
    return sample(lambda: timer(runs), backend.slowed, stop, time.perf_counter), runs


def _launches(point: ProbePoint, backend: Backend, pool: ArrayPool, sets: int) -> list[Launch]:
    """One launch for each argument set; all share the arguments that are not streamed."""
    probe, sizes = point.probe, Sizes()
    shared: Mapping[str, Any] = probe.arguments(pool, point.at)
    stand_ins = probe.arguments(sizes, point.at)
    launches = [backend.bind(probe, shared)]
    for _ in range(sets - 1):
        fresh = {name: sizes.make(stand_ins[name], pool) for name in probe.streamed}
        streamed = {name: array for name, array in fresh.items() if array is not None}
        launches.append(backend.bind(probe, {**shared, **streamed}))
    return launches


def run(
    points: list[ProbePoint],
    backend: Backend,
    keep: Callable[[PointTimes], object],
    *,
    stop: Stop,
    deadline: float = math.inf,
) -> list[tuple[ProbePoint, str]]:
    """Measure points one after the other and hand each on as soon as it is finished.

    Where others use the device, a point that they slowed down all the time is handed on as it is,
    and measured again after each point that they let alone, up to `TRIES` times.

    A point that fails is left out with its reason and ends nothing. Where the device no longer
    answers after it, nothing else is begun.

    Args:
        points: In order of importance.
        backend: Where.
        keep: Called with each finished measurement; again with a better one of the same point.
        stop: When a point is finished.
        deadline: On ``time.perf_counter``: no point is begun after it, and none whose kernels would
            still be compiled then. [s]

    Returns:
        list: Points that were left out, and why.
    """
    pool = ArrayPool(backend.xp, POOL * backend.memory_bytes)
    left: list[tuple[ProbePoint, str]] = []
    again: deque[tuple[ProbePoint, int]] = deque()
    lost, built = False, set()

    def tried(point: ProbePoint) -> PointTimes | None:
        nonlocal pool, lost
        try:
            return measure(point, backend, pool, stop)
        except InputError as error:
            left.append((point, error.message))
            return None
        except Exception as error:  # whatever a driver, a library or a probe raises
            reason = reason_of(error)
        try:  # after the error, whose frames hold the old pool: it may be half made
            pool = ArrayPool(backend.xp, POOL * backend.memory_bytes)
            backend.recover()
        except Exception as error:
            lost, reason = True, f"{LOST} after it: {reason}; {reason_of(error)}"
        left.append((point, reason))
        return None

    def retry() -> None:
        point, tries = again.popleft()
        found = tried(point)
        if found is None:
            left.pop()  # its slowed times are kept
        elif found.stopped != SLOWED:
            keep(found)
        elif tries + 1 < TRIES:
            again.append((point, tries + 1))

    for index, point in enumerate(points):
        now = time.perf_counter()
        if now >= deadline:
            return [*left, *((late, SPENT) for late in points[index:])]
        if point.build not in built and now + point.probe.build_s >= deadline:
            left.append((point, SPENT))
            continue
        built.add(point.build)
        found = tried(point)
        if lost:
            return [*left, *((late, AFTER) for late in points[index + 1 :])]
        if found is None:
            continue
        keep(found)
        if found.stopped == SLOWED and backend.shared:
            again.append((point, 1))
        elif again:
            retry()
    while again and time.perf_counter() < deadline:
        retry()
    return left


def reason_of(error: Exception) -> str:
    """Kind of an error and the first line of what it says."""
    if isinstance(error, MemoryError):
        return "no memory is left for it"
    said = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
