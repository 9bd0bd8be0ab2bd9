"""Answers as Python shows them: figures as attributes, text, names that complete."""

import copy
import json
import pickle
from collections.abc import Mapping
from typing import Any

import pytest

import roofline
from roofline.records import OnDemand, PlainOnDemand, Sentences
from roofline.serving import result as analyzed
from roofline.table import Derivation, Table, table
from roofline.view.terminal import answer_text

ANSWER = roofline.analyze("llama-3.1-8b", "h100-sxm", batch=8)


def test_headline_figures_are_attributes() -> None:
    row = next(row for row in ANSWER.tables["headline"].rows() if row["metric"] == "tpot_s")
    assert (ANSWER.tpot.value, ANSWER.tpot.low, ANSWER.tpot.high) == tuple(
        row[end] for end in ("value", "low", "high")
    )
    assert (ANSWER.tpot.unit, ANSWER.tpot.basis) == ("s", row["basis"])
    assert ANSWER.tpot == ANSWER.tpot_s
    assert {"tpot", "ttft_idle", "throughput", "usd_per_mtok"} <= set(dir(ANSWER))


def test_of_two_figures_of_one_name_the_headline_counts() -> None:
    rows = {row["metric"]: row["value"] for row in ANSWER.tables["headline"].rows()}
    static = {row["metric"]: row["value"] for row in ANSWER.tables["static_batch"].rows()}
    assert rows["throughput_tok_s"] != static["throughput_tok_s"]
    assert ANSWER.throughput.value == rows["throughput_tok_s"]
    assert ANSWER.latency.value == static["latency_s"]


def test_latencies_under_traffic_have_statistics() -> None:
    answer = roofline.simulate("llama-3.1-8b", "h100-sxm", rate=5, requests=60, seed=1)
    ttft, *_ = answer.tables["headline"].rows()
    assert answer.ttft_p99.value == ttft["p99"]
    assert (answer.ttft_p99.low, answer.ttft_p99.high) == (ttft["p99_low"], ttft["p99_high"])
    assert answer.ttft.value == ttft["mean"]


def test_a_figure_that_is_not_there_says_which_are() -> None:
    with pytest.raises(AttributeError, match=r"analyze has no 'tpto'; it has ttft_idle_s, "):
        _ = ANSWER.tpto


def test_a_result_crosses_processes_and_is_copied() -> None:
    assert pickle.loads(pickle.dumps(ANSWER)).tpot == ANSWER.tpot
    assert copy.deepcopy(ANSWER).tpot == ANSWER.tpot


def test_an_operator_can_be_read_where_nothing_else_can_be_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("nobody asked for it")

    for name in ("steady_state", "explain_all", "batches_of", "notes"):
        monkeypatch.setattr(analyzed, name, refuse)
    answer = roofline.analyze("llama-3.1-8b", "h100-sxm", batch=8)
    assert answer.tables["ops"] == ANSWER.tables["ops"]
    assert list(answer.tables) == list(ANSWER.tables)
    assert answer.metadata["batch"] == 8
    with pytest.raises(AssertionError, match="nobody asked"):
        _ = answer.tpot


def test_an_entry_on_demand_is_made_once() -> None:
    made: list[str] = []

    def costly() -> int:
        made.append("costly")
        return 2

    def make() -> dict[str, object]:
        made.append("names")
        return {"seen": 1, "costly": costly}

    entries = OnDemand(make)
    assert made == []
    assert ("costly" in entries, len(entries), made) == (True, 2, ["names"])
    assert (entries["costly"], entries["costly"], dict(entries)) == (2, 2, {"seen": 1, "costly": 2})
    assert made == ["names", "costly"]
    assert pickle.loads(pickle.dumps(entries)) == entries == {"seen": 1, "costly": 2}
    assert repr(entries) == "{'seen': 1, 'costly': 2}"
    assert entries | {"seen": 3} == {"seen": 3, "costly": 2}
    assert {"seen": 3} | entries == {"seen": 1, "costly": 2}


def test_sentences_are_a_sequence_that_is_made_when_read() -> None:
    made: list[int] = []

    def make() -> tuple[str, ...]:
        made.append(1)
        return ("a", "b")

    told = Sentences(make)
    assert made == []
    assert (len(told), told[1], told[:1], list(told), "b" in told) == (
        2,
        "b",
        ("a",),
        ["a", "b"],
        True,
    )
    assert told == ("a", "b") == pickle.loads(pickle.dumps(told))
    assert repr(told) == "('a', 'b')"
    assert told.__add__(("c",)) == ("a", "b", "c")
    assert told.__radd__(("c",)) == ("c", "a", "b")
    assert made == [1]


def test_a_result_shows_a_screenful_and_prints_all() -> None:
    shown = repr(ANSWER).splitlines()
    assert len(shown) <= 40
    assert shown[0] == "llama-3.1-8b on NVIDIA H100 SXM5 80GB"
    assert any(line.startswith("TPOT  ") for line in shown)
    assert str(ANSWER) == answer_text(ANSWER)
    assert len(str(ANSWER).splitlines()) > 2 * len(shown)


def test_a_table_shows_its_first_rows_and_prints_all() -> None:
    many = table([{"op": f"op{n}", "seconds": n / 1e3} for n in range(50)], {"seconds": "s"})
    assert "op19" in repr(many)
    assert "op20" not in repr(many)
    assert "op49" in str(many)
    assert "49.0 ms" in str(many)
    assert repr(Table({})).strip() == "0 rows"


def test_a_derivation_prints_its_tree() -> None:
    read = Derivation("bytes", 2.0, "B", source="datasheet")
    said = str(Derivation("time", 1.0, "s", formula="B / BW", inputs=(read,)))
    assert [line.split()[0] for line in said.splitlines()][:2] == ["time", "="]
    assert "datasheet" in said


def test_the_package_lists_its_questions_and_what_can_be_named() -> None:
    assert dir(roofline) == sorted(roofline.__all__)
    assert "llama-3.1-8b" in roofline.models()
    assert "h100-sxm" in roofline.gpus()


def test_an_error_says_what_to_do() -> None:
    with pytest.raises(roofline.errors.RooflineError, match="hint: did you mean ") as refused:
        roofline.analyze("llama-3.1-8x")
    assert str(refused.value).splitlines()[0] == refused.value.told


def test_metadata_that_is_made_on_demand_is_plain_json() -> None:
    asked: list[str] = []

    def costly() -> tuple[str, ...]:
        asked.append("costly")
        return ("one", "two")

    found: Mapping[str, Any] = PlainOnDemand(lambda: {"gpu": "h100-sxm", "summary": costly})
    assert found["gpu"] == "h100-sxm"
    assert not asked
    plain = {"gpu": "h100-sxm", "summary": ["one", "two"]}
    assert json.loads(json.dumps(found)) == json.loads(json.dumps(found, indent=1)) == plain
    assert dict(found) == {**found} == pickle.loads(pickle.dumps(found))
    assert asked == ["costly"]
