"""Launches of the small kernels of a layer: norms, rotations, gates, sums, embeddings, casts."""

from typing import Final

import numpy as np

from roofline.bench.gpu.launch import WARP, Array, Element, Launch, ceil_div, program
from roofline.errors import InputError

THREADS: Final = 256
CHUNK: Final = 8
"""Elements of a 16-byte access."""
WIDEST_NORM: Final = THREADS * CHUNK * 8
"""Elements of a row that a block of the norm keeps in registers."""
QUANTISE_THREADS: Final = 512
WIDEST_QUANTISED: Final = QUANTISE_THREADS * CHUNK * 8
"""The same of the conversion to 8 bits."""
LARGEST: Final = {"fp8": 448, "int8": 127}
"""Magnitude that the largest of a row has in 8 bits, by their type."""


def rms_norm(
    values: Array, weight: Array, output: Array, *, element: Element, epsilon: float = 1e-5
) -> tuple[Launch, ...]:
    """Launch for ``values / sqrt(mean(values²) + ε) · weight`` by rows of [rows, width].

    Raises:
        InputError: If the width is no multiple of 8, or wider than a block holds.
    """
    rows, width = values.shape
    _divides(CHUNK, width)
    if width > WIDEST_NORM:
        raise InputError(
            f"rows of {width} elements do not stay in a block",
            hint=f"take at most {WIDEST_NORM} elements",
        )
    return (
        Launch(
            program("rms_norm", element, {"THREADS": THREADS}),
            "rms_norm",
            (rows, 1, 1),
            THREADS,
            THREADS // WARP * 4,
            (values, weight, output, np.int32(width), np.float32(epsilon)),
        ),
    )


def rope(heads: Array, cos_sin: Array, positions: Array, *, element: Element) -> tuple[Launch, ...]:
    """Launch that turns [tokens, heads, head width] in place.

    Args:
        cos_sin: Cosines, then sines, of each position: [positions, head width].
        positions: Of each token, int32. [token]

    Raises:
        InputError: If half a head is no multiple of 8.
    """
    tokens, count, head_dim = heads.shape
    _divides(2 * CHUNK, head_dim)
    return (
        Launch(
            program("rope", element, {"THREADS": THREADS, "HEAD_DIM": head_dim}),
            "rope",
            (tokens, ceil_div(count * head_dim // (2 * CHUNK), THREADS), 1),
            THREADS,
            0,
            (heads, cos_sin, positions, np.int32(count)),
        ),
    )


def silu_mul(gate_up: Array, output: Array, *, element: Element) -> tuple[Launch, ...]:
    """Launch for ``silu(gate) · up``: [rows, 2 · width] to [rows, width].

    Raises:
        InputError: If the width is no multiple of 8.
    """
    rows, width = output.shape
    _divides(CHUNK, width)
    return (
        Launch(
            program("silu_mul", element, {"THREADS": THREADS}),
            "silu_mul",
            (rows, ceil_div(width // CHUNK, THREADS), 1),
            THREADS,
            0,
            (gate_up, output, np.int32(width)),
        ),
    )


def add_rows(
    residual: Array, update: Array, output: Array, *, element: Element
) -> tuple[Launch, ...]:
    """Launch for ``residual + update`` by rows of [rows, width].

    Raises:
        InputError: If the width is no multiple of 8.
    """
    return (_rows("add_rows", output, element, residual, update),)


def take_rows(
    table: Array, tokens: Array, output: Array, *, element: Element
) -> tuple[Launch, ...]:
    """Launch for ``table[tokens]``: the embedding of tokens, int32, in [rows, width].

    Raises:
        InputError: If the width is no multiple of 8.
    """
    return (_rows("take_rows", output, element, table, tokens),)


def _rows(kernel: str, output: Array, element: Element, *arrays: Array) -> Launch:
    rows, width = output.shape
    _divides(CHUNK, width)
    return Launch(
        program("rows", element, {"THREADS": THREADS}),
        kernel,
        (rows, ceil_div(width // CHUNK, THREADS), 1),
        THREADS,
        0,
        (*arrays, output, np.int32(width)),
    )


def quantise(
    values: Array, output: Array, scales: Array, *, of: str, element: Element
) -> tuple[Launch, ...]:
    """Launch that narrows rows of [rows, width] to 8 bits, with a float32 scale for each row.

    Args:
        of: Type of the 8 bits: ``"fp8"`` (from compute capability 8.9 on) or ``"int8"``.

    Raises:
        InputError: If the width is no multiple of 8, or wider than a block holds.
    """
    rows, width = values.shape
    _divides(CHUNK, width)
    if width > WIDEST_QUANTISED:
        raise InputError(
            f"rows of {width} elements do not stay in a block",
            hint=f"take at most {WIDEST_QUANTISED} elements",
        )
    constants = {"THREADS": QUANTISE_THREADS, "WHOLE": int(of == "int8"), "LARGEST": LARGEST[of]}
    return (
        Launch(
            program("quantise", element, constants),
            "quantise",
            (rows, 1, 1),
            QUANTISE_THREADS,
            QUANTISE_THREADS // WARP * 4,
            (values, output, scales, np.int32(width)),
        ),
    )


def _divides(unit: int, width: int) -> None:
    if width % unit:
        raise InputError(
            f"a width of {width} elements is not served", hint=f"take a multiple of {unit}"
        )
