"""``trtllm-serve`` and its YAML file, as TensorRT-LLM 1.2 reads them.

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
from typing import Final

from roofline.interop.commands import shared
from roofline.interop.commands.flags import Known
from roofline.interop.commands.served import Method

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
