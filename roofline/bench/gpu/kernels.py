"""Launches of the small kernels: norms, rotations, gates, sums, embeddings, casts, 4-bit products.

Also those that read and copy memory, and one that does nothing.
"""

from math import prod
from typing import Final, Literal

import numpy as np

from roofline.bench.gpu.launch import WARP, Array, Element, Launch, ceil_div, program
from roofline.errors import InputError

CHUNK: Final = 8
"""Elements of a 16-byte access."""
HELD: Final = 8 * CHUNK
"""Elements of a row that a thread keeps in registers."""
THREADS: Final = 256
QUANTISE_THREADS: Final = 512
LARGEST: Final = {"fp8": 448, "int8": 127}
"""Magnitude that the largest of a row has in 8 bits, by their type."""
BLOCK: Final = 128
"""Elements of a row that share a scale where rows have several."""
GROUP: Final = 128
"""Weights of 4 bits that share a scale and a zero point."""
TILE: Final = 16
COLUMN: Final = 8
"""Outputs and rows of a product of the tensor cores."""
MOST_ROWS: Final = 2 * COLUMN
WARPS: Final = 8
STAGES: Final = {1: 4, 2: 3}
"""Groups that a warp has under way, by tiles of outputs of a block: the fastest on an H100."""
STREAM_THREADS: Final = 512
BLOCKS: Final = 4
"""Blocks per multiprocessor: all threads that it holds."""
_BANDWIDTH: Final = program("bandwidth", "bf16", {"THREADS": STREAM_THREADS})


def rms_norm(
    values: Array, weight: Array, output: Array, *, element: Element, epsilon: float = 1e-5
) -> tuple[Launch, ...]:
    """Launch for ``values / sqrt(mean(values²) + ε) · weight`` by rows of [rows, width].

    Raises:
        InputError: If the width is no multiple of 8, or wider than a block holds.
    """
    arrays = (values, weight, output)
    return _by_row("rms_norm", element, THREADS, {}, *arrays, more=(np.float32(epsilon),))


def quantise(
    values: Array, output: Array, scales: Array, *, of: str, element: Element
) -> tuple[Launch, ...]:
    """Launch that narrows rows of [rows, width] to 8 bits, with a float32 scale for each row.

    Args:
        of: Type of the 8 bits: ``"fp8"`` (from compute capability 8.9 on) or ``"int8"``.

    Raises:
        InputError: If the width is no multiple of 8, or wider than a block holds.
    """
    constants = {"WHOLE": int(of == "int8"), "LARGEST": LARGEST[of]}
    return _by_row("quantise", element, QUANTISE_THREADS, constants, values, output, scales)


def quantise_blocks(
    values: Array, output: Array, scales: Array, *, element: Element
) -> tuple[Launch, ...]:
    """Launch that narrows rows of [rows, width] to e4m3, with a scale for each 128 of a row.

    Args:
        scales: Of shape [width / 128, rows or more], float32.

    Raises:
        InputError: If the width is no multiple of 128.
    """
    rows, width = values.shape
    _divides(BLOCK, width)
    constants = {"THREADS": THREADS, "WHOLE": 0, "LARGEST": LARGEST["fp8"]}
    return (
        Launch(
            program("quantise", element, constants),
            "quantise_blocks",
            (rows, ceil_div(width // CHUNK, THREADS), 1),
            THREADS,
            0,
            (values, output, scales, np.int32(width), np.int32(scales.shape[1])),
        ),
    )


def _by_row(
    kernel: str,
    element: Element,
    threads: int,
    constants: dict[str, int],
    *arrays: Array,
    more: tuple[object, ...] = (),
) -> tuple[Launch, ...]:
    """Launch of a kernel whose blocks hold a row of the first array each."""
    rows, width = arrays[0].shape
    _divides(CHUNK, width)
    if width > threads * HELD:
        raise InputError(
            f"rows of {width} elements do not stay in a block",
            hint=f"take at most {threads * HELD} elements",
        )
    return (
        Launch(
            program(kernel, element, {"THREADS": threads, **constants}),
            kernel,
            (rows, 1, 1),
            threads,
            threads // WARP * 4,
            (*arrays, np.int32(width), *more),
        ),
    )


def silu_mul(gate_up: Array, output: Array, *, element: Element) -> tuple[Launch, ...]:
    """Launch for ``silu(gate) · up``: [rows, 2 · width] to [rows, width].

    Raises:
        InputError: If the width is no multiple of 8.
    """
    return _by_chunk("silu_mul", "silu_mul", element, gate_up, output)


def row_pass(
    kernel: Literal["add_rows", "take_rows"],
    first: Array,
    second: Array,
    output: Array,
    *,
    element: Element,
) -> tuple[Launch, ...]:
    """Launch for ``first + second``, or for the embedding ``first[second]``, into [rows, width].

    Args:
        kernel: ``"add_rows"`` for the sum, ``"take_rows"`` for the embedding.
        first: A residual stream, or the table of the embedding.
        second: What is added to it, or the tokens, int32.

    Raises:
        InputError: If the width is no multiple of 8.
    """
    return _by_chunk("rows", kernel, element, first, second, output)


def _by_chunk(source: str, kernel: str, element: Element, *arrays: Array) -> tuple[Launch, ...]:
    """Launch of a kernel whose threads write 16 bytes each of the last array."""
    rows, width = arrays[-1].shape
    _divides(CHUNK, width)
    grid = (rows, ceil_div(width // CHUNK, THREADS), 1)
    built = program(source, element, {"THREADS": THREADS})
    return (Launch(built, kernel, grid, THREADS, 0, (*arrays, np.int32(width))),)


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


def _divides(unit: int, width: int) -> None:
    if width % unit:
        raise InputError(
            f"a width of {width} elements is not served", hint=f"take a multiple of {unit}"
        )


def w4a16_gemm(
    weight: Array,
    scale: Array,
    zero: Array,
    values: Array,
    output: Array,
    *,
    element: Element,
    multiprocessors: int,
) -> tuple[Launch, ...]:
    """Launch for ``values @ ((weight - zero) · scale).T``, a product of few rows as in decoding.

    Args:
        weight: Eight 4-bit weights per uint32, in the order that ``w4a16_gemm.cu`` says:
            [outputs, depth / 8].
        scale, zero: Of each group of 128 weights: [depth / 128, outputs].
        values, output: Of shape [rows, depth] and [rows, outputs], at most 16 rows.
        multiprocessors: Of the device; blocks are narrow enough that all of them have some. [1]

    Raises:
        InputError: If the kernel does not serve the shape.
    """
    rows, depth = values.shape
    outputs = output.shape[1]
    if rows > MOST_ROWS or depth % GROUP or outputs % TILE:
        raise InputError(
            f"{rows} rows of {depth} elements to {outputs} are not served",
            hint=f"take at most {MOST_ROWS} rows, multiples of {GROUP} elements and of {TILE}",
        )
    columns = ceil_div(rows, COLUMN)
    # Wide parts read the input less often; of few rows it matters less than to have many parts.
    parts = multiprocessors if columns > 1 else 2 * multiprocessors
    tiles = 2 if outputs >= 2 * TILE * parts and outputs % (2 * TILE) == 0 else 1
    stages = STAGES[tiles]
    constants = {"TILES": tiles, "COLUMNS": columns, "STAGES": stages, "WARPS": WARPS}
    return (
        Launch(
            program("w4a16_gemm", element, constants),
            "w4a16_gemm",
            (outputs // (TILE * tiles), 1, 1),
            WARPS * WARP,
            WARPS * WARP * stages * tiles * 2 * 16,
            (weight, scale, zero, values, output, *map(np.int32, (rows, outputs, depth))),
        ),
    )


def nothing() -> tuple[Launch, ...]:
    """Launch of a kernel without instructions: its time is that of a launch."""
    return (Launch(_BANDWIDTH, "nothing", (1, 1, 1), WARP, 0, ()),)


def stream(
    kernel: Literal["read_stream", "copy_stream"], words: Array, output: Array, multiprocessors: int
) -> tuple[Launch, ...]:
    """Launch that reads uint32 words, a multiple of four, and writes none of them or all.

    Args:
        kernel: ``"read_stream"``, or ``"copy_stream"``, which writes them to the output.
        words, output: Arrays of the device.
        multiprocessors: Of the device; all of them take part. [1]
    """
    arguments = (words, output, np.int64(prod(words.shape) // 4))
    grid = (BLOCKS * multiprocessors, 1, 1)
    return (Launch(_BANDWIDTH, kernel, grid, STREAM_THREADS, 0, arguments),)
