"""Calibrated time of sparse attention: an index scores the context, the best few keys are attended.

    t = launches + projections + [scores of the index + choice of the best] + attention

One equation for a whole module and for its kernels: a column that is 0 takes its part away. What
differs by network is a column too: multiplications for each pair, bytes of a key, keys that a query
attends. DeepSeek's attention reads a latent that all heads share, compressed attention (DeepSeek-V4)
entries and a window, MiniMax's blocks of keys of a group of heads.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from roofline.cost.kernels.form import Constant, Dims, Form, Machine, Regimes, Values
from roofline.cost.kernels.warm import cache_bytes_per_s
from roofline.cost.work import Array

START: Final = 3e-6
"""Launch of a projection, beside the other launches of a module; assumed, after fits of linear
layers (3 to 5 µs). [s]"""
MOST: Final = 10
"""Projections of a module, at most."""
ROWS: Final = 64.0
"""Query rows of a block: heads that share keys, or queries of a dense prefill."""
KEYS: Final = 64.0
"""Keys of a tile (FlashMLA, ``sm90/prefill/sparse``)."""
SPLITS: Final = 32.0
"""Most parts that the keys of a block are split into."""
SCORE: Final = 4.0
"""Bytes of a score of the index, which is written and read again."""
SCORES: Final = 256.0
"""Entries of a tile of the index (DeepGEMM, ``fp8_mqa_logits``)."""


def no_projections(like: Array) -> dict[str, Array]:
    """Columns of a kernel without projections."""
    return projections([], like, weight_width=0.0, faster=1.0)


def projections(
    matrices: Sequence[tuple[Array, Array]],
    like: Array,
    *,
    weight_width: Array | float,
    faster: Array | float,
) -> dict[str, Array]:
    """Columns of the matrices that every new token is multiplied with.

    Parameters
    ----------
    matrices
        Outputs and depth of each on this device. [1]
    like
        A column of as many rows.
    weight_width
        Bytes per weight. [B]
    faster
        Rate of their arithmetic over that of the machine. [1]
    """
    assert len(matrices) <= MOST, "a module of more matrices"
    zero = np.zeros_like(like)
    every = [*matrices, *[(zero, zero)] * (MOST - len(matrices))]
    columns = {f"n{i}": zero + n for i, (n, _) in enumerate(every)}
    columns |= {f"k{i}": zero + k for i, (_, k) in enumerate(every)}
    return {**columns, "weight_width": zero + weight_width, "faster": zero + faster}


@dataclass(frozen=True, slots=True)
class Parts:
    """What the time is made of.

    Attributes
    ----------
    launches
        Latency of the small kernels around. [s]
    projections
        Matrices that every token is multiplied with. [s]
    index
        Scores of all entries, and the choice of the best. [s]
    attention
        Attention to the chosen keys. [s]
    """

    launches: Array
    projections: Array
    index: Array
    attention: Array

    @property
    def seconds(self) -> Array:
        """All of them, one after the other. [s]"""
        every: Array = self.launches + self.projections + self.index + self.attention
        return every


def projected(dims: Dims, machine: Machine, constants: Values) -> Array:
    """Matrices one after the other: FLOPs and bytes, each under a soft maximum. [s]"""
    tokens, q = dims["batch"] * dims["new"], constants["knee"]
    rate = constants["gemm"] * dims["faster"] * machine.flops_per_s
    total = np.zeros_like(tokens)
    for i in range(MOST):
        n, k = dims[f"n{i}"], dims[f"k{i}"]
        if not n.any():
            break
        compute = 2.0 * tokens * n * k / rate
        weights = n * k * dims["weight_width"] / (constants["weights"] * machine.hbm_bytes_per_s)
        ends = constants["passes"] * tokens * (n + k) * dims["width"] / machine.hbm_bytes_per_s
        total = total + START * (n > 0.0) + (compute**q + weights**q) ** (1.0 / q) + ends
    return total


def indexed(dims: Dims, machine: Machine, constants: Values) -> Array:
    """Scores of each query with all entries before it, then the best of each query. [s]"""
    queries, sms = dims["batch"] * dims["new"], machine.multiprocessors
    scored, q = dims["scored"], constants["sharpness"]
    units = np.maximum(dims["batch"] * np.ceil(dims["new"] * dims["index_rows"] / ROWS), 1.0)
    tiles = np.ceil(dims["entries"] / SCORES)
    flops = 2.0 * queries * scored * dims["index_macs"]
    compute = flops / (constants["index"] * dims["index_faster"] * machine.flops_per_s)
    moved = dims["batch"] * dims["entries"] * dims["entry_bytes"]
    moved = moved + 2.0 * SCORE * queries * dims["judged"] * dims["score_rows"]
    memory = moved / (constants["index_memory"] * machine.hbm_bytes_per_s)
    walk = np.ceil(units * tiles / sms) * constants["index_step"] * (dims["index_macs"] > 0.0)
    scores = (compute**q + memory**q + walk**q) ** (1.0 / q)
    rows = np.maximum(queries * dims["score_rows"] / (sms * constants["abreast"]), 1.0)
    best = rows * (constants["row"] + constants["lane"] * dims["judged"]) * dims["chooses"]
    share = np.where(dims["chosen"] > 0.0, 1.0, constants["idle"])
    time: Array = share * (scores + best) + dims["chosen"] * dims["chooses"] * constants["choose"]
    return time


def attended(dims: Dims, machine: Machine, constants: Values) -> Array:
    """Blocks over tiles of the keys that were chosen, or their bytes. [s]"""
    queries, sms = dims["batch"] * dims["new"], machine.multiprocessors
    present = dims["attends"]
    together, pad = dims["together"], constants["pad"]
    rows = (dims["rows"] ** 4 + pad**4) ** 0.25
    units = np.maximum(queries / together * dims["groups"], 1.0)
    tiles = np.maximum(dims["met"] / KEYS, 1.0 / KEYS)
    split = np.clip(sms / units, 1.0, np.minimum(np.maximum(tiles, 1.0), SPLITS))
    per_sm = constants["compute"] * machine.flops_per_s / sms
    tile = constants["step"] + 2.0 * rows * KEYS * dims["pair_macs"] / per_sm
    start = constants["unit"]
    block = start + tiles / split * tile
    load = units * (split * start + tiles * tile) / (sms * constants["blocks"])
    gathered = queries / together * dims["groups"] * dims["met"] * dims["key_bytes"]
    near = gathered / (constants["l2"] * cache_bytes_per_s(machine))
    moved = dims["batch"] * dims["unique"] * dims["key_bytes"]
    ends = queries * dims["heads"] * dims["ends"] * dims["width"]
    far = (moved + ends) / (constants["memory"] * machine.hbm_bytes_per_s)
    q = constants["sharpness"]
    time: Array = present * (block**q + load**q + near**q + far**q) ** (1.0 / q)
    return time


def parts(dims: Dims, machine: Machine, constants: Values) -> Parts:
    """Times that the equation puts together."""
    return Parts(
        dims["launches"] * constants["launch"],
        projected(dims, machine, constants),
        indexed(dims, machine, constants),
        attended(dims, machine, constants),
    )


def seconds(dims: Dims, machine: Machine, constants: Values) -> Array:
    """Launches, projections, index and attention, one after the other. [s]"""
    return parts(dims, machine, constants).seconds


FEW: Final = 256.0
"""Tokens from which projections multiply rather than read their weights."""


def regime(dims: Dims, machine: Machine, constants: Values) -> Regimes:
    """Launches, index or attention; apart from as many tokens on as make projections multiply."""
    launch = np.full_like(dims["batch"], constants["launch"])
    each = (launch, indexed(dims, machine, constants), attended(dims, machine, constants))
    many = dims["batch"] * dims["new"] >= FEW
    found: Regimes = (np.argmax(np.stack(each), axis=0) + 3 * many).astype(np.intp)
    return found


CONSTANTS: Final = (
    Constant("launch", 1e-6, 5e-3, 2e-5, "s", "small kernels around, and host time where eager"),
    Constant("gemm", 0.1, 1.0, 0.6, "1", "share of the tensor rate that projections reach"),
    Constant("weights", 0.1, 1.0, 0.6, "1", "share of memory bandwidth that their weights reach"),
    Constant("passes", 0.2, 10.0, 1.5, "1", "times that their inputs and outputs are passed over"),
    Constant("knee", 1.0, 16.0, 3.0, "1", "exponent of the soft maximum of a projection"),
    Constant("index", 0.02, 1.0, 0.4, "1", "share of the tensor rate that scores reach"),
    Constant("index_memory", 0.05, 1.0, 0.5, "1", "share of memory bandwidth of index and scores"),
    Constant("index_step", 1e-8, 2e-5, 5e-7, "s", "a tile of 256 entries that is not hidden"),
    Constant("choose", 1e-7, 1e-4, 8e-6, "s", "launches where a choice is made"),
    Constant("row", 1e-7, 1e-4, 3e-6, "s", "choice of the best of a query: start and passes"),
    Constant("lane", 1e-13, 1e-8, 5e-11, "s", "the same for each score that it looks at"),
    Constant("abreast", 0.5, 16.0, 2.0, "1", "queries that an SM chooses for at the same time"),
    Constant("idle", 1e-3, 1.0, 0.1, "1", "share of that where all keys are chosen anyway"),
    Constant("pad", 1.0, 128.0, 32.0, "1", "query rows that a tile has at least"),
    Constant("compute", 0.02, 1.0, 0.5, "1", "share of the tensor rate inside a tile"),
    Constant("step", 1e-9, 1e-5, 3e-7, "s", "latency of a tile of 64 keys that is not hidden"),
    Constant("unit", 1e-7, 5e-5, 3e-6, "s", "start and end of a block"),
    Constant("blocks", 0.25, 8.0, 1.2, "1", "blocks an SM works on at once; a part below 1"),
    Constant("l2", 0.02, 1.0, 0.4, "1", "share of the last-level cache's rate of gathered keys"),
    Constant("memory", 0.1, 1.0, 0.7, "1", "share of memory bandwidth of keys, queries, outputs"),
    Constant("sharpness", 1.0, 16.0, 3.0, "1", "exponent of the soft maximum"),
)


def _form(kind: str, names: Sequence[str], coordinates: tuple[str, ...]) -> Form:
    """The equation with some of the constants free, the others at their priors."""
    fixed = (Constant(c.name, c.prior, c.prior, c.prior, c.unit, c.meaning) for c in CONSTANTS)
    free = {c.name: c for c in CONSTANTS if c.name in names}
    constants = tuple(free.get(c.name, c) for c in fixed)
    return Form(kind, constants, seconds, coordinates, regime, EQUATION)


EQUATION: Final = (
    "(launch + Σ projections + scores + choice + [block^q + load^q + bytes^q]^(1/q))"
    " · exp(residual)"
)
OF_INDEX: Final = (
    "index", "index_memory", "index_step", "choose", "row", "lane", "abreast", "idle",
)  # fmt: skip
OF_ATTENTION: Final = ("pad", "compute", "step", "unit", "blocks", "l2", "memory", "sharpness")
OF_PROJECTIONS: Final = ("gemm", "weights", "passes", "knee")

MODULE: Final = _form(
    "sparse-module",
    ("launch", *OF_PROJECTIONS, *OF_INDEX, *OF_ATTENTION),
    ("context", "new", "batch", "heads"),
)
DENSE_MODULE: Final = _form(
    "sparse-module",
    ("launch", *OF_PROJECTIONS, "idle", *OF_ATTENTION),
    ("context", "new", "batch", "heads"),
)
STEP_MODULE: Final = _form(
    "sparse-module",
    ("launch", *OF_PROJECTIONS, *OF_INDEX, *OF_ATTENTION),
    ("context", "batch", "heads"),
)
ATTENTION: Final = _form("sparse-attention", ("launch", *OF_ATTENTION), ("context", "new", "batch"))
SCORING: Final = _form(
    "index-scores",
    ("launch", "index", "index_memory", "index_step", "sharpness"),
    ("context", "new", "batch"),
)
CHOICE: Final = _form(
    "index-choice", ("launch", "index_memory", "row", "lane", "abreast"), ("context", "new", "batch")
)
