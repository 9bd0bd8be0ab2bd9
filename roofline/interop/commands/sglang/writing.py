"""What SGLang is told, as a command."""

import math

from roofline.cost.layout import Layout
from roofline.interop.commands import shared
from roofline.interop.commands.command import Command, Notes
from roofline.interop.commands.memory import converted, kept_outside
from roofline.interop.commands.served import Served, Site, Speculation
from roofline.interop.commands.sglang.facts import GIB, KV, METHODS, ONLINE, STAGES, TITLE


def write(served: Served, site: Site) -> Command:
    """The command of a server, and ``sglang.bench_serving``.

    Raises:
        LayoutError: SGLang has no such layout.
        InfeasibleError: No room is left for a cache.
    """
    notes = Notes()
    if served.speculation is not None and served.speculation.method == "model":
        _check_draft(served.layout)
    parts: list[tuple[str, ...]] = [
        ("python3", "-m", "sglang.launch_server"),
        ("--model-path", served.model),
        *_degrees(served.layout, notes),
        *_formats(served, site, notes),
        *_limits(served, site, notes),
        *_speculative(served.speculation),
    ]
    shared.say_replicas(served, notes)
    shared.say_draft(served, notes)
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


def _check_draft(layout: Layout) -> None:
    """A network of its own drafts for all sequences, not for groups of them."""
    if layout.dp != 1:
        shared.refuse_layout(
            layout,
            "SGLang",
            "a network does not draft for attention groups",
            "draft with mtp or eagle, or use a layout without --dp",
        )


def _bench(served: Served, site: Site) -> tuple[tuple[str, ...], ...]:
    load = site.load
    return (
        ("python3", "-m", "sglang.bench_serving"),
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
    if served.recv_interval > 1:
        out.append(("--scheduler-recv-interval", str(served.recv_interval)))
    if served.stream_interval > 1:
        out.append(("--stream-interval", str(served.stream_interval)))
    if not served.prefix_caching:
        out.append(("--disable-radix-cache",))
    if not served.cuda_graphs:
        out.append(("--disable-cuda-graph",))
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
