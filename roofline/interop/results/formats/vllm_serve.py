"""vLLM's client of a server: ``vllm bench serve``, and ``benchmark_serving.py`` before it.

Fields as in `vllm/benchmarks/serve.py` of vLLM 0.9 to 0.15 (github.com/vllm-project/vllm) and
`benchmarks/benchmark_serving.py` of 0.4 to 0.10, which has ``backend`` but no ``endpoint_type``,
and at first no ``total_token_throughput`` and no ``e2el``. Times are in milliseconds, throughputs
a second. A request is timed from when it is sent: what it waits for a free client is left out.
``tpot`` of a request is (latency - TTFT) / (tokens - 1), as ours; ``itl`` is of all gaps between
chunks of all requests together. A rate of ``"inf"`` sends all that clients there are for at once;
gaps of another one are gamma distributed with the shape ``burstiness``.
"""

from collections.abc import Iterator

from roofline.interop.results.content import Content
from roofline.interop.results.engines import engine_of
from roofline.interop.results.measuring import latencies, one, ratio, spread
from roofline.interop.results.node import Node, count, number, text
from roofline.interop.results.run import Format, Load, MeasuredRun, Measurement, Scenario
from roofline.units import PREFIX

NAME = "vllm-serve"


def _recognises(content: Content) -> bool:
    keys = content.first.keys()
    return keys >= {"model_id", "request_throughput", "duration"} and "tokenizer_id" in keys


def _read(content: Content) -> Iterator[MeasuredRun]:
    for run in content.records():
        yield _run(run)


def _run(run: Node) -> MeasuredRun:
    newer = run.get("endpoint_type") is not None
    failed = count(run, "failed")
    return MeasuredRun(
        tool="vLLM bench serve" if newer else "vLLM benchmark_serving.py",
        format=NAME,
        version="",
        where=run.where,
        scenario=_scenario(run),
        measurements=tuple(_measured(run)),
        notes=(f"{failed:,} requests failed and are left out.",) if failed else (),
    )


def _scenario(run: Node) -> Scenario:
    answered = run.at("completed").count()
    prompt = ratio(run.at("total_input_tokens").number(), answered)
    output = ratio(run.at("total_output_tokens").number(), answered)
    rate, clients = _rate(run), count(run, "max_concurrency")
    load: Load = "open" if rate else "closed" if clients else "burst"
    return Scenario(
        model=text(run, "model_id"),
        gpu=text(run, "gpu"),
        gpus=count(run, "gpus"),
        tp=count(run, "tensor_parallel_size"),
        engine=engine_of(text(run, "backend") or text(run, "endpoint_type")),
        load=load,
        concurrency=clients,
        rate=rate,
        cv=_cv(run),
        requests=answered or None,
        prompt=prompt,
        output=output,
        spread=_spread(run.get("output_lens"), output),
        beyond=_beyond(run),
    )


def _rate(run: Node) -> float | None:
    """Requests a second; None where all were sent at once."""
    found = run.get("request_rate")
    if found is None or str(found.value).lower().startswith("inf"):
        return None
    return found.number() or None


def _cv(run: Node) -> float | None:
    """Gaps are gamma distributed with this shape. [1]"""
    shape = number(run, "burstiness")
    return None if shape is None else shape**-0.5


def _spread(lengths: Node | None, mean: float | None) -> float | None:
    values = [each.number() for each in lengths.items()] if lengths is not None else []
    answered = [value for value in values if value]
    return spread(min(answered), mean, max(answered)) if answered else None


def _beyond(run: Node) -> str:
    accepted = number(run, "spec_decode_acceptance_length")
    if accepted and accepted > 1:
        return f"speculative decoding, {accepted:.2f} tokens a step"
    return "a rate that is ramped up" if text(run, "ramp_up_strategy") else ""


def _measured(run: Node) -> Iterator[Measurement]:
    yield from latencies(run, "e2el", suffix="_ms", scale=PREFIX["m"])
    yield from one(run, "output_throughput", "output_throughput", "output tokens over duration")
    total = "prompt and output tokens over duration"
    yield from one(run, "total_token_throughput", "total_throughput", total)
    yield from one(run, "request_throughput", "request_throughput", "requests over duration")


FORMAT = Format(NAME, "vLLM bench serve (JSON)", _recognises, _read)
