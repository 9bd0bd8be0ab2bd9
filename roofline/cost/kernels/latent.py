"""Calibrated time of multi-head latent attention: one latent head that all query heads read.

It reads 576 numbers of each cached token (latent and rotated key) and weighs 512 of them, for every
query head; heads are the rows of a block. Blocks start, then visit tiles of keys while the cache
comes from memory, then splits are joined: how depends on the kernel and the device.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from roofline.cost.kernels.form import (
    Dims,
    Form,
    FormConstant,
    Machine,
    Regimes,
    Values,
    computed_once,
    longest,
    soft_maximum,
)
from roofline.cost.work import Array

KEYS: Final = 64.0
"""Keys of a tile."""
ROWS: Final = 64.0
"""Query rows of a block on Hopper, whose products have no fewer (``wgmma``, PTX ISA 8.6, section
9.7.15), and of a tall one on Blackwell. There keys are the rows of the products of a short block,
and reading them from shared memory takes as long as 64 columns do."""
WIDE: Final = 32.0
"""Query heads up to which blocks on Blackwell are always short."""
SHORT: Final = 1024.0
"""Keys of a part up to which they are short for more heads as well."""
NARROW: Final = 8.0
"""Heads of the shortest block."""
PADDED: Final = 16.0
"""Query rows that products round up to: as many take the same time but for what goes in and out."""
NO_BOUND: Final = 2.0**40
PAIRED: Final = frozenset({"blackwell", "blackwell-ultra"})
"""Generations whose kernel (TensorRT-LLM's ``trtllm-gen``, which FlashInfer, vLLM and SGLang have
as well) has short blocks of 8 or 16 heads and tall ones of 64."""
GENERAL: Final = frozenset({"volta", "turing", "ampere", "ada"})
"""Generations for which TensorRT-LLM has no kernel of its own for the latent head; its general
kernel does not split."""


class LatentSchedule(NamedTuple):
    """Schedule of a library's latent attention; facts of its source, not fitted."""

    block: float = ROWS
    """Query rows of a block. [1]"""
    rows: float = ROWS
    """Rows that its products take the time of. [1]"""
    splits: float = 128.0
    """Most parts that the keys of a block are split into. [1]"""
    least: float = KEYS
    """Keys of a part at least. [token]"""
    even: bool = True
    """True where each SM gets an even share of all tiles, in place of whole blocks."""
    packs: bool = True
    """True where the heads of a token share blocks."""
    fixed: bool = False
    """True where there are as many parts as may be, however many blocks there are."""
    grows: bool = False
    """True where they fill the SMs as often as the context has octaves above `KEYS`; else once."""
    tall: bool = False
    """True where blocks of many heads over long contexts have `ROWS`."""
    several: bool = False
    """True where an SM can hold several blocks."""
    plain: bool = False
    """True where a single head is multiplied without tensor cores."""
    cast: bool = False
    """True where a cache of fewer bits is converted as a whole before."""
    hosted: bool = False
    """True where it was timed one launch after the other, from the host."""


TRITON: Final = LatentSchedule(
    block=16.0, rows=16.0, splits=8.0, least=32.0, even=False, several=True, plain=True
)
"""Blocks of 16 heads (``BLOCK_H``), parts of 32 keys (``MIN_BLOCK_KV``)."""
KERNELS: Final[Mapping[str, LatentSchedule]] = {
    "flash_attention": LatentSchedule(cast=True),
    "fa3": LatentSchedule(cast=True),
    "triton": TRITON._replace(grows=True),
    "TRITON_MLA": TRITON._replace(splits=4.0, fixed=True),
    "vllm_triton_mla": TRITON._replace(splits=4.0, fixed=True, hosted=True),
    "vllm_flashmla": LatentSchedule(hosted=True),
    "vllm_flash_attn_mla": LatentSchedule(hosted=True),
}
"""Schedules by the name of the kernel. SGLang's Triton kernel has up to 8 parts
(``triton_attention_num_kv_splits``), as many as ``get_num_kv_splits_triton`` says, vLLM's always 4
(``triton_mla.py``); SGLang converts the cache to the type of the queries before FlashAttention-3
(``flashattention_backend.py``). Kernels of vLLM 0.14 were timed from the host."""
GENERATIONS: Final[Mapping[str, LatentSchedule]] = {
    **dict.fromkeys(
        PAIRED, LatentSchedule(16.0, splits=NO_BOUND, least=256.0, even=False, tall=True)
    ),
    **dict.fromkeys(GENERAL, LatentSchedule(splits=1.0, several=True)),
}
"""Schedules of kernels not named above, by generation of devices: ``fmhaKernels.h`` of TensorRT-LLM
and FlashInfer on Blackwell, the general kernel before Hopper. All others as FlashMLA
(https://github.com/deepseek-ai/FlashMLA)."""


SHAPE: Final = ("batch", "new", "context", "heads", "width", "kv_width")
"""Shape of latent attention; the last two are bytes per element of activations and cache."""


def latent_dims(*shape: Array, generation: str = "", kernel: str = "") -> dict[str, Array]:
    """Columns of `DECODE`: `SHAPE` as a kernel schedules it on a generation of devices."""
    return scheduled(dict(zip(SHAPE, shape, strict=True)), kernel, generation)


def scheduled(dims: Dims, kernel: str, generation: str) -> dict[str, Array]:
    """The same columns as a kernel schedules the work on a generation of devices."""
    return columns(dims, KERNELS.get(kernel, GENERATIONS.get(generation, LatentSchedule())))


def columns(dims: Dims, known: LatentSchedule) -> dict[str, Array]:
    """Shapes, and facts of a kernel about them.

    A residual table has ``rounded`` query rows as a coordinate: what is learned of 8 heads is known
    of 1.
    """
    ones, queries = np.ones_like(dims["batch"]), dims["heads"] * dims["new"]
    facts = ("splits", "least", "rows", "even", "packs", "tall", "several", "hosted")
    block = np.where(known.tall & (queries <= NARROW), NARROW, known.block)
    slots = NO_BOUND * ones if known.fixed else ones
    if known.grows:
        slots = np.maximum(np.log2(dims["context"] / KEYS), ones)
    return {
        **dims,
        **{name: getattr(known, name) * ones for name in facts},
        "block": block,
        "slots": slots,
        "plain": (known.plain & (queries == 1.0)) * ones,
        "cast": (known.cast * (dims["kv_width"] < dims["width"])) * ones,
        "rounded": np.where(queries <= NARROW, NARROW, np.ceil(queries / PADDED) * PADDED),
    }


def in_graph(dims: Dims) -> dict[str, Array]:
    """The same columns of a launch inside a graph of kernels, which takes no time of the host."""
    return {**dims, "hosted": np.zeros_like(dims["batch"])}


def blocks_of(dims: Dims, rows: Array) -> Array:
    """Blocks of a sequence: rows are its heads and tokens, or the tokens of one head. [1]"""
    packed = np.ceil(dims["heads"] * dims["new"] / rows)
    alone = dims["heads"] * np.ceil(dims["new"] / rows)
    return np.where(dims["packs"] > 0, packed, alone)


def visits(dims: Dims, rows: Array) -> tuple[Array, Array]:
    """Tiles of keys that a block visits in the mean, and those of the last one. [1]

    The tokens of the first block see what is cached and one another.
    """
    tokens = np.where(dims["packs"] > 0, np.ceil(rows / dims["heads"]), rows)
    old = dims["context"] - dims["new"]
    first = np.ceil((old + np.minimum(tokens, dims["new"])) / KEYS)
    last = np.ceil(dims["context"] / KEYS)
    return (first + last) / 2.0, last


def division(dims: Dims, machine: Machine) -> tuple[Array, Array, Array]:
    """Query rows of a block, blocks of a sequence, and parts that its keys are split into. [1]

    Short blocks of Blackwell's kernel serve up to `WIDE` heads, or where they fit on the SMs at
    once and leave each at most `SHORT` keys (``useSwapsMmaAbMlaGenKernel``).
    """
    batch, sms, queries = dims["batch"], machine.multiprocessors, dims["heads"] * dims["new"]
    most = np.minimum(np.ceil(dims["context"] / dims["least"]), dims["splits"])

    def split(each: Array) -> Array:
        found = dims["slots"] * sms / (batch * each)
        found = np.where(dims["several"] > 0, np.ceil(found), np.floor(found))
        return np.clip(found, 1.0, most)

    short = blocks_of(dims, dims["block"])
    few = (dims["context"] <= SHORT * split(short)) & (batch * short <= sms)
    tall = (dims["tall"] > 0) & (queries > WIDE) & ~few
    rows = np.where(tall, ROWS, dims["block"])
    each = blocks_of(dims, rows)
    tiles = np.ceil(dims["context"] / KEYS)
    even = np.clip(np.ceil(tiles / np.ceil(batch * each * tiles / sms)), 1.0, most)
    return rows, each, np.where(dims["even"] > 0, even, split(each))


READ: Final = 576.0
"""Numbers read of a cached token: latent 512 and rotated key 64 (DeepSeek-AI 2024,
arXiv 2412.19437, section 4.2)."""
WEIGHED: Final = 512.0
"""Values among them."""
JOINED: Final = 16.0
"""Heads that a block of the reduction joins."""
OVER: Final = 4.0
"""Rate of a last-level cache over that of memory, at most; assumed where none is published."""
MISS: Final = 8.0
"""Exponent of the share of reads that miss the last-level cache once a KV cache outgrows it: what
is read in turns is evicted before it is read again."""
HOSTED: Final = 16.0
"""Exponent of the soft maximum of device and host."""


class LatentTimes(NamedTuple):
    """Times that the equation puts together."""

    starts: Array
    """Starts and ends of blocks, queries and outputs included. [s]"""
    work: Array
    """Tiles of the longest block, or of all blocks over the SMs. [s]"""
    memory: Array
    """Cache over the bandwidths it comes at. [s]"""
    join: Array
    """The reduction over splits, and the conversion of the cache. [s]"""


@computed_once
def parts(dims: Dims, machine: Machine, constants: Values) -> LatentTimes:
    """Time of starts, tiles, memory and join. [s]"""
    batch, sms, queries = dims["batch"], machine.multiprocessors, dims["heads"] * dims["new"]
    rows, each, split = division(dims, machine)
    tiles, last = visits(dims, rows)
    several, s, q = dims["several"] > 0, constants["waves"], constants["sharpness"]
    per_sm = constants["compute"] * machine.flops_per_s / sms
    tile = constants["step"] + 2.0 * dims["rows"] * KEYS * (READ + WEIGHED) / per_sm
    tile = tile * np.where(dims["plain"] > 0, constants["plain"], 1.0)
    block, units = np.ceil(last / split) * tile, batch * each / (sms * constants["together"])
    load = units * tiles * tile
    # Blocks that share an SM slow one another down.
    work = np.where(several, soft_maximum(s, block, load), np.maximum(block, load))
    memory, ends = moved(dims, machine, constants)
    start = constants["unit"] + constants["edge"] * np.minimum(queries, rows) / ROWS
    # Some grids have all parts that there may be; those without keys end at once.
    launched = np.where(several, dims["splits"], split)
    starts = soft_maximum(s, start, units * launched * start)
    copied = batch * dims["context"] * READ * (dims["kv_width"] + dims["width"])
    cast = dims["cast"] * copied / (constants["cast"] * machine.hbm_bytes_per_s)
    join = (split > 1) * (
        constants["combine"]
        + constants["gather"] * split
        + constants["reduce"] * batch * np.ceil(queries / JOINED) / sms
    )
    return LatentTimes(soft_maximum(q, starts, ends), work, memory, join + cast)


def moved(dims: Dims, machine: Machine, constants: Values) -> tuple[Array, Array]:
    """Time of reading the cache, and of what goes in and out besides. [s]

    The share that is not in the last-level cache, 1/(1 + (resident · L2 / bytes)^8), comes from
    memory once. Each block reads the cache again: from the last-level cache, or from memory where
    it was evicted, as blocks that run a batch apart find it.
    """
    batch, queries = dims["batch"], dims["heads"] * dims["new"]
    rows, each, split = division(dims, machine)
    tiles, last = visits(dims, rows)
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
    bound = soft_maximum(q, part.work, part.memory)
    return hosted(constants["launch"] + part.starts + bound + part.join, dims, constants)


def hosted(own: Array, dims: Dims, constants: Values) -> Array:
    """Time of a kernel, or of the host where that is longer and was timed. [s]"""
    return soft_maximum(HOSTED, own, dims["hosted"] * constants["host"])


def regime(dims: Dims, machine: Machine, constants: Values) -> Regimes:
    """Starts, tiles or memory."""
    part = parts(dims, machine, constants)
    return longest(part.starts, part.work, part.memory)


DECODE: Final = Form(
    "latent-decode",
    (
        FormConstant("launch", 1e-6, 3e-5, 8e-6, "s", "launch of the kernel"),
        FormConstant("unit", 1e-7, 5e-5, 3e-6, "s", "start and end of a block"),
        FormConstant("edge", 1e-8, 5e-5, 1e-6, "s", "its queries and outputs, at 64 rows"),
        FormConstant("step", 1e-8, 2e-5, 5e-7, "s", "latency of a tile that no other work hides"),
        FormConstant("compute", 0.02, 1.0, 0.65, "1", "share of the tensor rate inside a tile"),
        FormConstant("plain", 1.0, 16.0, 4.0, "1", "a tile without tensor cores over one with"),
        FormConstant(
            "together", 0.25, 4.0, 1.0, "1", "blocks an SM works on at once; a part below 1"
        ),
        FormConstant("memory", 0.2, 1.0, 0.8, "1", "share of memory bandwidth"),
        FormConstant("cast", 0.1, 1.0, 0.7, "1", "the same of converting the cache"),
        FormConstant("l2", 0.05, 1.0, 0.5, "1", "share of the last-level cache's bandwidth"),
        FormConstant(
            "resident", 0.2, 1.2, 0.8, "1", "share of that cache that a KV cache can fill"
        ),
        FormConstant("reduce", 1e-8, 5e-6, 2e-7, "s", "a block of the reduction"),
        FormConstant("combine", 1e-8, 2e-5, 1e-6, "s", "its launch"),
        FormConstant("gather", 1e-9, 1e-6, 3e-8, "s", "reading a part that it joins"),
        FormConstant(
            "host", 1e-6, 1e-3, 1e-4, "s", "host time between launches, where it was timed"
        ),
        FormConstant("sharpness", 1.0, 16.0, 4.0, "1", "exponent of the soft maximum"),
        FormConstant("waves", 1.0, 16.0, 2.0, "1", "the same of one block and all of them"),
    ),
    seconds,
    ("context", "batch", "rounded", "new"),
    regime,
    "(launch + starts + [tiles^q + bytes^q]^(1/q) + joining of splits) · exp(residual)",
)
"""Blocks of heads over splits of a latent cache. Source: DeepSeek-AI 2024 (arXiv 2405.04434),
section 2.1, in its absorbed form; the tile scheduler of FlashMLA
(https://github.com/deepseek-ai/FlashMLA)."""
