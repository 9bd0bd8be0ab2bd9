"""``trtllm-bench``: its ``--report_json``, and the sections that it prints among lines of a log.

Fields as in `tensorrt_llm/bench/dataclasses/reporting.py` of TensorRT-LLM 0.17 to 1.3
(github.com/NVIDIA/TensorRT-LLM). Reports before 1.0 have no ``machine`` and no
``system_total_throughput_tok_s``. Milliseconds; throughputs a second, of all devices, over the time
from the first request to the last token. ``tpot`` of a request is (latency - TTFT) / (tokens - 1),
as ours. Requests are sent at ``issue_rate``, which is beyond all measure unless one was asked for;
``avg_num_concurrent_requests`` is what was in flight on the average and not how many clients there
were, so that is asked for where it is not all of them.

Labels of the printed report are as in the same file and in the output that its documentation shows.
Labels that differ between versions: "Per User Output Throughput" and "Per GPU Output Throughput"
have their units in full before 1.0; machines are named from 1.1 on. Units are in the labels.
"""

import re
from collections.abc import Iterator
from typing import Final

from roofline.interop.results.content import Content
from roofline.interop.results.measuring import one, several, spread, statistic
from roofline.interop.results.node import LocatedValue, count, number, text
from roofline.interop.results.run import (
    Load,
    MeasuredFigure,
    MeasuredRun,
    ResultFormat,
    RunScenario,
)
from roofline.units import PREFIX

ALL = 0.8
"""Share of the requests in flight on the average from which on all were sent at once."""
WIDE = {"fp8_block_scales": "fp8_block", "w4a16_awq": "awq", "w4a16_gptq": "gptq"}
"""Formats by TensorRT-LLM's names where no rule finds them."""


_OVERVIEW: Final = "= PERFORMANCE OVERVIEW"
_LABEL: Final = re.compile(r"(?P<label>[A-Z][^:=]*?(?:\[[^]]*\][^:]*?)?)\s*:\s+(?P<value>\S.*?)\s*")
_PERCENTILE: Final = re.compile(r"\[(?P<of>TPOT|TTFT|Latency)\]\s+(?P<key>\w+)\s*:\s*(?P<v>\S+)")
_MACHINE: Final = re.compile(r"(?P<name>[^,]+), memory [\d.]+ GB")
_SECTIONS: Final = {"TPOT": "tpot", "TTFT": "ttft", "Latency": "latency"}
_TTFT: Final = "from sending a request to its first token"
_TPOT: Final = "(latency - TTFT) / (tokens - 1) of each request"
_LATENCY: Final = "from sending a request to its last token"
_OVER: Final = "over the time from the first request to the last token"


def _is_json(content: Content) -> bool:
    return content.first.keys() >= {"engine", "world_info", "request_info", "performance"}


def _read_json(content: Content) -> Iterator[MeasuredRun]:
    for run in content.records():
        version = text(run, "engine", "version")
        yield MeasuredRun("trtllm-bench", run.where, _scenario(run), tuple(_measured(run)), version)


def _scenario(run: LocatedValue) -> RunScenario:
    world, asked = run.at("world_info"), run.at("request_info")
    requests = count(asked, "num_requests")
    load, clients = load_of(requests, number(asked, "avg_num_concurrent_requests"))
    tp, pp = world.at("tp_size").count(), count(world, "pp_size") or 1
    output = number(asked, "avg_output_length")
    lengths = run.get("dataset", "osl_stats")
    return RunScenario(
        model=text(run, "engine", "model"),
        gpu=text(run, "machine", "name"),
        gpus=count(world, "world_size") or tp * pp,
        tp=tp,
        pp=pp,
        ep=count(world, "ep_size"),
        engine="trtllm",
        engine_version=text(run, "engine", "version"),
        weights=_stored(text(run, "engine", "quantization") or text(run, "engine", "dtype")),
        kv=text(run, "engine", "kv_cache_dtype"),
        load=load,
        concurrency=clients,
        requests=requests,
        prompt=number(asked, "avg_input_length"),
        output=output,
        spread=spread(number(lengths, "minimum"), output, number(lengths, "maximum")),
        beyond="speculative decoding" if run.get("decoding_stats") is not None else "",
    )


def load_of(requests: int | None, flying: float | None) -> tuple[Load, int | None]:
    """Arrivals of requests, by the number of them that were in flight on the average.

    >>> load_of(1000, 950.0), load_of(10, 1.0), load_of(1000, 63.8)
    (('offline', None), ('closed', 1), ('', None))
    """
    if requests and flying and flying >= ALL * requests:
        return "offline", None
    if flying and round(flying, 2) == 1.0:
        return "closed", 1
    return "", None


def _stored(name: str) -> str:
    """Number format by TensorRT-LLM's name of a quantisation."""
    return WIDE.get(name.lower(), name)


def _measured(run: LocatedValue) -> Iterator[MeasuredFigure]:
    done = run.at("performance")
    streamed = run.get("streaming_metrics")
    for node, metric, average, others, definition in (
        (streamed, "ttft", "avg_ttft_ms", "ttft_percentiles", _TTFT),
        (streamed, "tpot", "avg_tpot_ms", "tpot_percentiles", _TPOT),
        (done, "latency", "avg_request_latency_ms", "request_latency_percentiles_ms", _LATENCY),
    ):
        if node is None:
            continue
        mean = one(node, average, metric, definition, scale=PREFIX["m"])
        found = several(node.get(others), metric, definition, scale=PREFIX["m"])
        yield from mean
        yield from (each for each in found if not mean or each.statistic != "mean")
    for metric, key in (
        ("output_throughput", "system_output_throughput_tok_s"),
        ("total_throughput", "system_total_throughput_tok_s"),
        ("request_throughput", "request_throughput_req_s"),
    ):
        yield from one(done, key, metric, _OVER)


def _is_text(content: Content) -> bool:
    return content.documents is None and _OVERVIEW in content.text


def _read_text(content: Content) -> Iterator[MeasuredRun]:
    run = _labels(content)
    if run.get("Total Latency (ms)") is None:
        raise content.error(
            "the report has no total latency", "it may be cut off: copy all that was printed"
        )
    requests = count(run, "Number of requests")
    load, clients = load_of(requests, number(run, "Number of concurrent requests"))
    tp, pp = count(run, "TP Size"), count(run, "PP Size") or 1
    version = text(run, "TensorRT LLM Version") or text(run, "TensorRT-LLM Version")
    yield MeasuredRun(
        "trtllm-bench",
        content.source,
        RunScenario(
            model=text(run, "Model"),
            gpu=text(run, "machine"),
            gpus=tp * pp if tp else None,
            tp=tp,
            pp=pp,
            ep=count(run, "EP Size") if text(run, "EP Size") else None,
            engine="trtllm",
            engine_version=version,
            weights=_stored(text(run, "Quantization") or text(run, "Dtype")),
            kv=text(run, "KV Cache Dtype"),
            load=load,
            concurrency=clients,
            requests=requests,
            prompt=number(run, "Average Input Length (tokens)"),
            output=number(run, "Average Output Length (tokens)"),
        ),
        tuple(_labels_measured(run)),
        version,
    )


def _labels(content: Content) -> LocatedValue:
    """Values by label; of several reports the last."""
    found: dict[str, object] = {}
    shares: dict[str, str] = {}
    for line in content.lines():
        if each := _PERCENTILE.search(line):
            shares[f"{each['of']} {each['key']}"] = each["v"]
        elif each := _LABEL.fullmatch(line.strip()):
            found[each["label"]] = each["value"]
        elif each := _MACHINE.match(line.strip()):
            found["machine"] = each["name"]
    return LocatedValue(found | {"percentiles": shares}, content.source)


def _labels_measured(run: LocatedValue) -> Iterator[MeasuredFigure]:
    milli = PREFIX["m"]
    for metric, label, definition in (
        ("ttft", "time-to-first-token [TTFT]", _TTFT),
        ("tpot", "time-per-output-token [TPOT]", "(latency - TTFT) / (tokens - 1)"),
        ("latency", "request latency", _LATENCY),
    ):
        yield from one(run, f"Average {label} (ms)", metric, definition, scale=milli)
    shares = run.at("percentiles")
    for key in shares.names():
        section, _, name = key.partition(" ")
        found = statistic(name)
        if found not in ("", "mean"):
            metric = _SECTIONS[section]
            yield from one(shares, key, metric, "of all requests", scale=milli, of=found)
    for metric, label in (
        ("output_throughput", "Total Output Throughput (tokens/sec)"),
        ("total_throughput", "Total Token Throughput (tokens/sec)"),
        ("request_throughput", "Request Throughput (req/sec)"),
    ):
        yield from one(run, label, metric, _OVER)


JSON = ResultFormat("trtllm-bench", "trtllm-bench (JSON)", _is_json, _read_json, "0.17 to 1.3")
TEXT = ResultFormat(
    "trtllm-text", "trtllm-bench (what it prints)", _is_text, _read_text, "0.17 to 1.3"
)
