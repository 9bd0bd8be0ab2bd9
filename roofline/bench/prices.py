"""Operators that probes price: whose kernel each runs, and the variant that operators ask for.

A probe of a GPU that is in no table here prices nothing, and is not worth its time.
"""

from collections.abc import Mapping
from typing import Final

from roofline.cost.calibration.kernel import CUBLAS, NCCL, PASSES

PROJECT: Final = "roofline"
"""Provider of the attention kernels of ``microbench/cuda``, a key of
`roofline.cost.kernels.decode.KERNELS`."""
LIBRARY: Final = "cublaslt"
"""Provider of products in 8 bits: engines have kernels of their own, which come before it."""
FLASHINFER: Final = "flashinfer"
RECURRENT: Final = "flash-linear-attention"
PAIR: Final = "bfloat16-bfloat16"
PRICES: Final[Mapping[str, tuple[str, str]]] = {
    "gemm-bf16": (CUBLAS, "bfloat16"),
    "gemm-fp8": (LIBRARY, "fp8"),
    "gemm-fp8-block": (LIBRARY, "fp8_block"),
    "gemm-int8": (LIBRARY, "sq"),
    "paged-decode": (PROJECT, PAIR),
    "paged-decode-fp8": (PROJECT, "bfloat16-fp8"),
    "torch-cudnn": ("cudnn", PAIR),
    "torch-flash": ("torch", PAIR),
    "flash-attn-3": ("flash-attention-3", PAIR),
    "flash-prefill": (PROJECT, PAIR),
    "flashinfer-decode": (FLASHINFER, PAIR),
    "flashinfer-prefill": (FLASHINFER, PAIR),
    "flashinfer-mla": (FLASHINFER, PAIR),
    "flashinfer-mla-prefill": (FLASHINFER, PAIR),
    "q-absorb-bf16": (CUBLAS, "mla_gen_pre-bfloat16"),
    "v-absorb-bf16": (CUBLAS, "mla_gen_post-bfloat16"),
    "mixture-bf16": ("torch", "bfloat16"),
    "mixture-fp8": ("torch", "fp8"),
    "mixture-fp8-block": ("deep-gemm", "fp8_block"),
    "gated-delta-decode": (RECURRENT, "gdn-decode-state"),
    "gated-delta-prefill": (RECURRENT, "gdn-prefill-state"),
    "convolution-decode": (RECURRENT, "gdn-decode-convolution"),
    "convolution-prefill": (RECURRENT, "gdn-prefill-convolution"),
    "rmsnorm-bf16": (PASSES, "input_layernorm"),
    "rope-bf16": (PASSES, "attn_rope"),
    "silu-mul-bf16": (PASSES, "mlp_act"),
    "add-bf16": (PASSES, "add"),
    "embedding-bf16": (PASSES, "emb"),
    "all-reduce": (NCCL, "all_reduce"),
    "all-gather": (NCCL, "all_gather"),
    "reduce-scatter": (NCCL, "reduce_scatter"),
    "all-to-all": (NCCL, "all_to_all"),
    "send-recv": ("torch-nccl", "send_recv-dpn2"),
}
"""Provider and variant, by probe."""
SUSTAINED: Final[Mapping[str, str]] = {
    "gemm-bf16-sustained": "gemm-bf16",
    "gemm-fp8-sustained": "gemm-fp8",
}
"""Probes that say at what rate another one's large products go on at the power limit."""
REFERENCES: Final[Mapping[str, str]] = {
    "copy": "rate of memory that decoding is held against",
    "read": "rate of memory that decoding is held against",
    "copy-host": "rate of the host's link that offloading is held against",
    "sampling": "choice of a token: steps have it in what the engine takes",
    "w4a16-gemm": "sixteen tokens at most: no price of larger batches",
    "w4a16-torch": "PyTorch's kernel: engines have faster ones of their own",
}
"""Probes that price nothing, and what they are for; they come last."""
RATES: Final = frozenset({"copy-host"})
"""References that no form is fitted to: their points are the rates."""
RIVALS: Final = (
    "torch-cudnn",
    "torch-flash",
    "flash-attn-3",
    "flashinfer-prefill",
    "flash-prefill",
)
"""Attention to prompts: of those that were measured the fastest stands for what engines run."""
PROMPTS: Final = ((1, 2048), (1, 8192), (4, 4096))
"""Sequences and tokens of the prompts by which the fastest is told. [sequence], [token]"""
HEADS: Final = (32.0, 8.0, 128.0)
"""Query heads, key heads and their width in those prompts."""

WITHOUT: Final[Mapping[str, str]] = {
    "moe": "experts in other formats: the engine's own kernels, as shipped",
    "linear-attention": "other recurrent layers: the engine's own kernels, as shipped",
    "sparse-attention": "chosen keys: the engine's own kernels, as shipped",
    "hyper-connections": "mixing of residual streams: the engine's own kernels, as shipped",
    "encoder-attention": "attention of encoders: the engine's own kernels, as shipped",
}
"""Kinds of measured kernels that no probe has, and what prices them instead."""
FORMATS: Final[Mapping[str, str]] = {
    "nvfp4": "products in 4 bits: the engine's own kernels, as shipped",
    "int8_wo": "products with 8-bit weights alone: as shipped",
    "int4_wo": "products with 4-bit weights alone: as shipped",
    "mla_gen_pre-fp8": "products for each head in 8 bits: the engine's own kernels, as shipped",
    "mla_gen_post-fp8": "products for each head in 8 bits: the engine's own kernels, as shipped",
    "bfloat16-fp8": "prompts on a cache in 8 bits: the engine's own kernels, as shipped",
    "fp8-fp8": "attention in 8 bits: the engine's own kernels, as shipped",
}
"""The same of formats of kinds that have a probe."""


def probe_of(kind: str, variants: tuple[str, ...], probes: Mapping[str, str]) -> str:
    """Probe that measures a kernel, or the reason why none does.

    Args:
        kind, variants: Of the kernel, as `roofline.cost.calibration.kernel.KernelQuery` has them.
        probes: Kind of each probe by its name.

    Examples:
        >>> probe_of("gemm", ("fp8", "fp8_block"), {"gemm-fp8": "gemm"})
        'gemm-fp8'
        >>> probe_of("moe", ("nvfp4",), {"mixture-bf16": "moe"})
        "none: experts in other formats: the engine's own kernels, as shipped"
    """
    first = variants[0]
    known = [
        name
        for name, (_, variant) in PRICES.items()
        if variant == first and probes.get(name) == kind
    ]
    if known:
        return ", ".join(known)
    reason = WITHOUT.get(kind) or FORMATS.get(first)
    return f"none: {reason}" if reason else ""
