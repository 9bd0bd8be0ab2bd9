"""Summary of AIPerf, and of GenAI-Perf before it, as JSON.

Fields as in `src/aiperf/common/models/export_models.py` of AIPerf 0.1 to 0.12, whose
``schema_version`` is 1.x where there is one (github.com/ai-dynamo/aiperf), and in
`genai_perf/export_data/json_exporter.py` of GenAI-Perf 0.0.8 to 0.0.16
(github.com/triton-inference-server/perf_analyzer), which AIPerf follows on purpose. Each metric
says its unit: nanoseconds in the oldest, then milliseconds. ``inter_token_latency`` of a request
is (latency - TTFT) / (tokens - 1), which is our TPOT. What was asked is in ``input_config``:
``loadgen`` of AIPerf up to its configuration 1, ``phases`` from 2 on; ``concurrency`` itself, or in
``perf_analyzer.stimulus``, of GenAI-Perf.
"""

from collections.abc import Iterator

from roofline.interop.results.content import Content
from roofline.interop.results.measuring import seconds_in, several, spread
from roofline.interop.results.node import Node, count, number, text
from roofline.interop.results.run import Format, Load, MeasuredRun, Measurement, Scenario

NAME = "aiperf"
TIMES = {
    "ttft": ("time_to_first_token", "from sending a request to its first token"),
    "tpot": ("inter_token_latency", "(latency - TTFT) / (tokens - 1) of each request"),
    "latency": ("request_latency", "from sending a request to its last token"),
}
"""What each metric is called, and what is meant."""
RATES = {
    "output_throughput": ("output_token_throughput", "output tokens over duration"),
    "total_throughput": ("total_token_throughput", "prompt and output tokens over duration"),
    "request_throughput": ("request_throughput", "requests over duration"),
}
_PHASE = "profiling"


def _recognises(content: Content) -> bool:
    metric = content.first.get("request_latency")
    return isinstance(metric, dict) and "avg" in metric and "request_throughput" in content.first


def _read(content: Content) -> Iterator[MeasuredRun]:
    for run in content.records():
        stated = text(run, "schema_version")
        if stated and not stated.startswith("1."):
            raise run.at("schema_version").error(
                f"schema {stated!r:.20} of AIPerf is not known", "1.x is: update, or write CSV"
            )
        yield MeasuredRun(
            tool="AIPerf" if stated or run.get("aiperf_version") else "AIPerf or GenAI-Perf",
            format=NAME,
            version=text(run, "aiperf_version"),
            where=run.where,
            scenario=_scenario(run),
            measurements=tuple(_measured(run)),
        )


def _scenario(run: Node) -> Scenario:
    asked = run.get("input_config") or Node({}, run.source, "input_config")
    load, clients, rate = _load(asked)
    output = number(run, "output_sequence_length", "avg")
    longest = number(run, "output_sequence_length", "max")
    return Scenario(
        model=_model(asked),
        gpu=_gpu(run),
        load=load,
        concurrency=clients,
        rate=rate,
        requests=_answered(run),
        prompt=number(run, "input_sequence_length", "avg"),
        output=output,
        spread=spread(number(run, "output_sequence_length", "min"), output, longest),
    )


def _answered(run: Node) -> int | None:
    found = run.get("request_count", "avg")
    return None if found is None else round(found.number()) or None


def _load(asked: Node) -> tuple[Load, int | None, float | None]:
    for place in (asked.get("loadgen"), asked.get("perf_analyzer", "stimulus"), _phase(asked)):
        if place is not None:
            asked = place
            break
    rate = number(asked, "request_rate") or number(asked, "rate")
    clients = count(asked, "concurrency")
    if rate:
        return "open", clients, rate
    return ("closed" if clients else ""), clients, None


def _phase(asked: Node) -> Node | None:
    found = asked.get("phases")
    if found is None:
        return None
    named = [phase for phase in found.items() if text(phase, "name") == _PHASE]
    return named[0] if named else None


def _model(asked: Node) -> str:
    for keys in (
        ("endpoint", "model_names"),
        ("model_names",),
        ("models", "items"),
        ("models",),
        ("model",),
    ):
        found = asked.get(*keys)
        if found is None:
            continue
        if isinstance(found.value, list):
            found = next(found.items(), None)
        if found is not None and isinstance(found.value, dict):
            found = found.get("name")
        if found is not None:
            return found.text()
    return ""


def _gpu(run: Node) -> str:
    """Device that the telemetry saw, if all are alike."""
    places = run.get("telemetry_data", "endpoints")
    names = set()
    for endpoint in places.names() if places is not None else ():
        devices = run.at("telemetry_data", "endpoints", endpoint, "gpus")
        names |= {text(devices, device, "gpu_name") for device in devices.names()}
    return names.pop() if len(names) == 1 else ""


def _measured(run: Node) -> Iterator[Measurement]:
    for metric, (name, definition) in TIMES.items():
        node = run.get(name)
        if node is not None:
            scale = seconds_in(node.at("unit"))
            yield from several(node, metric, definition, scale=scale)
    for metric, (name, definition) in RATES.items():
        value = number(run, name, "avg")
        if value is not None:
            yield Measurement(metric, "mean", value, f"{name}.avg", definition)


FORMAT = Format(NAME, "AIPerf or GenAI-Perf (JSON)", _recognises, _read)
