"""``roofline compare-measured`` as a person meets it."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

import roofline
from roofline.cli import run
from roofline.errors import DocumentError, InputError
from tests.interop.results.test_formats import DATA, FILES

Captured = pytest.CaptureFixture[str]
HERE = ("--gpu", "h100-sxm", "--gpus", "1")
REST = {
    "model": "llama-3.1-8b",
    "gpu": "h100-sxm",
    "gpus": 1,
    "engine": "vllm",
    "prompt": 512,
    "output": 128,
}
"""Columns that the files of others may leave out."""


def ask(capsys: Captured, *arguments: object) -> tuple[int, str, str]:
    code = run(["compare-measured", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.slow
def test_a_table_says_what_ran_and_how_far_off_it_is(capsys: Captured) -> None:
    code, out, err = ask(capsys, DATA / "tidy.csv")
    assert code == 0
    assert not err
    assert "tidy.csv:2: a table; llama-3.1-8b on 1 × h100-sxm, vllm, 1 client" in out.replace(
        "\n", " "
    )
    for word in ("Measured", "Predicted", "80 %", "Within", "TTFT", "TPOT", "Output throughput"):
        assert word in out
    assert "Summary" in out
    assert "note: No run at a rate was ever fitted to" in out
    assert max(len(line) for line in out.splitlines()) <= 100


@pytest.mark.slow
def test_json_has_runs_figures_and_a_summary(capsys: Captured) -> None:
    code, out, _ = ask(capsys, DATA / "vllm_serve.json", *HERE, "--format", "json")
    assert code == 0
    result = json.loads(out)["result"]
    assert result["runs"][0]["profile"] == "vllm"
    first = result["figures"][0]
    assert (first["metric"], first["statistic"], first["unit"]) == ("ttft", "mean", "s")
    assert first["measured"] == pytest.approx(0.175)
    assert first["low"] < first["predicted"] < first["high"]
    assert first["error"] == pytest.approx(first["predicted"] / first["measured"] - 1)
    assert first["field"] == "mean_ttft_ms"
    assert first["definition"].startswith("from sending a request")
    assert [entry["metric"] for entry in result["summary"]] == [
        "ttft", "tpot", "latency", "throughput", "all",
    ]  # fmt: skip
    assert result["summary"][-1]["n"] == len(result["figures"]) == 4


def test_every_percentile_where_asked_for(capsys: Captured) -> None:
    _, out, _ = ask(capsys, DATA / "vllm_serve.json", *HERE, "--all", "--format", "json")
    figures = json.loads(out)["result"]["figures"]
    tails = [entry for entry in figures if entry["statistic"] == "p99"]
    assert {entry["metric"] for entry in tails} == {"ttft", "tpot", "latency"}
    assert all(entry["inside"] is None and entry["reason"] == "" for entry in tails)


def test_csv_and_markdown_are_whole(capsys: Captured) -> None:
    _, out, _ = ask(capsys, DATA / "tidy.csv", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 9
    assert {row["inside"] for row in rows} <= {"True", "False"}
    assert float(rows[0]["low"]) < float(rows[0]["predicted"]) < float(rows[0]["high"])
    _, out, _ = ask(capsys, DATA / "tidy.csv", "--format", "md")
    assert out.count("| TTFT | mean |") == 3
    assert "**Summary**" in out


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_every_format_can_be_compared_given_what_it_leaves_out(name: str) -> None:
    from roofline.api.measured_rows import completed
    from roofline.interop.results import RunOptions, read_results

    asked: dict[str, Any] = dict(REST)
    runs_of_file = [run.scenario for run in read_results(DATA / name)]
    first = runs_of_file[0]
    if first.gpus or first.tp:
        del asked["gpus"]
    if not first.beyond and (not first.load or (first.load == "batch" and not first.concurrency)):
        with pytest.raises(DocumentError) as refused:
            completed(read_results(DATA / name)[0], RunOptions(**asked))
        assert refused.value.hint == "give `concurrency`"
        asked["concurrency"] = 8
    result = roofline.compare_measured(DATA / name, **asked)
    frames = result.to_pandas()
    assert set(frames) == {"runs", "figures", "summary", "groups"}
    runs, figures = frames["runs"], frames["figures"]
    known = runs[runs["why not"] == ""]
    assert len(known) == sum(not each.beyond for each in runs_of_file)
    assert set(known["run"]) == set(figures["run"])
    assert (figures["predicted"] > 0).all()


@pytest.mark.parametrize(
    ("arguments", "said", "hint"),
    [
        (("vllm_serve.json",), "does not say the GPU, how many GPUs", "give --gpu, --gpus"),
        (
            ("vllm_latency.json", *HERE),
            "does not say the model, the length of prompts, the length of answers, how many "
            "clients or sequences",
            "give --model, --prompt, --output, --concurrency",
        ),
        (("aiperf.json", "--gpus", "1"), "does not say the engine", "give --engine"),
        (("trtllm_0.17.json", "--gpu", "a100"), "how many clients", "give --concurrency"),
        (("none.json",), "does not exist", "check the spelling"),
        (("vllm_serve.json", "--as", "word"), "no format is called 'word'", "vllm-serve"),
        (("vllm_serve.json", "--as", "csv"), "this is no table", "name a CSV file"),
        (("vllm_serve.json", *HERE, "--prompt", "1e9"), "more than 16,777,216", "check the file"),
        (("vllm_serve.json", *HERE, "--gpus", "0"), "--gpus '0'", "from 1"),
        (("vllm_serve.json", *HERE, "--weights", "zz"), "--weights: no number format", "formats:"),
        (("vllm_serve.json", *HERE, "--kv", "zz"), "--kv: no number format", "formats:"),
        (("vllm_serve.json", *HERE, "--model", "zz"), "no network", "scenarios/models"),
        (("vllm_serve.json", "--gpus", "1", "--gpu", "zz"), "no GPU is called", "roofline gpus"),
        (("vllm_serve.json", *HERE, "--tp", "2"), "TP 2 on 1 GPU: the degrees", "give --gpus"),
        (("tidy.csv", *HERE, "--pp", "3"), "tidy.csv:2: PP 3 on 1 GPU", "give --gpus"),
        ((), "compare-measured needs FILES", "--help"),
    ],
)
def test_what_is_missing_is_one_clear_line(
    capsys: Captured, arguments: tuple[str, ...], said: str, hint: str
) -> None:
    named = [DATA / each if "." in each and each[0].isalpha() else each for each in arguments]
    code, out, err = ask(capsys, *named)
    assert code == 2
    assert not out
    assert said in err
    assert hint in err
    assert err.count("\n") == 2


def test_a_missing_word_is_asked_for_where_it_is(capsys: Captured) -> None:
    _, _, err = ask(capsys, DATA / "guidellm_0.4.json", *HERE)
    assert f"{DATA / 'guidellm_0.4.json'}: benchmarks[0]: the file does not say the engine" in err


def test_options_go_before_what_a_file_says(capsys: Captured) -> None:
    _, out, _ = ask(
        capsys, DATA / "tidy.csv", "--model", "qwen3-8b", "--concurrency", "2", "--format", "json"
    )
    runs = json.loads(out)["result"]["runs"]
    assert {entry["network"] for entry in runs} == {"qwen3-8b"}
    assert [entry["concurrency"] for entry in runs] == [2, 2, 2]
    assert [entry["load"] for entry in runs] == ["closed", "closed", "closed"]
    _, out, _ = ask(capsys, DATA / "vllm_serve.json", *HERE, "--rate", "3", "--format", "json")
    (entry,) = json.loads(out)["result"]["runs"]
    assert (entry["load"], entry["rate"]) == ("open", 3.0)


def test_a_run_that_fell_behind_its_rate_is_a_loop_of_its_clients(tmp_path: Path) -> None:
    whole = json.loads((DATA / "vllm_serve.json").read_text("utf-8"))
    path = tmp_path / "a.json"
    for rate, load in ((11.5, "open"), (50.0, "closed")):
        path.write_text(json.dumps(whole | {"request_rate": rate}), "utf-8")
        result = roofline.compare_measured(path, gpu="h100-sxm", gpus=1)
        assert result.tables["runs"]["load"] == (load,)


def test_only_runs_with_something_outside_where_asked_for(capsys: Captured, tmp_path: Path) -> None:
    rows = (DATA / "tidy.csv").read_text("utf-8").splitlines()
    path = tmp_path / "a.csv"
    told = roofline.compare_measured(DATA / "tidy.csv").tables["figures"].rows()
    tpot = next(row["predicted"] for row in told if (row["run"], row["metric"]) == (1, "tpot"))
    as_told = rows[1].replace("0.0078", f"{tpot:.5f}")
    slow = rows[2].replace("0.0086", "0.0286")
    path.write_text("\n".join([rows[0], as_told, slow, rows[3]]) + "\n", "utf-8")
    _, out, _ = ask(capsys, path, "--outside")
    assert "a.csv:3" in out
    assert "a.csv:2" not in out
    figures = list(roofline.compare_measured(path).tables["figures"].rows())
    outside = {str(row["run"]) for row in figures if not row["inside"]}
    assert "2" in outside
    assert "1" not in outside
    off = next(row["error"] for row in figures if (row["run"], row["metric"]) == (2, "tpot"))
    assert f"TPOT: it is predicted {-100 * off:.0f} % too low" in out
    assert "\nTPOT               3" in out  # the summary is of all
    _, out, _ = ask(capsys, path, "--outside", "--format", "csv")
    assert {row["run"] for row in csv.DictReader(io.StringIO(out))} == outside


def test_a_threshold_that_is_missed_exits_with_1(capsys: Captured) -> None:
    code, out, err = ask(capsys, DATA / "vllm_serve.json", *HERE, "--fail-above", "1")
    assert code == 1
    assert "Summary" in out
    assert "median error of TPOT is" in err
    assert "above 1 %" in err
    code, _, err = ask(capsys, DATA / "vllm_serve.json", *HERE, "--fail-above", "99")
    assert (code, err) == (0, "")


def test_a_limit_that_nothing_was_held_to_is_missed(capsys: Captured) -> None:
    arguments = (DATA / "vllm_serve.json", *HERE, "--prompt", "900000", "--fail-above", "99")
    code, out, err = ask(capsys, *arguments)
    assert "not predicted: 900200 tokens are more than" in out
    assert (code, err) == (1, "nothing was compared: none of the runs is predicted\n")


@pytest.mark.slow
def test_a_limit_that_some_runs_were_not_held_to_is_met_in_part(capsys: Captured) -> None:
    code, _, err = ask(capsys, DATA / "inferencex.json", "--fail-above", "9999")
    assert (code, err) == (4, "2 of 3 runs were not compared\n")
    code, _, err = ask(capsys, DATA / "inferencex.json", "--fail-above", "0")
    assert code == 1
    assert "above 0 %" in err


@pytest.mark.parametrize(
    ("gpus", "tp", "pp", "dp", "group"),
    [
        (4, None, 2, None, 2),
        (8, 4, 2, None, 4),
        (8, 2, None, None, 2),
        (8, 1, None, 8, 1),
        (8, 8, None, 8, 8),
        (None, 4, 2, None, 4),
    ],
)
def test_degrees_that_divide_the_devices_are_taken(
    gpus: int | None, tp: int | None, pp: int | None, dp: int | None, group: int
) -> None:
    from roofline.api.measured_rows import completed
    from roofline.interop.results import RunOptions, read_results

    run = read_results(DATA / "vllm_serve.json")[0]
    told = completed(run, RunOptions(gpu="h100-sxm", gpus=gpus, tp=tp, pp=pp, dp=dp))
    assert (told.gpus, told.tp) == (gpus or 8, group)
    with pytest.raises(DocumentError, match="on 7 GPUs: the degrees do not divide them"):
        completed(run, RunOptions(gpu="h100-sxm", gpus=7, tp=2, pp=pp, dp=dp))


def test_what_no_prediction_knows_is_listed_and_the_rest_goes_on(capsys: Captured) -> None:
    code, out, _ = ask(capsys, DATA / "inferencex.json")
    assert code == 0
    assert "not predicted: no prediction knows it: speculative decoding (mtp)" in out
    assert "prefill and decode on devices of their own" in out
    assert "TPOT" in out
    assert "note: 2 of 3 runs are not predicted." in out


def test_an_unknown_network_is_not_predicted_and_says_so(capsys: Captured, tmp_path: Path) -> None:
    whole = json.loads((DATA / "vllm_serve.json").read_text("utf-8"))
    path = tmp_path / "a.json"
    path.write_text(json.dumps(whole | {"model_id": "somebody/mystery-9b"}), "utf-8")
    code, out, err = ask(capsys, path, *HERE)
    assert (code, err) == (1, "nothing was compared: none of the runs is predicted\n")
    assert "not predicted: no network of the catalog has the shape of 'mystery-9b'" in out
    assert "Summary" not in out
    code, out, _ = ask(capsys, path, *HERE, "--format", "json")
    assert json.loads(out)["result"]["figures"] == []


def test_names_in_files_open_no_files(tmp_path: Path, capsys: Captured) -> None:
    """A path in a result is a name: only its last part counts, and no file is read by it."""
    whole = json.loads((DATA / "vllm_serve.json").read_text("utf-8"))
    path, secret = tmp_path / "a.json", tmp_path / "secret.yaml"
    secret.write_text("password: hunter2\n", "utf-8")
    path.write_text(json.dumps(whole | {"model_id": str(secret), "gpu": str(secret)}), "utf-8")
    code, _, err = ask(capsys, path, "--gpus", "1")
    assert code == 2
    assert "does not say the model, the GPU" in err
    assert "hunter2" not in err
    path.write_text(json.dumps(whole | {"model_id": "/models/Llama-3.1-8B-Instruct/"}), "utf-8")
    code, out, _ = ask(capsys, path, *HERE)
    assert code == 0
    assert "llama-3.1-8b on 1" in out


EVIL = "<script>alert('x')</script>\x1b[31m|`=cmd()`\n\u202e**b**"


@pytest.mark.parametrize("format_", ["table", "md", "csv", "json"])
def test_hostile_names_stay_names(capsys: Captured, tmp_path: Path, format_: str) -> None:
    whole = json.loads((DATA / "vllm_serve.json").read_text("utf-8"))
    path = tmp_path / "a.json"
    path.write_text(json.dumps(whole | {"model_id": EVIL, "backend": EVIL}), "utf-8")
    code, out, err = ask(capsys, path, *HERE, "--engine", EVIL, "--format", format_)
    assert (code, err) == (1, "nothing was compared: none of the runs is predicted\n")
    assert "\x1b" not in out
    if format_ == "md":
        assert "<script" not in out
        assert "**b**" not in out
        assert "|`" not in out
    if format_ == "json":
        json.loads(out)
    elif format_ != "csv":
        assert "not predicted" in out
    code, _, err = ask(capsys, path, "--as", EVIL)
    assert code == 2
    assert "\x1b" not in err


def test_a_hostile_table_is_text_to_a_spreadsheet(capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "=1+1.csv"
    path.write_text((DATA / "tidy.csv").read_text("utf-8"), "utf-8")
    _, out, _ = ask(capsys, path, "--format", "csv")
    assert not any(line.startswith("=") for line in out.splitlines())


def test_no_file_is_a_mistake() -> None:
    with pytest.raises(InputError, match="no file is named"):
        roofline.compare_measured([])


def test_several_files_are_one_comparison(capsys: Captured) -> None:
    code, out, _ = ask(
        capsys, DATA / "tidy.csv", DATA / "vllm_serve.json", *HERE, "--format", "json"
    )
    assert code == 0
    result = json.loads(out)["result"]
    assert [entry["run"] for entry in result["runs"]] == [1, 2, 3, 4]
    assert len(result["files"]) == 2


def test_what_files_leave_out_is_given_as_calibrate_takes_it(capsys: Captured) -> None:
    file = DATA / "aiperf.json"
    told = "gpu=h100-sxm,gpus=1,engine=vllm"
    apart = ask(capsys, file, *HERE, "--engine", "vllm")
    assert ask(capsys, file, "--given", told) == apart
    code, _, err = ask(capsys, file, "--given", told, "--gpus", 2)
    assert code == 2
    assert "--given gpus beside --gpus" in err
