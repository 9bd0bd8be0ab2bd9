"""``python3 -m sglang.launch_server``, flags of SGLang 0.5.23.

Names and defaults: ``sglang/srt/arg_groups/fields/`` (``parallel``, ``schedule``, ``memory``,
``model``, ``spec``, ``exec_``), ``parallel_hook.py`` and ``memory_hook.py`` beside it,
``sglang/srt/distributed/utils.py`` and ``sglang/benchmark/`` of that release. Of use here:

- ``--tp-size`` counts all devices of a stage; ``--attn-dp-size`` and ``--attn-cp-size`` divide it.
  ``--dp-size N --enable-dp-attention`` is the older spelling of ``--attn-dp-size N``.
- ``--mem-fraction-static`` is weights and cache over all memory of the device; its default is in
  ``hwspecs/engines/sglang.yaml``, as those of sequences and tokens of a step are.
- ``--disable-cuda-graph`` runs without CUDA graphs.
- ``--max-running-requests`` and ``--chunked-prefill-size`` count for all attention groups together;
  a chunk of -1 is a whole prompt.
- ``--random-range-ratio 1`` is lengths as asked for; 0 is anything up to them.
"""

from collections.abc import Mapping
from typing import Final

from roofline.interop.commands.flags import Known
from roofline.interop.commands.served import Method
from roofline.units import parse

NAME: Final = "sglang"
VERSION: Final = "0.5.23"
TITLE: Final = f"SGLang {VERSION}"
IMAGE: Final = f"lmsysorg/sglang:v{VERSION}"
STAGES: Final = "SGLANG_PP_LAYER_PARTITION"
GIB: Final = parse("1 GiB", "B")

KV: Final[Mapping[str, str]] = {
    "auto": "auto",
    "bf16": "bf16",
    "fp8": "fp8_e4m3",
    "fp8-e5m2": "fp8_e5m2",
    "nvfp4": "nvfp4",
}
ONLINE: Final[Mapping[str, str]] = {"fp8": "fp8", "mxfp8": "mxfp8"}
"""Formats that a 16-bit checkpoint is turned into on loading."""
METHODS: Final[Mapping[Method, str]] = {
    "mtp": "NEXTN",
    "eagle": "EAGLE3",
    "ngram": "NGRAM",
    "model": "STANDALONE",
}

KV_READ: Final = {word: name for name, word in KV.items()} | {"bfloat16": "bf16"}
QUANTISED: Final = {
    "fp8": "fp8",
    "w8a8_fp8": "fp8-row",
    "w8a8_int8": "int8",
    "mxfp8": "mxfp8",
    "awq": "int4",
    "awq_marlin": "int4",
    "gptq": "int4",
    "gptq_marlin": "int4",
    "mxfp4": "mxfp4",
    "modelopt_fp4": "nvfp4",
    "modelopt_fp8": "fp8",
    "modelopt": "",
    "compressed-tensors": "",
    "unquant": "",
}
METHODS_READ: Final[Mapping[str, Method]] = {
    "NEXTN": "mtp",
    "EAGLE": "eagle",
    "EAGLE3": "eagle",
    "NGRAM": "ngram",
    "STANDALONE": "model",
}
KNOWN: Final = Known(
    {
        "--tensor-parallel-size": "tp-size",
        "--tp": "tp-size",
        "--pipeline-parallel-size": "pp-size",
        "--pp": "pp-size",
        "--data-parallel-size": "dp-size",
        "--dp": "dp-size",
        "--attention-data-parallel-size": "attn-dp-size",
        "--attention-context-parallel-size": "attn-cp-size",
        "--expert-parallel-size": "ep-size",
        "--ep": "ep-size",
        "--model": "model-path",
        "--decode-context-parallel-size": "dcp-size",
        "--speculative-draft-model": "speculative-draft-model-path",
    },
    frozenset({"log-requests", "show-time-cost"}),
)
