"""Configurations around an analysis: priced as it is, at its price, or not there."""

import random
from typing import Any

import pytest

import roofline
from roofline.api.exploring import around
from roofline.table import Result

FIGURES = ("ttft_s", "tpot_s", "latency_s", "throughput_tok_s", "usd_per_mtok", "joule_per_mtok")


def static(result: Result) -> dict[str, Any]:
    """Rows of the static batch, by metric."""
    return {row["metric"]: row for row in result.rows("static_batch")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "question"),
    [("llama-3.1-70b", {"weights": "fp8", "gpus": 8}), ("qwen3-30b-a3b", {"tp": 2})],
)
def test_every_configuration_is_priced_as_an_analysis_of_it(
    model: str, question: dict[str, Any]
) -> None:
    rows = around(roofline.analyze(model, **question)).rows("points")
    for row in random.Random(3).sample(rows, 8):
        names = ("gpu", "layout", "weights", "kv", "engine", "batch", "prompt", "output")
        alone = roofline.analyze(model, **{name: row[name] for name in names})
        known = static(alone)
        for name in FIGURES:
            assert row[name] == pytest.approx(known[name]["value"], rel=1e-9)
        for name in ("ttft_s", "tpot_s", "latency_s"):
            ends = known[name]["low"], known[name]["high"]
            assert (row[f"{name}_low"], row[f"{name}_high"]) == pytest.approx(ends, rel=1e-9)
        assert row["fits"] == alone.metadata["fits"]


@pytest.mark.slow
def test_gpu_weights_and_degree_can_be_chosen_and_approximations_are_not_told() -> None:
    points = around(roofline.analyze("llama-3.1-70b", tp=8, weights="fp8")).tables["points"]
    assert {"b200-sxm", "h100-sxm"} <= set(points["gpu"])
    assert set(points["weights"]) == {"fp8", "bf16"}
    assert set(points["layout"]) == {"tp1", "tp2", "tp4", "tp8"}
    assert not [name for name in points.columns if name.startswith(("ttft_idle", "tpot_steady"))]


@pytest.mark.slow
def test_the_price_that_was_given_is_the_price_of_that_gpu_alone() -> None:
    usual, cheap = (
        around(roofline.analyze("llama-3.1-8b", usd_per_hour=price)).rows("points")
        for price in (None, 1.0)
    )
    for one, other in zip(usual, cheap, strict=True):
        mine = one["gpu"] == "h100-sxm"
        paid = 1.0 * one["gpus"] / 3600 / one["throughput_tok_s"] * 1e6
        assert other["usd_per_mtok"] == pytest.approx(paid if mine else one["usd_per_mtok"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "question",
    [
        {"tp": 2, "overlap": 0.5},
        {"memory_utilization": 0.5},
        {"cuda_graphs": False},
        {"prefill_batch": 1},
    ],
)
def test_settings_that_a_sweep_does_not_know_leave_the_page_without_others(
    question: dict[str, Any],
) -> None:
    result = roofline.analyze("llama-3.1-8b", **question)
    assert "points" not in around(result).tables


@pytest.mark.slow
def test_a_bound_has_bounds_beside_it() -> None:
    points = around(roofline.analyze("llama-3.1-8b", calibration="none")).tables["points"]
    assert set(points["basis"]) == {"datasheet"}
