"""Each format by hand: what was run, what was measured, and whose definition it is."""

import json
from pathlib import Path
from typing import Any

import pytest

from roofline.errors import DocumentError
from roofline.interop.results import MeasuredRun, known_formats, read_results
from roofline.interop.results.content import content_of

DATA = Path(__file__).parent / "data"
FILES = {
    "vllm_serve.json": ("vllm-serve", 1),
    "vllm_serving_2024.json": ("vllm-serve", 1),
    "vllm_latency.json": ("vllm-latency", 1),
    "vllm_throughput.json": ("vllm-throughput", 1),
    "vllm_latency_0.33.json": ("vllm-latency", 1),
    "vllm_throughput_0.33.json": ("vllm-throughput", 1),
    "vllm_sweep_summary.json": ("vllm-serve", 2),
    "vllm_sweep_summary.csv": ("vllm-sweep", 2),
    "sglang.jsonl": ("sglang-serving", 2),
    "sglang_0.5.23.jsonl": ("sglang-serving", 2),
    "sglang_2024.jsonl": ("sglang-serving", 1),
    "guidellm_0.2.json": ("guidellm", 2),
    "guidellm_0.4.json": ("guidellm", 3),
    "guidellm_0.7.json": ("guidellm", 1),
    "guidellm_0.8.json": ("guidellm", 3),
    "aiperf.json": ("aiperf", 1),
    "aiperf_phases.json": ("aiperf", 1),
    "aiperf_0.13.json": ("aiperf", 1),
    "genai_perf.json": ("aiperf", 1),
    "genai_perf_nested_ns.json": ("aiperf", 1),
    "aiperf.csv": ("aiperf-csv", 1),
    "genai_perf.csv": ("aiperf-csv", 1),
    "inferencemax.json": ("inferencemax", 1),
    "inferencex.json": ("inferencemax", 3),
    "inferencex_2026.json": ("inferencemax", 2),
    "inferencex_rows.json": ("inferencemax", 1),
    "inference_perf_stage.json": ("inference-perf", 1),
    "inference_perf_clients.json": ("inference-perf", 1),
    "inference_perf_summary.json": ("inference-perf", 1),
    "llmd_0.1.yaml": ("llm-d", 1),
    "llmd_0.2.yaml": ("llm-d", 1),
    "llmperf.json": ("llmperf", 1),
    "lmbench.csv": ("lmbench", 1),
    "trtllm.json": ("trtllm-bench", 1),
    "trtllm_0.17.json": ("trtllm-bench", 1),
    "trtllm.txt": ("trtllm-text", 1),
    "trtllm_0.17.txt": ("trtllm-text", 1),
    "llama_bench.json": ("llama-bench", 5),
    "llama_bench.jsonl": ("llama-bench", 2),
    "llama_bench.csv": ("llama-bench", 5),
    "llama_bench.md": ("llama-bench", 4),
    "llama_bench_old.json": ("llama-bench", 2),
    "llama_bench_old.md": ("llama-bench", 2),
    "optimum.json": ("optimum", 1),
    "optimum_0.2.json": ("optimum", 1),
    "tidy.csv": ("csv", 3),
}


def one(name: str, place: int = 0) -> MeasuredRun:
    return read_results(DATA / name)[place]


def said(run: MeasuredRun, *names: str) -> tuple[Any, ...]:
    return tuple(getattr(run.scenario, name) for name in names)


def test_every_file_of_the_folder_is_known_here() -> None:
    assert {path.name for path in DATA.iterdir()} == set(FILES)
    assert {name for name, _ in FILES.values()} == {each.name for each in known_formats()}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_of_one_format_alone(name: str) -> None:
    content = content_of(DATA / name)
    wanted, runs = FILES[name]
    assert [each.name for each in known_formats() if each.recognises(content)] == [wanted]
    found = read_results(DATA / name)
    assert (len(found), {run.format for run in found}) == (runs, {wanted})
    assert read_results(DATA / name, format_=wanted) == found


@pytest.mark.parametrize("name", FILES)
def test_a_latency_is_its_parts(name: str) -> None:
    """Means of requests alike: latency = TTFT + (tokens - 1) · TPOT, whoever measured."""
    for run in read_results(DATA / name):
        first, whole = run.get("ttft"), run.get("latency")
        gap = run.get("tpot") or run.get("itl")
        tokens = run.scenario.output
        if not (first and whole and gap and tokens) or run.scenario.beyond:
            continue
        assert whole == pytest.approx(first + (tokens - 1) * gap, rel=0.1), run.where


@pytest.mark.parametrize("name", FILES)
def test_throughputs_agree_with_lengths(name: str) -> None:
    for run in read_results(DATA / name):
        made, asked = run.get("output_throughput"), run.get("request_throughput")
        if made and asked and run.scenario.output:
            assert made == pytest.approx(asked * run.scenario.output, rel=2e-3), run.where
        total = run.get("total_throughput")
        if made and total and run.scenario.prompt and run.scenario.output:
            share = run.scenario.output / (run.scenario.prompt + run.scenario.output)
            assert made == pytest.approx(total * share, rel=2e-3), run.where


@pytest.mark.parametrize("name", FILES)
def test_each_figure_says_where_it_is_and_what_is_meant(name: str) -> None:
    for run in read_results(DATA / name):
        assert run.where.startswith(str(DATA / name))
        assert run.measurements
        for each in run.measurements:
            assert each.field
            assert each.definition
            assert each.value > 0


def test_vllm_serve_is_in_milliseconds_and_knows_its_clients() -> None:
    run = one("vllm_serve.json")
    assert run.tool == "vLLM bench serve"
    assert said(run, "model", "engine", "load", "concurrency", "rate", "requests") == (
        "meta-llama/Llama-3.1-8B-Instruct", "vllm", "closed", 32, None, 320,
    )  # fmt: skip
    assert said(run, "prompt", "output", "gpu", "gpus") == (1000.0, 200.0, "", None)
    assert run.get("ttft") == pytest.approx(0.175)
    assert run.get("tpot", "p99") == pytest.approx(0.0144)
    assert run.get("latency", "std") == pytest.approx(0.14)


def test_vllm_of_2024_names_no_endpoint_and_no_limit() -> None:
    run = one("vllm_serving_2024.json")
    assert run.tool == "vLLM benchmark_serving.py"
    assert said(run, "load", "rate", "concurrency") == ("open", 4.0, None)
    assert run.get("total_throughput") is None


def test_vllm_burstiness_is_the_shape_of_gaps(tmp_path: Path) -> None:
    """Gamma gaps of shape k have a deviation of k^-½ over their mean."""
    whole = json.loads((DATA / "vllm_serve.json").read_text("utf-8"))
    path = tmp_path / "a.json"
    path.write_text(json.dumps(whole | {"burstiness": 0.25, "request_rate": 3.5}), "utf-8")
    (run,) = read_results(path)
    assert said(run, "load", "rate", "cv") == ("open", 3.5, 2.0)


def test_vllm_with_details_knows_how_lengths_differ(tmp_path: Path) -> None:
    whole = json.loads((DATA / "vllm_serve.json").read_text("utf-8"))
    path = tmp_path / "a.json"
    path.write_text(json.dumps(whole | {"output_lens": [150, 200, 250, 0]}), "utf-8")
    assert read_results(path)[0].scenario.spread == pytest.approx(0.25)


def test_runs_appended_one_after_the_other_are_all_read(tmp_path: Path) -> None:
    whole = json.loads((DATA / "vllm_serve.json").read_text("utf-8"))
    path = tmp_path / "all.json"
    lines = [json.dumps(whole | {"max_concurrency": many}) for many in (1, 2, 4)]
    path.write_text("\n".join(lines), "utf-8")
    runs = read_results(path)
    assert [run.scenario.concurrency for run in runs] == [1, 2, 4]
    assert [run.where for run in runs] == [f"{path}:{line}" for line in (1, 2, 3)]


def test_speculation_is_told(tmp_path: Path) -> None:
    whole = json.loads((DATA / "vllm_serve.json").read_text("utf-8"))
    path = tmp_path / "a.json"
    path.write_text(json.dumps(whole | {"spec_decode_acceptance_length": 2.5}), "utf-8")
    assert read_results(path)[0].scenario.beyond == "speculative decoding, 2.50 tokens a step"


def test_vllm_latency_and_throughput_say_little_of_what_was_run() -> None:
    run = one("vllm_latency.json")
    assert said(run, "engine", "load", "model", "concurrency", "prompt") == (
        "vllm", "batch", "", None, None,
    )  # fmt: skip
    assert run.get("latency") == 1.52
    assert run.get("latency", "p90") == 1.528
    run = one("vllm_throughput.json")
    assert said(run, "load", "requests") == ("offline", 1000)
    assert run.get("total_throughput") == 16000.0


def test_sglang_reads_an_endless_rate_and_the_servers_arguments() -> None:
    first, second = read_results(DATA / "sglang.jsonl")
    assert said(first, "load", "rate", "concurrency", "engine") == ("closed", None, 16, "sglang")
    assert said(first, "model", "gpus") == ("", None)
    assert said(second, "model", "tp", "gpus", "weights", "kv", "engine_version") == (
        "/models/Meta-Llama-3.1-8B-Instruct", 1, 1, "fp8", "", "0.5.4",
    )  # fmt: skip
    assert first.get("itl", "p95") == pytest.approx(0.009)


def test_a_sweep_of_vllm_says_what_it_changed() -> None:
    listed, table = (
        read_results(DATA / "vllm_sweep_summary.json"),
        read_results(DATA / "vllm_sweep_summary.csv"),
    )
    assert {run.tool for run in (*listed, *table)} == {"vLLM bench sweep serve"}
    assert [said(run, "tp", "kv", "concurrency") for run in table] == [
        (1, "fp8", 32), (2, "fp8", 32),
    ]  # fmt: skip
    assert said(listed[0], "tp", "prompt", "output") == (2, 1000.0, 200.0)
    for metric in ("ttft", "tpot", "latency", "output_throughput"):
        assert table[1].get(metric) == listed[0].get(metric)


def test_data_parallel_replicas_of_vllm_count_as_devices(tmp_path: Path) -> None:
    whole = json.loads((DATA / "vllm_serve.json").read_text("utf-8"))
    path = tmp_path / "a.json"
    swept = {"run_number": 0, "tensor-parallel-size": 2, "data-parallel-size": 4}
    path.write_text(json.dumps([whole | swept]), "utf-8")
    assert said(read_results(path)[0], "tp", "dp", "gpus") == (2, 4, 8)


def test_vllm_names_the_model_of_a_batch_and_of_a_queue_from_033_on() -> None:
    for name in ("vllm_latency_0.33.json", "vllm_throughput_0.33.json"):
        assert said(one(name), "model", "engine") == ("Qwen/Qwen3-8B", "vllm")


def test_sglang_of_2026_has_its_arguments_in_the_state_of_a_scheduler() -> None:
    run, split = read_results(DATA / "sglang_0.5.23.jsonl")
    assert said(run, "model", "tp", "ep", "dp", "gpus", "weights", "kv", "engine_version") == (
        "/models/Qwen3-30B-A3B", 4, 4, 4, 4, "fp8", "fp8_e4m3", "0.5.23",
    )  # fmt: skip
    assert "devices of their own" in split.scenario.beyond
    assert split.version == "0.5.23"


def test_replicas_of_sglang_count_as_devices(tmp_path: Path) -> None:
    line = json.loads((DATA / "sglang_0.5.23.jsonl").read_text("utf-8").splitlines()[0])
    for state in line["server_info"]["internal_states"]:
        state["enable_dp_attention"] = False
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(line), "utf-8")
    assert said(read_results(path)[0], "tp", "dp", "gpus") == (4, None, 16)


def test_sglang_of_2024_has_other_names_for_lengths() -> None:
    run = one("sglang_2024.jsonl")
    assert said(run, "load", "rate", "engine") == ("open", 2.0, "")
    # Uniform from 128 to 256, and all of them were 256 on the average: half the range over that.
    assert run.scenario.spread == pytest.approx(0.25)


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("guidellm")])
def test_guidellms_time_per_output_token_gives_the_same_gap(name: str, tmp_path: Path) -> None:
    """By its definition, which has the prefill from 0.4 on and divides by all tokens."""
    whole = json.loads((DATA / name).read_text("utf-8"))
    direct = read_results(DATA / name)
    for run in whole["benchmarks"]:
        run["metrics"].pop("inter_token_latency_ms", None)
    path = tmp_path / "without.json"
    path.write_text(json.dumps(whole), "utf-8")
    for before, after in zip(direct, read_results(path), strict=True):
        assert after.get("itl") == pytest.approx(before.get("itl"))
        assert "time per output token" in after.measurements[-4].definition


def test_guidellm_names_the_strategy() -> None:
    closed, burst, rate = read_results(DATA / "guidellm_0.4.json")
    assert said(closed, "load", "concurrency", "model") == (
        "closed", 16, "Qwen/Qwen2.5-7B-Instruct",
    )  # fmt: skip
    assert said(burst, "load", "requests") == ("burst", 100)
    assert said(rate, "load", "rate", "cv") == ("open", 6.0, None)
    alone, even = read_results(DATA / "guidellm_0.2.json")
    assert said(alone, "load", "concurrency") == ("closed", 1)
    assert said(even, "load", "rate", "cv") == ("open", 4.0, 0.0)
    assert said(one("guidellm_0.7.json"), "concurrency") == (4,)
    clients, even, replayed = read_results(DATA / "guidellm_0.8.json")
    assert said(clients, "load", "concurrency") == ("closed", 4)
    assert said(even, "load", "rate", "cv") == ("open", 3.7, 0.0)
    assert said(replayed, "load", "beyond") == ("", "a trace that is replayed")
    assert [run.version for run in (alone, closed)] == ["", "0.4.0"]
    assert closed.get("latency") == pytest.approx(1.233)  # seconds already


def test_aiperf_says_units_and_devices() -> None:
    run = one("aiperf.json")
    assert (run.tool, run.version) == ("AIPerf", "0.5.0")
    assert said(run, "model", "gpu", "load", "concurrency", "requests") == (
        "Qwen/Qwen3-8B", "NVIDIA H100 80GB HBM3", "closed", 24, 240,
    )  # fmt: skip
    assert run.get("tpot") == pytest.approx(0.009)
    phases = one("aiperf_phases.json")
    assert said(phases, "model", "concurrency") == ("Qwen/Qwen3-8B", 8)


def test_aiperf_reads_the_phase_that_is_measured(tmp_path: Path) -> None:
    """Gamma gaps of shape 4 have a deviation of half their mean."""
    run = one("aiperf_0.13.json")
    assert said(run, "load", "rate", "cv", "model") == ("open", 7.2, 0.5, "Qwen/Qwen3-8B")
    assert run.notes == ("2 requests failed and are left out.",)
    whole = json.loads((DATA / "aiperf_0.13.json").read_text("utf-8"))
    phases = whole["input_config"]["phases"]
    phases[1] = {"name": "steady", "kind": "profiling", "type": "fixed_schedule"}
    path = tmp_path / "a.json"
    path.write_text(json.dumps(whole | {"is_complete": False, "incomplete_reason": "stall"}))
    (replayed,) = read_results(path)
    assert said(replayed, "load", "beyond") == ("", "a trace that is replayed")
    assert replayed.notes[0] == "AIPerf did not finish this run: stall."
    phases.append({"name": "more", "kind": "profiling", "type": "concurrency", "concurrency": 2})
    path.write_text(json.dumps(whole), "utf-8")
    assert "2 phases of load" in read_results(path)[0].scenario.beyond


def test_genai_perf_is_in_nanoseconds_where_it_says_so() -> None:
    plain, nested = one("genai_perf.json"), one("genai_perf_nested_ns.json")
    assert nested.get("ttft") == pytest.approx(plain.get("ttft")) == pytest.approx(0.1)
    assert said(plain, "load", "concurrency") == ("closed", 8)
    assert said(nested, "load", "rate") == ("open", 2.0)


def test_aiperf_tables_are_as_their_json() -> None:
    table, whole = one("aiperf.csv"), one("aiperf.json")
    for metric in ("ttft", "tpot", "latency", "output_throughput"):
        assert table.get(metric) == pytest.approx(whole.get(metric), rel=1e-3)
    assert said(table, "gpu", "load", "requests") == ("NVIDIA H100 80GB HBM3", "", 240)
    assert table.scenario.spread == pytest.approx(6 / 256)


def test_genai_perf_tables_have_commas_for_thousands() -> None:
    run = one("genai_perf.csv")
    assert run.get("ttft") == pytest.approx(1.1)
    assert run.get("latency", "p99") == pytest.approx(2.5392)
    assert run.get("output_throughput") == 483.93


def test_inferencemax_is_in_seconds_and_per_gpu() -> None:
    run = one("inferencemax.json")
    assert run.get("ttft") == 0.45
    assert run.get("output_throughput") == 175.0 * 8
    assert run.get("total_throughput") == 350.0 * 8
    assert said(run, "gpu", "gpus", "tp", "ep", "dp", "concurrency", "engine", "weights") == (
        "h200", 8, 8, 1, None, 16, "sglang", "fp8",
    )  # fmt: skip
    assert said(run, "prompt", "output", "source") == (None, None, "inferencemax")


def test_inferencex_says_what_no_prediction_knows() -> None:
    plain, drafts, split = read_results(DATA / "inferencex.json")
    assert said(plain, "prompt", "output", "beyond") == (1024.0, 1024.0, "")
    assert "mtp" in drafts.scenario.beyond
    assert "devices of their own" in split.scenario.beyond
    assert said(split, "gpus", "tp", "engine") == (24, 8, "trtllm")


def test_inferencex_divides_tokens_by_the_pool_that_made_them() -> None:
    """8 devices of prefill and 16 of decode: each rate is over its own, the total over all 24."""
    plain, split = read_results(DATA / "inferencex_2026.json")
    assert said(plain, "gpu", "tp", "pp", "gpus") == ("b200", 4, 2, 8)
    assert plain.get("output_throughput") == 800.0 * 8
    assert split.get("output_throughput") == 750.0 * 16
    assert split.get("input_throughput") == 1500.0 * 8
    assert split.get("total_throughput") == 1000.0 * 24
    assert 750.0 * 16 + 1500.0 * 8 == 1000.0 * 24


def test_a_row_of_inferencexs_interface_is_as_its_file() -> None:
    row, file = one("inferencex_rows.json"), one("inferencex.json")
    assert row.measurements == file.measurements
    names = ("gpu", "gpus", "tp", "engine", "weights", "concurrency", "prompt", "output", "source")
    assert said(row, *names) == said(file, *names)


def test_inference_perf_says_load_and_lengths_and_nothing_of_the_server() -> None:
    stage, clients = one("inference_perf_stage.json"), one("inference_perf_clients.json")
    assert said(stage, "load", "rate", "requests", "prompt", "output", "model") == (
        "open", 10.0, 600, 1024.0, 201.0, "",
    )  # fmt: skip
    assert said(clients, "load", "concurrency", "rate") == ("closed", 24, None)
    assert said(one("inference_perf_summary.json"), "load") == ("",)
    assert stage.get("ttft", "p99.9") == pytest.approx(0.11 * 1.3)
    assert stage.get("tpot") == pytest.approx(0.0125)
    assert stage.notes == (
        "3 requests failed and are left out.",
        "The client sent 9 requests a second, not the 10 asked for.",
    )


def test_llm_d_has_units_and_components() -> None:
    old, new = one("llmd_0.1.yaml"), one("llmd_0.2.yaml")
    for metric in ("ttft", "tpot", "latency", "output_throughput", "request_throughput"):
        assert old.get(metric) == pytest.approx(new.get(metric)), metric
    assert said(new, "model", "gpu", "gpus", "tp", "engine", "load", "rate", "requests") == (
        "Qwen/Qwen3-32B", "NVIDIA-H100-80GB-HBM3", 4, 2, "vllm", "open", 10.0, 500,
    )  # fmt: skip
    assert new.get("ttft", "p99.9") == pytest.approx(0.09 * 1.3)
    assert said(old, "gpus", "tp", "beyond") == (
        6, None, "prefill and decode on devices of their own",
    )  # fmt: skip


@pytest.mark.parametrize("name", ["null", "{}", "vllm", "7"])
def test_llm_d_reads_an_engine_without_a_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / "report.yaml"
    text = (DATA / "llmd_0.1.yaml").read_text("utf-8")
    path.write_text(text.replace("- name: llm-d-cuda", f"- {name}"), "utf-8")
    (run,) = read_results(path)
    assert run.scenario.engine == ""


@pytest.mark.parametrize(
    ("name", "more"),
    [("aiperf.json", "\nnull"), ("aiperf_0.13.json", "\n5")],
)
def test_a_document_that_is_no_result_is_refused(tmp_path: Path, name: str, more: str) -> None:
    path = tmp_path / name
    path.write_text(f"[{(DATA / name).read_text('utf-8')},{more}]", "utf-8")
    with pytest.raises(DocumentError):
        read_results(path)


@pytest.mark.parametrize("server", ["null", "5", "[]", "{}"])
def test_a_router_whose_server_says_nothing_is_read(tmp_path: Path, server: str) -> None:
    run = json.loads((DATA / "sglang.jsonl").read_text("utf-8").splitlines()[0])
    path = tmp_path / "router.jsonl"
    said = {"decode": [json.loads(server)], "internal_states": [json.loads(server)]}
    path.write_text(json.dumps(run | {"server_info": said}), "utf-8")
    (found,) = read_results(path)
    assert found.scenario.beyond == "prefill and decode on devices of their own"


def test_llmperf_counts_the_prefill_into_its_gaps() -> None:
    """Its gap is latency over tokens: 0.4 s and 150 gaps of 20 ms are 3.4 s over 151 tokens."""
    run = one("llmperf.json")
    assert run.get("latency") == pytest.approx(0.4 + 150 * 0.02)
    assert run.get("tpot") == pytest.approx(0.02)
    assert run.get("tpot", "p99") is None
    assert run.get("request_throughput") == pytest.approx(4 / 3.4)
    assert said(run, "load", "concurrency", "requests", "prompt") == ("closed", 4, 100, 550.0)


def test_lmbench_is_a_row_for_each_request() -> None:
    run = one("lmbench.csv")
    assert run.get("ttft") == pytest.approx((0.1 + 0.08 + 0.12 + 0.1) / 4)
    assert run.get("tpot", "p50") == pytest.approx(0.011)
    assert run.get("output_throughput") == pytest.approx(4 * 101 / 4.2)
    assert said(run, "requests", "prompt", "beyond") == (
        4, 1300.0, "conversations of up to 2 turns",
    )  # fmt: skip


def test_trtllm_text_is_as_its_json() -> None:
    printed, whole = one("trtllm.txt"), one("trtllm.json")
    for metric in ("ttft", "tpot", "latency", "output_throughput", "total_throughput"):
        assert printed.get(metric) == pytest.approx(whole.get(metric), rel=1e-4), metric
    assert printed.get("latency", "p99") == pytest.approx(whole.get("latency", "p99"))
    names = ("model", "gpu", "gpus", "engine", "engine_version", "weights", "kv", "load",
             "requests", "prompt", "output")  # fmt: skip
    assert said(printed, *names) == said(whole, *names)
    assert said(whole, "gpu", "weights", "load") == ("NVIDIA H100 80GB HBM3", "FP8", "offline")


def test_trtllm_of_old_names_no_machine_and_no_clients() -> None:
    run = one("trtllm_0.17.json")
    assert said(run, "gpu", "load", "concurrency", "gpus") == ("", "", None, 1)
    assert run.get("ttft") is None
    printed = one("trtllm_0.17.txt")
    assert said(printed, "gpus", "tp", "weights", "kv") == (2, 2, "float16", "")


def test_llama_bench_is_the_same_in_every_shape() -> None:
    listed = read_results(DATA / "llama_bench.json")
    table = read_results(DATA / "llama_bench.csv")
    assert [run.scenario for run in listed] == [run.scenario for run in table]
    for before, after in zip(listed, table, strict=True):
        for each, other in zip(before.measurements, after.measurements, strict=True):
            assert each.value == pytest.approx(other.value, rel=1e-6)
    prompt, answer, deep, both, behind = listed
    assert said(prompt, "load", "prompt", "output", "weights", "model", "gpu") == (
        "prefill", 512.0, None, "Q4_K_M", "Meta-Llama-3.1-8B-Instruct", "NVIDIA GeForce RTX 4090",
    )  # fmt: skip
    assert prompt.get("ttft") == pytest.approx(512 / 11000)
    assert answer.get("tpot") == pytest.approx(1 / 140)
    assert said(deep, "depth", "beyond") == (4096.0, "")
    assert said(both, "load", "prompt", "output") == ("batch", 512.0, 128.0)
    assert "4,096 cached tokens" in behind.scenario.beyond
    assert prompt.version == "build 6321"


def test_llama_bench_in_markdown_names_neither_file_nor_device() -> None:
    prompt, answer, deep, both = read_results(DATA / "llama_bench.md")
    assert said(prompt, "model", "gpu", "gpus", "weights") == ("", "", None, "Q4_K_M")
    assert answer.get("output_throughput") == 140.0
    assert said(deep, "depth") == (4096.0,)
    assert both.get("latency") == pytest.approx(640 / 666.11)
    old = read_results(DATA / "llama_bench_old.md")
    assert [run.scenario.load for run in old] == ["prefill", "decode"]
    assert said(old[0], "prompt", "weights") == (512.0, "Q8_0")


def test_optimum_decodes_one_token_less() -> None:
    run = one("optimum.json")
    assert said(run, "model", "gpu", "gpus", "load", "concurrency", "prompt", "output") == (
        "meta-llama/Llama-2-7b-hf", "NVIDIA A100-SXM4-80GB", 1, "batch", 4, 256.0, 65.0,
    )  # fmt: skip
    assert run.get("tpot") == pytest.approx(1.92 / 64)
    assert run.get("output_throughput") == pytest.approx(4 * 65 / 2.0)  # over both, not decoding
    old = one("optimum_0.2.json")
    assert said(old, "gpus", "output", "prompt") == (2, 33.0, 16.0)
    assert old.get("tpot") == pytest.approx(0.64 / 32)


def test_a_table_of_your_own_has_units_in_its_names() -> None:
    first, second, third = read_results(DATA / "tidy.csv")
    assert first.get("ttft", "p99") == pytest.approx(0.06)
    assert [run.scenario.load for run in (first, second, third)] == ["closed", "closed", "open"]
    assert said(third, "rate", "requests", "gpus") == (4.0, 240, 1)
