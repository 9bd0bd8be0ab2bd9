"""``vllm bench latency --output-json``: how long one batch takes from prompt to last token.

Fields as in `vllm/benchmarks/latency.py` of vLLM 0.8 to 0.15 and `benchmarks/benchmark_latency.py`
before it (github.com/vllm-project/vllm), where the oldest have no ``std_latency``. Seconds. The
file says nothing of what was run: 32 tokens in, 128 out and a batch of 8 are the tool's defaults,
but a file from another setting looks alike, so they are asked for.
"""

from collections.abc import Iterator

from roofline.interop.results.content import Content
from roofline.interop.results.measuring import one, several
from roofline.interop.results.node import Node
from roofline.interop.results.run import Format, MeasuredRun, Scenario

NAME = "vllm-latency"
_MEANING = "from the start of a batch to its last token"


def _recognises(content: Content) -> bool:
    return content.first.keys() >= {"avg_latency", "latencies", "percentiles"}


def _read(content: Content) -> Iterator[MeasuredRun]:
    for run in content.records():
        found = one(run, "avg_latency", "latency", _MEANING)
        shares = run.at("percentiles")
        named = {f"p{key}": shares.value[key] for key in shares.names()}
        found += several(Node(named, shares.source, shares.path), "latency", _MEANING)
        yield MeasuredRun(
            tool="vLLM bench latency",
            format=NAME,
            version="",
            where=run.where,
            scenario=Scenario(engine="vllm", load="batch"),
            measurements=tuple(found),
        )


FORMAT = Format(NAME, "vLLM bench latency (JSON)", _recognises, _read)
