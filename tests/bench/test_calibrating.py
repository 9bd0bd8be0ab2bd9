"""Forms on a processor: planted constants come back, and a calibration file tells all of it."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from roofline.bench.calibrating import fit_probe, fit_records
from roofline.bench.calibrations import find as find_profile
from roofline.bench.clock import OTHERS
from roofline.bench.engine import PointTimes
from roofline.bench.probe import ProbePoint, find, points
from roofline.bench.profile import FittedProbe, Profile, profile, text, write
from roofline.bench.profile_file import load
from roofline.bench.published import PublishedRates
from roofline.bench.records import WORK, Record, Records, RunHeader
from roofline.cost.kernels.form import Machine, seconds
from roofline.cost.kernels.processor import FORMS, OF_KIND
from roofline.errors import DocumentError, MissingRateError, UnknownNameError
from roofline.records import replace
from tests.bench.predicting import dims_of, naive, predict, touched

MACHINE = Machine(128e9, 307.2e9, 2.0**25, 0.0, 1.0)
PUBLISHED = PublishedRates("cpu-generic", MACHINE)
PLANTED: Mapping[str, Mapping[str, float]] = {
    "gemm": {
        "start": 4e-6,
        "read": 22e9,
        "memory": 30e9,
        "row": 2e-8,
        "packing": 7e9,
        "unpacked": 12e9,
        "hiding": 50.0,
        "sweep": 60e9,
        "compute": 90e9,
    },
    "decode-attention": {
        "start": 9e-6,
        "call": 3e-7,
        "read": 18e9,
        "memory": 30e9,
        "packing_keys": 4e9,
        "packing_values": 9e9,
        "score": 4e-10,
        "compute": 50e9,
    },
    "prefill-attention": {
        "start": 9e-6,
        "call": 2e-6,
        "row": 9e-8,
        "score": 2e-9,
        "miss": 5e-10,
        "capacity": 2e7,
        "compute": 80e9,
    },
    "rmsnorm": {
        "start": 7e-6,
        "row": 3e-8,
        "cache": 13e9,
        "shared": 20e9,
        "memory": 6e9,
        "capacity": 2e6,
    },
    "copy": {
        "start": 2e-6,
        "row": 1e-8,
        "cache": 90e9,
        "shared": 40e9,
        "memory": 25e9,
        "capacity": 1e6,
    },
}
REUSE: Mapping[str, float] = {"near": 2.0**23, "cold": 3 * 2.0**25}
"""Touched between two uses, by state. [B]"""


def planted(name: str, noise: float = 0.0) -> list[Record]:
    """Rows of a shipped probe whose times follow its form exactly, or nearly."""
    found, rows = find(name).probe, []
    form = FORMS[OF_KIND[found.kind]]
    random = np.random.default_rng(1)
    for point in points(found):
        dims = dims_of(point, reuse=REUSE.get(point.state, 0.0))
        time = float(form.seconds(dims, MACHINE, PLANTED[name])[0])
        time *= float(np.exp(random.normal(0.0, noise)))
        work = found.work(point.at)
        rows.append(
            Record(
                point.name,
                found.name,
                found.kind,
                point.state,
                point.regime,
                found.arithmetic,
                point.at,
                {key: float(getattr(work, key)) for key in WORK},
                reuse=float(dims["reuse"][0]),
                samples=(time,),
                stopped="converged",
            )
        )
    return rows


WEAK = {
    "rmsnorm": {"row", "capacity", "memory"},
    "copy": {"row"},
    "decode-attention": {"score"},
    "prefill-attention": {"call"},
}
"""Constants that the shapes of a probe hardly tell: they weigh little in any of its times."""


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_the_fit_recovers_planted_constants(name: str) -> None:
    found = fit_probe(planted(name), PUBLISHED, 1, "numpy")
    for constant, value in PLANTED[name].items():
        if constant not in WEAK.get(name, ()):
            assert found.model.constants[constant] == pytest.approx(value, rel=0.1), constant
    assert found.errors.median < 0.01
    assert found.datasheet is not None
    assert found.datasheet.median > 10 * found.errors.median


@pytest.mark.slow
def test_a_kind_without_a_form_of_its_own_is_fitted_as_a_roofline() -> None:
    rows = [
        replace(row, kind="scan", samples=(5e-6 + row.work["flops"] / 60e9 + traffic(row) / 12e9,))
        for row in planted("gemm")
    ]
    found = fit_probe(rows, PUBLISHED, 1, "numpy")
    assert found.form == "processor-roof"
    assert found.model.constants["compute"] == pytest.approx(60e9, rel=0.05)
    assert found.model.constants["memory"] == pytest.approx(12e9, rel=0.05)


def traffic(row: Record) -> float:
    return sum(value for name, value in row.work.items() if name != "flops")


@pytest.mark.slow
def test_noise_in_the_times_widens_the_interval_and_not_the_constants() -> None:
    quiet, noisy = (fit_probe(planted("gemm", n), PUBLISHED, 1, "numpy") for n in (0.01, 0.1))
    assert noisy.model.spread > 3 * quiet.model.spread
    for constant in ("read", "packing", "compute"):
        value = PLANTED["gemm"][constant]
        assert noisy.model.constants[constant] == pytest.approx(value, rel=0.15)
    assert 0.6 <= noisy.inside <= 0.95


def header(*names: str) -> RunHeader:
    environment = {"machine": "toy", "processor": "Toy", "threads": "1", "date": "2025-01-01"}
    return RunHeader.model_validate(
        {
            "schema_version": 2,
            "run": "0123456789",
            "provider": "numpy",
            "environment": environment,
            "probes": {name: {"version": 1, "code": "x"} for name in names},
        }
    )


@pytest.fixture(scope="module")
def found() -> Profile:
    rows = [*planted("gemm", 0.05), *planted("rmsnorm", 0.02), *planted("decode-attention", 0.05)]
    records = Records(header("gemm", "rmsnorm", "decode-attention", "call"), tuple(rows))
    fits, notes = fit_records(records, PUBLISHED)
    assert notes == ["call was not measured."]
    return profile(records, fits, PUBLISHED)


def test_too_few_rows_are_a_note_and_no_fit() -> None:
    rows = planted("gemm")[:9]
    fits, notes = fit_records(Records(header("gemm"), tuple(rows)), PUBLISHED)
    assert fits == []
    assert notes[0].startswith("gemm is measured, not fitted: ")


@pytest.mark.slow
def test_rows_that_others_slowed_down_count_only_where_there_are_too_few_others() -> None:
    rows = planted("rmsnorm")
    slow = [
        replace(row, samples=(3.0 * row.samples[0],), stopped="slowed", dropped={OTHERS: 20})
        for row in rows[::6]
    ]
    mixed = [slow[i // 6] if i % 6 == 0 else row for i, row in enumerate(rows)]
    (fitted,), _ = fit_records(Records(header("rmsnorm"), tuple(mixed)), PUBLISHED)
    assert fitted.model.rows == len(rows) - len(slow)
    assert fitted.model.constants["start"] == pytest.approx(7e-6, rel=0.1)
    few = [*slow, *rows[1:15:1]]
    every = [*few, *(replace(row, stopped="slowed", dropped={OTHERS: 20}) for row in rows[15:])]
    (fitted,), _ = fit_records(Records(header("rmsnorm"), tuple(every)), PUBLISHED)
    assert fitted.model.rows == len(every)


@pytest.mark.slow
def test_a_clock_that_a_driver_held_down_is_the_device_s_own() -> None:
    rows = [replace(row, stopped="slowed", dropped={"power cap": 20}) for row in planted("rmsnorm")]
    (fitted,), _ = fit_records(Records(header("rmsnorm"), tuple(rows)), PUBLISHED)
    assert fitted.model.rows == len(rows)


@pytest.mark.slow
def test_a_calibration_survives_its_file(found: Profile, tmp_path: Path) -> None:
    write(found, tmp_path / "c.yaml")
    again = load(tmp_path / "c.yaml")
    assert text(again) == text(found)
    for name, fitted in found.fits.items():
        rows = [dims_of(point) for point in points(find(name).probe)]
        for dims in rows:
            before = seconds(fitted.model, dims, found.machine)
            after = seconds(again.fits[name].model, dims, again.machine)
            np.testing.assert_allclose(after, before, rtol=1e-4)
    assert again.machine == found.machine
    assert again.environment == found.environment


@pytest.mark.slow
def test_a_person_can_read_a_calibration(found: Profile) -> None:
    written = text(found)
    assert "GB/s, meaning: 'weights that are packed, in the last-level cache'}" in written
    assert "GFLOP/s, meaning: multiplies and adds of large products}" in written


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("schema_version: 1", "schema_version: 7", "schema_version"),
        ("form: processor-product", "form: processor-prodct", "there is no form"),
        ("      packing:", "      paking:", "missing"),
        ("    rows: ", "    rows: -", "'fits.gemm.rows' must be at least 1"),
        ("      coordinates: [m, n, k]", "      coordinates: [m, k, n]", "coordinates of gemm"),
        ("      low: [0.0, ", "      low: [", "2 numbers are here, and 3 are needed"),
        ("provider: numpy", "provider: numpy\nsurprise: 1", "surprise"),
        ("    spreads: {", "    spreads: {x: 1.0, ", "spreads.x"),
        ("      datasheet: [", "      datasheet: [] # [", "datasheet"),
    ],
)
def test_a_calibration_that_says_something_else_is_refused_at_its_place(
    found: Profile, tmp_path: Path, old: str, new: str, said: str
) -> None:
    written = text(found)
    assert old in written, old
    path = tmp_path / "c.yaml"
    path.write_text(written.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(DocumentError) as caught:
        load(path)
    assert said in caught.value.message
    assert caught.value.where.startswith(f"{path}:")
    assert caught.value.where.count(":") == 2


def test_a_constant_outside_its_bounds_is_refused_at_its_place(
    found: Profile, tmp_path: Path
) -> None:
    compute = {**found.fits["gemm"].model.constants, "compute": 1e15}
    model = replace(found.fits["gemm"].model, constants=compute)
    fits: dict[str, FittedProbe] = {"gemm": replace(found.fits["gemm"], model=model)}
    write(replace(found, fits=fits), tmp_path / "c.yaml")
    with pytest.raises(DocumentError, match=r"c.yaml:\d+:\d+: compute cannot be 1.00 PFLOP/s"):
        load(tmp_path / "c.yaml")


def test_the_user_s_own_calibrations_come_first(
    found: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOFLINE_HOME", str(tmp_path))
    write(found, tmp_path / "calibrations" / f"{found.name}.yaml")
    assert find_profile(found.name).digest == found.digest
    with pytest.raises(UnknownNameError) as caught:
        find_profile("none")
    assert found.name in caught.value.hint


def test_kernels_in_a_row_take_the_sum_and_spread_less_than_one(found: Profile) -> None:
    gemm = ProbePoint(find("gemm").probe, {"m": 100, "n": 700, "k": 700}, "cold")
    norm = ProbePoint(find("rmsnorm").probe, {"m": 100, "width": 700}, "warm")
    one, other = predict(found, [(gemm, 1.0)]), predict(found, [(norm, 3.0)])
    both = predict(found, [(gemm, 1.0), (norm, 3.0)])
    assert both.seconds == pytest.approx(one.seconds + other.seconds)
    assert both.log_sd < max(one.log_sd, other.log_sd)
    twice = predict(found, [(gemm, 2.0)])
    assert twice.log_sd == pytest.approx(one.log_sd)
    low, high = both.interval
    assert low < both.seconds < high


def test_shapes_between_those_measured_are_interpolated(found: Profile) -> None:
    probe = find("gemm").probe
    inside = ProbePoint(probe, {"m": 100, "n": 700, "k": 700}, "cold")
    outside = ProbePoint(probe, {"m": 100, "n": 10**6, "k": 700}, "cold")
    assert predict(found, [(inside, 1.0)]).basis == "interpolated"
    beyond = predict(found, [(outside, 1.0)])
    assert beyond.basis == "extrapolated"
    assert beyond.log_sd > predict(found, [(inside, 1.0)]).log_sd


def test_what_a_step_touches_between_two_uses_is_its_weights_and_caches() -> None:
    gemm = ProbePoint(find("gemm").probe, {"m": 3, "n": 100, "k": 50}, "cold")
    norm = ProbePoint(find("rmsnorm").probe, {"m": 3, "width": 100}, "warm")
    heads = {"count": 2, "heads": 4, "kv_heads": 2, "head_dim": 8, "context": 10}
    attention = ProbePoint(find("decode-attention").probe, heads, "cold")
    weights, gain, cache = 4 * 100 * 50, 4 * 100, 4 * 2 * 2 * 2 * 8 * (10 + 1)
    found = touched([(gemm, 6.0), (norm, 2.0), (attention, 3.0)])
    assert found == pytest.approx(6 * weights + 2 * gain + 3 * cache, rel=0.1)


@pytest.mark.parametrize("name", ["gemm", "decode-attention"])
def test_weights_and_caches_are_as_near_as_what_is_touched_between_their_uses(name: str) -> None:
    """Below the capacity of the cache as near ones, far beyond as cold ones; steadily between."""
    form = FORMS[OF_KIND[find(name).probe.kind]]
    for point in list(points(find(name).probe))[::7]:
        times = [
            float(form.seconds(dims_of(point, reuse=reuse), MACHINE, PLANTED[name])[0])
            for reuse in 2.0**25 * 2.0 ** np.arange(-4, 6)
        ]
        assert times == sorted(times)
        own = float(dims_of(point, reuse=0.0)["reuse"][0])
        if own > 2.0**21:
            continue
        work = point.probe.work(point.at)
        moved = float(work.weight_bytes + work.kv_bytes)
        assert times[-1] - times[0] <= moved / 12e9 * 1.01
        assert times[-1] > times[0]


def test_activations_do_not_care_for_what_else_a_step_touches(found: Profile) -> None:
    norm = [(ProbePoint(find("rmsnorm").probe, {"m": 100, "width": 700}, "warm"), 1.0)]
    gemm = [(ProbePoint(find("gemm").probe, {"m": 1, "n": 700, "k": 700}, "cold"), 1.0)]
    assert predict(found, norm, 1e9).seconds == predict(found, norm, 1e6).seconds
    assert predict(found, gemm, 1e9).seconds > predict(found, gemm, 1e6).seconds
    assert predict(found, gemm).seconds == predict(found, gemm, touched(gemm)).seconds


def test_a_kernel_without_a_fit_is_refused(found: Profile) -> None:
    softmax = next(points(find("softmax").probe))
    with pytest.raises(MissingRateError, match="has no softmax"):
        predict(found, [(softmax, 1.0)])


def test_the_naive_time_is_the_larger_of_both() -> None:
    point = ProbePoint(find("gemm").probe, {"m": 1, "n": 1000, "k": 1000}, "cold")
    arithmetic, traffic = 2e6 / MACHINE.flops_per_s, 4 * 1002000 / MACHINE.hbm_bytes_per_s
    assert traffic < arithmetic
    assert naive(MACHINE, [(point, 2.0)]) == pytest.approx(2 * arithmetic)
    slow = replace(MACHINE, hbm_bytes_per_s=1e9)
    assert naive(slow, [(point, 2.0)]) == pytest.approx(2 * 4 * 1002000 / 1e9)


def test_measurements_know_their_median() -> None:
    point = next(points(find("call").probe))
    found = PointTimes(point, 1, 1, reuse=1.0, samples=(3.0, 1.0, 2.0), stopped="time")
    assert found.median.value == 2.0
