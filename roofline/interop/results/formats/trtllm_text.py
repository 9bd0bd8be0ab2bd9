"""What ``trtllm-bench`` prints: sections of labels and numbers, among lines of a log.

Labels as in `tensorrt_llm/bench/dataclasses/reporting.py` of TensorRT-LLM 0.17 to 1.3
(github.com/NVIDIA/TensorRT-LLM) and in the output that its documentation shows. Labels that differ
between versions: "Per User Output Throughput" and "Per GPU Output Throughput" have their units in
full before 1.0; machines are named from 1.1 on. Units are in the labels.
"""

import re
from collections.abc import Iterator
from typing import Final

from roofline.interop.results.content import Content
from roofline.interop.results.formats.trtllm_json import load_of, stored
from roofline.interop.results.measuring import one, statistic
from roofline.interop.results.node import Node, count, number, text
from roofline.interop.results.run import Format, MeasuredRun, Measurement, Scenario
from roofline.units import PREFIX

NAME = "trtllm-text"
_OVERVIEW: Final = "= PERFORMANCE OVERVIEW"
_LABEL: Final = re.compile(r"(?P<label>[A-Z][^:=]*?(?:\[[^]]*\][^:]*?)?)\s*:\s+(?P<value>\S.*?)\s*")
_PERCENTILE: Final = re.compile(r"\[(?P<of>TPOT|TTFT|Latency)\]\s+(?P<key>\w+)\s*:\s*(?P<v>\S+)")
_MACHINE: Final = re.compile(r"(?P<name>[^,]+), memory [\d.]+ GB")
_SECTIONS: Final = {"TPOT": "tpot", "TTFT": "ttft", "Latency": "latency"}


def _recognises(content: Content) -> bool:
    return content.documents is None and _OVERVIEW in content.text


def _read(content: Content) -> Iterator[MeasuredRun]:
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
        tool="trtllm-bench",
        format=NAME,
        version=version,
        where=content.source,
        scenario=Scenario(
            model=text(run, "Model"),
            gpu=text(run, "machine"),
            gpus=tp * pp if tp else None,
            tp=tp,
            pp=pp,
            ep=count(run, "EP Size") if text(run, "EP Size") else None,
            engine="trtllm",
            engine_version=version,
            weights=stored(text(run, "Quantization") or text(run, "Dtype")),
            kv=text(run, "KV Cache Dtype"),
            load=load,
            concurrency=clients,
            requests=requests,
            prompt=number(run, "Average Input Length (tokens)"),
            output=number(run, "Average Output Length (tokens)"),
        ),
        measurements=tuple(_measured(run)),
    )


def _labels(content: Content) -> Node:
    """Values by label; of several reports the last."""
    found: dict[str, object] = {}
    shares: dict[str, str] = {}
    for line in content.text.split("\n"):
        if each := _PERCENTILE.search(line):
            shares[f"{each['of']} {each['key']}"] = each["v"]
        elif each := _LABEL.fullmatch(line.strip()):
            found[each["label"]] = each["value"]
        elif each := _MACHINE.match(line.strip()):
            found["machine"] = each["name"]
    return Node(found | {"percentiles": shares}, content.source)


def _measured(run: Node) -> Iterator[Measurement]:
    milli = PREFIX["m"]
    for metric, label, definition in (
        ("ttft", "time-to-first-token [TTFT]", "from sending a request to its first token"),
        ("tpot", "time-per-output-token [TPOT]", "(latency - TTFT) / (tokens - 1)"),
        ("latency", "request latency", "from sending a request to its last token"),
    ):
        yield from one(run, f"Average {label} (ms)", metric, definition, scale=milli)
    shares = run.at("percentiles")
    for key in shares.names():
        section, _, name = key.partition(" ")
        found = statistic(name)
        if found not in ("", "mean"):
            metric = _SECTIONS[section]
            yield from one(shares, key, metric, "of all requests", scale=milli, of=found)
    over = "over the time from the first request to the last token"
    for metric, label in (
        ("output_throughput", "Total Output Throughput (tokens/sec)"),
        ("total_throughput", "Total Token Throughput (tokens/sec)"),
        ("request_throughput", "Request Throughput (req/sec)"),
    ):
        yield from one(run, label, metric, over)


FORMAT = Format(NAME, "trtllm-bench (what it prints)", _recognises, _read)
