"""Schedules of kernels of multi-head latent attention, by the kernel and the device."""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from roofline.cost.kernels.form import Dims, Machine
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


class Kernel(NamedTuple):
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
    """Whether each SM gets an even share of all tiles, in place of whole blocks."""
    packs: bool = True
    """Whether the heads of a token share blocks."""
    fixed: bool = False
    """Whether there are as many parts as may be, however many blocks there are."""
    grows: bool = False
    """Whether they fill the SMs as often as the context has octaves above `KEYS`, once if not."""
    tall: bool = False
    """Whether blocks of many heads over long contexts have `ROWS`."""
    several: bool = False
    """Whether an SM can hold several blocks."""
    plain: bool = False
    """Whether a single head is multiplied without tensor cores."""
    cast: bool = False
    """Whether a cache of fewer bits is converted as a whole before."""
    hosted: bool = False
    """Whether it was timed one launch after the other, from the host."""


TRITON: Final = Kernel(
    block=16.0, rows=16.0, splits=8.0, least=32.0, even=False, several=True, plain=True
)
"""Blocks of 16 heads (``BLOCK_H``), parts of 32 keys (``MIN_BLOCK_KV``)."""
KERNELS: Final[Mapping[str, Kernel]] = {
    "flash_attention": Kernel(cast=True),
    "fa3": Kernel(cast=True),
    "triton": TRITON._replace(grows=True),
    "TRITON_MLA": TRITON._replace(splits=4.0, fixed=True),
    "vllm_triton_mla": TRITON._replace(splits=4.0, fixed=True, hosted=True),
    "vllm_flashmla": Kernel(hosted=True),
    "vllm_flash_attn_mla": Kernel(hosted=True),
}
"""By the kernel's name. SGLang's Triton kernel has up to 8 parts
(``triton_attention_num_kv_splits``), as many as ``get_num_kv_splits_triton`` says, vLLM's always 4
(``triton_mla.py``); SGLang converts the cache to the type of the queries before FlashAttention-3
(``flashattention_backend.py``). Kernels of vLLM 0.14 were timed from the host."""
GENERATIONS: Final[Mapping[str, Kernel]] = {
    **dict.fromkeys(PAIRED, Kernel(16.0, splits=NO_BOUND, least=256.0, even=False, tall=True)),
    **dict.fromkeys(GENERAL, Kernel(splits=1.0, several=True)),
}
"""Of kernels not named above, by generation of devices: ``fmhaKernels.h`` of TensorRT-LLM and
FlashInfer on Blackwell, the general kernel before Hopper. All others as FlashMLA
(https://github.com/deepseek-ai/FlashMLA)."""


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
    """Columns of `roofline.cost.kernels.latent.DECODE`.

    Widths are bytes per element, the generation is the device's.
    """
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
    """Shapes, and facts of a kernel about them.

    A residual table has ``rounded`` query rows as a coordinate: what is learned of 8 heads is known
    of 1.
    """
    ones, queries = np.ones_like(dims["batch"]), dims["heads"] * dims["new"]
    block = np.where(known.tall & (queries <= NARROW), NARROW, known.block)
    slots = NO_BOUND * ones if known.fixed else ones
    if known.grows:
        slots = np.maximum(np.log2(dims["context"] / KEYS), ones)
    return {
        **dims,
        "splits": known.splits * ones,
        "least": known.least * ones,
        "block": block,
        "rows": known.rows * ones,
        "even": known.even * ones,
        "packs": known.packs * ones,
        "tall": known.tall * ones,
        "slots": slots,
        "plain": (known.plain & (queries == 1.0)) * ones,
        "several": known.several * ones,
        "hosted": known.hosted * ones,
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
