"""Two-byte elements in NumPy, which has no bfloat16: its bits are kept as uint16."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.bench.gpu.launch import Element

Array: TypeAlias = NDArray[Any]

ROUNDING = {"bf16": 2.0**-8, "fp16": 2.0**-11}
"""Largest relative error of one rounding."""


def narrow(values: Array, element: Element) -> Array:
    """Values as elements, rounded to nearest even."""
    if element == "fp16":
        return values.astype(np.float16)
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def widen(elements: Array) -> Array:
    """Elements as float64."""
    if elements.dtype == np.float16:
        return elements.astype(np.float64)
    return (elements.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def normal(rng: np.random.Generator, shape: tuple[int, ...], element: Element) -> Array:
    return narrow(rng.standard_normal(shape), element)


def nan(shape: tuple[int, ...], element: Element) -> Array:
    """Room for a result, of NaN: what is not written is noticed."""
    return narrow(np.full(shape, np.nan), element)
