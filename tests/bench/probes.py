"""A backend without a clock of its own, and probes for it: nothing here depends on the machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from roofline.bench.backend import ArrayPool, Launch, Sizes, Timer, missing
from roofline.bench.engine import PointTimes
from roofline.bench.probe import LoadedProbe, Maker, Probe, ProbePoint, Shape
from roofline.cost.work import Work

LAUNCHED: list[Any] = []
"""First argument of every launch of `probe`."""


def arguments(make: Maker, at: Shape) -> dict[str, Any]:
    return {"x": make.normal(at["size"]), "kept": make.normal(64), "out": make.empty(at["size"])}


def launch(xp: Any, x: Any, kept: Any, out: Any) -> None:
    LAUNCHED.append((x.ctypes.data, kept.ctypes.data))
    xp.copyto(out, x)


def probe(name: str = "toy", version: int = 1, sizes: Sequence[int] = (64, 256, 1024)) -> Probe:
    return Probe(
        name=name,
        version=version,
        kind="pointwise",
        axes={"size": sizes},
        arguments=arguments,
        launch=launch,
        work=lambda at: Work(activation_bytes=8.0 * at["size"]),
        streamed=("x", "out"),
        states=("warm", "cold"),
        regime=lambda at: "small" if at["size"] < 100 else "large",
    )


def made(found: Probe, at: Shape, xp: Any = np) -> dict[str, Any]:
    """Arguments of one run of a probe, in memory of their own."""
    sizes, pool = Sizes(), ArrayPool(xp)
    found.arguments(sizes, at)
    pool.reserve(sizes.numbers, sizes.room)
    return dict(found.arguments(pool, at))


def loaded(found: Probe) -> LoadedProbe:
    return LoadedProbe(found, Path(f"{found.name}.py"), "0123456789abcdef")


@dataclass
class Clockwork:
    """Runs launches and says that each took a microsecond, or what it is told."""

    times: Sequence[float] = (1e-6,)
    cache_bytes: float = 4096.0
    memory_bytes: float = 2.0**24
    span_s: float = 0.0
    fill_bytes_per_s: float = 2e9
    whole_rounds: bool = False
    replays: bool = False
    passes: int = 1
    shared: bool = False
    name: str = "numpy"
    xp: Any = np
    held: Sequence[str] = ()
    asked: list[int] = field(default_factory=list)

    def refusal(self, point: ProbePoint) -> str:
        return missing(point.probe)

    def bind(self, probe: Probe, arguments: Mapping[str, Any]) -> Launch:
        return partial(probe.launch, self.xp, **arguments)

    def slowed(self) -> tuple[str, ...]:
        return tuple(self.held)

    def clocks(self) -> Mapping[str, float]:
        return {"sm_hz": 1.98e9}

    def timer(self, launches: Sequence[Launch], *, captured: bool = True) -> Timer:
        turn = 0

        def mean(runs: int) -> float:
            nonlocal turn
            for _ in range(runs):
                launches[turn % len(launches)]()
                turn += 1
            self.asked.append(runs)
            return self.times[len(self.asked) % len(self.times)]

        return mean

    def synchronise(self) -> None:
        pass

    def recover(self) -> None:
        pass


def measurement(point: ProbePoint, *samples: float, stopped: str = "converged") -> PointTimes:
    times = samples or (2.0, 1.0, 3.0)
    return PointTimes(point, samples=times, runs=1, sets=1, reuse=1024.0, stopped=stopped)
