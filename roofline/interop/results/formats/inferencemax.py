"""InferenceMAX, now InferenceX: one result, or a list of them.

Fields as in `utils/process_result.py` of github.com/InferenceMAX/InferenceMAX and
github.com/SemiAnalysisAI/InferenceX, made of a run of vLLM's client. Times lose their suffix and
are in **seconds**; ``*_intvty`` is 1 / TPOT. Throughputs are per GPU: in the older shape, which has
no ``isl`` and ``osl``, tokens over duration over ``tp``. In the newer one results of several nodes,
or of prefill and decode on devices of their own, have ``num_prefill_gpu`` and ``num_decode_gpu``.
``precision`` is of the weights; ``framework`` is the engine, after ``dynamo-`` where that is in
front of it. Clients send ten requests each, of 0.8 to 1 of the nominal lengths.
"""

from collections.abc import Iterator

from roofline.interop.results.content import Content
from roofline.interop.results.measuring import engine_of, latencies
from roofline.interop.results.node import Node, count, number, text
from roofline.interop.results.run import Format, MeasuredRun, Measurement, Scenario

NAME = "inferencemax"


def _recognises(content: Content) -> bool:
    keys = content.first.keys()
    return keys >= {"hw", "conc", "tput_per_gpu", "framework", "precision"}


def _read(content: Content) -> Iterator[MeasuredRun]:
    for run in content.records():
        yield MeasuredRun("InferenceMAX", run.where, _scenario(run), tuple(_measured(run)))


def _scenario(run: Node) -> Scenario:
    tp = count(run, "tp") or count(run, "decode_tp")
    groups = _flag(run, "dp_attention") or _flag(run, "decode_dp_attention")
    return Scenario(
        model=text(run, "model"),
        gpu=run.at("hw").text().removesuffix("-trt").partition("-")[0],
        gpus=_devices(run),
        tp=tp,
        ep=count(run, "ep") or count(run, "decode_ep"),
        dp=tp if groups else None,
        engine=engine_of(run.at("framework").text()),
        weights=text(run, "precision"),
        load="closed",
        concurrency=run.at("conc").count(),
        prompt=number(run, "isl"),
        output=number(run, "osl"),
        source=NAME,
        beyond=_beyond(run),
    )


def _flag(run: Node, key: str) -> bool:
    found = run.get(key)
    return found is not None and str(found.value).lower() == "true"


def _devices(run: Node) -> int | None:
    if _flag(run, "disagg"):
        return (count(run, "num_prefill_gpu") or 0) + (count(run, "num_decode_gpu") or 0) or None
    return count(run, "tp") or count(run, "decode_tp")


def _beyond(run: Node) -> str:
    if _flag(run, "disagg"):
        return "prefill and decode on devices of their own"
    drafts = text(run, "spec_decoding") or text(run, "mtp")
    if drafts.lower() not in ("", "none", "off", "false"):
        return f"speculative decoding ({drafts:.20})"
    return ""


def _measured(run: Node) -> Iterator[Measurement]:
    yield from latencies(run, "e2el")
    devices = _devices(run)
    for metric, key, tokens in (
        ("output_throughput", "output_tput_per_gpu", "output tokens"),
        ("total_throughput", "tput_per_gpu", "prompt and output tokens"),
    ):
        each = number(run, key)
        if each is not None and devices:
            meaning = f"{tokens} over duration, per GPU: times {devices}"
            yield Measurement(metric, "mean", each * devices, key, meaning)


FORMAT = Format(NAME, "InferenceMAX or InferenceX (JSON)", _recognises, _read)
