"""``vllm serve``, flags of vLLM 0.33.0: written and read.

Names and defaults: ``vllm/engine/arg_utils.py``, ``vllm/config/`` (``parallel``, ``cache``,
``scheduler``, ``speculative``, ``quantization``), ``vllm/distributed/utils.py`` and
``vllm/benchmarks/`` of that release. Of use here:

- ``--gpu-memory-utilization`` is a share of the whole device; its default is in
  ``hwspecs/engines/vllm.yaml``, as those of sequences and tokens of a step are.
- ``--enforce-eager`` runs without CUDA graphs.
- ``--max-num-seqs`` and ``--max-num-batched-tokens`` count for each data-parallel rank.
- ``--max-num-batched-tokens`` below ``--max-num-seqs`` is refused at the start, and below
  ``--max-model-len`` without chunked prefill.
- Experts are spread over all devices of a stage with ``--enable-expert-parallel``, else every
  device has a part of each.
- ``--prefill-context-parallel-size`` shares prefill, and does not divide the cache.
- ``--max-loras`` adapters of one step have memory for ``--max-lora-rank``, which is one of a few
  ranks; without either it is one adapter of rank 16.
- ``--random-range-ratio 0`` is lengths as asked for.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from roofline.cost.layout import Layout
from roofline.errors import InputError
from roofline.interop.commands import shared
from roofline.interop.commands.command import Notes, ServeCommand
from roofline.interop.commands.flags import EngineFlags, GivenFlags, Value
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
from roofline.records import replace
from roofline.units import parse

NAME: Final = "vllm"
VERSION: Final = "0.33.0"
TITLE: Final = f"vLLM {VERSION}"
IMAGE: Final = f"vllm/vllm-openai:v{VERSION}"
STAGES: Final = "VLLM_PP_LAYER_PARTITION"
GIB: Final = parse("1 GiB", "B")

KV: Final[Mapping[str, str]] = {
    "auto": "auto",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp8": "fp8",
    "fp8-e5m2": "fp8_e5m2",
    "int8-kv": "int8_per_token_head",
    "int4-kv": "int4_per_token_head",
    "nvfp4": "nvfp4",
}
ONLINE: Final[Mapping[str, str]] = {
    "fp8": "fp8_per_tensor",
    "fp8-row": "fp8_per_channel",
    "fp8-block": "fp8_per_block",
    "mxfp8": "mxfp8",
}
"""Formats that a 16-bit checkpoint is turned into on loading."""
METHODS: Final[Mapping[Method, str]] = {
    "mtp": "mtp",
    "eagle": "eagle3",
    "ngram": "ngram",
    "model": "draft_model",
}
RANKS: Final = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Ranks that ``--max-lora-rank`` takes."""
USUAL: Final = Adapters(1, 16)
"""Adapters where ``--enable-lora`` stands alone."""
LOOKUP: Final = 4
"""Longest n-gram that is looked up; the engine wants a number."""

KV_READ: Final = {word: name for name, word in KV.items()} | {"fp8_e4m3": "fp8"}
QUANTISED: Final = {word: name for name, word in ONLINE.items()} | {
    "fp8": "fp8",
    "awq": "int4",
    "awq_marlin": "int4",
    "auto_awq": "int4",
    "gptq": "int4",
    "gptq_marlin": "int4",
    "auto_gptq": "int4",
    "modelopt_fp4": "nvfp4",
    "modelopt_mxfp8": "mxfp8",
    "mxfp4": "mxfp4",
    "gpt_oss_mxfp4": "",
    "deepseek_v4_fp8": "",
    "compressed-tensors": "",
    "modelopt": "",
    "quark": "",
    "nvfp4_per_token": "nvfp4",
    "fbgemm_fp8": "fp8-row",
    "ptpc_fp8": "fp8-row",
    "bitsandbytes": "int4",
    "modelopt_mixed": "",
    "moe_wna16": "",
    "inc": "",
    "torchao": "",
}
"""Formats by vLLM's names of quantisations, those of releases before it too; nothing where only the
checkpoint says."""
METHODS_READ: Final[Mapping[str, Method]] = {
    **{word: name for name, word in METHODS.items()},
    "eagle": "eagle",
    "ngram_gpu": "ngram",
}
KNOWN: Final = EngineFlags(
    {
        "-tp": "tensor-parallel-size",
        "-pp": "pipeline-parallel-size",
        "-dp": "data-parallel-size",
        "-dcp": "decode-context-parallel-size",
        "-pcp": "prefill-context-parallel-size",
        "-q": "quantization",
        "-sc": "speculative-config",
        "-n": "nnodes",
        "-r": "node-rank",
        "--device-memory-utilization": "gpu-memory-utilization",
    },
    frozenset(
        {"enforce-eager", "async-scheduling", "language-model-only", "numa-bind", "headless"}
    ),
)


def starts(line: CommandLine) -> Start | None:
    """Place where a command starts a vLLM server."""
    names = ("vllm.entrypoints.openai.api_server", "dynamo.vllm")
    modules = tuple((python, "-m", name) for name in names for python in ("python", "python3"))
    found = after(line, ("vllm", "serve"), *modules)
    if found is None:
        # The image's entry point is the server: what follows its name are arguments.
        for place, word in enumerate(line.words):
            if word.text.partition(":")[0].endswith(IMAGE.partition(":")[0]):
                return Start(place, place + 1)
    return found


def read(line: CommandLine, files: Files) -> ParsedCommand:
    """Read a command; `files` is not asked.

    DocumentError at a flag whose value has no meaning, or that contradicts another.
    """
    given, ignored = opened(line, starts(line), KNOWN, STAGES)
    for name in ("disaggregation-mode", "kv-transfer-config"):
        given.find(name)  # of Dynamo's workers: the pool beside is asked about apart
    named = given.find("model")
    if named is not None:
        given.positional.append(named)
    if not given.positional:
        raise line.source.error(0, "no model is named", "write vllm serve MODEL")
    model = given.positional[0]
    if named is not None and named.text != model.text:
        named.refuse(f"{model.text!r:.60} is served already", "name one model")
    found = from_settings(given, model.text)
    extra = [value.text for value in given.positional[1:] if value is not named]
    return replace(found, unused=(*ignored, *given.unused(), *extra))


def from_settings(given: GivenFlags, model: str) -> ParsedCommand:
    """Read engine arguments by their names with dashes."""
    notes: list[str] = []
    layout = _layout_read(given, notes)
    dp = int(layout.dp)
    sequences, tokens = given.whole("max-num-seqs"), given.whole("max-num-batched-tokens")
    context = given.find("max-model-len")
    automatic = context is not None and context.text in ("auto", "-1")
    length = None if automatic else given.whole("max-model-len")
    chunked = given.switch("enable-chunked-prefill", default=True)
    step = given.find("max-num-batched-tokens")
    if step and tokens is not None and sequences is not None and tokens < sequences:
        step.refuse(
            f"{tokens:,} new tokens of a step are fewer than the {sequences:,} of --max-num-seqs",
            "vLLM does not start so: give more tokens, or fewer sequences",
        )
    if not chunked and tokens is not None and length is not None and tokens < length:
        notes.append(
            f"without chunked prefill vLLM wants --max-num-batched-tokens, {tokens} here, to be "
            f"--max-model-len, {length}, at least"
        )
    utilization = given.share("gpu-memory-utilization")
    served = ReplicaServer(
        NAME,
        model,
        layout,
        weights=shared.weights_of(given, QUANTISED),
        kv=given.chosen("kv-cache-dtype", KV_READ, "a cache that is not modelled") or "auto",
        max_sequences=None if sequences is None else sequences * dp,
        token_budget=None if tokens is None else tokens * dp,
        max_context=length,
        memory=None if utilization is None else ServerMemory(utilization),
        chunked_prefill=chunked,
        prefix_caching=given.switch("enable-prefix-caching", default=True),
        cuda_graphs=not given.switch("enforce-eager"),
        offloaded=_offloaded_read(given),
        speculation=_speculation_read(given),
        adapters=_adapters_read(given),
    )
    return ParsedCommand(served, notes=tuple(notes))


def _adapters_read(given: GivenFlags) -> Adapters | None:
    if not given.switch("enable-lora"):
        return None
    for name in ("lora-modules", "max-cpu-loras"):
        given.find(name)
    rank = given.whole("max-lora-rank")
    if rank is not None and rank not in RANKS:
        given.refuse(
            "max-lora-rank",
            f"{rank} is none of the ranks that vLLM has room for",
            f"it takes {', '.join(map(str, RANKS))}: give the next one up",
        )
    return Adapters(given.whole("max-loras") or USUAL.slots, rank or USUAL.rank)


def _layout_read(given: GivenFlags, notes: list[str]) -> Layout:
    tp = given.whole("tensor-parallel-size") or 1
    pp = given.whole("pipeline-parallel-size") or 1
    dp = given.whole("data-parallel-size") or 1
    cp = given.whole("prefill-context-parallel-size") or 1
    decode = given.find("decode-context-parallel-size")
    if decode is not None and (given.whole("decode-context-parallel-size") or 1) > 1:
        notes.append(
            "--decode-context-parallel-size splits caches within the tensor-parallel group, which "
            "is not modelled"
        )
    if cp > 1:
        notes.append(shared.SPLIT_READ.format("vLLM", cp))
    experts = tp * dp * cp if given.switch("enable-expert-parallel") else 1
    stages = shared.stages_of(given.find("stages"), pp)
    nodes = given.find("nnodes")
    if nodes is not None and (tp * cp * dp * pp) % (given.whole("nnodes") or 1):
        nodes.refuse(
            f"{tp * cp * dp * pp} devices do not spread evenly over {nodes.text} nodes",
            "make the degrees a multiple of the nodes",
        )
    return Layout(tp=tp, cp=cp, dp=dp, ep=experts, pp=pp, stages=stages)


def _offloaded_read(given: GivenFlags) -> OffloadedWeights | None:
    found = given.find("cpu-offload-gb")
    if found is None or found.text == "0":
        return None
    size = given.share("cpu-offload-gb", most=2.0**20)
    return None if size is None else OffloadedWeights(size * GIB, "bytes")


def _speculation_read(given: GivenFlags) -> DraftSettings | None:
    """Drafts from one JSON text, keys of it with dots, or the short flags of 0.33."""
    config = given.find("speculative-config")
    named = {
        "method": given.find("spec-method") or given.find("speculative-config.method"),
        "model": given.find("spec-model") or given.find("speculative-config.model"),
        "num_speculative_tokens": given.find("spec-tokens")
        or given.find("speculative-config.num-speculative-tokens"),
    }
    given.find("speculative-config.prompt-lookup-max")
    said: dict[str, Any] = {key: found.text for key, found in named.items() if found is not None}
    anchor = config or next((found for found in named.values() if found is not None), None)
    if anchor is None:
        return None
    if config is not None:
        for key, value in _json(config).items():
            written = key.replace("-", "_")
            if written in said:
                repeated = named[written]
                assert repeated is not None
                repeated.refuse("--speculative-config says it too", "say it once")
            said[written] = value
    method = str(said.get("method", "draft_model" if said.get("model") else ""))
    if method not in METHODS_READ:
        anchor.refuse(
            f"drafting by {method!r:.40} is not modelled", f"known: {', '.join(METHODS_READ)}"
        )
    tokens = str(said.get("num_speculative_tokens", ""))
    if not tokens.isdecimal():
        anchor.refuse("it does not say num_speculative_tokens", "say how many tokens are drafted")
    ours = METHODS_READ[method]
    model = str(said.get("model", "")) if ours in ("eagle", "model") else ""
    return DraftSettings(ours, int(tokens), model)


def _json(found: Value) -> dict[str, Any]:
    try:
        value = json.loads(found.text)
    except (RecursionError, ValueError):
        value = None
    if not isinstance(value, dict):
        found.refuse(
            "not a JSON object", 'write \'{"method": "mtp", "num_speculative_tokens": 1}\''
        )
    return value


def write(served: ReplicaServer, site: Site) -> ServeCommand:
    """The command of a server, and ``vllm bench serve``.

    Raises:
        LayoutError: vLLM has no such layout.
        InputError: A step has fewer tokens than sequences.
        InfeasibleError: No room is left for a cache.
    """
    notes = Notes()
    settings = engine_settings(served, site, notes)
    nodes = shared.say_deployment(
        served,
        site,
        notes,
        "start it on each with --node-rank 0, 1, … and --master-addr of the first",
    )
    parts = [("vllm", "serve", served.model), *map(_part, settings.items())]
    parts += shared.parts(("--nnodes", nodes if nodes > 1 else None), ("--port", site.port))
    return ServeCommand(
        TITLE,
        tuple(parts),
        environment=shared.stage_variable(STAGES, served.layout),
        benchmark=bench(served.model, site, site.port),
        notes=tuple(notes.said),
        lost=frozenset(notes.lost),
    )


def bench(model: str, site: Site, port: int) -> tuple[tuple[str, ...], ...]:
    """``vllm bench serve`` with prompts and answers of equal lengths."""
    load = site.load
    return (
        ("vllm", "bench", "serve"),
        ("--base-url", f"http://localhost:{port}"),
        ("--model", model),
        ("--dataset-name", "random"),
        ("--random-input-len", str(load.prompt), "--random-output-len", str(load.output)),
        ("--random-range-ratio", "0", "--ignore-eos"),
        ("--num-prompts", str(load.requests), "--max-concurrency", str(load.concurrency)),
    )


def engine_settings(served: ReplicaServer, site: Site, notes: Notes) -> dict[str, Any]:
    """Engine arguments by name, with underscores: numbers, text, truth values and mappings."""
    out = _degrees(served.layout, notes)
    out |= shared.formats(served, site, notes, "vLLM", KV, ONLINE)
    sequences, tokens = shared.divided(served, int(served.layout.dp), notes, "vLLM")
    if tokens is not None and tokens < (sequences or 0):
        raise InputError(
            f"vLLM starts with no fewer new tokens of a step, {tokens:,} here, than sequences at "
            f"once, {sequences:,}",
            hint="give fewer sequences, or more tokens of a step",
        )
    limits = {
        "max_model_len": served.max_context,
        "max_num_seqs": sequences,
        "max_num_batched_tokens": tokens,
    }
    out |= {name: value for name, value in limits.items() if value is not None}
    if served.memory is not None:
        out["gpu_memory_utilization"] = converted(served.memory, "device", site.room)
    if not served.chunked_prefill:
        out["enable_chunked_prefill"] = False
        if tokens is not None and tokens < (served.max_context or tokens):
            notes.say(
                f"without chunked prefill vLLM wants --max-num-batched-tokens, {tokens} here, to "
                f"be --max-model-len, {served.max_context}, at least"
            )
    if not served.prefix_caching:
        out["enable_prefix_caching"] = False
    if not served.cuda_graphs:
        out["enforce_eager"] = True
    if served.offloaded is not None:
        out["cpu_offload_gb"] = kept_outside(served.offloaded, "bytes", site.room) / GIB
    if (draft := served.speculation) is not None:
        out["speculative_config"] = {
            "method": METHODS[draft.method],
            "num_speculative_tokens": draft.tokens,
            **({"model": draft.model} if draft.model else {}),
            **({"prompt_lookup_max": LOOKUP} if draft.method == "ngram" else {}),
        }
    return out | _adapters(served.adapters, notes)


def _adapters(adapters: Adapters | None, notes: Notes) -> dict[str, Any]:
    if adapters is None:
        return {}
    rank = adapters.rank or USUAL.rank or RANKS[0]
    room = next((each for each in RANKS if each >= rank), None)
    if room is None:
        raise InputError(
            f"adapters of rank {rank:,} are larger than vLLM has room for",
            hint=f"use ranks up to {RANKS[-1]}",
        )
    if room != rank:
        notes.lose(
            "adapters", f"vLLM has room for ranks {', '.join(map(str, RANKS))}: {rank} takes {room}"
        )
    return {"enable_lora": True, "max_loras": adapters.slots, "max_lora_rank": room}


def _degrees(layout: Layout, notes: Notes) -> dict[str, Any]:
    shared.say_layout(layout, notes, "vLLM")
    out: dict[str, Any] = {}
    for name, degree in (
        ("tensor_parallel_size", layout.tp),
        ("pipeline_parallel_size", layout.pp),
        ("data_parallel_size", layout.dp),
        ("prefill_context_parallel_size", layout.cp),
    ):
        if degree != 1:
            out[name] = int(degree)
    if layout.cp != 1:
        notes.say(shared.SPLIT.format("vLLM", int(layout.cp)))
    if layout.ep != 1:
        if layout.ep != layout.stage_devices:
            shared.refuse_layout(
                layout,
                "vLLM",
                f"it spreads experts over all {int(layout.stage_devices)} devices of a stage, or "
                "none",
                f"use `ep={int(layout.stage_devices)}` or leave it out",
            )
        out["enable_expert_parallel"] = True
    return out


def _part(setting: tuple[str, Any]) -> tuple[str, ...]:
    name, value = setting
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return (f"--{flag}" if value else f"--no-{flag}",)
    if isinstance(value, dict):
        return (f"--{flag}", json.dumps(value))
    return (f"--{flag}", shared.number(value) if isinstance(value, float) else str(value))
