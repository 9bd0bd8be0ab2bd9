"""Calibrated time of a gated feed-forward part: two products, a pass between them, conversions."""

from typing import Final

import numpy as np

from roofline.cost.kernels.form import (
    Dims,
    Form,
    FormConstant,
    Machine,
    Regimes,
    Values,
    soft_maximum,
)
from roofline.cost.work import Array

WIDTH: Final = 2.0
"""Bytes of an activation. [B]"""
TILE: Final = 64.0
"""Rows of a tile of the smallest kernel: fewer take as long. [1]"""


def mlp_dims(tokens: Array, hidden: Array, inter: Array, weight_width: Array) -> dict[str, Array]:
    """Columns of the form; ``weight_width`` is bytes per weight."""
    return {"tokens": tokens, "hidden": hidden, "inter": inter, "weight_width": weight_width}


def parts(dims: Dims, machine: Machine, constants: Values) -> tuple[Array, Array, Array]:
    """Arithmetic of both products, weights, and activations in and out of each kernel. [s]

    Gate and up share a product: 2·T·D·2I, then 2·T·I·D. Activations are read for a conversion,
    written, read by a product and its result is written.
    """
    tokens, hidden, inter = dims["tokens"], dims["hidden"], dims["inter"]
    rows = np.ceil(tokens / TILE) * TILE
    compute = 6.0 * rows * hidden * inter / (constants["compute"] * machine.flops_per_s)
    memory = constants["memory"] * machine.hbm_bytes_per_s
    weights = 3.0 * hidden * inter * dims["weight_width"] / memory
    moved = 2.0 * WIDTH * tokens * (hidden + 2.0 * inter) + WIDTH * tokens * (2.0 * inter + hidden)
    return compute, weights, moved / memory


def seconds(dims: Dims, machine: Machine, constants: Values) -> Array:
    """Launches, activations, and the larger of arithmetic and weights. [s]"""
    *bound, moving = parts(dims, machine, constants)
    return constants["launch"] + moving + soft_maximum(constants["sharpness"], *bound)


def regime(dims: Dims, machine: Machine, constants: Values) -> Regimes:
    """Launches or work."""
    compute, weights, moving = parts(dims, machine, constants)
    work = np.maximum(compute, weights) + moving
    return np.asarray((work > constants["launch"]).astype(np.intp))


FORM: Final = Form(
    "gated-mlp",
    (
        FormConstant("launch", 2e-6, 1e-4, 2e-5, "s", "launches of all kernels"),
        FormConstant("compute", 0.05, 1.0, 0.6, "1", "share of the tensor rate"),
        FormConstant("memory", 0.05, 1.0, 0.7, "1", "share of the memory's rate"),
        FormConstant("sharpness", 1.0, 16.0, 2.0, "1", "exponent of the soft maximum"),
    ),
    seconds,
    ("tokens", "hidden", "inter"),
    regime,
    "(launch + activations + [(F/(compute·P))^q + (weights/(memory·BW))^q]^(1/q)) · exp(residual)",
)
"""Source: roofline of each product, Williams, Waterman and Patterson 2009; SwiGLU, Shazeer 2020
(arXiv 2002.05202)."""
