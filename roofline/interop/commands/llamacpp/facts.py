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

from roofline.interop.commands.flags import Known
from roofline.interop.commands.served import Method
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

KV_READ: Final = {
    "f32": "fp32",
    "f16": "auto",
    "bf16": "bf16",
    "q8_0": "int8-kv",
    "q4_0": "int4-kv",
}
METHODS_READ: Final[Mapping[str, Method]] = {word: name for name, word in METHODS.items()}
DEVICES: Final = {"nvidia": "CUDA", "amd": "ROCm", "intel": "SYCL"}
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
