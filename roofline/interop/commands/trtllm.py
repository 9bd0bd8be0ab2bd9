"""``trtllm-serve`` and its YAML file, as TensorRT-LLM 1.2 reads them.

Names and defaults: ``tensorrt_llm/commands/serve.py``, ``tensorrt_llm/llmapi/llm_args.py``
(``KvCacheConfig``, ``_ParallelConfig``) and ``docs/source/features/speculative-decoding.md`` of its
repository. Of use here:

- ``--tp_size`` counts all devices of a stage; with ``enable_attention_dp`` each of them has
  sequences of its own, and limits count for each.
- ``--kv_cache_free_gpu_memory_fraction`` is of what weights and buffers leave, 0.9 unless said.
- Chunked prefill is off unless asked for.
- Flags and file must not say the same differently: releases differ in which of them wins.
"""

from collections.abc import Mapping
from typing import Any, Final

from roofline.cost.layout import Layout
from roofline.interop.commands import shared
from roofline.interop.commands.command import Command, Notes
from roofline.interop.commands.flags import Given, Known, flags, keys
from roofline.interop.commands.memory import converted
from roofline.interop.commands.reading import Files, Read, Start, after, others
from roofline.interop.commands.served import Method, Served, Share, Site, Speculation
from roofline.interop.commands.words import Line
from roofline.interop.commands.yaml_text import Quoted, dump

NAME: Final = "trtllm"
VERSION: Final = "1.2"
TITLE: Final = f"TensorRT-LLM {VERSION}"
IMAGE: Final = "nvcr.io/nvidia/tensorrt-llm/release:1.2.1"
FILE: Final = "trtllm.yaml"
FREE: Final = 0.9

KV: Final[Mapping[str, str]] = {"auto": "auto", "fp8": "fp8", "nvfp4": "nvfp4"}
METHODS: Final[Mapping[Method, str]] = {
    "mtp": "MTP",
    "eagle": "Eagle3",
    "ngram": "NGram",
    "model": "DraftTarget",
}

_METHODS_READ: Final[Mapping[str, Method]] = {
    **{word: name for name, word in METHODS.items()},
    "Eagle": "eagle",
}
_DTYPE_READ: Final = {word: name for name, word in shared.DTYPES.items()} | {"auto": ""}
KNOWN: Final = Known(
    {
        "--tensor-parallel-size": "tp-size",
        "--pipeline-parallel-size": "pp-size",
        "--context-parallel-size": "cp-size",
        "--moe-expert-parallel-size": "ep-size",
        "--kv-cache-free-gpu-memory-fraction": "free-gpu-memory-fraction",
        "--extra-llm-api-options": "config",
        "--kv-cache-dtype": "kv-dtype",
    }
)
_KEYS: Final[Mapping[str, str]] = {
    "tensor_parallel_size": "tp-size",
    "pipeline_parallel_size": "pp-size",
    "context_parallel_size": "cp-size",
    "moe_expert_parallel_size": "ep-size",
    "max_batch_size": "max-batch-size",
    "max_num_tokens": "max-num-tokens",
    "max_seq_len": "max-seq-len",
    "enable_chunked_prefill": "enable-chunked-prefill",
    "enable_attention_dp": "enable-attention-dp",
    "pp_partition": "stages",
    "dtype": "dtype",
    "kv_cache_config.free_gpu_memory_fraction": "free-gpu-memory-fraction",
    "kv_cache_config.dtype": "kv-dtype",
    "kv_cache_config.enable_block_reuse": "block-reuse",
    "speculative_config.decoding_type": "draft",
    "speculative_config.max_draft_len": "draft-tokens",
    "speculative_config.num_nextn_predict_layers": "draft-tokens",
    "speculative_config.speculative_model": "draft-model",
    "speculative_config.speculative_model_dir": "draft-model",
}


def write(served: Served, site: Site) -> Command:
    """The command of a server with its file, and ``aiperf profile``.

    Parameters
    ----------
    served, site
        What the server is told; what it is written for.

    Raises
    ------
    LayoutError
        TensorRT-LLM has no such layout.
    InfeasibleError
        No room is left for a cache.
    """
    notes = Notes()
    parts: list[tuple[str, ...]] = [
        ("trtllm-serve", served.model),
        *_degrees(served.layout, notes),
        *_limits(served, site, notes),
    ]
    settings = _settings(served, site, notes)
    shared.say_replicas(served, notes)
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
    if served.offloaded is not None:
        notes.lose("offloaded", "trtllm-serve has no option that keeps weights on the host")
    if (draft := served.speculation) is not None:
        out["speculative_config"] = {
            "decoding_type": METHODS[draft.method],
            "max_draft_len": draft.tokens,
        }
        if draft.model:
            out["speculative_config"]["speculative_model"] = Quoted(draft.model)
    return out


def starts(line: Line) -> Start | None:
    """Where a command starts a TensorRT-LLM server."""
    return after(line.words, ("trtllm-serve", "serve"), ("trtllm-serve",))


def read(line: Line, files: Files) -> Read:
    """What a command and the file that it names tell TensorRT-LLM.

    Raises
    ------
    DocumentError
        At a flag or key whose value has no meaning, or that contradicts another; or the file
        cannot be read.
    """
    start = starts(line)
    assert start is not None, "not a command of TensorRT-LLM"
    given = flags(line.words[start.end :], KNOWN, line.source)
    if not given.positional:
        raise line.source.error(0, "no model is named", "write trtllm-serve MODEL")
    model = given.positional[0].text
    if (named := given.find("config")) is not None:
        given = given.merged(keys(files(named.text), (), _KEYS))
    layout = _layout_read(given)
    groups = int(layout.dp)
    sequences, tokens = given.whole("max-batch-size"), given.whole("max-num-tokens")
    free = given.share("free-gpu-memory-fraction")
    served = Served(
        NAME,
        model,
        layout,
        weights=given.chosen("dtype", _DTYPE_READ, "no type that weights are computed in") or "",
        kv=given.chosen("kv-dtype", {word: name for name, word in KV.items()}, "not modelled")
        or "auto",
        max_sequences=None if sequences is None else sequences * groups,
        token_budget=None if tokens is None else tokens * groups,
        max_context=given.whole("max-seq-len"),
        memory=Share(FREE if free is None else free, "free"),
        chunked_prefill=given.switch("enable-chunked-prefill"),
        prefix_caching=given.switch("block-reuse", default=True),
        speculation=_speculation_read(given),
    )
    extra = [value.text for value in given.positional[1:]]
    return Read(served, (*start.before(line), *others(line), *given.unused(), *extra))


def _layout_read(given: Given) -> Layout:
    tp = given.whole("tp-size") or 1
    pp = given.whole("pp-size") or 1
    cp = given.whole("cp-size") or 1
    experts = given.whole("ep-size") or 1
    if (tp * cp) % experts:
        at = given.find("ep-size")
        assert at is not None
        at.refuse(f"{experts} does not divide the {tp * cp} devices of a stage", "give a divisor")
    dp = tp if given.switch("enable-attention-dp") else 1
    stages = shared.stages_of(given.find("stages"), pp)
    return Layout(tp=tp // dp, cp=cp, dp=dp, ep=experts, pp=pp, stages=stages)


def _speculation_read(given: Given) -> Speculation | None:
    name = given.find("draft")
    tokens = given.whole("draft-tokens")
    model = given.text("draft-model") or ""
    if name is None:
        return None
    method = _METHODS_READ.get(name.text)
    if method is None:
        name.refuse(f"{name.text!r:.40} is not modelled", f"known: {', '.join(_METHODS_READ)}")
    if tokens is None:
        name.refuse("it does not say how many tokens are drafted", "give max_draft_len")
    return Speculation(method, tokens, model if method in ("eagle", "model") else "")
