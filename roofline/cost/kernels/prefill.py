"""Calibrated time of prefill attention: thread blocks of query rows over causal tiles of keys.

A block of 128 query rows of one head starts, visits the tiles of keys that its rows may see, and
ends. Blocks of all heads and sequences are spread over the SMs; where they are few, the block with
most keys bounds the time. Rotating, quantising and caching what comes in are kernels of their own
and move memory.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roofline.cost.kernels.decode import missed, shape_of
from roofline.cost.kernels.form import (
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

ROWS: Final = 128
"""Query rows of a thread block (Dao 2023, arXiv 2307.08691; Shah et al. 2024, arXiv 2407.08608)."""
COLUMNS: Final = 64
"""Keys of a tile of the smallest such kernel."""
CHUNK: Final = 128
"""Keys of a part of a block at least, where FlashInfer splits it."""
HEAD_DIM: Final = 128.0
"""Head width that constants refer to."""
WIDE: Final = 256.0
"""Head width from which FlashInfer's blocks have 64 query rows at most."""


class PrefillSchedule(NamedTuple):
    """Division of queries into blocks by a library; facts of its source, not fitted."""

    rows: tuple[float, ...] = (ROWS,)
    """Query rows that a block can have, increasing. [1]"""
    wide_rows: float = ROWS
    """Most of them at head widths of 256 and more. [1]"""
    packs: bool = False
    """True where the query heads that share keys are rows of one block."""
    walks: bool = False
    """True where tiles that a window hides are visited too."""
    slots: float = 0.0
    """Blocks per SM below which the keys of a block are split; 0 if they never are. [1]"""


FLASHINFER: Final = PrefillSchedule(rows=(16.0, 64.0, 128.0), wide_rows=64.0, packs=True, slots=2.0)
KERNELS: Final[Mapping[str, PrefillSchedule]] = {
    "fa3": PrefillSchedule(packs=True),
    "vllm_flash_attn_fa3": PrefillSchedule(packs=True),
    "flashinfer": FLASHINFER,
    "flashinfer-blackwell": PrefillSchedule(),
    "flashinfer-blackwell-ultra": PrefillSchedule(),
    "vllm_flashinfer_fiprefill": FLASHINFER,
    "vllm_flashinfer_fidecode": FLASHINFER,
    "torch_flow_flashinfer": FLASHINFER,
    "triton": PrefillSchedule(walks=True),
    "triton-ada": PrefillSchedule(rows=(64.0,), walks=True),
}
"""Kernels by name, and generation where that decides. FlashAttention-3 packs the heads of a group
wherever sequences differ in length (``hopper/heuristics.h``, ``should_pack_gqa``). FlashInfer packs
them always and takes blocks for the packed rows of a sequence (``FA2DetermineCtaTileQ``); where two
of them per SM are not filled, it splits their keys (``PrefillBinarySearchKVChunkSize``); on
Blackwell it runs another kernel, which does neither. SGLang's Triton kernel walks over all keys up
to a block's own, and masks (``extend_attention.py``)."""
USUAL: Final = PrefillSchedule()
"""Schedule of a kernel that is not named here."""


def prefill_dims(*shape: Array, kernel: str = "", generation: str = "") -> dict[str, Array]:
    """Columns of the form, made of those of `roofline.cost.kernels.decode.SHAPE`.

    ``sequences`` is batch × heads, ``group`` the heads that share keys; a residual table needs them
    as coordinates.
    """
    dims = shape_of(*shape)
    heads = dims["heads"]
    more = {"sequences": dims["batch"] * heads, "group": heads / dims["kv_heads"]}
    return scheduled({**dims, **more}, kernel, generation)


def scheduled(dims: Dims, kernel: str, generation: str = "") -> dict[str, Array]:
    """The same columns as another kernel cuts them; as `USUAL` if it is not known."""
    known = KERNELS.get(f"{kernel}-{generation}", KERNELS.get(kernel, USUAL))
    packed = dims["group"] if known.packs else np.ones_like(dims["group"])
    fits = np.searchsorted(known.rows, packed * dims["new"]).clip(max=len(known.rows) - 1)
    rows = np.asarray(known.rows)[fits]
    rows = np.where(dims["head_dim"] < WIDE, rows, np.minimum(rows, known.wide_rows))
    return {
        **dims,
        "packed": packed,
        "rows": rows,
        "slots": np.full_like(rows, known.slots),
        "walks": 1.0 * (known.walks & (dims["window"] > 0)),
    }


class PrefillTimes(NamedTuple):
    """Times that the equation puts together."""

    launch: Array
    """Launches of all kernels. [s]"""
    longest: Array
    """The block that visits most tiles, alone. [s]"""
    spread: Array
    """All blocks, spread evenly over the SMs. [s]"""
    memory: Array
    """Queries, keys, values and outputs through memory. [s]"""
    windowed: NDArray[np.bool_]
    """True where the window hides keys."""


def visits(dims: Dims) -> tuple[Array, Array, Array]:
    """Blocks of a sequence and head, tiles they visit together, and tiles of the last block.

    A block has as many tokens as its rows hold of a packed group. Of T tokens, block i visits the
    tiles up to its last row's key S − T + rows·(i + 1), or, where a window hides keys, as many as
    the window and the block's own rows span: an arithmetic progression that stops growing.

    >>> columns = {"new": 256.0, "context": 256.0, "reach": 256.0, "rows": 128.0, "packed": 1.0}
    >>> [part.tolist() for part in visits({k: np.array([v]) for k, v in columns.items()})]
    [[2.0], [6.0], [4.0]]
    """
    new, context, reach = dims["new"], dims["context"], dims["reach"]
    tokens = dims["rows"] / dims["packed"]
    blocks = np.ceil(new / tokens)
    first = np.ceil((context - new + np.minimum(new, tokens)) / COLUMNS)
    last = np.ceil(context / COLUMNS)
    most = np.where(reach < context, np.ceil(reach / COLUMNS) + np.ceil(tokens / COLUMNS), last)
    growing = np.clip((most - first) / (tokens / COLUMNS), 0.0, blocks)
    capped = growing * (first + np.minimum(most, last)) / 2 + (blocks - growing) * most
    together = np.where(reach < context, capped, blocks * (first + last) / 2)
    return blocks, together, np.minimum(last, most)


@computed_once
def parts(dims: Dims, machine: Machine, constants: Values) -> PrefillTimes:
    """Launches, the longest block, all blocks, and memory. [s]"""
    heads, kv_heads, width = dims["heads"], dims["kv_heads"], dims["head_dim"] / HEAD_DIM
    blocks, together, last = visits(dims)
    _, walked, end = visits({**dims, "reach": dims["context"]})
    hidden = constants["hidden"] * dims["walks"]
    together, last = together + hidden * (walked - together), last + hidden * (end - last)
    units = dims["batch"] * heads / dims["packed"]
    parted = np.floor(dims["slots"] * machine.multiprocessors / (units * blocks))
    chunk = np.maximum(np.ceil(last / np.maximum(parted, 1.0)), CHUNK / COLUMNS)
    split, last = last > chunk, np.minimum(last, chunk)
    windowed = dims["reach"] < dims["context"]
    per_sm = constants["compute"] * machine.flops_per_s / machine.multiprocessors
    wide = HEAD_DIM * width ** constants["wide"] + constants["softmax"]
    tall = ROWS * (dims["rows"] / ROWS) ** constants["tall"]
    tile = 4.0 * tall * COLUMNS * wide / per_sm * np.where(windowed, constants["masked"], 1.0)
    rows = np.minimum(dims["new"] * dims["packed"], dims["rows"]) / ROWS
    start = constants["block"] + constants["edge"] * rows * width
    twice = np.where(dims["walks"] > 0, constants["again"], 1.0)
    start *= twice
    spread = units * (blocks * start + together * tile) / machine.multiprocessors
    queries = 2.0 * dims["batch"] * dims["head_dim"] * dims["width"] * dims["new"]
    queries = queries * (heads + kv_heads)
    keys = 2.0 * dims["batch"] * dims["head_dim"] * dims["kv_width"] * dims["context"] * kv_heads
    share = missed(queries + keys, machine, constants)
    cached = (1.0 - share) / (constants["l2"] * cache_bytes_per_s(machine))
    rate = share / machine.hbm_bytes_per_s + cached
    memory = (queries / constants["memory"] + keys / constants["cache"]) * rate
    # A block for each token rotates, quantises and caches its keys and values, head by head.
    row = constants["token"] + constants["head"] * kv_heads
    memory += row * dims["batch"] * dims["new"] / machine.multiprocessors
    launch = constants["launch"] * twice + constants["combine"] * split
    return PrefillTimes(launch, start + last * tile, spread, memory, windowed)


def seconds(dims: Dims, machine: Machine, constants: Values) -> Array:
    """Launches, memory, and the larger of the longest block and the mean load of an SM. [s]"""
    part = parts(dims, machine, constants)
    blocks = soft_maximum(constants["sharpness"], part.longest, part.spread)
    return part.launch + part.memory + blocks


def regime(dims: Dims, machine: Machine, constants: Values) -> Regimes:
    """Launch, longest block or all of them; apart where a window hides keys."""
    part = parts(dims, machine, constants)
    return longest(part.launch, part.longest, part.spread) + 3 * part.windowed


FORM: Final = Form(
    "prefill-attention",
    (
        FormConstant("launch", 1e-6, 5e-5, 1e-5, "s", "launches of all kernels of the operator"),
        FormConstant("combine", 1e-8, 2e-5, 1e-6, "s", "launch of what joins the parts of a block"),
        FormConstant(
            "again", 1.0, 2.5, 1.5, "1", "launch and starts of a window that is walked to"
        ),
        FormConstant(
            "hidden", 0.01, 1.0, 0.5, "1", "a tile that a window hides over one it does not"
        ),
        FormConstant(
            "block", 1e-7, 2e-5, 2e-6, "s", "start of a thread block until its first tile"
        ),
        FormConstant(
            "edge", 1e-8, 2e-5, 1e-6, "s", "queries in and outputs out, of 128 rows of 128"
        ),
        FormConstant("compute", 0.1, 1.0, 0.6, "1", "share of the tensor rate inside a tile"),
        FormConstant("softmax", 1.0, 1024.0, 32.0, "1", "exponentials, as head width they cost"),
        FormConstant("tall", 0.05, 1.0, 0.8, "1", "growth of a tile with its rows, as an exponent"),
        FormConstant(
            "wide", 0.5, 2.0, 1.0, "1", "growth of a tile with head width, as an exponent"
        ),
        FormConstant(
            "masked", 0.2, 8.0, 1.5, "1", "a tile of a window, which is masked, over others"
        ),
        FormConstant(
            "memory", 0.1, 1.0, 0.7, "1", "share of memory bandwidth for queries and outputs"
        ),
        FormConstant(
            "cache", 0.02, 1.0, 0.7, "1", "the same of keys and values, converted or copied"
        ),
        FormConstant(
            "token", 1e-10, 5e-6, 1e-8, "s", "a block that caches keys and values of a token"
        ),
        FormConstant("head", 1e-11, 5e-7, 1e-9, "s", "the same of each head of them, however wide"),
        FormConstant(
            "l2", 0.05, 1.0, 0.4, "1", "of what the last-level cache holds, as a share of it"
        ),
        FormConstant(
            "resident", 0.2, 1.2, 0.8, "1", "share of that cache that all of these can fill"
        ),
        FormConstant("sharpness", 1.0, 16.0, 4.0, "1", "exponent of the soft maximum"),
    ),
    seconds,
    ("new", "sequences", "head_dim", "reach", "group"),
    regime,
    "(launch + bytes / (memory·BW) + [longest^q + load^q]^(1/q)) · exp(residual)",
)
"""Blocks over causal tiles. Source: the schedule of FlashAttention-2, Dao 2023 (arXiv 2307.08691),
section 3; exponentials beside the tensor cores: Shah et al. 2024 (arXiv 2407.08608), section 3.1.
"""
OWN: Final = pinned(FORM, ("combine", "again", "hidden", "tall", "masked", "token", "head"))
"""Form of the kernel of ``microbench/cuda``, which neither splits keys nor caches them, for rows
without a window."""
