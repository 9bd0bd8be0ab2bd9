"""``vllm bench throughput --output-json``: all requests given to the engine at once.

Fields as in `vllm/benchmarks/throughput.py` of vLLM 0.9 to 0.15 and
`benchmarks/benchmark_throughput.py` before it (github.com/vllm-project/vllm). ``tokens_per_second``
counts prompts and answers together, over the time from the first request to the last token. The
file does not say how the tokens are divided among them, so lengths are asked for.
"""

from collections.abc import Iterator

from roofline.interop.results.content import Content
from roofline.interop.results.measuring import one
from roofline.interop.results.node import Node, count
from roofline.interop.results.run import Format, MeasuredRun, Measurement, Scenario

NAME = "vllm-throughput"


def _recognises(content: Content) -> bool:
    return content.first.keys() >= {"elapsed_time", "num_requests", "total_num_tokens"}


def _read(content: Content) -> Iterator[MeasuredRun]:
    for run in content.records():
        yield MeasuredRun(
            tool="vLLM bench throughput",
            format=NAME,
            version="",
            where=run.where,
            scenario=Scenario(engine="vllm", load="offline", requests=count(run, "num_requests")),
            measurements=tuple(_measured(run)),
        )


def _measured(run: Node) -> Iterator[Measurement]:
    tokens = "prompt and output tokens over the time of all requests"
    yield from one(run, "tokens_per_second", "total_throughput", tokens)
    requests = "requests over the time of all of them"
    yield from one(run, "requests_per_second", "request_throughput", requests)


FORMAT = Format(NAME, "vLLM bench throughput (JSON)", _recognises, _read)
