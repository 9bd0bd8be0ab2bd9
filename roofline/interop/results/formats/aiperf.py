"""Summary of AIPerf, and of GenAI-Perf before it, as JSON or CSV.

Fields as in `src/aiperf/common/models/export_models.py` of AIPerf 0.1 to 0.13, whose
``schema_version`` is 1.x where there is one (github.com/ai-dynamo/aiperf), and in
`genai_perf/export_data/json_exporter.py` of GenAI-Perf 0.0.8 to 0.0.16
(github.com/triton-inference-server/perf_analyzer), which AIPerf follows on purpose. Each metric
says its unit: nanoseconds in the oldest, then milliseconds. ``inter_token_latency`` of a request
is (latency - TTFT) / (tokens - 1), which is our TPOT. What was asked is in ``input_config``:
``loadgen`` of AIPerf up to its configuration 1, ``phases`` from 2 on, of which those of the kind
``profiling`` are measured and the others warm up; ``concurrency`` itself, or in
``perf_analyzer.stimulus``, of GenAI-Perf.

CSV is two tables, one below the other, as `src/aiperf/exporters/metrics_csv_exporter.py` of AIPerf
0.1 to 0.13 (github.com/ai-dynamo/aiperf) and `genai_perf/export_data/csv_exporter.py` of GenAI-Perf
(github.com/triton-inference-server/perf_analyzer) write them: ``Metric,avg,min,max,…`` of requests,
``Metric,Value`` of the whole, and a third table of the devices. Names end in their unit; numbers
have commas for thousands. GenAI-Perf says "Time To First Token (ms)" and "(per sec)", AIPerf "Time
to First Token (ms)" and "(tokens/sec)". Neither says what was run, nor its own version.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

from roofline.interop.results.content import Content, header, lines
from roofline.interop.results.measuring import failures, only, seconds_in, several, spread
from roofline.interop.results.node import LocatedValue, count, number, text
from roofline.interop.results.run import (
    Load,
    MeasuredFigure,
    MeasuredRun,
    ResultFormat,
    RunScenario,
)

TIMES = {
    "ttft": ("time_to_first_token", "from sending a request to its first token"),
    "tpot": ("inter_token_latency", "(latency - TTFT) / (tokens - 1) of each request"),
    "latency": ("request_latency", "from sending a request to its last token"),
}
"""Name and meaning of each metric."""
RATES = {
    "output_throughput": ("output_token_throughput", "output tokens over duration"),
    "total_throughput": ("total_token_throughput", "prompt and output tokens over duration"),
    "request_throughput": ("request_throughput", "requests over duration"),
}
_PHASE = "profiling"
_REPLAYED = {
    "fixed_schedule": "a trace that is replayed",
    "user_centric": "users who wait between their turns",
}
"""Phases whose load no scenario has, and what it is."""
_NAMED: Final = re.compile(r"(?P<name>[^()]*?)\s*(?:\((?P<unit>[^()]*)\))?")


def _is_json(content: Content) -> bool:
    metric = content.first.get("request_latency")
    return isinstance(metric, dict) and "avg" in metric and "request_throughput" in content.first


def _read_json(content: Content) -> Iterator[MeasuredRun]:
    for run in content.records():
        stated = text(run, "schema_version")
        if stated and not stated.startswith("1."):
            raise run.at("schema_version").error(
                f"schema {stated!r:.20} of AIPerf is not known", "1.x is: update, or write CSV"
            )
        yield MeasuredRun(
            "AIPerf" if stated or run.get("aiperf_version") else "AIPerf or GenAI-Perf",
            run.where,
            _scenario(run),
            tuple(_measured(run.get, ".avg")),
            version=text(run, "aiperf_version"),
            notes=tuple(_notes(run)),
        )


def _notes(run: LocatedValue) -> Iterator[str]:
    """Reasons that a run itself gives against its figures."""
    done, cancelled = run.get("is_complete"), run.get("was_cancelled")
    if done is not None and done.value is False:
        why = text(run, "incomplete_reason")
        yield f"AIPerf did not finish this run{f': {why:.120}' if why else ''}."
    elif cancelled is not None and cancelled.value is True:
        yield "This run was cancelled: its figures are of the part that was done."
    yield from failures(number(run, "error_request_count", "avg"))


def _scenario(run: LocatedValue) -> RunScenario:
    asked = run.get("input_config") or LocatedValue({}, run.source, "input_config")
    load, clients, rate, beyond = _load(asked)
    output, low, high = (
        number(run, "output_sequence_length", key) for key in ("avg", "min", "max")
    )
    answered = run.get("request_count", "avg")
    return RunScenario(
        model=_model(asked),
        gpu=_gpu(run),
        load=load,
        concurrency=clients,
        rate=rate,
        cv=_cv(asked),
        beyond=beyond,
        requests=None if answered is None else round(answered.number()) or None,
        prompt=number(run, "input_sequence_length", "avg"),
        output=output,
        spread=spread(low, output, high),
    )


def _measuring(asked: LocatedValue) -> list[LocatedValue]:
    """Phases that were measured, by their kind, or by their name before there were kinds."""
    phases = asked.get("phases")
    if phases is None:
        return []
    return [each for each in phases.items() if _PHASE in (text(each, "kind"), text(each, "name"))]


def _load(asked: LocatedValue) -> tuple[Load, int | None, float | None, str]:
    """Arrivals, clients, rate, and what no prediction knows of them."""
    phases = _measuring(asked)
    if len(phases) > 1:
        return "", None, None, f"{len(phases)} phases of load in one result"
    stimulus = asked.get("perf_analyzer", "stimulus")
    asked = asked.get("loadgen") or stimulus or next(iter(phases), asked)
    if text(asked, "type") in _REPLAYED:
        return "", None, None, _REPLAYED[text(asked, "type")]
    rate = number(asked, "request_rate") or number(asked, "rate")
    clients = count(asked, "concurrency")
    if rate:
        return "open", clients, rate, ""
    return ("closed" if clients else ""), clients, None, ""


def _cv(asked: LocatedValue) -> float | None:
    """Variation of the gaps between requests, where a phase says how they arrive. [1]"""
    phase = next(iter(_measuring(asked)), None)
    match text(phase, "type"):
        case "constant":
            return 0.0
        case "gamma":
            shape = number(phase, "smoothness")  # of the gamma distribution: its deviation is k^-½
            return None if shape is None else shape**-0.5
    return None


def _model(asked: LocatedValue) -> str:
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


def _gpu(run: LocatedValue) -> str:
    """Device that the telemetry saw, if all are alike."""
    places = run.get("telemetry_data", "endpoints")
    names = []
    for endpoint in places.names() if places else ():
        devices = run.at("telemetry_data", "endpoints", endpoint, "gpus")
        names += [text(devices, device, "gpu_name") for device in devices.names()]
    return only(names)


def _measured(get: Callable[[str], LocatedValue | None], end: str = "") -> Iterator[MeasuredFigure]:
    """Figures of the metrics that have a mean, or one value; names of fields end alike."""
    for metric, (name, definition) in TIMES.items():
        node = get(name)
        if node is not None:
            scale = seconds_in(node.at("unit"))
            yield from several(node, metric, definition, scale=scale)
    for metric, (name, definition) in RATES.items():
        node = get(name)
        value = number(node, "value") or number(node, "avg")
        if value is not None:
            yield MeasuredFigure(metric, "mean", value, f"{name}{end}", definition)


def _is_csv(content: Content) -> bool:
    return header(content)[:2] in (("metric", "avg"), ("metric", "value"))


def _read_csv(content: Content) -> Iterator[MeasuredRun]:
    tables = _tables(content)
    requests = tables.get("request_count")
    mean, low, high = (
        number(tables.get("output_sequence_length"), key) for key in ("avg", "min", "max")
    )
    yield MeasuredRun(
        "AIPerf or GenAI-Perf",
        content.source,
        RunScenario(
            gpu=_gpu_in_lines(content),
            requests=round(requests.at("value").number()) if requests is not None else None,
            prompt=number(tables.get("input_sequence_length"), "avg"),
            output=mean,
            spread=spread(low, mean, high),
        ),
        tuple(_measured(tables.get)),
    )


def _tables(content: Content) -> dict[str, LocatedValue]:
    """Rows of the first two tables by the name of their metric."""
    out: dict[str, LocatedValue] = {}
    names: list[str] = []
    for line, cells in _lines(content):
        if cells[0].lower() in ("metric", "endpoint"):
            names = [cell.lower() for cell in cells]
        elif names[:1] == ["metric"]:
            if len(cells) != len(names):
                raise content.error(
                    f"the line has {len(cells)} values, the header {len(names)}",
                    "copy the whole file again, or remove the line",
                    line,
                )
            found = _NAMED.fullmatch(cells[0])
            key = found["name"].lower().replace(" ", "_") if found else cells[0].lower()
            stated = {"unit": found["unit"]} if found and found["unit"] else {}
            figures = {name: cell for name, cell in zip(names[1:], cells[1:], strict=True) if cell}
            out[key] = LocatedValue(figures | stated, f"{content.source}:{line}")
    return out


def _lines(content: Content) -> Iterator[tuple[int, list[str]]]:
    for line, cells in lines(content):
        if any(cell.strip() for cell in cells):
            yield line, [cell.strip() for cell in cells]


def _gpu_in_lines(content: Content) -> str:
    """Device of the third table, if all are alike."""
    names: list[str] = []
    column = -1
    for _, cells in _lines(content):
        lower = [cell.lower() for cell in cells]
        if "gpu_name" in lower:
            column = lower.index("gpu_name")
        elif lower[0] == "metric":
            column = -1
        elif 0 <= column < len(cells):
            names.append(cells[column])
    return only(names)


CSV = ResultFormat(
    "aiperf-csv",
    "AIPerf or GenAI-Perf (CSV)",
    _is_csv,
    _read_csv,
    "AIPerf 0.1 to 0.13, GenAI-Perf to 0.0.16",
)
JSON = ResultFormat(
    "aiperf",
    "AIPerf or GenAI-Perf (JSON)",
    _is_json,
    _read_json,
    "AIPerf 0.1 to 0.13, GenAI-Perf 0.0.8 to 0.0.16",
)
