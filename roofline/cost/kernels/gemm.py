"""Calibrated time of a linear layer ``Y[m, n] = X[m, k] · W[k, n]``, by its number format.

    t = t0 + t_k·k + [ (F / (P·e_c))^q + (W / (BW·e_m) + A)^q ]^(1/q) + Q

Weights W come from device memory, as every layer brings others; activations A and their
quantisation Q find what the kernel before left in the last-level cache.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from roofline.cost.kernels.form import (
    Constant,
    Dims,
    Form,
    Machine,
    Trees,
    Values,
    summed,
    warm_seconds,
)
from roofline.cost.work import Array

BLOCK: Final = 128
"""Side of a weight block that shares a scale, in DeepSeek-V3's recipe."""
SCALE_WIDTH: Final = 4.0
"""Bytes of that scale."""
OUTPUT_WIDTH: Final = 2.0
"""Bytes of an element of Y, whatever the multiplier takes."""

EQUATION: Final = (
    "(start + depth·k + [(F / (compute·P))^knee + (W / (memory·BW) + A)^knee]^(1/knee)"
)
NARROWED: Final = " + quantisation"

TILES: Final = ((64, 128), (128, 128), (256, 128), (128, 256))
"""Rows and columns of Y that a multiprocessor makes at once, as libraries of kernels have them."""
HEIGHTS: Final = (16, 64, 128, 256)
"""Rows of Y that one instruction or one tile makes."""
TREES: Final = Trees(number=400, levels=8)
"""Trees of its residual: libraries choose among dozens of kernels by the sizes of a product."""
MOST_IDLE: Final = 1.0
"""Fewer tiles than half of the multiprocessors count as half: less has no last wave. [octave]"""

COMMON: Final = (
    Constant("start", 5e-7, 3e-5, 4e-6, "s", "Launch, prologue and epilogue."),
    Constant("compute", 0.3, 1.0, 0.8, "1", "Share of the dense rate that large products reach."),
    Constant("memory", 0.3, 1.0, 0.85, "1", "Share of the device memory's rate."),
    Constant("cache", 0.05, 1.0, 0.5, "1", "Share of the last-level cache's rate."),
    Constant("knee", 1.0, 8.0, 2.0, "1", "Power that joins compute and memory; 1 is no overlap."),
    Constant("depth", 1e-12, 5e-9, 2e-10, "s", "Each element of k that a tile walks through."),
)
QUANTISED: Final = Constant(
    "quantise", 0.02, 1.0, 0.3, "1", "Share of the cache's rate when activations are quantised."
)


def parts(
    dims: Dims,
    machine: Machine,
    constants: Values,
    *,
    width: float,
    stored: float,
    quantised: bool,
    output: float = OUTPUT_WIDTH,
) -> tuple[Array, Array, Array]:
    """Start with depth and quantisation, memory and compute of each row, each by itself. [s]"""
    m, n, k = dims["m"], dims["n"], dims["k"]
    compute = 2.0 * m * n * k / (constants["compute"] * machine.flops_per_s)
    weights = n * k * stored / (constants["memory"] * machine.hbm_bytes_per_s)
    moved = m * k * width + m * n * output
    activations = warm_seconds(moved, machine, constants["cache"], constants["memory"])
    start = constants["start"] + constants["depth"] * k
    if quantised:
        # The 16-bit activations are read, narrow ones written.
        narrowed = m * k * (OUTPUT_WIDTH + width)
        start = start + warm_seconds(narrowed, machine, constants["quantise"], constants["memory"])
    return start, weights + activations, compute


def waves(dims: Dims, machine: Machine) -> Array:
    """Excess of whole waves over a share of one by tile, and of whole tiles by height. [octave]

    Multiprocessors take tiles in waves: of 1.1 waves the second leaves nine tenths idle. Rows are
    taken in tiles: of 1.1 tiles the second is nine tenths empty.

    Source: NVIDIA, Matrix Multiplication Background User's Guide, section 4 (tile and wave
    quantization).

    >>> from roofline.cost.kernels.form import Machine
    >>> shape = {"m": np.array([256.0, 257.0]), "n": np.array([128.0, 128.0])}
    >>> waves(shape, Machine(1.0, 1.0, 0.0, 0.0, 2.0))[:, 1].round(3).tolist()
    [0.0, 0.415]
    """
    columns = []
    for tall, wide in TILES:
        each = np.ceil(dims["m"] / tall) * np.ceil(dims["n"] / wide) / machine.multiprocessors
        columns.append(np.minimum(np.log2(np.ceil(each) / each), MOST_IDLE))
    for tall in HEIGHTS:
        each = dims["m"] / tall
        columns.append(np.minimum(np.log2(np.ceil(each) / each), MOST_IDLE))
    return np.stack(columns, axis=-1)


def linear(
    width: float,
    *,
    stored: float | None = None,
    quantised: bool = False,
    output: float = OUTPUT_WIDTH,
) -> Form:
    """Form of linear layers that multiply elements of that width.

    Source: Williams, Waterman and Patterson 2009, Roofline, with a smooth knee (p-norm).

    Args:
        width: Bytes per element of X as it is multiplied. [B]
        stored: The same of W as it is stored, scales included; as X if not stated. [B]
        quantised: Whether the time includes bringing 16-bit activations to that width.
        output: Bytes per element of Y. [B]
    """
    weight = width if stored is None else stored

    operands = partial(parts, width=width, stored=weight, output=output, quantised=quantised)
    constants = (*COMMON, QUANTISED) if quantised else COMMON
    equation = f"{EQUATION}{NARROWED * quantised}) · exp(residual)"
    return summed("gemm", constants, operands, ("m", "n", "k"), equation, "knee", waves, TREES)


SCALED_EIGHT: Final = 1.0 + SCALE_WIDTH / BLOCK**2
"""Bytes of an 8-bit weight with its share of a block's scale. [B]"""
SCALED_FOUR: Final = 0.5 + 1.0 / 16.0
"""Bytes of a 4-bit element with an 8-bit scale for each 16, as NVFP4 has it. [B]"""
GROUPED_FOUR: Final = 0.5 + 2.0 / 128.0
"""Bytes of a 4-bit weight with a 16-bit scale for each 128. [B]"""


class Product(NamedTuple):
    """Operands of a measured linear layer."""

    width: float
    stored: float
    """Bytes per element of X as it is multiplied, and of W as it is stored, with scales. [B]"""
    arithmetic: str
    """The device's arithmetic that it takes."""
    quantised: bool = False
    """True where bringing 16-bit activations to that width is part of the time."""

    @property
    def form(self) -> Form:
        """Its equation."""
        return linear(self.width, stored=self.stored, quantised=self.quantised)


PRODUCTS: Final[Mapping[str, Product]] = {
    "bfloat16": Product(2.0, 2.0, "bf16"),
    "float16": Product(2.0, 2.0, "fp16"),
    "fp8": Product(1.0, 1.0, "fp8", quantised=True),
    "fp8_static": Product(1.0, 1.0, "fp8"),
    "fp8_block": Product(1.0, SCALED_EIGHT, "fp8", quantised=True),
    "nvfp4": Product(SCALED_FOUR, SCALED_FOUR, "fp4", quantised=True),
    "int8_wo": Product(2.0, 1.0, "bf16"),
    "int4_wo": Product(2.0, GROUPED_FOUR, "bf16"),
    "sq": Product(1.0, 1.0, "int8", quantised=True),
}
"""Products by number format as sources call it. ``fp8`` has one scale per tensor, ``fp8_block`` one
per block, ``fp8_static`` scales that are known before; ``…_wo`` narrow weights only; ``sq`` is
SmoothQuant in int8."""
GEMM: Final[Mapping[str, Form]] = {name: product.form for name, product in PRODUCTS.items()}
