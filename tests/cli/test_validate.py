"""``roofline validate`` as a person meets it, on rows that follow a known law."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from roofline.bench.columns import COLUMNS
from roofline.bench.measurement_files import chosen
from roofline.cli import run
from roofline.errors import InputError
from roofline.view.text import percent

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Quantisation of activations: a start, and bytes over a bandwidth, 2 % apart at random."""
    random = np.random.default_rng(7)
    m, k = (axis.ravel() for axis in np.meshgrid(2 ** np.arange(4, 15), 128 * np.arange(2, 42, 3)))
    times = (4e-6 + 3.0 * m * k / 2e12) * np.exp(random.normal(0, 0.02, len(m)))
    frame = pd.DataFrame(
        {
            "gpu": "h100_sxm",
            "backend": "vllm",
            "version": "1",
            "op": np.where(np.arange(len(m)) < len(m) - 3, "scale_matrix", "unheard-of"),
            "dtype": "fp8",
            "m": m,
            "k": k,
            "time_s": times,
            "batch": np.where(np.arange(len(m)) % 2, 2, 10),
        }
    )
    path = tmp_path_factory.mktemp("rows") / "quantize.parquet"
    frame.to_parquet(path)
    return path


def ask(capsys: Captured, *arguments: object) -> tuple[int, str, str]:
    code = run(["validate", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.slow
def test_rows_that_follow_a_law_are_known_by_fits_that_never_saw_them(
    capsys: Captured, file: Path, tmp_path: Path
) -> None:
    rows = tmp_path / "rows.csv"
    code, out, _ = ask(
        capsys, file, "--kind", "quantize", "--cross-validate", "--format", "json", "--out", rows
    )
    assert code == 0
    result = json.loads(out)["result"]
    overall, number = result["overall"], len(pd.read_parquet(file))
    assert overall["n_total"] == number
    assert overall["n"] == number - 3
    assert overall["coverage"] == pytest.approx((number - 3) / number)
    assert overall["median"] < 4
    assert 0.6 <= overall["interval_coverage"] <= 0.95
    assert [group["by"] for group in result["groups"]] == [
        {"gpu": "h100_sxm", "backend": "vllm", "dtype": "fp8"}
    ]
    assert sum(refused["rows"] for refused in result["refused"]) == 3
    assert result["basis"] == {"fitted": number - 3}
    # A start of 4 µs that the datasheet knows nothing of.
    assert overall["datasheet"]["median"] > 5 * overall["median"]
    assert set(overall["datasheet"]) == {"median", "mean", "p90"}
    with rows.open(encoding="utf-8", newline="") as opened:
        written = list(csv.DictReader(opened))
    predicted = [row for row in written if row["predicted_s"]]
    assert len(written) == number
    assert len(predicted) == number - 3
    assert all(row["basis"] == "fitted" and not row["why"] for row in predicted)
    assert all("unheard-of" in row["why"] for row in written if not row["predicted_s"])
    assert all(
        float(row["low_s"]) < float(row["predicted_s"]) < float(row["high_s"]) for row in predicted
    )


@pytest.mark.slow
def test_rows_are_grouped_by_any_column_and_those_refused_count(
    capsys: Captured, file: Path
) -> None:
    command = (file, "--kind", "quantize", "--cross-validate", "--format", "json")
    _, out, _ = ask(capsys, *command, "--by", "batch,op")
    result = json.loads(out)["result"]
    frame = pd.read_parquet(file)
    assert [tuple(group["by"].values()) for group in result["groups"]] == [
        ("2", "scale_matrix"),
        ("2", "unheard-of"),
        ("10", "scale_matrix"),
        ("10", "unheard-of"),
    ]
    for group in result["groups"]:
        batch, op = group["by"].values()
        rows = frame[(frame.batch == int(batch)) & (frame.op == op)]
        assert group["n_total"] == len(rows)
        assert group["n"] == (len(rows) if op == "scale_matrix" else 0)
        assert group["coverage"] == group["n"] / group["n_total"]
        assert (group["median"] is None) == (op == "unheard-of")
    whole = sum(group["n_total"] for group in result["groups"])
    assert whole == result["overall"]["n_total"]


@pytest.mark.slow
def test_bad_rows_are_refused_one_by_one_and_the_table_says_why(
    capsys: Captured, file: Path, tmp_path: Path
) -> None:
    frame = pd.read_parquet(file).drop(columns=["version", "backend", "op", "dtype"])
    frame["gpu"] = frame.gpu.astype(object)
    frame.loc[0, "time_s"] = np.nan
    frame.loc[1, "time_s"] = 0.0
    frame.loc[2, "m"] = -4
    frame.loc[3, "gpu"] = "h100-sxn"
    bad = tmp_path / "rows.csv"
    frame.to_csv(bad, index=False)
    code, out, _ = ask(capsys, bad, "--kind", "quantize", "--cross-validate", "--by", "gpu")
    assert code == 0
    assert "2 rows not predicted (time_s): time_s is no number above 0: 0, nan" in out
    assert "1 rows not predicted (m): m is no number from 1 up: -4" in out
    assert "did you mean h100-sxm" in " ".join(out.split())
    assert f"{len(frame) - 4} rows fitted" in out
    assert out.count("h100_sxm") == 1


@pytest.mark.parametrize("style", ["md", "csv"])
def test_a_table_for_a_file_has_what_it_lacks_said_beside_it(
    capsys: Captured, file: Path, style: str
) -> None:
    code, out, err = ask(capsys, file, "--kind", "quantize", "--format", style)
    assert code == 0
    assert "not predicted" not in out
    assert "3 rows not predicted" in err
    assert "unheard-of" in err


def test_a_file_without_a_row_that_can_be_predicted_says_so(
    capsys: Captured, file: Path, tmp_path: Path
) -> None:
    few = tmp_path / "few.csv"
    pd.read_parquet(file).head(2).to_csv(few, index=False)
    code, out, _ = ask(
        capsys, few, "--kind", "quantize", "--cross-validate", "--format", "json", "--by", "gpu"
    )
    assert code == 0
    result = json.loads(out)["result"]
    assert (result["overall"]["n"], result["overall"]["coverage"]) == (0, 0.0)
    assert "2 rows cannot fit" in result["refused"][0]["why"]
    _, out, _ = ask(capsys, few, "--kind", "quantize", "--cross-validate")
    assert "2 rows cannot fit" in " ".join(out.split())


@pytest.mark.slow
def test_the_places_of_rows_survive_where(capsys: Captured, file: Path, tmp_path: Path) -> None:
    rows = tmp_path / "some.csv"
    command = (file, "--kind", "quantize", "--cross-validate", "--where", "batch=10")
    code, _, _ = ask(capsys, *command, "--out", rows)
    assert code == 0
    written, frame = pd.read_csv(rows), pd.read_parquet(file)
    some = frame[frame.batch == 10].reset_index(drop=True)
    assert written.m.tolist() == some.m.tolist()
    known = written.predicted_s.notna()
    off = written.predicted_s[known].to_numpy() / some.time_s[known].to_numpy()
    assert np.median(np.abs(np.log(off))) < 0.04


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--kind", "quantize", "--cross-validate", "--by", "gpus"], "--by 'gpus' names no column"),
        (["--kind", "quantize", "--cross-validate", "--by", ","], "--by ',' names no column"),
        (["--kind", "quantize", "--cross-validate", "--where", "gpu=a100_sxm"], "no row is left"),
        (["--kind", "quantize", "--cross-validate", "--where", "gpus=1"], "names no column"),
        (["--kind", "gemm", "--cross-validate"], "have no column"),
        (["--kind", "gems", "--cross-validate"], "'gems'"),
    ],
)
def test_what_cannot_be_validated_is_one_clear_error(
    capsys: Captured, file: Path, more: list[str], message: str
) -> None:
    code, out, err = ask(capsys, file, *more)
    assert code == 2
    assert out == ""
    assert message in err
    assert err.count("\n") == 2


def test_a_file_that_holds_no_rows_is_one_clear_error(capsys: Captured, tmp_path: Path) -> None:
    for name, content in (("rows.parquet", b"PAR1 no more"), ("rows.csv", b"\xff\xfe\x00")):
        path = tmp_path / name
        path.write_bytes(content)
        code, _, err = ask(capsys, path, "--kind", "gemm", "--cross-validate")
        assert code == 2
        assert "cannot be read as measurements" in err
    code, _, err = ask(capsys, tmp_path / "none.parquet", "--kind", "gemm", "--cross-validate")
    assert code == 2
    assert "none.parquet" in err


def test_the_help_says_what_missing_columns_are_taken_for(capsys: Captured) -> None:
    code, out, _ = ask(capsys, "--help")
    assert code == 0
    for name in {name for rule in COLUMNS.values() for name in (*rule.usual, *rule.like)}:
        assert name in out, name


def test_commas_are_and_and_bars_are_or() -> None:
    frame = pd.DataFrame({"gpu": ["a", "a", "b"], "n": [1, 2, 1]})
    assert len(chosen(frame, "gpu=a,n=1")) == 1
    assert len(chosen(frame, "gpu=a|b,n=1")) == 2
    assert len(chosen(frame, "gpu=b|n=2")) == 2
    assert len(chosen(frame, "")) == 3
    with pytest.raises(InputError, match="names no column"):
        chosen(frame, "a")


@pytest.mark.slow
def test_the_page_has_the_figures_of_the_table(
    capsys: Captured, file: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    code, out, err = ask(
        capsys, file, "--kind", "quantize", "--by", "batch", "--format", "json", "--report", page
    )
    assert code == 0
    assert f"wrote {page}" in err
    result, text = json.loads(out)["result"], page.read_text("utf-8")
    inside = percent(result["overall"]["interval_coverage"])
    assert f"{inside} of {result['overall']['n']} measured figures" in text
    for name in ("scored-time", "errors-by-group", "validated-table", "refused-table"):
        assert f'id="{name}"' in text
