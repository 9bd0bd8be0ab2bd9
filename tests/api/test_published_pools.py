"""Published results of a prefill or decode pool are priced as `disaggregate` prices them."""

from collections.abc import Mapping
from typing import Any

import pytest

import roofline
from roofline.api.disaggregation import PublishedPrediction, score_pool
from roofline.bench.end_to_end.published_results import PublishedResult, PublishedSource
from roofline.records import replace

RATE = "throughput_tok_s"
WIDE: dict[str, Any] = {"gpus": 16, "ep": 16, "attn_dp": 16}
RAN: dict[str, Any] = {"model": "deepseek-v3", "gpu": "h200-sxm", **WIDE}
DECODE: dict[str, Any] = {"mode": "decode", "batch": 1024, "prompt": 2000, "output": 200}
PREFILL: dict[str, Any] = {"mode": "prefill", "batch": 32, "prompt": 2000, "output": 200}


def result(load: Mapping[str, Any], measured: float, per: int = 16) -> PublishedResult:
    return PublishedResult(
        "mine",
        "Mine",
        RAN | {"engine": "sglang"},
        load,
        {RATE: measured},
        "output" if load["mode"] == "decode" else "input",
        per,
        fitted=False,
        source=PublishedSource("A blog", "https://example.org", "2025", "table 1"),
    )


def rate(asked: PublishedResult) -> PublishedPrediction:
    found = score_pool(asked).predicted
    assert found is not None
    return found


@pytest.mark.slow
@pytest.mark.parametrize("load", [DECODE, PREFILL], ids=["decode", "prefill"])
def test_a_rate_is_that_of_the_pool_of_disaggregate(load: dict[str, Any]) -> None:
    prompts = load["mode"] == "prefill"
    told = roofline.disaggregate(
        "deepseek-v3",
        "h200-sxm",
        prefill="dp16-ep16",
        decode="dp16-ep16",
        batch=16 if prompts else 1024,
        prefill_batch=32 if prompts else 0,
        prompt=2000,
        output=200,
        engine="sglang",
    )
    pool = next(row for row in told.tables["pools"].rows() if row["pool"] == load["mode"])
    tokens = 32 * 2000 if prompts else 1024
    found = rate(result(load, 1.0))
    assert found.value == pytest.approx(tokens / pool["step_s"])
    assert found.low == pytest.approx(tokens / pool["high_s"])
    assert found.low < found.value < found.high


@pytest.mark.slow
def test_a_rate_of_fewer_devices_is_their_share() -> None:
    assert rate(result(DECODE, 1.0, per=4)).value == pytest.approx(
        rate(result(DECODE, 1.0)).value / 4
    )


@pytest.mark.slow
def test_only_a_rate_outside_has_a_reason() -> None:
    found = rate(result(DECODE, 1.0))
    inside = score_pool(result(DECODE, found.value))
    assert (inside.rule, inside.reason, inside.why) == ("", "", "")
    beyond = score_pool(result(DECODE, 100 * found.value))
    assert beyond.rule == "unexplained"
    assert "99 % too low" in beyond.reason


def test_a_pool_that_does_not_fit_is_not_predicted() -> None:
    found = score_pool(result(DECODE | {"batch": 100_000}, 1.0))
    assert found.predicted is None
    assert "does not fit" in found.why


def test_a_name_that_nobody_knows_is_not_predicted() -> None:
    asked = result(DECODE, 1.0)
    found = score_pool(replace(asked, ran={**asked.ran, "gpu": "h999"}))
    assert found.predicted is None
    assert "h999" in found.why
