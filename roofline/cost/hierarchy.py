"""Traffic at each level of the memory hierarchy, for the hierarchical roofline.

Device memory sees every operand once (`Work.hbm_bytes`). The last-level cache sees operands again
for every tile that needs them. The on-chip memories see them for every multiplication of a tile.
Tiles are chosen by rule, not measured, so these figures explain; they do not price.
"""

import math
from dataclasses import dataclass

import numpy as np

from roofline.cost.work import Op
from roofline.hardware.machine import Gpu

GEMM_TILE = (128, 128)  # rows and columns of an output tile, usual for 16-bit tensor-core kernels
ROW_BLOCKS = (128, 64, 32, 16)  # query rows that a FlashAttention block may have
KEY_BLOCKS = (256, 128, 64, 32, 16, 8)  # key columns that it may have
PIECE = 2**20  # row blocks counted at once


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes of one execution by level."""

    hbm: float
    l2: float
    """Bytes from device memory, and through the last-level cache into the SMs. [B]"""
    scores: float = 0.0
    """Bytes of scores that attention would write and read if they left the chip. [B]"""


def flash_blocks(head_dim: float, shared_bytes: float, width: float) -> tuple[int, int]:
    """Rows of queries and columns of keys that fit on chip together.

    A block keeps Q (rows × H) and two stages of K and V (columns × H); outputs are in registers.
    The largest rows, then the largest columns that fit are taken; the smallest of both if none
    do. Source: the tiling of FlashAttention-2, Dao 2023 (arXiv 2307.08691), section 3.

    Args:
        head_dim: H. [1]
        shared_bytes: On-chip memory of one SM. [B]
        width: Bytes per element. [B]

    Examples:
        With 99 KiB on chip, Q takes 32 KiB, and two stages of 64 keys and values take 64 KiB:

        >>> flash_blocks(128, 99 * 1024, 2)
        (128, 64)
    """
    for rows in ROW_BLOCKS:
        for columns in KEY_BLOCKS:
            if (rows + 4 * columns) * head_dim * width <= shared_bytes:
                return rows, columns
    return ROW_BLOCKS[-1], KEY_BLOCKS[-1]


def flash_key_blocks(new: float, context: float, window: float, rows: int, columns: int) -> float:
    """Key blocks that the row blocks of one head and sequence visit, under a causal mask.

    Row block i ends at key S − T + min(T, (i + 1)·rows) and starts at the window of its first row.
    Source: the block loop of Dao 2023 (arXiv 2307.08691), algorithm 1, with causal masking.

    Args:
        new, context: T and S. [token]
        window: W; 0 for none. [token]
        rows, columns: Of a block. [token]

    Examples:
        Four row blocks over four key blocks visit 1 + 2 + 3 + 4:

        >>> flash_key_blocks(512, 512, 0, 128, 128)
        10.0
    """
    cached, visited = context - new, 0.0
    blocks = math.ceil(new / rows)
    for start in range(0, blocks, PIECE):
        index = np.arange(start, min(start + PIECE, blocks), dtype=float)
        last = cached + np.minimum(new, (index + 1.0) * rows)
        first = np.maximum(0.0, cached + index * rows + 1.0 - window) if window else 0.0 * index
        visited += float(np.sum(np.ceil(last / columns) - np.floor(first / columns)))
    return visited


def traffic(op: Op, gpu: Gpu, width: float, kv_width: float) -> Traffic:
    """Bytes of one execution of an operator at each level, for scalar dimensions.

    GEMM: each 128×128 output tile reads its rows of X and columns of W through the cache.
    Attention: each row block of each query head reads the keys and values it visits.
    Source: tiling of output-stationary kernels; Dao 2023 (arXiv 2307.08691).

    Args:
        op: Operator of a step, priced for one scenario.
        gpu: Whose on-chip memory sets the tiles.
        width, kv_width: Bytes per activation and per cached element. [B]
    """
    hbm = float(op.work.hbm_bytes)
    if op.kind == "gemm":
        m, n, k = (float(op.dims[key]) for key in ("m", "n", "k"))
        weight = float(op.work.weight_bytes) / (n * k)
        rows, columns = GEMM_TILE
        reads = math.ceil(n / columns) * m * k * width + math.ceil(m / rows) * n * k * weight
        return Traffic(hbm, reads + m * n * width)
    if op.kind in ("prefill-attention", "decode-attention"):
        count, new, context, heads, kv_heads, h, window = (
            float(op.dims[key])
            for key in ("count", "new", "context", "heads", "kv_heads", "head_dim", "window")
        )
        rows, columns = flash_blocks(h, gpu.shared_bytes, width)
        # A few new tokens: the query heads that share a key/value head form one row block.
        group = heads / kv_heads
        packed = new * group <= rows
        readers = kv_heads if packed else heads
        visited = flash_key_blocks(new, context, window, rows, columns) * columns
        read = min(visited, context) if packed else visited
        keys = count * readers * read * 2 * h * kv_width
        through = keys + 2 * count * new * heads * h * width
        # Naive attention moves its scores as well: never less than device memory sees.
        return Traffic(hbm, max(through, hbm), 4 * count * heads * new * context * width)
    return Traffic(hbm, hbm)
