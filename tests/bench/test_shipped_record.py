"""The runs that are shipped: what they say of kernels, and of the calibrations."""

from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest

from roofline.bench.calibrating import fit_probe
from roofline.bench.exported import exported
from roofline.bench.held_out import errors
from roofline.bench.predictors import one_by_one, shipped
from roofline.bench.probe import probes
from roofline.bench.profile_file import load
from roofline.bench.published import of_run
from roofline.bench.records import Record, Records, read_records
from roofline.bench.validation import validate

HWSPECS = Path(__file__).parents[2] / "hwspecs"
POINTS = {"h100-sxm": 4919, "h200-sxm": 4055, "h200-sxm-2": 4521}
FITTED = ("h100-sxm", "h200-sxm-2")
"""Runs that the calibrations are of: the latest of each device."""
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=POINTS)
def run(request: pytest.FixtureRequest) -> Records:
    return read(request.param)


@cache
def read(name: str) -> Records:
    """A run of thousands of points, read once."""
    known = {entry.probe.name: entry for entry in probes()}
    return read_records(HWSPECS / "records" / f"{name}.tgz", known)


def moved(row: Record) -> float:
    return sum(size for name, size in row.work.items() if name != "flops")


def rate(row: Record) -> float:
    """Traffic over time. [B/s]"""
    return moved(row) / row.median.value


def best(run: Records) -> float:
    """Rate of the fastest copy that comes from memory. [B/s]"""
    return max(rate(row) for row in run.of("copy") if row.state == "cold")


def test_nobody_else_disturbed_a_point(run: Records) -> None:
    assert len(run.rows) in POINTS.values()
    assert not any(row.clocks.get("others") for row in run.rows)
    launched = [row for row in run.rows if not row.replayed]
    assert {row.probe for row in launched} <= {"flashinfer-decode", "flashinfer-mla"}
    assert len(launched) <= 10  # small caches, of which there were more copies than views once


def test_another_device_of_the_kind_takes_the_same_time_a_day_later() -> None:
    """Floor of any model's errors: the same points on two devices of one kind."""
    first, second = (
        {row.point: row.median.value for row in read(name).rows if row.probe != "w4a16-gemm"}
        for name in ("h200-sxm", "h200-sxm-2")
    )
    both = sorted(first.keys() & second.keys())
    ratios = np.array([second[point] / first[point] for point in both])
    assert len(both) == 3867
    assert np.median(np.abs(ratios - 1.0)) < 0.012
    assert np.quantile(np.abs(ratios - 1.0), 0.9) < 0.05
    assert 0.98 < np.median(ratios) < 1.02


@pytest.mark.parametrize(
    ("run", "probe"),
    [*((name, "paged-decode") for name in POINTS), ("h100-sxm", "flashinfer-decode")],
    indirect=["run"],
)
def test_decoding_of_long_contexts_reads_as_fast_as_a_copy(run: Records, probe: str) -> None:
    long = [row for row in run.of(probe) if moved(row) > 1e9 and row.at["new"] == 1]
    assert len(long) > 20
    assert min(map(rate, long)) > 0.9 * best(run)
    assert max(map(rate, long)) < of_run(run.header.environment).machine.hbm_bytes_per_s


@pytest.mark.parametrize("run", ["h100-sxm"], indirect=True)
def test_4_bit_products_read_their_weights_as_fast_as_a_copy(run: Records) -> None:
    """Matrices from 100 MB, up to sixteen tokens; small ones take a launch and a latency."""
    large = [row for row in run.of("w4a16-gemm") if row.at["n"] * row.at["k"] > 2e8]
    assert {row.at["m"] for row in large} == {1, 2, 4, 8, 16}
    assert min(map(rate, large)) > 0.7 * best(run)


def test_prompts_run_at_two_thirds_of_cudnn(run: Records) -> None:
    shape = ("count", "heads", "kv_heads", "head_dim")

    def at(probe: str, tokens: str) -> dict[tuple[int, ...], float]:
        rows = [row for row in run.of(probe) if row.at[tokens] == row.at.get("context", 8192)]
        return {
            tuple(row.at[name] for name in shape): row.median.value
            for row in rows
            if row.at[tokens] == 8192
        }

    own, library = at("flash-prefill", "new"), at("torch-cudnn", "tokens")
    shares = [library[key] / own[key] for key in own.keys() & library.keys()]
    assert len(shares) == 12
    assert min(shares) > 0.6


@pytest.mark.parametrize("engine", ["vllm", "trtllm", "sglang"])
def test_products_in_16_bits_take_what_shipped_calibrations_say(run: Records, engine: str) -> None:
    """None of these rows is of a source that the calibrations were fitted to."""
    frame = exported(run, "gemm", engine)
    frame = frame[frame["dtype"] == "bfloat16"].reset_index(drop=True)
    found = validate("gemm", frame, one_by_one(partial(shipped, "gemm")))
    assert len(frame) == 441
    assert errors(found.predicted, found.measured).median < 0.06


@pytest.mark.parametrize("engine", ["vllm", "trtllm", "sglang"])
@pytest.mark.parametrize("run", FITTED, indirect=True)
def test_products_of_latent_attention_are_within_a_fifth_of_the_engines(
    run: Records, engine: str
) -> None:
    found = validate(
        "mla-bmm", exported(run, "mla-bmm", engine), one_by_one(partial(shipped, "mla-bmm"))
    )
    assert errors(found.predicted, found.measured).median < 0.2


@pytest.mark.parametrize("run", FITTED, indirect=True)
def test_the_calibration_is_of_these_rows(run: Records) -> None:
    profile = load(HWSPECS / "calibrations" / f"cupy-{run.header.environment['machine']}.yaml")
    assert profile.digest == run.digest
    fitted = fit_probe(run.of("add-bf16"), of_run(run.header.environment), 1, "cupy", "pass-6")
    for name, value in profile.fits["add-bf16"].model.constants.items():
        assert fitted.model.constants[name] == pytest.approx(value, rel=1e-3)
