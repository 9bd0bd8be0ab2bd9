"""``python -m sglang.launch_server``, flags of SGLang 0.5.23.

Names and defaults: ``sglang/srt/arg_groups/fields/`` (``parallel``, ``schedule``, ``memory``,
``model``, ``spec``, ``exec_``), ``parallel_hook.py`` and ``memory_hook.py`` beside it,
``sglang/srt/distributed/utils.py`` and ``sglang/benchmark/`` of that release. Of use here:

- ``--tp-size`` counts all devices of a stage; ``--attn-dp-size`` and ``--attn-cp-size`` divide it.
  ``--dp-size N --enable-dp-attention`` is the older spelling of ``--attn-dp-size N``.
- ``--mem-fraction-static`` is weights and cache over all memory of the device.
- ``--max-running-requests`` and ``--chunked-prefill-size`` count for all attention groups together;
  a chunk of -1 is a whole prompt.
- ``--random-range-ratio 1`` is lengths as asked for; 0 is anything up to them.
"""

import math
from collections.abc import Mapping
from typing import Final

from roofline.cost.layout import Layout
from roofline.interop.commands import shared
from roofline.interop.commands.command import Command, Notes
from roofline.interop.commands.flags import Given, Known, Value, flags
from roofline.interop.commands.memory import converted, kept_outside
from roofline.interop.commands.reading import Files, Read, Start, after, others, told
from roofline.interop.commands.served import (
    Method,
    Offloaded,
    Served,
    Share,
    Site,
    Speculation,
)
from roofline.interop.commands.words import Line
from roofline.units import parse

NAME: Final = "sglang"
VERSION: Final = "0.5.23"
TITLE: Final = f"SGLang {VERSION}"
IMAGE: Final = f"lmsysorg/sglang:v{VERSION}"
STAGES: Final = "SGLANG_PP_LAYER_PARTITION"
GIB: Final = parse("1 GiB", "B")

KV: Final[Mapping[str, str]] = {
    "auto": "auto",
    "bf16": "bf16",
    "fp8": "fp8_e4m3",
    "fp8-e5m2": "fp8_e5m2",
    "nvfp4": "nvfp4",
}
ONLINE: Final[Mapping[str, str]] = {"fp8": "fp8", "mxfp8": "mxfp8"}
"""Formats that a 16-bit checkpoint is turned into on loading."""
METHODS: Final[Mapping[Method, str]] = {
    "mtp": "NEXTN",
    "eagle": "EAGLE3",
    "ngram": "NGRAM",
    "model": "STANDALONE",
}

_KV_READ: Final = {word: name for name, word in KV.items()} | {"bfloat16": "bf16"}
_DTYPE_READ: Final = {
    "auto": "", "half": "fp16", "float16": "fp16", "bfloat16": "bf16", "float": "fp32",
    "float32": "fp32",
}  # fmt: skip
_QUANTISED: Final = {
    "fp8": "fp8",
    "w8a8_fp8": "fp8-row",
    "w8a8_int8": "int8",
    "mxfp8": "mxfp8",
    "awq": "int4",
    "awq_marlin": "int4",
    "gptq": "int4",
    "gptq_marlin": "int4",
    "mxfp4": "mxfp4",
    "modelopt_fp4": "nvfp4",
    "modelopt_fp8": "fp8",
    "modelopt": "",
    "compressed-tensors": "",
    "unquant": "",
}
_METHODS_READ: Final[Mapping[str, Method]] = {
    "NEXTN": "mtp",
    "EAGLE": "eagle",
    "EAGLE3": "eagle",
    "NGRAM": "ngram",
    "STANDALONE": "model",
}
KNOWN: Final = Known(
    {
        "--tensor-parallel-size": "tp-size",
        "--tp": "tp-size",
        "--pipeline-parallel-size": "pp-size",
        "--pp": "pp-size",
        "--data-parallel-size": "dp-size",
        "--dp": "dp-size",
        "--attention-data-parallel-size": "attn-dp-size",
        "--attention-context-parallel-size": "attn-cp-size",
        "--expert-parallel-size": "ep-size",
        "--ep": "ep-size",
        "--model": "model-path",
        "--decode-context-parallel-size": "dcp-size",
        "--speculative-draft-model": "speculative-draft-model-path",
    },
    frozenset({"log-requests", "show-time-cost"}),
)


def write(served: Served, site: Site) -> Command:
    """The command of a server, and ``sglang.bench_serving``.

    Parameters
    ----------
    served, site
        What the server is told; what it is written for.

    Raises
    ------
    LayoutError
        SGLang has no such layout.
    InfeasibleError
        No room is left for a cache.
    """
    notes = Notes()
    parts: list[tuple[str, ...]] = [
        ("python", "-m", "sglang.launch_server"),
        ("--model-path", served.model),
        *_degrees(served.layout, notes),
        *_formats(served, site, notes),
        *_limits(served, site, notes),
        *_speculative(served.speculation),
    ]
    shared.say_replicas(served, notes)
    nodes = shared.say_nodes(
        served,
        site,
        notes,
        "start it on each with --node-rank 0, 1, … and --dist-init-addr HOST:PORT of the first",
    )
    if nodes > 1:
        parts.append(("--nnodes", str(nodes)))
    parts.append(("--port", str(site.port)))
    stages = served.layout.stages
    return Command(
        TITLE,
        tuple(parts),
        environment={STAGES: ",".join(map(str, stages))} if stages else {},
        benchmark=_bench(served, site),
        notes=tuple(notes.said),
        lost=frozenset(notes.lost),
    )


def _bench(served: Served, site: Site) -> tuple[tuple[str, ...], ...]:
    load = site.load
    return (
        ("python", "-m", "sglang.bench_serving"),
        ("--backend", "sglang", "--base-url", f"http://localhost:{site.port}"),
        ("--model", served.model),
        ("--dataset-name", "random-ids"),
        ("--random-input-len", str(load.prompt), "--random-output-len", str(load.output)),
        ("--random-range-ratio", "1"),
        ("--num-prompts", str(load.requests), "--max-concurrency", str(load.concurrency)),
    )


def _degrees(layout: Layout, notes: Notes) -> list[tuple[str, ...]]:
    shared.say_layout(layout, notes, "SGLang")
    degrees = (
        ("--tp-size", layout.stage_devices),
        ("--pp-size", layout.pp),
        ("--attn-dp-size", layout.dp),
        ("--attn-cp-size", layout.cp),
        ("--ep-size", layout.ep),
    )
    out = [(flag, str(int(degree))) for flag, degree in degrees if degree != 1]
    if layout.cp == 1:
        return [*out]
    notes.say(
        "SGLang's context parallelism shares prefill; it does not divide the cache, of which each "
        f"device then has {int(layout.cp)} times what is modelled"
    )
    return [*out, ("--enable-prefill-cp",)]


def _formats(served: Served, site: Site, notes: Notes) -> list[tuple[str, ...]]:
    out: list[tuple[str, ...]] = []
    if served.weights in shared.DTYPES and site.stored in shared.DTYPES:
        out.append(("--dtype", shared.DTYPES[served.weights]))
    elif served.weights in ONLINE and site.stored in shared.DTYPES:
        out.append(("--quantization", ONLINE[served.weights]))
    elif served.weights:
        shared.lose_weights(served, site, notes, "SGLang")
    if served.kv not in KV:
        shared.lose_kv(served, notes, "SGLang", KV)
    elif served.kv != "auto":
        out.append(("--kv-cache-dtype", KV[served.kv]))
    return out


def _limits(served: Served, site: Site, notes: Notes) -> list[tuple[str, ...]]:
    """How much runs at once, and in how much memory."""
    out: list[tuple[str, ...]] = []
    # Both are divided by the attention groups: what does not divide is rounded up here, not there.
    groups = int(served.layout.dp)
    each, tokens = shared.divided(served, groups, notes, "SGLang")
    if served.max_context is not None:
        out.append(("--context-length", str(served.max_context)))
    if each is not None:
        out.append(("--max-running-requests", str(each * groups)))
    if not served.chunked_prefill:
        out.append(("--chunked-prefill-size", "-1"))
    if tokens is not None:
        flag = "--chunked-prefill-size" if served.chunked_prefill else "--max-prefill-tokens"
        out.append((flag, str(tokens * groups)))
    if served.memory is not None:
        share = converted(served.memory, "static", site.room)
        out.append(("--mem-fraction-static", shared.number(share)))
    if not served.prefix_caching:
        out.append(("--disable-radix-cache",))
    if served.offloaded is not None:
        size = kept_outside(served.offloaded, "bytes", site.room)
        whole = math.ceil(size / GIB)
        out.append(("--cpu-offload-gb", str(whole)))
        if whole * GIB != size:
            notes.lose("offloaded", f"SGLang offloads whole GiB: {whole} of each device")
    return out


def _speculative(draft: Speculation | None) -> list[tuple[str, ...]]:
    if draft is None:
        return []
    out: list[tuple[str, ...]] = [("--speculative-algorithm", METHODS[draft.method])]
    if draft.model:
        out.append(("--speculative-draft-model-path", draft.model))
    # A row of drafts: one alternative at each step, and the target's own token beside them.
    if draft.method != "ngram":
        out.append(("--speculative-num-steps", str(draft.tokens), "--speculative-eagle-topk", "1"))
    return [*out, ("--speculative-num-draft-tokens", str(draft.tokens + 1))]


def starts(line: Line) -> Start | None:
    """Where a command starts an SGLang server."""
    modules = tuple((python, "-m", "sglang.launch_server") for python in ("python", "python3"))
    return after(line.words, *modules, ("sglang", "serve"))


def read(line: Line, files: Files) -> Read:
    """What a command tells SGLang; `files` is not asked.

    Raises
    ------
    DocumentError
        At a flag whose value has no meaning, or that contradicts another.
    """
    start = starts(line)
    assert start is not None, "not a command of SGLang"
    given = flags(line.words[start.end :], KNOWN, line.source)
    notes: list[str] = []
    model = given.text("model-path")
    if model is None:
        raise line.source.error(0, "no model is named", "give --model-path")
    stages = told(line, STAGES)
    if stages is not None:
        given.values["stages"] = [Value(stages.text, STAGES, stages.at, line.source)]
    layout, replicas = _layout_read(given, notes)
    static = given.share("mem-fraction-static")
    if static is None:
        notes.append("SGLang chooses --mem-fraction-static itself; the usual share is taken here")
    chunked, budget = _budget_read(given)
    served = Served(
        NAME,
        model,
        layout,
        replicas=replicas,
        weights=_weights_read(given),
        kv=given.chosen("kv-cache-dtype", _KV_READ, "a cache that is not modelled") or "auto",
        max_sequences=given.whole("max-running-requests"),
        token_budget=budget,
        max_context=given.whole("context-length"),
        memory=None if static is None else Share(static, "static"),
        chunked_prefill=chunked,
        prefix_caching=not given.switch("disable-radix-cache"),
        offloaded=_offloaded_read(given),
        speculation=_speculation_read(given),
    )
    extra = [value.text for value in given.positional]
    return Read(
        served, (*start.before(line), *others(line, STAGES), *given.unused(), *extra), tuple(notes)
    )


def _layout_read(given: Given, notes: list[str]) -> tuple[Layout, int]:
    """Layout and replicas: data parallelism without shared experts is replicas."""
    whole = given.whole("tp-size") or 1
    pp = given.whole("pp-size") or 1
    cp = given.whole("attn-cp-size") or 1
    outer = given.whole("dp-size") or 1
    groups = given.whole("attn-dp-size") or 1
    if given.switch("enable-dp-attention"):
        older = given.find("enable-dp-attention")
        if older is not None and groups not in (1, outer):
            older.refuse(f"--attn-dp-size {groups} contradicts --dp-size {outer}", "say one")
        groups, outer = outer, 1
    given.find("enable-prefill-cp")
    if whole % (groups * cp):
        anchor = given.find("attn-dp-size") or given.find("attn-cp-size") or given.find("dp-size")
        assert anchor is not None
        anchor.refuse(
            f"{whole} devices (--tp-size) cannot be divided into {groups * cp} attention groups",
            "make --tp-size a multiple of the attention groups",
        )
    experts = given.whole("ep-size") or 1
    if whole % experts:
        anchor = given.find("ep-size")
        assert anchor is not None
        anchor.refuse(f"{experts} does not divide --tp-size {whole}", "give a divisor of it")
    if cp > 1:
        notes.append(
            "SGLang's context parallelism does not divide the cache; the model's does: it counts "
            f"{cp} times too few bytes of it"
        )
    given.find("nnodes")
    tp = whole // (groups * cp)
    stages = shared.stages_of(given.find("stages"), pp)
    return Layout(tp=tp, cp=cp, dp=groups, ep=experts, pp=pp, stages=stages), outer


def _weights_read(given: Given) -> str:
    method = given.chosen("quantization", _QUANTISED, "a quantisation that is not modelled")
    dtype = given.chosen("dtype", _DTYPE_READ, "no type that weights are computed in")
    return method or ("" if method == "" else dtype or "")


def _budget_read(given: Given) -> tuple[bool, int | None]:
    """Whether prompts are cut, and new tokens of a step."""
    chunk = given.find("chunked-prefill-size")
    if chunk is not None and chunk.text == "-1":
        return False, given.whole("max-prefill-tokens")
    return True, given.whole("chunked-prefill-size")


def _offloaded_read(given: Given) -> Offloaded | None:
    size = given.whole("cpu-offload-gb", least=0)
    return Offloaded(size * GIB, "bytes") if size else None


def _speculation_read(given: Given) -> Speculation | None:
    name = given.find("speculative-algorithm")
    model = given.text("speculative-draft-model-path") or ""
    steps = given.whole("speculative-num-steps")
    drafted = given.whole("speculative-num-draft-tokens", least=2)
    width = given.find("speculative-eagle-topk")
    if name is None:
        return None
    method = _METHODS_READ.get(name.text.upper())
    if method is None:
        name.refuse(f"{name.text!r:.40} is not modelled", f"known: {', '.join(_METHODS_READ)}")
    if width is not None and width.text != "1":
        width.refuse("a tree of drafts is not read", "roofline speculate --tree prices one")
    row = None if drafted is None else drafted - 1
    if steps is not None and row is not None and steps != row and method != "ngram":
        at = given.find("speculative-num-draft-tokens")
        assert at is not None
        at.refuse(f"{steps} steps draft {steps + 1} tokens with one alternative each", "say one")
    tokens = row if row is not None else steps
    if tokens is None:
        name.refuse("it does not say how many tokens are drafted", "give --speculative-num-steps")
    if method == "eagle" and not model:
        method = "mtp"  # without a head of its own it is the target's that drafts
    return Speculation(method, tokens, model if method in ("eagle", "model") else "")
