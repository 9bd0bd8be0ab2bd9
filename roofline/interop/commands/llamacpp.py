"""``llama-server`` of llama.cpp, flags of ``tools/server/README.md`` at 00dc8057: written and read.

That file is generated from the program's own help. Of use here:

- ``--split-mode layer`` is a pipeline, ``tensor`` splits weights and cache; devices are named.
- ``--ctx-size`` is the whole cache in tokens; with ``--kv-unified`` all sequences share it, and
  ``--kv-unified-per-slot`` is the longest of them. No flag is a share of memory.
- ``--ubatch-size`` is what a step computes, at most ``--batch-size``.
- Weights are a GGUF file, whose format is its own; K and V of the cache are ``f16`` unless said.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from roofline.content import there
from roofline.cost.layout import Layout
from roofline.interop.commands import gguf, shared
from roofline.interop.commands.command import Notes, ServeCommand
from roofline.interop.commands.flags import EngineFlags, GivenFlags
from roofline.interop.commands.memory import converted, kept_outside
from roofline.interop.commands.reading import Files, ParsedCommand, Start, after, opened
from roofline.interop.commands.served import (
    DraftSettings,
    Method,
    OffloadedWeights,
    ReplicaServer,
    ServerMemory,
    Site,
)
from roofline.interop.commands.words import CommandLine
from roofline.model.checkpoint_names import USUAL
from roofline.units import parse

NAME: Final = "llamacpp"
TITLE: Final = "llama.cpp (commit 00dc8057)"
IMAGE: Final = "ghcr.io/ggml-org/llama.cpp:server-cuda"
MOST_CONTEXT: Final = 2**31 - 1
MOST_SLOTS: Final = 256
"""``LLAMA_MAX_SEQ`` of its source."""
MARGIN: Final = parse("1 GiB", "B")
"""Memory of each device that ``--fit-target`` leaves unless told otherwise. [B]"""

OUTTYPES: Final = frozenset({"BF16", "F16", "F32", "Q8_0", "TQ1_0", "TQ2_0"})
"""Formats that ``convert_hf_to_gguf.py`` writes; ``llama-quantize`` makes the others of them."""
KV: Final[Mapping[str, str]] = {"auto": "f16", "fp32": "f32", "fp16": "f16", "bf16": "bf16"}
METHODS: Final[Mapping[Method, str]] = {
    "mtp": "draft-mtp",
    "eagle": "draft-eagle3",
    "ngram": "ngram-simple",
    "model": "draft-simple",
}

KV_READ: Final = {
    "f32": "fp32",
    "f16": "auto",
    "bf16": "bf16",
    "q8_0": "int8-kv",
    "q4_0": "int4-kv",
}
METHODS_READ: Final[Mapping[str, Method]] = {word: name for name, word in METHODS.items()}
DEVICES: Final = {"nvidia": "CUDA", "amd": "ROCm", "intel": "SYCL"}
KNOWN: Final = EngineFlags(
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


def starts(line: CommandLine) -> Start | None:
    """Place where a command starts a llama.cpp server."""
    return after(line, ("llama-server",))


def read(line: CommandLine, files: Files) -> ParsedCommand:
    """Read a command; `files` is not asked.

    DocumentError at a flag whose value has no meaning, or that contradicts another.
    """
    given, ignored = opened(line, starts(line), KNOWN)
    notes: list[str] = []
    model, weights = _model_read(given, line, notes)
    layout = _layout_read(given)
    sequences = given.whole("parallel")
    kv = _kv_read(given, notes)
    logical, physical = given.whole("batch-size"), given.whole("ubatch-size")
    step = physical if logical is None else min(logical, 512 if physical is None else physical)
    longest, pool = _cache_read(given, sequences)
    served = ReplicaServer(
        NAME,
        model,
        layout,
        weights=weights,
        kv=kv,
        max_sequences=sequences,
        token_budget=step,
        max_context=longest,
        memory=None if pool is None else ServerMemory(float(pool), "tokens"),
        prefix_caching=given.switch("cache-prompt", default=True),
        offloaded=_offloaded_read(given),
        speculation=_speculation_read(given),
    )
    extra = [value.text for value in given.positional]
    given.find("fit")
    return ParsedCommand(served, (*ignored, *given.unused(), *extra), tuple(notes))


def _model_read(given: GivenFlags, line: CommandLine, notes: list[str]) -> tuple[str, str]:
    """Network that a file or a repository of weights holds, and in which format."""
    file, repository = given.find("model"), given.find("hf-repo")
    if file is not None and repository is not None:
        repository.refuse("--model names a file already", "name one of them")
    if file is None and repository is None:
        raise line.source.error(0, "no model is named", "give --model FILE.gguf")
    if file is not None:
        path = Path(file.text)
        if there(path):
            return file.text, ""
        # A hub's name may be in front: any other folder is a place on another machine.
        folders = path.parts[:-1]
        kept = str(path) if len(folders) < 2 and not path.is_absolute() else path.name
        name, word = gguf.divided(kept.removesuffix(gguf.SUFFIX))
    else:
        assert repository is not None
        stem, _, word = repository.text.partition(":")
        name = stem.removesuffix("-GGUF")
        word = word or (USUAL if name != stem else "")
    if not word:
        return name, ""
    weights, said = gguf.stored_as(word)
    notes += said
    return name, weights


def _layout_read(given: GivenFlags) -> Layout:
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


def _kv_read(given: GivenFlags, notes: list[str]) -> str:
    keys = given.chosen("cache-type-k", KV_READ, "a cache that is not modelled")
    values = given.chosen("cache-type-v", KV_READ, "a cache that is not modelled")
    if (keys or "auto") != (values or "auto"):
        notes.append("keys and values in two formats are counted as those of the keys")
    if keys in ("int8-kv", "int4-kv"):
        notes.append(
            f"the cache is counted as {keys}, a quarter of a bit or more below llama.cpp's"
        )
    return keys or "auto"


def _cache_read(given: GivenFlags, sequences: int | None) -> tuple[int | None, int | None]:
    """Longest sequence, as said or as a slot has of the cache, and the whole cache. [token]"""
    slot, unified = given.whole("kv-unified-per-slot"), given.switch("kv-unified")
    whole = given.find("ctx-size")
    if whole is None or whole.text == "0":
        return slot, None
    tokens = given.whole("ctx-size")
    if slot is not None or unified:
        return slot, tokens
    if sequences is None or tokens is None:
        return tokens, tokens
    if tokens % sequences:
        whole.refuse(
            f"{tokens} tokens cannot be divided among {sequences} slots",
            "make it a multiple of --parallel, or share it with --kv-unified",
        )
    return tokens // sequences, tokens


def _offloaded_read(given: GivenFlags) -> OffloadedWeights | None:
    layers = given.find("gpu-layers")
    if layers is None or layers.text in ("all", "auto", "-1") or layers.text == "99":
        return None
    number = given.whole("gpu-layers", least=0)
    return None if number is None else OffloadedWeights(float(number), "resident")


def _speculation_read(given: GivenFlags) -> DraftSettings | None:
    name = given.find("spec-type")
    drafted, looked_up = given.whole("spec-draft-n-max"), given.whole("spec-ngram-simple-size-m")
    model = (given.text("spec-draft-model") or "").removesuffix(gguf.SUFFIX)
    if name is None or name.text == "none":
        return None
    method = METHODS_READ.get(name.text)
    if method is None:
        name.refuse(f"{name.text!r:.40} is not modelled", f"known: {', '.join(METHODS_READ)}")
    tokens = (looked_up or 48) if method == "ngram" else (drafted or 3)
    return DraftSettings(method, tokens, model if method in ("eagle", "model") else "")


def write(served: ReplicaServer, site: Site) -> ServeCommand:
    """The command of a server, and ``llama-bench`` or ``llama-batched-bench``.

    Raises:
        LayoutError: llama.cpp has no such layout.
        InfeasibleError: No room is left for a cache.
    """
    notes = Notes()
    file = _gguf(served, site, notes)
    devices = _devices(served.layout, site, notes)
    cache, context = _cache(served, notes), _context(served, site, notes)
    budget = served.token_budget
    steps = [("--batch-size", str(budget), "--ubatch-size", str(budget))] if budget else []
    layers = "all"
    if served.offloaded is not None:
        layers = str(int(kept_outside(served.offloaded, "resident", site.room)))
    resident = ("--gpu-layers", layers)
    if not served.cuda_graphs:
        notes.lose("cuda_graphs", "llama.cpp turns CUDA graphs off by GGML_CUDA_DISABLE_GRAPHS=1")
    if not served.chunked_prefill:
        notes.lose("chunked_prefill", "llama.cpp always cuts prompts into batches")
    shared.lose_adapters(served, notes, "llama.cpp loads each file that --lora names")
    shared.say_replicas(served, notes)
    shared.say_draft(served, notes)
    return ServeCommand(
        TITLE,
        (
            ("llama-server", "--model", file),
            *devices,
            *context,
            *steps,
            *cache,
            resident,
            *_speculative(served.speculation),
            *shared.parts(("--no-cache-prompt", not served.prefix_caching)),
            # What is not said would be fitted to the free memory, and differ from the model.
            ("--fit", "off"),
            ("--port", str(site.port)),
        ),
        benchmark=_bench(site, file, (*devices, *steps, *cache, resident)),
        notes=tuple(notes.said),
        lost=frozenset(notes.lost),
    )


def _bench(site: Site, file: str, same: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    """Benchmark of the same settings: several sequences are measured by another program than one.

    ``llama-bench`` takes lists: devices of one run and their shares are joined by slashes.
    """
    load = site.load
    if load.concurrency != 1:
        context = load.concurrency * (load.prompt + load.output)
        return (
            ("llama-batched-bench", "--model", file),
            *same,
            ("--ctx-size", str(context)),
            ("-npp", str(load.prompt), "-ntg", str(load.output), "-npl", str(load.concurrency)),
        )
    out: list[tuple[str, ...]] = [("llama-bench", "--model", file)]
    for part in same:
        flag, *values = part
        if part == ("--gpu-layers", "all"):
            out.append(("--n-gpu-layers", "99"))
        elif flag in ("--device", "--tensor-split"):
            out.append((flag, *(value.replace(",", "/") for value in values)))
        else:
            out.append(part)
    return (*out, ("-p", str(load.prompt), "-n", str(load.output)))


def _gguf(served: ReplicaServer, site: Site, notes: Notes) -> str:
    """Name of the file of weights."""
    stored = served.weights or site.stored
    if served.model.endswith(gguf.SUFFIX):
        return served.model
    if word := gguf.word_of(stored):
        made = f"convert_hf_to_gguf.py --outtype {word.lower()}"
        if word not in OUTTYPES:
            kind = "MXFP4_MOE" if word == "MXFP4" else word
            made = f"convert_hf_to_gguf.py, then llama-quantize FILE {kind}"
        notes.say(
            f"llama.cpp reads GGUF: convert {served.model} with {made}, or name a file that is "
            "there"
        )
        ending = f"-{word}" if served.weights else ""
        return f"{served.model}{ending}{gguf.SUFFIX}"
    sentence = (
        f"no GGUF file is in {stored}: convert {served.model} to the nearest format, such as Q8_0 "
        "(8.5 bits) or Q4_0 (4.5 bits)"
    )
    if served.weights:
        notes.lose("weights", sentence)
    else:
        notes.say(sentence)
    return f"{served.model}{gguf.SUFFIX}"


def _devices(layout: Layout, site: Site, notes: Notes) -> list[tuple[str, ...]]:
    shared.say_layout(layout, notes, "llama.cpp")
    if layout.dp != 1 or layout.cp != 1 or layout.ep != 1 or (layout.tp != 1 and layout.pp != 1):
        shared.refuse_layout(
            layout,
            "llama.cpp",
            "it splits by layers or by rows of every layer, not both",
            f"use `pp={int(layout.devices)}` or `tp={int(layout.devices)}`",
        )
    if site.nodes(layout) > 1:
        shared.refuse_layout(
            layout,
            "llama.cpp",
            f"{site.gpus_per_node} devices are in a node",
            "use one node: its RPC backend is not modelled",
        )
    kind = DEVICES.get(site.vendor.lower(), "CUDA")
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


def _context(served: ReplicaServer, site: Site, notes: Notes) -> list[tuple[str, ...]]:
    """Flags for slots, the longest sequence, and the cache that all share."""
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


def _cache(served: ReplicaServer, notes: Notes) -> list[tuple[str, ...]]:
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


def _speculative(draft: DraftSettings | None) -> list[tuple[str, ...]]:
    if draft is None:
        return []
    out: list[tuple[str, ...]] = [("--spec-type", METHODS[draft.method])]
    if draft.model:
        out.append(("--spec-draft-model", f"{draft.model.removesuffix(gguf.SUFFIX)}{gguf.SUFFIX}"))
    flag = "--spec-ngram-simple-size-m" if draft.method == "ngram" else "--spec-draft-n-max"
    return [*out, (flag, str(draft.tokens))]
