"""What vLLM is told, as a command."""

import json
from collections.abc import Mapping
from typing import Any

from roofline.cost.layout import Layout
from roofline.errors import InputError
from roofline.interop.commands import shared
from roofline.interop.commands.command import Command, Notes
from roofline.interop.commands.memory import converted, kept_outside
from roofline.interop.commands.served import Load, Served, Site, Speculation
from roofline.interop.commands.vllm.facts import GIB, KV, LOOKUP, METHODS, ONLINE, STAGES, TITLE


def write(served: Served, site: Site) -> Command:
    """The command of a server, and ``vllm bench serve``.

    Raises:
        LayoutError: vLLM has no such layout.
        InputError: A step has fewer tokens than sequences.
        InfeasibleError: No room is left for a cache.
    """
    notes = Notes()
    settings = engine_settings(served, site, notes)
    shared.say_replicas(served, notes)
    shared.say_draft(served, notes)
    nodes = shared.say_nodes(
        served,
        site,
        notes,
        "start it on each with --node-rank 0, 1, … and --master-addr of the first",
    )
    parts = [("vllm", "serve", served.model), *map(_part, settings.items())]
    if nodes > 1:
        parts.append(("--nnodes", str(nodes)))
    parts.append(("--port", str(site.port)))
    return Command(
        TITLE,
        tuple(parts),
        environment=environment(served),
        benchmark=bench(served.model, site),
        notes=tuple(notes.said),
        lost=frozenset(notes.lost),
    )


def environment(served: Served) -> Mapping[str, str]:
    """Variables that the engine reads."""
    stages = served.layout.stages
    return {STAGES: ",".join(map(str, stages))} if stages else {}


def bench(model: str, site: Site, port: int | None = None) -> tuple[tuple[str, ...], ...]:
    """``vllm bench serve`` with prompts and answers of equal lengths."""
    load: Load = site.load
    return (
        ("vllm", "bench", "serve"),
        ("--base-url", f"http://localhost:{port or site.port}"),
        ("--model", model),
        ("--dataset-name", "random"),
        ("--random-input-len", str(load.prompt), "--random-output-len", str(load.output)),
        ("--random-range-ratio", "0", "--ignore-eos"),
        ("--num-prompts", str(load.requests), "--max-concurrency", str(load.concurrency)),
    )


def engine_settings(served: Served, site: Site, notes: Notes) -> dict[str, Any]:
    """Engine arguments by name, with underscores: numbers, text, truth values and mappings."""
    out = _degrees(served.layout, notes)
    out |= _formats(served, site, notes)
    sequences, tokens = shared.divided(served, int(served.layout.dp), notes, "vLLM")
    if tokens is not None and tokens < (sequences or 0):
        raise InputError(
            f"vLLM starts with no fewer new tokens of a step, {tokens:,} here, than sequences at "
            f"once, {sequences:,}",
            hint="give fewer sequences, or more tokens of a step",
        )
    for name, value in (
        ("max_model_len", served.max_context),
        ("max_num_seqs", sequences),
        ("max_num_batched_tokens", tokens),
    ):
        if value is not None:
            out[name] = value
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
    if served.speculation is not None:
        out["speculative_config"] = _speculative(served.speculation)
    return out


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
        notes.say(
            "vLLM's context parallelism shares prefill; it does not divide the cache, of which "
            f"each device then has {int(layout.cp)} times what is modelled"
        )
    if layout.ep != 1:
        if layout.ep != layout.stage_devices:
            shared.refuse_layout(
                layout,
                "vLLM",
                f"it spreads experts over all {int(layout.stage_devices)} devices of a stage, or "
                "none",
                f"use --ep {int(layout.stage_devices)} or leave it out",
            )
        out["enable_expert_parallel"] = True
    return out


def _formats(served: Served, site: Site, notes: Notes) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if served.weights in shared.DTYPES and site.stored in shared.DTYPES:
        out["dtype"] = shared.DTYPES[served.weights]
    elif served.weights in ONLINE and site.stored in shared.DTYPES:
        out["quantization"] = ONLINE[served.weights]
    elif served.weights:
        shared.lose_weights(served, site, notes, "vLLM")
    if served.kv not in KV:
        shared.lose_kv(served, notes, "vLLM", KV)
    elif served.kv != "auto":
        out["kv_cache_dtype"] = KV[served.kv]
    return out


def _speculative(draft: Speculation) -> dict[str, Any]:
    out: dict[str, Any] = {
        "method": METHODS[draft.method],
        "num_speculative_tokens": draft.tokens,
    }
    if draft.model:
        out["model"] = draft.model
    if draft.method == "ngram":
        out["prompt_lookup_max"] = LOOKUP
    return out


def _part(setting: tuple[str, Any]) -> tuple[str, ...]:
    name, value = setting
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return (f"--{flag}" if value else f"--no-{flag}",)
    if isinstance(value, dict):
        return (f"--{flag}", json.dumps(value))
    return (f"--{flag}", shared.number(value) if isinstance(value, float) else str(value))
