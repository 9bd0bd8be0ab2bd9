"""Launch of the 4-bit weight-only product of few rows, as in decoding."""

from typing import Final

import numpy as np

from roofline.bench.gpu.launch import WARP, Array, Element, Launch, ceil_div, program
from roofline.errors import InputError

GROUP: Final = 128
"""Weights that share a scale and a zero point."""
MOST_ROWS: Final = 4
WARPS: Final = 4
OUTPUTS: Final = 4
"""Outputs of a warp: the input is read once for all of them."""


def w4a16_gemv(
    weight: Array, scale: Array, zero: Array, values: Array, output: Array, *, element: Element
) -> tuple[Launch, ...]:
    """Launch for ``values @ ((weight - zero) · scale).T``.

    Args:
        weight: Eight 4-bit weights per uint32, the first in the lowest bits: [outputs, depth / 8].
        scale, zero: Of each group of 128 weights: [outputs, depth / 128].
        values, output: Of shape [rows, depth] and [rows, outputs], at most 4 rows.

    Raises:
        InputError: If the kernel does not serve the shape.
    """
    rows, depth = values.shape
    outputs = output.shape[1]
    if rows > MOST_ROWS or depth % GROUP:
        raise InputError(
            f"{rows} rows of {depth} elements are not served",
            hint=f"take at most {MOST_ROWS} rows, and a multiple of {GROUP} elements",
        )
    constants = {"ROWS": rows, "GROUP": GROUP, "WARPS": WARPS, "OUTPUTS": OUTPUTS}
    return (
        Launch(
            program("w4a16_gemv", element, constants),
            "w4a16_gemv",
            (ceil_div(outputs, WARPS * OUTPUTS), 1, 1),
            WARPS * WARP,
            0,
            (weight, scale, zero, values, output, np.int32(outputs), np.int32(depth)),
        ),
    )
