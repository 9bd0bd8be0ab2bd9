"""Calibrated time of a linear layer ``Y[m, n] = X[m, k] · W[k, n]``, by its number format.

    t = t0 + t_k·k + [ (F / (P·e_c))^q + (W / (BW·e_m) + A)^q ]^(1/q) + Q

Weights W come from device memory, as every layer brings others; activations A and their
quantisation Q find what the kernel before left in the last-level cache. Two kinds of measurements
differ from a step, and have forms of their own: products launched one by one, whose host may take
longer than the device (`eager`), and products that take few copies of their weights in turn, which
a large cache holds (`Copies`).
"""

from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from roofline.cost.kernels.form import (
    OVERLAP,
    Dims,
    Form,
    FormConstant,
    Machine,
    Regimes,
    Trees,
    Values,
    cached_traffic_time,
    soft_maximum,
    summed,
    warm_seconds,
)
from roofline.cost.work import Array
from roofline.records import replace

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
TREES: Final = Trees(number=400, levels=7, paired=True)
"""Trees of its residual: libraries choose among dozens of kernels by the sizes of a product."""
MOST_IDLE: Final = 1.0
"""Fewer tiles than half of the multiprocessors count as half: less has no last wave. [octave]"""

COMMON: Final = (
    FormConstant("start", 5e-7, 3e-5, 4e-6, "s", "Launch, prologue and epilogue."),
    FormConstant(
        "compute", 0.3, 1.0, 0.8, "1", "Share of the dense rate that large products reach."
    ),
    FormConstant("memory", 0.3, 1.0, 0.85, "1", "Share of the device memory's rate."),
    FormConstant("cache", 0.05, 1.0, 0.5, "1", "Share of the last-level cache's rate."),
    FormConstant(
        "knee", 1.0, 8.0, 2.0, "1", "Power that joins compute and memory; 1 is no overlap."
    ),
    FormConstant("depth", 1e-12, 5e-9, 2e-10, "s", "Each element of k that a tile walks through."),
)
QUANTISED: Final = FormConstant(
    "quantise", 0.02, 1.0, 0.3, "1", "Share of the cache's rate when activations are quantised."
)
CYCLE: Final = (
    FormConstant(
        "held", 0.1, 1.5, 0.9, "1", "Share of the cache that holds copies of the weights."
    ),
    FormConstant("sharp", 2.0, 64.0, 8.0, "1", "Exponent with which it stops holding them."),
)
LAUNCHES: Final = (
    FormConstant("host", 1e-5, 2e-3, 2e-4, "s", "Launches of the host, outside a graph."),
    FormConstant("uneven", 1e-7, 1e-3, 2e-5, "s", "Further ones where tokens are not aligned."),
)
ALIGNED: Final = 4.0
"""Tokens whose scales, of 4 bytes, fill the 16 bytes that rows of a tensor map are aligned to.
Source: CUDA Driver API, cuTensorMapEncodeTiled, globalStrides."""
HOST: Final = 3
"""Regime of rows that wait for the host: those of `parts` are 0 to 2."""


def parts(
    dims: Dims,
    machine: Machine,
    constants: Values,
    *,
    width: float,
    stored: float,
    quantised: bool,
    output: float = OUTPUT_WIDTH,
    copies: "Copies | None" = None,
) -> tuple[Array, Array, Array]:
    """Start with depth and quantisation, memory and compute of each row, each by itself. [s]"""
    m, n, k = dims["m"], dims["n"], dims["k"]
    compute = 2.0 * m * n * k / (constants["compute"] * machine.flops_per_s)
    moved = m * k * width + m * n * output
    if copies is None:
        weights = n * k * stored / (constants["memory"] * machine.hbm_bytes_per_s)
    else:
        between = copies.bytes(n * k * stored, machine) + moved
        weights = cached_traffic_time(
            n * k * stored, between, machine, constants, constants["sharp"]
        )
    activations = warm_seconds(moved, machine, constants["cache"], constants["memory"])
    start = constants["start"] + constants["depth"] * k
    if quantised:
        # The 16-bit activations are read, narrow ones written.
        narrowed = m * k * (OUTPUT_WIDTH + width)
        start = start + warm_seconds(narrowed, machine, constants["quantise"], constants["memory"])
    return start, weights + activations, compute


class Copies(NamedTuple):
    """Copies of its weights that a benchmark multiplies by in turn."""

    most: float
    """Number of them. [1]"""
    filling: bool
    """True where no more are taken than it needs to fill the last-level cache."""

    def bytes(self, weights: Array, machine: Machine) -> Array:
        """Bytes of all copies, which are read before one of them is used again. [B]

        >>> gpu = Machine(1e15, 2e12, 5e7, 1e13, 132)
        >>> Copies(5.0, filling=True).bytes(np.array([4e6, 2e7]), gpu).tolist()
        [20000000.0, 60000000.0]
        """
        number: Array | float = self.most
        if self.filling:
            number = np.minimum(number, np.ceil(machine.l2_bytes / weights))
        return weights * number


def waves(dims: Dims, machine: Machine) -> Array:
    """Excess of whole waves over a share of one by tile, and of whole tiles by height. [octave]

    Multiprocessors take tiles in waves: of 1.1 waves the second leaves nine tenths idle. Rows are
    taken in tiles: of 1.1 tiles the second is nine tenths empty.

    Source: NVIDIA, Matrix Multiplication Background User's Guide, section 4 (tile and wave
    quantization).

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
    copies: Copies | None = None,
) -> Form:
    """Form of linear layers that multiply elements of that width.

    Source: Williams, Waterman and Patterson 2009, Roofline, with a smooth knee (p-norm).

    Args:
        width: Bytes per element of X as it is multiplied. [B]
        stored: The same of W as it is stored, scales included; as X if not stated. [B]
        quantised: Whether the time includes bringing 16-bit activations to that width.
        output: Bytes per element of Y. [B]
        copies: Of the weights, where the last-level cache may hold them; None where they come from
            device memory.
    """
    weight = width if stored is None else stored

    operands = partial(
        parts, width=width, stored=weight, output=output, quantised=quantised, copies=copies
    )
    constants = (*COMMON, QUANTISED) if quantised else COMMON
    if copies is not None:
        constants = (*constants, *CYCLE)
    equation = f"{EQUATION}{NARROWED * quantised}) · exp(residual)"
    form = summed("gemm", constants, operands, ("m", "n", "k"), equation, "knee", waves, TREES)
    if copies is None:
        return form
    cold = linear(width, stored=stored, quantised=quantised, output=output)
    return replace(form, in_steps=cold)


def eager(form: Form) -> Form:
    """Form of products that were launched one by one: the host, or the device if it takes longer.

    Where tokens are no multiple of `ALIGNED`, scales are padded by launches of their own, unless
    each token has a single one.

    Args:
        form: Of the same products inside a graph.
    """

    def host(dims: Dims, constants: Values) -> Array:
        uneven = (dims["m"] % ALIGNED > 0.0) & (dims["k"] > BLOCK)
        return constants["host"] + constants["uneven"] * uneven.astype(np.float64)

    def seconds(dims: Dims, machine: Machine, constants: Values) -> Array:
        device = form.seconds(dims, machine, constants)
        return soft_maximum(OVERLAP, host(dims, constants), device)

    def regime(dims: Dims, machine: Machine, constants: Values) -> Regimes:
        waits = form.seconds(dims, machine, constants) < host(dims, constants)
        found: Regimes = np.where(waits, HOST, form.regime(dims, machine, constants))
        return found

    return replace(
        form,
        constants=(*form.constants, *LAUNCHES),
        seconds=seconds,
        regime=regime,
        equation=f"the larger of the host's launches and {form.equation}",
    )


SCALED_EIGHT: Final = 1.0 + SCALE_WIDTH / BLOCK**2
"""Bytes of an 8-bit weight with its share of a block's scale. [B]"""
SCALED_FOUR: Final = 0.5 + 1.0 / 16.0
"""Bytes of a 4-bit element with an 8-bit scale for each 16, as NVFP4 has it. [B]"""
GROUPED_FOUR: Final = 0.5 + 2.0 / 128.0
"""Bytes of a 4-bit weight with a 16-bit scale for each 128. [B]"""


class ProductOperands(NamedTuple):
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
        return self.cycled(None)

    def cycled(self, copies: Copies | None) -> Form:
        """The same where a benchmark takes copies of the weights in turn."""
        return linear(self.width, stored=self.stored, quantised=self.quantised, copies=copies)


PRODUCTS: Final[Mapping[str, ProductOperands]] = {
    "bfloat16": ProductOperands(2.0, 2.0, "bf16"),
    "float16": ProductOperands(2.0, 2.0, "fp16"),
    "fp8": ProductOperands(1.0, 1.0, "fp8", quantised=True),
    "fp8_static": ProductOperands(1.0, 1.0, "fp8"),
    "fp8_block": ProductOperands(1.0, SCALED_EIGHT, "fp8", quantised=True),
    "nvfp4": ProductOperands(SCALED_FOUR, SCALED_FOUR, "fp4", quantised=True),
    "int8_wo": ProductOperands(2.0, 1.0, "bf16"),
    "int4_wo": ProductOperands(2.0, GROUPED_FOUR, "bf16"),
    "sq": ProductOperands(1.0, 1.0, "int8", quantised=True),
}
"""Products by number format as sources call it. ``fp8`` has one scale per tensor, ``fp8_block`` one
per block, ``fp8_static`` scales that are known before; ``…_wo`` narrow weights only; ``sq`` is
SmoothQuant in int8."""
GEMM: Final[Mapping[str, Form]] = {name: product.form for name, product in PRODUCTS.items()}
COPIES: Final[Mapping[str, Copies]] = {
    "filling": Copies(5.0, filling=True),
    "cycled": Copies(6.0, filling=False),
}
"""Copies of the weights in benchmarks, inferred from rows of an L40S with 96 MiB of cache and 0.86
TB/s of memory: TensorRT-LLM's three copies of 33.6 MB, which just fit, are read at 2 TB/s, four of
29.4 MB at 0.6; vLLM's and SGLang's at more than 1 TB/s up to 15 MB."""
CYCLED: Final[Mapping[str, Mapping[str, Form]]] = {
    name: {dtype: product.cycled(copies) for dtype, product in PRODUCTS.items()}
    for name, copies in COPIES.items()
}
"""Forms of products in `GEMM` whose benchmark takes copies of its weights, by number format."""
EAGER: Final[Mapping[str, Form]] = {"fp8_block": eager(GEMM["fp8_block"])}
"""Forms of products that were launched one by one: vLLM's of blocks."""
