"""Measured kernels that price a static batch."""

import pytest

import roofline
from roofline.bench.calibrations import calibration_of
from roofline.cost.deployment import Offload
from roofline.records import replace
from roofline.serving.explain.figures import explain_all
from roofline.serving.result import SHARED, UNMEASURED, headline, kernels, static_table
from roofline.serving.static import StaticBatch, static_batch
from roofline.serving.steady import steady_state
from roofline.serving.workload import Workload
from tests.serving.deployments import on

WORK = Workload(batch=4, prompt=512, output=32)


def _priced(device: str = "h100-sxm", **options: object) -> StaticBatch:
    bare = on(device=device, **options)  # type: ignore[arg-type]
    found = calibration_of("auto", bare.node.gpu, bare.engine.name)
    return static_batch(replace(bare, calibration=found), WORK)


@pytest.mark.parametrize("device", ["a100-sxm", "h200-sxm", "b200-sxm"])
@pytest.mark.parametrize("weights", ["bf16", "fp8"])
def test_shares_of_kernels_are_the_whole_step_and_name_every_operator(
    device: str, weights: str
) -> None:
    batch = _priced(device, weights=weights, tp=2)
    rows = list(kernels(batch).rows())
    assert sum(row["prefill"] for row in rows) == pytest.approx(1)
    assert sum(row["decode"] for row in rows) == pytest.approx(1)
    named = {op for row in rows for op in row["operators"].split(", ")}
    assert named == {*batch.prefill, *batch.decode}


def test_kernels_of_another_device_say_where_they_come_from() -> None:
    own = {row["kernel"]: row for row in kernels(_priced("h100-sxm")).rows()}
    assert own["gemm bfloat16"]["measured on"] == "h100-sxm"
    assert own["gemm bfloat16"]["note"] == ""
    for device, measured, where in (
        ("h800-sxm", "h100-sxm", "a device of the same generation"),
        ("rtx-pro-6000", "l40s", "another generation"),
    ):
        far = {row["kernel"]: row for row in kernels(_priced(device)).rows()}
        assert far["gemm bfloat16"]["measured on"] == measured
        assert where in far["gemm bfloat16"]["note"]
        assert far["gemm bfloat16"]["basis"] == "transferred"


def test_what_no_measurement_covers_and_what_is_inside_another_kernel_is_told() -> None:
    half = Offload(0.5, 0.0, "cpu", prefetch=False)  # over PCI Express: no kernel at all
    batch = _priced(weights="fp8", offload=half)
    rows = {row["note"]: row for row in kernels(batch).rows()}
    assert "load-weights" in rows[UNMEASURED]["operators"].split(", ")
    assert rows[UNMEASURED]["basis"] == "datasheet"
    assert rows[SHARED]["operators"].startswith("quantise-")
    assert rows[SHARED]["prefill"] == rows[SHARED]["decode"] == 0


def test_at_datasheet_rates_no_kernel_prices_anything() -> None:
    assert len(kernels(static_batch(on(), WORK))) == 0


@pytest.mark.slow
def test_the_roof_of_a_calibrated_figure_is_the_datasheet_figure() -> None:
    question = {"batch": 4, "prompt": 512, "output": 32, "tp": 2, "gpus": 4, "weights": "fp8"}
    bare = roofline.analyze(calibration="none", **question)  # type: ignore[arg-type]
    told = roofline.analyze(**question)  # type: ignore[arg-type]
    assert told.tables["headline"]["roof"] == pytest.approx(bare.tables["headline"]["value"])


@pytest.mark.slow
def test_the_roof_of_a_pipeline_prefills_as_many_prompts_together() -> None:
    question = {"batch": 8, "prompt": 512, "output": 32, "pp": 2}
    bare = roofline.analyze(calibration="none", **question)  # type: ignore[arg-type]
    told = roofline.analyze(**question)  # type: ignore[arg-type]
    assert told.tables["headline"]["roof"] == pytest.approx(bare.tables["headline"]["value"])


def test_bounds_lie_around_the_value() -> None:
    batch = _priced()
    steady = steady_state(batch)
    every = explain_all(batch, 1, steady)
    for row in static_table(batch, 1, every, "static_").rows():
        assert row["low"] < row["value"] < row["high"]
        assert row["value"] ** 2 == pytest.approx(row["low"] * row["high"])
    for row in headline(batch, steady, 1, every).rows():
        assert row["low"] < row["value"] < row["high"]
        assert row["value"] ** 2 == pytest.approx(row["low"] * row["high"])
