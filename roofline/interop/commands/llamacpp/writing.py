"""What llama.cpp is told, as a command."""

from roofline.cost.layout import Layout
from roofline.interop.commands import shared
from roofline.interop.commands.command import Command, Notes
from roofline.interop.commands.llamacpp import facts
from roofline.interop.commands.memory import converted, kept_outside
from roofline.interop.commands.served import Served, Site, Speculation


def write(served: Served, site: Site) -> Command:
    """The command of a server, and ``llama-bench`` or ``llama-batched-bench``.

    Raises:
        LayoutError: llama.cpp has no such layout.
        InfeasibleError: No room is left for a cache.
    """
    notes = Notes()
    file = _gguf(served, site, notes)
    devices = _devices(served.layout, site, notes)
    cache, context = _cache(served, site, notes), _context(served, site, notes)
    steps = (
        [("--batch-size", str(served.token_budget), "--ubatch-size", str(served.token_budget))]
        if served.token_budget is not None
        else []
    )
    resident = _resident(served, site)
    parts: list[tuple[str, ...]] = [
        ("llama-server", "--model", file),
        *devices,
        *context,
        *steps,
        *cache,
        *resident,
        *_speculative(served.speculation),
    ]
    if not served.prefix_caching:
        parts.append(("--no-cache-prompt",))
    if not served.cuda_graphs:
        notes.lose("cuda_graphs", "llama.cpp turns CUDA graphs off by GGML_CUDA_DISABLE_GRAPHS=1")
    if not served.chunked_prefill:
        notes.lose("chunked_prefill", "llama.cpp always cuts prompts into batches")
    shared.say_replicas(served, notes)
    shared.say_draft(served, notes)
    # What is not said would be fitted to the memory that is free, and differ from what is modelled.
    parts += [("--fit", "off"), ("--port", str(site.port))]
    return Command(
        facts.TITLE,
        tuple(parts),
        benchmark=_bench(served, site, file, (*devices, *steps, *cache, *resident)),
        notes=tuple(notes.said),
        lost=frozenset(notes.lost),
    )


def _bench(
    served: Served, site: Site, file: str, same: tuple[tuple[str, ...], ...]
) -> tuple[tuple[str, ...], ...]:
    """Several sequences at once are measured by another program than one."""
    load = site.load
    if load.concurrency == 1:
        lengths: tuple[str, ...] = ("-p", str(load.prompt), "-n", str(load.output))
        return (("llama-bench", "--model", file), *_for_bench(same), lengths)
    context = load.concurrency * (load.prompt + load.output)
    return (
        ("llama-batched-bench", "--model", file),
        *same,
        ("--ctx-size", str(context)),
        ("-npp", str(load.prompt), "-ntg", str(load.output), "-npl", str(load.concurrency)),
    )


def _for_bench(same: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    """``llama-bench`` takes lists: devices of one run and their shares are joined by slashes."""
    listed = ("--device", "--tensor-split")
    every = ("--gpu-layers", "all")
    out: list[tuple[str, ...]] = []
    for part in same:
        if part == every:
            out.append(("--n-gpu-layers", "99"))
            continue
        words = [
            word.replace(",", "/") if place and part[place - 1] in listed else word
            for place, word in enumerate(part)
        ]
        out.append(tuple(words))
    return tuple(out)


def _gguf(served: Served, site: Site, notes: Notes) -> str:
    """Name of the file of weights."""
    stored = served.weights or site.stored
    if served.model.endswith(facts.SUFFIX):
        return served.model
    if stored in facts.STORED:
        notes.say(
            f"llama.cpp reads GGUF: convert {served.model} with convert_hf_to_gguf.py --outtype "
            f"{facts.STORED[stored].lower()}, or name a file that is there"
        )
        word = f"-{facts.STORED[stored]}" if served.weights else ""
        return f"{served.model}{word}{facts.SUFFIX}"
    lost = "weights" if served.weights else ""
    sentence = (
        f"no GGUF format is {stored}: convert {served.model} to the nearest one, such as Q8_0 "
        "(8.5 bits) or Q4_0 (4.5 bits)"
    )
    if lost:
        notes.lose(lost, sentence)
    else:
        notes.say(sentence)
    return f"{served.model}{facts.SUFFIX}"


def _devices(layout: Layout, site: Site, notes: Notes) -> list[tuple[str, ...]]:
    shared.say_layout(layout, notes, "llama.cpp")
    if layout.dp != 1 or layout.cp != 1 or layout.ep != 1 or (layout.tp != 1 and layout.pp != 1):
        shared.refuse_layout(
            layout,
            "llama.cpp",
            "it splits by layers or by rows of every layer, not both",
            f"use --pp {int(layout.devices)} or --tp {int(layout.devices)}",
        )
    if site.nodes(layout) > 1:
        shared.refuse_layout(
            layout,
            "llama.cpp",
            f"{site.gpus_per_node} devices are in a node",
            "use one node: its RPC backend is not modelled",
        )
    kind = facts.DEVICES.get(site.vendor.lower(), "CUDA")
    named = ",".join(f"{kind}{place}" for place in range(int(layout.devices)))
    out: list[tuple[str, ...]] = [("--device", named)]
    if layout.tp != 1:
        out.append(("--split-mode", "tensor"))
        notes.say("--split-mode tensor is experimental in llama.cpp")
    if layout.pp != 1:
        out.append(("--split-mode", "layer"))
    if layout.stages:
        out.append(("--tensor-split", ",".join(map(str, layout.stages))))
    return out


def _context(served: Served, site: Site, notes: Notes) -> list[tuple[str, ...]]:
    """Slots, the longest sequence, and the cache that all share."""
    out: list[tuple[str, ...]] = []
    if served.max_sequences is not None:
        slots = min(served.max_sequences, facts.MOST_SLOTS)
        if slots != served.max_sequences:
            notes.lose(
                "max_sequences", f"llama.cpp runs up to {facts.MOST_SLOTS} sequences at once"
            )
        out.append(("--parallel", str(slots)))
    out.append(("--kv-unified",))
    if served.max_context is not None:
        out.append(("--kv-unified-per-slot", str(served.max_context)))
    if served.memory is not None:
        tokens = int(converted(served.memory, "tokens", site.room))
        if not tokens:
            notes.lose("memory", "nothing is cached, and llama.cpp has no other flag for memory")
        elif tokens > facts.MOST_CONTEXT:
            notes.lose("memory", f"llama.cpp counts up to {facts.MOST_CONTEXT:,} tokens of cache")
            tokens = facts.MOST_CONTEXT
        out.append(("--ctx-size", str(tokens)))
    return out


def _cache(served: Served, site: Site, notes: Notes) -> list[tuple[str, ...]]:
    if served.kv == "auto":
        return []
    if served.kv not in facts.KV:
        notes.lose(
            "kv",
            f"llama.cpp has no {served.kv} cache: q8_0 (8.5 bits) and q4_0 (4.5 bits) are nearest; "
            "left at f16",
        )
        return []
    if served.kv == "fp16":
        # f16 is what it takes unless told: reading it back says nothing was asked.
        notes.lose("kv", "llama.cpp keeps f16 unless told: an fp16 cache is its default")
        return []
    return [("--cache-type-k", facts.KV[served.kv], "--cache-type-v", facts.KV[served.kv])]


def _resident(served: Served, site: Site) -> list[tuple[str, ...]]:
    if served.offloaded is None:
        return [("--gpu-layers", "all")]
    layers = kept_outside(served.offloaded, "resident", site.room)
    return [("--gpu-layers", str(int(layers)))]


def _speculative(draft: Speculation | None) -> list[tuple[str, ...]]:
    if draft is None:
        return []
    out: list[tuple[str, ...]] = [("--spec-type", facts.METHODS[draft.method])]
    if draft.model:
        out.append(("--spec-draft-model", _with_suffix(draft.model)))
    flag = "--spec-ngram-simple-size-m" if draft.method == "ngram" else "--spec-draft-n-max"
    return [*out, (flag, str(draft.tokens))]


def _with_suffix(model: str) -> str:
    return model if model.endswith(facts.SUFFIX) else f"{model}{facts.SUFFIX}"
