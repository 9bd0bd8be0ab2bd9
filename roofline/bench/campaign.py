"""A calibration from end to end: where it runs, what it measures, what comes of it."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roofline.bench import atomic, clock, environment, processor
from roofline.bench.backend import Backend
from roofline.bench.clock import Noise
from roofline.bench.engine import Measurement, run
from roofline.bench.planner import SPENT, Dropped, plan
from roofline.bench.probe import Loaded, points
from roofline.bench.recorder import begin
from roofline.bench.records import Records, read_records
from roofline.bench.stopping import Stop
from roofline.content import home
from roofline.cost.kernels.form import Machine
from roofline.errors import DocumentError, MissingEnvironmentError
from roofline.units import parse

LEFT_OUT: Final = "left-out.txt"
"""Lists the points that were not measured, one a line, with the reason."""
RESERVE_S: Final = 20.0
"""For loading, noise and fitting, out of the budget; assumed."""
RESERVE_SHARE: Final = 0.2
"""Most of the budget that is kept for those."""
LEAST_SHARE: Final = 0.4
"""Of the time, that a machine which others use too is expected to give."""
SAMPLING: Final = 0.5
"""Share of the measuring time that goes into samples of points that do not converge."""
LEAST_S: Final = parse("20 ms", "s")
MOST_S: Final = parse("300 ms", "s")
"""Bounds of the time for one point."""

Progress = Callable[[int, int, Measurement], object]
"""Told of each finished point: which, of how many, and its times."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where probes run.

    Attributes
    ----------
    backend
        Runs and times them.
    machine, datasheet
        Published rates, and whose they are.
    environment
        What the times depend on besides the probes.
    noise
        Looks how calm the machine is.
    """

    backend: Backend
    machine: Machine
    datasheet: str
    environment: Mapping[str, str]
    noise: Callable[[], Noise | None]


@dataclass(frozen=True, slots=True)
class Run:
    """What a campaign measured.

    Attributes
    ----------
    records
        Read back from the disk.
    dropped
        What was not measured, and why.
    before, after
        Noise; None where it is not looked for.
    seconds
        How long it took. [s]
    """

    records: Records
    dropped: tuple[Dropped, ...]
    before: Noise | None
    after: Noise | None
    seconds: float


def numpy_place() -> Place:
    """NumPy in this process."""
    here = processor.detect()
    backend = clock.backend(here)
    kind = "processor" if backend.threads == 1 else "wall"
    return Place(
        backend,
        processor.machine(here, backend.threads),
        processor.GENERIC,
        environment.describe(here, backend.threads, kind),
        lambda: clock.noise(backend),
    )


PLACES: Final[Mapping[str, Callable[[], Place]]] = {"numpy": numpy_place}


def place(backend: str) -> Place:
    """Where a backend runs.

    Raises
    ------
    MissingEnvironmentError
        It is not to be had here.
    """
    if backend not in PLACES:
        raise MissingEnvironmentError(
            f"the backend {backend} cannot run here", hint=f"use one of {', '.join(PLACES)}"
        )
    return PLACES[backend]()


def published(records: Records) -> tuple[Machine, str]:
    """Published rates for the machine of a run, wherever it is read, and whose they are.

    Raises
    ------
    DocumentError
        Its environment does not say what machine it was.
    """
    about = records.header.environment
    try:
        machine = processor.machine(
            processor.Processor(
                about["processor"],
                int(about["cores"]),
                float(about["cache"]),
                float(about["memory"]),
            ),
            int(about["threads"]),
        )
    except (KeyError, ValueError) as error:
        raise DocumentError(
            f"the environment of the run is incomplete: {error}", hint="measure again"
        ) from None
    return machine, processor.GENERIC


def folder_for(place: Place) -> Path:
    """New folder for the records of a run, by machine and time."""
    about = place.environment
    stamp = "".join(c for c in about["date"] if c.isalnum())
    return home() / "records" / f"{place.backend.name}-{about['machine']}-{stamp}"


def stop_for(probes: Sequence[Loaded], budget_s: float) -> Stop:
    """Stop rule that leaves time for all points. Source: the budget, divided."""
    count = sum(1 for entry in probes for _ in points(entry.probe))
    share = SAMPLING * budget_s / max(1, count)
    return Stop(budget_s=min(MOST_S, max(LEAST_S, share)))


def measure(
    where: Place, probes: Sequence[Loaded], budget_s: float, folder: Path, progress: Progress
) -> Run:
    """Plan a budget, measure, and read the records back.

    Parameters
    ----------
    where
        They run.
    probes
        To cover.
    budget_s
        For measuring and what comes after. [s]
    folder
        For the records; a run that was cut short there is gone on with.
    progress
        Told of each finished point.

    Raises
    ------
    DocumentError
        What is in the folder cannot be gone on with.
    """
    began = time.perf_counter()
    recorder = begin(folder, where.backend.name, where.environment, probes)
    before = where.noise()
    rest = budget_s - min(RESERVE_S, RESERVE_SHARE * budget_s)
    mine = rest * max(LEAST_SHARE, 1.0 - before.taken) if before else rest
    stop = stop_for(probes, mine)
    chosen = plan([entry.probe for entry in probes], where.backend, where.machine, mine, stop)
    # A plan is cautious: what it had no time for comes last, and is measured if there is some.
    spare = [entry.point for entry in chosen.dropped if entry.reason == SPENT]
    waiting = [p for p in (*chosen.points, *spare) if p.name not in recorder.done]
    finished = 0

    def keep(measurement: Measurement) -> None:
        nonlocal finished
        finished += 1
        recorder.keep(measurement)
        progress(finished, len(waiting), measurement)

    left = run(waiting, where.backend, keep, stop=stop, deadline=began + rest)
    after = where.noise()
    never = [entry for entry in chosen.dropped if entry.reason != SPENT]
    dropped = (*never, *(Dropped(point, SPENT) for point in left))
    _list(dropped, folder)
    return Run(
        read_records(folder, {entry.probe.name: entry for entry in probes}),
        dropped,
        before,
        after,
        time.perf_counter() - began,
    )


def _list(dropped: Sequence[Dropped], folder: Path) -> None:
    """Write down what was left out, beside the records."""
    lines = [f"{entry.point.name}: {entry.reason}\n" for entry in dropped]
    atomic.write(folder / LEFT_OUT, "".join(lines).encode())
