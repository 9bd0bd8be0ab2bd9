"""What TensorRT-LLM is told, as a command."""

from typing import Any

from roofline.cost.layout import Layout
from roofline.interop.commands import shared
from roofline.interop.commands.command import Command, Notes
from roofline.interop.commands.memory import converted
from roofline.interop.commands.served import Served, Site
from roofline.interop.commands.trtllm.facts import FILE, GRAPHS, KV, METHODS, OVERLAPPED, TITLE
from roofline.interop.commands.yaml_text import Quoted, dump


def write(served: Served, site: Site) -> Command:
    """The command of a server with its file, and ``aiperf profile``.

    Raises:
        LayoutError: TensorRT-LLM has no such layout.
        InfeasibleError: No room is left for a cache.
    """
    notes = Notes()
    parts: list[tuple[str, ...]] = [
        ("trtllm-serve", served.model),
        *_degrees(served.layout, notes),
        *_limits(served, site, notes),
    ]
    settings = _settings(served, site, notes)
    shared.say_replicas(served, notes)
    shared.say_draft(served, notes)
    shared.say_nodes(
        served,
        site,
        notes,
        "start it on all with trtllm-llmapi-launch before it, one task for each device under MPI "
        "or Slurm",
    )
    files = {FILE: dump(settings)} if settings else {}
    if files:
        parts.append(("--config", FILE))
    parts.append(("--port", str(site.port)))
    return Command(
        TITLE,
        tuple(parts),
        files=files,
        benchmark=_bench(served, site),
        notes=tuple(notes.said),
        lost=frozenset(notes.lost),
    )


def _bench(served: Served, site: Site) -> tuple[tuple[str, ...], ...]:
    load = site.load
    return (
        ("aiperf", "profile", "--model", served.model),
        ("--url", f"http://localhost:{site.port}"),
        ("--endpoint-type", "completions", "--streaming"),
        ("--isl", str(load.prompt), "--osl", str(load.output)),
        ("--extra-inputs", "ignore_eos:true"),
        ("--concurrency", str(load.concurrency), "--request-count", str(load.requests)),
    )


def _degrees(layout: Layout, notes: Notes) -> list[tuple[str, ...]]:
    shared.say_layout(layout, notes, "TensorRT-LLM")
    if layout.dp != 1 and layout.tp * layout.cp != 1:
        shared.refuse_layout(
            layout,
            "TensorRT-LLM",
            "with attention data parallelism every device has sequences of its own",
            f"use --tp 1 and --dp {int(layout.stage_devices)}",
        )
    degrees = (
        ("--tp_size", layout.tp * layout.dp),
        ("--pp_size", layout.pp),
        ("--context_parallel_size", layout.cp),
        ("--ep_size", layout.ep),
    )
    if layout.cp != 1:
        notes.say("which context parallelism it is has to be said in cp_config of its file")
    return [(flag, str(int(degree))) for flag, degree in degrees if degree != 1]


def _limits(served: Served, site: Site, notes: Notes) -> list[tuple[str, ...]]:
    each, tokens = shared.divided(served, int(served.layout.dp), notes, "TensorRT-LLM")
    numbers = (
        ("--max_batch_size", each),
        ("--max_num_tokens", tokens),
        ("--max_seq_len", served.max_context),
    )
    out: list[tuple[str, ...]] = [(flag, str(n)) for flag, n in numbers if n is not None]
    if served.memory is not None:
        free = converted(served.memory, "free", site.room)
        out.append(("--kv_cache_free_gpu_memory_fraction", shared.number(free)))
    if served.chunked_prefill:
        out.append(("--enable_chunked_prefill",))
    return out


def _settings(served: Served, site: Site, notes: Notes) -> dict[str, Any]:
    """What only the file can say."""
    out: dict[str, Any] = {}
    if served.layout.dp != 1:
        out["enable_attention_dp"] = True
    if served.dp_timeout_iters:
        out["attention_dp_config"] = {
            "enable_balance": True,
            "timeout_iters": served.dp_timeout_iters,
        }
    if served.layout.stages:
        out["pp_partition"] = list(served.layout.stages)
    if served.weights in shared.DTYPES and site.stored in shared.DTYPES:
        out["dtype"] = shared.DTYPES[served.weights]
    elif served.weights:
        shared.lose_weights(served, site, notes, "TensorRT-LLM")
    cache: dict[str, Any] = {}
    if served.kv not in KV:
        shared.lose_kv(served, notes, "TensorRT-LLM", KV)
    elif served.kv != "auto":
        cache["dtype"] = KV[served.kv]
    if not served.prefix_caching:
        cache["enable_block_reuse"] = False
    if cache:
        out["kv_cache_config"] = cache
    if not served.cuda_graphs:
        out[GRAPHS] = None
    if served.offloaded is not None:
        notes.lose("offloaded", "trtllm-serve has no option that keeps weights on the host")
    if (draft := served.speculation) is not None:
        out["speculative_config"] = {
            "decoding_type": METHODS[draft.method],
            "max_draft_len": draft.tokens,
        }
        if draft.method in OVERLAPPED:
            out["disable_overlap_scheduler"] = True
        if draft.model:
            out["speculative_config"]["speculative_model"] = Quoted(draft.model)
    return out
