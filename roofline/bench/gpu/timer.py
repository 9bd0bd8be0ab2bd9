"""Time of launches on a GPU: graphs of launches between two events.

A graph of launches is replayed as one, so that the host's part is paid once per graph and not per
launch.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from roofline.bench.backend import Launch
from roofline.units import parse

SPAN_S: Final = parse("200 µs", "s")
"""Least time between two events: they resolve half a microsecond, and between two graphs there is
a gap of about one."""
MILLISECOND: Final = parse("1 ms", "s")


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
