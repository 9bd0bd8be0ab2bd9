"""Calibrated time of decode attention: few query rows over a long cache, split over its keys.

The query heads that share a key/value head are rows of one unit of work. Where units are fewer
than a kernel wants blocks, the keys of each are split: how is in the sources of the libraries. Time
is the start of a block, its tiles one after the other, the load of an SM, or the cache over the
bandwidth: of memory, or of the last-level cache where the whole KV cache stays in it between calls;
then a reduction joins what was split.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from roofline.cost.kernels.form import (
    SMALL,
    Dims,
    Form,
    FormConstant,
    Machine,
    Regimes,
    Values,
    cache_bytes_per_s,
    computed_once,
    longest,
    pinned,
    soft_maximum,
)
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
"""Batch up to which the reduction is launched, of kernels that always launch it."""
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


class DecodeSchedule(NamedTuple):
    """Schedule of a library's decode attention; facts of its source, not fitted."""

    splits: float
    """Most parts that the keys of a unit are split into. [1]"""
    slots: float
    """Blocks per SM that it plans for. [1]"""
    planned: float = 0.0
    """Batch up to which the reduction is launched, split or not. [1]"""
    swaps: bool = False
    """True where query heads become rows by a copy, and keys are split only then."""
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


MASKED: Final = DecodeSchedule(splits=64.0, slots=1.0, plan=BALANCED, least=512.0)
"""Masked multi-head attention of TensorRT-LLM, a block for each head (``multi_block_grid_setup``):
each of 1024 threads takes 16 bytes of eight keys."""
FLASHINFER: Final = DecodeSchedule(
    splits=1024.0, slots=2.0, rows=(16.0, 64.0, 128.0), plan=GRID, least=128.0, joins=1.0
)
KERNELS: Final[Mapping[str, DecodeSchedule]] = {
    "vllm_flash_attn": DecodeSchedule(splits=128.0, slots=2.0, swaps=True),
    "vllm_flash_attn_fa2": DecodeSchedule(splits=128.0, slots=2.0, swaps=True),
    "vllm_flash_attn_fa3": DecodeSchedule(splits=32.0, slots=1.0, planned=512.0),
    "vllm_flashinfer_fidecode": FLASHINFER,
    "flashinfer": FLASHINFER._replace(vector=4.0, vector_width=2.0),
    "torch_flow_flashinfer": FLASHINFER,
    "triton": DecodeSchedule(
        splits=8.0,
        slots=1.0,
        planned=ALWAYS,
        rows=(16.0,),
        keys=32.0,
        plan=GROWING,
        vector=2.0,
        joins=1.0,
    ),
    "roofline": DecodeSchedule(splits=128.0, slots=2.0),
}
"""Schedules by name of the kernel. FlashAttention-2: ``flash_api.cpp``, ``mha_varlen_fwd`` swaps
the heads of a group into rows where a sequence has one query and the layer no window, and sets
splits only then; other heads are blocks of their own. Its heuristic counts two blocks per SM.
FlashAttention-3 in vLLM: splits are bounded by 32, and planned on the device, up to the largest
batch of a CUDA graph, 512 (``VLLM_FLASH_ATTN_MAX_NUM_SPLITS_FOR_CUDA_GRAPH``). FlashInfer:
``scheduler.cuh``, ``PrefillBinarySearchKVChunkSize`` and ``FA2DetermineCtaTileQ``; ``cascade.cuh``
joins a head of a query in each block. SGLang's Triton kernels: ``decode_attention.py`` and
``get_num_kv_splits_triton``, with 8 splits at most and a second kernel that always joins, a block
for each sequence and head. ``microbench/cuda``: `roofline.bench.gpu.attention.decode_splits`."""
USUAL: Final = DecodeSchedule(splits=32.0, slots=1.0)
"""Schedule of a kernel that is not named here; assumed."""


SHAPE: Final = (
    "batch", "new", "context", "heads", "kv_heads", "head_dim", "window", "width", "kv_width",
)  # fmt: skip
"""Shape of attention: sequences, tokens, heads and their width; the window is 0 for none, the last
two are bytes per element of activations and cache."""


def shape_of(*shape: Array) -> dict[str, Array]:
    """Columns `SHAPE` by name, with ``reach``, the keys that the last query sees. [token]"""
    dims = dict(zip(SHAPE, shape, strict=True))
    window, context = dims["window"], dims["context"]
    return {**dims, "reach": np.where(window > 0, np.minimum(window, context), context)}


def decode_dims(*shape: Array, kernel: str = "", single: bool = False) -> dict[str, Array]:
    """Columns of the form: `SHAPE`, ``units`` of work, and how the kernel schedules them."""
    dims = shape_of(*shape)
    return scheduled({**dims, "single": np.full_like(dims["batch"], single)}, kernel)


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
    return np.ceil(dims["reach"] / dims["keys"]) + windowed


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


MISS: Final = 4.0
"""Exponent of the share of reads that miss the last-level cache once what is read outgrows it."""


class DecodeTimes(NamedTuple):
    """Times that the equation puts together."""

    block: Array
    """One block: its start and its tiles. [s]"""
    load: Array
    """All blocks, spread evenly over the SMs. [s]"""
    memory: Array
    """Cache, queries and outputs over the bandwidth they come at. [s]"""
    join: Array
    """The reduction over splits, and copies. [s]"""


@computed_once
def parts(dims: Dims, machine: Machine, constants: Values) -> DecodeTimes:
    """Time of a block, of all blocks, of memory, and of the join. [s]"""
    batch, heads, h = dims["batch"], dims["heads"], dims["head_dim"]
    sms, width = machine.multiprocessors, h / HEAD_DIM
    count, keys, rows = tiles(dims), dims["keys"], dims["rows"]
    split = splits(dims, machine)
    windowed = dims["reach"] < dims["context"]
    per_sm = constants["compute"] * machine.flops_per_s / sms
    arithmetic = 4.0 * rows * keys * HEAD_DIM * width ** constants["wide"] / per_sm
    cache = 2.0 * (dims["reach"] + dims["new"] - 1.0) * h * dims["kv_width"]
    ends = 2.0 * batch * dims["new"] * heads * h * dims["width"]
    once = batch * dims["kv_heads"] * cache + ends
    memory = read_again(once, machine, constants)
    # Rows of a group, of those a block has: kernels with tiles of few rows take several.
    group = np.minimum(dims["group"] * dims["new"], rows) / ROWS
    step = constants["step"] * dims["taller"] ** constants["tall"]
    tile = (step + constants["row"] * group + arithmetic) * np.where(
        windowed, constants["masked"], 1.0
    )
    full = np.where(windowed, 1.0, dims["reach"] / (count * keys))
    start = constants["unit"] + constants["edge"] * width
    # The loop of a block waits for its next keys: longer where they come from memory.
    tile *= 1.0 + (constants["far"] - 1.0) * missed(once, machine, constants)
    vector = dims["vector"] > 0
    walked = constants["step"] + constants["walk"] * dims["group"] * width
    tile = np.where(vector, walked, tile)
    start = np.where(vector, constants["light"] * (constants["unit"] + constants["edge"]), start)
    block = start + np.ceil(count / split) * tile * np.where(count > 1, 1.0, full)
    waves = np.ceil(dims["units"] * split / sms)
    block *= np.where((dims["plan"] == BALANCED) & (split > 1), waves, 1.0)
    load = dims["units"] * (split * start + count * full * tile) / (sms * constants["together"])
    # Units that share a head of keys read it from the last-level cache, all but the first.
    again = np.maximum(dims["units"] - batch * dims["kv_heads"], 0.0) * cache
    memory += again / (constants["l2"] * cache_bytes_per_s(machine))
    joined = ((split > 1) | (batch <= dims["planned"])) * batch
    join = (
        constants["combine"] * (split > 1)
        + constants["merge"] * np.log2(split)
        + constants["reduce"] * joined * np.ceil(heads * dims["new"] / dims["joins"]) / sms
        + constants["copy"] * dims["copies"]
    )
    return DecodeTimes(block, load, memory, join)


def missed(size: Array, machine: Machine, constants: Values) -> Array | float:
    """Share of what was read before that the last-level cache holds no more. [1]

    1/(1 + (resident · cache / size)^evicted): half where the size is what the cache can hold.
    """
    if not machine.l2_bytes:
        return 1.0
    fits = constants["resident"] * machine.l2_bytes / size
    share: Array = 1.0 / (1.0 + fits ** constants.get("evicted", MISS))
    return share


def read_again(size: Array, machine: Machine, constants: Values) -> Array:
    """Time of reading what was read before: `missed` from memory, the rest from the cache. [s]"""
    share = missed(size, machine, constants)
    hbm = size / (constants["memory"] * machine.hbm_bytes_per_s)
    l2 = size / (constants["l2"] * cache_bytes_per_s(machine))
    return share * hbm + (1.0 - share) * l2


def seconds(dims: Dims, machine: Machine, constants: Values) -> Array:
    """Launch, the largest of block, load and memory, and what joins the splits. [s]"""
    part, q = parts(dims, machine, constants), constants["sharpness"]
    bound = soft_maximum(q, part.block, part.load, part.memory)
    return constants["launch"] + bound + part.join


def regime(dims: Dims, machine: Machine, constants: Values) -> Regimes:
    """Longest of block, load and memory; apart where a window hides keys."""
    part = parts(dims, machine, constants)
    windowed = dims["reach"] < dims["context"]
    return longest(part.block, part.load, part.memory) + 3 * windowed.astype(np.intp)


FORM: Final = Form(
    "decode-attention",
    (
        FormConstant("launch", 1e-6, 5e-5, 8e-6, "s", "launch of the kernel"),
        FormConstant("unit", 1e-7, 2e-5, 2e-6, "s", "start and end of a block"),
        FormConstant("edge", 1e-8, 2e-5, 1e-6, "s", "its queries and outputs at head width 128"),
        FormConstant("step", 1e-8, 1e-5, 5e-7, "s", "latency of a tile that no other work hides"),
        FormConstant(
            "far", 1.0, 3.0, 1.1, "1", "a tile of keys from memory over one from the cache"
        ),
        FormConstant(
            "tall", 0.05, 1.5, 0.5, "1", "growth of that with rows of a block, an exponent"
        ),
        FormConstant("row", 1e-9, 1e-5, 1e-8, "s", "what 64 rows of a group add to a tile"),
        FormConstant("compute", 0.02, 1.0, 0.4, "1", "share of the tensor rate inside a tile"),
        FormConstant(
            "wide", 0.5, 2.5, 1.0, "1", "growth of a tile with head width, as an exponent"
        ),
        FormConstant(
            "masked", 1.0, 8.0, 1.5, "1", "a tile of a window, which is masked, over others"
        ),
        FormConstant("together", 1.0, 4.0, 1.1, "1", "blocks that an SM works on at the same time"),
        FormConstant("memory", 0.2, 1.0, 0.85, "1", "share of memory bandwidth"),
        FormConstant("l2", 0.05, 1.0, 0.5, "1", "share of the last-level cache's bandwidth"),
        FormConstant(
            "resident", 0.2, 1.2, 0.8, "1", "share of that cache that a KV cache can fill"
        ),
        FormConstant("evicted", 2.0, 16.0, 6.0, "1", "sharpness of that limit, as an exponent"),
        FormConstant(
            "light", 0.02, 4.0, 1.0, "1", "start without tensor cores over that with them"
        ),
        FormConstant(
            "walk", 1e-8, 1e-5, 3e-7, "s", "a tile of one query head without tensor cores"
        ),
        FormConstant("reduce", 1e-8, 5e-6, 2e-7, "s", "a block of the reduction"),
        FormConstant("merge", 1e-8, 5e-6, 2e-7, "s", "a doubling of the splits it joins"),
        FormConstant("combine", 1e-8, 2e-5, 1e-6, "s", "its launch"),
        FormConstant("copy", 1e-7, 2e-5, 5e-6, "s", "copies that swap heads into rows"),
        FormConstant("sharpness", 1.0, 16.0, 4.0, "1", "exponent of the soft maximum"),
    ),
    seconds,
    ("context", "units", "head_dim", "reach", "new", "group"),
    regime,
    "(launch + [block^q + load^q + bytes^q]^(1/q) + joining of splits) · exp(residual)",
    trees=SMALL,
)
"""Blocks over splits of a cache; ``new`` is a coordinate so that a step of several tokens is not
taken for measured where one was. Source: split-KV decoding as in Flash-Decoding (Dao et al. 2023,
https://crfm.stanford.edu/2023/10/12/flashdecoding.html) and FlashAttention-3
(arXiv 2407.08608)."""
OWN: Final = pinned(FORM, ("tall", "light", "walk", "masked"))
"""Form of the kernel of ``microbench/cuda``: blocks of one height, and rows without a window."""
