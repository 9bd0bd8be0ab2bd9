"""Benchmarks of vLLM: of one batch, of a server, and of all requests given to the engine at once.

``vllm bench latency --output-json``: how long one batch takes from prompt to last token. Fields as
in `vllm/benchmarks/latency.py` of vLLM 0.8 to 0.33 and `benchmarks/benchmark_latency.py` before it
(github.com/vllm-project/vllm); 0.33 has ``model_id``. Seconds. The file says nothing else of what
was run: 32 tokens in, 128 out and a batch of 8 are the tool's defaults, but a file from another
setting looks alike, so they are asked for.

vLLM's client of a server: ``vllm bench serve``, and ``benchmark_serving.py`` before it. Fields as
in `vllm/benchmarks/serve.py` of vLLM 0.9 to 0.33 (github.com/vllm-project/vllm) and
`benchmarks/benchmark_serving.py` of 0.4 to 0.10, which has ``backend`` but no ``endpoint_type``,
and at first no ``total_token_throughput`` and no ``e2el``. Times are in milliseconds, throughputs a
second. A request is timed from when it is sent: what it waits for a free client is left out.
``tpot`` of a request is (latency - TTFT) / (tokens - 1), as ours; ``itl`` is of all gaps between
chunks of all requests together. A rate of ``"inf"`` sends all that clients there are for at once;
gaps of another one are gamma distributed with the shape ``burstiness``.

``vllm bench sweep serve`` gathers such results: ``summary.json`` of one setting is a list of them,
``summary.csv`` of all settings a table. To each it adds ``run_number``, and the arguments of the
server and of the client that the sweep changes, under the names that its files of parameters have
(`vllm/benchmarks/sweep/serve.py` of 0.33). What else the server was told is not in them.

``vllm bench throughput --output-json``: all requests given to the engine at once. Fields as in
`vllm/benchmarks/throughput.py` of vLLM 0.9 to 0.33 and `benchmarks/benchmark_throughput.py` before
it (github.com/vllm-project/vllm); 0.33 has ``model_id``. ``tokens_per_second`` counts prompts and
answers together, over the time from the first request to the last token. The file does not say how
the tokens are divided among them, so lengths are asked for.
"""

from collections.abc import Iterator
from typing import Final

from roofline.interop.results.content import Content, header, rows
from roofline.interop.results.measuring import (
    client,
    engine_of,
    failures,
    latencies,
    one,
    several,
    spread,
)
from roofline.interop.results.node import LocatedValue, count, number, text
from roofline.interop.results.run import MeasuredFigure, MeasuredRun, ResultFormat, RunScenario
from roofline.units import PREFIX

_BATCH: Final = "from the start of a batch to its last token"


def _is_latency(content: Content) -> bool:
    return content.first.keys() >= {"avg_latency", "latencies", "percentiles"}


def _read_latency(content: Content) -> Iterator[MeasuredRun]:
    for run in content.records():
        found = one(run, "avg_latency", "latency", _BATCH)
        shares = run.at("percentiles")
        named = {f"p{key}": shares.value[key] for key in shares.names()}
        found += several(LocatedValue(named, shares.source, shares.path), "latency", _BATCH)
        scenario = RunScenario(model=text(run, "model_id"), engine="vllm", load="batch")
        yield MeasuredRun("vLLM bench latency", run.where, scenario, tuple(found))


_SERVE: Final = frozenset({"model_id", "request_throughput", "duration", "tokenizer_id"})


def _is_serve(content: Content) -> bool:
    return content.first.keys() >= _SERVE


def _read_serve(content: Content) -> Iterator[MeasuredRun]:
    for run in content.records():
        newer = run.get("endpoint_type") is not None
        yield _served(run, "vLLM bench serve" if newer else "vLLM benchmark_serving.py")


def _is_sweep(content: Content) -> bool:
    return set(header(content)) >= _SERVE


def _read_sweep(content: Content) -> Iterator[MeasuredRun]:
    for row in rows(content):
        yield _served(row, "vLLM bench sweep serve")


def _served(run: LocatedValue, tool: str) -> MeasuredRun:
    swept = run.get("run_number") is not None
    return MeasuredRun(
        "vLLM bench sweep serve" if swept else tool,
        run.where,
        _scenario(run),
        tuple(_serve_measured(run)),
        notes=failures(count(run, "failed")),
    )


def _argument(run: LocatedValue, name: str) -> LocatedValue | None:
    """Argument of the server that a sweep changed, under one of the spellings that it may have."""
    return run.get(name) or run.get(name.replace("_", "-"))


def _scenario(run: LocatedValue) -> RunScenario:
    sent = client(run, "inf")
    shape = number(run, "burstiness")  # gaps are gamma distributed
    cache = text(_argument(run, "kv_cache_dtype"))
    tp, pp, dp = (
        count(_argument(run, f"{kind}_parallel_size")) for kind in ("tensor", "pipeline", "data")
    )
    counted = (tp or 1) * (pp or 1) * (dp or 1)
    return RunScenario(
        model=text(run, "model_id"),
        gpu=text(run, "gpu"),
        gpus=count(run, "gpus") or (counted if dp else None),
        tp=tp,
        pp=pp,
        dp=dp,
        engine=engine_of(text(run, "backend") or text(run, "endpoint_type")),
        weights=text(_argument(run, "quantization")),
        kv="" if cache == "auto" else cache,
        **sent,
        cv=None if shape is None else shape**-0.5,
        spread=_spread(run.get("output_lens"), sent["output"]),
        beyond=_beyond(run),
    )


def _spread(lengths: LocatedValue | None, mean: float | None) -> float | None:
    if lengths is None or isinstance(lengths.value, str):  # a table has the list as text
        return None
    values = [each.number() for each in lengths.items()]
    answered = [value for value in values if value]
    return spread(min(answered), mean, max(answered)) if answered else None


def _beyond(run: LocatedValue) -> str:
    accepted = number(run, "spec_decode_acceptance_length")
    if accepted and accepted > 1:
        return f"speculative decoding, {accepted:.2f} tokens a step"
    return "a rate that is ramped up" if text(run, "ramp_up_strategy") else ""


def _serve_measured(run: LocatedValue) -> Iterator[MeasuredFigure]:
    yield from latencies(run, "e2el", suffix="_ms", scale=PREFIX["m"])
    yield from one(run, "output_throughput", "output_throughput", "output tokens over duration")
    total = "prompt and output tokens over duration"
    yield from one(run, "total_token_throughput", "total_throughput", total)
    yield from one(run, "request_throughput", "request_throughput", "requests over duration")


def _is_throughput(content: Content) -> bool:
    return content.first.keys() >= {"elapsed_time", "num_requests", "total_num_tokens"}


def _read_throughput(content: Content) -> Iterator[MeasuredRun]:
    for run in content.records():
        tokens = "prompt and output tokens over the time of all requests"
        requests = "requests over the time of all of them"
        scenario = RunScenario(
            model=text(run, "model_id"),
            engine="vllm",
            load="offline",
            requests=count(run, "num_requests"),
        )
        measured = one(run, "tokens_per_second", "total_throughput", tokens)
        measured += one(run, "requests_per_second", "request_throughput", requests)
        yield MeasuredRun("vLLM bench throughput", run.where, scenario, tuple(measured))


LATENCY = ResultFormat(
    "vllm-latency", "vLLM bench latency (JSON)", _is_latency, _read_latency, "0.8 to 0.33"
)
SERVE = ResultFormat(
    "vllm-serve", "vLLM bench serve, sweep summary (JSON)", _is_serve, _read_serve, "0.4 to 0.33"
)
SWEEP = ResultFormat("vllm-sweep", "vLLM bench sweep serve (CSV)", _is_sweep, _read_sweep, "0.33")
THROUGHPUT = ResultFormat(
    "vllm-throughput",
    "vLLM bench throughput (JSON)",
    _is_throughput,
    _read_throughput,
    "0.9 to 0.33",
)
