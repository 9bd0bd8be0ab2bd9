"""Rows in, metrics with intervals out; what cannot be predicted says why."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from roofline.bench.end_to_end.cases import read
from roofline.bench.end_to_end.predicting import end_to_end, prepared
from roofline.errors import InputError
from tests.bench.end_to_end.test_cases import GOOD

ROWS = [
    GOOD | {"ttft_s": 0.2, "quality": "ok"},
    GOOD | {"engine": "mlc-llm", "quality": "ok"},
    GOOD | {"gpu": "h999", "quality": "ok"},
    GOOD
    | {
        "mode": "static_batch",
        "engine": "TensorRT-LLM",
        "latency_s": 30.0,
        "ttft_s": 0.2,
        "quality": "wip",
    },
    GOOD | {"model": "LLaMA v3 8B", "n_gpus": 7, "tp": 7, "quality": "ok"},
]


@pytest.mark.slow
def test_each_metric_of_each_row_has_a_prediction_and_an_interval() -> None:
    found = end_to_end(pd.DataFrame(ROWS), cross_validate=False)
    assert found.predicted.tolist() == [True, True, False, True, False]
    tpot = found.metrics["tpot_s"]
    for place in (0, 1, 3):
        assert tpot.low[place] < tpot.predicted[place] < tpot.high[place]
        assert 0.002 < tpot.predicted[place] < 0.05
    assert np.isnan(tpot.predicted[2])
    assert np.isnan(found.metrics["throughput_tok_s"].measured).all()


def test_refusals_name_the_row_and_the_reason() -> None:
    found = end_to_end(pd.DataFrame(ROWS), cross_validate=False)
    said = {each.place: each.why for each in found.refused}
    assert "no GPU is called 'h999'" in said[2]
    assert "divi" in said[4]
    assert "contradicts" in said[3]  # its latency alone
    assert np.isnan(found.metrics["latency_s"].predicted[3])
    assert found.figures()["coverage"] == pytest.approx(3 / 5)
    assert found.metrics["latency_s"].figures(found.predicted)["n_total"] == 1


def test_an_unknown_engine_says_so_and_has_a_wider_interval() -> None:
    found = end_to_end(pd.DataFrame(ROWS), cross_validate=False)
    assert found.profile[:2] == ("vllm", "unknown")
    assert "no row was measured of mlc-llm" in found.basis[1]
    spread = found.metrics["tpot_s"].log_sd
    assert spread[1] > spread[0]


def test_figures_are_those_of_the_definition() -> None:
    found = end_to_end(pd.DataFrame(ROWS[:2]), cross_validate=False)
    tpot = found.metrics["tpot_s"]
    off = 100 * np.abs(tpot.predicted / tpot.measured - 1)
    figures = found.figures()["metrics"]["tpot_s"]
    assert figures["n"] == figures["n_total"] == 2
    assert figures["mean"] == pytest.approx(off.mean())
    assert figures["median"] == pytest.approx(np.median(off))
    inside = (tpot.low <= tpot.measured) & (tpot.measured <= tpot.high)
    assert figures["interval_coverage"] == inside.mean()
    groups = found.groups({"engine": ["vllm", "mlc-llm"]})
    assert [key for key, _ in groups] == [{"engine": "mlc-llm"}, {"engine": "vllm"}]
    assert [each["n"] for _, each in groups] == [1, 1]


def test_too_few_groups_cannot_be_cross_validated() -> None:
    with pytest.raises(InputError, match="too few to leave one out"):
        end_to_end(pd.DataFrame(ROWS), cross_validate=True)


@pytest.mark.slow
def test_rows_that_are_not_ok_fit_nothing() -> None:
    frame = many()
    spoiled = frame.assign(tpot_s=frame.tpot_s.where(frame.quality == "ok", 9.0))
    first, then = (end_to_end(each, cross_validate=True) for each in (frame, spoiled))
    ok = (frame.quality == "ok").to_numpy()
    assert then.metrics["tpot_s"].predicted[ok] == pytest.approx(
        first.metrics["tpot_s"].predicted[ok]
    )


def many() -> pd.DataFrame:
    """Rows of six networks, some of them suspect."""
    names = (
        "LLaMA v2 7B",
        "LLaMA v3 8B",
        "Mistral 7B",
        "Qwen3 30B A3B",
        "GPTJ 6B",
        "Qwen2-7B",
    )
    rows: list[dict[str, Any]] = []
    for number, name in enumerate(names):
        for batch in (1, 4, 16):
            one = {**GOOD, "model": name, "n_gpus": 1, "tp": 1, "batch": batch}
            one |= {"tpot_s": 0.006 + 1e-4 * number * batch, "quality": "ok"}
            rows += [one, {**one, "batch": 2 * batch, "quality": "suspect"}]
    return pd.DataFrame(rows)


@pytest.mark.slow
def test_groups_left_out_are_predicted_without_them() -> None:
    """Measured ten times slower, a group is predicted as before: by what the others say."""
    frame = many()
    mine = (frame.model == "Mistral 7B").to_numpy()
    slower = frame.assign(tpot_s=frame.tpot_s.where(~mine, 10 * frame.tpot_s))
    first, then = (end_to_end(each, cross_validate=True) for each in (frame, slower))
    assert then.metrics["tpot_s"].predicted[mine] == pytest.approx(
        first.metrics["tpot_s"].predicted[mine]
    )


def test_a_deployment_is_made_once_for_all_its_rows() -> None:
    rows, _ = read(pd.DataFrame([GOOD, GOOD | {"batch": 64}]))
    found, refused = prepared(rows)
    assert not refused
    assert found[0].deployment is found[1].deployment
