"""Calibrated time of attention without a mask: thread blocks of query rows over all keys.

A block of M query rows of one head visits every tile of keys. Blocks are alike, so the last wave of
them takes as long as a full one. Keys and values are read once per wave that needs them, from the
last-level cache while they fit in it.
"""

from typing import Final

import numpy as np

from roofline.cost.kernels.form import (
    RATES,
    Dims,
    FormConstant,
    Machine,
    Values,
    cached_traffic_time,
    summed,
)
from roofline.cost.work import Array

COLUMNS: Final = 64.0
"""Keys of a tile are a multiple of this. [1]"""
WIDTH: Final = 2.0
"""Bytes of an element. [B]"""
DEEP: Final = 16.0
"""Head widths are padded to a multiple of this, the depth of a matrix instruction. [1]"""
NARROW: Final = 64.0
"""Head width up to which two blocks of the Triton kernel are resident on a multiprocessor. [1]"""
ROWS: Final = {
    ("fa3", "hopper"): 192.0,
    ("fa4", "blackwell"): 256.0,
    ("fa4", "blackwell-ultra"): 256.0,
    ("torch_flow", "blackwell"): 256.0,
    ("torch_flow", "blackwell-ultra"): 256.0,
    ("triton", "ada"): 64.0,
    ("triton", "ampere"): 64.0,
}
"""Query rows of a block by kernel and generation; `USUAL` of others. Source: tile_size.h of
FlashAttention-3 for heads up to 96; FlashAttention-4 and the kernels of TensorRT-LLM for Blackwell
have two tiles of 128 in flight; BLOCK in SGLang's context attention. [1]"""
USUAL: Final = 128.0
FAMILIES: Final = ("triton", "torch_flow", "fa2", "fa3", "fa4")
SERVES: Final = {
    ("sglang", "hopper"): "fa3",
    ("sglang", "blackwell"): "fa4",
    ("vllm", "hopper"): "fa3",
    ("vllm", "blackwell"): "fa4",
    ("vllm", "blackwell-ultra"): "fa4",
}
"""Kernel that an engine takes on a generation. Source: what collectors of measured rows say ran."""
ELSEWHERE: Final = {"sglang": "triton", "trtllm": "torch_flow"}
"""On other generations, by engine; FlashAttention-2 of others."""


def kernel_of(name: str) -> str:
    """Family of a kernel by the name that a collector has for it.

    >>> kernel_of("flash_attention_v3"), kernel_of("vllm_vit_flash_attn_fa2")
    ('fa3', 'fa2')
    """
    short = name.replace("flash_attention_v", "fa")
    return next((family for family in FAMILIES if family in short), "fa2")


def serving(engine: str, generation: str) -> str:
    """Family of kernels that an engine takes on a generation of devices."""
    return SERVES.get((engine, generation), ELSEWHERE.get(engine, "fa2"))


def encoder_dims(
    batch: Array, seq: Array, heads: Array, head_dim: Array, kernel: str, generation: str
) -> dict[str, Array]:
    """Columns of the form.

    A kernel is compiled for each head width: ``compiled`` sets widths apart in a residual table,
    four times as far as they are.

    Args:
        batch, seq: Sequences and their tokens, all of which see each other. [1]
        heads, head_dim: Heads of queries, as many of keys, and their width. [1]
        kernel, generation: Family of the kernel, and of the device.
    """
    triton = kernel == "triton"
    deep = np.ceil(head_dim / DEEP) * DEEP
    power = 2.0 ** np.ceil(np.log2(head_dim))
    return {
        "batch": batch,
        "seq": seq,
        "heads": heads,
        "head_dim": head_dim,
        "depth": power if triton else deep,
        "rows": np.full_like(seq, ROWS.get((kernel, generation), USUAL)),
        "slots": np.where(triton & (head_dim <= NARROW), 2.0, 1.0),
        "interleaved": np.full_like(seq, float(triton)),
        "sequences": batch * heads,
        "compiled": head_dim**4.0,
    }


def scheduled(dims: Dims, engine: str, generation: str) -> dict[str, Array]:
    """Columns of the same attention by the kernel that an engine takes."""
    batch, seq, heads, width = (dims[name] for name in ("batch", "seq", "heads", "head_dim"))
    return encoder_dims(batch, seq, heads, width, serving(engine, generation), generation)


def parts(dims: Dims, machine: Machine, constants: Values) -> tuple[Array, Array, Array]:
    """Launch, blocks wave after wave, and what passes cache and memory meanwhile. [s]

    Neighbouring blocks of a sequence share keys and values in the cache. Where blocks of all
    sequences alternate, as many share them as are resident at once, and all sequences' are needed
    again before the next wave.
    """
    seq, rows, units = dims["seq"], dims["rows"], dims["sequences"]
    each, slots = np.ceil(seq / rows), dims["slots"]
    full = units * each / (slots * machine.multiprocessors)
    waves = full + constants["uneven"] * (np.ceil(full) - full)
    per_sm = constants["compute"] * machine.flops_per_s / machine.multiprocessors
    keys = np.ceil(seq / COLUMNS) * COLUMNS
    visited = 4.0 * rows * keys * slots * (dims["depth"] + constants["softmax"]) / per_sm
    aligned = dims["head_dim"] % DEEP == 0
    masked = dims["depth"] >= dims["head_dim"] + DEEP
    visited = visited * np.where(aligned, 1.0, constants["unaligned"])
    visited = visited * np.where(masked, constants["masked"], 1.0)
    blocks = waves * (constants["block"] + visited)
    one = WIDTH * units * seq * dims["head_dim"]
    shared = np.clip(slots * machine.multiprocessors / units, 1.0, each)
    again = np.where(dims["interleaved"] > 0, each / shared, 1.0)
    moving = cached_traffic_time(2.0 * one * (1.0 + again), 4.0 * one, machine, constants)
    return np.full_like(blocks, constants["launch"]), blocks, moving


FORM: Final = summed(
    "encoder-attention",
    (
        FormConstant("launch", 1e-6, 5e-5, 7e-6, "s", "launch and first access"),
        FormConstant("block", 1e-7, 2e-5, 1.5e-6, "s", "queries in and outputs out of a block"),
        FormConstant("compute", 0.05, 1.0, 0.6, "1", "share of the tensor rate inside a tile"),
        FormConstant("softmax", 1.0, 1024.0, 32.0, "1", "exponentials, as head width they cost"),
        FormConstant("unaligned", 1.0, 8.0, 1.2, "1", "a tile of an odd head width over others"),
        FormConstant("masked", 1.0, 4.0, 1.2, "1", "a tile of a width padded to a power of two"),
        FormConstant(
            "uneven", 0.05, 1.0, 0.8, "1", "share of the last wave's idle blocks that costs"
        ),
        *RATES,
        FormConstant("sharpness", 1.0, 16.0, 2.0, "1", "exponent of the soft maximum"),
    ),
    parts,
    ("seq", "sequences", "compiled"),
    "(launch + [(waves·(block + tiles))^q + bytes^q]^(1/q)) · exp(residual)",
    knee="sharpness",
)
"""Blocks over all keys. Source: Dao 2023 (arXiv 2307.08691), section 3; Shah et al. 2024 (arXiv
2407.08608), section 3."""
