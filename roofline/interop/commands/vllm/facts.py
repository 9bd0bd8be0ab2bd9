"""``vllm serve``, flags of vLLM 0.33.0.

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
- ``--random-range-ratio 0`` is lengths as asked for.
"""

from collections.abc import Mapping
from typing import Final

from roofline.interop.commands.flags import Known
from roofline.interop.commands.served import Method
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
}
METHODS_READ: Final[Mapping[str, Method]] = {
    "mtp": "mtp",
    "eagle": "eagle",
    "eagle3": "eagle",
    "ngram": "ngram",
    "ngram_gpu": "ngram",
    "draft_model": "model",
}
KNOWN: Final = Known(
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
