"""Logs as engines write them, of a server that is simulated here step by step.

A closed loop of clients is served in the plainest way: what a step takes is read from the prices of
the project by the tests' own reader of them (`tests.serving.simulate.reference_prices`), with
deviations that are planted. Lines are counted from the steps that were run.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from roofline.api.setting import make_deployment
from roofline.cost.deployment import Deployment
from roofline.hardware import catalog as hardware
from roofline.model import catalog as networks
from roofline.records import replace
from roofline.serving.simulate.prices import StepPrices, step_prices
from tests.serving.simulate.reference_prices import line, step_s

CACHE = 450_000
BUDGET = 8192
Load = tuple[int, int, int]
"""Clients, and mean tokens of prompts and answers."""
LOADS: tuple[Load, ...] = (
    *((clients, 500, 1000) for clients in (1, 2, 4, 8, 16, 32, 64, 128)),
    *((clients, 9000, 2000) for clients in (2, 8, 24)),
)


@dataclass(frozen=True)
class Planted:
    """Deviations of a server from the shipped prices."""

    factor: float = 1.0
    step_s: float = 0.0
    sequence_s: float = 0.0

    def on(self, prices: StepPrices) -> StepPrices:
        costs = prices.engine
        return replace(
            prices,
            engine=replace(
                costs,
                decode_gain=costs.decode_gain * self.factor,
                prefill_gain=costs.prefill_gain * self.factor,
                step_s=costs.step_s + self.step_s,
                sequence_s=costs.sequence_s + self.sequence_s,
            ),
        )


@dataclass(frozen=True)
class Step:
    """A step as it was run: when it ended, and what was in it and in the cache after it."""

    end: float
    seconds: float
    decoded: int
    chunks: tuple[int, ...]
    first_tokens: int
    prompts_done: int
    running: int
    tokens: int


@dataclass
class Prompt:
    length: int
    done: int = 0


@dataclass
class Loop:
    """A closed loop of clients, each of which asks again when it is answered."""

    prices: StepPrices
    load: Load
    decode_first: bool
    seed: int = 0
    now: float = 0.0
    waiting: list[Prompt] = field(default_factory=list)

    def __post_init__(self) -> None:
        clients, self.prompt, self.output = self.load
        self.random = np.random.default_rng(self.seed)
        self.context = np.zeros(0)
        self.left = np.zeros(0)
        self.waiting = [Prompt(self._around(self.prompt)) for _ in range(clients)]

    def _around(self, mean: int) -> int:
        return int(self.random.integers(int(0.5 * mean), int(1.5 * mean) + 1))

    def steps(self, seconds: float) -> Iterator[Step]:
        stop = self.now + seconds
        while self.now < stop:
            yield self.step()

    def step(self) -> Step:
        decoding = len(self.context) if self.decode_first or not self.waiting else 0
        room, chunks, done = BUDGET - decoding, [], []
        for one in self.waiting:
            new = min(one.length - one.done, room)
            if new <= 0:
                break
            chunks.append((new, one.done))
            one.done += new
            room -= new
            if one.done == one.length:
                done.append(one)
        seconds = self.takes(decoding, chunks)
        self.now += seconds
        if decoding:
            self.context += 1
            self.left -= 1
            over = self.left <= 0
            self.context, self.left = self.context[~over], self.left[~over]
            self.waiting += [Prompt(self._around(self.prompt)) for _ in range(int(over.sum()))]
        self.waiting = [one for one in self.waiting if one not in done]
        self.context = np.append(self.context, [one.length + 1.0 for one in done])
        self.left = np.append(self.left, [self._around(self.output) - 1.0 for _ in done])
        return Step(
            self.now,
            seconds,
            decoding,
            tuple(new for new, _ in chunks),
            len(done),
            sum(one.length for one in done),
            len(self.context),
            int(self.context.sum()),
        )

    def takes(self, decoding: int, chunks: Sequence[tuple[int, int]]) -> float:
        if chunks:
            whole = float(self.context.sum()) if decoding else 0.0
            return step_s(self.prices, decoding, whole, list(chunks))
        prices, mean = self.prices, float(self.context.mean())
        at = int(np.searchsorted(prices.batches, decoding, side="right")) - 1
        rows = slice(at, min(at + 2, len(prices.batches)))
        kernels = [line(prices.contexts, row, mean) for row in prices.decode_s[rows]]
        own = line(prices.batches[rows], np.array(kernels), decoding)
        costs = prices.engine
        return costs.decode_gain * own + costs.step_s + float(costs.sequence_s) * decoding


def deployment(engine: str = "vllm") -> Deployment:
    network, device = networks.architecture("llama-3.1-8b"), hardware.gpu("h100-sxm")
    return make_deployment(network, device, None, engine=engine, calibration="auto")


def loops(
    planted: Planted, loads: Sequence[Load] = LOADS, engine: str = "vllm", seconds: float = 60.0
) -> Iterator[list[Step]]:
    """Steps of each load, one server after the other."""
    prices = planted.on(step_prices(deployment(engine), sequences=256, longest=16_384))
    for number, load in enumerate(loads):
        yield list(Loop(prices, load, engine != "sglang", number).steps(seconds))


def vllm_lines(runs: Sequence[Sequence[Step]], every: float = 5.0) -> Iterator[str]:
    """Lines as vLLM logs them, with colours and others in between."""
    yield f"INFO 05-12 10:00:00 [kv_cache_utils.py:864] GPU KV cache size: {CACHE:,} tokens"
    for steps in runs:
        last, prompts, outputs = 0.0, 0, 0
        for one in steps:
            prompts += one.prompts_done
            outputs += one.decoded + one.first_tokens
            if one.end < last + every:
                continue
            seconds, last = one.end - last, one.end
            yield 'INFO:     127.0.0.1:4242 - "POST /v1/completions HTTP/1.1" 200 OK'
            yield (
                f"\x1b[32mINFO\x1b[0m 05-12 10:00:00 [loggers.py:118] Engine 000: "
                f"Avg prompt throughput: {prompts / seconds:.1f} tokens/s, "
                f"Avg generation throughput: {outputs / seconds:.1f} tokens/s, "
                f"Running: {one.running} reqs, Waiting: 0 reqs, "
                f"GPU KV cache usage: {100 * one.tokens / CACHE:.1f}%, "
                "Prefix cache hit rate: 0.0%"
            )
            prompts = outputs = 0


def sglang_lines(runs: Sequence[Sequence[Step]], every: int = 40) -> Iterator[str]:
    """Lines as SGLang logs them."""
    yield f"[2025-05-12 10:00:00 TP0] max_total_num_tokens={CACHE}, chunked_prefill_size={BUDGET}"
    for steps in runs:
        last, outputs, decodes = 0.0, 0, 0
        for one in steps:
            if one.chunks:
                yield (
                    f"[2025-05-12 10:00:00 TP0] Prefill batch. #new-seq: {len(one.chunks)}, "
                    f"#new-token: {sum(one.chunks)}, #cached-token: 0, token usage: "
                    f"{one.tokens / CACHE:.2f}, #running-req: "
                    f"{one.running - one.first_tokens}, #queue-req: 0, "
                )
            if not one.decoded:
                continue
            outputs += one.decoded
            decodes += 1
            if decodes % every == 0:
                yield (
                    f"[2025-05-12 10:00:00 TP0] Decode batch. #running-req: {one.running}, "
                    f"#token: {one.tokens}, token usage: {one.tokens / CACHE:.2f}, "
                    f"cuda graph: True, gen throughput (token/s): "
                    f"{outputs / (one.end - last):.2f}, #queue-req: 0, "
                )
                last, outputs = one.end, 0


def trtllm_lines(runs: Sequence[Sequence[Step]]) -> Iterator[str]:
    """Lines as TensorRT-LLM logs them with print_iter_log."""
    yield f"[MemUsageChange] Allocated 54.93 GiB for max tokens in paged KV cache ({CACHE})."
    number = 0
    for steps in runs:
        for one in steps:
            number += 1
            states = {
                "num_ctx_requests": len(one.chunks),
                "num_ctx_tokens": sum(one.chunks),
                "num_generation_tokens": one.decoded,
            }
            yield (
                f"[05/12/2025-10:00:00] [TRT-LLM] [I] iter = {number}, global_rank = 0, rank = 0, "
                f"num_scheduled_requests = {len(one.chunks) + one.decoded}, "
                f"kv_cache_util = {one.tokens / CACHE:.3f}, currank_total_requests = 0/0, "
                f"host_step_time = {1000 * one.seconds:.4f}ms, prev_device_step_time = 1.0ms, "
                f"timestamp = 2025-05-12 10:00:00, states = {states}"
            )


def prometheus_lines(runs: Sequence[Sequence[Step]], every: float = 10.0) -> Iterator[str]:
    """Scrapes of vLLM's metrics."""
    total = dict.fromkeys(("gap_s", "gaps", "prompt", "output", "steps", "requests"), 0.0)
    label = '{engine="0",model_name="m"}'
    for steps in runs:
        last = 0.0
        for one in steps:
            total["gap_s"] += one.seconds * one.decoded
            total["gaps"] += one.decoded
            total["prompt"] += one.prompts_done
            total["output"] += one.decoded + one.first_tokens
            total["steps"] += 1
            total["requests"] += one.first_tokens
            if one.end < last + every:
                continue
            last = one.end
            yield "# HELP vllm:num_requests_running Number of requests in execution batches."
            yield "# TYPE vllm:num_requests_running gauge"
            yield f"vllm:num_requests_running{label} {float(one.running)}"
            yield (
                'vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="'
                f'{CACHE // 16}"}} 1.0'
            )
            yield f"vllm:kv_cache_usage_perc{label} {one.tokens / CACHE}"
            yield f"vllm:prompt_tokens_total{label} {total['prompt']}"
            yield f"vllm:generation_tokens_total{label} {total['output']}"
            yield f"vllm:iteration_tokens_total_count{label} {total['steps']}"
            yield f'vllm:inter_token_latency_seconds_bucket{{le="0.01"}} {total["gaps"]}'
            yield f"vllm:inter_token_latency_seconds_sum{label} {total['gap_s']}"
            yield f"vllm:inter_token_latency_seconds_count{label} {total['gaps']}"
            yield f"vllm:time_to_first_token_seconds_count{label} {total['requests']}"


def written(path: Path, lines: Iterator[str]) -> Path:
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path
