"""Two-byte elements in NumPy, which has no bfloat16: its bits are kept as uint16."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.bench.gpu.launch import Element

Array: TypeAlias = NDArray[Any]

ROUNDING = {"bf16": 2.0**-8, "fp16": 2.0**-11}
"""Largest relative error of one rounding."""


_SIZES = [m * 2.0**-9 if e == 0 else (8 + m) * 2.0 ** (e - 10) for e in range(16) for m in range(8)]
E4M3 = np.array([*_SIZES, *(-size for size in _SIZES)])
"""Numbers of the 8-bit floats, by their bits; the last of either sign stands for NaN."""


def narrow(values: Array, element: Element) -> Array:
    """Values as elements, rounded to nearest even."""
    if element == "fp16":
        return values.astype(np.float16)
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def widen(elements: Array) -> Array:
    """Elements as float64."""
    if elements.dtype in (np.float16, np.int8):
        return elements.astype(np.float64)
    if elements.dtype == np.uint8:
        return E4M3[elements]
    return (elements.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def normal(rng: np.random.Generator, shape: tuple[int, ...], element: Element) -> Array:
    return narrow(rng.standard_normal(shape), element)


def nan(shape: tuple[int, ...], element: Element) -> Array:
    """Room for a result, of NaN: what is not written is noticed."""
    return narrow(np.full(shape, np.nan), element)
