"""``trtllm-bench --report_json``.

Fields as in `tensorrt_llm/bench/dataclasses/reporting.py` of TensorRT-LLM 0.17 to 1.3
(github.com/NVIDIA/TensorRT-LLM). Reports before 1.0 have no ``machine`` and no
``system_total_throughput_tok_s``. Milliseconds; throughputs a second, of all devices, over the time
from the first request to the last token. ``tpot`` of a request is (latency - TTFT) / (tokens - 1),
as ours. Requests are sent at ``issue_rate``, which is beyond all measure unless one was asked for;
``avg_num_concurrent_requests`` is what was in flight on the average and not how many clients there
were, so that is asked for where it is not all of them.
"""

from collections.abc import Iterator

from roofline.interop.results.content import Content
from roofline.interop.results.measuring import one, several, spread
from roofline.interop.results.node import Node, count, number, text
from roofline.interop.results.run import Format, Load, MeasuredRun, Measurement, Scenario
from roofline.units import PREFIX

NAME = "trtllm-bench"
ALL = 0.8
"""Share of the requests in flight on the average from which on all were sent at once."""
WIDE = {"fp8_block_scales": "fp8_block", "w4a16_awq": "awq", "w4a16_gptq": "gptq"}
"""Formats by TensorRT-LLM's names where no rule finds them."""


def _recognises(content: Content) -> bool:
    return content.first.keys() >= {"engine", "world_info", "request_info", "performance"}


def _read(content: Content) -> Iterator[MeasuredRun]:
    for run in content.records():
        yield MeasuredRun(
            tool="trtllm-bench",
            format=NAME,
            version=text(run, "engine", "version"),
            where=run.where,
            scenario=_scenario(run),
            measurements=tuple(_measured(run)),
        )


def _scenario(run: Node) -> Scenario:
    world, asked = run.at("world_info"), run.at("request_info")
    requests = count(asked, "num_requests")
    load, clients = load_of(requests, number(asked, "avg_num_concurrent_requests"))
    tp, pp = world.at("tp_size").count(), count(world, "pp_size") or 1
    output = number(asked, "avg_output_length")
    lengths = run.get("dataset", "osl_stats")
    return Scenario(
        model=text(run, "engine", "model"),
        gpu=text(run, "machine", "name"),
        gpus=count(world, "world_size") or tp * pp,
        tp=tp,
        pp=pp,
        ep=count(world, "ep_size"),
        engine="trtllm",
        engine_version=text(run, "engine", "version"),
        weights=stored(text(run, "engine", "quantization") or text(run, "engine", "dtype")),
        kv=text(run, "engine", "kv_cache_dtype"),
        load=load,
        concurrency=clients,
        requests=requests,
        prompt=number(asked, "avg_input_length"),
        output=output,
        spread=(
            spread(number(lengths, "minimum"), output, number(lengths, "maximum"))
            if lengths is not None
            else None
        ),
        beyond="speculative decoding" if run.get("decoding_stats") is not None else "",
    )


def load_of(requests: int | None, flying: float | None) -> tuple[Load, int | None]:
    """How requests came, by how many of them were in flight on the average.

    >>> load_of(1000, 950.0), load_of(10, 1.0), load_of(1000, 63.8)
    (('offline', None), ('closed', 1), ('', None))
    """
    if requests and flying and flying >= ALL * requests:
        return "offline", None
    if flying and round(flying, 2) == 1.0:
        return "closed", 1
    return "", None


def stored(name: str) -> str:
    """Number format by TensorRT-LLM's name of a quantisation."""
    return WIDE.get(name.lower(), name)


def _measured(run: Node) -> Iterator[Measurement]:
    done = run.at("performance")
    streamed = run.get("streaming_metrics")
    milli = PREFIX["m"]
    if streamed is not None:
        for metric, key, definition in (
            ("ttft", "ttft", "from sending a request to its first token"),
            ("tpot", "tpot", "(latency - TTFT) / (tokens - 1) of each request"),
        ):
            mean = one(streamed, f"avg_{key}_ms", metric, definition, scale=milli)
            found = several(streamed.get(f"{key}_percentiles"), metric, definition, scale=milli)
            yield from mean
            yield from (each for each in found if not mean or each.statistic != "mean")
    whole = "from sending a request to its last token"
    mean = one(done, "avg_request_latency_ms", "latency", whole, scale=milli)
    found = several(done.get("request_latency_percentiles_ms"), "latency", whole, scale=milli)
    yield from mean
    yield from (each for each in found if not mean or each.statistic != "mean")
    over = "over the time from the first request to the last token"
    for metric, key in (
        ("output_throughput", "system_output_throughput_tok_s"),
        ("total_throughput", "system_total_throughput_tok_s"),
        ("request_throughput", "request_throughput_req_s"),
    ):
        yield from one(done, key, metric, over)


FORMAT = Format(NAME, "trtllm-bench (JSON)", _recognises, _read)
