"""Single runs beside predictions: which figures, with which interval."""

import numpy as np
import pandas as pd
import pytest

from roofline.bench.end_to_end import profiles
from roofline.bench.end_to_end.cases import read
from roofline.bench.end_to_end.comparing import SPREAD_OF, ComparedFigure, compare, statistics
from roofline.bench.end_to_end.evidence import bounds, poor
from roofline.bench.end_to_end.predicting import end_to_end, prepared
from roofline.bench.end_to_end.replay import PreparedRow
from tests.bench.end_to_end.test_cases import GOOD

KEYS = [(metric, "mean") for metric in SPREAD_OF]


@pytest.fixture(scope="module")
def known() -> PreparedRow:
    rows, _ = read(pd.DataFrame([GOOD]))
    (found,), _ = prepared(rows)
    return found


def test_a_run_is_predicted_as_its_row_is() -> None:
    row = GOOD | {"ttft_s": 0.2, "throughput_tok_s": 1000.0}
    whole = end_to_end(pd.DataFrame([row]), cross_validate=False)
    measured = {("tpot_s", "mean"): 0.01, ("ttft_s", "p50"): 0.2, ("output_tok_s", "mean"): 1e3}
    (found,), refused = compare(pd.DataFrame([row]), [measured])
    assert not refused
    assert [figure.metric for figure in found.figures] == ["tpot_s", "ttft_s", "output_tok_s"]
    for metric, name in (("tpot_s", "tpot_s"), ("output_tok_s", "throughput_tok_s")):
        figure = found.get(metric)
        assert figure is not None
        assert figure.predicted == pytest.approx(whole.metrics[name].predicted[0])
        assert figure.end(-1.0) == pytest.approx(whole.metrics[name].low[0])
        assert figure.end(1.0) == pytest.approx(whole.metrics[name].high[0])


def test_percentiles_have_no_interval_and_are_in_order(known: PreparedRow) -> None:
    names = ["p1", "p50", "p90", "p99"]
    wanted = [("ttft_s", name) for name in names] + [("latency_s", name) for name in names]
    (found,), _ = compare(pd.DataFrame([GOOD]), [dict.fromkeys(wanted, 0.1)])
    for metric in ("ttft_s", "latency_s"):
        mine = [figure for figure in found.figures if figure.metric == metric]
        values = [figure.predicted for figure in mine]
        assert values == sorted(values)
        assert [figure.inside is None for figure in mine] == [True, False, True, True]


def test_every_metric_agrees_with_the_others(known: PreparedRow) -> None:
    logs, _ = profiles.load()
    found = statistics(known, logs, KEYS)
    tokens = found["requests_s", "mean"] * np.array([1024.0, 128.0])
    assert found["output_tok_s", "mean"] == pytest.approx(tokens[1], rel=0.01)
    assert found["input_tok_s", "mean"] == pytest.approx(tokens[0], rel=0.01)
    assert found["total_tok_s", "mean"] == pytest.approx(
        found["input_tok_s", "mean"] + found["output_tok_s", "mean"]
    )
    assert found["itl_s", "mean"] == pytest.approx(found["tpot_s", "mean"], rel=0.01)


@pytest.mark.parametrize(
    ("mode", "extra"),
    [
        ("static_batch", {"batch": 4}),
        ("bs1_prefill", {"batch": 1, "thr_counts": "input"}),
        ("bs1_decode", {"batch": 1}),
        ("offline_max", {"batch": None}),
        ("steady_rate", {"batch": None, "rate": 2.0, "requests": 50}),
    ],
)
def test_every_mode_can_be_compared(mode: str, extra: dict[str, object]) -> None:
    row = GOOD | {"mode": mode, "n_gpus": 4, "throughput_tok_s": 1e3} | extra
    measured = dict.fromkeys(KEYS, 1.0)
    (found,), refused = compare(pd.DataFrame([row]), [measured])
    assert not refused
    have = {figure.metric: figure.predicted for figure in found.figures}
    assert min(have.values()) > 0
    assert have["total_tok_s"] == pytest.approx(have["input_tok_s"] + have["output_tok_s"])
    if mode in ("static_batch", "bs1_prefill"):
        assert have["requests_s"] == pytest.approx(row["batch"] / have["latency_s"])


def test_a_rate_has_a_wider_interval_than_a_loop() -> None:
    rate = GOOD | {"mode": "steady_rate", "rate": 2.0}
    measured = {("tpot_s", "mean"): 0.01}
    (loop, apart), _ = compare(pd.DataFrame([GOOD, rate]), [measured, measured])
    assert apart.figures[0].log_sd == pytest.approx(1.3 * (loop.figures[0].log_sd or 0.0))


def test_what_cannot_be_predicted_says_why() -> None:
    rows = [GOOD | {"gpu": "h999"}, GOOD | {"mode": "steady_rate"}, GOOD]
    found, refused = compare(pd.DataFrame(rows), [{("tpot_s", "mean"): 0.01}] * 3)
    assert [each.known.row.place for each in found] == [2]
    assert {each.place for each in refused} == {0, 1}
    assert any("rate is missing" in each.why for each in refused)


def test_an_error_is_of_the_measured_figure() -> None:
    figure = ComparedFigure("tpot_s", "mean", 2.0, 3.0, 0.1)
    assert figure.error == pytest.approx(0.5)
    assert figure.ratio == pytest.approx(2 / 3)
    assert figure.inside is False
    assert ComparedFigure("tpot_s", "mean", 3.0, 3.0, 0.1).inside is True


def test_bounds_are_the_datasheets(known: PreparedRow) -> None:
    """70 G parameters of 2 B on four H100: 141 GB / 4 / 3.35 TB/s, and 2 FLOP each for a prompt."""
    found = bounds(known)
    assert found.token == pytest.approx(141e9 / 4 / 3.35e12, rel=0.03)
    assert found.prompt == pytest.approx(2 * 69.5e9 * 1024 / 4 / 989e12, rel=0.06)
    assert found.together > found.token


def test_no_prediction_beats_its_bounds(known: PreparedRow) -> None:
    logs, _ = profiles.load()
    found = statistics(known, logs, KEYS)
    limit = bounds(known)
    assert found["tpot_s", "mean"] > limit.token
    assert found["ttft_s", "mean"] > limit.prompt
    assert found["output_tok_s", "mean"] < 16 / limit.together


def test_kernels_of_a_device_that_nobody_measured_are_poor(known: PreparedRow) -> None:
    rows, _ = read(pd.DataFrame([GOOD | {"gpu": "mi300x", "n_gpus": 8, "tp": 8}]))
    (other,), _ = prepared(rows)
    far, near = poor(other, prefill=False), poor(known, prefill=False)
    assert far.share == pytest.approx(1.0)
    assert far.basis == "assumed"
    assert near.share < far.share
