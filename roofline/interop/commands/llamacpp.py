"""``llama-server`` of llama.cpp, flags of ``tools/server/README.md`` at its commit 00dc8057.

That file is generated from the program's own help. Of use here:

- ``--split-mode layer`` is a pipeline, ``tensor`` splits weights and cache; devices are named.
- ``--ctx-size`` is the whole cache in tokens; with ``--kv-unified`` all sequences share it, and
  ``--kv-unified-per-slot`` is the longest of them. No flag is a share of memory.
- ``--ubatch-size`` is what a step computes, at most ``--batch-size``.
- Weights are a GGUF file, whose format is its own; K and V of the cache are ``f16`` unless said.
"""

from collections.abc import Mapping
from typing import Final

from roofline.cost.layout import Layout
from roofline.interop.commands import shared
from roofline.interop.commands.command import Command, Notes
from roofline.interop.commands.flags import Given, Known, flags
from roofline.interop.commands.memory import converted, kept_outside
from roofline.interop.commands.reading import Files, Read, Start, after, others
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

NAME: Final = "llamacpp"
TITLE: Final = "llama.cpp (commit 00dc8057)"
IMAGE: Final = "ghcr.io/ggml-org/llama.cpp:server-cuda"
MOST_CONTEXT: Final = 2**31 - 1
MOST_SLOTS: Final = 256
"""``LLAMA_MAX_SEQ`` of its source."""
MARGIN: Final = parse("1 GiB", "B")
"""What ``--fit-target`` leaves of each device unless told otherwise."""
SUFFIX: Final = ".gguf"

KV: Final[Mapping[str, str]] = {"auto": "f16", "fp32": "f32", "fp16": "f16", "bf16": "bf16"}
STORED: Final[Mapping[str, str]] = {"bf16": "BF16", "fp16": "F16", "fp32": "F32", "mxfp4": "MXFP4"}
"""Formats that a GGUF file holds bit for bit, as file names spell them."""
METHODS: Final[Mapping[Method, str]] = {
    "mtp": "draft-mtp",
    "eagle": "draft-eagle3",
    "ngram": "ngram-simple",
    "model": "draft-simple",
}

_KV_READ: Final = {
    "f32": "fp32",
    "f16": "auto",
    "bf16": "bf16",
    "q8_0": "int8-kv",
    "q4_0": "int4-kv",
}
_METHODS_READ: Final[Mapping[str, Method]] = {word: name for name, word in METHODS.items()}
_DEVICES: Final = {"nvidia": "CUDA", "amd": "ROCm"}
KNOWN: Final = Known(
    {
        "-m": "model",
        "-hf": "hf-repo",
        "-hfr": "hf-repo",
        "-c": "ctx-size",
        "-np": "parallel",
        "-b": "batch-size",
        "-ub": "ubatch-size",
        "-ctk": "cache-type-k",
        "-ctv": "cache-type-v",
        "-dev": "device",
        "-sm": "split-mode",
        "-ts": "tensor-split",
        "-ngl": "gpu-layers",
        "--n-gpu-layers": "gpu-layers",
        "-kvu": "kv-unified",
        "-no-kvu": "no-kv-unified",
        "-md": "spec-draft-model",
        "--model-draft": "spec-draft-model",
        "-fa": "flash-attn",
        "-fit": "fit",
    },
    frozenset(
        {"kv-unified", "cache-prompt", "metrics", "jinja", "mlock", "no-mmap", "cont-batching"}
    ),
)


def write(served: Served, site: Site) -> Command:
    """The command of a server, and ``llama-bench`` or ``llama-batched-bench``.

    Parameters
    ----------
    served, site
        What the server is told; what it is written for.

    Raises
    ------
    LayoutError
        llama.cpp has no such layout.
    InfeasibleError
        No room is left for a cache.
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
    if not served.chunked_prefill:
        notes.lose("chunked_prefill", "llama.cpp always cuts prompts into batches")
    shared.say_replicas(served, notes)
    # What is not said would be fitted to the memory that is free, and differ from what is modelled.
    parts += [("--fit", "off"), ("--port", str(site.port))]
    return Command(
        TITLE,
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
    if served.model.endswith(SUFFIX):
        return served.model
    if stored in STORED:
        notes.say(
            f"llama.cpp reads GGUF: convert {served.model} with convert_hf_to_gguf.py --outtype "
            f"{STORED[stored].lower()}, or name a file that is there"
        )
        word = f"-{STORED[stored]}" if served.weights else ""
        return f"{served.model}{word}{SUFFIX}"
    lost = "weights" if served.weights else ""
    sentence = (
        f"no GGUF format is {stored}: convert {served.model} to the nearest one, such as Q8_0 "
        "(8.5 bits) or Q4_0 (4.5 bits)"
    )
    if lost:
        notes.lose(lost, sentence)
    else:
        notes.say(sentence)
    return f"{served.model}{SUFFIX}"


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
    kind = _DEVICES.get(site.vendor.lower(), "CUDA")
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
        slots = min(served.max_sequences, MOST_SLOTS)
        if slots != served.max_sequences:
            notes.lose("max_sequences", f"llama.cpp runs up to {MOST_SLOTS} sequences at once")
        out.append(("--parallel", str(slots)))
    out.append(("--kv-unified",))
    if served.max_context is not None:
        out.append(("--kv-unified-per-slot", str(served.max_context)))
    if served.memory is not None:
        tokens = int(converted(served.memory, "tokens", site.room))
        if not tokens:
            notes.lose("memory", "nothing is cached, and llama.cpp has no other flag for memory")
        elif tokens > MOST_CONTEXT:
            notes.lose("memory", f"llama.cpp counts up to {MOST_CONTEXT:,} tokens of cache")
            tokens = MOST_CONTEXT
        out.append(("--ctx-size", str(tokens)))
    return out


def _cache(served: Served, site: Site, notes: Notes) -> list[tuple[str, ...]]:
    if served.kv == "auto":
        return []
    if served.kv not in KV:
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
    return [("--cache-type-k", KV[served.kv], "--cache-type-v", KV[served.kv])]


def _resident(served: Served, site: Site) -> list[tuple[str, ...]]:
    if served.offloaded is None:
        return [("--gpu-layers", "all")]
    layers = kept_outside(served.offloaded, "resident", site.room)
    return [("--gpu-layers", str(int(layers)))]


def _speculative(draft: Speculation | None) -> list[tuple[str, ...]]:
    if draft is None:
        return []
    out: list[tuple[str, ...]] = [("--spec-type", METHODS[draft.method])]
    if draft.model:
        out.append(("--spec-draft-model", _with_suffix(draft.model)))
    flag = "--spec-ngram-simple-size-m" if draft.method == "ngram" else "--spec-draft-n-max"
    return [*out, (flag, str(draft.tokens))]


def _with_suffix(model: str) -> str:
    return model if model.endswith(SUFFIX) else f"{model}{SUFFIX}"


def starts(line: Line) -> Start | None:
    """Where a command starts a llama.cpp server."""
    return after(line.words, ("llama-server",))


def read(line: Line, files: Files) -> Read:
    """What a command tells llama.cpp; `files` is not asked.

    Raises
    ------
    DocumentError
        At a flag whose value has no meaning, or that contradicts another.
    """
    start = starts(line)
    assert start is not None, "not a command of llama.cpp"
    given = flags(line.words[start.end :], KNOWN, line.source)
    notes: list[str] = []
    model, weights = _model_read(given, line, notes)
    layout = _layout_read(given)
    sequences = given.whole("parallel")
    served = Served(
        NAME,
        model,
        layout,
        weights=weights,
        kv=_kv_read(given, notes),
        max_sequences=sequences,
        token_budget=_step_read(given),
        max_context=_longest_read(given, sequences),
        memory=_pool_read(given),
        prefix_caching=given.switch("cache-prompt", default=True),
        offloaded=_offloaded_read(given),
        speculation=_speculation_read(given),
    )
    extra = [value.text for value in given.positional]
    given.find("fit")
    return Read(served, (*start.before(line), *others(line), *given.unused(), *extra), tuple(notes))


def _model_read(given: Given, line: Line, notes: list[str]) -> tuple[str, str]:
    """Network that a file or a repository of weights holds, and in which format."""
    file, repository = given.find("model"), given.find("hf-repo")
    if file is not None and repository is not None:
        repository.refuse("--model names a file already", "name one of them")
    if file is None and repository is None:
        raise line.source.error(0, "no model is named", "give --model FILE.gguf")
    if file is not None:
        stem = file.text.removesuffix(SUFFIX)
        name, dash, word = stem.rpartition("-")
    else:
        assert repository is not None
        stem, dash, word = repository.text.partition(":")
        name = stem = stem.removesuffix("-GGUF")
    formats = {written: ours for ours, written in STORED.items()}
    if dash and word.upper() in formats:
        return name, formats[word.upper()]
    if dash and word[:1].upper() == "Q" and word[1:2].isdigit():
        notes.append(f"the GGUF format {word} is not modelled: say --weights for the nearest one")
        return name, ""
    return stem, ""


def _layout_read(given: Given) -> Layout:
    device = given.find("device")
    devices = 1 if device is None else len(device.text.split(","))
    mode = given.chosen(
        "split-mode",
        {"none": "none", "layer": "layer", "tensor": "tensor"},
        "no way of splitting that is modelled",
    )
    split = given.find("tensor-split")
    if devices == 1 or mode == "none":
        return Layout()
    if mode == "tensor":
        return Layout(tp=devices)
    return Layout(pp=devices, stages=shared.stages_of(split, devices))


def _kv_read(given: Given, notes: list[str]) -> str:
    keys = given.chosen("cache-type-k", _KV_READ, "a cache that is not modelled")
    values = given.chosen("cache-type-v", _KV_READ, "a cache that is not modelled")
    if (keys or "auto") != (values or "auto"):
        notes.append("keys and values in two formats are counted as those of the keys")
    if keys in ("int8-kv", "int4-kv"):
        notes.append(
            f"the cache is counted as {keys}, a quarter of a bit or more below llama.cpp's"
        )
    return keys or "auto"


def _step_read(given: Given) -> int | None:
    logical, physical = given.whole("batch-size"), given.whole("ubatch-size")
    if physical is None or logical is None:
        return physical if logical is None else min(logical, 512)
    return min(logical, physical)


def _longest_read(given: Given, sequences: int | None) -> int | None:
    """Longest sequence: as said, or the part of the cache that a slot has of its own."""
    slot = given.whole("kv-unified-per-slot")
    shared_by_all = given.switch("kv-unified")
    whole = given.find("ctx-size")
    if slot is not None or shared_by_all or whole is None or whole.text == "0":
        return slot
    tokens = given.whole("ctx-size")
    if sequences is None or tokens is None:
        return tokens
    if tokens % sequences:
        whole.refuse(
            f"{tokens} tokens cannot be divided among {sequences} slots",
            "make it a multiple of --parallel, or share it with --kv-unified",
        )
    return tokens // sequences


def _pool_read(given: Given) -> Share | None:
    whole = given.find("ctx-size")
    if whole is None or whole.text == "0":
        return None
    tokens = given.whole("ctx-size")
    return None if tokens is None else Share(float(tokens), "tokens")


def _offloaded_read(given: Given) -> Offloaded | None:
    layers = given.find("gpu-layers")
    if layers is None or layers.text in ("all", "auto", "-1") or layers.text == "99":
        return None
    number = given.whole("gpu-layers", least=0)
    return None if number is None else Offloaded(float(number), "resident")


def _speculation_read(given: Given) -> Speculation | None:
    name = given.find("spec-type")
    drafted, looked_up = given.whole("spec-draft-n-max"), given.whole("spec-ngram-simple-size-m")
    model = (given.text("spec-draft-model") or "").removesuffix(SUFFIX)
    if name is None or name.text == "none":
        return None
    method = _METHODS_READ.get(name.text)
    if method is None:
        name.refuse(f"{name.text!r:.40} is not modelled", f"known: {', '.join(_METHODS_READ)}")
    tokens = (looked_up or 48) if method == "ngram" else (drafted or 3)
    return Speculation(method, tokens, model if method in ("eagle", "model") else "")
