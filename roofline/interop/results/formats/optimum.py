"""optimum-benchmark's ``benchmark.json``: a configuration and a report.

Fields as in `optimum_benchmark/scenarios/inference/scenario.py` and `trackers/latency.py` of
optimum-benchmark 0.2 to 0.6 (github.com/huggingface/optimum-benchmark). What was asked is in
``config.scenario``, up to 0.2 in ``config.benchmark``. Latencies are in seconds. ``prefill`` makes
the first token of a batch: our TTFT. ``decode`` makes the others, tokens - 1 of each sequence, so
that its latency over that is our TPOT, and its throughput leaves the prefill out: ours is over
both.
"""

from collections.abc import Iterator

from roofline.interop.results.content import Content
from roofline.interop.results.measuring import engine_of, only, several
from roofline.interop.results.node import LocatedValue, count, number, text
from roofline.interop.results.run import MeasuredFigure, MeasuredRun, ResultFormat, RunScenario

TOKENS = 100
"""New tokens where the configuration names none: the tool's default."""


def _recognises(content: Content) -> bool:
    first = content.first
    return first.keys() >= {"config", "report"} and isinstance(first["report"], dict)


def _read(content: Content) -> Iterator[MeasuredRun]:
    for run in content.records():
        report = run.at("report")
        if report.get("prefill", "latency") is None:
            raise report.error(
                "there is no prefill in it: the task does not generate text, or no latency "
                "was tracked",
                "run a text-generation task with latency: true",
            )
        yield MeasuredRun(
            "optimum-benchmark",
            run.where,
            _scenario(run.at("config")),
            tuple(_measured(run)),
            version=text(run, "config", "environment", "optimum_benchmark_version"),
        )


def _asked(config: LocatedValue) -> LocatedValue:
    return config.get("scenario") or config.at("benchmark")


def _output(config: LocatedValue) -> int:
    asked = _asked(config)
    return count(asked, "generate_kwargs", "max_new_tokens") or count(asked, "new_tokens") or TOKENS


def _scenario(config: LocatedValue) -> RunScenario:
    shapes = _asked(config).at("input_shapes")
    backend = config.at("backend")
    scheme = text(backend, "quantization_scheme") or text(backend, "quantize")
    devices = config.get("environment", "gpu")
    return RunScenario(
        model=text(backend, "model"),
        gpu=only(each.text() for each in devices.items()) if devices else "",
        gpus=_devices(backend),
        engine=engine_of(text(backend, "name")) or text(backend, "name"),
        engine_version=text(backend, "version"),
        weights=scheme or text(backend, "torch_dtype") or text(backend, "dtype"),
        load="batch",
        concurrency=shapes.at("batch_size").count(),
        prompt=shapes.at("sequence_length").number(),
        output=float(_output(config)),
    )


def _devices(backend: LocatedValue) -> int | None:
    """Devices by their list, ``"0,1"``; one where there is none and it runs on a GPU."""
    listed = backend.get("device_ids")
    if listed is not None:
        return len([part for part in str(listed.value).split(",") if part.strip()])
    return 1 if text(backend, "device") == "cuda" else None


def _measured(run: LocatedValue) -> Iterator[MeasuredFigure]:
    report, tokens = run.at("report"), _output(run.at("config"))
    prefill = report.at("prefill", "latency")
    yield from several(prefill, "ttft", "of the prefill of the batch")
    decode = report.get("decode", "latency")
    if decode is None:
        return
    if tokens > 1:
        meaning = f"of decoding, over {tokens - 1} tokens"
        yield from several(decode, "tpot", meaning, scale=1.0 / (tokens - 1))
    first, rest = number(prefill, "mean"), number(decode, "mean")
    if first and rest:
        whole = "of the prefill and of decoding"
        yield MeasuredFigure("latency", "mean", first + rest, "prefill + decode", whole)
        batch = _asked(run.at("config")).at("input_shapes", "batch_size").count()
        meaning = "output tokens over the prefill and decoding"
        rate = batch * tokens / (first + rest)
        yield MeasuredFigure("output_throughput", "mean", rate, "prefill + decode", meaning)


FORMAT = ResultFormat("optimum", "optimum-benchmark (JSON)", _recognises, _read, "0.2 to 0.6")
