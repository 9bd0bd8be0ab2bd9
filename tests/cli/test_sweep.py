"""``roofline sweep`` and ``roofline schema``: what they print, write and refuse."""

import csv
import io
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from roofline.cli import run
from roofline.study.pricing import Pricing
from roofline.study.store.chunk import Chunk
from roofline.view.terminal import WIDTH

FILE = """\
schema_version: 1
name: small
title: Which of two is faster?
kind: batch
models:
  - {name: "plain 8b", model: llama-3.1-8b, with: gqa=8}
  - llama-3.1-70b
gpus: [h100-sxm, l40s]
batch: [1, 8]
prompt: 512
output: 32
constraints: {tpot_s: 12 ms}
objectives: [min tpot_s, min usd_per_mtok]
"""


class Ran:
    """Outcome of a command."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Any:
    def command(line: str) -> Ran:
        code = run(shlex.split(line))
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return command


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(FILE)
    return path


def test_a_table_says_what_was_found(cli: Any, small: Path) -> None:
    ran = cli(f"sweep {small}")
    assert ran.code == 0
    assert "8 configurations, 2 of them feasible." in ran.out
    assert "4 do not fit into memory, 2 have TPOT above 12.0 ms." in ran.out
    assert "frontier of min tpot_s and min usd_per_mtok" in ran.out
    assert max(map(len, ran.out.splitlines())) <= WIDTH
    assert "8 configurations, 1 of 1 chunk, 2 rows kept, took" in ran.err


def test_a_scenario_is_read_from_standard_input(
    cli: Any, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for option in ("--format csv", "--dry-run"):
        whole = cli(f"sweep {small} {option}")
        with small.open() as stream:
            monkeypatch.setattr(sys, "stdin", stream)
            piped = cli(f"sweep - {option}")
        assert (piped.code, piped.out.splitlines()[0]) == (0, whole.out.splitlines()[0])
        assert option == "--dry-run" or piped.out == whole.out


def test_a_fault_on_standard_input_has_its_place(
    cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "wrong"
    path.write_text(FILE.replace("[h100-sxm, l40s]", "[h100-sxm, l99]"))
    with path.open() as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        ran = cli("sweep - --dry-run")
    assert (ran.code, ran.out) == (2, "")
    assert "stdin:8:18: no GPU is called 'l99'" in ran.err


def test_what_all_have_in_common_is_said_once(cli: Any, small: Path) -> None:
    text = cli(f"sweep {small}").out
    lines, words = text.splitlines(), " ".join(text.split())
    assert "All of these: plain 8b, h100-sxm, tp1" in words
    assert "512 tokens of prompt" in words
    rule = next(place for place, line in enumerate(lines) if line.startswith("─"))
    header = " ".join(lines[rule - 3 : rule])
    assert "Batch" in header
    assert "GPU " not in header.replace("per GPU ", "")


def test_csv_has_every_column_and_no_formula(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(FILE.replace("plain 8b", " @SUM(A1)").replace("llama-3.1-70b", "llama-3.2-1b"))
    rows = list(csv.DictReader(io.StringIO(cli(f"sweep {path} --keep all --format csv").out)))
    assert len(rows) == 8
    assert {"index", "model", "tpot_s", "tpot_s_high", "usd_per_mtok", "limit"} <= set(rows[0])
    # A cell that a spreadsheet would run is text.
    assert not any(cell[:1] in "=+-@\t\r" for row in rows for cell in row.values() if cell)


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@x", "\\ta", "\\ra"])
def test_names_that_a_spreadsheet_would_run_are_refused(
    cli: Any, tmp_path: Path, name: str
) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(FILE.replace("plain 8b", name))
    ran = cli(f"sweep {path}")
    assert ran.code == 2
    assert f"{path}:6:" in ran.err


def test_json_is_one_document_without_nan(cli: Any, small: Path) -> None:
    ran = cli(f"sweep {small} --keep all --format json")
    document = json.loads(ran.out, parse_constant=lambda text: pytest.fail(text))
    assert (document["schema"], document["command"]) == ("roofline/result/1", "sweep")
    result = document["result"]
    assert result["counts"] == {"feasible": 2, "memory": 4, "tpot_s": 2}
    assert len(result["rows"]) == 8
    first = result["rows"][0]
    assert first["feasible"]
    assert isinstance(first["batch"], int)
    assert first["tpot_s_low"] < first["tpot_s"] < first["tpot_s_high"]


def test_markdown_is_a_table(cli: Any, small: Path) -> None:
    lines = cli(f"sweep {small} --format md").out.splitlines()
    assert any(line.startswith("| Batch |") for line in lines)


def test_a_result_is_written_and_gone_on_with(cli: Any, small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = cli(f"sweep {small} --out {out} --keep all")
    assert f"wrote {out / 'result.parquet'}" in ran.err
    table = pq.read_table(out / "result.parquet")
    about = json.loads(table.schema.metadata[b"roofline"])
    assert about["kind"] == "sweep"
    assert about["title"] == "Which of two is faster?"
    assert about["units"]["tpot_s"] == "s"
    assert about["units"]["throughput_tok_s"] == "token/s"
    assert about["objectives"] == ["min tpot_s", "min usd_per_mtok"]
    assert about["configurations"] == len(table) == 8
    again = cli(f"sweep {small} --out {out} --keep all")
    assert "going on: 1 of 1 chunks are there" in again.err
    assert again.out == ran.out
    other = cli(f"sweep {small} --out {out}")
    assert other.code == 2
    assert "another sweep" in other.err


@pytest.mark.slow
def test_a_dry_run_prices_next_to_nothing(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    path.write_text(FILE.replace("batch: [1, 8]", "batch: {from: 1, to: 1000000, step: 1}"))
    ran = cli(f"sweep {path} --dry-run")
    assert ran.code == 0
    assert "4,000,000" in ran.out
    assert "4 combinations of names" in ran.out
    assert "about less" not in ran.out
    assert "───" not in ran.out  # no table without a header
    result = json.loads(cli(f"sweep {path} --dry-run --format json").out)["result"]
    assert result["configurations"] == 4 * 10**6
    assert result["seconds"] > 0


def test_ctrl_c_is_130_and_the_rest_is_done_later(
    cli: Any, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = cli(f"sweep {small} --keep all --format csv").out
    monkeypatch.setattr(sys.modules["roofline.api.sweeps"], "chunk_size", lambda *_: 2)
    line = f"sweep {small} --keep all --format csv --workers 1 --out {tmp_path / 'out'}"
    price, seen = Pricing.__call__, list[int]()

    def interrupted(self: Pricing, chunk: Chunk) -> Any:
        seen.append(chunk.number)
        if chunk.number == 2:
            raise KeyboardInterrupt
        return price(self, chunk)

    monkeypatch.setattr(Pricing, "__call__", interrupted)
    ran = cli(line)
    assert (ran.code, ran.out) == (130, "")
    assert "run the same command again to go on" in ran.err
    monkeypatch.setattr(Pricing, "__call__", price)
    ran = cli(line)
    assert "going on: 2 of 4 chunks are there" in ran.err
    assert seen == [0, 1, 2]
    assert [row[:12] for row in csv.reader(ran.out.splitlines())] == [
        row[:12] for row in csv.reader(whole.splitlines())
    ]


def test_nothing_feasible_is_1_and_says_what_is_missed(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(FILE.replace("12 ms", "1 us"))
    ran = cli(f"sweep {path}")
    assert ran.code == 1
    assert "0 of them feasible" in ran.out
    assert "TPOT above 1.00 µs" in ran.out


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("sweep quantization", "did you mean quantisation?"),
        ("sweep ./nowhere.yaml", "does not exist"),
        ("sweep gpus --keep best", "all, feasible, pareto, or top-20"),
        ("sweep gpus --workers 0", "at least 1"),
    ],
)
def test_mistakes_are_2(cli: Any, line: str, said: str) -> None:
    ran = cli(line)
    assert ran.code == 2
    assert said in ran.err
    assert not ran.out


def test_the_schema_is_printed_or_written(cli: Any, tmp_path: Path) -> None:
    printed = json.loads(cli("schema").out)
    assert printed["$schema"].endswith("2020-12/schema")
    ran = cli(f"schema --out {tmp_path / 's.json'}")
    assert ran.code == 0
    assert not ran.out
    assert json.loads((tmp_path / "s.json").read_text()) == printed
    assert cli(f"schema --out {tmp_path / 'no' / 's.json'}").code == 2


def test_bounds_are_marked_and_named(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "mixed.yaml"
    path.write_text(FILE.replace("l40s", "gaudi3").replace("  - llama-3.1-70b\n", ""))
    text = cli(f"sweep {path} --keep feasible").out
    bounds = [line for line in text.splitlines() if line.startswith("gaudi3")]
    others = [line for line in text.splitlines() if line.startswith("h100-sxm")]
    assert bounds
    assert others
    assert all("≥" in line and "±" not in line for line in bounds)
    assert all("≥" not in line and "±" in line for line in others)
    words = " ".join(text.split())
    assert "Rows of gaudi3 without an interval are priced at published rates" in words
    assert "vLLM takes" in words
    alone = cli(f"sweep {path} --keep feasible --format json").out
    assert any("Rows of gaudi3" in note for note in json.loads(alone)["notes"])


@pytest.mark.slow
def test_traffic_says_how_it_is_known(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "traffic.yaml"
    text = FILE.replace("kind: batch", "kind: traffic").replace("batch: [1, 8]", "rate: 1")
    for line in ("prompt: 512\n", "output: 32\n", "  - llama-3.1-70b\n"):
        text = text.replace(line, "")
    path.write_text(text.replace("l40s", "gaudi3").replace(", min usd_per_mtok", ""))
    rows = list(csv.DictReader(io.StringIO(cli(f"sweep {path} --format csv --keep all").out)))
    assert {row["gpu"]: row["basis"] for row in rows} == {
        "h100-sxm": "interpolated",
        "gaudi3": "datasheet",
    }
    (measured,) = (row for row in rows if row["gpu"] == "h100-sxm")
    (bound,) = (row for row in rows if row["gpu"] == "gaudi3")
    assert float(measured["ttft_s_low"]) < float(measured["ttft_s_high"])
    assert bound["ttft_s_low"] == bound["served_chance"] == ""
    text = cli(f"sweep {path} --keep all").out
    words = " ".join(text.split())
    assert "Low and high hold a mean in 4 of 5 cases" in words
    # Forecasts with their intervals come first, whatever a bound promises.
    first, last = (line for line in text.splitlines() if line.startswith(("h100", "gaudi3")))
    assert first.startswith("h100-sxm")
    assert "±" in first
    assert last.count("≥") >= 2
    (row,) = (r for r in to_rows(cli, path) if r["gpu"] == "h100-sxm")
    assert row["tpot_s_low"] < row["tpot_s"] < row["tpot_s_high"]


def to_rows(cli: Any, path: Path) -> list[dict[str, Any]]:
    document = json.loads(cli(f"sweep {path} --format json --keep all").out)
    found: list[dict[str, Any]] = document["result"]["rows"]
    return found


@pytest.mark.slow
def test_a_time_without_an_upper_end_says_its_lower_one(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "traffic.yaml"
    text = FILE.replace("kind: batch", "kind: traffic").replace("[h100-sxm, l40s]", "l40s")
    for line in (
        "prompt: 512\n",
        "output: 32\n",
        "  - llama-3.1-70b\n",
        "12 ms",
        "constraints: {tpot_s: }\n",
    ):
        text = text.replace(line, "")
    text = text.replace(", min usd_per_mtok", "")
    text += "engines: [trtllm]\n"  # known less well than others: its ends are far apart
    path.write_text(text.replace("batch: [1, 8]", "rate: 1"))
    (first,) = to_rows(cli, path)
    path.write_text(text.replace("batch: [1, 8]", f"rate: {0.897 * first['saturation_per_s']}"))
    (close,) = to_rows(cli, path)
    # Nine of ten are too many to say that it holds the load.
    assert close["served_chance"] < 0.9
    assert close["tpot_s_low"] is not None
    assert close["tpot_s_high"] is None
    assert close["output_tok_s_low"] < close["output_tok_s"]
    assert close["usd_per_mtok_high"] > close["usd_per_mtok"]
    assert " or more)" in cli(f"sweep {path}").out


def test_an_answer_of_one_token_has_no_time_between_tokens(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "one.yaml"
    text = FILE.replace("output: 32", "output: [1, 32]").replace("  - llama-3.1-70b\n", "")
    path.write_text(text.replace("12 ms", "1 us"))
    rows = list(csv.DictReader(io.StringIO(cli(f"sweep {path} --format csv --keep all").out)))
    ones = [row for row in rows if row["output"] == "1"]
    assert {(row["tpot_s"], row["user_tok_s"], row["limit"]) for row in ones} == {("", "", "")}
    assert {row["limit"] for row in rows if row["output"] == "32"} == {"tpot_s"}
    assert "—" in cli(f"sweep {path}").out


def test_a_figure_that_is_not_known_is_not_called_too_large(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "unknown.yaml"
    text = FILE.replace("tpot_s: 12 ms", "tpot_s_high: 12 s").replace("[1, 8]", "1")
    text = text.replace("l40s", "gaudi3").replace("  - llama-3.1-70b\n", "")
    path.write_text(text)
    ran = cli(f"sweep {path} --keep all")
    words = " ".join(ran.out.split())
    assert "2 configurations, 1 of them feasible." in words
    assert "Of the others 1 has no known TPOT, upper end." in words
    assert "tpot_s_high" not in words


def test_gpus_are_shown_where_the_layout_does_not_say_them(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "pools.yaml"
    text = FILE.replace("  - llama-3.1-70b\n", "").replace("[h100-sxm, l40s]", "h100-sxm")
    assert "GPUs" not in cli(f"sweep {small_file(path, text)} --keep all").out
    text += "techniques: [{name: apart, disaggregation: {prefill: tp1}}]\n"
    assert "GPUs" in cli(f"sweep {small_file(path, text)} --keep all").out


def small_file(path: Path, text: str) -> Path:
    path.write_text(text)
    return path
