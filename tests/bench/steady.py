"""A processor whose times follow a law: nothing that is measured on it hangs on this machine."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any, Final

import numpy as np
import pytest

from roofline.bench import campaign
from roofline.bench.backend import Launch, ProbePlace, Timer
from roofline.bench.capacity import HAD
from roofline.bench.clock import MachineNoise
from roofline.bench.probe import Probe
from roofline.bench.published import Processor, of_processor
from tests.bench.probes import Clockwork

TOY: Final = Processor("Toy", 1, 2.0**20, 2.0**30)
CALL_S: Final = 1e-6
BYTES_PER_S: Final = 2e10
FLOPS_PER_S: Final = 5e10
SCATTER: Final = (1.0, 1.01, 0.99)


def seconds(arguments: Mapping[str, Any]) -> float:
    """Time of a launch: its calls, and its traffic or its product, whichever takes longer. [s]"""
    arrays = [value for value in arguments.values() if isinstance(value, np.ndarray)]
    traffic = sum(array.nbytes for array in arrays) / BYTES_PER_S
    weight, product = arguments.get("weight"), 0.0
    if isinstance(weight, np.ndarray) and weight.ndim == 2:
        product = 2.0 * len(arguments["out"]) * weight.size / FLOPS_PER_S
    return float(arguments.get("calls", 1) * CALL_S + max(traffic, product))


@dataclass(frozen=True, slots=True)
class Lasting:
    """A launch that only takes its time. [s]"""

    seconds: float

    def __call__(self) -> None:
        """Nothing is computed."""


@dataclass
class Steady(Clockwork):
    """Puts a clock forward by the time of each launch."""

    now: float = 0.0

    def bind(self, probe: Probe, arguments: Mapping[str, Any]) -> Launch:
        return Lasting(seconds(arguments))

    def timer(self, launches: Sequence[Launch], *, captured: bool = True) -> Timer:
        turn, scatter = cycle(launches), cycle(SCATTER)

        def mean(runs: int) -> float:
            took = sum(each.seconds for each in islice(turn, runs) if isinstance(each, Lasting))
            took *= next(scatter)
            self.now += took
            return took / runs

        return mean


@contextmanager
def steady() -> Iterator[None]:
    """NumPy runs on such a processor, whose clock is everybody's."""
    backend = Steady(cache_bytes=TOY.cache_bytes, memory_bytes=2.0**26, span_s=3e-4)
    about = {**campaign.describe(TOY, 1, "processor"), HAD: str(int(TOY.cache_bytes))}
    where = ProbePlace(
        backend,
        of_processor(TOY, 1),
        about,
        lambda: MachineNoise(0.0, 0.0, 0.0),
        "Toy, 1 thread(s)",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(campaign, "numpy_place", lambda: where)
        patch.setattr(time, "perf_counter", lambda: backend.now)
        yield
