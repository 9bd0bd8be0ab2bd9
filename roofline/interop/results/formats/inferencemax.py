"""InferenceMAX, now InferenceX: one result, or a list of them.

Fields as in `utils/process_result.py` of github.com/InferenceMAX/InferenceMAX and
github.com/SemiAnalysisAI/InferenceX, made of a run of vLLM's client. Times lose their suffix and
are in **seconds**; ``*_intvty`` is 1 / TPOT. Throughputs are per GPU: in the older shape, which has
no ``isl`` and ``osl``, tokens over duration over ``tp``. In the newer one (there
`utils/results/fixed_sequence.py`) a single node has ``pp`` and ``pcp_size`` beside ``tp``; several
nodes, or prefill and decode on devices of their own, have ``num_prefill_gpu`` and
``num_decode_gpu``, and then output tokens are over the devices of decode and prompt tokens over
those of prefill. ``precision`` is of the weights; ``framework`` is the engine, after ``dynamo-``
where that is in front of it. Clients send ten requests each, of 0.8 to 1 of the nominal lengths.

Rows of its public interface have the same figures in ``metrics``, ``hardware`` for ``hw`` and
``spec_method`` for ``spec_decoding``, and both pools for a single node too.
"""

from collections.abc import Iterator

from roofline.interop.results.content import Content
from roofline.interop.results.measuring import engine_of, latencies
from roofline.interop.results.node import LocatedValue, count, number, text
from roofline.interop.results.run import MeasuredFigure, MeasuredRun, ResultFormat, RunScenario

NAME = "inferencemax"


def _recognises(content: Content) -> bool:
    first = content.first
    return first.keys() >= {"hw", "conc", "tput_per_gpu", "framework", "precision"} or (
        first.keys() >= {"hardware", "conc", "framework", "precision"}
        and isinstance(first.get("metrics"), dict)
    )


def _read(content: Content) -> Iterator[MeasuredRun]:
    for row in content.records():
        run = _unfolded(row)
        tool = "InferenceX" if run.get("isl") or run.get("infmax_model_prefix") else "InferenceMAX"
        yield MeasuredRun(tool, run.where, _scenario(run), tuple(_measured(run)))


def _unfolded(row: LocatedValue) -> LocatedValue:
    """A row of the public interface as a result is; a result as it is."""
    figures = row.get("metrics")
    if figures is None or row.get("hardware") is None:
        return row
    value = {name: row.value[name] for name in row.names()} | {
        "hw": row.value["hardware"],
        "spec_decoding": row.value.get("spec_method"),
    }
    return LocatedValue({name: figures.value[name] for name in figures.names()} | value, row.source,
                row.path)  # fmt: skip


def _scenario(run: LocatedValue) -> RunScenario:
    tp = count(run, "tp") or count(run, "decode_tp")
    groups = _flag(run, "dp_attention") or _flag(run, "decode_dp_attention")
    return RunScenario(
        model=text(run, "model"),
        gpu=run.at("hw").text().removesuffix("-trt").partition("-")[0],
        gpus=_devices(run),
        tp=tp,
        pp=count(run, "pp") or count(run, "decode_pp"),
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


def _flag(run: LocatedValue, key: str) -> bool:
    found = run.get(key)
    return found is not None and str(found.value).lower() == "true"


def _devices(run: LocatedValue) -> int | None:
    prefill, decode = count(run, "num_prefill_gpu") or 0, count(run, "num_decode_gpu") or 0
    if _flag(run, "disagg") or _flag(run, "is_multinode"):
        return prefill + decode or None
    tp = count(run, "tp") or count(run, "decode_tp")
    return (tp or 0) * (count(run, "pp") or 1) * (count(run, "pcp_size") or 1) or None


def _beyond(run: LocatedValue) -> str:
    if _flag(run, "disagg"):
        return "prefill and decode on devices of their own"
    if (count(run, "pcp_size") or 1) > 1 or (count(run, "dcp_size") or 1) > 1:
        return "context parallelism of one engine's kind"
    drafts = text(run, "spec_decoding") or text(run, "mtp")
    if drafts.lower() not in ("", "none", "off", "false"):
        return f"speculative decoding ({drafts:.20})"
    return ""


def _measured(run: LocatedValue) -> Iterator[MeasuredFigure]:
    yield from latencies(run, "e2el")
    devices = _devices(run)
    split = _flag(run, "disagg")
    for metric, key, tokens, pool in (
        ("output_throughput", "output_tput_per_gpu", "output tokens", "num_decode_gpu"),
        ("input_throughput", "input_tput_per_gpu", "prompt tokens", "num_prefill_gpu"),
        ("total_throughput", "tput_per_gpu", "prompt and output tokens", ""),
    ):
        each, of = number(run, key), (count(run, pool) if split and pool else devices)
        if each is not None and of:
            meaning = f"{tokens} over duration, per GPU: times {of}"
            yield MeasuredFigure(metric, "mean", each * of, key, meaning)


FORMAT = ResultFormat(
    NAME, "InferenceMAX or InferenceX (JSON)", _recognises, _read, "2025 and 2026"
)
