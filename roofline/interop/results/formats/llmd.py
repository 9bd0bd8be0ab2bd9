"""llm-d-benchmark's report of a run, whatever harness drove it, in YAML or JSON.

Fields as in `benchmark-report/llmd_benchmark_report/` of github.com/llm-d/llm-d-benchmark: 0.1 has
``metrics`` beside ``scenario``, with the machine in ``scenario.host``; from 0.2 on (0.2.1) figures
are in ``results.request_performance.aggregate`` and each component of the deployment is an item of
``scenario.stack``. Every figure says its unit. ``time_per_output_token`` leaves the prefill out, as
our TPOT does. Percentiles between whole ones are spelled ``p99p9``.
"""

import re
from collections.abc import Iterator
from typing import Final

from roofline.interop.results.content import Content
from roofline.interop.results.formats.inference_perf import TIMES
from roofline.interop.results.measuring import (
    engine_of,
    failures,
    only,
    seconds_in,
    several,
    spread,
)
from roofline.interop.results.node import LocatedValue, count, number, text
from roofline.interop.results.run import (
    Load,
    MeasuredFigure,
    MeasuredRun,
    ResultFormat,
    RunScenario,
)
from roofline.schema import parse_yaml

_VERSION: Final = re.compile(r"(?m)^version: *['\"]?0\.[12](?:\.\d+)?['\"]? *$")
_SCENARIO: Final = re.compile(r"(?m)^scenario:")
_AGGREGATE: Final = ("results", "request_performance", "aggregate")
_ENDLESS: Final = re.compile(r"(?m)(?<=: )\.inf *$")
_BETWEEN: Final = re.compile(r"p(\d+)p(\d+)")
_RATES: Final = {
    "output_throughput": ("output_token_rate", "output_tokens_per_sec"),
    "input_throughput": ("input_token_rate", "input_tokens_per_sec"),
    "total_throughput": ("total_token_rate", "total_tokens_per_sec"),
    "request_throughput": ("request_rate", "requests_per_sec"),
}
"""Names of each throughput, from 0.2 on and in 0.1."""


def _recognises(content: Content) -> bool:
    if content.documents is not None:
        first = content.first
        return (
            "scenario" in first
            and str(first.get("version", "")).startswith("0.")
            and (first.keys() & {"results", "metrics"} != set())
        )
    return bool(_VERSION.search(content.text)) and bool(_SCENARIO.search(content.text))


def _read(content: Content) -> Iterator[MeasuredRun]:
    runs = content.records()
    if content.documents is None:
        text_ = _ENDLESS.sub('"inf"', content.text)  # as many clients as there are requests
        runs = [LocatedValue(parse_yaml(text_, content.source).data, content.source)]
    for run in runs:
        figures = run.get("metrics") or run.at(*_AGGREGATE)
        yield MeasuredRun(
            "llm-d-benchmark",
            run.where,
            _scenario(run, figures),
            tuple(_measured(figures)),
            version=f"report {run.at('version').value}",
            notes=tuple(_notes(run, figures)),
        )


def _notes(run: LocatedValue, figures: LocatedValue) -> Iterator[str]:
    yield from failures(count(figures, "requests", "failures"))
    harness = text(run, "scenario", "load", "standardized", "tool") or text(
        run, "scenario", "load", "name"
    )
    if harness:
        yield f"The client was {harness:.40}."


def _engines(run: LocatedValue) -> list[LocatedValue]:
    """Engines of the deployment, each with the keys that reports have from 0.2 on."""
    stack = run.get("scenario", "stack")
    if stack is not None:
        each = [item.at("standardized") for item in stack.items()]
        return [item for item in each if text(item, "kind") == "inference_engine"]
    host, platform = run.get("scenario", "host"), run.get("scenario", "platform", "engine")
    devices = list(host.at("accelerator").items()) if host and host.get("accelerator") else []
    roles = list(host.at("type").items()) if host and host.get("type") else []
    named = list(platform.items()) if platform is not None else []
    out = []
    for place, device in enumerate(devices):
        value = {
            "accelerator": device.value,
            "model": run.at("scenario", "model").value,
            "role": roles[place].value if place < len(roles) else None,
            "tool": text(named[place], "name") if place < len(named) else None,
        }
        out.append(LocatedValue(value, device.source, device.path))
    return out


def _scenario(run: LocatedValue, figures: LocatedValue) -> RunScenario:
    engines = _engines(run)
    load, clients, rate = _load(run)
    output, low, high = (
        number(figures, "requests", "output_length", key) for key in ("mean", "min", "max")
    )
    answered = count(figures, "requests", "total")
    split = {text(each, "role") for each in engines if count(each, "replicas") != 0} >= {
        "prefill", "decode",
    }  # fmt: skip
    degrees = [
        {name: count(each, "accelerator", "parallelism", name) for name in ("tp", "pp", "ep")}
        for each in engines
    ]
    alike = degrees[0] if degrees and all(each == degrees[0] for each in degrees) else {}
    return RunScenario(
        model=only(text(each, "model", "name") for each in engines),
        gpu=only(text(each, "accelerator", "model") for each in engines),
        gpus=sum(_devices(each) for each in engines) or None,
        tp=alike.get("tp"),
        pp=alike.get("pp"),
        ep=alike.get("ep"),
        engine=only(_engine(text(each, "tool")) for each in engines),
        load=load,
        concurrency=clients,
        rate=rate,
        requests=(answered or 0) - (count(figures, "requests", "failures") or 0) or None,
        prompt=number(figures, "requests", "input_length", "mean"),
        output=output,
        spread=spread(low, output, high),
        beyond="prefill and decode on devices of their own" if split else "",
    )


def _devices(engine: LocatedValue) -> int:
    each = count(engine, "accelerator", "count") or 0
    return each * (count(engine, "replicas") or 1)


def _engine(tool: str) -> str:
    """Engine of a component; llm-d's own images run vLLM."""
    return "vllm" if tool.startswith("llm-d") else engine_of(tool)


def _load(run: LocatedValue) -> tuple[Load, int | None, float | None]:
    asked = run.get("scenario", "load", "standardized")
    rate = number(asked, "rate_qps")
    clients = asked.get("concurrency") if asked is not None else None
    if rate:
        return "open", None, rate
    if clients is None or str(clients.value).lower() == "inf":
        return "", None, None
    return "closed", clients.count() or None, None


def _measured(figures: LocatedValue) -> Iterator[MeasuredFigure]:
    for metric, (name, definition) in TIMES.items():
        node = figures.get("latency", name)
        if node is None:
            continue
        unit = LocatedValue(node.at("units").text().removesuffix("/token"), node.source, node.path)
        yield from several(_spelled(node), metric, definition, scale=seconds_in(unit))
    for metric, names in _RATES.items():
        found = next((each for name in names if (each := figures.get("throughput", name))), None)
        if found is not None:
            value = number(found, "mean") if isinstance(found.value, dict) else found.number()
            if value:
                meaning = "over the time that is measured"
                yield MeasuredFigure(metric, "mean", value, found.path, meaning)


def _spelled(node: LocatedValue) -> LocatedValue:
    """Percentiles as everyone else spells them."""
    value = {_BETWEEN.sub(r"p\1.\2", name): node.value[name] for name in node.names()}
    return LocatedValue(value, node.source, node.path)


FORMAT = ResultFormat(
    "llm-d", "llm-d-benchmark report (YAML or JSON)", _recognises, _read, "reports 0.1 to 0.2.1"
)
