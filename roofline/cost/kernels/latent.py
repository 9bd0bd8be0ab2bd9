"""Calibrated time of multi-head latent attention: one latent head that all query heads read.

It reads 576 numbers of each cached token (latent and rotated key) and weighs 512 of them, for every
query head; heads are the rows of a block. Blocks start, then visit tiles of keys while the cache
comes from memory, then splits are joined.
"""

from typing import Final, NamedTuple

import numpy as np

from roofline.cost.kernels import latent_schedule as schedule
from roofline.cost.kernels.form import Constant, Dims, Form, Machine, Regimes, Values
from roofline.cost.work import Array

READ: Final = 576.0
"""Numbers read of a cached token: latent 512 and rotated key 64 (DeepSeek-AI 2024,
arXiv 2412.19437, section 4.2)."""
WEIGHED: Final = 512.0
"""Of which are values."""
JOINED: Final = 16.0
"""Heads that a block of the reduction joins."""
OVER: Final = 4.0
"""Rate of a last-level cache over that of memory, at most; assumed where none is published."""
MISS: Final = 8.0
"""Exponent of the share of reads that miss the last-level cache once a KV cache outgrows it: what
is read in turns is evicted before it is read again."""
HOSTED: Final = 16.0
"""Exponent of the soft maximum of device and host."""


class Parts(NamedTuple):
    """What the time is made of."""

    starts: Array
    """Starts and ends of blocks, queries and outputs included. [s]"""
    work: Array
    """Tiles of the longest block, or of all blocks over the SMs. [s]"""
    memory: Array
    """Cache over the bandwidths it comes at. [s]"""
    join: Array
    """The reduction over splits, and the conversion of the cache. [s]"""


def parts(dims: Dims, machine: Machine, constants: Values) -> Parts:
    """Times that the equation puts together."""
    batch, sms, queries = dims["batch"], machine.multiprocessors, dims["heads"] * dims["new"]
    rows, each, split = schedule.division(dims, machine)
    tiles, last = schedule.visits(dims, rows)
    several, s, q = dims["several"] > 0, constants["waves"], constants["sharpness"]
    per_sm = constants["compute"] * machine.flops_per_s / sms
    tile = constants["step"] + 2.0 * dims["rows"] * schedule.KEYS * (READ + WEIGHED) / per_sm
    tile = tile * np.where(dims["plain"] > 0, constants["plain"], 1.0)
    block, units = np.ceil(last / split) * tile, batch * each / (sms * constants["together"])
    load = units * tiles * tile
    # Blocks that share an SM slow one another down.
    work = np.where(several, (block**s + load**s) ** (1.0 / s), np.maximum(block, load))
    memory, ends = moved(dims, machine, constants)
    start = constants["unit"] + constants["edge"] * np.minimum(queries, rows) / schedule.ROWS
    # Some grids have all parts that there may be; those without keys end at once.
    launched = np.where(several, dims["splits"], split)
    starts = (start**s + (units * launched * start) ** s) ** (1.0 / s)
    copied = batch * dims["context"] * READ * (dims["kv_width"] + dims["width"])
    cast = dims["cast"] * copied / (constants["cast"] * machine.hbm_bytes_per_s)
    join = (split > 1) * (
        constants["combine"]
        + constants["gather"] * split
        + constants["reduce"] * batch * np.ceil(queries / JOINED) / sms
    )
    return Parts((starts**q + ends**q) ** (1.0 / q), work, memory, join + cast)


def moved(dims: Dims, machine: Machine, constants: Values) -> tuple[Array, Array]:
    """Time of reading the cache, and of what goes in and out besides. [s]

    The share that is not in the last-level cache, 1/(1 + (resident · L2 / bytes)^8), comes from
    memory once. Each block reads the cache again: from the last-level cache, or from memory where
    it was evicted, as blocks that run a batch apart find it.
    """
    batch, queries = dims["batch"], dims["heads"] * dims["new"]
    rows, each, split = schedule.division(dims, machine)
    tiles, last = schedule.visits(dims, rows)
    size = batch * dims["context"] * READ * dims["kv_width"]
    # Queries and outputs; the latents of new tokens are cached first. Two tall blocks share keys.
    ends = batch * queries * (READ + WEIGHED) * dims["width"]
    ends = ends + batch * dims["new"] * READ * (dims["width"] + dims["kv_width"])
    again = np.where(rows > dims["block"], np.ceil(each / 2.0), each) * tiles / last
    apart = np.where(
        dims["several"] > 0, 1.0 - np.minimum(1.0, machine.multiprocessors / (batch * split)), 0.0
    )
    resident = constants["resident"] * machine.l2_bytes
    missed = 1.0 / (1.0 + (resident / (size + ends)) ** MISS)
    from_memory = missed + (again - 1.0) * apart / (1.0 + (resident / size) ** MISS)
    hbm = constants["memory"] * machine.hbm_bytes_per_s
    l2 = constants["l2"] * last_level_bytes_per_s(machine)
    memory = size * (from_memory / hbm + (again - from_memory) / l2)
    return memory, ends * (missed / hbm + (1.0 - missed) / l2)


def last_level_bytes_per_s(machine: Machine) -> float:
    """Rate of the last-level cache; where none is published, the most it may have. [B/s]"""
    return machine.l2_bytes_per_s or OVER * machine.hbm_bytes_per_s


def seconds(dims: Dims, machine: Machine, constants: Values) -> Array:
    """Launch, starts, the larger of tiles and memory, and what joins the splits. [s]

    Or the host's time between launches, where that is longer and was timed.
    """
    part, q = parts(dims, machine, constants), constants["sharpness"]
    longest = (part.work**q + part.memory**q) ** (1.0 / q)
    own = constants["launch"] + part.starts + longest + part.join
    return hosted(own, dims, constants)


def hosted(own: Array, dims: Dims, constants: Values) -> Array:
    """Time of a kernel, or of the host where that is longer and was timed. [s]"""
    host = dims["hosted"] * constants["host"]
    found: Array = (own**HOSTED + host**HOSTED) ** (1.0 / HOSTED)
    return found


def regime(dims: Dims, machine: Machine, constants: Values) -> Regimes:
    """Starts, tiles or memory."""
    part = parts(dims, machine, constants)
    found: Regimes = np.argmax(np.stack([part.starts, part.work, part.memory]), axis=0)
    return found


DECODE: Final = Form(
    "latent-decode",
    (
        Constant("launch", 1e-6, 3e-5, 8e-6, "s", "launch of the kernel"),
        Constant("unit", 1e-7, 5e-5, 3e-6, "s", "start and end of a block"),
        Constant("edge", 1e-8, 5e-5, 1e-6, "s", "its queries and outputs, at 64 rows"),
        Constant("step", 1e-8, 2e-5, 5e-7, "s", "latency of a tile that no other work hides"),
        Constant("compute", 0.02, 1.0, 0.65, "1", "share of the tensor rate inside a tile"),
        Constant("plain", 1.0, 16.0, 4.0, "1", "a tile without tensor cores over one with"),
        Constant("together", 0.25, 4.0, 1.0, "1", "blocks an SM works on at once; a part below 1"),
        Constant("memory", 0.2, 1.0, 0.8, "1", "share of memory bandwidth"),
        Constant("cast", 0.1, 1.0, 0.7, "1", "the same of converting the cache"),
        Constant("l2", 0.05, 1.0, 0.5, "1", "share of the last-level cache's bandwidth"),
        Constant("resident", 0.2, 1.2, 0.8, "1", "share of that cache that a KV cache can fill"),
        Constant("reduce", 1e-8, 5e-6, 2e-7, "s", "a block of the reduction"),
        Constant("combine", 1e-8, 2e-5, 1e-6, "s", "its launch"),
        Constant("gather", 1e-9, 1e-6, 3e-8, "s", "reading a part that it joins"),
        Constant("host", 1e-6, 1e-3, 1e-4, "s", "host time between launches, where it was timed"),
        Constant("sharpness", 1.0, 16.0, 4.0, "1", "exponent of the soft maximum"),
        Constant("waves", 1.0, 16.0, 2.0, "1", "the same of one block and all of them"),
    ),
    seconds,
    ("context", "batch", "rounded", "new"),
    regime,
    "(launch + starts + [tiles^q + bytes^q]^(1/q) + joining of splits) · exp(residual)",
)
"""Blocks of heads over splits of a latent cache. Source: DeepSeek-AI 2024 (arXiv 2405.04434),
section 2.1, in its absorbed form; the tile scheduler of FlashMLA
(https://github.com/deepseek-ai/FlashMLA)."""
