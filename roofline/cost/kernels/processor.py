"""Forms of array kernels on a processor: BLAS products, attention of them, passes over arrays.

A processor has no datasheet that tells its rates, so they are constants with bounds of their own,
not shares of a published one. Single precision throughout; one kernel after the other.

Where an operand is found follows from what is touched between two uses of it, ``reuse``: of weights
and caches that is all that a step reads. What exceeds the last-level cache, as far as a process
gets it, comes from memory. Source: Mattson, Gecsei, Slutz and Traiger 1970, IBM Systems Journal 9,
for the distance; Ilic, Pratas and Sousa 2014, Cache-aware Roofline, for a rate for each level.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from roofline.cost.kernels.form import Dims, Form, FormConstant, Machine, Regimes, Values
from roofline.cost.work import Array
from roofline.units import parse

WIDTH: Final = 4.0
"""Bytes of a number. [B]"""
SHARPNESS: Final = 4.0
"""Exponent of the size over the capacity on the way from hits to misses; assumed."""
BLOCKS: Final = (16.0, 8.0, 4.0, 2.0, 1.0)
"""Rows that the innermost loop takes at once, and into which the rest is cut. [1]"""
UNPACKED: Final = 1_000_000.0
"""m·n·k up to which OpenBLAS does not pack; ``sgemm_small_kernel_permit_skylakex.c``."""
UNPACKED_TURNED: Final = 1200.0
"""The same of m·n where one operand is transposed; same file."""


RANGES: Final = {
    "B/s": ("100 MB/s", "2 TB/s"),
    "s": ("0.001 ns", "1 ms"),
    "FLOP/s": ("500 MFLOP/s", "20 TFLOP/s"),
    "B": ("64 KiB", "1 GiB"),
}
"""Bounds by unit: from what a slow core moves to what the caches of a socket do; from a part of a
clock to what an interpreter wastes; from one scalar unit to a socket with matrix tiles; from a
core's own cache to that of a socket."""


def _constant(name: str, unit: str, prior: str, meaning: str) -> FormConstant:
    """A constant of that unit."""
    low, high = (parse(end, unit) for end in RANGES[unit])
    return FormConstant(name, low, high, parse(prior, unit), unit, meaning)


def product(dims: Dims, machine: Machine, constants: Values) -> Array:
    """``Y[m, n] = X[m, k] · W[k, n]``.

    One row: the weights are read, k rows of them. More rows: the weights are first packed into the
    order in which the innermost loop reads them, which does not overlap with the arithmetic on a
    core; then the rows are cut into blocks of 16, 8, 4, 2 and 1, and each block takes as long as
    its arithmetic or as a sweep over the packed weights. Small products are not packed. Weights
    that come from memory take longer, less so where the arithmetic of many rows hides it.
    Source: Goto and van de Geijn 2008, Anatomy of High-Performance Matrix Multiplication, for
    packing; the blocks are read off measured times for m = 1 to 24 (OpenBLAS 0.3.31, AVX-512).
    """
    m, n, k = dims["m"], dims["n"], dims["k"]
    weights, row = WIDTH * n * k, 2.0 * n * k / constants["compute"]
    sweep = weights / constants["sweep"]
    blocks = np.floor(m / BLOCKS[0]) * np.maximum(sweep, BLOCKS[0] * row)
    for rows in BLOCKS[1:]:
        left = np.floor(m / rows) % 2.0
        blocks = blocks + left * np.maximum(sweep, rows * row)
    far = weights * missed(dims["reuse"], machine.l2_bytes)
    vector = weights / constants["read"] + k * constants["row"] + far / constants["memory"]
    small = vector + m * row
    hidden = 1.0 + m / constants["hiding"]
    packed = weights / constants["packing"] + far / (constants["unpacked"] * hidden) + blocks
    several = np.where(m * n * k <= UNPACKED, small, packed)
    return constants["start"] + np.where(m == 1.0, vector, several)


def product_regime(dims: Dims, machine: Machine, constants: Values) -> Regimes:
    """0: one row. 1: moving the weights takes longer. 2: arithmetic does."""
    arithmetic = 2.0 * dims["m"] / constants["compute"]
    moving = WIDTH / constants["packing"]
    return np.where(dims["m"] == 1.0, 0, np.where(arithmetic < moving, 1, 2)).astype(np.intp)


def decode(dims: Dims, machine: Machine, constants: Values) -> Array:
    """One query per sequence: a product with the keys and one with the values for each key head.

    Both are read once, what the processor's caches do not hold from memory. Where a group of
    queries is too large for the kernels that do not pack, they are packed, keys and values each at
    a rate of their own.
    """
    count, kv, width, context = (dims[i] for i in ("count", "kv_heads", "head_dim", "context"))
    group = dims["heads"] / kv
    half, scores = WIDTH * count * kv * width * context, count * dims["heads"] * context
    read = half / constants["read"]
    turned = (group > 1.0) & (group * context > UNPACKED_TURNED)
    packed = (group > 1.0) & (group * context * width > UNPACKED)
    time: Array = (
        constants["start"]
        + count * kv * constants["call"]
        + np.where(turned, half / constants["packing_keys"], read)
        + np.where(packed, half / constants["packing_values"], read)
        + 2.0 * half * missed(dims["reuse"], machine.l2_bytes) / constants["memory"]
        + scores * constants["score"]
        + 4.0 * scores * width / constants["compute"]
    )
    return time


def decode_regime(dims: Dims, machine: Machine, constants: Values) -> Regimes:
    """0: calls take longer. 1: the cache does."""
    calls = constants["start"] + dims["count"] * dims["kv_heads"] * constants["call"]
    half = WIDTH * dims["count"] * dims["kv_heads"] * dims["head_dim"] * dims["context"]
    return (2.0 * half / constants["read"] > calls).astype(np.intp)


def prefill(dims: Dims, machine: Machine, constants: Values) -> Array:
    """New tokens with all scores in memory: products, and a masked softmax in several passes.

    Scores that fit the caches cost less each than those that do not.
    """
    count, heads, new, context = (dims[i] for i in ("count", "heads", "new", "context"))
    scores = count * heads * new * context
    time: Array = (
        constants["start"]
        + count * dims["kv_heads"] * constants["call"]
        + count * heads * new * constants["row"]
        + scores * constants["score"]
        + scores * missed(WIDTH * scores, constants["capacity"]) * constants["miss"]
        + 4.0 * scores * dims["head_dim"] / constants["compute"]
    )
    return time


def prefill_regime(dims: Dims, machine: Machine, constants: Values) -> Regimes:
    """0: scores in the caches. 1: in memory."""
    scores = dims["count"] * dims["heads"] * dims["new"] * dims["context"]
    return (WIDTH * scores > constants["capacity"]).astype(np.intp)


def passes(dims: Dims, machine: Machine, constants: Values) -> Array:
    """Passes over rows of an array: what is counted is read and written once, whatever is done.

    What misses a core's own caches takes longer, and what misses the last one longer still.
    """
    moved, reuse = dims["bytes"], dims["reuse"]
    time: Array = (
        constants["start"]
        + dims["rows"] * constants["row"]
        + moved / constants["cache"]
        + moved * missed(reuse, constants["capacity"]) / constants["shared"]
        + moved * missed(reuse, machine.l2_bytes) / constants["memory"]
    )
    return time


def passes_regime(dims: Dims, machine: Machine, constants: Values) -> Regimes:
    """0: calls take longer. 1: a core's caches do. 2: the last-level cache does. 3: memory does."""
    begin = constants["start"] + dims["rows"] * constants["row"]
    short = dims["bytes"] / constants["cache"] < begin
    near = np.where(missed(dims["reuse"], constants["capacity"]) > 0.5, 2, np.where(short, 0, 1))
    return np.where(missed(dims["reuse"], machine.l2_bytes) > 0.5, 3, near).astype(np.intp)


def roofed(dims: Dims, machine: Machine, constants: Values) -> Array:
    """Whatever has no form of its own: arithmetic and traffic, one after the other."""
    time: Array = (
        constants["start"]
        + dims["flops"] / constants["compute"]
        + dims["bytes"] / constants["memory"]
    )
    return time


def roofed_regime(dims: Dims, machine: Machine, constants: Values) -> Regimes:
    """0: traffic takes longer. 1: arithmetic does."""
    arithmetic = dims["flops"] / constants["compute"]
    return (arithmetic > dims["bytes"] / constants["memory"]).astype(np.intp)


def missed(reuse: Array, capacity: float) -> Array:
    """Share of accesses that miss a cache, from none far below its capacity to all far above.

    Args:
        reuse: Touched between two uses of what is accessed. [B]
        capacity: Of the cache. [B]
    """
    return 1.0 / (1.0 + (capacity / reuse) ** SHARPNESS)


_COMPUTE: Final = _constant(
    "compute", "FLOP/s", "80 GFLOP/s", "multiplies and adds of large products"
)
_START: Final = _constant("start", "s", "5 µs", "calls that do nothing yet")
_READ: Final = _constant(
    "read", "B/s", "25 GB/s", "operands that are read once, in the last-level cache"
)
_MEMORY: Final = _constant("memory", "B/s", "25 GB/s", "the same in memory, in addition")

FORMS: Final[Mapping[str, Form]] = {
    "processor-product": Form(
        "gemm",
        (
            _START,
            _READ,
            _constant(
                "row",
                "s",
                "10 ns",
                "each row of the weights, where there is one row of activations",
            ),
            _MEMORY,
            _constant(
                "packing", "B/s", "8 GB/s", "weights that are packed, in the last-level cache"
            ),
            _constant("unpacked", "B/s", "25 GB/s", "the same in memory, in addition"),
            FormConstant("hiding", 1.0, 1e5, 64.0, "1", "rows whose arithmetic hides half of that"),
            _constant("sweep", "B/s", "50 GB/s", "packed weights, for a block of rows"),
            _COMPUTE,
        ),
        product,
        ("m", "n", "k"),
        product_regime,
    ),
    "processor-decode": Form(
        "decode-attention",
        (
            _START,
            _constant("call", "s", "500 ns", "each key head of each sequence"),
            _READ,
            _MEMORY,
            _constant("packing_keys", "B/s", "8 GB/s", "keys that are packed"),
            _constant("packing_values", "B/s", "8 GB/s", "values that are packed"),
            _constant("score", "s", "0.5 ns", "softmax of a score"),
            _COMPUTE,
        ),
        decode,
        ("context", "count", "heads", "kv_heads", "head_dim"),
        decode_regime,
    ),
    "processor-prefill": Form(
        "prefill-attention",
        (
            _START,
            _constant("call", "s", "500 ns", "each key head of each sequence"),
            _constant("row", "s", "50 ns", "each query of each head"),
            _constant("score", "s", "1 ns", "mask and softmax of a score"),
            _constant(
                "miss", "s", "0.3 ns", "the same, where it is not in the caches, in addition"
            ),
            _constant("capacity", "B", "16 MiB", "scores of which half are not in the caches"),
            _COMPUTE,
        ),
        prefill,
        ("new", "context", "count", "heads", "kv_heads", "head_dim"),
        prefill_regime,
    ),
    "processor-passes": Form(
        "pointwise",
        (
            _START,
            _constant("row", "s", "10 ns", "each row"),
            _constant("cache", "B/s", "20 GB/s", "what is counted, in a core's own caches"),
            _constant("shared", "B/s", "40 GB/s", "what misses those, in addition"),
            _constant("memory", "B/s", "40 GB/s", "what misses the last-level cache, in addition"),
            _constant("capacity", "B", "2 MiB", "touched, where half misses a core's own caches"),
        ),
        passes,
        ("rows", "bytes"),
        passes_regime,
    ),
    "processor-roof": Form(
        "any",
        (_START, _constant("memory", "B/s", "10 GB/s", "what is counted, in memory"), _COMPUTE),
        roofed,
        ("bytes", "rows"),
        roofed_regime,
    ),
}
"""Forms by the names that calibration files have for them."""

OF_KIND: Final[Mapping[str, str]] = {
    "gemm": "processor-product",
    "decode-attention": "processor-decode",
    "prefill-attention": "processor-prefill",
    "pointwise": "processor-passes",
}
"""Form of a kind of operator; any other has the last one."""
