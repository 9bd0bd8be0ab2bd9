"""Calibrated time of one pass over activations of m rows: norms, activations, quantisation.

    t = t0 + lane·width + row·m/SMs + traffic through cache and memory

The multiprocessors share the rows; one block walks along a row.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from roofline.cost.kernels.form import Constant, Dims, Form, Machine, Regimes, Values
from roofline.cost.kernels.warm import warm_seconds
from roofline.cost.work import Array

EQUATION: Final = (
    "(start + lane·width + row·m/SMs + bytes through cache and memory) · exp(residual)"
)

CONSTANTS: Final = (
    Constant("start", 1e-7, 3e-5, 2e-6, "s", "Launch and first access."),
    Constant("lane", 1e-14, 2e-9, 2e-11, "s", "Each element that a block walks along its row."),
    Constant("row", 1e-10, 2e-6, 1e-8, "s", "Each row that a multiprocessor takes."),
    Constant("cache", 0.01, 1.0, 0.4, "1", "Share of the last-level cache's rate."),
    Constant("memory", 0.01, 1.0, 0.8, "1", "Share of the device memory's rate."),
)


def parts(dims: Dims, machine: Machine, constants: Values, traffic: float) -> tuple[Array, Array]:
    """Start with rows, and traffic of each row, each by itself. [s]"""
    m, width = dims["m"], dims["width"]
    rows = constants["row"] * m / machine.multiprocessors
    start = constants["start"] + constants["lane"] * width + rows
    moved = m * width * traffic
    return start, warm_seconds(moved, machine, constants["cache"], constants["memory"])


def stream(kind: str, traffic: float) -> Form:
    """Form of a kernel that passes once over m rows of that width.

    Source: every operand crosses memory once, as in `roofline.cost.linear.pointwise`.

    Args:
        kind: ``"pointwise"`` or ``"quantize"``.
        traffic: Read and written per element of the width. [B]
    """

    def seconds(dims: Dims, machine: Machine, constants: Mapping[str, float]) -> Array:
        start, moving = parts(dims, machine, constants, traffic)
        return start + moving

    def regime(dims: Dims, machine: Machine, constants: Mapping[str, float]) -> Regimes:
        """What takes longest: start or traffic."""
        start, moving = parts(dims, machine, constants, traffic)
        return np.asarray((moving > start).astype(np.intp))

    return Form(kind, CONSTANTS, seconds, ("m", "width"), regime, EQUATION)


QUANTIZE: Final[Mapping[str, Form]] = {
    "scale_matrix": stream("quantize", 3.0),
    "computescale": stream("quantize", 2.0),
}
"""To one byte from two: elements scaled and narrowed; only their largest found."""
POINTWISE: Final[Mapping[str, Form]] = {
    "add": stream("pointwise", 6.0),
    "attn_rope": stream("pointwise", 4.0),
    "emb": stream("pointwise", 4.0),
    "input_layernorm": stream("pointwise", 4.0),
    "post_attention_layernorm": stream("pointwise", 4.0),
    "mlp_act": stream("pointwise", 6.0),
}
"""On elements of two bytes; the width of an activation function is that of its output, of which it
reads two."""
