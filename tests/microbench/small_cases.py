"""The small kernels on small shapes, against their formulas in float64."""

from collections.abc import Callable
from typing import Final

import numpy as np

from roofline.bench.gpu.kernels import (
    BLOCK,
    GROUP,
    LARGEST,
    quantise,
    quantise_blocks,
    rms_norm,
    rope,
    row_pass,
    silu_mul,
    stream,
    w4a16_gemm,
)
from roofline.bench.gpu.launch import Element
from tests.microbench.case import Case
from tests.microbench.elements import E4M3, ROUNDING, Array, nan, narrow, normal, widen

RNG: Final = np.random.default_rng
TOLERANCE: Final = 0.75
"""In largest roundings; each of these rounds its result once."""


def norm(rows: int, width: int, element: Element) -> Case:
    rng = RNG(1)
    values, weight = normal(rng, (rows, width), element), normal(rng, (width,), element)
    wide = widen(values)
    root = np.sqrt((wide**2).mean(axis=1, keepdims=True) + 1e-2)
    return Case(
        {"values": values, "weight": weight, "output": nan((rows, width), element)},
        lambda placed: rms_norm(**placed, element=element, epsilon=1e-2),
        "output",
        wide / root * widen(weight),
        TOLERANCE * ROUNDING[element],
    )


def rotary(tokens: int, count: int, head_dim: int, element: Element) -> Case:
    rng = RNG(2)
    heads = normal(rng, (tokens, count, head_dim), element)
    positions = rng.permutation(tokens + 5)[:tokens].astype(np.int32)
    angles = np.outer(np.arange(tokens + 5), 10_000.0 ** -np.linspace(0, 1, head_dim // 2))
    table = narrow(np.concatenate([np.cos(angles), np.sin(angles)], axis=1), element)
    cos, sin = np.split(widen(table)[positions][:, None], 2, axis=2)
    first, second = np.split(widen(heads), 2, axis=2)
    turned = np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=2)
    return Case(
        {"heads": heads, "cos_sin": table, "positions": positions},
        lambda placed: rope(**placed, element=element),
        "heads",
        turned,
        TOLERANCE * ROUNDING[element],
    )


def gate(rows: int, width: int, element: Element) -> Case:
    gate_up = normal(RNG(3), (rows, 2 * width), element)
    gates, ups = np.split(widen(gate_up), 2, axis=1)
    return Case(
        {"gate_up": gate_up, "output": nan((rows, width), element)},
        lambda placed: silu_mul(**placed, element=element),
        "output",
        gates / (1 + np.exp(-gates)) * ups,
        TOLERANCE * ROUNDING[element],
    )


def added(rows: int, width: int, element: Element) -> Case:
    rng = RNG(8)
    residual, update = (normal(rng, (rows, width), element) for _ in range(2))
    return Case(
        {"residual": residual, "update": update, "output": nan((rows, width), element)},
        lambda placed: row_pass("add_rows", *placed.values(), element=element),
        "output",
        widen(residual) + widen(update),
        TOLERANCE * ROUNDING[element],
    )


def taken(rows: int, width: int, element: Element) -> Case:
    rng = RNG(9)
    table = normal(rng, (3 * rows, width), element)
    tokens = rng.permutation(3 * rows)[:rows].astype(np.int32)
    return Case(
        {"table": table, "tokens": tokens, "output": nan((rows, width), element)},
        lambda placed: row_pass("take_rows", *placed.values(), element=element),
        "output",
        widen(table)[tokens],
        1e-12,
    )


def in_eight_bits(rows: int, width: int, of: str, element: Element, result: str) -> Case:
    """Rows of unlike sizes as the nearest of the numbers that 8 bits have, ties to the even one.

    The scale and its reciprocal are rounded to single precision, as they have to be anywhere.
    """
    rng = RNG(10)
    sizes = 4.0 ** np.arange(rows)[:, None]
    values = narrow(sizes * rng.standard_normal((rows, width)), element)
    wide = widen(values).astype(np.float32)
    scales = np.abs(wide).max(axis=1, keepdims=True) / np.float32(LARGEST[of])
    whole = wide * (np.float32(1.0) / scales)
    numbers = np.unique(E4M3[np.abs(E4M3) < 480.0]) if of == "fp8" else np.arange(-127.0, 128.0)
    between, middle = (numbers[:-1] + numbers[1:]) / 2.0, len(numbers) // 2
    below = np.searchsorted(between, whole, "left")
    above = np.searchsorted(between, whole, "right")
    nearest = numbers[np.where((below - middle) % 2 == 0, below, above)]
    nan_or_least = (0x7F, np.uint8) if of == "fp8" else (-128, np.int8)
    return Case(
        {
            "values": values,
            "output": np.full((rows, width), *nan_or_least),
            "scales": np.full(rows, np.nan, np.float32),
        },
        lambda placed: quantise(**placed, of=of, element=element),
        result,
        nearest if result == "output" else scales[:, 0].astype(np.float64),
        1e-9,
    )


def in_blocks(rows: int, width: int, element: Element, result: str) -> Case:
    """Blocks of 128 as a row of the narrow numbers each, the scales of a block side by side."""
    parts = in_eight_bits(rows * width // BLOCK, BLOCK, "fp8", element, result)
    values = parts.arrays["values"].reshape(rows, width)
    scales = np.full((width // BLOCK, rows + 3), np.nan, np.float32)
    expected = parts.expected.reshape(rows, -1)
    if result == "scales":
        scales[:, rows:], expected = 0.0, np.pad(expected.T, ((0, 0), (0, 3)))
    return Case(
        {"values": values, "output": np.full((rows, width), 0x7F, np.uint8), "scales": scales},
        lambda placed: quantise_blocks(**placed, element=element),
        result,
        expected,
        1e-9,
    )


def packed(weight: Array) -> Array:
    """Words of 4-bit weights, [outputs, depth / 8], in the order of the kernel's tensor cores.

    Word 4 q + w of each sixteen has the weights 32 w + 8 q + i: even ones in its low half, odd ones
    in its high half.
    """
    outputs, depth = weight.shape
    words = weight.reshape(outputs, depth // GROUP, 4, 4, 4, 2).swapaxes(2, 3)
    places = 4 * np.arange(4)[:, None] + 16 * np.arange(2)
    whole: Array = (words << places).sum(axis=(-2, -1))
    return whole.astype(np.uint32).reshape(outputs, -1)


def four_bits(
    rows: int, outputs: int, depth: int, element: Element, multiprocessors: int = 132
) -> Case:
    rng = RNG(5)
    weight = rng.integers(0, 16, (outputs, depth))
    groups = (depth // GROUP, outputs)
    scale = narrow(0.1 * rng.random(groups), element)
    zero = narrow(rng.integers(0, 16, groups).astype(np.float64), element)
    values = normal(rng, (rows, depth), element)
    whole = (weight.T - np.repeat(widen(zero), GROUP, 0)) * np.repeat(widen(scale), GROUP, 0)
    return Case(
        {
            "weight": packed(weight),
            "scale": scale,
            "zero": zero,
            "values": values,
            "output": nan((rows, outputs), element),
        },
        lambda placed: w4a16_gemm(**placed, element=element, multiprocessors=multiprocessors),
        "output",
        widen(values) @ whole,
        TOLERANCE * ROUNDING[element],
    )


def copied(chunks: int) -> Case:
    values = RNG(6).standard_normal(4 * chunks).astype(np.float32)
    return Case(
        {"values": values, "output": np.full(4 * chunks, np.nan, np.float32)},
        lambda placed: stream("copy_stream", placed["values"], placed["output"], multiprocessors=1),
        "output",
        values.astype(np.float64),
        1e-12,
    )


def read(chunks: int) -> Case:
    """Words whose parity is the one that is told; a kernel that skips a word misses it."""
    values = RNG(7).integers(0, 2**32, 4 * chunks, dtype=np.uint32)
    # One thread's share: every 2048th chunk of the grid, from its first.
    values.reshape(-1, 4)[::2048] = 0
    values[-4 * ((chunks - 1) % 2048 + 1)] = 0x12345678
    return Case(
        {"values": values, "sink": np.zeros(1, np.float32)},
        lambda placed: stream("read_stream", placed["values"], placed["sink"], multiprocessors=1),
        "sink",
        np.array([0x12345678], np.uint32).view(np.float32).astype(np.float64),
        1e-12,
    )


BUILDERS: Final[dict[str, Callable[[], Case]]] = {
    "rms norm": lambda: norm(3, 4096, "bf16"),
    "rms norm, not all threads at work": lambda: norm(2, 1000, "fp16"),
    "rms norm, widest": lambda: norm(1, 16384, "bf16"),
    "rope": lambda: rotary(3, 5, 128, "bf16"),
    "rope, several blocks per token": lambda: rotary(2, 70, 64, "fp16"),
    "silu · mul": lambda: gate(2, 1376, "bf16"),
    "silu · mul, several blocks per row": lambda: gate(2, 4104, "fp16"),
    "4-bit weights, one row": lambda: four_bits(1, 48, 1152, "bf16"),
    "4-bit weights, wide parts": lambda: four_bits(9, 192, 2176, "bf16", multiprocessors=1),
    "4-bit weights, sixteen rows": lambda: four_bits(16, 96, 9600, "fp16", multiprocessors=1),
    "4-bit weights, fewer groups than warps": lambda: four_bits(3, 32, 256, "fp16"),
    "residual": lambda: added(3, 1000, "bf16"),
    "residual, several blocks per row": lambda: added(2, 4104, "fp16"),
    "embedding": lambda: taken(3, 4104, "bf16"),
    "8-bit floats": lambda: in_eight_bits(3, 1000, "fp8", "bf16", "output"),
    "8-bit floats, widest": lambda: in_eight_bits(1, 32768, "fp8", "fp16", "output"),
    "8-bit integers": lambda: in_eight_bits(3, 5000, "int8", "bf16", "output"),
    "scales of 8 bits": lambda: in_eight_bits(2, 5000, "int8", "bf16", "scales"),
    "8-bit floats by block": lambda: in_blocks(2, 384, "fp16", "output"),
    "8-bit floats by block, several parts of a row": lambda: in_blocks(2, 2176, "bf16", "output"),
    "scales of blocks": lambda: in_blocks(3, 256, "bf16", "scales"),
    "copy": lambda: copied(10_001),
    "read": lambda: read(10_241),
}
