"""inference-perf's report of one stage of load, or of all of them together.

Fields as in `api/outputs/reports/native/v1/native.proto` and the reports in `demos/` of
github.com/kubernetes-sigs/inference-perf: ``stage_N_lifecycle_metrics.json`` and
``summary_lifecycle_metrics.json``. Seconds; throughputs are of answered requests.
``time_per_output_token`` of a request is (last - first token) / (tokens - 1), which is our TPOT;
``normalized_time_per_output_token`` is the latency over all tokens and left out. A file says
neither the network nor the machine, and a summary of stages no load.
"""

from collections.abc import Iterator

from roofline.interop.results.content import Content
from roofline.interop.results.measuring import failures, one, several, spread
from roofline.interop.results.node import LocatedValue, count, number
from roofline.interop.results.run import (
    Load,
    MeasuredFigure,
    MeasuredRun,
    ResultFormat,
    RunScenario,
)

TIMES = {
    "ttft": ("time_to_first_token", "from sending a request to its first token"),
    "tpot": ("time_per_output_token", "(last - first token) / (tokens - 1) of each request"),
    "itl": ("inter_token_latency", "gaps between tokens of all requests together"),
    "latency": ("request_latency", "from sending a request to its end"),
}
"""Name and meaning of each time."""
KEPT_UP = 0.05
"""Part of the rate asked for that the client may be behind, beyond which it is said. [1]"""


def _recognises(content: Content) -> bool:
    first = content.first
    return first.keys() >= {"load_summary", "successes"} and isinstance(first["successes"], dict)


def _read(content: Content) -> Iterator[MeasuredRun]:
    for run in content.records():
        yield MeasuredRun(
            "inference-perf",
            run.where,
            _scenario(run),
            tuple(_measured(run.at("successes"))),
            notes=tuple(_notes(run)),
        )


def _scenario(run: LocatedValue) -> RunScenario:
    done, asked = run.at("successes"), run.at("load_summary")
    clients, rate = count(asked, "concurrency"), number(asked, "requested_rate")
    output, low, high = (number(done, "output_len", key) for key in ("mean", "min", "max"))
    load: Load = "closed" if clients else "open" if rate else ""
    return RunScenario(
        load=load,
        concurrency=clients,
        rate=None if clients else rate,
        requests=count(done, "count"),
        prompt=number(done, "prompt_len", "mean"),
        output=output,
        spread=spread(low, output, high),
    )


def _notes(run: LocatedValue) -> Iterator[str]:
    yield from failures(count(run, "failures", "count"))
    asked, sent = (
        number(run, "load_summary", f"{kind}_rate") for kind in ("requested", "achieved")
    )
    if asked and sent and sent < asked * (1.0 - KEPT_UP):
        yield f"The client sent {sent:.4g} requests a second, not the {asked:.4g} asked for."


def _measured(done: LocatedValue) -> Iterator[MeasuredFigure]:
    for metric, (name, definition) in TIMES.items():
        node = done.get("latency", name)
        yield from several(node, metric, definition)
        if node is not None:
            yield from several(node.get("percentiles"), metric, definition)
    rates = done.get("throughput")
    for metric, key in (
        ("output_throughput", "output_tokens_per_sec"),
        ("input_throughput", "input_tokens_per_sec"),
        ("total_throughput", "total_tokens_per_sec"),
        ("request_throughput", "requests_per_sec"),
    ):
        if rates is not None:
            yield from one(rates, key, metric, "of answered requests, over the time of all of them")


FORMAT = ResultFormat(
    "inference-perf", "inference-perf (JSON)", _recognises, _read, "2025 and 2026, native report v1"
)
