"""Campaigns on a GPU that fails: what is lost is what failed, and the time is kept.

The clock is the GPU's own, with the host's share of a point added: nothing here waits.
"""

import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from roofline.bench import campaign
from roofline.bench.engine import AFTER, LOST, SPENT
from roofline.bench.planner import ProbePlan, plan
from roofline.bench.probe import LoadedProbe, find, points, probes
from roofline.records import replace
from tests.bench.gpu.fake_gpu import FakeDriverError, FakeGpu, installed
from tests.bench.gpu.fake_nvml import NvmlError
from tests.bench.gpu.planted import seconds
from tests.cases import cases

FAULTS: Final = cases(120, 1000)
RATES: Final = {
    "allocate": 0.03,
    "launch": 0.004,
    "product": 0.01,
    "wait": 0.003,
    "capture": 0.002,
    "throttle": 0.012,
    "silence": 0.012,
}
"""Chance that a device fails where it could, until `FAULTS` faults have struck."""
BUDGET_S: Final = 0.6 * FAULTS
LETHAL: Final = ("allocate", "launch", "product", "wait")
"""Faults that a point does not survive; without a graph, without a driver that answers it does."""
SOME: Final = ("gemm-bf16", "paged-decode", "flash-prefill", "rope-bf16", "copy")
OTHERS: Final = ("gemm-fp8", "rmsnorm-bf16", "silu-mul-bf16", "add-bf16", "embedding-bf16")
NAMES: Final = cases(SOME, SOME + OTHERS)
ERRORS: Final = ("no memory is left", "FakeDriverError", "LibraryError")
EIGHT_MINUTES_S: Final = 480.0
LONG_S: Final = 1e-3
"""Graphs that take longer are held down by the power limit. [s]"""
HOST_S: Final = 0.012
"""Time that the host takes for a point: arguments, graphs, a file. [s]"""


@dataclass
class Faults:
    """Strikes at random, and not again before something new is begun."""

    left: int = FAULTS
    chance: random.Random = field(default_factory=lambda: random.Random(7))
    struck: Counter[str] = field(default_factory=Counter)
    resting: bool = False

    def __call__(self, where: str) -> bool:
        if self.resting and where in LETHAL:
            self.resting = where in ("wait", "allocate")
            return False
        if not self.left or self.chance.random() >= RATES[where]:
            return False
        self.left -= 1
        self.struck[where] += 1
        self.resting = where in LETHAL
        if where == "allocate":
            raise MemoryError("out of memory")
        if where in ("launch", "wait", "capture"):
            raise FakeDriverError(f"cudaErrorUnknown at {where}")
        return True


def alone(gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> list[LoadedProbe]:
    """Probes, on the clock of that GPU."""
    monkeypatch.setattr(time, "perf_counter", lambda: gpu.now)
    return [find(name) for name in NAMES]


def measured(
    chosen: list[LoadedProbe], gpu: FakeGpu, budget_s: float, folder: Path
) -> campaign.CampaignRun:
    def told(*_: Any) -> None:
        gpu.now += HOST_S

    with campaign.place("cupy") as where:
        return campaign.measure(replace(where, noise=lambda: None), chosen, budget_s, folder, told)


@pytest.mark.slow
def test_a_campaign_survives_random_faults(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    faults = Faults()

    def reasons(handle: int) -> int:
        if faults("silence"):
            raise NvmlError("GPU is lost for a moment")
        return 0x04 if faults("throttle") else 0

    gpu = FakeGpu(seconds, fill_bytes_per_s=2e11)
    installed(monkeypatch, gpu, nvmlDeviceGetCurrentClocksEventReasons=reasons)
    chosen = alone(gpu, monkeypatch)
    every = {point.name for entry in chosen for point in points(entry.probe)}
    gpu.strikes = faults
    run = measured(chosen, gpu, BUDGET_S, tmp_path)
    assert faults.left == 0
    assert all(faults.struck[where] > 0.01 * FAULTS for where in RATES)
    kept = {row.point for row in run.records.rows}
    failed = [entry for entry in run.dropped if entry.reason.startswith(ERRORS)]
    lost = {entry.point.name for entry in failed}
    # What strikes while a graph is made costs the graph, not the point.
    assert 0.2 * FAULTS < len(lost) <= sum(faults.struck[where] for where in LETHAL)
    others = [entry for entry in run.dropped if entry.point.name not in lost]
    assert SPENT not in {entry.reason for entry in others}
    assert kept | lost | {entry.point.name for entry in others} == every
    assert not kept & lost
    assert any(not row.replayed for row in run.records.rows)
    assert any(row.dropped == {"power cap": 1} for row in run.records.rows)
    assert run.seconds <= BUDGET_S
    told = f"{sum(faults.struck.values())} faults, {len(lost)} points failed, {len(kept)} kept"
    gone = len(every) - len(kept) - len(lost) - len(others)
    told += f", {len(others)} left out, {gone} lost; {run.seconds:.0f} s of {BUDGET_S:.0f}"
    sys.stdout.write(f"\n{told}\n")
    again = measured(chosen, gpu, BUDGET_S, tmp_path)
    assert {row.point for row in again.records.rows} == kept | lost


@pytest.mark.slow
def test_a_lost_device_ends_a_campaign_and_its_point_comes_last_when_it_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gpu = FakeGpu(seconds)
    installed(monkeypatch, gpu)
    chosen = [entry for entry in alone(gpu, monkeypatch) if entry.probe.name == "rope-bf16"]
    began: list[str] = []

    def dead(where: str) -> bool:
        if len(began) >= 5:
            raise FakeDriverError("cudaErrorIllegalAddress: an illegal memory access")
        return False

    def counted(*_: Any) -> None:
        began.append("")

    gpu.strikes = dead
    with campaign.place("cupy") as where:
        quiet: Callable[[], None] = lambda: None  # noqa: E731  # typed, for replace
        run = campaign.measure(replace(where, noise=quiet), chosen, 60.0, tmp_path, counted)
    assert len(run.records.rows) == 5
    reasons = [entry.reason for entry in run.dropped]
    fatal = run.dropped[0].point.name
    assert reasons[0].startswith(f"{LOST} after it: FakeDriverError: cudaErrorIllegalAddress")
    assert set(reasons[1:]) == {AFTER}
    gpu.strikes = lambda where: False
    run = measured(chosen, gpu, 60.0, tmp_path)
    assert [row.point for row in run.records.rows][-1] == fatal
    assert not [entry for entry in run.dropped if entry.reason == AFTER]


@pytest.mark.slow
def test_a_campaign_takes_the_time_that_was_planned(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On a device whose times scatter and which large products take to its limit.

    Every other probe takes part, or every probe.
    """
    gpu = FakeGpu(seconds, fill_bytes_per_s=2e11, jitter=0.03)
    limit: dict[str, Any] = {
        "nvmlDeviceGetCurrentClocksEventReasons": lambda _: 0x04 * (gpu.took_s > LONG_S)
    }
    installed(monkeypatch, gpu, **limit)
    monkeypatch.setattr(time, "perf_counter", lambda: gpu.now)
    plans: list[ProbePlan] = []

    def planned(*arguments: Any) -> ProbePlan:
        plans.append(plan(*arguments))
        return plans[-1]

    monkeypatch.setattr(campaign, "plan", planned)
    chosen = [entry for entry in probes() if "cupy" in entry.probe.backends][:: cases(2, 1)]
    run = measured(chosen, gpu, EIGHT_MINUTES_S, tmp_path)
    took = f"planned {plans[0].seconds:.0f} s, took {run.seconds:.0f} s"
    sys.stdout.write(f"\n{took} of {EIGHT_MINUTES_S:.0f}\n")
    assert 0.6 * plans[0].seconds < run.seconds < plans[0].seconds <= EIGHT_MINUTES_S
    able = {entry.probe.name for entry in chosen if not entry.probe.needs}
    able -= {"all-reduce", "all-gather", "reduce-scatter", "all-to-all", "send-recv"}
    assert {row.probe for row in run.records.rows} == able
    assert SPENT not in {entry.reason for entry in run.dropped}
