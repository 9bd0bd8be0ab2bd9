"""Measured kernels of linear layers, and of matrices of each head of latent attention."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from roofline.cost.calibration.alike import base_name
from roofline.cost.calibration.attention import LATENT
from roofline.cost.calibration.query import SIXTEEN, KernelQuery, columns, unmeasured
from roofline.cost.kernels import gemm
from roofline.cost.kernels.form import Dims
from roofline.cost.kernels.latent_module import PLAIN
from roofline.cost.work import Op
from roofline.hardware.machine import Gpu
from roofline.model.architecture import STREAMS
from roofline.model.precision import named

WEIGHT_ONLY: Final[Mapping[float, str]] = {8.0: "int8_wo", 4.0: "int4_wo"}
"""Measured products of 16-bit activations with integer weights, by their bits without scales."""


def linear(op: Op, gpu: Gpu) -> KernelQuery | None:
    """Linear layers: as measured in their number format; others take the form of the nearest."""
    dims = columns(m=op.dims["m"], n=op.dims["n"], k=op.dims["k"])
    stored = op.formats.get("weights", "bf16")
    if op.name.startswith(("q-absorb", "v-absorb")):
        return _heads(op, dims, stored)
    width = named(stored).width
    if base_name(op) == STREAMS:
        return _mixed(dims)
    if op.arithmetic in SIXTEEN:
        if stored in SIXTEEN:
            return KernelQuery("gemm", ("bfloat16",), dims, op.arithmetic)
        own = WEIGHT_ONLY.get(named(stored).bits // 4 * 4) if stored.startswith("int") else None
        form = gemm.linear(2.0, stored=width)
        if own is None:
            return KernelQuery("gemm", ("bfloat16",), dims, op.arithmetic, form, unmeasured(stored))
        return KernelQuery("gemm", (own, "bfloat16"), dims, op.arithmetic, form)
    if op.arithmetic == "fp8" and named(stored).bits >= 8:
        variants = ("fp8", "fp8_block")
        blocks = stored in ("fp8-block", "mxfp8")
        return KernelQuery("gemm", variants[::-1] if blocks else variants, dims, "fp8")
    if op.arithmetic in ("int8", "fp8", "fp4"):
        activations = named(op.formats.get("activations", "fp8")).width
        if op.arithmetic == "fp4" and stored == "nvfp4":
            return KernelQuery("gemm", ("nvfp4",), dims, "fp4")
        if op.arithmetic == "int8" and stored == "int8":
            return KernelQuery("gemm", ("sq",), dims, "int8")
        form = gemm.linear(activations, stored=width, quantised=True)
        near = ("nvfp4", "fp8") if op.arithmetic == "fp4" else ("fp8",)
        return KernelQuery("gemm", near, dims, op.arithmetic, form, unmeasured(stored))
    return None


def _mixed(dims: Dims) -> KernelQuery:
    """Coefficients of hyper-connections, and the streams joined to the input of one part.

    From n streams of a width D, n·D wide, (2 + n)·n coefficients are made.
    """
    streams = np.sqrt(1.0 + dims["n"]) - 1.0
    shape = columns(tokens=dims["m"], hidden=dims["k"] / streams, streams=streams, sites=1.0)
    return KernelQuery("hyper-connections", ("pre",), shape)


def _heads(op: Op, dims: Dims, stored: str) -> KernelQuery:
    """A matrix for each head, into the latent or out of it."""
    into = op.name.startswith("q-absorb")
    wide = PLAIN if not into else LATENT[0]
    low = op.arithmetic == "fp8"
    shape = columns(
        tokens=dims["m"],
        heads=dims["n"] / wide,
        inner=PLAIN if into else LATENT[0],
        weight_width=named(stored).width,
        quantised=float(low),
    )
    name = "mla_gen_pre" if into else "mla_gen_post"
    formats = (f"{name}-fp8", f"{name}-bfloat16") if low else (f"{name}-bfloat16",)
    unlike = "" if low or stored in SIXTEEN else unmeasured(stored)
    return KernelQuery("latent-heads", formats, shape, op.arithmetic, assumed=unlike)
