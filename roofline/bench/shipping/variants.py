"""What a group of measured rows is a fit of."""

from collections.abc import Callable, Mapping
from typing import Final

from roofline.bench.collective_rows import CUSTOM_ENDS
from roofline.bench.kernel_rows import Name
from roofline.cost.calibration.kernel import Label
from roofline.hardware.catalog import gpu

KINDS: Final[Mapping[str, str]] = {
    "gemm": "gemm",
    "attention-prefill": "prefill-attention",
    "attention-decode": "decode-attention",
    "mla-prefill": "latent-prefill",
    "mla-decode": "latent-decode",
    "mla-module": "latent-module",
    "mla-bmm": "latent-heads",
    "moe": "moe",
    "moe-wideep": "moe-wideep",
    "moe-mega": "moe-mega",
    "moe-alltoall": "moe-alltoall",
    "collective": "collective",
    "deepep": "expert-exchange",
    "quantize": "quantize",
    "pointwise": "pointwise",
}
"""Of kernel, by kind of measurements."""


def _pair(name: Name) -> str:
    return f"{name['dtype']}-{name['kv_dtype']}"


NONGATED: Final = frozenset(
    {
        ("sglang_flashinfer_trtllm_moe", "bfloat16"),
        ("sglang_flashinfer_cutlass_moe", "bfloat16"),
    }
)
"""Kernels of SGLang that take experts without a gate, beside Triton's for the others."""
SOME_SHAPES: Final[Mapping[tuple[str, str], str]] = {
    ("sglang_flashinfer_trtllm_moe", "fp8_block"): "limited",
    ("sglang_mxfp4_flashinfer_trtllm_moe", "w4a8_mxfp4_mxfp8"): "unbiased",
    ("vllm_fp8moe_flashinfer_cutlass_flashinferexperts", "fp8_block"): "spread",
    ("vllm_fp8moe_flashinfer_trtllm_trtllmfp8expertsmodular", "fp8_block"): "modular",
    ("moe_torch_flow_min_latency", "nvfp4"): "min-latency",
}
"""What kernels are for that an engine has beside another one of the format: a gate limited to
groups (SGLang's default for DeepSeek-V3 on Blackwell), experts without biases, experts spread over
devices, routing outside the kernel, few tokens."""


def _experts(name: Name) -> str:
    kernel = name["kernel"], name["dtype"]
    plain = "nongated" in name["kernel"] or kernel in NONGATED
    some = SOME_SHAPES.get(kernel, "")
    return name["dtype"] + f"-{some}" * bool(some) + "-nongated" * plain


def _wide(name: Name) -> str:
    return name["dtype"] + f"-{name['phase']}" * (name["phase"] != "any")


def _alltoall(name: Name) -> str:
    """What is done and in which format; the one-sided kind is told apart."""
    op = name["op"].replace("_", "-")
    return f"{op}-{name['dtype']}" + "-one-sided" * ("OneSided" in name["kernel"])


def _collective(name: Name) -> str:
    """Operation; across nodes, or as one source lays ranks out, with the topology.

    Kernels of engines that were launched one by one are apart: in a graph the host costs nothing.
    """
    _, of_each, layout = name["topology"].rpartition("dgx_")
    eager = name["mode"] == "eager" and name["backend"].endswith(CUSTOM_ENDS)
    shape = (f"-{layout}" + "-across" * bool(name["across"])) * bool(of_each)
    return name["op"] + shape + "-eager" * eager


PROVIDERS: Final = {"nccl-tests": "nccl"}
"""Of kernels, by who measured them where that is called otherwise."""
_VARIANTS: Final[Mapping[str, Callable[[Name], str]]] = {
    "gemm": lambda name: name["dtype"],
    "attention-prefill": _pair,
    "attention-decode": _pair,
    "mla-prefill": _pair,
    "mla-decode": _pair,
    "mla-module": lambda name: "-".join(
        (name["phase"], _pair(name), name["gemm_dtype"], name["kernel"].lower())
    ),
    "mla-bmm": lambda name: f"{name['op']}-{name['dtype']}",
    "moe": _experts,
    "moe-wideep": _wide,
    "moe-mega": lambda name: name["dtype"],
    "moe-alltoall": _alltoall,
    "collective": _collective,
    "deepep": lambda name: f"{name['mode']}-{name['op']}",
    "quantize": lambda name: name["op"],
    "pointwise": lambda name: name["op"] + "-layer-norm" * name["block"].startswith("layer"),
}


def label_of(kind: str, name: Name) -> Label:
    """Label of a group of measured rows.

    Parameters
    ----------
    kind
        Of measurements, a key of `KINDS`.
    name
        What the rows of the group have in common.

    Examples
    --------
    >>> label_of("gemm", {"gpu": "h100_sxm", "backend": "trtllm", "dtype": "fp8"}).variant
    'fp8'
    """
    backend = name.get("backend") or "vidur"
    provider = PROVIDERS.get(backend, backend)
    return Label(gpu(name["gpu"]).name, provider, KINDS[kind], _VARIANTS[kind](name))
