"""Measured kernels of mixtures of experts, fused from the first matrix to the sum."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from roofline.cost.calibration.query import SIXTEEN, KernelQuery, columns, unmeasured
from roofline.cost.calibration.rows import FEW_TOKENS
from roofline.cost.kernels.experts import GATED, expert_dims, tallest
from roofline.cost.kernels.routing import padding
from roofline.cost.work import Op
from roofline.hardware.machine import Gpu
from roofline.model.precision import named

NONE: Final = 1e-12
"""Rows of experts that get none, whose time is not used."""
NARROW_EXPERTS: Final[Mapping[str, tuple[str, str]]] = {
    "nvfp4": ("nvfp4", "fp4"),
    "mxfp4": ("w4a8_mxfp4_mxfp8", "fp8"),
    "int4": ("w4afp8", "fp8"),
}
"""Measured mixtures of experts of 4-bit weights and narrow activations, and their arithmetic, by
how the format of the weights begins; engines multiply MXFP4 by MXFP8."""
WIDENED_EXPERTS: Final[Mapping[str, str]] = {"mxfp4": "w4a16_mxfp4", "int4": "int4_wo"}
"""Measured mixtures of experts whose kernels widen the weights to 16 bits, by how the format of the
weights begins."""
BITS: Final[Mapping[str, float]] = {"bf16": 16.0, "fp16": 16.0, "fp8": 8.0, "int8": 8.0, "fp4": 4.0}
"""Bits of an activation by arithmetic."""


def experts(op: Op, gpu: Gpu) -> KernelQuery | None:
    """A part of a fused mixture of experts; of one whose tokens come from others, its own kernel.

    Some engines have kernels of their own for some cases: SGLang for a gate that is limited to
    groups, vLLM for spread experts, TensorRT-LLM for few tokens.
    """
    d = op.dims
    stored = op.formats["weights"]
    width, activations = named(stored).width, named(op.formats["activations"]).width
    variants, arithmetic, assumed = _expert_formats(stored, activations, gpu)
    shape = columns(
        **{name: d[name] for name in ("tokens", "hidden", "inter", "active", "local", "matrices")},
        weight_width=width,
        width=2.0,
        highest=tallest(named(stored).bits, BITS[arithmetic]),
        rows=np.maximum(np.asarray(d["rows"]), NONE),
        touched=np.maximum(np.asarray(d["touched"]), NONE),
    )
    tiles = padding(shape["rows"], shape["touched"])
    own = variants[0]
    if float(np.mean(d["matrices"])) < GATED:
        plain = tuple(f"{variant}-nongated" for variant in variants)
        variants = (*plain, *variants)
    made = expert_dims(shape, tiles)
    part = op.kernel or "none"
    special = (
        ("limited", np.full(shape["tokens"].shape, bool(d["limited"])), made),
        ("spread", shape["local"] < d["experts"], made),
        ("min-latency", shape["tokens"] <= FEW_TOKENS, made),
    )
    whole = KernelQuery(
        "moe", variants, made, arithmetic, assumed=assumed, part=part, special=special
    )
    if assumed or not np.all(np.asarray(d["apart"]) > 0):
        return whole
    few = bool(np.all(np.asarray(d["own"]) <= FEW_TOKENS))
    phase = "decode" if few else "prefill"
    if few:
        # A mask tells how many rows of each expert are tokens: nothing is sorted.
        made = expert_dims({**shape, "tokens": shape["rows"] / shape["active"]}, tiles)
    wide = KernelQuery("moe-wideep", (f"{own}-{phase}", own), made, arithmetic, part=part)
    return wide._replace(own=True, otherwise=whole)


def _expert_formats(stored: str, activations: float, gpu: Gpu) -> tuple[tuple[str, ...], str, str]:
    """Variants that would do, the rate they are given, and why none is quite it."""
    if stored in SIXTEEN:
        return ("bfloat16",), "bf16", ""
    low, begin = ("fp8", "fp8_block"), stored.split("-")[0]
    if activations < 2.0 and begin in NARROW_EXPERTS:
        variant, arithmetic = NARROW_EXPERTS[begin]
        if arithmetic in gpu.flops_per_s:
            return (variant, *low), arithmetic, ""
    if activations < 1.0 and "fp4" in gpu.flops_per_s:
        return low, "fp4", unmeasured(stored)
    if activations < 2.0 and "fp8" in gpu.flops_per_s:
        if stored == "fp8-block":
            return low[::-1], "fp8", ""
        return low, "fp8", unmeasured(stored) * (named(stored).bits < 8)
    if activations < 2.0 and "int8" in gpu.flops_per_s:
        return low, "int8", unmeasured(stored)
    if named(stored).bits >= 8:
        return ("bfloat16",), "bf16", unmeasured(stored)
    own = WIDENED_EXPERTS.get(begin, "w4a16_mxfp4")
    unlike = "" if begin in WIDENED_EXPERTS else unmeasured(stored)
    return tuple(dict.fromkeys((own, "w4a16_mxfp4", "bfloat16"))), "bf16", unlike
