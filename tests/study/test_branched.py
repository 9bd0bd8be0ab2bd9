"""Answers and beams of each prompt in a sweep, beside the same question asked by itself."""

from typing import Any

import pytest

import roofline
from roofline.api.lanes import ScenarioLanes
from roofline.study.pricing import Pricing
from roofline.study.scenario.crossing import grid_of
from roofline.study.store.chunk import Chunk
from tests.study.scenario.documents import BATCH, TRAFFIC, scenario

LENGTHS: dict[str, Any] = {"prompt": 1000, "output": 65}


def swept(base: dict[str, Any], **changes: Any) -> list[dict[str, Any]]:
    asked = scenario(base, keep="all", gpus="h100-sxm", **changes)
    lanes = ScenarioLanes(asked)
    table = Pricing(asked, grid_of(asked, lanes.found), lanes)(Chunk(0, 0, 1))
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


@pytest.mark.parametrize("which", [{"beams": 4}, {"samples": 4}])
def test_rows_are_the_static_batch_that_analyze_prices(which: dict[str, int]) -> None:
    (row,) = swept(BATCH, techniques=which, batch=4, **LENGTHS)
    result = roofline.analyze("llama-3.1-8b", "h100-sxm", batch=4, **LENGTHS, **which)  # type: ignore[arg-type]
    alone = {each["metric"]: each for each in result.tables["headline"].rows()}
    assert row["fits"]
    assert row["technique"] == "4 " + next(iter(which))
    for column, metric in (
        ("ttft_idle_s", "ttft_idle_s"),
        ("tpot_s", "tpot_s"),
        ("throughput_tok_s", "throughput_tok_s"),
        ("usd_per_mtok", "usd_per_mtok"),
    ):
        for end, side in (("", "value"), ("_low", "low"), ("_high", "high")):
            assert row[column + end] == pytest.approx(alone[metric][side], rel=1e-9), column + end


def test_a_search_under_traffic_takes_the_steps_of_its_beams() -> None:
    """One client alone: the closed form has the step that a static batch of the search has."""
    (row,) = swept(
        TRAFFIC,
        rate=None,
        concurrency=1,
        beams=4,
        workloads={"name": "w", **LENGTHS},
    )
    result = roofline.analyze("llama-3.1-8b", "h100-sxm", batch=1, beams=4, **LENGTHS)
    alone = {each["metric"]: each["value"] for each in result.tables["headline"].rows()}
    assert row["tpot_s"] == pytest.approx(alone["tpot_s"], rel=0.01)
    assert row["ttft_s"] == pytest.approx(alone["ttft_idle_s"], rel=0.01)
