"""What a group of measured rows is a fit of."""

from collections.abc import Callable, Mapping
from typing import Final

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
    "sparse-attention": "sparse-attention",
    "msa": "sparse-attention",
    "moe": "moe",
    "collective": "collective",
    "deepep": "expert-exchange",
    "quantize": "quantize",
    "pointwise": "pointwise",
}
"""Of kernel, by kind of measurements."""


def _pair(name: Name) -> str:
    return f"{name['dtype']}-{name['kv_dtype']}"


def _experts(name: Name) -> str:
    return name["dtype"] + "-nongated" * ("nongated" in name["kernel"])


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
    """Operation; across nodes, or as one source lays ranks out, with the topology."""
    _, of_each, layout = name["topology"].rpartition("dgx_")
    return name["op"] + (f"-{layout}" + "-across" * bool(name["across"])) * bool(of_each)


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
    "sparse-attention": _sparse,
    "msa": _sparse,
    "moe": _experts,
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
