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
