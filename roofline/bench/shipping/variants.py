"""Labels of fits: kind and variant of the kernel that a group of rows measures."""

from collections.abc import Callable, Mapping
from typing import Final

from roofline.bench.exchange_rows import CUSTOM_ENDS
from roofline.bench.kernel_rows import Name
from roofline.cost.calibration.kernel import FitLabel
from roofline.hardware.catalog import gpu


def _pair(name: Name) -> str:
    return f"{name['dtype']}-{name['kv_dtype']}"


NONGATED: Final = frozenset(
    {("sglang_flashinfer_trtllm_moe", "bfloat16"), ("sglang_flashinfer_cutlass_moe", "bfloat16")}
)
"""Kernels of SGLang that take experts without a gate, beside Triton's for the others."""
SOME_SHAPES: Final[Mapping[tuple[str, str], str]] = {
    ("sglang_flashinfer_trtllm_moe", "fp8_block"): "limited",
    ("sglang_mxfp4_flashinfer_trtllm_moe", "w4a8_mxfp4_mxfp8"): "unbiased",
    ("vllm_fp8moe_flashinfer_cutlass_flashinferexperts", "fp8_block"): "spread",
    ("vllm_fp8moe_flashinfer_trtllm_trtllmfp8expertsmodular", "fp8_block"): "modular",
    ("moe_torch_flow_min_latency", "nvfp4"): "min-latency",
}
"""Cases that an engine has a second kernel of a format for, by that kernel and its format: a gate
limited to groups (SGLang's default for DeepSeek-V3 on Blackwell), experts without biases, experts
spread over devices, routing outside the kernel, few tokens."""


def _experts(name: Name) -> str:
    kernel = name["kernel"], name["dtype"]
    plain = "nongated" in name["kernel"] or kernel in NONGATED
    some = SOME_SHAPES.get(kernel, "")
    return name["dtype"] + "-nongated" * plain + f"-{some}" * bool(some)


def _wide(name: Name) -> str:
    return name["dtype"] + f"-{name['phase']}" * (name["phase"] != "any")


def _alltoall(name: Name) -> str:
    """Operation and format of an exchange of tokens; one-sided exchanges have a suffix."""
    op = name["op"].replace("_", "-")
    return f"{op}-{name['dtype']}" + "-one-sided" * ("OneSided" in name["kernel"])


def _recurrent(name: Name) -> str:
    """Layer, phase and step; kernels that do more than the step, or less well, apart."""
    kernel = name["kernel"]
    told = [name["op"], name["phase"], name["step"]]
    told += ["fused"] * any(word in kernel for word in FUSED)
    told += ["unpacked"] * (name["backend"] == "sglang" and kernel == UNPACKED)
    told += ["eager"] * ((name["backend"], *told) in EAGER)
    return "-".join(told)


def _sparse(name: Name) -> str:
    """Module or kernel, phase, formats of attention, cache and projections.

    The kernel's name is left out of the module that an engine takes as a rule.
    """
    keys = ("phase", "dtype", "kv_dtype", "gemm_dtype")
    words = [name.get("op") or "msa", *(name[key] for key in keys)]
    if name["phase"] == "any":
        words += [name["kernel"], *filter(None, [name.get("score_mode")])]
    elif any(other(name) for other in _SECOND):
        words.append(name["kernel"])
    return "-".join(words).lower().replace(".", "_")


_SECOND: Final[tuple[Callable[[Name], bool], ...]] = (
    lambda name: "dense" in name["kernel"],
    lambda name: name["kernel"].endswith("topk_radix"),
    lambda name: name["backend"] == "vllm" and name["kernel"] == "default",
    lambda name: name["kernel"] == "FLASHINFER_MLA_SPARSE" and name["kv_dtype"] != "fp8",
)
"""Modules that an engine takes in some cases only: contexts that need no choice (SGLang), batches
beyond what its split choice holds (SGLang), an older release, few heads with a cache in 16 bits
(vLLM)."""


def _collective(name: Name) -> str:
    """Operation; across nodes, or as one source lays ranks out, with the topology.

    Kernels of engines that were launched one by one are apart: in a graph the host costs nothing.
    """
    _, of_each, layout = name["topology"].rpartition("dgx_")
    eager = name["mode"] == "eager" and name["backend"].endswith(CUSTOM_ENDS)
    shape = (f"-{layout}" + "-across" * bool(name["across"])) * bool(of_each)
    return name["op"] + shape + "-eager" * eager


FUSED: Final = ("kda_fused_decode", "fused_kda_decode")
"""Kernels of convolution, step and gated norm together."""
EAGER: Final = frozenset({("vllm", "kda", "prefill", "convolution")})
"""Engine, layer, phase and step of kernels that were measured with the host's time, 0.4 ms of three
launches: no price of what runs while the host is ahead."""
UNPACKED: Final = "fused_recurrent_gated_delta_rule"
"""Kernel that SGLang replaced by one that takes queries, keys and values packed."""
PROVIDERS: Final = {"nccl-tests": "nccl"}
"""Provider of kernels by the name of what measured them, where the two differ."""
_LABELS: Final[Mapping[str, tuple[str, Callable[[Name], str]]]] = {
    "gemm": ("gemm", lambda name: name["dtype"]),
    "attention-prefill": ("prefill-attention", _pair),
    "attention-decode": ("decode-attention", _pair),
    "mla-prefill": ("latent-prefill", _pair),
    "mla-decode": ("latent-decode", _pair),
    "mla-module": (
        "latent-module",
        lambda name: "-".join(
            (name["phase"], _pair(name), name["gemm_dtype"], name["kernel"].lower())
        ),
    ),
    "mla-bmm": ("latent-heads", lambda name: f"{name['op']}-{name['dtype']}"),
    "sparse-attention": ("sparse-attention", _sparse),
    "msa": ("sparse-attention", _sparse),
    "moe": ("moe", _experts),
    "moe-wideep": ("moe-wideep", _wide),
    "moe-mega": ("moe-mega", lambda name: name["dtype"]),
    "moe-alltoall": ("moe-alltoall", _alltoall),
    "collective": ("collective", _collective),
    "deepep": ("expert-exchange", lambda name: f"{name['mode']}-{name['op']}"),
    "quantize": ("quantize", lambda name: name["op"]),
    "pointwise": (
        "pointwise",
        lambda name: name["op"] + "-layer-norm" * name["block"].startswith("layer"),
    ),
    "linear-attention": ("linear-attention", _recurrent),
    "attention-encoder": ("encoder-attention", lambda name: name["dtype"]),
    "mhc": ("hyper-connections", lambda name: name["op"]),
    "mlp": ("gated-mlp", lambda name: name["dtype"]),
}
"""Kind of kernel, and its variant by what rows have in common, by kind of measurements."""
KINDS: Final = {kind: label for kind, (label, _) in _LABELS.items()}
"""Kind of kernel by kind of measurements."""
SPECIAL: Final[Mapping[tuple[str, str], str]] = {
    ("gemm", "FlashInferFp8BlockScaledMMKernel"): "few",
    ("gemm", "CutlassFp8BlockScaledMMKernel"): "unaligned",
    ("attention-prefill", "torch_flow_flashinfer"): "wide-window",
    ("attention-decode", "torch_flow_flashinfer"): "wide-window",
    ("attention-prefill", "vllm_flashinfer_trtllmdecode"): "single",
    ("attention-prefill", "vllm_flashinfer_fidecode"): "single",
}
"""Shapes that an engine has a kernel of its own for, by that kernel: `roofline.cost.calibration`
asks for attention by them. TensorRT-LLM takes FlashInfer for windows over heads of 256. vLLM takes
FlashInfer for few rows on Hopper and CUTLASS for widths that DeepGEMM has no tiles for: those are
timed with the host as its DeepGEMM is, and no operator asks for them."""
TRITON: Final[Mapping[str, str]] = {"ada": "narrow", "hopper": "wide-window"}
"""Shapes that SGLang takes Triton's attention for, by generation: heads of 64 where FlashInfer has
none, and windows over heads of 256."""


def _kernel(kind: str, name: Name) -> str:
    """Suffix of a kernel that is not the engine's usual one of those formats; empty for that."""
    kernel = name.get("kernel", "")
    if heads := name.get("heads"):
        return f"-{heads}"
    if found := SPECIAL.get((kind, kernel)):
        return f"-{found}"
    if kind in ("attention-prefill", "attention-decode") and name.get("backend") == "sglang":
        generation = gpu(name["gpu"]).architecture
        if kernel == "triton" and generation in TRITON:
            return f"-{TRITON[generation]}"
        if kernel in ("triton", "flashinfer") and generation.startswith("blackwell"):
            # Measured beside the kernel that SGLang takes unless told.
            return f"-{kernel}"
    return ""


def label_of(kind: str, name: Name) -> FitLabel:
    """Label of a group of measured rows.

    Args:
        kind: Of measurements, a key of `KINDS`.
        name: What the rows of the group have in common.

    Examples:
        >>> label_of("gemm", {"gpu": "h100_sxm", "backend": "trtllm", "dtype": "fp8"}).variant
        'fp8'
    """
    backend = name.get("backend") or "vidur"
    provider = PROVIDERS.get(backend, backend)
    of, variant = _LABELS[kind]
    return FitLabel(gpu(name["gpu"]).name, provider, of, variant(name) + _kernel(kind, name))
