"""Calibrated time of multi-head latent attention: one latent head that all query heads read.

Decoding reads 576 numbers of each cached token (latent and rotated key) and weighs 512 of them, for
every query head; heads are the rows of a block. Prefill expands the latent into keys of 192 and
values of 128 for each head, and is prefill attention at their mean, 160: FLOPs and bytes of both
are in proportion to 192 + 128.
"""

from dataclasses import dataclass, replace
from collections.abc import Mapping
from typing import Final

import numpy as np

from roofline.cost.kernels.form import Constant, Dims, Form, Machine, Regimes, Values
from roofline.cost.work import Array

READ: Final = 576.0
"""Numbers read of a cached token: latent 512 and rotated key 64 (DeepSeek-AI 2024,
arXiv 2412.19437, section 4.2)."""
WEIGHED: Final = 512.0
"""Of which are values."""
PADDED: Final = 16.0
"""Heads that a block of the reduction joins."""
KEYS: Final = 64.0
"""Keys of a tile."""
OVER: Final = 4.0
"""Rate of a last-level cache over that of memory, at most; assumed where none is published."""
MISS: Final = 8.0
"""How sharply reads miss the last-level cache once a KV cache outgrows it, as an exponent: what is
read in turns is evicted before it is read again."""
HOSTED: Final = 16.0
"""Exponent of the soft maximum of device and host."""
ROWS: Final = 64.0
"""Query rows that the constants of a block refer to."""
WIDE: Final = 32.0
"""Heads up to which Blackwell's kernel always has short blocks."""
NO_BOUND: Final = 2.0**40
SHORT: Final = 1024.0
"""Keys of a split up to which it has them for more heads too."""
PAIRED: Final = frozenset({"blackwell", "blackwell-ultra"})
"""Generations whose kernel (TensorRT-LLM's ``trtllm-gen``, which FlashInfer, vLLM and SGLang have
as well) has blocks of 8 or 16 heads, as columns of its products, or of 64, as rows."""
GENERAL: Final = frozenset({"volta", "turing", "ampere", "ada"})
"""Generations for which TensorRT-LLM has no kernel of its own for the latent head (Hopper:
FlashMLA); its general kernel does not split."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """How a library schedules latent decoding; facts of its source, not fitted.

    Attributes
    ----------
    block
        Query heads of a block, whose products have as many rows. [1]
    splits
        Most parts that the keys of a block are split into. [1]
    least
        Keys of a part at least. [token]
    even
        Whether each SM gets an even share of all tiles, in place of whole blocks.
    packs
        Whether the heads of a token share blocks.
    fixed
        Whether there are as many parts as may be, however many blocks there are.
    grows
        Whether there are so many in place only as fill the SMs as often as a context has octaves
        above `KEYS`.
    tall
        Whether there are blocks of `ROWS` for many heads over long contexts.
    several
        Whether an SM can hold several blocks.
    plain
        Whether a single head is multiplied without tensor cores.
    cast
        Whether a cache of fewer bits is converted as a whole before.
    hosted
        Whether it was timed one launch after the other, from the host.
    """

    block: float = ROWS
    rows: float = ROWS
    splits: float = 128.0
    least: float = KEYS
    even: bool = True
    packs: bool = True
    fixed: bool = False
    grows: bool = False
    tall: bool = False
    several: bool = False
    plain: bool = False
    cast: bool = False
    hosted: bool = False


TRITON: Final = Kernel(
    block=16.0, rows=16.0, splits=8.0, least=32.0, even=False, fixed=True, several=True, plain=True
)
KERNELS: Final[Mapping[str, Kernel]] = {
    "flash_attention": Kernel(cast=True),
    "fa3": Kernel(cast=True),
    "vllm_flashmla": Kernel(hosted=True),
    "vllm_flash_attn_mla": Kernel(hosted=True),
    "vllm_triton_mla": replace(TRITON, splits=4.0, hosted=True),
    "TRITON_MLA": replace(TRITON, splits=4.0),
    "triton": replace(TRITON, grows=True),
}
"""By the kernel's name. vLLM's Triton kernel has 4 splits (``triton_mla.py``), SGLang's 8
(``triton_attention_num_kv_splits``), both blocks of 16 heads (``BLOCK_H``) and parts of 32 keys
(``MIN_BLOCK_KV``). SGLang converts the cache to the type of the queries before FlashAttention-3
(``flashattention_backend.py``)."""
GENERATIONS: Final[Mapping[str, Kernel]] = {
    **dict.fromkeys(
        PAIRED, Kernel(block=16.0, splits=NO_BOUND, least=256.0, even=False, tall=True)
    ),
    **dict.fromkeys(GENERAL, Kernel(splits=1.0, several=True)),
}
"""Of kernels not named above, by generation of devices: ``fmhaKernels.h`` of TensorRT-LLM and
FlashInfer on Blackwell, the general kernel before Hopper. Of the rest as FlashMLA's."""


def latent_dims(
    batch: Array,
    new: Array,
    context: Array,
    heads: Array,
    width: Array,
    kv_width: Array,
    *,
    generation: str = "",
    kernel: str = "",
) -> dict[str, Array]:
    """Columns of `DECODE`; widths are bytes per element, the generation is the device's."""
    shape = {
        "batch": batch,
        "new": new,
        "context": context,
        "heads": heads,
        "width": width,
        "kv_width": kv_width,
    }
    return scheduled(shape, kernel, generation)


def scheduled(dims: Dims, kernel: str, generation: str) -> dict[str, Array]:
    """The same columns as a kernel schedules the work on a generation of devices."""
    return columns(dims, KERNELS.get(kernel, GENERATIONS.get(generation, Kernel())))


def columns(dims: Dims, known: Kernel) -> dict[str, Array]:
    """Shapes, and facts of a kernel about them."""
    ones, queries = np.ones_like(dims["batch"]), dims["heads"] * dims["new"]
    block = np.where(known.tall & (queries <= 8.0), 8.0, known.block)
    slots = NO_BOUND if known.fixed else 1.0
    if known.grows:
        slots = np.maximum(np.log2(dims["context"] / KEYS), 1.0)
    return {
        **dims,
        "splits": known.splits * ones,
        "least": known.least * ones,
        "block": block,
        "rows": known.rows * ones,
        "even": known.even * ones,
        "packs": known.packs * ones,
        "tall": known.tall * ones,
        "slots": slots * ones,
        "plain": (known.plain & (queries == 1.0)) * ones,
        "several": known.several * ones,
        "hosted": known.hosted * ones,
        "cast": (known.cast * (dims["kv_width"] < dims["width"])) * ones,
        "tiles": np.ceil(queries / block) * block,
    }


@dataclass(frozen=True, slots=True)
class Parts:
    """What the time of decoding is made of.

    Attributes
    ----------
    starts
        Starts and ends of blocks. [s]
    block
        Tiles of one, one after the other. [s]
    load
        All blocks, spread evenly over the SMs. [s]
    memory
        Cache, queries and outputs over the bandwidth they come at. [s]
    join
        The reduction over splits. [s]
    """

    starts: Array
    block: Array
    load: Array
    work: Array
    memory: Array
    join: Array


def spread(dims: Dims, rows: Array) -> Array:
    """Blocks of a sequence: rows are its heads and tokens, or the tokens of one head. [1]"""
    packed = np.ceil(dims["heads"] * dims["new"] / rows)
    alone = dims["heads"] * np.ceil(dims["new"] / rows)
    found: Array = np.where(dims["packs"] > 0, packed, alone)
    return found


def visits(dims: Dims, rows: Array) -> tuple[Array, Array]:
    """Tiles of keys that a block visits in the mean, and those of the last one. [1]

    The tokens of the first block see what is cached and one another.
    """
    tokens = np.where(dims["packs"] > 0, np.ceil(rows / dims["heads"]), rows)
    old = dims["context"] - dims["new"]
    first = np.ceil((old + np.minimum(tokens, dims["new"])) / KEYS)
    last = np.ceil(dims["context"] / KEYS)
    return (first + last) / 2.0, last


def blocks(dims: Dims, machine: Machine) -> tuple[Array, Array, Array]:
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

    short = spread(dims, dims["block"])
    few = (dims["context"] <= SHORT * split(short)) & (batch * short <= sms)
    tall = (dims["tall"] > 0) & (queries > WIDE) & ~few
    rows = np.where(tall, ROWS, dims["block"])
    each = spread(dims, rows)
    tiles = np.ceil(dims["context"] / KEYS)
    even = np.clip(np.ceil(tiles / np.ceil(batch * each * tiles / sms)), 1.0, most)
    return rows, each, np.where(dims["even"] > 0, even, split(each))


def parts(dims: Dims, machine: Machine, constants: Values) -> Parts:
    """Times that the equation puts together."""
    batch, sms = dims["batch"], machine.multiprocessors
    queries = dims["heads"] * dims["new"]
    rows, each, split = blocks(dims, machine)
    tiles, last = visits(dims, rows)
    per_sm = constants["compute"] * machine.flops_per_s / sms
    tile = constants["step"] + 2.0 * dims["rows"] * KEYS * (READ + WEIGHED) / per_sm
    tile = tile * np.where(dims["plain"] > 0, constants["plain"], 1.0)
    start = constants["unit"] + constants["edge"] * np.minimum(queries, rows) / ROWS
    block = np.ceil(last / split) * tile
    shared = batch * each / (sms * constants["together"])
    load, s, q = shared * tiles * tile, constants["waves"], constants["sharpness"]
    several = dims["several"] > 0
    work = np.where(several, (block**s + load**s) ** (1.0 / s), np.maximum(block, load))
    stored = batch * dims["context"] * READ
    again = np.where(rows > dims["block"], np.ceil(queries / (2.0 * rows)), each) * tiles / last
    ends = batch * queries * (READ + WEIGHED) * dims["width"]
    # The latents of new tokens are cached first.
    ends = ends + batch * dims["new"] * READ * (dims["width"] + dims["kv_width"])
    # Blocks of a sequence are a batch apart in Triton's grid: few of them run at the same time.
    apart = np.where(dims["several"] > 0, np.maximum(1.0 - sms / (batch * split), 0.0), 0.0)
    memory, ends = cached(stored * dims["kv_width"], ends, again, apart, machine, constants)
    # Triton's grid has all parts there may be; those without keys end at once.
    parts_ = np.where(dims["several"] > 0, dims["splits"], split)
    starts = (start**s + (shared * parts_ * start) ** s) ** (1.0 / s)
    starts = (starts**q + ends**q) ** (1.0 / q)
    # A pass that reads and writes, then the reading of what it wrote.
    copied = stored * (dims["kv_width"] + dims["width"]) * dims["cast"]
    cast = copied / (constants["cast"] * machine.hbm_bytes_per_s)
    join = (split > 1) * (
        constants["combine"]
        + constants["gather"] * split
        + constants["reduce"] * batch * np.ceil(queries / PADDED) / sms
    )
    return Parts(starts, block, load, work, memory, join + cast)


def cached(size: Array, ends: Array, again: Array, apart: Array, machine: Machine, constants: Values) -> tuple[Array, Array]:
    """Time of reading a cache that many times, and of what goes in and out besides. [s]

    The share that is not in the last-level cache, 1/(1 + (resident · L2 / bytes)^8), comes from
    memory once. A last-level cache whose rate is not published has at most `OVER` that of memory.
    """
    resident = constants["resident"] * machine.l2_bytes
    missed = 1.0 / (1.0 + (resident / (size + ends)) ** MISS)
    evicted = apart / (1.0 + (resident / size) ** MISS)
    hbm = constants["memory"] * machine.hbm_bytes_per_s
    l2 = constants["l2"] * (machine.l2_bytes_per_s or OVER * machine.hbm_bytes_per_s)
    far = missed + (again - 1.0) * evicted
    cache: Array = far * size / hbm + (again - far) * size / l2
    return cache, missed * ends / hbm + (1.0 - missed) * ends / l2


def seconds(dims: Dims, machine: Machine, constants: Values) -> Array:
    """Launch, the largest of block, load and memory, and what joins the splits. [s]

    Or the host's time between launches, where that is longer.
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
    """Block, load or memory."""
    part = parts(dims, machine, constants)
    found: Regimes = np.argmax(np.stack([part.block, part.load, part.memory]), axis=0)
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
    ("context", "batch", "tiles", "new"),
    regime,
    "(launch + [block^q + load^q + bytes^q]^(1/q) + joining of splits) · exp(residual)",
)
"""Blocks of heads over splits of a latent cache. Source: DeepSeek-AI 2024 (arXiv 2405.04434),
section 2.1, in its absorbed form; the tile scheduler of FlashMLA
(https://github.com/deepseek-ai/FlashMLA)."""
