"""From probes to a profile in the user's folder, on a GPU that is made up.

Times come from planted constants, by what reaches the driver; the fit must find them again.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roofline.bench import campaign
from roofline.bench.calibrating import fit_records
from roofline.bench.calibrations import find as find_profile
from roofline.bench.forms import columns, form_of, needed
from roofline.bench.gpu.backend import SPAN_S
from roofline.bench.planner import plan
from roofline.bench.probe import LoadedProbe, ProbePoint, find, points, probes
from roofline.bench.profile import FittedProbe, profile, text, write
from roofline.bench.published import of_run
from roofline.bench.records import Records, read_records
from roofline.bench.stopping import Stop
from roofline.cost.kernels.catalog import FORMS
from roofline.errors import DocumentError, RooflineError
from roofline.records import replace
from tests.bench.gpu.fake_gpu import FakeGpu, installed
from tests.bench.gpu.fake_lt import FakeLt
from tests.bench.gpu.planted import H100, HOST_BYTES_PER_S, LINK, PLANTED, seconds
from tests.bench.predicting import predict
from tests.bench.probes import measurement
from tests.cases import cases


def thinned(name: str, most: int = 80) -> LoadedProbe:
    """A shipped probe with fewer values on its longest axis."""
    entry = find(name)
    axes = dict(entry.probe.axes)
    while len(list(points(replace(entry.probe, axes=axes)))) > most:
        longest = max(axes, key=lambda axis: len(axes[axis]))
        axes[longest] = axes[longest][::2]
    return replace(entry, probe=replace(entry.probe, axes=axes))


def measured(
    folder: Path, names: Sequence[str], budget_s: float = 30.0, most: int = 80
) -> campaign.CampaignRun:
    with campaign.place("cupy") as where:
        chosen = [thinned(name, most) for name in names]
        return campaign.measure(where, chosen, budget_s, folder, lambda *_: None)


def fitted(run: campaign.CampaignRun) -> dict[str, FittedProbe]:
    found, _ = fit_records(run.records, of_run(run.records.header.environment))
    return {each.probe: each for each in found}


TOLD = {
    "gemm-bf16": {"compute": 0.01, "memory": 0.01, "knee": 0.05},
    "gemm-fp8": {"compute": 0.01, "memory": 0.01},
    "gemm-fp8-block": {"compute": 0.01, "memory": 0.01},
    "gemm-int8": {"compute": 0.01, "memory": 0.01},
    "w4a16-gemm": {"memory": 0.01, "start": 0.02},
    "copy": {"start": 0.02, "memory": 0.01, "cache": 0.02, "resident": 0.02},
    "read": {"start": 0.02, "memory": 0.01, "cache": 0.02, "resident": 0.02},
    "add-bf16": {"start": 0.02, "memory": 0.02, "cache": 0.03},
    "rmsnorm-bf16": {"start": 0.02, "memory": 0.02, "cache": 0.03},
    "embedding-bf16": {"start": 0.02, "memory": 0.02, "cache": 0.03},
    "flash-prefill": {"launch": 0.03, "memory": 0.05, "block": 0.03},
    "paged-decode": {"launch": 0.05, "memory": 0.02},
    "paged-decode-fp8": {"launch": 0.05, "memory": 0.02},
}
"""Constants that the shapes of a probe tell, and how closely: the prior pulls a little, and between
graphs there is a gap."""
TWINS = cases(("gemm-fp8", "gemm-int8", "read", "add-bf16", "rmsnorm-bf16", "paged-decode-fp8"), ())
"""Probes whose form another of them has as well: measured where all cases run."""


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in TOLD if name not in TWINS])
def test_planted_constants_come_back_through_the_whole_path(
    gpu: FakeGpu, tmp_path: Path, name: str
) -> None:
    run = measured(tmp_path, [name], 600.0, most=160 if name.startswith("paged-decode") else 80)
    assert {row.stopped for row in run.records.rows} == {"converged"}
    found = fitted(run)[name]
    for constant, tolerance in TOLD[name].items():
        planted = PLANTED[found.form][constant]
        assert found.model.constants[constant] == pytest.approx(planted, rel=tolerance), constant
    assert found.errors.median < 0.01
    assert found.datasheet is not None
    assert found.datasheet.median > 10.0 * found.errors.median


@pytest.mark.slow
def test_every_time_is_the_planted_one(gpu: FakeGpu, tmp_path: Path) -> None:
    """Row by row, without a fit: what is measured is what the kernels took."""
    names = ["gemm-fp8", "flash-prefill", "paged-decode", "paged-decode-fp8"]
    names += ["rope-bf16", "silu-mul-bf16"]
    run = measured(tmp_path, names)
    for name in names:
        rows = run.records.of(name)
        entry = find(name).probe
        form = form_of(entry.kind, rows[0].arithmetic, "cupy", entry.form)
        dims = columns(rows, form)
        planted = FORMS[form].seconds(dims, H100.of(rows[0].arithmetic), PLANTED[form])
        times = np.array([row.median.value for row in rows])
        np.testing.assert_allclose(times, planted, rtol=2.0 * gpu.gap_s / SPAN_S)
        assert len(rows) >= 12


def test_copies_of_the_host_are_measured_both_ways_and_fitted_to_nothing(
    gpu: FakeGpu, tmp_path: Path
) -> None:
    run = measured(tmp_path, ["copy-host"])
    assert fit_records(run.records, of_run(run.records.header.environment))[0] == []
    assert len(run.records.rows) == 26
    for row in run.records.rows:
        expected = LINK[row.at["direction"]] + row.at["size"] / HOST_BYTES_PER_S
        assert row.median.value == pytest.approx(expected, rel=0.01)
        assert row.work["activation_bytes"] == row.at["size"]


@pytest.mark.slow
def test_collectives_of_eight_gpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gpu = FakeGpu(seconds, devices=8)
    installed(monkeypatch, gpu)
    names = ["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "send-recv"]
    run = measured(tmp_path, names, most=120)
    assert run.records.header.environment["link"] == "nvlink"
    found = fitted(run)
    for name in names:
        assert found[name].errors.p90 < 0.01
        planted = PLANTED[found[name].form]
        for constant in ("start_0", "efficiency_1", "efficiency_2"):
            value = found[name].model.constants[constant]
            assert value == pytest.approx(planted[constant], rel=0.03), (name, constant)
    published = of_run(run.records.header.environment)
    made = profile(run.records, list(found.values()), published)
    row = run.records.of("all-reduce")[17]
    told = predict(made, [(ProbePoint(find("all-reduce").probe, row.at, "warm"), 2.0)])
    assert told.seconds == pytest.approx(2.0 * row.median.value, rel=0.02)
    largest = max(run.records.of("send-recv"), key=lambda row: row.at["payload"])
    assert largest.median.value > largest.at["payload"] / H100.link_bytes_per_s


@pytest.mark.slow
def test_a_profile_is_written_and_found_again_and_predicts_the_same(
    gpu: FakeGpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOFLINE_HOME", str(tmp_path / "home"))
    names = ["gemm-bf16", "gemm-fp8", "copy"]
    run = measured(tmp_path / "run", names)
    published = of_run(run.records.header.environment)
    fits, _ = fit_records(run.records, published)
    made = profile(run.records, fits, published)
    assert made.name == "cupy-h100-sxm"
    write(made, tmp_path / "home" / "calibrations" / f"{made.name}.yaml")
    again = find_profile("cupy-h100-sxm")
    assert text(again) == text(made)
    assert again.rates["fp8"] == pytest.approx(2.0 * again.rates["bf16"], rel=1e-3)
    assert again.machine.l2_bytes_per_s == pytest.approx(made.machine.l2_bytes_per_s, rel=1e-4)
    for row in run.records.rows[::7]:
        point = ProbePoint(find(row.probe).probe, row.at, "cold" if row.state == "cold" else "warm")
        told = predict(again, [(point, 1.0)])
        assert told.seconds == pytest.approx(row.median.value, rel=0.03)
        assert told.basis == "interpolated"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (" bf16: 989.400 TFLOP/s", " bf16: 989.4 TB", "FLOP/s"),
        ("  cache_rate: ", "  cache_rate: fast ", "is not a quantity"),
        ("    form: memory", "    form: memories", "there is no form 'memories'"),
        ("      resident: {value: 0.", "      resident: {value: 9.", "resident cannot be"),
    ],
)
def test_a_gpu_s_profile_that_says_something_else_is_refused_at_its_place(
    gpu: FakeGpu, tmp_path: Path, old: str, new: str, said: str
) -> None:
    run = measured(tmp_path / "run", ["copy"])
    published = of_run(run.records.header.environment)
    fits, _ = fit_records(run.records, published)
    written = text(profile(run.records, fits, published))
    assert old in written, written[:2000]
    path = tmp_path / "c.yaml"
    path.write_text(written.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(RooflineError, match=r"c\.yaml:\d+:\d+") as caught:
        find_profile(str(path))
    assert said in str(caught.value)


@pytest.mark.slow
def test_a_run_that_is_killed_loses_no_finished_point(
    gpu: FakeGpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = [thinned("gemm-bf16"), thinned("copy")]

    def killed(index: int, *_: Any) -> None:
        if index == 23:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), campaign.place("cupy") as where:
        campaign.measure(where, chosen, 30.0, tmp_path, killed)
    before = {row.point: row.samples for row in read_records(tmp_path).rows}
    assert len(before) == 23
    run = measured(tmp_path, ["gemm-bf16", "copy"])
    after = {row.point: row.samples for row in run.records.rows}
    assert len(after) > len(before)
    assert {point: after[point] for point in before} == before


@pytest.mark.slow
def test_clocks_are_kept_with_every_point_and_slow_samples_put_aside(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = iter([0x00, *[0x04] * 5])
    installed(
        monkeypatch,
        FakeGpu(seconds),
        nvmlDeviceGetCurrentClocksEventReasons=lambda handle: next(asked, 0),
        nvmlDeviceGetTemperature=lambda handle, sensor: 61,
    )
    run = measured(tmp_path, ["rope-bf16"])
    first = run.records.rows[0]
    assert sum(sum(row.dropped.values()) for row in run.records.rows) == 5
    assert first.dropped == {"power cap": 5}
    assert len(first.samples) == 10
    assert first.clocks == {
        "sm_hz": 1700e6,
        "memory_hz": 2619e6,
        "power_w": 650.0,
        "temperature_c": 61.0,
        "others": 0.0,
    }


@pytest.mark.slow
def test_a_plan_of_three_minutes_covers_every_regime_and_keeps_to_them(gpu: FakeGpu) -> None:
    every = [entry.probe for entry in probes() if "cupy" in entry.probe.backends]
    budget_s, stop = 160.0, Stop(budget_s=0.03)
    with campaign.place("cupy") as where:
        found = plan(every, where.backend, where.published.of, budget_s, stop)
        able = [p for probe in every for p in points(probe) if not where.backend.refusal(p)]
    assert 0.9 * budget_s < found.seconds <= budget_s
    regimes = {(point.probe.name, point.regime) for point in able}
    assert {(point.probe.name, point.regime) for point in found.points} == regimes
    counts = Counter(point.probe.name for point in found.points)
    for name in {point.probe.name for point in able}:
        probe = find(name).probe
        wanted = needed(form_of(probe.kind, probe.arithmetic, "cupy", probe.form))
        assert counts[name] >= min(wanted, len([p for p in able if p.probe.name == name]) - 4)


@pytest.mark.slow
def test_what_a_budget_had_no_time_for_is_listed(gpu: FakeGpu, tmp_path: Path) -> None:
    with campaign.place("cupy") as where:
        run = campaign.measure(where, probes(), 3.0, tmp_path, lambda *_: None)
    measured_points = {row.point for row in run.records.rows}
    dropped = {entry.point.name: entry.reason for entry in run.dropped}
    every = [e.probe for e in probes() if "cupy" in e.probe.backends]
    names = {point.name for probe in every for point in points(probe)}
    assert measured_points | set(dropped) == names
    assert not measured_points & set(dropped)
    listed = (tmp_path / campaign.LEFT_OUT).read_text(encoding="utf-8").splitlines()
    assert sorted(listed) == sorted(f"{name}: {reason}" for name, reason in dropped.items())
    assert dropped["all-reduce ranks=2 payload=1024 warm"] == "it takes 2 GPUs, there is 1"


@pytest.mark.slow
def test_what_the_library_does_not_have_is_left_out_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gpu = FakeGpu(seconds)
    library = installed(monkeypatch, gpu)
    library.refused = frozenset({"int8"})
    run = measured(tmp_path, ["gemm-int8", "copy"])
    assert {row.probe for row in run.records.rows} == {"copy"}
    reasons = [entry.reason for entry in run.dropped if entry.point.probe.name == "gemm-int8"]
    others = ("does not fit into memory", "takes about", "the budget is spent")
    without = [reason for reason in reasons if not reason.startswith(others)]
    assert all("cuBLASLt has no int8 product of m = " in reason for reason in without)
    assert len(without) > 40


@pytest.mark.slow
def test_what_cannot_be_captured_is_timed_as_the_host_launches_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And the record says so."""
    gpu = FakeGpu(seconds)
    installed(monkeypatch, gpu)
    run = measured(tmp_path / "graphs", ["rope-bf16"])
    assert {row.replayed for row in run.records.rows} == {True}
    with campaign.place("cupy") as where:
        gpu.refuses_capture = True
        short = [replace(entry := thinned("rope-bf16"), probe=replace(entry.probe, axes=FEW))]
        run = campaign.measure(
            replace(where, noise=lambda: None), short, 30.0, tmp_path / "launches", lambda *_: None
        )
    (row,) = run.records.rows
    assert not row.replayed
    assert row.median.value == pytest.approx(gpu.launch_s)


@pytest.mark.slow
def test_everything_is_given_back(
    gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    library: FakeLt = installed(monkeypatch, gpu)
    measured(tmp_path, ["gemm-bf16", "gemm-fp8"])
    assert library.made == {}


@pytest.mark.slow
def test_records_of_a_gpu_are_read_where_there_is_none(gpu: FakeGpu, tmp_path: Path) -> None:
    run = measured(tmp_path, ["copy"])
    published = of_run(read_records(tmp_path).header.environment)
    assert published == H100_ALONE
    unknown = {**run.records.header.environment, "datasheet": "h900"}
    with pytest.raises(DocumentError, match="published rates of the run are not here"):
        of_run(unknown)


FEW = {"m": (1,), "heads head_dim": ((8, 128),)}
H100_ALONE = replace(H100, link_bytes_per_s=0.0, in_switch=False)


@pytest.mark.slow
def test_a_probe_without_rows_is_a_note(gpu: FakeGpu, tmp_path: Path) -> None:
    run = measured(tmp_path, ["all-reduce", "copy"])
    _, notes = fit_records(run.records, H100)
    assert notes == ["Memory was measured with ECC on.", "all-reduce was not measured."]
    some = Records(run.records.header, run.records.rows[:5])
    _, notes = fit_records(some, H100)
    assert any(note.startswith("copy is measured, not fitted: ") for note in notes)


def test_a_measurement_without_clocks_is_still_one() -> None:
    assert measurement(next(points(find("copy").probe))).clocks == {}
