"""A campaign from end to end: its place, its measurements, and their records.

A place is this processor with NumPy, or a GPU with CuPy.
"""

import platform
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec import Struct

from roofline.bench import clock
from roofline.bench.backend import Disturbances, ProbePlace
from roofline.bench.capacity import HAD
from roofline.bench.engine import LOST, PointTimes, reason_of, run
from roofline.bench.planner import SPENT, DroppedPoint, plan
from roofline.bench.probe import LoadedProbe, points
from roofline.bench.published import Processor, detect, of_processor
from roofline.bench.recorder import begin
from roofline.bench.records import Records, read_records
from roofline.bench.stopping import Stop
from roofline.content import home, there
from roofline.errors import InputError, MissingEnvironmentError, RooflineError
from roofline.files import output
from roofline.records import replace
from roofline.units import parse

LEFT_OUT: Final = "left-out.txt"
"""Lists the points that were not measured, one a line, with the reason."""
RESERVE_S: Final = 20.0
"""Time for loading, noise and fitting, out of the budget; assumed."""
RESERVE_SHARE: Final = 0.2
"""Most of the budget that is kept for those."""
FIT_S: Final = 1.5
"""Time for the fit of a probe; assumed."""
LEAST_SHARE: Final = 0.4
"""Share of the time that a machine which others use too is expected to give."""
SAMPLING: Final = 0.5
"""Share of the measuring time that goes into samples of points that do not converge."""
LEAST_S: Final = parse("8 ms", "s")
MOST_S: Final = parse("300 ms", "s")
"""Bounds of the time for one point."""
SHORT_S: Final = parse("30 ms", "s")
FEWEST: Final = 6
"""Samples of a point that has less time than that: the fewest whose median has an interval
(`roofline.bench.stopping.median`)."""

Progress = Callable[[int, int, PointTimes], object]
"""Told of each finished point: which, of how many, and its times."""


def describe(processor: Processor, threads: int, clock: str) -> dict[str, str]:
    """Machine, libraries, clock (``"processor"`` or ``"wall"``) and date of runs with NumPy."""
    return {
        "machine": processor.name,
        "processor": processor.title,
        "cores": str(processor.cores),
        "cache": str(int(processor.cache_bytes)),
        "memory": str(int(processor.memory_bytes)),
        "threads": str(threads),
        "clock": clock,
        "blas": blas(),
        "numpy": np.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def blas() -> str:
    """BLAS library that NumPy was built with."""
    config: Any = np.show_config(mode="dicts")
    found = (config or {}).get("Build Dependencies", {}).get("blas", {})
    return f"{found.get('name', 'unknown')} {found.get('version', '')}".strip()


def numpy_place() -> ProbePlace:
    """NumPy in this process."""
    here = detect()
    backend = clock.backend(here)
    kind = "processor" if backend.threads == 1 else "wall"
    return ProbePlace(
        backend,
        of_processor(here, backend.threads),
        {**describe(here, backend.threads, kind), HAD: str(round(backend.cache_bytes))},
        lambda: clock.noise(backend),
        f"{here.title}, {backend.threads} thread(s)",
    )


def place(backend: str, name: str = "") -> AbstractContextManager[ProbePlace]:
    """Place where a backend runs; entering it takes the device.

    Args:
        backend: ``"numpy"`` or ``"cupy"``.
        name: GPU whose published rates apply, if it is not to be recognised.

    Raises:
        InputError: A GPU is named, and the backend has none.
        MissingEnvironmentError: It is not to be had here.
    """
    if backend == "cupy":
        from roofline.bench.gpu.place import cupy_place

        return cupy_place(name)
    if backend != "numpy":
        raise MissingEnvironmentError(
            f"the backend {backend} cannot run here", hint="use one of numpy, cupy"
        )
    if name:
        raise InputError(
            f"NumPy does not run on {name}", hint="leave `gpu` out, or add `backend=cupy`"
        )
    return nullcontext(numpy_place())


def chosen() -> tuple[str, str]:
    """Backend to take if none is named, and why: a GPU where there is one and CuPy reaches it."""
    from roofline.bench.gpu.environment import require_device

    try:
        require_device()
    except MissingEnvironmentError as error:
        return "numpy", f"no GPU is measured: {error.message}; {error.hint}"
    return "cupy", "there is a GPU, and CuPy reaches it"


class CampaignRun(Struct, frozen=True):
    """Measurements of a campaign."""

    records: Records
    """Read back from the disk."""
    dropped: tuple[DroppedPoint, ...]
    """Points that were not measured, and why."""
    before: Disturbances | None
    after: Disturbances | None
    """Noise; None where it is not looked for."""
    seconds: float
    """Duration. [s]"""


def folder_for(place: ProbePlace) -> Path:
    """New folder for the records of a run, by machine and time."""
    about = place.environment
    stamp = "".join(c for c in about["date"] if c.isalnum())
    return home() / "records" / f"{place.backend.name}-{about['machine']}-{stamp}"


def stop_for(probes: Sequence[LoadedProbe], budget_s: float) -> Stop:
    """Stop rule that leaves time for all points. Source: the budget, divided."""
    count = sum(1 for entry in probes for _ in points(entry.probe))
    share = SAMPLING * budget_s / max(1, count)
    samples = Stop() if share >= SHORT_S else Stop(least=FEWEST)
    return replace(samples, budget_s=min(MOST_S, max(LEAST_S, share)))


def measure(
    where: ProbePlace,
    probes: Sequence[LoadedProbe],
    budget_s: float,
    folder: Path,
    progress: Progress,
) -> CampaignRun:
    """Plan a budget, measure, and read the records back.

    Args:
        where: Place where they run.
        probes: To cover.
        budget_s: For measuring and what comes after. [s]
        folder: For the records; a run that was cut short there is gone on with.
        progress: Told of each finished point.

    Raises:
        DocumentError: What is in the folder cannot be gone on with.
        MissingEnvironmentError: The device does not work at all.
    """
    began = time.perf_counter()
    probes = [entry for entry in probes if where.backend.name in entry.probe.backends]
    recorder = begin(folder, where.backend.name, where.environment, probes)
    before = _noise(where)
    rest = budget_s - min(max(RESERVE_S, FIT_S * len(probes)), RESERVE_SHARE * budget_s)
    lost = min(before.lost, 1.0 - LEAST_SHARE) if before else 0.0
    # Where others use the device, it is better to come back than to wait.
    stop = replace(
        stop_for(probes, rest * (1.0 - lost)),
        patience=1 if where.backend.shared else Stop().patience,
    )
    wanted = [entry.probe for entry in probes]
    # Points come in order of importance: what others leave no time for is the least loss. A plan is
    # cautious: what it had no time for comes last, and is measured if there is some.
    planned = plan(wanted, where.backend, where.published.of, rest, stop, lost)
    spare = [entry.point for entry in planned.dropped if entry.reason == SPENT]
    waiting = [p for p in (*planned.points, *spare) if p.name not in recorder.done]
    fatal = _fatal(folder)
    waiting.sort(key=lambda point: point.name in fatal)
    finished = 0

    def keep(measurement: PointTimes) -> None:
        nonlocal finished
        finished += measurement.point.name not in recorder.done
        recorder.keep(measurement)
        progress(finished, len(waiting), measurement)

    # Where looking for noise took most of a short budget, something is measured all the same.
    deadline = max(began + rest, time.perf_counter() + LEAST_SHARE * rest)
    left = run(waiting, where.backend, keep, stop=stop, deadline=deadline)
    gone = any(reason.startswith(LOST) for _, reason in left)
    after = None if gone else _noise(where)
    never = [entry for entry in planned.dropped if entry.reason != SPENT]
    dropped = (*never, *(DroppedPoint(point, reason) for point, reason in left))
    _list(dropped, folder)
    return CampaignRun(
        read_records(folder, {entry.probe.name: entry for entry in probes}),
        dropped,
        before,
        after,
        time.perf_counter() - began,
    )


def _noise(where: ProbePlace) -> Disturbances | None:
    """Noise of the machine; None where it is not looked for.

    Raises:
        MissingEnvironmentError: Not even that can be run on it.
    """
    try:
        return where.noise()
    except RooflineError:
        raise
    except Exception as error:
        raise MissingEnvironmentError(
            f"nothing can be measured on {where.title}: {reason_of(error)}",
            hint="close other programs on it; nvidia-smi shows them",
        ) from error


def _fatal(folder: Path) -> set[str]:
    """Points after which the device was lost before: they come last, so that the rest is had."""
    if not there(folder / LEFT_OUT):
        return set()
    lines = (folder / LEFT_OUT).read_text(encoding="utf-8").splitlines()
    parts = [line.partition(": ") for line in lines]
    return {name for name, _, reason in parts if reason.startswith(LOST)}


def _list(dropped: Sequence[DroppedPoint], folder: Path) -> None:
    """Write down what was left out, beside the records."""
    lines = [f"{entry.point.name}: {entry.reason}\n" for entry in dropped]
    with output(folder / LEFT_OUT, folders=True, links=False) as file:
        file.write("".join(lines).encode())
