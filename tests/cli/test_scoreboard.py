"""``roofline scoreboard`` as a person meets it."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import roofline
from roofline.api import scores
from roofline.bench.end_to_end.published_results import published_results, row_of
from roofline.cli import run
from roofline.errors import DocumentError, InputError
from tests.bench.end_to_end.test_predicting import ROWS
from tests.cli.once import once
from tests.report.pages import taken_apart

Captured = pytest.CaptureFixture[str]
DAY = "2026-11-23"
RESULTS = published_results()
NASTY = "<img src=x onerror=alert(1)></script>"


@pytest.fixture(scope="module", autouse=True)
def _asked_once() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scores, "scoreboard", once(scores.scoreboard))
        yield


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows") / "e2e.csv.gz"
    named = [row | {"source_id": f"run-{place}"} for place, row in enumerate(ROWS)]
    pd.DataFrame(named).to_csv(path, index=False)
    return path


def ask(capsys: Captured, *arguments: object) -> tuple[int, str, str]:
    code = run(["scoreboard", *map(str, arguments), "--date", DAY])
    out, err = capsys.readouterr()
    return code, out, err


def result_of(capsys: Captured, *arguments: object) -> dict[str, Any]:
    code, out, _ = ask(capsys, *arguments, "--format", "json")
    assert code == 0
    document = json.loads(out)
    assert (document["schema"], document["command"]) == ("roofline/result/1", "scoreboard")
    result: dict[str, Any] = document["result"]
    return result


@pytest.mark.slow
def test_without_a_file_it_shows_the_published_results(capsys: Captured) -> None:
    code, out, err = ask(capsys)
    assert code == 0
    assert not err
    assert f"\n{DAY} · roofline {roofline.__version__}\n" in out
    assert "Published results" in out
    assert "measured rows:" not in out
    joined = " ".join(out.split())
    assert f"Of {len(RESULTS)} published results" in joined
    names = " ".join(" ".join(line[:40] for line in out.splitlines()).split())
    for result in RESULTS:
        assert result.title in names or result.title in joined  # a long one takes two lines
    assert max(len(line) for line in out.splitlines()) <= 100


@pytest.mark.slow
def test_every_published_figure_is_predicted_or_says_why_not(capsys: Captured) -> None:
    entries = result_of(capsys)["published_results"]
    assert {entry["name"] for entry in entries} == {result.name for result in RESULTS}
    assert sum(entry["predicted"] is not None for entry in entries) >= 20
    for entry in entries:
        assert entry["url"].startswith("https://")
        assert entry["source"]
        assert entry["date"]
        assert entry["where"]
        if entry["predicted"] is None:
            assert entry["why not"]
            continue
        assert 0 < entry["low"] < entry["predicted"] < entry["high"]
        assert entry["error"] == pytest.approx(entry["predicted"] / entry["measured"] - 1)
        assert entry["inside"] == (entry["low"] <= entry["measured"] <= entry["high"])
        assert bool(entry["reason"]) == (not entry["inside"])
        assert entry["basis"]


@pytest.mark.slow
def test_a_result_that_is_a_row_is_predicted_as_validate_predicts_that_row(
    capsys: Captured, tmp_path: Path
) -> None:
    rows = [each for each in RESULTS if not each.pool and not each.unpredicted]
    frame = pd.DataFrame([row_of(each) for each in rows])
    path, out = tmp_path / "published.csv", tmp_path / "predicted.csv"
    frame.to_csv(path, index=False)
    assert run(["validate", str(path), "--kind", "e2e", "--out", str(out)]) == 0
    capsys.readouterr()
    predicted = pd.read_csv(out)
    entries = result_of(capsys)["published_results"]
    for place, each in enumerate(rows):
        mine = {entry["metric"]: entry for entry in entries if entry["name"] == each.name}
        assert set(mine) == set(each.measured)
        for metric, entry in mine.items():
            share = each.per / each.ran["gpus"] if metric == "throughput_tok_s" else 1.0
            for key in ("predicted", "low", "high"):
                theirs = predicted[f"{metric}_{key}"][place] * share
                assert entry[key] == pytest.approx(theirs, rel=1e-9)


@pytest.mark.slow
def test_rows_of_a_file_are_scored_by_engine_and_gpu(capsys: Captured, file: Path) -> None:
    result = result_of(capsys, file)
    assert (result["rows"], result["predicted"]) == (4, 2)  # one of five is not ok
    assert result["file"] == file.name
    assert result["digest"].startswith("sha256:")
    assert result["date"] == DAY
    assert {entry["row"] for entry in result["scores"]} == {"run-0", "run-1"}
    splits = {entry["by"] for entry in result["groups"]}
    assert splits == {"engine and gpu", "engine", "all"}  # of one GPU, network and load
    for entry in result["groups"]:
        assert 0 <= entry["inside"] <= 1
        assert entry["figures"] >= 1
        assert 0 <= entry["median_error"] <= entry["p90_error"]
    assert sum(entry["rows"] for entry in result["refused"]) == 2
    assert result["summary"][0].startswith("2 of 4 measured rows are predicted.")


@pytest.mark.slow
def test_a_table_has_the_rows_before_the_published_results(capsys: Captured, file: Path) -> None:
    code, out, _ = ask(capsys, file)
    assert code == 0
    assert out.index("measured rows:") < out.index("Published results")
    assert "rows of e2e.csv.gz, sha256:" in " ".join(out.split())
    assert "h999" in out
    assert "note: Shipped constants were fitted to measured rows" in out
    assert max(len(line) for line in out.splitlines()) <= 100


@pytest.mark.slow
def test_rows_of_any_quality_or_of_some_are_taken_if_asked(capsys: Captured, file: Path) -> None:
    assert result_of(capsys, file, "--quality", "all")["rows"] == 5
    assert result_of(capsys, file, "--where", "engine=mlc-llm")["rows"] == 1


@pytest.mark.slow
def test_csv_has_a_line_for_each_figure(capsys: Captured, file: Path) -> None:
    code, out, _ = ask(capsys, file, "--format", "csv")
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    result = result_of(capsys, file)
    assert len(rows) == len(result["scores"]) + len(result["published_results"])
    assert {row["set"] for row in rows} == {"file", "published"}
    first = rows[0]
    assert first["name"] == "run-0"
    assert float(first["predicted"]) == pytest.approx(result["scores"][0]["predicted"])


@pytest.mark.slow
def test_markdown_is_no_markup_of_others(capsys: Captured) -> None:
    code, out, _ = ask(capsys, "--format", "md")
    assert code == 0
    assert "| ---" in out
    assert out.count("\n- ") >= 5


def test_mistakes_are_one_error_that_says_where(
    capsys: Captured, tmp_path: Path, file: Path
) -> None:
    broken = tmp_path / "broken.csv.gz"
    broken.write_bytes(file.read_bytes()[:40])
    text = tmp_path / "text.csv"
    text.write_text("a,b\n1,2\n", encoding="utf-8")
    for arguments, said in (
        (["nowhere.csv"], "nowhere.csv: cannot be read as measurements"),
        ([broken], "broken.csv.gz: cannot be read as measurements"),
        ([tmp_path], "cannot be read as measurements"),
        ([text], "the measurements have no column engine"),
        ([file, "--where", "engine=nobody"], "no row is left of e2e.csv.gz"),
        ([file, "--where", "colour=red"], "--where 'colour=red' names no column"),
        ([file, "--quality", "best"], "no row is left of e2e.csv.gz"),
        ([file, "--cross-validate"], "too few to leave one out"),
        (["--date", "yesterday"], "'yesterday' is no date"),
        (["--date", "2026-13-01"], "'2026-13-01' is no date"),
    ):
        code = run(["scoreboard", *map(str, arguments)])
        out, err = capsys.readouterr()
        assert code == 2
        assert not out
        first, second = err.splitlines()
        assert first.startswith("error: ")
        assert said in first
        assert second.startswith("hint: ")


@pytest.mark.slow
def test_the_question_is_one_of_the_api(file: Path) -> None:
    found = roofline.scoreboard(file, date=DAY)
    assert (found.kind, found.metadata["date"]) == ("scoreboard", DAY)
    with pytest.raises(InputError, match="no row is left"):
        roofline.scoreboard(file, where="engine=nobody")
    with pytest.raises(DocumentError):
        roofline.scoreboard("nowhere.csv")
    assert len(roofline.scoreboard().metadata["date"]) == len(DAY)


@pytest.mark.slow
def test_the_page_is_the_same_again_and_says_of_what_it_is(
    capsys: Captured, tmp_path: Path, file: Path
) -> None:
    pages = []
    for _ in range(2):
        path = tmp_path / "page.html"
        code, _, err = ask(capsys, file, "--report", path)
        assert code == 0
        assert f"wrote {path}" in err
        pages.append(path.read_text("utf-8"))
    assert pages[0] == pages[1]
    page = taken_apart(pages[0])
    sections = [element.attributes["id"] for element in page.all("section")]
    assert sections[:4] == ["verdict", "parity", "published", "groups"]
    links = {element.attributes["href"] for element in page.all("a")}
    assert {result.source.url for result in RESULTS} <= links
    for word in (DAY, roofline.__version__, "sha256:", "e2e.csv.gz"):
        assert word in pages[0]


@pytest.mark.slow
def test_names_of_a_file_are_text_on_the_page(capsys: Captured, tmp_path: Path) -> None:
    rows = [ROWS[0] | {"source_id": NASTY, "engine": NASTY, "version": NASTY} for _ in range(3)]
    rows.append(ROWS[0] | {"source_id": NASTY, "model": NASTY})
    path, page = tmp_path / "rows.csv", tmp_path / "page.html"
    pd.DataFrame(rows).to_csv(path, index=False)
    code, _, _ = ask(capsys, path, "--report", page)
    assert code == 0
    text = page.read_text("utf-8")
    assert "<img" not in text
    taken_apart(text)
