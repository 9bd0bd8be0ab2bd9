"""The run on an H200 that is shipped: what it says of kernels, and of the calibrations."""

from functools import partial
from pathlib import Path

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


@pytest.fixture(scope="module")
def run() -> Records:
    known = {entry.probe.name: entry for entry in probes()}
    return read_records(HWSPECS / "records" / "h200-sxm.tgz", known)


def moved(row: Record) -> float:
    return sum(size for name, size in row.work.items() if name != "flops")


def rate(row: Record) -> float:
    """Traffic over time. [B/s]"""
    return moved(row) / row.median.value


def test_every_point_was_a_graph_that_nobody_else_disturbed(run: Records) -> None:
    assert len(run.rows) == 4055
    assert all(row.replayed for row in run.rows)
    assert not any(row.clocks.get("others") for row in run.rows)


def test_decoding_of_long_contexts_reads_as_fast_as_a_copy(run: Records) -> None:
    best = max(rate(row) for row in run.of("copy") if row.state == "cold")
    long = [row for row in run.of("paged-decode") if moved(row) > 1e9 and row.at["new"] == 1]
    assert len(long) > 40
    assert min(map(rate, long)) > 0.9 * best
    assert max(map(rate, long)) < of_run(run.header.environment).machine.hbm_bytes_per_s


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


def test_the_calibration_is_of_these_rows(run: Records) -> None:
    profile = load(HWSPECS / "calibrations" / "cupy-h200-sxm.yaml")
    assert profile.digest == run.digest
    fitted = fit_probe(run.of("add-bf16"), of_run(run.header.environment), 1, "cupy", "pass-6")
    for name, value in profile.fits["add-bf16"].model.constants.items():
        assert fitted.model.constants[name] == pytest.approx(value, rel=1e-3)
