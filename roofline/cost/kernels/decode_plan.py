"""Blocks that libraries cut decode attention into: rows of a block, tiles of keys, and splits.

The query heads that share a key/value head are rows of one unit of work. Where units are fewer
than a kernel wants blocks, the keys of each are split. All of this is in the kernels' sources.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from roofline.cost.kernels.form import Dims, Machine
from roofline.cost.work import Array

ROWS: Final = 64
"""Query rows of a block: the least that tensor-core kernels take."""
MOST_GROUPED: Final = 32.0
"""Query heads of a key/value head that TensorRT-LLM's kernels for grouped heads take (its
``xqaDispatcher`` and FMHA runner refuse more, and each head is then read for by itself). [1]"""
KEYS: Final = 128.0
"""Keys of a tile at head widths up to 128; fewer beyond, so that the tile fits on chip."""
HEAD_DIM: Final = 128.0
"""Head width that constants refer to."""
MARGIN: Final = 1.1
"""Share of tiles that a planner adds before it divides them (FlashAttention-3,
``hopper/flash_prepare_scheduler.cu``)."""
WIDE: Final = 256.0
"""Head width from which FlashInfer's blocks have 64 query rows at most."""
ALWAYS: Final = 10.0**9
"""Batch of kernels that launch the reduction whatever the batch is."""
LIGHT: Final = 4.0
"""Blocks per SM of its kernel without tensor cores, which is planned by its occupancy; assumed."""
TILES: Final = 0.0
GRID: Final = 1.0
GROWING: Final = 2.0
BALANCED: Final = 3.0
"""Rules for the number of parts that a planner makes of a unit: all tiles divided by the slots and
a margin; as many as the slots hold of whole units; the same rounded up, of slots that grow with the
keys; or rounded up, of all keys whether a window hides them or not."""
GROWTH: Final = 64.0
"""Keys per sequence beyond which each doubling adds as many slots (SGLang,
``get_num_kv_splits_triton``). [1]"""


class Kernel(NamedTuple):
    """Schedule of a library's decode attention; facts of its source, not fitted."""

    splits: float
    """Most parts that the keys of a unit are split into. [1]"""
    slots: float
    """Blocks per SM that it plans for. [1]"""
    planned: float = 0.0
    """Batch up to which the reduction is launched, split or not. [1]"""
    swaps: bool = False
    """Whether query heads become rows by a copy, and keys are split only then."""
    rows: tuple[float, ...] = (ROWS,)
    """Query rows that a block can have, increasing. [1]"""
    keys: float = KEYS
    """Keys of a tile at head widths up to 128. [1]"""
    plan: float = TILES
    """`TILES`, `GRID`, `GROWING` or `BALANCED`."""
    least: float = 1.0
    """Keys of a part at least, at head widths up to 128. [1]"""
    vector: float = 0.0
    vector_width: float = 1.0
    """Query heads of a group from which tensor cores multiply [1]; fewer are multiplied by a
    kernel without them where the cache has as many bytes per element [B]."""
    joins: float = 16.0
    """Query rows that a block of the reduction joins; assumed where it is not one. [1]"""


MASKED: Final = Kernel(splits=64.0, slots=1.0, plan=BALANCED, least=512.0)
"""Masked multi-head attention of TensorRT-LLM, a block for each head (``multi_block_grid_setup``):
each of 1024 threads takes 16 bytes of eight keys."""
FLASHINFER: Final = Kernel(
    splits=1024.0, slots=2.0, rows=(16.0, 64.0, 128.0), plan=GRID, least=128.0, joins=1.0
)
KERNELS: Final[Mapping[str, Kernel]] = {
    "vllm_flash_attn": Kernel(splits=128.0, slots=2.0, swaps=True),
    "vllm_flash_attn_fa2": Kernel(splits=128.0, slots=2.0, swaps=True),
    "vllm_flash_attn_fa3": Kernel(splits=32.0, slots=1.0, planned=512.0),
    "vllm_flashinfer_fidecode": FLASHINFER,
    "flashinfer": FLASHINFER._replace(vector=4.0, vector_width=2.0),
    "torch_flow_flashinfer": FLASHINFER,
    "triton": Kernel(
        splits=8.0,
        slots=1.0,
        planned=ALWAYS,
        rows=(16.0,),
        keys=32.0,
        plan=GROWING,
        vector=2.0,
        joins=1.0,
    ),
    "roofline": Kernel(splits=128.0, slots=2.0),
}
"""By the kernel's name. FlashAttention-2: ``flash_api.cpp``, ``mha_varlen_fwd`` swaps the heads of
a group into rows where a sequence has one query and the layer no window, and sets splits only then;
other heads are blocks of their own. Its heuristic counts two blocks per SM. FlashAttention-3 in
vLLM: splits are bounded by 32, and planned on the device, up to the largest batch of a CUDA graph,
512 (``VLLM_FLASH_ATTN_MAX_NUM_SPLITS_FOR_CUDA_GRAPH``). FlashInfer: ``scheduler.cuh``,
``PrefillBinarySearchKVChunkSize`` and ``FA2DetermineCtaTileQ``; ``cascade.cuh`` joins a head of a
query in each block. SGLang's Triton kernels: ``decode_attention.py`` and
``get_num_kv_splits_triton``, with 8 splits at most and a second kernel that always joins, a block
for each sequence and head. The kernel of ``microbench/cuda``:
`roofline.bench.gpu.attention.decode_splits`.
"""
USUAL: Final = Kernel(splits=32.0, slots=1.0)
"""Schedule of a kernel that is not named here; assumed."""


def decode_dims(
    batch: Array,
    new: Array,
    context: Array,
    heads: Array,
    kv_heads: Array,
    head_dim: Array,
    window: Array,
    width: Array,
    kv_width: Array,
    *,
    kernel: str = "",
    single: bool = False,
) -> dict[str, Array]:
    """Columns of the form; the window is 0 for none, widths are bytes per element.

    The rest follows: ``units`` of work, how many keys the last query sees (``reach``), and how the
    kernel schedules them.
    """
    shape = {
        "batch": batch,
        "new": new,
        "context": context,
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "window": window,
        "single": np.full_like(batch, single),
        "width": width,
        "kv_width": kv_width,
        "reach": np.where(window > 0, np.minimum(window, context), context),
    }
    return scheduled(shape, kernel)


def scheduled(dims: Dims, kernel: str) -> dict[str, Array]:
    """The same columns as another kernel schedules the work; as `USUAL` if it is not known."""
    known = MASKED if np.all(dims["single"]) else KERNELS.get(kernel, USUAL)
    batch, new, kv_heads = dims["batch"], dims["new"], dims["kv_heads"]
    group = dims["heads"] / kv_heads
    swapped = (group > 1) & (new == 1) & (dims["window"] == 0)
    joined = swapped | (not known.swaps)
    packed = np.where(joined & (dims["single"] == 0), group, 1.0)
    fits = np.searchsorted(known.rows, packed * new).clip(max=len(known.rows) - 1)
    rows = np.asarray(known.rows)[fits]
    if known.plan == GRID:
        rows = np.where(dims["head_dim"] < WIDE, rows, np.minimum(rows, ROWS))
    vector = (packed < known.vector) & (dims["kv_width"] >= known.vector_width) & (new == 1)
    ones = np.ones_like(batch)
    return {
        **dims,
        "group": packed,
        "rows": rows,
        "taller": rows / known.rows[0],
        "units": batch * dims["heads"] / packed * np.ceil(packed * new / rows),
        "keys": known.keys * np.minimum(1.0, HEAD_DIM / dims["head_dim"]),
        "splits": np.where(joined, known.splits, 1.0),
        "slots": np.where(vector & (known.plan == GRID), LIGHT, known.slots),
        "vector": 1.0 * vector,
        "plan": known.plan * ones,
        "least": known.least * (HEAD_DIM / dims["head_dim"] if known.plan == BALANCED else ones),
        "planned": known.planned * ones,
        "joins": known.joins * ones,
        # A transposed view needs no copy where one of its sides is 1.
        "copies": np.where(known.swaps & swapped & (kv_heads > 1) & (batch > 1), 1.0, 0.0),
    }


def tiles(dims: Dims) -> Array:
    """Tiles of keys of a unit. [1]"""
    # A window begins inside a tile and ends inside another.
    windowed = dims["reach"] < dims["context"]
    found: Array = np.ceil(dims["reach"] / dims["keys"]) + windowed
    return found


def splits(dims: Dims, machine: Machine) -> Array:
    """Parts that the keys of a unit are split into. [1]

    A planner that divides tiles gives a slot ⌈1.1 · units · tiles / slots⌉ of them
    (FlashAttention-3, ``prepare_varlen_num_blocks``); one that fills a grid makes ⌊slots / units⌋
    parts of a unit; one whose slots grow makes ⌈slots · log2(reach / 64) / units⌉.
    """
    count, slots = tiles(dims), dims["slots"] * machine.multiprocessors
    growing = slots * np.maximum(np.log2(dims["reach"] / GROWTH), 1.0)
    share = np.select(
        [dims["plan"] == GRID, dims["plan"] == GROWING, dims["plan"] == BALANCED],
        [np.floor(slots / dims["units"]), *(np.ceil(s / dims["units"]) for s in (growing, slots))],
        slots / (MARGIN * dims["units"]),
    )
    least = np.ceil(dims["least"] / dims["keys"])
    share = np.minimum(share, dims["splits"])
    count = np.where(dims["plan"] == BALANCED, np.ceil(dims["context"] / dims["keys"]), count)
    each = np.maximum(np.ceil(count / np.maximum(share, 1.0)), least)
    found: Array = np.clip(np.ceil(count / each), 1.0, dims["splits"])
    return found
