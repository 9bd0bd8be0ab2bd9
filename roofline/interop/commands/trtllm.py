"""``trtllm-serve`` and its YAML file, as TensorRT-LLM 1.2 reads them: written and read.

Names and defaults: ``tensorrt_llm/commands/serve.py``, ``tensorrt_llm/llmapi/llm_args.py``
(``KvCacheConfig``, ``_ParallelConfig``) and ``docs/source/features/speculative-decoding.md`` of its
repository. Of use here:

- ``--tp_size`` counts all devices of a stage; with ``enable_attention_dp`` each of them has
  sequences of its own, and limits count for each.
- ``--kv_cache_free_gpu_memory_fraction`` is of what weights and buffers leave; its default is in
  ``hwspecs/engines/trtllm.yaml``, as those of sequences and tokens of a step are.
- ``cuda_graph_config: null`` in the file runs without CUDA graphs.
- Chunked prefill is off unless asked for.
- Flags and file must not say the same differently: releases differ in which of them wins.
"""

from collections.abc import Mapping
from typing import Any, Final

from roofline.cost.layout import Layout
from roofline.interop.commands import shared
from roofline.interop.commands.command import Notes, Quoted, ServeCommand, dump
from roofline.interop.commands.flags import EngineFlags, GivenFlags, keys
from roofline.interop.commands.memory import converted
from roofline.interop.commands.reading import Files, ParsedCommand, Start, after, opened
from roofline.interop.commands.served import (
    DraftSettings,
    Method,
    ReplicaServer,
    ServerMemory,
    Site,
)
from roofline.interop.commands.words import CommandLine

NAME: Final = "trtllm"
VERSION: Final = "1.2"
TITLE: Final = f"TensorRT-LLM {VERSION}"
IMAGE: Final = "nvcr.io/nvidia/tensorrt-llm/release:1.2.1"
FILE: Final = "trtllm.yaml"
GRAPHS: Final = "cuda_graph_config"

KV: Final[Mapping[str, str]] = {"auto": "auto", "fp8": "fp8", "nvfp4": "nvfp4"}
OVERLAPPED: Final = ("ngram", "model")
"""Drafts that are made beside the model, which the scheduler must not run ahead of."""
METHODS: Final[Mapping[Method, str]] = {
    "mtp": "MTP",
    "eagle": "Eagle3",
    "ngram": "NGram",
    "model": "DraftTarget",
}

METHODS_READ: Final[Mapping[str, Method]] = {
    **{word: name for name, word in METHODS.items()},
    "Eagle": "eagle",
}
DTYPE_READ: Final = {word: name for name, word in shared.DTYPES.items()} | {"auto": ""}
KNOWN: Final = EngineFlags(
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
KEYS: Final[Mapping[str, str]] = {
    "tensor_parallel_size": "tp-size",
    "pipeline_parallel_size": "pp-size",
    "context_parallel_size": "cp-size",
    "moe_expert_parallel_size": "ep-size",
    "max_batch_size": "max-batch-size",
    "max_num_tokens": "max-num-tokens",
    "max_seq_len": "max-seq-len",
    "enable_chunked_prefill": "enable-chunked-prefill",
    "enable_attention_dp": "enable-attention-dp",
    "attention_dp_config.enable_balance": "dp-balance",
    "attention_dp_config.timeout_iters": "dp-timeout-iters",
    "pp_partition": "stages",
    "dtype": "dtype",
    "disable_overlap_scheduler": "no-overlap",
    "kv_cache_config.free_gpu_memory_fraction": "free-gpu-memory-fraction",
    "kv_cache_config.dtype": "kv-dtype",
    "kv_cache_config.enable_block_reuse": "block-reuse",
    "speculative_config.decoding_type": "draft",
    "speculative_config.max_draft_len": "draft-tokens",
    "speculative_config.num_nextn_predict_layers": "draft-tokens",
    "speculative_config.speculative_model": "draft-model",
    "speculative_config.speculative_model_dir": "draft-model",
}
TIMEOUT_ITERS: Final = 50
"""Steps of ``attention_dp_config.timeout_iters`` where nobody says
(https://nvidia.github.io/TensorRT-LLM/llm-api/reference/AttentionDpConfig.html). [1]"""


def starts(line: CommandLine) -> Start | None:
    """Place where a command starts a TensorRT-LLM server."""
    return after(line, ("trtllm-serve", "serve"), ("trtllm-serve",))


def read(line: CommandLine, files: Files) -> ParsedCommand:
    """Read a command and the file that it names, if that can be read.

    DocumentError at a flag or key whose value has no meaning, or that contradicts another.
    """
    given, ignored = opened(line, starts(line), KNOWN)
    if not given.positional:
        raise line.source.error(0, "no model is named", "write trtllm-serve MODEL")
    graphs = True
    if (named := given.find("config")) is not None:
        document = files(named.text)
        given = given.merged(keys(document, (), KEYS))
        # An empty configuration of CUDA graphs turns them off; none at all leaves them on.
        settings = document.data if isinstance(document.data, dict) else {}
        graphs = settings.get(GRAPHS, {}) is not None
    layout = _layout_read(given)
    groups = int(layout.dp)
    sequences, tokens = given.whole("max-batch-size"), given.whole("max-num-tokens")
    free = given.share("free-gpu-memory-fraction")
    dtype = given.chosen("dtype", DTYPE_READ, "no type that weights are computed in")
    cache = given.chosen("kv-dtype", {word: name for name, word in KV.items()}, "not modelled")
    served = ReplicaServer(
        NAME,
        given.positional[0].text,
        layout,
        weights=dtype or "",
        kv=cache or "auto",
        max_sequences=None if sequences is None else sequences * groups,
        token_budget=None if tokens is None else tokens * groups,
        max_context=given.whole("max-seq-len"),
        memory=None if free is None else ServerMemory(free, "free"),
        dp_timeout_iters=_waiting(given),
        chunked_prefill=given.switch("enable-chunked-prefill"),
        prefix_caching=given.switch("block-reuse", default=True),
        cuda_graphs=graphs,
        speculation=_speculation_read(given),
    )
    extra = [value.text for value in given.positional[1:]]
    return ParsedCommand(served, (*ignored, *given.unused(), *extra))


def _layout_read(given: GivenFlags) -> Layout:
    tp = given.whole("tp-size") or 1
    pp = given.whole("pp-size") or 1
    cp = given.whole("cp-size") or 1
    experts = given.whole("ep-size") or 1
    if (tp * cp) % experts:
        said = f"{experts} does not divide the {tp * cp} devices of a stage"
        given.refuse("ep-size", said, "give a divisor")
    dp = tp if given.switch("enable-attention-dp") else 1
    stages = shared.stages_of(given.find("stages"), pp)
    return Layout(tp=tp // dp, cp=cp, dp=dp, ep=experts, pp=pp, stages=stages)


def _waiting(given: GivenFlags) -> int:
    """Steps that prompts wait for others where copies of attention are balanced. [1]"""
    steps = given.whole("dp-timeout-iters")
    return (steps or TIMEOUT_ITERS) if given.switch("dp-balance") else 0


def _speculation_read(given: GivenFlags) -> DraftSettings | None:
    name = given.find("draft")
    tokens = given.whole("draft-tokens")
    model = given.text("draft-model") or ""
    if name is None:
        return None
    method = METHODS_READ.get(name.text)
    if method is None:
        name.refuse(f"{name.text!r:.40} is not modelled", f"known: {', '.join(METHODS_READ)}")
    if method in OVERLAPPED:
        given.find("no-overlap")
    if tokens is None:
        name.refuse("it does not say how many tokens are drafted", "give max_draft_len")
    return DraftSettings(method, tokens, model if method in ("eagle", "model") else "")


def write(served: ReplicaServer, site: Site) -> ServeCommand:
    """The command of a server with its file, and ``aiperf profile``.

    Raises:
        LayoutError: TensorRT-LLM has no such layout.
        InfeasibleError: No room is left for a cache.
    """
    notes = Notes()
    parts = [
        ("trtllm-serve", served.model),
        *_degrees(served.layout, notes),
        *_limits(served, site, notes),
    ]
    settings = _file(served, site, notes)
    shared.lose_adapters(served, notes, "TensorRT-LLM reads lora_config in its --config file")
    shared.say_deployment(
        served,
        site,
        notes,
        "start it on all with trtllm-llmapi-launch before it, one task for each device under MPI "
        "or Slurm",
    )
    if settings:
        parts.append(("--config", FILE))
    return ServeCommand(
        TITLE,
        (*parts, ("--port", str(site.port))),
        files={FILE: dump(settings)} if settings else {},
        benchmark=shared.aiperf(served, site),
        notes=tuple(notes.said),
        lost=frozenset(notes.lost),
    )


def _degrees(layout: Layout, notes: Notes) -> list[tuple[str, ...]]:
    shared.say_layout(layout, notes, "TensorRT-LLM")
    if layout.dp != 1 and layout.tp * layout.cp != 1:
        shared.refuse_layout(
            layout,
            "TensorRT-LLM",
            "with attention data parallelism every device has sequences of its own",
            f"use `tp=1` and `dp={int(layout.stage_devices)}`",
        )
    if layout.cp != 1:
        notes.say("which context parallelism it is has to be said in cp_config of its file")
    return shared.degrees(
        ("--tp_size", layout.tp * layout.dp),
        ("--pp_size", layout.pp),
        ("--context_parallel_size", layout.cp),
        ("--ep_size", layout.ep),
    )


def _limits(served: ReplicaServer, site: Site, notes: Notes) -> list[tuple[str, ...]]:
    each, tokens = shared.divided(served, int(served.layout.dp), notes, "TensorRT-LLM")
    memory = served.memory
    return shared.parts(
        ("--max_batch_size", each),
        ("--max_num_tokens", tokens),
        ("--max_seq_len", served.max_context),
        ("--kv_cache_free_gpu_memory_fraction", memory and converted(memory, "free", site.room)),
        ("--enable_chunked_prefill", served.chunked_prefill),
    )


def _file(served: ReplicaServer, site: Site, notes: Notes) -> dict[str, Any]:
    """Settings that only the file can hold."""
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
    stored = shared.formats(served, site, notes, "TensorRT-LLM", KV, {})
    cache: dict[str, Any] = {}
    if "kv_cache_dtype" in stored:
        cache["dtype"] = stored.pop("kv_cache_dtype")
    out |= stored
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
