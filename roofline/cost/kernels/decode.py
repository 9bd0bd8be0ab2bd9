"""Calibrated time of decode attention: few query rows over a long cache, split over its keys.

`roofline.cost.kernels.decode_plan` has how a kernel cuts the work. Time is the start of a block,
its tiles one after the other, the load of an SM, or the cache over the bandwidth: of memory, or
of the last-level cache where the whole KV cache stays in it between calls; then a reduction joins
what was split.
"""

from typing import Final, NamedTuple

import numpy as np

from roofline.cost.kernels.decode_plan import BALANCED, HEAD_DIM, ROWS
from roofline.cost.kernels.decode_plan import KERNELS as KERNELS
from roofline.cost.kernels.decode_plan import MOST_GROUPED as MOST_GROUPED
from roofline.cost.kernels.decode_plan import USUAL as USUAL
from roofline.cost.kernels.decode_plan import decode_dims as decode_dims
from roofline.cost.kernels.decode_plan import scheduled as scheduled
from roofline.cost.kernels.decode_plan import splits as splits
from roofline.cost.kernels.decode_plan import tiles as tiles
from roofline.cost.kernels.form import Constant, Dims, Form, Machine, Regimes, Values, pinned
from roofline.cost.kernels.warm import cache_bytes_per_s
from roofline.cost.work import Array

MISS: Final = 4.0
"""Exponent of the share of reads that miss the last-level cache once what is read outgrows it."""


class Parts(NamedTuple):
    """What the time is made of."""

    block: Array
    """One block: its start and its tiles. [s]"""
    load: Array
    """All blocks, spread evenly over the SMs. [s]"""
    memory: Array
    """Cache, queries and outputs over the bandwidth they come at. [s]"""
    join: Array
    """The reduction over splits, and copies. [s]"""


def parts(dims: Dims, machine: Machine, constants: Values) -> Parts:
    """Times that the equation puts together."""
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
    return Parts(block, load, memory, join)


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
    blended: Array = share * hbm + (1.0 - share) * l2
    return blended


def seconds(dims: Dims, machine: Machine, constants: Values) -> Array:
    """Launch, the largest of block, load and memory, and what joins the splits. [s]"""
    part, q = parts(dims, machine, constants), constants["sharpness"]
    longest = (part.block**q + part.load**q + part.memory**q) ** (1.0 / q)
    return constants["launch"] + longest + part.join


def regime(dims: Dims, machine: Machine, constants: Values) -> Regimes:
    """Block, load or memory; memory apart where the KV cache stays in the last-level cache."""
    part = parts(dims, machine, constants)
    bound = np.argmax(np.stack([part.block, part.load, part.memory]), axis=0)
    windowed = dims["reach"] < dims["context"]
    found: Regimes = (bound + 3 * windowed).astype(np.intp)
    return found


FORM: Final = Form(
    "decode-attention",
    (
        Constant("launch", 1e-6, 5e-5, 8e-6, "s", "launch of the kernel"),
        Constant("unit", 1e-7, 2e-5, 2e-6, "s", "start and end of a block"),
        Constant("edge", 1e-8, 2e-5, 1e-6, "s", "its queries and outputs at head width 128"),
        Constant("step", 1e-8, 1e-5, 5e-7, "s", "latency of a tile that no other work hides"),
        Constant("far", 1.0, 3.0, 1.1, "1", "a tile of keys from memory over one from the cache"),
        Constant("tall", 0.05, 1.5, 0.5, "1", "growth of that with rows of a block, an exponent"),
        Constant("row", 1e-9, 1e-5, 1e-8, "s", "what 64 rows of a group add to a tile"),
        Constant("compute", 0.02, 1.0, 0.4, "1", "share of the tensor rate inside a tile"),
        Constant("wide", 0.5, 2.5, 1.0, "1", "growth of a tile with head width, as an exponent"),
        Constant("masked", 1.0, 8.0, 1.5, "1", "a tile of a window, which is masked, over others"),
        Constant("together", 1.0, 4.0, 1.1, "1", "blocks that an SM works on at the same time"),
        Constant("memory", 0.2, 1.0, 0.85, "1", "share of memory bandwidth"),
        Constant("l2", 0.05, 1.0, 0.5, "1", "share of the last-level cache's bandwidth"),
        Constant("resident", 0.2, 1.2, 0.8, "1", "share of that cache that a KV cache can fill"),
        Constant("evicted", 2.0, 16.0, 6.0, "1", "sharpness of that limit, as an exponent"),
        Constant("light", 0.02, 4.0, 1.0, "1", "start without tensor cores over that with them"),
        Constant("walk", 1e-8, 1e-5, 3e-7, "s", "a tile of one query head without tensor cores"),
        Constant("reduce", 1e-8, 5e-6, 2e-7, "s", "a block of the reduction"),
        Constant("merge", 1e-8, 5e-6, 2e-7, "s", "a doubling of the splits it joins"),
        Constant("combine", 1e-8, 2e-5, 1e-6, "s", "its launch"),
        Constant("copy", 1e-7, 2e-5, 5e-6, "s", "copies that swap heads into rows"),
        Constant("sharpness", 1.0, 16.0, 4.0, "1", "exponent of the soft maximum"),
    ),
    seconds,
    ("context", "units", "head_dim", "reach", "new", "group"),
    regime,
    "(launch + [block^q + load^q + bytes^q]^(1/q) + joining of splits) · exp(residual)",
)
"""Blocks over splits of a cache; ``new`` is a coordinate so that a step of several tokens is not
taken for measured where one was. Source: split-KV decoding as in Flash-Decoding (Dao et al. 2023,
https://crfm.stanford.edu/2023/10/12/flashdecoding.html) and FlashAttention-3
(arXiv 2407.08608)."""
OWN: Final = pinned(FORM, ("tall", "light", "walk", "masked"))
"""Form of the kernel of ``microbench/cuda``: blocks of one height, and rows without a window."""
