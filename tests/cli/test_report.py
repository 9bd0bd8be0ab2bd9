"""``roofline report`` and ``--report``: pages of saved results, and what is no result."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roofline.api.saved import merge_results, read_result
from roofline.cli import run
from roofline.errors import DocumentError, InputError
from roofline.report import render
from roofline.study.points import result_of
from roofline.study.store.parts import KEY
from tests.report.pages import taken_apart, unpacked

SCENARIO = """
schema_version: 1
name: {name}
title: {title}
kind: batch
models: llama-3.1-8b
gpus: [h100-sxm, a100-sxm]
batch: [1, 8]
prompt: [128, 1024]
output: 64
constraints: {{tpot_s: 9 ms}}
objectives: [min usd_per_mtok, max user_tok_s]
keep: all
"""


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("swept")
    (folder / "one.yaml").write_text(SCENARIO.format(name="one", title="<b>One</b>"))
    assert run(["sweep", str(folder / "one.yaml"), "--out", str(folder / "one")]) == 0
    return folder / "one" / "result.parquet"


def test_a_sweep_comes_back_with_what_it_was_asked(swept: Path) -> None:
    result = read_result(swept)
    table = pq.read_table(swept)
    points = result.tables["points"]
    assert list(points.columns) == table.column_names
    assert list(points["tpot_s"]) == table.column("tpot_s").to_pylist()
    assert points.columns["tpot_s"].unit == "s"
    assert result.metadata["objectives"] == (("usd_per_mtok", False), ("user_tok_s", True))
    assert result.metadata["limits"] == {"tpot_s": 0.009}
    first, second, third, fourth = result.metadata["summary"]
    counts = json.loads(table.schema.metadata[b"roofline"])["counts"]
    assert sum(counts.values()) == 8
    assert first.startswith(f"8 configurations, {counts['feasible']} of them feasible.")
    assert second == "8 rows are kept: all of them."
    assert third == "Wanted: least cost of a million tokens, then most speed for one user."
    assert fourth == "Limits: TPOT at most 9.00 ms."
    assert "Times include what an engine does between kernels" in result.notes[-1]


@pytest.mark.slow
def test_its_page_has_controls_and_its_title_as_text(swept: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    assert run(["report", str(swept), "--out", str(out)]) == 0
    page = taken_apart(out.read_text("utf-8"))
    assert [heading.text for heading in page.all("h1")] == ["<b>One</b>"]
    titles = [heading.text for heading in page.all("h2")]
    assert titles == ["Verdict", "All configurations", "Explore", "Notes", "Reproduce"]
    assert len(page.all("select")) == 2  # the GPU, on both sides
    assert len([e for e in page.all("input") if e.attributes["type"] == "range"]) == 2


def test_sweeps_side_by_side_are_told_apart(swept: Path) -> None:
    one = read_result(swept)
    both = merge_results([one, one])
    assert len(both.tables["points"]) == 2 * len(one.tables["points"])
    assert set(both.tables["points"]["scenario"]) == {"one 1", "one 2"}
    assert merge_results([one]) is one


def test_of_very_many_rows_the_best_are_read_and_the_rest_counted(
    swept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = read_result(swept)
    monkeypatch.setattr("roofline.api.saved.SHOWN", 3)
    few = read_result(swept)
    cheapest = sorted(
        (row for row in whole.tables["points"].rows() if row["feasible"]),
        key=lambda row: (row["usd_per_mtok"], -row["user_tok_s"]),
    )
    assert list(few.tables["points"].rows()) == cheapest[:3]
    assert few.metadata["summary"] == whole.metadata["summary"]
    assert "5 more configurations are in the result file" in render(few)


def test_sweeps_side_by_side_say_what_each_asked(swept: Path) -> None:
    one = read_result(swept)
    both = merge_results([one, one])
    assert both.metadata["title"] == "one 1 beside one 2"
    assert both.metadata["summary"][0] == "one 1: <b>One</b>"
    assert set(both.metadata["objectives_of"]) == {"one 1", "one 2"}


def plan(**more: Any) -> dict[str, Any]:
    columns = ["gpu", "gpus", "shape", "usd_per_hour"]
    row = {"gpu": "h100-sxm", "gpus": 2, "shape": "tp1 × 2", "usd_per_hour": 6.0}
    inputs = [{"name": "price", "value": 3.0, "unit": "$/h", "basis": "assumed"}]
    cost = {"name": "price", "value": 6.0, "unit": "$/h", "formula": "n · p", "inputs": inputs}
    tables = {"verdict": {"units": {"usd_per_hour": "$/h"}, "columns": columns, "rows": [row]}}
    result = {"model": "llama-3.1-8b", "summary": ["2 × H100."], "tables": tables}
    result["derivations"] = {"price": cost}
    return {
        "schema": "roofline/result/1",
        "version": "0.1.0",
        "command": "plan",
        "result": result | more,
        "notes": ["Prices are assumed."],
    }


def saved(tmp_path: Path, document: object) -> Path:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(document), "utf-8")
    return path


def test_a_plan_comes_back(tmp_path: Path) -> None:
    result = read_result(saved(tmp_path, plan()))
    assert result.tables["verdict"]["shape"] == ("tp1 × 2",)
    assert result.tables["verdict"].columns["usd_per_hour"].unit == "$/h"
    assert result.derivations["price"].inputs[0].value == 3.0
    assert result.metadata["model"] == "llama-3.1-8b"
    assert result.notes == ("Prices are assumed.",)


def test_a_plan_has_a_page(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    assert run(["report", str(saved(tmp_path, plan())), "--out", str(out)]) == 0
    text = out.read_text("utf-8")
    assert "The load is carried by 2 GPUs at $6.00 an hour" in text
    assert "tp1 × 2" in text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": "roofline/result/9"}, "schema"),
        ({"result": {"tables": {"verdict": {"columns": ["a"]}}}}, "rows"),
        ({"result": {}}, "tables"),
        ({"notes": "none"}, "notes"),
    ],
)
def test_what_is_no_plan_is_told_at_its_place(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    with pytest.raises(DocumentError) as caught:
        read_result(saved(tmp_path, plan() | change))
    assert said in str(caught.value)
    assert caught.value.hint


def test_what_is_no_sweep_is_refused(swept: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.parquet"
    content = swept.read_bytes()
    for size in (0, 3, len(content) // 2, len(content) - 1):
        cut.write_bytes(content[:size])
        with pytest.raises(DocumentError, match=r"cut\.parquet"):
            read_result(cut)
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"a": [1]}), other)
    with pytest.raises(DocumentError, match="not the result of a sweep"):
        read_result(other)
    with pytest.raises(DocumentError, match="does not exist"):
        read_result(tmp_path / "nothing.parquet")
    with pytest.raises(InputError, match="neither a sweep nor a plan"):
        read_result(tmp_path / "nothing.txt")
    with pytest.raises(InputError, match="not all sweeps"):
        merge_results([read_result(swept), read_result(saved(tmp_path, plan()))])
    bare = pq.read_table(swept).replace_schema_metadata({KEY: b"{}"})
    assert result_of(bare).metadata["title"] == "sweep"


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["layouts", "llama-3.1-8b", "--gpus", "2"],
        ["compare", "llama-3.1-8b", "--with", "weights=fp8"],
        ["speculate", "--draft", "eagle", "--acceptance", "0.7"],
        ["disaggregate", "llama-3.1-8b", "--prefill", "tp1", "--decode", "tp1"],
        ["paging"],
    ],
    ids=lambda command: command[0],
)
def test_every_question_has_a_page(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "page.html"
    assert run([*command, "--report", str(out)]) == 0
    assert "wrote" in capsys.readouterr().err
    page = taken_apart(out.read_text("utf-8"))
    figures = [each for each in page.all("dd") if each.attributes.get("class") == "figure"]
    assert page.all("table")
    assert len(page.all("table")) + len(figures) >= 2
    assert any(command[0] in element.text for element in page.all("code"))


@pytest.mark.slow
def test_an_analysis_can_be_explored_from_where_it_is(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    assert run(["analyze", "--batch", "12", "--prompt", "700", "--report", str(out)]) == 0
    page = taken_apart(out.read_text("utf-8"))
    chosen = [
        option.text for option in page.all("option") if "selected" in option.attributes
    ]  # side A first
    assert chosen[0] == "h100-sxm"
    sliders = [e for e in page.all("input") if e.attributes["type"] == "range"]
    data = next(e for e in page.all("script") if e.attributes.get("id") == "explorer-data")
    numbers = json.loads(unpacked(data.text))["numbers"]
    at = [
        n["values"][int(s.attributes["value"] or 0)] for n, s in zip(numbers, sliders, strict=True)
    ]
    assert at == [12, 700]


@pytest.mark.parametrize(
    "change",
    [
        {"objectives": [1]},
        {"counts": "many"},
        {"counts": {"feasible": []}},
        {"units": "s"},
        {"units": {"ttft_idle_s": [1]}},
        {"constraints": 10**400},
        {"engine_costs": {"vllm": {"title": "vLLM", "step_s": 1.0}}},
    ],
)
def test_a_sweep_that_was_altered_is_refused_and_no_page_is_written(
    swept: Path, tmp_path: Path, change: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    table = pq.read_table(swept)
    about = json.loads(table.schema.metadata[KEY]) | change
    other, page = tmp_path / "other.parquet", tmp_path / "page.html"
    pq.write_table(table.replace_schema_metadata({KEY: json.dumps(about).encode()}), other)
    assert run(["report", str(other), "--out", str(page)]) == 2
    assert "other.parquet is not as it was saved" in capsys.readouterr().err
    assert not page.exists()


def test_a_sweep_whose_words_are_nested_too_deep_is_refused(swept: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.parquet"
    deep = pq.read_table(swept).replace_schema_metadata({KEY: b"[" * 100_000})
    pq.write_table(deep, other)
    with pytest.raises(DocumentError, match=r"other\.parquet is not as it was saved"):
        read_result(other)


@pytest.mark.slow
def test_a_sweep_is_read_without_pandas(swept: Path) -> None:
    code = "import sys; from pathlib import Path; from roofline.api.saved import read_result"
    code += "; read_result(Path(sys.argv[1])); sys.exit('pandas' in sys.modules)"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code, str(swept)], env=environment, check=True)


@pytest.mark.parametrize("name", ["gpu", "layout", "feasible"])
def test_a_sweep_with_a_column_of_another_kind_is_refused(
    swept: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pq.read_table(swept)
    place = table.column_names.index(name)
    lists = pa.array([[1.0]] * len(table))
    pq.write_table(table.set_column(place, name, lists), tmp_path / "other.parquet")
    page = tmp_path / "page.html"
    assert run(["report", str(tmp_path / "other.parquet"), "--out", str(page)]) == 2
    assert not page.exists()
