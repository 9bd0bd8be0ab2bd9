"""LLMPerf's summary of a run, ``*_summary.json``.

Fields as `token_benchmark_ray.py` of github.com/ray-project/llmperf (0.1, archived in 2025) writes
them, flattened with underscores by its `src/llmperf/utils.py`. Seconds. Its
``inter_token_latency_s`` of a request is the whole latency over all tokens, with the prefill in it:
with n tokens of an answer on the average, the mean gives our TPOT as

    (t·n - TTFT) / (n - 1)

and its percentiles, which have no such inverse, are left out. The rate of tokens of one request is
left out too; ``mean_output_throughput`` is of all requests over the duration. The file names
neither engine nor machine.
"""

from collections.abc import Iterator

from roofline.interop.results.content import Content
from roofline.interop.results.measuring import failures, one, several, spread
from roofline.interop.results.node import LocatedValue, count, number, text
from roofline.interop.results.run import MeasuredFigure, MeasuredRun, ResultFormat, RunScenario

MINUTE = 60.0
"""Seconds of a minute. [s]"""


def _recognises(content: Content) -> bool:
    return content.first.keys() >= {"model", "num_concurrent_requests", "results_ttft_s_mean"}


def _read(content: Content) -> Iterator[MeasuredRun]:
    for run in content.records():
        yield MeasuredRun(
            "LLMPerf",
            run.where,
            _scenario(run),
            tuple(_measured(run)),
            notes=failures(count(run, "results_number_errors")),
        )


def _scenario(run: LocatedValue) -> RunScenario:
    output, low, high = (
        number(run, f"results_number_output_tokens_{key}") for key in ("mean", "min", "max")
    )
    return RunScenario(
        model=text(run, "model"),
        load="closed",
        concurrency=run.at("num_concurrent_requests").count() or None,
        requests=count(run, "results_num_completed_requests"),
        prompt=number(run, "results_number_input_tokens_mean"),
        output=output,
        spread=spread(low, output, high),
    )


def _measured(run: LocatedValue) -> Iterator[MeasuredFigure]:
    for metric, name, definition in (
        ("ttft", "ttft_s", "from sending a request to its first token"),
        ("latency", "end_to_end_latency_s", "from sending a request to its last token"),
    ):
        start = f"results_{name}_"
        figures = {
            key.removeprefix(start).removeprefix("quantiles_"): run.value[key]
            for key in run.names()
            if key.startswith(start)
        }
        yield from several(LocatedValue(figures, run.source, start.rstrip("_")), metric, definition)
    each, first, tokens = (
        number(run, f"results_{name}_mean")
        for name in ("inter_token_latency_s", "ttft_s", "number_output_tokens")
    )
    if each and first and tokens and tokens > 1 and each * tokens > first:
        key = "results_inter_token_latency_s_mean"
        meaning = "latency over tokens, without the prefill and over tokens - 1"
        yield MeasuredFigure("tpot", "mean", (each * tokens - first) / (tokens - 1), key, meaning)
    key = "results_mean_output_throughput_token_per_s"
    yield from one(run, key, "output_throughput", "output tokens over duration")
    key = "results_num_completed_requests_per_min"
    meaning = "requests over duration, in minutes"
    yield from one(run, key, "request_throughput", meaning, scale=1.0 / MINUTE)


FORMAT = ResultFormat("llmperf", "LLMPerf (JSON)", _recognises, _read, "0.1")
