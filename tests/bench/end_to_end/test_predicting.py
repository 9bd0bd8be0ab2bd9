"""Rows in, metrics with intervals out; what cannot be predicted says why."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from roofline.bench.end_to_end import end_to_end
from roofline.bench.end_to_end.cases import read
from roofline.bench.end_to_end.deploying import deployment
from roofline.bench.end_to_end.predicting import TYPICAL, prepared
from roofline.bench.end_to_end.prices import KINDS, THROUGH_HOST, WIRES, Usual, priced
from roofline.bench.end_to_end.tables import CLASSES, COUNTS, TOKENS, room, tables
from roofline.cost.roof import roof
from roofline.cost.step import Group, step
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


def test_tables_are_what_steps_cost() -> None:
    """Between the operators of a step, none is left out or counted twice."""
    (row,), _ = read(pd.DataFrame([GOOD]))
    found = priced(deployment(row.case))
    made = tables(found, TYPICAL)
    at = {int(tokens): place for place, tokens in enumerate(TOKENS)}
    for batch in (1, 8, 64):
        ops = step(found, [Group(float(batch), 1.0, 1024.0, "decode")])
        whole = sum(float(roof(op, found, float(op.repeat)).seconds) for op in ops.values())
        place = int(np.flatnonzero(batch == COUNTS)[0])
        table = made.body[at[batch]].sum() + made.head[at[batch]].sum() + made.decoding[place, 4]
        assert table == pytest.approx(whole, rel=2e-3)
    assert (made.body[:, CLASSES.index("dense-start")] > 0).all()
    assert (made.body[:, CLASSES.index("experts")] == 0).all()


def test_room_is_for_at_least_some_tokens_and_more_devices_have_more() -> None:
    rooms = []
    for tp in (2, 4, 8):
        (row,), _ = read(pd.DataFrame([GOOD | {"tp": tp, "n_gpus": tp}]))
        rooms.append(room(deployment(row.case), TYPICAL))
    assert 0 < rooms[0] < rooms[1] < rooms[2]


def test_what_has_no_measured_kernel_is_priced_as_usual_and_says_assumed() -> None:
    (row,), _ = read(pd.DataFrame([GOOD | {"gpu": "mi300x", "n_gpus": 8, "tp": 8}]))
    found = deployment(row.case)
    ops = step(found, [Group(4.0, 1.0, 512.0, "decode")])
    usual = Usual()
    for op in ops.values():
        told = usual.price(op, found.node.gpu)
        assert told is not None
        plain = roof(op, found)
        assert float(told.seconds) > float(plain.seconds)
        assert float(told.basis) == 5.0  # assumed
        if op.kind == "gemm" and not op.name.startswith("quantise"):
            assert float(told.seconds) > KINDS["gemm"].start


def test_devices_on_the_hosts_pcie_do_not_get_the_wires_of_a_switch() -> None:
    (row,), _ = read(pd.DataFrame([GOOD | {"gpu": "a100_pcie", "n_gpus": 8, "tp": 8}]))
    found = priced(deployment(row.case))
    assert isinstance(found.calibration, Usual)
    assert not found.calibration.switched
    ops = step(found, [Group(64.0, 1.0, 512.0, "decode")])
    op = ops["all-reduce"]
    told = found.calibration.price(op, found.node.gpu)
    assert told is not None
    assert float(told.seconds) == pytest.approx(WIRES.start + float(op.wire_s) / THROUGH_HOST)
    switched = replace(found.calibration, switched=True).price(op, found.node.gpu)
    assert switched is not None
    assert float(switched.seconds) < float(told.seconds)


def test_a_whole_pipeline_is_priced_once() -> None:
    rows, _ = read(pd.DataFrame([GOOD, GOOD | {"batch": 64}]))
    found, refused = prepared(rows)
    assert not refused
    assert found[0].table is found[1].table
