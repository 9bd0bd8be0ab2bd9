"""``sglang serve``, flags of SGLang 0.5.23: written and read.

``python3 -m sglang.launch_server``, which it takes the place of, is read too; so is
``sglang.bench_serving`` now ``sglang.benchmark.serving``.
Names and defaults: ``sglang/cli/serve.py``, ``sglang/srt/arg_groups/fields/`` (``parallel``,
``schedule``, ``memory``, ``model``, ``spec``, ``exec_``, ``lora``), ``parallel_hook.py``,
``memory_hook.py`` and ``lora_hook.py`` beside it, ``sglang/srt/distributed/utils.py`` and
``sglang/benchmark/`` of that release. Of use here:

- ``--tp-size`` counts all devices of a stage; ``--attn-dp-size`` and ``--attn-cp-size`` divide it.
  ``--dp-size N --enable-dp-attention`` is the older spelling of ``--attn-dp-size N``.
- ``--mem-fraction-static`` is weights and cache over all memory of the device; its default is in
  ``hwspecs/engines/sglang.yaml``, as those of sequences and tokens of a step are.
- ``--disable-cuda-graph`` runs without CUDA graphs.
- ``--max-running-requests`` and ``--chunked-prefill-size`` count for all attention groups together;
  a chunk of -1 is a whole prompt.
- ``--max-loras-per-batch`` counts the network without an adapter too; without ``--lora-paths`` the
  rank and the layers of adapters have to be said.
- ``--random-range-ratio 1`` is lengths as asked for; 0 is anything up to them.
"""

import math
from collections.abc import Mapping
from typing import Final

from roofline.cost.layout import Layout
from roofline.interop.commands import shared
from roofline.interop.commands.command import Notes, ServeCommand
from roofline.interop.commands.flags import EngineFlags, GivenFlags
from roofline.interop.commands.memory import converted, kept_outside
from roofline.interop.commands.reading import Files, ParsedCommand, Start, after, opened
from roofline.interop.commands.served import (
    Adapters,
    DraftSettings,
    Method,
    OffloadedWeights,
    ReplicaServer,
    ServerMemory,
    Site,
)
from roofline.interop.commands.words import CommandLine
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

KV_READ: Final = {word: name for name, word in KV.items()} | {"bfloat16": "bf16"}
QUANTISED: Final = {
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
METHODS_READ: Final[Mapping[str, Method]] = {
    **{word: name for name, word in METHODS.items()},
    "EAGLE": "eagle",
}
SLOTS: Final = 8
USUAL_RANK: Final = 16
"""Adapters of a batch unless told otherwise; their rank where nobody says it, assumed. [1]"""
KNOWN: Final = EngineFlags(
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


def starts(line: CommandLine) -> Start | None:
    """Place where a command starts an SGLang server."""
    names = ("sglang.launch_server", "dynamo.sglang")
    modules = tuple((python, "-m", name) for name in names for python in ("python", "python3"))
    return after(line, *modules, ("sglang", "serve"))


def read(line: CommandLine, files: Files) -> ParsedCommand:
    """Read a command; `files` is not asked.

    DocumentError at a flag whose value has no meaning, or that contradicts another.
    """
    given, ignored = opened(line, starts(line), KNOWN, STAGES)
    notes: list[str] = []
    if "model-path" not in given.values and given.positional:
        given.values["model-path"] = [given.positional.pop(0)]
    model = given.text("model-path")
    if model is None:
        raise line.source.error(0, "no model is named", "give --model-path")
    layout, replicas = _layout_read(given, notes)
    static = given.share("mem-fraction-static")
    chunk = given.find("chunked-prefill-size")
    chunked = chunk is None or chunk.text != "-1"
    budget = given.whole("chunked-prefill-size" if chunked else "max-prefill-tokens")
    served = ReplicaServer(
        NAME,
        model,
        layout,
        replicas=replicas,
        weights=shared.weights_of(given, QUANTISED),
        kv=given.chosen("kv-cache-dtype", KV_READ, "a cache that is not modelled") or "auto",
        max_sequences=given.whole("max-running-requests"),
        token_budget=budget,
        max_context=given.whole("context-length"),
        memory=None if static is None else ServerMemory(static, "static"),
        recv_interval=given.whole("scheduler-recv-interval") or 1,
        stream_interval=given.whole("stream-interval") or 1,
        chunked_prefill=chunked,
        prefix_caching=not given.switch("disable-radix-cache"),
        cuda_graphs=not given.switch("disable-cuda-graph"),
        offloaded=_offloaded_read(given),
        speculation=_speculation_read(given),
        adapters=_adapters_read(given, notes),
    )
    extra = [value.text for value in given.positional]
    return ParsedCommand(served, (*ignored, *given.unused(), *extra), tuple(notes))


def _layout_read(given: GivenFlags, notes: list[str]) -> tuple[Layout, int]:
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
        given.refuse(
            "ep-size", f"{experts} does not divide --tp-size {whole}", "give a divisor of it"
        )
    if cp > 1:
        notes.append(shared.SPLIT_READ.format("SGLang", cp))
    given.find("nnodes")
    tp = whole // (groups * cp)
    stages = shared.stages_of(given.find("stages"), pp)
    return Layout(tp=tp, cp=cp, dp=groups, ep=experts, pp=pp, stages=stages), outer


def _offloaded_read(given: GivenFlags) -> OffloadedWeights | None:
    size = given.whole("cpu-offload-gb", least=0)
    return OffloadedWeights(size * GIB, "bytes") if size else None


def _adapters_read(given: GivenFlags, notes: list[str]) -> Adapters | None:
    paths = given.find("lora-paths")
    if paths is None and not given.switch("enable-lora"):
        return None
    for name in ("enable-lora", "lora-target-modules", "max-loaded-loras", "lora-backend"):
        given.find(name)
    rank = given.whole("max-lora-rank")
    if rank is None:
        notes.append("the rank of the adapters is that of their files: it is counted as 16")
    return Adapters(given.whole("max-loras-per-batch") or SLOTS, rank)


def _speculation_read(given: GivenFlags) -> DraftSettings | None:
    name = given.find("speculative-algorithm")
    model = given.text("speculative-draft-model-path") or ""
    steps = given.whole("speculative-num-steps")
    drafted = given.whole("speculative-num-draft-tokens", least=2)
    width = given.find("speculative-eagle-topk")
    if name is None:
        return None
    method = METHODS_READ.get(name.text.upper())
    if method is None:
        name.refuse(f"{name.text!r:.40} is not modelled", f"known: {', '.join(METHODS_READ)}")
    if width is not None and width.text != "1":
        width.refuse("a tree of drafts is not read", "roofline speculate --tree prices one")
    row = None if drafted is None else drafted - 1
    if steps is not None and row is not None and steps != row and method != "ngram":
        said = f"{steps} steps draft {steps + 1} tokens with one alternative each"
        given.refuse("speculative-num-draft-tokens", said, "say one")
    tokens = row if row is not None else steps
    if tokens is None:
        name.refuse("it does not say how many tokens are drafted", "give --speculative-num-steps")
    if method == "eagle" and not model:
        method = "mtp"  # without a head of its own it is the target's that drafts
    return DraftSettings(method, tokens, model if method in ("eagle", "model") else "")


def write(served: ReplicaServer, site: Site) -> ServeCommand:
    """The command of a server, and ``sglang.benchmark.serving``.

    Raises:
        LayoutError: SGLang has no such layout.
        InfeasibleError: No room is left for a cache.
    """
    notes = Notes()
    draft, layout, load = served.speculation, served.layout, site.load
    if draft is not None and draft.method == "model" and layout.dp != 1:
        # A network of its own drafts for all sequences, not for groups of them.
        shared.refuse_layout(
            layout,
            "SGLang",
            "a network does not draft for attention groups",
            "draft with mtp or eagle, or use a layout without `dp`",
        )
    parts: list[tuple[str, ...]] = [
        ("sglang", "serve"),
        ("--model-path", served.model),
        *_degrees(layout, notes),
        *(
            (f"--{name.replace('_', '-')}", word)
            for name, word in shared.formats(served, site, notes, "SGLang", KV, ONLINE).items()
        ),
        *_limits(served, site, notes),
        *_speculative(draft),
        *_adapters(served.adapters),
    ]
    nodes = shared.say_deployment(
        served,
        site,
        notes,
        "start it on each with --node-rank 0, 1, … and --dist-init-addr HOST:PORT of the first",
    )
    parts += shared.parts(("--nnodes", nodes if nodes > 1 else None), ("--port", site.port))
    return ServeCommand(
        TITLE,
        tuple(parts),
        environment=shared.stage_variable(STAGES, layout),
        benchmark=(
            ("python3", "-m", "sglang.benchmark.serving"),
            ("--backend", "sglang", "--base-url", f"http://localhost:{site.port}"),
            ("--model", served.model),
            ("--dataset-name", "random-ids"),
            ("--random-input-len", str(load.prompt), "--random-output-len", str(load.output)),
            ("--random-range-ratio", "1"),
            ("--num-prompts", str(load.requests), "--max-concurrency", str(load.concurrency)),
        ),
        notes=tuple(notes.said),
        lost=frozenset(notes.lost),
    )


def _degrees(layout: Layout, notes: Notes) -> list[tuple[str, ...]]:
    shared.say_layout(layout, notes, "SGLang")
    out = shared.degrees(
        ("--tp-size", layout.stage_devices),
        ("--pp-size", layout.pp),
        ("--attn-dp-size", layout.dp),
        ("--attn-cp-size", layout.cp),
        ("--ep-size", layout.ep),
    )
    if layout.cp == 1:
        return out
    notes.say(shared.SPLIT.format("SGLang", int(layout.cp)))
    return [*out, ("--enable-prefill-cp",)]


def _limits(served: ReplicaServer, site: Site, notes: Notes) -> list[tuple[str, ...]]:
    """Flags for sequences, tokens and memory."""
    # Both are divided by the attention groups: what does not divide is rounded up here, not there.
    groups = int(served.layout.dp)
    each, tokens = shared.divided(served, groups, notes, "SGLang")
    chunked, memory = served.chunked_prefill, served.memory
    out = shared.parts(
        ("--context-length", served.max_context),
        ("--max-running-requests", each and each * groups),
        ("--chunked-prefill-size", None if chunked else -1),
        (
            "--chunked-prefill-size" if chunked else "--max-prefill-tokens",
            tokens and tokens * groups,
        ),
        ("--mem-fraction-static", memory and converted(memory, "static", site.room)),
        ("--scheduler-recv-interval", served.recv_interval if served.recv_interval > 1 else None),
        ("--stream-interval", served.stream_interval if served.stream_interval > 1 else None),
        ("--disable-radix-cache", not served.prefix_caching),
        ("--disable-cuda-graph", not served.cuda_graphs),
    )
    if served.offloaded is not None:
        size = kept_outside(served.offloaded, "bytes", site.room)
        whole = math.ceil(size / GIB)
        out.append(("--cpu-offload-gb", str(whole)))
        if whole * GIB != size:
            notes.lose("offloaded", f"SGLang offloads whole GiB: {whole} of each device")
    return out


def _adapters(adapters: Adapters | None) -> list[tuple[str, ...]]:
    if adapters is None:
        return []
    return [
        ("--enable-lora", "--lora-target-modules", "all"),
        ("--max-loras-per-batch", str(adapters.slots)),
        *shared.parts(("--max-lora-rank", adapters.rank or USUAL_RANK)),
    ]


def _speculative(draft: DraftSettings | None) -> list[tuple[str, ...]]:
    if draft is None:
        return []
    out: list[tuple[str, ...]] = [("--speculative-algorithm", METHODS[draft.method])]
    if draft.model:
        out.append(("--speculative-draft-model-path", draft.model))
    # A row of drafts: one alternative at each step, and the target's own token beside them.
    if draft.method != "ngram":
        out.append(("--speculative-num-steps", str(draft.tokens), "--speculative-eagle-topk", "1"))
    return [*out, ("--speculative-num-draft-tokens", str(draft.tokens + 1))]
