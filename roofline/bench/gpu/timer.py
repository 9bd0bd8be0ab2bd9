"""How long a launch takes on a GPU: graphs of launches between two events, until the median holds.

A graph of launches is replayed as one, so that the host's part is paid once per graph and not per
launch. Its argument sets are visited in turn: one set finds its data in the cache (warm); enough
to fill the cache three times find nothing there (cold).
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from roofline.bench.backend import Launch
from roofline.bench.stopping import Median, Stop, median, sample
from roofline.units import parse

COLD: Final = 3.0
"""Times the cache that argument sets fill together."""
SPAN_S: Final = parse("200 µs", "s")
"""Least time between two events: they resolve half a microsecond, and between two graphs there is
a gap of about one."""
WARM_UP: Final = 3
"""Replays that are not looked at."""
MILLISECOND: Final = parse("1 ms", "s")


@dataclass(frozen=True, slots=True)
class Timing:
    """Samples of one launch.

    Args:
        samples: Each the mean time of a launch over `runs` launches. [s]
        runs, sets: Launches in a sample, and argument sets that they rotate over. [1]
        stopped: Why there are no more, as of `roofline.bench.stopping.Samples`.
        dropped: Samples that do not count, by the reason for which the clock was held down. [1]
    """

    samples: tuple[float, ...]
    runs: int
    sets: int
    stopped: str
    dropped: tuple[tuple[str, int], ...] = ()

    @property
    def median(self) -> Median:
        """Middle of the samples. [s]"""
        return median(self.samples)


def argument_sets(cache_bytes: float, set_bytes: float) -> int:
    """Sets of arguments that a cold launch needs.

    Args:
        cache_bytes: Last-level cache. [B]
        set_bytes: What one launch reads and writes. [B]

    Examples:
        >>> argument_sets(50.0, 40.0), argument_sets(50.0, 200.0)
        (4, 1)
    """
    return max(1, math.ceil(COLD * cache_bytes / set_bytes))


class Graphs:
    """Captures launches and times their replay, on a stream of its own."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self._events = cupy.cuda.Event(), cupy.cuda.Event()

    def captured(self, launches: Iterable[Launch]) -> Any:
        """Launches as one graph; whatever they compile or allocate once must have been before."""
        with self.stream:
            self.stream.synchronize()
            self.stream.begin_capture()
            try:
                for launch in launches:
                    launch()
            finally:
                graph = self.stream.end_capture()
        return graph

    def seconds(
        self, work: Callable[[], object], ahead: Callable[[], object] | None = None
    ) -> float:
        """Time between an event before and one after what `work` puts on the stream. [s]

        What is put `ahead` of the first event keeps the device at work while the host prepares
        the rest: an idle device would start late, and the event have passed before.
        """
        began, ended = self._events
        with self.stream:
            if ahead is not None:
                ahead()
            began.record(self.stream)
            work()
            ended.record(self.stream)
        ended.synchronize()
        return MILLISECOND * float(self._cupy.cuda.get_elapsed_time(began, ended))

    def replay(self, graph: Any) -> float:
        """Time of a graph that follows itself. [s]"""
        return self.seconds(lambda: graph.launch(self.stream), lambda: graph.launch(self.stream))


def measure(
    graphs: Graphs,
    launches: Sequence[Launch],
    *,
    slowed: Callable[[], tuple[str, ...]] = tuple,
    stop: Stop | None = None,
    span_s: float = SPAN_S,
) -> Timing:
    """Time launches in rotation, one for each argument set.

    Args:
        graphs: Of the device.
        launches: Each puts its kernels on CuPy's current stream and allocates nothing; one is timed
            warm, `argument_sets` of them cold.
        slowed: Why the clock is held down, as `roofline.bench.gpu.nvml.Monitor.slowed` says.
        stop: When the median is known well enough.
        span_s: Least time between two events. [s]
    """
    with graphs.stream:
        for launch in launches:
            launch()
    rounds = list(launches)
    graph = graphs.captured(rounds)
    for _ in range(WARM_UP):
        graphs.replay(graph)
    repeat = math.ceil(span_s / graphs.replay(graph))
    if repeat > 1:  # a graph of more launches, not more graphs: between graphs there is a gap
        rounds *= repeat
        graph = graphs.captured(rounds)
        graphs.replay(graph)
    runs = len(rounds)
    found = sample(lambda: graphs.replay(graph) / runs, slowed, stop or Stop())
    dropped = tuple(sorted(found.dropped.items()))
    return Timing(found.values, runs, len(launches), found.stopped, dropped)
