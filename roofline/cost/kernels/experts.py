"""Calibrated time of a mixture of experts on one device: two grouped GEMMs and what is around them.

Tokens are sorted by expert, widened by a gated matrix of 2F columns (F where it is not gated),
narrowed by one of D, and summed up again. A thread block takes up to 128 rows of one expert and 128
columns. Time of a GEMM is that of one block, of all blocks over the SMs, or of the weights of the
experts touched, over the memory bandwidth.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from roofline.cost.kernels.form import Constant, Dims, Form, Machine, Regimes, Values
from roofline.cost.work import Array

COLUMNS: Final = 128
"""Columns of a tile."""
DEPTH: Final = 64
"""Of the inner dimension, that a step of a block takes."""
GATED: Final = 3.0
"""Matrices of a gated expert; one less is not gated."""


def expert_dims(
    tokens: Array,
    hidden: Array,
    inter: Array,
    active: Array,
    local: Array,
    matrices: Array,
    weight_width: Array,
    width: Array,
    *,
    rows: Array,
    touched: Array,
    tiles: Array,
    padded: Array,
) -> dict[str, Array]:
    """Columns of the form.

    Parameters
    ----------
    tokens
        Of all groups of devices: each sorts what its experts take from them. [token]
    hidden, inter
        D, and F of one device. [1]
    active, local
        Experts of a token, and those on the device. [1]
    matrices
        Of an expert, 3 where it is gated. [1]
    weight_width, width
        Bytes per weight and activation. [B]
    rows, touched, tiles, padded
        Of the device's experts, as `roofline.cost.kernels.routing.Loads`. [1]
    """
    return {
        "tokens": tokens,
        "hidden": hidden,
        "inter": inter,
        "active": active,
        "local": local,
        "matrices": matrices,
        "weight_width": weight_width,
        "width": width,
        "rows": rows,
        "touched": touched,
        "tiles": tiles,
        "padded": padded,
    }


@dataclass(frozen=True, slots=True)
class Gemm:
    """What the time of a grouped GEMM is made of: one block, all blocks, weights. [s]"""

    block: Array
    load: Array
    memory: Array

    def seconds(self, q: float) -> Array:
        """Soft maximum with exponent q. [s]"""
        longest: Array = (self.block**q + self.load**q + self.memory**q) ** (1.0 / q)
        return longest


def gemm(n: Array, k: Array, dims: Dims, machine: Machine, constants: Values) -> Gemm:
    """Grouped GEMM of N columns and depth K, over the rows of the touched experts."""
    sms = machine.multiprocessors
    per_sm = constants["compute"] * machine.flops_per_s / sms
    rows = dims["padded"] / dims["tiles"]
    step = constants["step"] + 2.0 * rows * COLUMNS * DEPTH / per_sm
    block = constants["block"] + np.ceil(k / DEPTH) * step
    load = dims["tiles"] * np.ceil(n / COLUMNS) * block / (sms * constants["together"])
    weights = dims["touched"] * n * k * dims["weight_width"]
    return Gemm(block, load, weights / (constants["memory"] * machine.hbm_bytes_per_s))


def parts(dims: Dims, machine: Machine, constants: Values) -> tuple[Gemm, Gemm, Array]:
    """Both GEMMs, and everything around them. [s]"""
    hidden, inter, wide = dims["hidden"], dims["inter"], dims["matrices"] - 1.0
    first = gemm(wide * inter, hidden, dims, machine, constants)
    second = gemm(hidden, inter, dims, machine, constants)
    permuted = dims["rows"] * (2.0 * hidden + (wide + 1.0) * inter) * dims["width"]
    ends = 2.0 * dims["tokens"] * hidden * dims["width"]
    hbm = machine.hbm_bytes_per_s
    around = (
        permuted / (constants["permute"] * hbm)
        + ends / (constants["ends"] * hbm)
        + constants["route"] * dims["tokens"] * dims["active"]
        + constants["expert"] * dims["local"]
    )
    return first, second, around


def least(dims: Dims, machine: Machine) -> tuple[Array, Array]:
    """The least that both GEMMs take at published rates. [s]"""
    hidden, wide = dims["hidden"], (dims["matrices"] - 1.0) * dims["inter"]

    def each(n: Array, k: Array) -> Array:
        moved = (
            dims["touched"] * n * k * dims["weight_width"] + dims["rows"] * (n + k) * dims["width"]
        )
        compute = 2.0 * dims["rows"] * n * k / machine.flops_per_s
        return np.maximum(compute, moved / machine.hbm_bytes_per_s)

    return each(wide, hidden), each(hidden, dims["inter"])


def seconds(dims: Dims, machine: Machine, constants: Values) -> Array:
    """Launches, both GEMMs, and what is around them, one after the other. [s]"""
    first, second, around = parts(dims, machine, constants)
    q = constants["sharpness"]
    return constants["launch"] + first.seconds(q) + second.seconds(q) + around


def regime(dims: Dims, machine: Machine, constants: Values) -> Regimes:
    """A block, all blocks, weights, or what is around the GEMMs."""
    first, second, around = parts(dims, machine, constants)
    each = [
        first.block + second.block,
        first.load + second.load,
        first.memory + second.memory,
        constants["launch"] + around,
    ]
    found: Regimes = np.argmax(np.stack(each), axis=0)
    return found


FORM: Final = Form(
    "moe",
    (
        Constant("launch", 1e-6, 1e-4, 2e-5, "s", "launches of all kernels of the operator"),
        Constant("block", 1e-8, 2e-5, 2e-6, "s", "start and end of a thread block"),
        Constant("step", 1e-9, 1e-6, 1e-7, "s", "latency of 64 of depth that no work hides"),
        Constant("compute", 0.1, 1.0, 0.6, "1", "share of the tensor rate inside a step"),
        Constant("together", 1.0, 4.0, 1.2, "1", "blocks that an SM works on at the same time"),
        Constant("memory", 0.2, 1.0, 0.8, "1", "share of memory bandwidth that weights get"),
        Constant("permute", 0.1, 1.0, 0.5, "1", "the same of sorted, widened and narrowed rows"),
        Constant("ends", 0.1, 1.0, 0.5, "1", "the same of tokens that come in and go out"),
        Constant("route", 1e-12, 1e-8, 2e-10, "s", "a choice of expert that is sorted"),
        Constant("expert", 1e-10, 1e-6, 1e-8, "s", "an expert on the device, touched or not"),
        Constant("sharpness", 1.0, 16.0, 3.0, "1", "exponent of the soft maximum"),
    ),
    seconds,
    ("tokens", "rows", "touched", "hidden", "inter"),
    regime,
    "its share of (launch + both grouped products + sorting and summing) · exp(residual)",
)
"""Grouped GEMMs over touched experts and padded rows. Source: the tiling of grouped GEMM kernels,
as in CUTLASS (https://github.com/NVIDIA/cutlass, ``examples/57_hopper_grouped_gemm``) and
MegaBlocks, Gale et al. 2022 (arXiv 2211.15841)."""
