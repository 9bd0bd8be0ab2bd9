"""``roofline validate --kind e2e`` as a person meets it."""

import csv
import json
from pathlib import Path

import pandas as pd
import pytest

from roofline.cli import run
from tests.bench.end_to_end.test_predicting import ROWS, many

Captured = pytest.CaptureFixture[str]
METRICS = {"ttft_s", "tpot_s", "latency_s", "throughput_tok_s"}
KEYS = {"n", "n_total", "coverage", "median", "mean", "p90", "interval_coverage"}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows") / "e2e.csv.gz"
    pd.DataFrame(ROWS).to_csv(path, index=False)
    return path


def ask(capsys: Captured, *arguments: object) -> tuple[int, str, str]:
    code = run(["validate", *map(str, arguments), "--kind", "e2e"])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.slow
def test_json_has_each_metric_overall_and_in_each_group(capsys: Captured, file: Path) -> None:
    code, out, _ = ask(capsys, file, "--by", "engine,kind", "--format", "json")
    assert code == 0
    result = json.loads(out)["result"]
    assert set(result["metrics"]) == METRICS
    assert result["overall"]["metrics"] == result["metrics"]
    assert (result["overall"]["n"], result["overall"]["n_total"]) == (3, 5)
    for group in result["groups"]:
        assert set(group["by"]) == {"engine", "kind"}
        assert set(group["metrics"]) == METRICS
        assert all(set(metric) == KEYS for metric in group["metrics"].values())
    assert sum(refused["rows"] for refused in result["refused"]) == 3


def test_a_table_says_errors_coverage_and_reasons(capsys: Captured, file: Path) -> None:
    code, out, _ = ask(capsys, file)
    assert code == 0
    assert "3 of 5 rows predicted" in out
    assert "h999" in out
    assert "TPOT" in out
    assert "TTFT" in out


@pytest.mark.slow
def test_a_table_has_the_largest_groups_unless_columns_are_asked_for(
    capsys: Captured, tmp_path: Path
) -> None:
    path = tmp_path / "engines.csv"
    row = ROWS[0]
    engines = [row | {"engine": f"engine-{number}"} for number in range(20)]
    pd.DataFrame([*engines, *[row] * 3]).to_csv(path, index=False)
    _, short, _ = ask(capsys, path)
    _, whole, _ = ask(capsys, path, "--by", "engine")
    _, listed, _ = ask(capsys, path, "--format", "csv")
    assert "13 smaller groups with --format csv" in short
    assert row["engine"] in short
    assert all(text.count("engine-19") and text.count("engine-0") for text in (whole, listed))
    assert len(short.splitlines()) < len(whole.splitlines())


def test_each_row_is_written_with_its_interval_and_basis(
    capsys: Captured, file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "predictions.csv"
    code, _, err = ask(capsys, file, "--out", out, "--where", "engine=vllm|mlc-llm")
    assert code == 0
    assert "wrote" in err
    rows = list(csv.DictReader(out.read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 4
    first = rows[0]
    assert float(first["tpot_s_low"]) < float(first["tpot_s_predicted"])
    assert float(first["tpot_s_predicted"]) < float(first["tpot_s_high"])
    assert "h100-sxm" in first["basis"]
    assert "no GPU is called" in rows[2]["why"]


@pytest.mark.slow
def test_held_out_rows_are_predicted_by_the_others(capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "many.csv"
    many().to_csv(path, index=False)
    code, out, _ = ask(capsys, path, "--cross-validate", "--format", "json")
    assert code == 0
    assert json.loads(out)["result"]["metrics"]["tpot_s"]["n"] == len(many())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--by", "colour"), "--by names no column"),
        (("--where", "engine=none-such"), "no row is left"),
        (("--where", "colour=red"), "names no column of the file"),
        (("--cross-validate",), "too few to leave one out"),
    ],
)
def test_what_cannot_be_answered_is_one_clear_line(
    capsys: Captured, file: Path, arguments: tuple[str, ...], said: str
) -> None:
    code, out, err = ask(capsys, file, *arguments)
    assert code == 2
    assert not out
    assert said in err
    assert "hint" in err


def test_kernel_rows_are_not_end_to_end_rows(capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "gemm.csv"
    pd.DataFrame([{"gpu": "h100_sxm", "m": 1, "n": 1, "k": 1, "time_s": 1e-5}]).to_csv(path)
    code, _, err = ask(capsys, path, "--by", "gpu")
    assert code == 2
    assert "no column engine" in err
