"""Many configurations at once: a scenario priced chunk by chunk, and what is kept of it."""

import hashlib
import random
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from roofline.api.lanes import ScenarioLanes
from roofline.bench.calibrations import find, own_files
from roofline.bench.engine_profiles import shipped_profile
from roofline.cost.measured import AUTO, NONE
from roofline.errors import InputError, RooflineError
from roofline.hardware.catalog import gpu, node
from roofline.hardware.engine import engine, engine_on
from roofline.model.catalog import architecture
from roofline.records import replace
from roofline.sources import Sources, record, recorded
from roofline.study.executors import Name, cores
from roofline.study.executors import executor as executing
from roofline.study.grounds import PRICES
from roofline.study.pointwise import why
from roofline.study.pricing import TOGETHER, Pricing, chunk_size
from roofline.study.rows import columns
from roofline.study.scenario.crossing import grid_of
from roofline.study.scenario.reading import read_scenario, scenario_named
from roofline.study.scenario.scenario import Scenario
from roofline.study.store.chunk import Chunk, count
from roofline.study.store.folder import Progress, SweepTask, gather, run
from roofline.study.store.parts import encode
from roofline.study.sweep.keep import ALL, FEASIBLE
from roofline.study.sweep_result import BestRows, Sweep

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLED: Final = 2**14
"""Points of a lane that are priced to say how long all would take."""
FEW: Final = 8
"""The same where each is priced by itself."""
NEIGHBOURS: Final = 16
"""Lanes that are timed together, where the kernels of several are looked up at once."""
REASONS: Final = 200
"""Lanes that are looked at to say why some cannot be, or how long they take."""
ENOUGH_S: Final = 0.3
"""Time from which on what was timed is no noise. [s]"""
LEAST: Final = 3
"""Times that something is timed at least."""
_KEEP: Final = re.compile(r"all|feasible|pareto|top-[1-9][0-9]{0,8}")


class SweepEstimate(Struct, frozen=True):
    """Size of a sweep, before it is run."""

    scenario: Scenario
    """Scenario that was asked for."""
    configurations: int
    lanes: int
    points: int
    chunks: int
    """Numbers of each. [1]"""
    seconds: float
    """All of it, from a sample. [s]"""
    bytes: float
    """Size of the result, from what is kept of some lanes. [B]"""


def sweep(
    scenario: str | Path | Scenario,
    *,
    out: str | Path | None = None,
    keep: str = "",
    executor: Name = "local",
    workers: int | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
) -> Sweep:
    """Price every configuration of a scenario and keep what is asked for.

    Args:
        scenario: Name in the catalog, a YAML file, or a scenario.
        out: Folder of the result; one that holds an interrupted run of the same scenario is gone on
            with. None keeps nothing on the disk.
        keep: ``"all"``, ``"feasible"``, ``"pareto"`` or ``"top-K"``; empty for what the scenario
            says.
        executor, workers: ``"local"`` or ``"ray"``, and how many chunks at once; None for one on
            each core.
        progress: Told after each chunk.

    Raises:
        RooflineError: Anything the user can mend.
    """
    asked = _scenario(scenario, keep)
    pricing = _pricing(asked)
    task = _task(asked, pricing, _sources(asked))
    runner = executing(executor, _workers(executor, workers, task))
    if out is None:
        kept, counts = gather(task, runner, progress)
        return Sweep(
            asked, len(pricing.grid), len(kept), counts, _reasons(pricing, counts), _kept=kept
        )
    done = run(Path(out), task, runner, progress)
    reasons = _reasons(pricing, done.tally)
    return Sweep(asked, len(pricing.grid), done.rows, done.tally, reasons, done.result)


def estimate(
    scenario: str | Path | Scenario, *, keep: str = "", workers: int | None = None
) -> SweepEstimate:
    """Say how large a sweep is and how long it would take, from pricing some of it.

    Lanes at random are timed once each, with some of their neighbours as in the sweep, until that
    took long enough to be no noise; lanes with more points than are timed of each, by what more
    points of one add.
    That workers start is left out: a second or two.
    """
    asked = _scenario(scenario, keep)
    grid = _pricing(asked).grid
    size = chunk_size(asked, grid)
    chunks = count(len(grid), size)
    some = min(grid.points, SAMPLED if size > SAMPLED else FEW)
    beside = 0
    if size > SAMPLED and some == grid.points:
        beside = min(size // grid.points, grid.lanes, NEIGHBOURS) - 1
    starts = range(grid.lanes - beside)
    order = random.Random(0).sample(starts, min(len(starts), REASONS))
    cold_s, _ = _timed(asked, order[-1], some)  # what is read or compiled for all counts once
    took, written = [], []
    for lane in order:
        seconds, part = _timed(asked, lane, some, beside)
        took.append(seconds / (1 + beside))
        written.append(len(encode(part)[0]) / (1 + beside))
        if sum(took) * (1 + beside) >= ENOUGH_S and len(took) >= LEAST:
            break
    lane_s = mean(took) + _point_s(asked, order[0], some, grid.points) * (grid.points - some)
    return SweepEstimate(
        asked,
        len(grid),
        grid.lanes,
        grid.points,
        chunks,
        max(cold_s - lane_s, 0.0) + lane_s * grid.lanes / min(workers or cores(), chunks),
        mean(written) * grid.lanes * (grid.points / some if asked.keep in (ALL, FEASIBLE) else 1.0),
    )


def _point_s(scenario: Scenario, lane: int, some: int, points: int) -> float:
    """Time that a point more of a lane takes: of so many more that it is no noise. [s]"""
    if some == points:
        return 0.0
    many, long = some, 0.0
    while many < min(points, TOGETHER) and long < ENOUGH_S:
        many = min(4 * many, points, TOGETHER)
        long = _least(scenario, lane, many)
    short = _least(scenario, lane, some)
    return (long - short) / (many - some) if long > short else long / many


def _least(scenario: Scenario, lane: int, points: int) -> float:
    """The least of a few times that some points of a lane take. [s]"""
    return min(_timed(scenario, lane, points)[0] for _ in range(LEAST))


def _timed(scenario: Scenario, lane: int, points: int, beside: int = 0) -> "tuple[float, pa.Table]":
    """Time that some points of a lane take with lanes beside it, and what is kept of them. [s]"""
    pricing = _pricing(scenario)
    start = lane * pricing.grid.points
    begun = time.perf_counter()
    table = pricing(Chunk(0, start, start + beside * pricing.grid.points + points))
    return time.perf_counter() - begun, table


def _scenario(asked: str | Path | Scenario, keep: str) -> Scenario:
    """The scenario, with what is kept as it was asked for."""
    if isinstance(asked, Path):
        asked = read_scenario(asked)
    elif isinstance(asked, str):
        asked = scenario_named(asked)
    if not keep:
        return asked
    if not _KEEP.fullmatch(keep):
        raise InputError(
            f"keep is {keep!r:.40}", hint="it is all, feasible, pareto, or top-20 for the best 20"
        )
    return replace(asked, keep=keep)


def _pricing(scenario: Scenario) -> Pricing:
    if scenario.calibration not in (AUTO, NONE):
        find(scenario.calibration)  # one that is not there is no reason of single lanes
    lanes = ScenarioLanes(scenario)
    return Pricing(scenario, grid_of(scenario, lanes.found), lanes)


def _workers(executor: Name, asked: int | None, task: SweepTask) -> int | None:
    """Workers on this machine: no more than there are chunks, as each takes a while to start."""
    if executor != "local" or (asked is not None and asked < 1):
        return asked
    return min(asked or cores(), count(task.configurations, task.chunk_size))


def _task(scenario: Scenario, pricing: Pricing, sources: Sources) -> SweepTask:
    # What was asked, and the bytes of the files that it is about.
    said = [scenario.said, scenario.keep, *sorted(sources.digests.values())]
    return SweepTask(
        scenario=hashlib.sha256(" ".join(said).encode()).hexdigest(),
        configurations=len(pricing.grid),
        chunk_size=chunk_size(scenario, pricing.grid),
        work=pricing,
        inputs=sources.named(Path(scenario.source).parent),
        changed=sources.changed,
        reduction=None
        if scenario.keep in (ALL, FEASIBLE)
        else BestRows(scenario.keep, scenario.objectives, scenario.each),
        units={name: unit for name, unit in columns(scenario).items() if unit},
        metadata={
            "name": scenario.name,
            "title": scenario.title,
            "about": scenario.about,
            "of": scenario.kind,
            "keep": scenario.keep,
            "each": list(scenario.each),
            "objectives": [str(each) for each in scenario.objectives],
            "constraints": {each.column: str(each) for each in scenario.limits},
            "configurations": len(pricing.grid),
            "engine_costs": _engine_costs(scenario),
            "unpriced": _unpriced(scenario),
        },
    )


def _unpriced(scenario: Scenario) -> list[str]:
    """Machines without a price, where one is asked for; InputError where nothing else is."""
    cost, asked = "usd_per_mtok", {each.column for each in scenario.objectives}
    if cost not in asked:
        return []
    lanes = ScenarioLanes(scenario)
    found = [
        name
        for name in scenario.machines
        if not all(lanes.machine(name, patch)[0].usd_per_hour for patch in scenario.patches)
    ]
    if len(found) == len(scenario.machines) and asked == {cost}:
        raise InputError(
            f"no price is known for {', '.join(found)}, and the one objective is {cost}",
            hint=f"give {PRICES}",
        )
    return found


def _sources(scenario: Scenario) -> Sources:
    """Files that the answer is made from, beside those that are installed, read once more.

    The workers read them again: a network of a folder, a machine of a file, the user's own
    calibrations.
    """
    lanes, patch = ScenarioLanes(scenario), scenario.patches[0]
    techniques = [*scenario.techniques, *(each.technique for each in scenario.patches)]
    with recorded() as found:
        for model in scenario.models:
            architecture(model.model)
        devices = [lanes.machine(name, patch)[0] for name in scenario.machines]
        for each in techniques:
            if each and each.disaggregation and each.disaggregation.gpu:
                devices.append(gpu(each.disaggregation.gpu))
            if each and each.speculation:
                with suppress(RooflineError):  # a draft's own word, or a reason of its lanes
                    architecture(each.speculation.draft)
        for path in {p for each in devices for p in own_files(scenario.calibration, each)}:
            record(path, path.read_bytes())
    earlier = scenario.sources
    return Sources(earlier.digests | found.digests, earlier.stamps | found.stamps)


def _engine_costs(scenario: Scenario) -> dict[str, dict[str, str | float]]:
    """Overheads of engines by name, as far as they were fitted and are those of every device."""
    if scenario.calibration == "none":
        return {}
    names = sorted({*scenario.engines, *(each.engine for each in scenario.patches if each.engine)})
    gpus = [node(name).gpu if scenario.nodes else gpu(name) for name in scenario.machines]
    kinds = {each.architecture for each in gpus}
    every = {name: {shipped_profile(engine_on(name, each)) for each in kinds} for name in names}
    known = {name: found.pop() for name, found in every.items() if len(found) == 1}
    return {
        name: {
            "title": engine(name).title,
            "step_s": costs.step_s,
            "sequence_s": costs.sequence_s,
            "prefill_s": costs.prefill_s,
        }
        for name, costs in known.items()
        if costs.step_s
    }


def _reasons(pricing: Pricing, counts: Mapping[str, int]) -> tuple[str, ...]:
    """Why lanes cannot be, as far as a few of them show it."""
    if not {"layout", "format", "deployment", "technique"} & set(counts):
        return ()
    grid = pricing.grid
    point = {name: int(values[0]) for name, values in grid.numbers(0, 1).items()}
    out = []
    for number in range(min(grid.lanes, REASONS)):
        lane = pricing.lanes(grid.lane(number))
        out.append(lane.reason)
        if lane.deployment is not None and not lane.technique.simple:
            out.append(why(lane, **point))
    return tuple(reason for reason in dict.fromkeys(out) if reason)
