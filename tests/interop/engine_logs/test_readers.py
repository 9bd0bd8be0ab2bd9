"""Logs in the shape that engines write them, whole, cut off, mixed up, and very long."""

import gzip
import math
import tracemalloc
from pathlib import Path

import pytest

from roofline.errors import DocumentError
from roofline.interop.engine_logs import EngineLog, read_logs
from roofline.interop.engine_logs.log import MOST_STEPS
from tests.cases import cases
from tests.interop.engine_logs.simulated import CACHE, Planted, loops, sglang_lines, written

V1 = (
    "INFO 03-02 09:00:{second:02d} [loggers.py:116] Engine {engine:03d}: Avg prompt throughput: "
    "{prompt} tokens/s, Avg generation throughput: {output} tokens/s, Running: {running} reqs, "
    "Waiting: 3 reqs, GPU KV cache usage: {usage}%, Prefix cache hit rate: {hits}%"
)
FIRST_V1 = (  # 0.8: no number of the engine
    "INFO 03-02 09:00:00 [loggers.py:87] Avg prompt throughput: 0.0 tokens/s, Avg generation "
    "throughput: 400.0 tokens/s, Running: 4 reqs, Waiting: 0 reqs, GPU KV cache usage: 2.0%, "
    "Prefix cache hit rate: 0.0%"
)
PREEMPTED = (  # 0.12 on: parts that are there only where they tell something
    "(APIServer pid=7) INFO 03-02 09:00:00 [loggers.py:257] Engine 000: Avg prompt throughput: "
    "0.0 tokens/s, Avg generation throughput: 400.0 tokens/s, Running: 4 reqs, Waiting: 0 reqs, "
    "Deferred: 2 reqs, Preemptions: 1, GPU KV cache usage: 2.0%, Prefix cache hit rate: 0.0%, "
    "External prefix cache hit rate: 1.0%, MM cache hit rate: 3.0%"
)
V0 = (
    "INFO 03-02 09:00:00 metrics.py:455] Avg prompt throughput: 0.0 tokens/s, Avg generation "
    "throughput: 400.0 tokens/s, Running: 4 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache "
    "usage: 2.0%, CPU KV cache usage: 0.0%."
)


def v1(**changes: object) -> str:
    given = {"second": 1, "engine": 0, "prompt": 0.0, "output": 400.0, "running": 4, "usage": 2.0,
             "hits": 0.0}  # fmt: skip
    return V1.format(**given | changes)


def log(path: Path, *lines: str) -> EngineLog:
    return read_logs([written(path / "engine.log", iter(lines))])


@pytest.mark.parametrize("line", [v1(), FIRST_V1, PREEMPTED, V0])
def test_a_step_of_vllm_is_sequences_over_the_rate_of_tokens(tmp_path: Path, line: str) -> None:
    found = log(tmp_path, "INFO GPU KV cache size: 100,000 tokens", line, "other", line)
    (step,) = found.steps
    assert (step.running, step.seconds, step.usage) == (4, 0.01, 0.02)
    assert (found.engine, found.capacity) == ("vllm", 100_000)
    assert (found.lines, found.used, found.cut, found.unsteady) == (4, 1, 0, 1)


def test_prompts_of_vllm_are_tokens_for_each_step(tmp_path: Path) -> None:
    first, other = log(tmp_path, v1(), v1(prompt=500.0), v1(prompt=500.0, hits=40.0)).steps
    assert first.prompt_tokens == pytest.approx(500 * 0.01)
    # Between all of them and the 60 % that no prefix had.
    assert other.prompt_tokens == pytest.approx(0.8 * 500 * 0.01)
    assert other.prompt_tokens * (1 - other.doubt) == pytest.approx(0.6 * 500 * 0.01)
    assert other.prompt_tokens * (1 + other.doubt) == pytest.approx(500 * 0.01)


def test_engines_of_vllm_are_told_apart_and_sums_are_shared_out(tmp_path: Path) -> None:
    found = log(tmp_path, *(v1(engine=n, running=4 + 40 * n) for n in (0, 1, 0, 1)))
    assert [step.running for step in found.steps] == [4, 44]
    whole = v1().replace("Engine 000: ", "2 Engines Aggregated: ")
    (step,) = log(tmp_path, whole, whole).steps
    assert (step.running, step.seconds) == (2, 0.01)


def test_lines_of_idle_or_changing_load_tell_nothing(tmp_path: Path) -> None:
    loads = [v1(running=count) for count in (4, 8, 8, 0, 9, 9)]
    found = log(tmp_path, *loads, v1(running=9, output=0.0))
    assert [step.running for step in found.steps] == [8, 9]
    assert found.unsteady == 5
    assert found.lines == found.used + found.unsteady


def test_a_change_makes_a_step_less_sure(tmp_path: Path) -> None:
    same, more = log(tmp_path, v1(running=9), v1(running=9), v1(running=11)).steps
    assert same.running_sd == 0
    # Uniform from 9 to 11: a standard deviation of 2 / √12.
    assert more.running == 10
    assert more.running_sd == pytest.approx(2 / math.sqrt(12) / 10)


def test_colours_bytes_and_cut_lines_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    coloured = f"\x1b[1;36m(EngineCore pid=3)\x1b[0;0m {v1()}".encode()
    cut = v1().encode()[: v1().index("Running")]
    long = b"\r".join([b"Loading 10%"] * 20_000)
    path.write_bytes(b"\n".join([b"\xff\xfe\x00 not text", coloured, cut, long, coloured, cut]))
    found = read_logs([path])
    assert len(found.steps) == 1
    assert (found.lines, found.cut) == (6, 2)
    assert "6 lines: 1 of steps, 1 of idle or changing load, 2 cut off, 2 of other" in found.account


def test_packed_logs_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.log.gz"
    path.write_bytes(gzip.compress(f"{v1()}\n{v1()}\n".encode()))
    assert len(read_logs([path]).steps) == 1


DECODE = (
    "[2026-03-02 09:00:00{rank}] Decode batch{dot} #running-req: {running}, #{full}token: "
    "{tokens}, {full}token usage: 0.11, {graph}gen throughput (token/s): {output}, "
    "#queue-req: 0{end}"
)
PREFILL = (
    "[2026-03-02 09:00:00{rank}] Prefill batch{dot} #new-seq: 2, #new-token: {new}, "
    "#cached-token: 11, token usage: 0.10, #running-req: {running}, #queue-req: 0, "
)
GRAPH = "cuda graph: True, "
SGLANG = [
    {"dot": ".", "graph": "", "end": "", "full": ""},  # 0.4.0
    {"dot": ".", "graph": GRAPH, "end": ", ", "full": ""},  # 0.4.6
    {"dot": " [1234],", "graph": GRAPH, "end": ", ", "full": ""},  # 0.5
    {"dot": ",", "graph": f"#swa token: 5, swa token usage: 0.01, {GRAPH}", "end": ", ",
     "full": "full "},  # hybrid
]  # fmt: skip


@pytest.mark.parametrize("shape", SGLANG)
def test_a_step_of_sglang_has_the_prompts_since_the_last_line(
    tmp_path: Path, shape: dict[str, str]
) -> None:
    given = {"rank": " TP0", "running": 8, "tokens": 8000, "output": 500.0} | shape
    decode, prefill = DECODE.format(**given), PREFILL.format(**given, new=600)
    found = log(tmp_path, "max_total_num_tokens=70000, x", decode, prefill, prefill, decode, decode)
    mixed, plain = found.steps
    assert (mixed.running, mixed.seconds, mixed.tokens) == (8, 0.016, 8000)
    assert (mixed.prompt_tokens, mixed.chunk, mixed.prompts) == (1200 / 40, 600, 2)
    assert (plain.prompt_tokens, plain.chunk) == (0, 0)
    assert found.capacity == 70_000


def test_copies_of_attention_are_told_apart_and_idle_time_is_left_out(tmp_path: Path) -> None:
    shape = {"running": 8, "tokens": 8000, "output": 500.0} | SGLANG[1]
    lines = [DECODE.format(rank=f" DP{n} TP{n}", **shape) for n in (0, 1, 0, 1)]
    assert len(log(tmp_path, *lines).steps) == 2
    decode = DECODE.format(rank="", **shape)
    woken = PREFILL.format(rank="", **shape | {"running": 0}, new=600)
    assert len(log(tmp_path, decode, decode, woken, decode, decode).steps) == 2


ITER = (  # 1.0
    "[03/02/2026-09:00:00] [TRT-LLM] [I] iter = {n}, global_rank = {rank}, rank = {rank}, "
    "currank_total_requests = 0/0, host_step_time = {ms}ms, prev_device_step_time = N/A, "
    "timestamp = 2026-03-02 09:00:00, num_scheduled_requests: {scheduled}, states = "
    "{{'num_ctx_requests': {ctx}, 'num_ctx_tokens': {new}, 'num_generation_tokens': {gen}}}"
)
LATER = (  # 1.2
    "[03/02/2026-09:00:00] [TRT-LLM] [I] iter = {n}, global_rank = {rank}, rank = {rank}, "
    "num_scheduled_requests = {scheduled}, kv_cache_util = 0.100, currank_total_requests = 0/0, "
    "host_step_time = {ms}ms, prev_device_step_time = 6.1ms, timestamp = 2026-03-02 09:00:00, "
    "states = {{'num_ctx_requests': {ctx}, 'num_ctx_tokens': {new}, "
    "'num_generation_tokens': {gen}, 'cached_kv_tokens': 5}}"
)


def iteration(shape: str, n: int, **changes: object) -> str:
    given = {"n": n, "rank": 0, "ms": 5.0, "ctx": 0, "new": 0, "gen": 16, "scheduled": 16} | changes
    return shape.format(**given)


@pytest.mark.parametrize("shape", [ITER, LATER])
def test_iterations_of_tensorrt_llm_are_averaged(tmp_path: Path, shape: str) -> None:
    plain = [iteration(shape, n) for n in range(36)]
    mixed = [iteration(shape, n, ms=20.0, ctx=2, new=1000, scheduled=18) for n in range(4)]
    (step,) = log(tmp_path, *plain[:20], *mixed, *plain[20:]).steps
    assert step.running == 16
    assert step.seconds == pytest.approx((36 * 5e-3 + 4 * 20e-3) / 40)
    assert (step.prompt_tokens, step.chunk, step.prompts) == (100, 1000, 2)
    assert math.isnan(step.usage) == (shape is ITER)


def test_iterations_that_change_or_pause_are_not_averaged(tmp_path: Path) -> None:
    few = [iteration(LATER, n, gen=4, scheduled=4) for n in range(7)]
    many = [iteration(LATER, n) for n in range(10)]
    idle = iteration(LATER, 0, gen=0, scheduled=0, ms=900.0)
    found = log(tmp_path, *few, *many, idle, *few)
    (step,) = found.steps
    assert step.running == 16
    assert step.seconds == pytest.approx(5e-3)
    assert (found.used, found.unsteady) == (10, 15)


def test_statistics_of_iterations_are_read_one_a_line(tmp_path: Path) -> None:
    line = (
        '{"iter": 3, "iterLatencyMS": 8.5, "inflightBatchingStats": {"numContextRequests": 0, '
        '"numCtxTokens": 0, "numGenRequests": 10}, "kvCacheStats": {"usedNumBlocks": 100, '
        '"tokensPerBlock": 32}}'
    )
    (step,) = log(tmp_path, *[line] * 20, line[:60]).steps
    assert (step.running, step.tokens) == (10, 3200)
    assert step.seconds == pytest.approx(8.5e-3)


def scrape(count: float, gap: str = "inter_token_latency_seconds", prefix: str = "vllm") -> str:
    label = '{engine="0",model_name="a{b}"}'
    samples = {
        f"{gap}_sum": 0.012 * count, f"{gap}_count": count, "prompt_tokens_total": count / 2,
        "generation_tokens_total": count, "iteration_tokens_total_count": count / 6,
        "num_requests_running": 6.0, "time_to_first_token_seconds_count": count / 100,
        "kv_cache_usage_perc": 0.25,
    }  # fmt: skip
    lines = [f"# TYPE {prefix}:{name} untyped\n{prefix}:{name}{label} {value}"
             for name, value in samples.items()]  # fmt: skip
    bucket = f'{prefix}:{gap}_bucket{{le="+Inf"}} {count}'
    config = f'{prefix}:cache_config_info{{block_size="16",num_gpu_blocks="500"}} 1.0'
    return "\n".join([*lines, bucket, config])


@pytest.mark.parametrize("gap", ["inter_token_latency_seconds", "time_per_output_token_seconds"])
def test_scrapes_tell_of_what_came_since_the_one_before(tmp_path: Path, gap: str) -> None:
    found = log(
        tmp_path, scrape(6000, gap), scrape(18_000, gap), "other_metric 3", scrape(600, gap)
    )
    assert [step.running for step in found.steps] == [6, 6, 6]  # the last is of a new server
    for step in found.steps:
        assert step.seconds == pytest.approx(0.012)
        assert step.prompt_tokens == pytest.approx(3)
        assert step.chunk == pytest.approx(50)
        assert step.usage == 0.25
    assert found.capacity == 8000


def test_metrics_of_sglang_have_the_tokens_in_use(tmp_path: Path) -> None:
    text = "\n".join(
        f'sglang:{name}{{tp_rank="0"}} {value}'
        for name, value in (
            ("num_running_reqs", 4.0), ("num_used_tokens", 4000.0), ("prompt_tokens_total", 900.0),
            ("cached_tokens_total", 300.0), ("inter_token_latency_seconds_sum", 1.0),
            ("inter_token_latency_seconds_count", 100.0),
        )
    )  # fmt: skip
    (step,) = log(tmp_path, text).steps
    assert (step.running, step.seconds, step.tokens) == (4, 0.01, 4000)
    assert step.prompt_tokens == 600 / 100 * 4


@pytest.mark.parametrize(
    ("lines", "said", "hint"),
    [
        (["nothing", "of interest"], "no line of 2 is of an engine's statistics", "vLLM writes"),
        ([""], "no line of 0 is", "vLLM writes"),
        ([v1()], "no line tells of a step: 1 lines: 0 of steps", "steady load"),
        ([v1()[:150]], "1 cut off", "steady load"),
        ([v1(), v1(), iteration(LATER, 1)], "iterations that TensorRT-LLM logs, those", "own"),
        ([v1(), "INFO SpecDecoding metrics: Mean acceptance length: 2.4"], "drafts", "without"),
        (
            [iteration(LATER, n, gen=48) for n in range(9)],
            "drafts (speculative decoding)", "roofline speculate",
        ),
    ],
)  # fmt: skip
def test_a_file_without_steps_is_one_located_error(
    tmp_path: Path, lines: list[str], said: str, hint: str
) -> None:
    with pytest.raises(DocumentError, match=r"engine\.log") as caught:
        log(tmp_path, *lines)
    assert said in str(caught.value.message)
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize(
    "odd",
    [
        v1(output="1.2.3"),
        v1(usage="..."),
        v1(running="9" * 400),
        iteration(LATER, 1, ms="1.2.3"),
        iteration(LATER, 1, ms="1e999"),
        "vllm:inter_token_latency_seconds_sum +Inf",
        'vllm:inter_token_latency_seconds_sum{a="b"} many',
        "sglang:",
    ],
)
def test_figures_without_a_meaning_are_no_steps(tmp_path: Path, odd: str) -> None:
    with pytest.raises(DocumentError, match="no line tells of a step"):
        log(tmp_path, *[odd] * 12)


def test_several_logs_are_of_one_engine(tmp_path: Path) -> None:
    one = written(tmp_path / "a.log", iter([v1(), v1()]))
    two = written(tmp_path / "b.log", iter([v1(running=8), v1(running=8)]))
    found = read_logs([one, two])
    assert [(step.line, step.running) for step in found.steps] == [(2, 4), (4, 8)]
    other = written(tmp_path / "c.log", iter([iteration(LATER, n) for n in range(9)]))
    with pytest.raises(DocumentError, match="it is iterations"):
        read_logs([one, other])


@pytest.mark.slow
def test_a_simulated_log_tells_the_steps_that_were_run(tmp_path: Path) -> None:
    runs = list(loops(Planted(), [(8, 500, 1000)], "sglang", 8.0))
    found = read_logs([written(tmp_path / "a.log", sglang_lines(runs))])
    plain = [one.seconds for one in runs[0] if not one.chunks and one.running == 8]
    steps = [each for each in found.steps if each.running == 8 and not each.prompt_tokens]
    assert found.capacity == CACHE
    assert steps
    for step in steps:
        assert min(plain) <= step.seconds * 1.001
        assert step.seconds * 0.999 <= max(plain)


@pytest.mark.slow
def test_a_log_is_read_in_less_memory_than_it_has_bytes(tmp_path: Path) -> None:
    least = cases(60_000_000, 100_000_000)
    path = tmp_path / "long.log"
    other = f"INFO Received request: prompt: {'word ' * 400}\n"
    block = "".join(
        f"{v1(running=4 + n % 2, output=400 + n)}\n{other}" for n in range(100)
    ).encode()
    count = least // len(block) + 1
    with path.open("wb") as file:
        for _ in range(count):
            file.write(block)
    tracemalloc.start()
    found = read_logs([path])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert path.stat().st_size >= least
    assert found.lines == 200 * count
    assert MOST_STEPS / 2 <= len(found.steps) <= MOST_STEPS
    assert peak < 40_000_000


@pytest.mark.parametrize(
    "lines",
    [
        ["sglang:spec_accept_length 2.9", "sglang:inter_token_latency_seconds_count 100"],
        ["vllm:spec_decode_num_drafts_total 500", "vllm:inter_token_latency_seconds_count 100"],
        ['{"iterLatencyMS": 10.0, "inflightBatchingStats": {"numContextRequests": 0, '
         '"numCtxTokens": 0, "numGenRequests": 4}, "specDecodingStats": {"numDraftTokens": 30}}'],
        ["INFO metrics.py:477] Speculative metrics: Draft acceptance rate: 0.8", v1()],
    ],
)  # fmt: skip
def test_drafts_are_told_in_many_ways(tmp_path: Path, lines: list[str]) -> None:
    with pytest.raises(DocumentError, match="the engine drafts"):
        log(tmp_path, *lines)


def test_stages_of_a_pipeline_are_refused(tmp_path: Path) -> None:
    line = (
        "[2026-03-02 09:00:00 PP0 TP0] Decode batch. #running-req: 4, #token: 400, token usage: "
        "0.1, gen throughput (token/s): 400.0, #queue-req: 0"
    )
    with pytest.raises(DocumentError, match="a pipeline"):
        log(tmp_path, line, line)


def test_iterations_of_an_array_are_each_read(tmp_path: Path) -> None:
    one = (
        '{"iter": 1, "iterLatencyMS": 10.0, "inflightBatchingStats": {"numContextRequests": 0, '
        '"numCtxTokens": 0, "numGenRequests": 4}}'
    )
    found = log(tmp_path, f"[{', '.join([one] * 40)}]")
    assert (found.used, found.cut) == (40, 0)
    (step,) = found.steps
    assert step.running == 4.0
    assert step.seconds == pytest.approx(0.01)


def test_absurd_numbers_are_no_steps(tmp_path: Path) -> None:
    line = (
        "[2026-03-02 09:00:00] Decode batch. #running-req: 4, #token: {}, token usage: 0.1, gen "
        "throughput (token/s): 400.0, #queue-req: 0"
    )
    with pytest.raises(DocumentError, match="no line tells of a step"):
        log(tmp_path, *[line.format("9" * digits) for digits in (400, 400, 5000)])
