"""GuideLLM's report of one or several benchmarks, by the version of its schema.

Fields as in github.com/vllm-project/guidellm. Releases 0.2 and 0.3 have no ``metadata``
(`src/guidellm/benchmark/benchmark.py`); 0.4 to 0.6 write ``metadata.version`` 1, 0.7 and 0.8 a 2
(`src/guidellm/benchmark/schemas/`, `src/guidellm/schemas/request_stats.py`). A strategy says what
it is under ``type_``, in reports of 0.7 under ``kind`` (`src/guidellm/scheduler/strategies.py`).
``request_latency`` is in seconds, other times in milliseconds. Figures are of answered requests,
throughputs of all.

``inter_token_latency_ms`` of a request is (last - first token) / (tokens - 1), which is our TPOT;
its mean weighs a request by its tokens, so that it is our ITL. ``time_per_output_token_ms`` is
another: up to 0.3 (last - first token) / tokens, from 0.4 on (last token - start) / tokens, with
the prefill, its mean weighted by tokens. Both give the mean ITL again where it is missing:

    from 0.4: (t·n - TTFT) / (n - 1);  up to 0.3: t·n / (n - 1)

with n the mean tokens of an answer.
"""

from collections.abc import Iterator

from msgspec import Struct

from roofline.interop.results.content import Content
from roofline.interop.results.measuring import several, spread
from roofline.interop.results.node import LocatedValue, count, number, text
from roofline.interop.results.run import (
    Load,
    MeasuredFigure,
    MeasuredRun,
    ResultFormat,
    RunScenario,
)
from roofline.units import PREFIX

_ITL = "(last - first token) / (tokens - 1), each request weighted by its tokens"


class _Shape(Struct, frozen=True):
    """Places of a schema: strategy, model, requests; and whether its TPOT has the prefill."""

    strategy: tuple[str, ...]
    model: tuple[tuple[str, ...], ...]
    answered: tuple[str, ...]
    prefill: bool


_SHAPES = {
    0: _Shape(
        ("args", "strategy"),
        (("worker", "backend_model"),),
        ("total_count", "successful"),
        prefill=False,
    ),
    1: _Shape(
        ("config", "strategy"),
        (("config", "backend", "model"), ("config", "backend", "backend_model")),
        ("metrics", "request_totals", "successful"),
        prefill=True,
    ),
    2: _Shape(
        ("config", "strategy"),
        (("config", "backend", "model"), ("config", "backend", "spec", "model")),
        ("metrics", "request_totals", "successful"),
        prefill=True,
    ),
}


def _recognises(content: Content) -> bool:
    listed = content.first.get("benchmarks")
    if not isinstance(listed, list):
        return False
    known = isinstance(content.first.get("metadata"), dict) and "guidellm_version" in str(
        content.first["metadata"]
    )
    item = listed[0] if listed and isinstance(listed[0], dict) else {}
    return known or (item.keys() >= {"metrics", "run_stats"})


def _read(content: Content) -> Iterator[MeasuredRun]:
    for report in content.records():
        shape, version = _shape(report)
        for run in report.at("benchmarks").items():
            yield _run(run, report, shape, version)


def _shape(report: LocatedValue) -> tuple[_Shape, str]:
    stated = report.get("metadata", "version")
    number_ = 0 if stated is None else stated.count()
    if number_ not in _SHAPES:
        raise report.at("metadata", "version").error(
            f"version {number_} of GuideLLM's reports is not known",
            f"versions {', '.join(map(str, list(_SHAPES)[1:]))} and those without one are: "
            "write CSV in our own columns, or update",
        )
    return _SHAPES[number_], text(report, "metadata", "guidellm_version")


def _run(run: LocatedValue, report: LocatedValue, shape: _Shape, version: str) -> MeasuredRun:
    metrics = run.at("metrics")
    prompt = _mean(metrics, "prompt_token_count")
    output = _mean(metrics, "output_token_count")
    length = metrics.get("output_token_count", "successful")
    strategy = run.at(*shape.strategy)
    named = strategy.get("kind") or strategy.at("type_")
    kind = named.text()
    load, clients, rate = _load(named, strategy, metrics)
    model = next((name for path in shape.model if (name := text(run, *path))), "")
    scenario = RunScenario(
        model=model or text(report, "args", "model"),
        load=load,
        concurrency=clients,
        rate=rate,
        cv=0.0 if kind == "constant" else None,
        requests=count(run, *shape.answered),
        prompt=prompt,
        output=output,
        spread=spread(number(length, "min"), output, number(length, "max")),
        beyond="a trace that is replayed" if kind == "trace" else "",
    )
    measured = tuple(_measured(metrics, shape, output))
    return MeasuredRun("GuideLLM", run.where, scenario, measured, version)


def _mean(metrics: LocatedValue, name: str, of: str = "successful") -> float | None:
    return number(metrics, name, of, "mean")


def _load(
    named: LocatedValue, strategy: LocatedValue, metrics: LocatedValue
) -> tuple[Load, int | None, float | None]:
    match named.text():
        case "synchronous":
            return "closed", 1, None
        case "concurrent":
            return "closed", strategy.at("streams").count(), None
        case "throughput":
            clients = count(strategy, "max_concurrency")
            return ("closed" if clients else "burst"), clients, None
        case "constant" | "poisson":
            return "open", None, number(strategy, "rate") or _mean(metrics, "requests_per_second")
        case "trace":
            return "", None, None
    raise named.error(
        f"the strategy {named.text()!r:.40} is not known",
        "synchronous, concurrent, throughput, constant, poisson and trace are",
    )


def _measured(
    metrics: LocatedValue, shape: _Shape, output: float | None
) -> Iterator[MeasuredFigure]:
    said = {
        "ttft": ("time_to_first_token_ms", "from sending a request to its first token", "m"),
        "latency": ("request_latency", "from sending a request to its end", ""),
    }
    for metric, (name, definition, prefix) in said.items():
        yield from _figures(metrics, name, metric, definition, PREFIX[prefix])
    gaps = list(_figures(metrics, "inter_token_latency_ms", "itl", _ITL, PREFIX["m"]))
    yield from gaps or _converted(metrics, shape, output)
    for metric, name in {
        "output_throughput": "output_tokens_per_second",
        "total_throughput": "tokens_per_second",
        "request_throughput": "requests_per_second",
    }.items():
        value = _mean(metrics, name, "total") or _mean(metrics, name)
        if value:
            meaning = "over the time that is measured"
            yield MeasuredFigure(metric, "mean", value, f"metrics.{name}", meaning)


def _figures(
    metrics: LocatedValue, name: str, metric: str, definition: str, scale: float
) -> Iterator[MeasuredFigure]:
    node = metrics.get(name, "successful")
    if node is None:
        return
    yield from several(
        LocatedValue({key: node.value[key] for key in node.names() if key == "mean"}, node.source,
             node.path),
        metric, definition, scale=scale,
    )  # fmt: skip
    yield from several(node.get("percentiles"), metric, definition, scale=scale)


def _converted(
    metrics: LocatedValue, shape: _Shape, output: float | None
) -> Iterator[MeasuredFigure]:
    """The mean ITL by what GuideLLM calls TPOT."""
    each, first = (
        _mean(metrics, "time_per_output_token_ms"),
        _mean(metrics, "time_to_first_token_ms"),
    )
    if not each or not output or output <= 1 or (shape.prefill and not first):
        return
    whole = each * output - (first or 0.0) * shape.prefill
    if whole > 0:
        yield MeasuredFigure(
            "itl",
            "mean",
            PREFIX["m"] * whole / (output - 1),
            "metrics.time_per_output_token_ms",
            "time per output token, without the prefill and over tokens - 1",
        )


FORMAT = ResultFormat("guidellm", "GuideLLM (JSON)", _recognises, _read, "0.2 to 0.8.1")
