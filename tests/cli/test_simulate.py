"""``roofline simulate``: what it prints, writes and refuses."""

import csv
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import roofline
from roofline.cli import run
from roofline.serving.traffic.presets import preset_names

SMALL = "simulate llama-3.1-8b --prompt 400 --output 20..40 --requests 60"
TRACE = "arrival_s,prompt,output\n" + "".join(f"{i * 0.2},{300 + i},{10 + i}\n" for i in range(40))


class Ran:
    """Outcome of a command."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def result(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.out)
        assert document["schema"] == "roofline/result/1"
        assert document["command"] == "simulate"
        result: dict[str, Any] = document["result"]
        return result


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Any:
    def command(line: str) -> Ran:
        code = run(shlex.split(line))
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return command


@pytest.mark.slow
def test_the_table_says_what_users_feel_within_a_page(cli: Any) -> None:
    ran = cli(f"{SMALL} --rate 5 --slo ttft=500ms,tpot=50ms")
    assert ran.code == 0
    for title in (
        "What users feel",
        "SLO, as simulated",
        "Throughput and price",
        "The server",
        "Workload",
    ):
        assert f"\n{title}\n" in ran.out
    assert "Holds the load: 5.00 requests/s come in" in ran.out
    assert max(map(len, ran.out.splitlines())) <= 100
    assert "60 requests served" in ran.err
    assert "60 requests served" not in ran.out


def test_the_summary_says_the_percentiles_of_the_table(cli: Any) -> None:
    lines = cli(f"{SMALL} --rate 5").out.splitlines()
    heads, row, said = (
        next(line for line in lines if line.startswith(start))
        for start in ("Latency  ", "TTFT  ", "TTFT is")
    )
    cells = dict(zip(re.split(" {2,}", heads), re.split(" {2,}", row), strict=False))
    assert cells["P90"].endswith("ms"), "a 90th percentile of a latency is a time"
    assert said.startswith(f"TTFT is {cells['P50']} at the median and {cells['P99']} at p99; TPOT")


def test_json_carries_all_tables_and_no_nan(cli: Any) -> None:
    result = cli(f"{SMALL} --rate 5 --format json").result
    assert result["metrics"]["ttft_s"]["p99"] >= result["metrics"]["ttft_s"]["p50"] > 0
    assert set(result["metrics"]) == {"ttft_s", "queueing_s", "tpot_s", "latency_s"}
    assert result["throughput"]["throughput_tok_s"]["unit"] == "token/s"
    assert result["server"]["utilisation"]["value"] <= 1
    assert result["stable"] is True
    assert result["requests"] == 60
    assert {row["part"] for row in result["cache"]} >= {"room", "peak", "internal waste"}


def test_single_tokens_have_no_tpot(cli: Any) -> None:
    result = cli("simulate --prompt 400 --output 1 --requests 40 --rate 5 --format json").result
    assert set(result["metrics"]) == {"ttft_s", "queueing_s", "latency_s"}


@pytest.mark.parametrize("style", ["csv", "md"])
def test_other_formats(cli: Any, style: str) -> None:
    ran = cli(f"{SMALL} --rate 5 --format {style}")
    assert ran.code == 0
    if style == "csv":
        rows = list(csv.DictReader(ran.out.splitlines()))
        assert rows[0]["metric"] == "ttft_s"
        assert float(rows[0]["p99"]) >= float(rows[0]["p50"])
    else:
        assert "| TTFT |" in ran.out


@pytest.mark.slow
def test_the_same_seed_prints_the_same_and_another_one_does_not(cli: Any) -> None:
    first, again, other = (
        cli(f"{SMALL} --rate 5 --seed {seed} --format json").out for seed in (3, 3, 4)
    )
    assert first == again
    assert first != other


@pytest.mark.slow
def test_the_command_is_the_function(cli: Any) -> None:
    result = cli(f"{SMALL} --rate 5 --format json").result
    same = roofline.simulate("llama-3.1-8b", prompt=400, output="20..40", requests=60, rate=5)
    rows = {row["metric"]: row for row in same.tables["headline"].rows()}
    assert result["metrics"]["ttft_s"]["mean"] == rows["ttft_s"]["mean"]


@pytest.mark.slow
def test_overload_is_said_and_fails(cli: Any) -> None:
    ran = cli("simulate --prompt 4000 --output 100 --rate 200 --requests 400")
    assert ran.code == 1
    assert "Overloaded: 200 requests/s come in, and it saturates at" in ran.out
    assert "What users feel (overloaded: grows with the length of the run)" in ran.out
    line = "simulate --prompt 4000 --output 100 --rate 200 --requests 400 --slo ttft=3600s"
    result = cli(f"{line} --format json").result
    assert (result["stable"], result["met"]) == (False, False)
    assert "No SLO holds under overload" in result["summary"][1]


@pytest.mark.slow
def test_a_broken_objective_fails_where_it_was_given(cli: Any) -> None:
    ran = cli(f"{SMALL} --rate 5 --slo ttft=1us")
    assert ran.code == 1
    assert "The SLO is missed: TTFT p99." in ran.out
    assert cli(f"{SMALL} --rate 5 --slo ttft_mean=10s").code == 0


def test_a_workload_of_your_own(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    guess = "source: assumed, note: a guess"
    path.write_text(
        "schema_version: 1\nname: mine\ntitle: Mine\n"
        f"prompt: {{kind: constant, tokens: {{value: 300 token, {guess}}}}}\n"
        f"output: {{kind: constant, tokens: {{value: 5 token, {guess}}}}}\n"
        f"arrivals: {{kind: even, rate: {{value: 2 request/s, {guess}}}}}\n"
        f"requests: {{value: 30, {guess}}}\n",
        encoding="utf-8",
    )
    result = cli(f"simulate --workload {path} --format json").result
    assert (result["requests"], result["workload_title"]) == (30, "Mine")
    # Nothing overlaps: every request is alone.
    latency = result["metrics"]["latency_s"]
    assert latency["p99"] == pytest.approx(latency["p50"])
    path.write_text(path.read_text("utf-8").replace("2 request/s", "2 token/s"), encoding="utf-8")
    ran = cli(f"simulate --workload {path}")
    assert (ran.code, f"{path}:6:" in ran.err) == (2, True)


@pytest.mark.slow
def test_long_times_are_seconds(cli: Any) -> None:
    ran = cli("simulate --prompt 100 --output 4000 --rate 0.001 --requests 5")
    assert " ks" not in ran.out


def test_a_closed_loop(cli: Any) -> None:
    result = cli("simulate --prompt 400 --output 30 --concurrency 8 --format json").result
    assert result["requests"] == 80
    assert result["stable"] is None
    assert result["server"]["running_most"]["value"] == 8


@pytest.mark.slow
def test_every_request_is_written(cli: Any, tmp_path: Path) -> None:
    import pandas as pd

    parquet, table, events = (tmp_path / name for name in ("a.parquet", "b.csv", "c.json"))
    ran = cli(f"{SMALL} --rate 5 --out {parquet} --timeline {events}")
    assert ran.code == 0
    assert f"wrote {parquet}" in ran.err
    frame = pd.read_parquet(parquet)
    assert len(frame) == 60
    cli(f"{SMALL} --rate 5 --out {table}")
    again = pd.read_csv(table)
    assert list(again.columns) == list(frame.columns)
    assert (again["finish_s"] == frame["finish_s"]).all()
    trace = json.loads(events.read_text("utf-8"))
    names = {event["name"] for event in trace["traceEvents"] if event["ph"] == "X"}
    assert {"prefill", "decode"} <= names


@pytest.mark.slow
def test_a_trace_is_replayed_at_its_own_rate_or_another(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(TRACE, encoding="utf-8")
    result = cli(f"simulate --trace {path} --format json").result
    assert result["requests"] == 40
    assert result["offered_requests_per_s"] == pytest.approx(5.0)
    faster = cli(f"simulate --trace {path} --rate 10 --requests 20 --format json").result
    assert (faster["requests"], faster["offered_requests_per_s"]) == (20, pytest.approx(10.0))
    closed = cli(f"simulate --trace {path} --concurrency 4 --warmup 4 --format json").result
    assert (closed["stable"], closed["counted"]) == (None, 36)


@pytest.mark.slow
def test_prefixes_of_a_trace_are_found_in_the_cache(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    lines = [
        {"timestamp": 2000 * i, "input_length": 1030, "output_length": 5, "hash_ids": [7, 8, 9 + i]}
        for i in range(10)
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    result = cli(f"simulate --trace {path} --format json").result
    # All but the first find two blocks of 512 of 1030 tokens.
    found = 9 * 1024 / 10_300
    assert result["server"]["prefix_hits"]["value"] == pytest.approx(found)
    off = cli(f"simulate --trace {path} --no-prefix-caching --format json").result
    assert off["server"]["prefix_hits"]["value"] == 0
    assert off["metrics"]["ttft_s"]["mean"] > result["metrics"]["ttft_s"]["mean"]


@pytest.mark.slow
@pytest.mark.parametrize("name", preset_names())
def test_every_workload_runs(cli: Any, name: str) -> None:
    """On a server of few sequences, which is full soon: its saturation is simulated as well."""
    line = f"simulate --workload {name} --requests 40 --max-sequences 32 --format json"
    result = cli(line).result
    assert result["requests"] == 40
    assert result["metrics"]["latency_s"]["mean"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm", "ideal"])
def test_every_engine_runs_as_it_does(cli: Any, engine: str) -> None:
    result = cli(f"{SMALL} --rate 5 --engine {engine} --format json").result
    assert result["engine"] == engine


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["static", "packed", "dynamic", "continuous", "chunked"])
def test_every_policy_runs(cli: Any, policy: str) -> None:
    result = cli(f"{SMALL} --rate 5 --policy {policy} --max-sequences 16 --format json").result
    assert result["policy"] == policy


@pytest.mark.slow
def test_regions_waste_what_pages_do_not(cli: Any) -> None:
    line = "simulate --prompt 100..3000 --output 10..200 --requests 80 --rate 20 --format json"
    pages, regions = (cli(f"{line}{more}").result for more in ("", " --contiguous"))

    def waste(result: dict[str, Any]) -> float:
        parts: dict[str, float] = {row["part"]: float(row["tokens"]) for row in result["cache"]}
        return parts["reserved"] + parts["internal waste"]

    assert waste(regions) > 10 * waste(pages)


@pytest.mark.slow
def test_replicas_share_the_load(cli: Any) -> None:
    one, four = (
        cli(f"{SMALL} --rate 40 --gpus {gpus} --tp 1 --format json").result for gpus in (1, 4)
    )
    assert four["replicas"] == 4
    assert four["saturation_requests_per_s"] == pytest.approx(4 * one["saturation_requests_per_s"])
    assert four["metrics"]["tpot_s"]["mean"] < one["metrics"]["tpot_s"]["mean"]


@pytest.mark.parametrize(
    ("line", "said", "code"),
    [
        ("--rate 4 --concurrency 8", "--rate and --concurrency", 2),
        ("--workload chatt", "no workload 'chatt'", 2),
        ("--trace nowhere.csv", "does not exist", 2),
        ("--trace x.csv --workload chat", "--trace does not take --workload", 2),
        ("--trace x.csv --prompt 5", "--trace does not take --prompt", 2),
        ("--rate 0", "rate is 0", 2),
        ("--rate nan", "rate is nan", 2),
        ("--rate 4 --cv -1", "coefficient of variation", 2),
        ("--concurrency 0", "concurrency is 0", 2),
        ("--concurrency 4 --cv 2", "does not take --cv", 2),
        ("--prompt many", "not a length", 2),
        ("--requests 0", "0 requests", 2),
        ("--requests 10 --warmup 10", "warm-up takes 10 of 10", 2),
        ("--slo ttft=fast", "is no time", 2),
        ("--seed -1", "seed is -1", 2),
        ("--timeout 1", "does not take --timeout", 2),
        ("--max-sequences 0", "max sequences is 0", 2),
        ("--policy static --prefix-caching", "prefixes are not shared", 2),
        ("--out requests.txt", "neither Parquet nor CSV", 2),
        ("--out none/requests.csv", "there is no folder none", 2),
        ("--timeline none/trace.json", "there is no folder none", 2),
        ("--prompt 200000", "longer than the 131,072 tokens", 2),
        ("--layout auto", "does not choose a layout", 2),
        ("--gpu l4 --weights fp32", "no room for a cache", 1),
    ],
)
def test_what_makes_no_sense_is_refused(cli: Any, line: str, said: str, code: int) -> None:
    ran = cli(f"simulate llama-3.1-8b {line}")
    assert ran.code == code
    assert said in ran.err
    assert "hint: " in ran.err
    assert ran.out == ""


def test_networks_that_do_not_decode_are_refused(cli: Any) -> None:
    ran = cli("simulate bert-base-uncased")
    assert ran.code == 2
    assert "does not decode token by token" in ran.err


@pytest.mark.slow
def test_prefixes_that_leave_the_gpu_wait_on_the_host(cli: Any) -> None:
    assert cli(f"{SMALL} --rate 5 --host-cache 10furlongs").code == 2
    assert cli(f"{SMALL} --rate 5 --host-cache 1GB --no-prefix-caching").code == 2
    line = "simulate llama-3.1-8b --workload multi-turn --requests 60 --memory-utilization 0.25"
    bare = cli(f"{line} --format json --no-intervals").result
    tier = cli(f"{line} --format json --no-intervals --host-cache 256GB").result
    loaded = tier["server"]["loaded_tokens"]["value"]
    assert loaded > bare["server"]["loaded_tokens"]["value"] == 0
    hits = [each["server"]["prefix_hits"]["value"] for each in (bare, tier)]
    assert hits[0] < hits[1]
    deep = cli(f"{line} --format json --no-intervals --host-cache 50MB --nvme-cache 1TB").result
    found = {row["tier"]: row for row in deep["tiers"]}
    assert list(found) == ["GPU", "host memory", "NVMe"]
    assert found["NVMe"]["hit_tokens"] > 0
    whole = sum(row["hits"] for row in found.values())
    assert whole == pytest.approx(deep["server"]["prefix_hits"]["value"])
    assert found["NVMe"]["load_s"] > found["host memory"]["load_s"] > found["GPU"]["load_s"] == 0
    assert cli(f"{SMALL} --rate 5 --nvme-cache 1TB").code == 2
    pool = cli(f"{SMALL} --rate 5 --format json --no-intervals --cache-pool 1TB").result
    assert [row["tier"] for row in pool["tiers"]] == ["GPU", "pool of all"]
    both = cli(f"{SMALL} --rate 5 --cache-pool 1TB --host-cache 1GB --nvme-cache 1TB")
    assert (both.code, "beside drives" in both.err) == (2, True)


def test_replicas_of_several_kinds_share_traffic(cli: Any) -> None:
    line = f'{SMALL} --gpu h100-sxm --rate 20 --beside "l40s x2" --router load'
    ran = cli(f"{line} --format json").result
    kinds = ran["replica_kinds"]
    assert [row["replicas"] for row in kinds] == [1, 2]
    assert sum(row["requests"] for row in kinds) == ran["counted"]
    assert ran["gpus"] == 3
    assert ran["machines"] == "1 × NVIDIA H100 SXM5 80GB, 2 × NVIDIA L40S 48GB"
    for more in ("--cache-pool 1TB", "--cache-curve", "--scaling start=1s", "--pue 1.2"):
        refused = cli(f"{line} {more}")
        assert (refused.code, "replicas of several kinds" in refused.err) == (2, True), more
    assert cli(f'{SMALL} --rate 20 --beside "l40s x2 y"').code == 2


@pytest.mark.slow
def test_requests_are_sent_where_load_is_least(cli: Any) -> None:
    # Enough of them that some wait: a choice of replica changes nothing for one that does not.
    line = "simulate llama-3.1-8b --gpus 3 --tp 1 --rate 90 --requests 300 --no-intervals"
    turns, load = (
        cli(f"{line} --format json{more}").result["metrics"]["ttft_s"]["mean"]
        for more in ("", " --router load")
    )
    assert load < turns
    told = cli(f"{line} --router prefix")
    assert "weighs loads" in " ".join(told.out.split())
    assert cli("simulate llama-3.1-8b --rate 5 --router load").code == 2
    assert cli(f"{SMALL} --gpus 2 --tp 1 --concurrency 4 --router load").code == 2


@pytest.mark.slow
def test_drafts_make_answers_faster_and_are_told(cli: Any) -> None:
    line = f"{SMALL} --concurrency 4 --no-intervals"
    plain = cli(f"{line} --format json").result["metrics"]["tpot_s"]["mean"]
    ran = cli(f"{line} --format json --draft eagle --acceptance 0.8 --draft-length 3")
    assert ran.result["metrics"]["tpot_s"]["mean"] < plain
    told = cli(f"{line} --draft ngram --acceptance 0.5")
    assert "1.94 tokens a round are expected" in " ".join(told.out.split())
    assert cli(f"{line} --acceptance 0.5").code == 2
    assert cli(f"{line} --draft ngram").code == 2


@pytest.mark.slow
def test_a_day_is_sent_whole_and_its_peak_is_told(cli: Any) -> None:
    line = "simulate llama-3.1-8b --calibration none --prompt 100 --output 4"
    ran = cli(f"{line} --rate-curve '0h 0.005, 9h 0.03, 18h 0.01' --format json")
    assert ran.code == 0
    sent = 3600 * (9 * 0.005 + 9 * 0.03 + 6 * 0.01)
    assert ran.result["requests"] == pytest.approx(sent, abs=1)
    assert ran.result["offered_requests_per_s"] == pytest.approx(sent / 86_400)
    told = " ".join(ran.result["summary"])
    assert "0.0156 requests/s come in on average and 0.03" in told
    # At ten times what it serves for a minute a day, it is overloaded then and on no average.
    over = cli(f"{line} --rate-curve '0h 0.001, 12h 3000, 12:01 0.001' --requests 3000")
    assert "Overloaded at the peak" in over.out
    assert cli(f"{line} --rate-curve '0h 1' --concurrency 4").code == 2
