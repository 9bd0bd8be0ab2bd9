"""Calibrated time of a mixture of experts on one device: two grouped GEMMs and what is around them.

Tokens are sorted by expert, widened by a gated matrix of 2F columns (F where it is not gated),
narrowed by one of D, and summed up again. A thread block takes some rows of one expert, up to the
height of its tile, and 128 columns. Time of a GEMM is that of one block, of all blocks over the
SMs, or of the weights of the experts touched, over the bandwidth of what they come from.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias

import numpy as np

from roofline.cost.kernels.form import (
    OVERLAP,
    Dims,
    Form,
    FormConstant,
    Machine,
    Regimes,
    Values,
    cache_bytes_per_s,
    computed_once,
    longest,
    soft_maximum,
)
from roofline.cost.work import Array

HEIGHTS: Final = (8, 16, 32, 64, 128, 256)
"""Rows of a tile that kernels choose among."""
LEAST: Final = 16
"""Rows that the tensor cores round up to."""
COLUMNS: Final = 128
DEPTH: Final = 64
"""Columns of a tile, and numbers of the inner dimension that a step of a block takes."""
GATED: Final = 3.0
"""Matrices of a gated expert; one less is not gated."""
TALLEST: Final[Mapping[bool, float]] = {True: 64.0, False: 128.0}
"""Highest tile, by whether narrow weights are widened to 16 bits inside the kernel."""
MIXED: Final = 256.0
"""Highest tile where 8-bit activations meet 4-bit weights (MXFP8 × MXFP4)."""
HOST: Final = 4
"""Regime of rows that the host's launches take."""


def tallest(weight_bits: float, activation_bits: float) -> float:
    """Rows of the highest tile that kernels of these formats have. [1]

    Source: ``block_size_m`` of Marlin (vLLM ``fused_marlin_moe.py``: 8 to 64), and
    ``mSupportedTileN`` of the runners of TensorRT-LLM (``thop/fp4BlockScaleMoe.cpp``,
    ``mxFp4BlockScaleMoe.cpp``: up to 128, of MXFP8 × MXFP4 up to 256).

    >>> tallest(4, 16), tallest(4, 4), tallest(4, 8)
    (64.0, 128.0, 256.0)
    """
    if weight_bits < 8 and activation_bits == 8:
        return MIXED
    return TALLEST[weight_bits < activation_bits]


def expert_dims(shape: Dims, tiles: Mapping[int, Array]) -> dict[str, Array]:
    """Columns of the form: a shape, and what follows from it.

    The height is the power of two at or above the rows that each expert on the device would have
    if every token chose only among those: kernels pick it before they know the loads. Source:
    ``computeSelectedTileN`` of TensorRT-LLM and ``calculate_tile_tokens_dim`` of FlashInfer
    (``num_tokens * top_k / num_local_experts``); Marlin and Triton's matmul_ogs do alike.

    Args:
        shape: ``tokens`` of all groups of devices: each sorts what its experts take from them
            [token]; ``hidden`` D and ``inter`` F of one device, ``active`` experts of a token and
            those ``local`` to the device, ``matrices`` of an expert, 3 where it is gated [1];
            bytes per weight, ``weight_width``, and activation, ``width`` [B]; rows of the
            ``highest`` tile of the kernel, as `tallest`; ``rows`` and experts ``touched`` of the
            device, as `roofline.cost.kernels.routing.Loads` [1].
        tiles: Tiles of each of `HEIGHTS`, the last one of each expert part full. [1]
    """
    expected = np.maximum(shape["tokens"] * shape["active"] / shape["local"], 1.0)
    height = np.clip(2.0 ** np.ceil(np.log2(expected)), HEIGHTS[0], shape["highest"])
    place = np.searchsorted(HEIGHTS, height)
    return {
        **shape,
        "each": shape["rows"] / shape["touched"],
        "height": height,
        "tiles": np.choose(place, np.broadcast_arrays(*(tiles[each] for each in HEIGHTS))),
        "padded": LEAST * tiles[LEAST],
    }


Gemm: TypeAlias = tuple[Array, Array, Array]
"""Times of a grouped GEMM that its soft maximum joins: one block, all blocks, weights. [s]"""


def kept(dims: Dims, machine: Machine, constants: Values) -> Array:
    """Share of the weights that a repeated call finds in the last-level cache. [1]

    All that fits; what is twice as large evicts itself before it is used again.
    """
    weights = dims["touched"] * dims["matrices"] * dims["hidden"] * dims["inter"]
    room = constants["resident"] * machine.l2_bytes
    fitted: Array = np.clip(2.0 * room - weights * dims["weight_width"], 0.0, room)
    return fitted / room if machine.l2_bytes else fitted


def gemm(n: Array, k: Array, dims: Dims, machine: Machine, constants: Values) -> Gemm:
    """Grouped GEMM of N columns and depth K, over the rows of the touched experts."""
    sms = machine.multiprocessors
    per_sm = constants["compute"] * machine.flops_per_s / sms
    filled = np.minimum(dims["padded"] / dims["tiles"], dims["height"])
    rows = filled + constants["empty"] * (dims["height"] - filled)
    step = constants["step"] + 2.0 * rows * COLUMNS * DEPTH / per_sm
    block = constants["block"] + np.ceil(k / DEPTH) * step
    load = dims["tiles"] * np.ceil(n / COLUMNS) * block / (sms * constants["together"])
    weights, near = dims["touched"] * n * k * dims["weight_width"], kept(dims, machine, constants)
    memory = weights * (1.0 - near) / (constants["memory"] * machine.hbm_bytes_per_s)
    cache = weights * near / (constants["cache"] * cache_bytes_per_s(machine))
    return block, load, memory + cache


@computed_once
def parts(dims: Dims, machine: Machine, constants: Values) -> tuple[Gemm, Gemm, Array]:
    """Both GEMMs, and everything around them. [s]"""
    hidden, inter, wide = dims["hidden"], dims["inter"], dims["matrices"] - 1.0
    first = gemm(wide * inter, hidden, dims, machine, constants)
    second = gemm(hidden, inter, dims, machine, constants)
    choices = dims["tokens"] * dims["active"]
    passed = dims["rows"] + constants["elsewhere"] * np.maximum(choices - dims["rows"], 0.0)
    permuted = passed * (2.0 * hidden + (wide + 1.0) * inter) * dims["width"]
    ends = 2.0 * dims["tokens"] * hidden * dims["width"]
    hbm = machine.hbm_bytes_per_s
    around = (
        permuted / (constants["permute"] * hbm)
        + ends / (constants["ends"] * hbm)
        + constants["route"] * choices
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


def of_part(part: str, time: Array, dims: Dims, machine: Machine, constants: Values) -> Array:
    """Time of one of the matrices of a fused mixture, or of what is around them. [s]

    A matrix takes no less than the published rates allow; what is more than that of both is shared
    out as the terms of the form exceed it, with half of the launches each. Source: arithmetic;
    terms of a fit that are alike in shape trade places, their sum does not.

    Args:
        part: ``"first"`` or ``"second"`` matrix, ``"around"`` them, or ``"none"``.
        time: Time of the whole. [s]
        dims, machine, constants: Columns, device, and values of the fit.
    """
    if part == "none":
        return np.zeros(len(dims["rows"]))
    first, second, around = parts(dims, machine, constants)
    q, launch = constants["sharpness"], constants["launch"]
    most = dict(zip(("first", "second"), least(dims, machine), strict=True))
    both = most["first"] + most["second"]
    beyond = {
        "first": np.maximum(launch / 2 + soft_maximum(q, *first) - most["first"], 0.0),
        "second": np.maximum(launch / 2 + soft_maximum(q, *second) - most["second"], 0.0),
        "around": around,
    }
    rest = np.maximum(time - both, 0.0)
    shared: Array = rest * beyond[part] / (beyond["first"] + beyond["second"] + beyond["around"])
    return shared + most.get(part, 0.0)


def seconds(dims: Dims, machine: Machine, constants: Values) -> Array:
    """Launches, both GEMMs, and what is around them, one after the other. [s]"""
    first, second, around = parts(dims, machine, constants)
    q = constants["sharpness"]
    return constants["launch"] + soft_maximum(q, *first) + soft_maximum(q, *second) + around


def regime(dims: Dims, machine: Machine, constants: Values) -> Regimes:
    """Longest of a block, all blocks, weights, and what is around the GEMMs."""
    first, second, around = parts(dims, machine, constants)
    both = (one + other for one, other in zip(first, second, strict=True))
    return longest(*both, constants["launch"] + around)


CONSTANTS: Final = (
    FormConstant("launch", 1e-6, 1e-4, 2e-5, "s", "launches of all kernels of the operator"),
    FormConstant("block", 1e-8, 2e-5, 2e-6, "s", "start and end of a thread block"),
    FormConstant("step", 1e-9, 1e-6, 1e-7, "s", "latency of 64 of depth that no work hides"),
    FormConstant("compute", 0.1, 1.0, 0.6, "1", "share of the tensor rate inside a step"),
    FormConstant("empty", 0.01, 1.0, 0.3, "1", "share of the empty rows of a tile that take time"),
    FormConstant("together", 1.0, 4.0, 1.2, "1", "blocks that an SM works on at the same time"),
    FormConstant("memory", 0.2, 1.0, 0.8, "1", "share of memory bandwidth that weights get"),
    FormConstant("cache", 0.05, 1.0, 0.4, "1", "the same of the last-level cache's bandwidth"),
    FormConstant("resident", 0.05, 1.0, 0.5, "1", "share of that cache that weights can fill"),
    FormConstant("permute", 0.1, 1.0, 0.5, "1", "memory's share of sorted and widened rows"),
    FormConstant("elsewhere", 1e-3, 1.0, 0.05, "1", "share of other devices' rows passed over too"),
    FormConstant("ends", 0.1, 1.0, 0.5, "1", "memory's share of tokens that come in and go out"),
    FormConstant("route", 1e-12, 1e-8, 2e-10, "s", "a choice of expert that is sorted"),
    FormConstant("expert", 1e-10, 1e-6, 1e-8, "s", "an expert on the device, touched or not"),
    FormConstant("sharpness", 1.0, 16.0, 3.0, "1", "exponent of the soft maximum"),
)
EQUATION: Final = (
    "its share of (launch + both grouped products + sorting and summing) · exp(residual)"
)
FORM: Final = Form(
    "moe", CONSTANTS, seconds, ("tokens", "each", "touched", "hidden", "inter"), regime, EQUATION
)
"""Grouped GEMMs over touched experts and padded rows. Source: the tiling of grouped GEMM kernels,
as in CUTLASS (https://github.com/NVIDIA/cutlass, ``examples/57_hopper_grouped_gemm``) and
MegaBlocks, Gale et al. 2022 (arXiv 2211.15841)."""


def eager_seconds(dims: Dims, machine: Machine, constants: Values) -> Array:
    """Time of the device, or of the host that launches its kernels one by one. [s]"""
    return soft_maximum(OVERLAP, seconds(dims, machine, constants), constants["host"])


def eager_regime(dims: Dims, machine: Machine, constants: Values) -> Regimes:
    """`regime` of the device, or the host."""
    waits = seconds(dims, machine, constants) < constants["host"]
    return np.where(waits, HOST, regime(dims, machine, constants))


EAGER: Final = Form(
    "moe",
    (
        *CONSTANTS,
        FormConstant("host", 1e-5, 2e-3, 3e-4, "s", "launches of the host, outside a graph"),
    ),
    eager_seconds,
    FORM.coordinates,
    eager_regime,
    "the larger of (its time in a graph) and the host's launches · exp(residual)",
)
"""Experts of a prefill, outside a CUDA graph."""


def mega_seconds(dims: Dims, machine: Machine, constants: Values) -> Array:
    """Launch, then experts and links at the same time: the larger of both. [s]"""
    alone = seconds(dims, machine, constants) - constants["launch"]
    links = dims["exchanged"] / (constants["link"] * dims["bytes_per_s"])
    return constants["launch"] + soft_maximum(OVERLAP, alone, links)


MEGA: Final = Form(
    "moe-mega",
    (
        *CONSTANTS,
        FormConstant("link", 0.05, 1.0, 0.6, "1", "share of the link's rate in a direction"),
    ),
    mega_seconds,
    FORM.coordinates,
    regime,
    "(launch + the larger of experts and links) · exp(residual)",
)
"""Dispatch, experts and combination in one kernel; columns ``exchanged`` [B] and ``bytes_per_s``
beside the others. Source: ``fp8_fp4_mega_moe`` of DeepGEMM
(https://github.com/deepseek-ai/DeepGEMM)."""
