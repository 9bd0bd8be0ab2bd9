"""CuPy as a place where probes run; see `roofline.bench.backend.Backend`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any, Final

from roofline.bench.backend import Launch, Timer
from roofline.bench.gpu.device import Device
from roofline.bench.gpu.timer import SPAN_S, Graphs

MEMORY_SHARE: Final = 0.5
"""Of what is free, for probes."""


@dataclass(frozen=True, slots=True)
class CupyBackend:
    """Probes on a GPU."""

    xp: Any
    cache_bytes: float
    memory_bytes: float
    graphs: Graphs
    span_s: float = SPAN_S
    name: str = "cupy"

    def timer(self, launches: Sequence[Launch]) -> Timer:
        """Times runs of these launches in rotation, whole rounds of them.

        As a graph where they can be captured. What cannot (CuPy's cuBLAS) is timed with the gaps
        between its launches.
        """
        found: dict[int, Any] = {}

        def graph(rounds: int) -> Any:
            if rounds not in found:
                with self.graphs.stream:
                    for launch in launches:
                        launch()
                try:
                    found[rounds] = self.graphs.captured(list(launches) * rounds)
                except RuntimeError:
                    found[rounds] = None
            return found[rounds]

        def mean(runs: int) -> float:
            rounds = math.ceil(runs / len(launches))
            count = rounds * len(launches)
            captured = graph(rounds)
            if captured is not None:
                return self.graphs.replay(captured) / count

            def all_of_them() -> None:
                for launch in islice(cycle(launches), count):
                    launch()

            return self.graphs.seconds(all_of_them) / count

        return mean

    def synchronise(self) -> None:
        """Wait until everything launched is done."""
        self.xp.cuda.Device().synchronize()


def backend(device: Device) -> CupyBackend:
    """Probes on that device."""
    free, _ = device.cupy.cuda.runtime.memGetInfo()
    return CupyBackend(device.cupy, device.sku.l2_bytes, MEMORY_SHARE * free, Graphs(device.cupy))
