"""Calibrated time of multi-head latent attention: one latent head that all query heads read.

Decoding reads 576 numbers of each cached token (latent and rotated key) and weighs 512 of them, for
every query head; heads are the rows of a block. Prefill expands the latent into keys of 192 and
values of 128 for each head, and is prefill attention at their mean, 160: FLOPs and bytes of both
are in proportion to 192 + 128.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from roofline.cost.kernels import prefill
from roofline.cost.kernels.decode import read_again
from roofline.cost.kernels.form import Constant, Dims, Form, Machine, Regimes, Values
from roofline.cost.work import Array

READ: Final = 576.0
"""Numbers read of a cached token: latent 512 and rotated key 64 (DeepSeek-AI 2024,
arXiv 2412.19437, section 4.2)."""
WEIGHED: Final = 512.0
"""Of which are values."""
EXPANDED: Final = 160.0
"""Mean of the widths of an expanded key (128 + 64) and value (128), the same source."""
ROWS: Final = 64.0
"""Query rows of a block, of two SMs on Blackwell twice as many."""
PADDED: Final = 16.0
"""Rows that the tensor cores round up to."""
KEYS: Final = 64.0
"""Keys of a tile."""

SPLITS: Final = 128.0
"""Most parts that the keys of a block are split into."""
PAIRED: Final = frozenset({"blackwell", "blackwell-ultra"})
"""Generations whose tensor cores take 128 rows at once, of one SM or of two; up to 16 rows are the
columns of a smaller product instead (``tcgen05.mma``, PTX ISA 8.6, section 9.7.16)."""
GENERAL: Final = frozenset({"volta", "turing", "ampere", "ada"})
"""Generations for which TensorRT-LLM has no kernel of its own for the latent head (Hopper:
FlashMLA); its general kernel does not split."""


def latent_dims(
    batch: Array,
    new: Array,
    context: Array,
    heads: Array,
    width: Array,
    kv_width: Array,
    *,
    generation: str = "",
) -> dict[str, Array]:
    """Columns of `DECODE`; widths are bytes per element, the generation is the device's."""
    most = 1.0 if generation in GENERAL else SPLITS
    block = 2.0 * ROWS if generation in PAIRED else ROWS
    queries = np.minimum(heads * new, block)
    rounded = np.ceil(queries / PADDED) * PADDED
    if generation in PAIRED:
        rounded = np.where(queries <= PADDED, PADDED, block)
    return {
        "batch": batch,
        "new": new,
        "context": context,
        "heads": heads,
        "width": width,
        "kv_width": kv_width,
        "splits": most * np.ones_like(batch),
        "block": block * np.ones_like(batch),
        "rows": rounded * np.ones_like(batch),
    }


def expanded_dims(
    batch: Array, new: Array, context: Array, heads: Array, width: Array, kv_width: Array
) -> dict[str, Array]:
    """Columns of `PREFILL`; widths are bytes per element."""
    h, none = np.full_like(batch, EXPANDED), np.zeros_like(batch)
    return prefill.prefill_dims(batch, new, context, heads, heads, h, none, width, kv_width)


@dataclass(frozen=True, slots=True)
class Parts:
    """What the time of decoding is made of.

    Attributes
    ----------
    block
        One block: its start and its tiles. [s]
    load
        All blocks, spread evenly over the SMs. [s]
    memory
        Cache, queries and outputs over the bandwidth they come at. [s]
    join
        The reduction over splits. [s]
    """

    block: Array
    load: Array
    memory: Array
    join: Array


def parts(dims: Dims, machine: Machine, constants: Values) -> Parts:
    """Times that the equation puts together."""
    batch, sms = dims["batch"], machine.multiprocessors
    queries = dims["heads"] * dims["new"]
    units = batch * np.ceil(queries / dims["block"])
    tiles = np.ceil(dims["context"] / KEYS)
    each = np.ceil(units * tiles / sms)
    split = np.clip(np.ceil(tiles / each), 1.0, dims["splits"])
    rows = dims["rows"]
    per_sm = constants["compute"] * machine.flops_per_s / sms
    tile = constants["step"] + 2.0 * rows * KEYS * (READ + WEIGHED) / per_sm
    start = constants["unit"] + constants["edge"] * rows / ROWS
    load = units * (split * start + tiles * tile) / (sms * constants["together"])
    cache = batch * dims["context"] * READ * dims["kv_width"]
    ends = batch * queries * (READ + WEIGHED) * dims["width"]
    join = (split > 1) * (
        constants["combine"]
        + constants["merge"] * np.log2(split)
        + constants["reduce"] * batch * np.ceil(queries / PADDED) / sms
    )
    memory = read_again(cache, machine, constants)
    memory += ends / (constants["memory"] * machine.hbm_bytes_per_s)
    return Parts(start + np.ceil(tiles / split) * tile, load, memory, join)


def seconds(dims: Dims, machine: Machine, constants: Values) -> Array:
    """Launch, the largest of block, load and memory, and what joins the splits. [s]"""
    part, q = parts(dims, machine, constants), constants["sharpness"]
    longest = (part.block**q + part.load**q + part.memory**q) ** (1.0 / q)
    return constants["launch"] + longest + part.join


def regime(dims: Dims, machine: Machine, constants: Values) -> Regimes:
    """Block, load or memory."""
    part = parts(dims, machine, constants)
    found: Regimes = np.argmax(np.stack([part.block, part.load, part.memory]), axis=0)
    return found


DECODE: Final = Form(
    "latent-decode",
    (
        Constant("launch", 1e-6, 2e-4, 8e-6, "s", "launch of the kernel, or its host time"),
        Constant("unit", 1e-7, 5e-5, 3e-6, "s", "start and end of a block"),
        Constant("edge", 1e-8, 5e-5, 1e-6, "s", "its queries and outputs, at 64 rows"),
        Constant("step", 1e-8, 2e-5, 5e-7, "s", "latency of a tile that no other work hides"),
        Constant("compute", 0.02, 1.0, 0.5, "1", "share of the tensor rate inside a tile"),
        Constant("together", 0.25, 4.0, 1.0, "1", "blocks an SM works on at once; a part below 1"),
        Constant("memory", 0.2, 1.0, 0.8, "1", "share of memory bandwidth"),
        Constant("l2", 0.05, 1.0, 0.5, "1", "share of the last-level cache's bandwidth"),
        Constant("resident", 0.2, 1.2, 0.8, "1", "share of that cache that a KV cache can fill"),
        Constant("reduce", 1e-8, 5e-6, 2e-7, "s", "a block of the reduction"),
        Constant("merge", 1e-8, 5e-6, 2e-7, "s", "a doubling of the splits it joins"),
        Constant("combine", 1e-8, 2e-5, 1e-6, "s", "its launch"),
        Constant("sharpness", 1.0, 16.0, 4.0, "1", "exponent of the soft maximum"),
    ),
    seconds,
    ("context", "batch", "heads", "new"),
    regime,
    "(launch + [block^q + load^q + bytes^q]^(1/q) + joining of splits) · exp(residual)",
)
"""Blocks of heads over splits of a latent cache. Source: DeepSeek-AI 2024 (arXiv 2405.04434),
section 2.1, in its absorbed form; the tile scheduler of FlashMLA
(https://github.com/deepseek-ai/FlashMLA)."""
PREFILL: Final = replace(prefill.FORM, kind="latent-prefill", coordinates=("new", "sequences"))
"""As `roofline.cost.kernels.prefill`, of expanded keys and values."""
