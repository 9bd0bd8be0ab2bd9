"""Multi-round QA of LMBench and of vLLM's production stack: a table with a row for each request.

Columns as in `benchmarks/multi-round-qa/multi-round-qa.py` of github.com/vllm-project/
production-stack and `synthetic-multi-round-qa/` of github.com/LMCache/LMBenchmark, which llm-d's
harness runs too: ``prompt_tokens, generation_tokens, ttft, generation_time, user_id, question_id,
launch_time, finish_time``. Seconds; ``generation_time`` is from the first token to the last. A
prompt has all that was said before, so that servers which keep prefixes compute only what is new:
no prediction of single requests knows that. Neither network nor machine nor load is said.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from roofline.cost.work import Array
from roofline.interop.results.content import Content, header, rows
from roofline.interop.results.measuring import spread
from roofline.interop.results.run import MeasuredFigure, MeasuredRun, ResultFormat, RunScenario

COLUMNS: Final = (
    "prompt_tokens", "generation_tokens", "ttft", "generation_time", "launch_time", "finish_time",
)  # fmt: skip
PERCENTILES: Final = (50, 90, 99)
"""Percentiles that are formed, beside the mean."""


def _recognises(content: Content) -> bool:
    return set(header(content)) >= {*COLUMNS, "question_id"}


def _read(content: Content) -> Iterator[MeasuredRun]:
    found = rows(content)
    if not found:
        return
    prompt, output, first, rest, start, end = (
        np.array([row.at(name).number() for row in found]) for name in COLUMNS
    )
    turns = max(int(row.at("question_id").number()) for row in found)
    yield MeasuredRun(
        "LMBench",
        content.source,
        RunScenario(
            requests=len(found),
            prompt=float(prompt.mean()) or None,
            output=float(output.mean()) or None,
            spread=spread(float(output.min()), float(output.mean()), float(output.max())),
            beyond=f"conversations of up to {turns:,} turns" if turns > 1 else "",
        ),
        tuple(_measured(prompt, output, first, rest, float(end.max() - start.min()))),
    )


def _measured(
    prompt: Array, output: Array, first: Array, rest: Array, seconds: float
) -> Iterator[MeasuredFigure]:
    several = output > 1
    for metric, values, field, definition in (
        ("ttft", first, "ttft", "from sending a request to its first token"),
        ("tpot", rest[several] / (output[several] - 1), "generation_time",
         "(last - first token) / (tokens - 1) of each request"),
        ("latency", first + rest, "ttft + generation_time", "from sending a request to its end"),
    ):  # fmt: skip
        if not values.size or values.mean() <= 0:
            continue
        yield MeasuredFigure(metric, "mean", float(values.mean()), field, definition)
        for share in PERCENTILES:
            value = float(np.percentile(values, share))
            if value > 0:
                yield MeasuredFigure(metric, f"p{share}", value, field, definition)
    if seconds <= 0:
        return
    over = "over the time from the first launch to the last token"
    for metric, total, field in (
        ("output_throughput", output.sum(), "generation_tokens"),
        ("input_throughput", prompt.sum(), "prompt_tokens"),
        ("request_throughput", len(output), "launch_time, finish_time"),
    ):
        if total:
            yield MeasuredFigure(metric, "mean", float(total) / seconds, field, over)


FORMAT = ResultFormat(
    "lmbench", "LMBench multi-round QA (CSV)", _recognises, _read, "2025 and 2026"
)
