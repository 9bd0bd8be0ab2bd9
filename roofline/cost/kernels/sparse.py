"""Calibrated time of sparse attention: an index scores the context, the best few keys are attended.

    t = launches + projections + [scores of the index + choice of the best] + attention

One equation for a whole module and for its kernels: a column that is 0 takes its part away. What
differs by network is a column too: multiplications for each pair, bytes of a key, keys that a
query attends. DeepSeek's attention reads a latent that all heads share, compressed attention
(DeepSeek-V4) entries and a window, MiniMax's blocks of keys of a group of heads.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from roofline.cost.kernels import choice
from roofline.cost.kernels.form import (
    Dims,
    Form,
    FormConstant,
    Machine,
    Regimes,
    Values,
    cache_bytes_per_s,
    known,
    longest,
    of_constants,
    soft_maximum,
)
from roofline.cost.kernels.latent import PADDED, WIDE
from roofline.cost.work import Array
from roofline.records import replace

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
LEAST: Final = 8.0
"""Heads whose scores are made together at least, where not fused."""
HELD: Final = 8192.0
"""Scores of a query that a choice keeps on chip (SGLang, ``topk_v1.cuh``: 32 KiB)."""
SCORE: Final = 4.0
"""Bytes of a score of the index, which is written and read again."""
GRID_ROWS: Final = 65535.0
"""Blocks of a grid along its second side (CUDA C++ Programming Guide, compute capabilities):
kernels with a query for each need another schedule for more."""
SCORED: Final = 256.0
"""Rows of a block of the index: four queries of 64 heads, the same source as `SCORES`."""
SCORES: Final = 256.0
"""Entries of a tile of the index (DeepGEMM, ``fp8_mqa_logits``)."""
OF_INDEX: Final = (
    "index", "index_memory", "index_step", "index_start", "spread", "choose", "row", "lane", "long",
    "abreast", "skip", "idle",
)  # fmt: skip
OF_ATTENTION: Final = ("pad", "compute", "step", "unit", "blocks", "l2", "memory", "sharpness")
OF_PROJECTIONS: Final = ("gemm", "weights", "passes", "knee")
OF_SWEEPS: Final = ("copies", "sweeps", "grouping")
"""Constants of each part."""


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

    Args:
        matrices: Outputs and depth of each on this device. [1]
        like: A column of as many rows.
        weight_width: Bytes per weight. [B]
        faster: Rate of their arithmetic over that of the machine. [1]
    """
    assert len(matrices) <= MOST, "a module of more matrices"
    zero = np.zeros_like(like)
    every = [*matrices, *[(zero, zero)] * (MOST - len(matrices))]
    columns = {f"n{i}": zero + n for i, (n, _) in enumerate(every)}
    columns |= {f"k{i}": zero + k for i, (_, k) in enumerate(every)}
    return {**columns, "weight_width": zero + weight_width, "faster": zero + faster}


@of_constants(*OF_PROJECTIONS)
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
        total = total + START * (n > 0.0) + soft_maximum(q, compute, weights) + ends
    return total


@of_constants(*OF_INDEX, "sharpness")
def indexed(dims: Dims, machine: Machine, constants: Values) -> Array:
    """Scores of each query with all entries before it, then the best of each query. [s]"""
    queries, sms = dims["batch"] * dims["new"], machine.multiprocessors
    scored = dims["scored"]
    units = dims["batch"] * np.maximum(np.ceil(dims["new"] * dims["index_rows"] / SCORED), 1.0)
    tiles = np.ceil(dims["entries"] / SCORES)
    flops = 2.0 * queries * scored * dims["index_macs"]
    compute = flops / (constants["index"] * dims["index_faster"] * machine.flops_per_s)
    moved = dims["batch"] * dims["entries"] * dims["entry_bytes"]
    moved = moved + 2.0 * SCORE * queries * dims["judged"] * dims["score_rows"] * dims["busy"]
    memory = moved / (constants["index_memory"] * machine.hbm_bytes_per_s)
    split = np.clip(sms / units, 1.0, np.minimum(np.maximum(tiles, 1.0), constants["spread"]))
    waves = np.maximum(np.ceil(units * np.ceil(split) / sms), 1.0)
    walk = waves * (constants["index_start"] + tiles / split * constants["index_step"])
    walk = walk * (dims["index_macs"] > 0.0)
    scores = soft_maximum(constants["sharpness"], compute, memory, walk)
    busy, idle = dims["busy"], 1.0 - dims["busy"]
    lanes = dims["score_rows"] / (sms * constants["abreast"])
    waves = np.where(busy > 0.0, np.maximum(queries * busy * lanes, 1.0), 0.0)
    best = waves * (constants["row"] + constants["lane"] * dims["judged"])
    best = best + waves * constants["long"] * (dims["judged"] > HELD)
    best = best + np.maximum(queries * idle * lanes, idle) * constants["skip"]
    share = busy + idle * constants["idle"]
    return share * scores + dims["chooses"] * (best + (busy > 0.0) * constants["choose"])


@of_constants(*OF_ATTENTION, *OF_SWEEPS, "fold", "beyond")
def attended(dims: Dims, machine: Machine, constants: Values) -> Array:
    """Blocks over tiles of the keys that were chosen, or their bytes. [s]"""
    queries, sms = dims["batch"] * dims["new"], machine.multiprocessors
    fold = np.minimum(dims["new"], constants["fold"])
    together, pad = dims["together"] * fold, constants["pad"]
    rows = ((dims["rows"] * fold) ** 4 + pad**4) ** 0.25
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
    far = far + swept(dims, machine, constants)
    present = dims["attends"] * np.where(queries > GRID_ROWS, constants["beyond"], 1.0)
    return present * soft_maximum(constants["sharpness"], block, load, near, far)


def swept(dims: Dims, machine: Machine, constants: Values) -> Array:
    """Copies of the cache, and scores of all pairs through memory, of kernels that are not fused.

    One query of each sequence is scored with the keys of all sequences. [s]
    """
    batch, new, context = dims["batch"], dims["new"], dims["context"]
    pool = batch * context * dims["key_bytes"] * dims["groups"] * constants["copies"]
    every = batch * new * context * np.where(new == 1.0, batch, 1.0)
    wide = np.maximum(dims["heads"], LEAST) / LEAST
    wide = np.where(new == 1.0, dims["groups"] ** constants["grouping"], wide)
    scores = SCORE * every * wide * constants["sweeps"]
    return (dims["copied"] * pool + dims["unfused"] * scores) / machine.hbm_bytes_per_s


def seconds(dims: Dims, machine: Machine, constants: Values) -> Array:
    """Kernels one after the other, or the host that launches them where that takes longer. [s]"""
    launches = dims["launches"] * (constants["launch"] + constants["each"] * dims["batch"])
    before = launches + projected(dims, machine, constants) + indexed(dims, machine, constants)
    host = dims["hosted"] * (constants["host"] + constants["unaligned"] * dims["unaligned"])
    return soft_maximum(HOST, host, before + attended(dims, machine, constants))


HOST: Final = 6.0
"""Exponent with which the host's time gives way to that of the device; assumed."""
FEW: Final = 256.0
"""Tokens from which projections multiply rather than read their weights."""


def regime(dims: Dims, machine: Machine, constants: Values) -> Regimes:
    """Longest of launches, index and attention; apart where tokens make projections multiply."""
    launch = np.full_like(dims["batch"], constants["launch"])
    each = (launch, indexed(dims, machine, constants), attended(dims, machine, constants))
    many = dims["batch"] * dims["new"] >= FEW
    return longest(*each) + 3 * many.astype(np.intp)


CONSTANTS: Final = (
    FormConstant("launch", 1e-6, 3e-4, 2e-5, "s", "small kernels around"),
    FormConstant("each", 1e-12, 5e-6, 1e-9, "s", "what is planned sequence by sequence"),
    FormConstant("host", 1e-6, 1e-2, 5e-4, "s", "launching of eager kernels, beside the device"),
    FormConstant("unaligned", 1e-7, 2e-3, 1e-4, "s", "more of it where a width is not aligned"),
    FormConstant("gemm", 0.1, 1.0, 0.6, "1", "share of the tensor rate that projections reach"),
    FormConstant(
        "weights", 0.1, 1.0, 0.6, "1", "share of memory bandwidth that their weights reach"
    ),
    FormConstant(
        "passes", 0.2, 10.0, 1.5, "1", "times that their inputs and outputs are passed over"
    ),
    FormConstant("knee", 1.0, 16.0, 3.0, "1", "exponent of the soft maximum of a projection"),
    FormConstant("index", 0.02, 1.0, 0.4, "1", "share of the tensor rate that scores reach"),
    FormConstant(
        "index_memory", 0.05, 1.0, 0.5, "1", "share of memory bandwidth of index and scores"
    ),
    FormConstant("index_step", 1e-8, 2e-5, 5e-7, "s", "a tile of 256 entries that is not hidden"),
    FormConstant("index_start", 1e-8, 2e-5, 2e-7, "s", "start and end of a block of the index"),
    FormConstant(
        "spread", 1.0, 4096.0, 128.0, "1", "parts that the entries are split into at most"
    ),
    FormConstant("choose", 1e-7, 1e-4, 8e-6, "s", "launches where a choice is made"),
    FormConstant("row", 1e-7, 1e-4, 2e-6, "s", "choice of the best of a query: start and passes"),
    FormConstant("lane", 2e-11, 1e-8, 2e-10, "s", "the same for each score that it looks at"),
    FormConstant("long", 1e-8, 1e-4, 1e-6, "s", "the same where its scores do not fit on chip"),
    FormConstant("abreast", 0.5, 16.0, 1.0, "1", "queries that an SM chooses for at the same time"),
    FormConstant("skip", 1e-8, 1e-4, 5e-7, "s", "the same where all keys are chosen anyway"),
    FormConstant("idle", 1e-3, 1.0, 0.1, "1", "share of scoring where all keys are chosen anyway"),
    FormConstant("pad", 1.0, 128.0, 32.0, "1", "query rows that a tile has at least"),
    FormConstant(
        "fold", 1.0, 128.0, 1.0, "1", "neighbouring queries that share the keys of a block"
    ),
    FormConstant(
        "beyond", 0.25, 4.0, 1.0, "1", "attention of more queries than a grid has, over less"
    ),
    FormConstant(
        "copies", 1.0, 500.0, 10.0, "1", "times a cache is passed over, where it is copied"
    ),
    FormConstant("sweeps", 0.1, 9e3, 100.0, "1", "times scores are passed over, where not fused"),
    FormConstant(
        "grouping", 0.5, 2.5, 1.5, "1", "growth of that with groups of heads, as an exponent"
    ),
    FormConstant("compute", 0.02, 1.0, 0.5, "1", "share of the tensor rate inside a tile"),
    FormConstant("step", 1e-9, 1e-5, 3e-7, "s", "latency of a tile of 64 keys that is not hidden"),
    FormConstant("unit", 1e-7, 5e-5, 3e-6, "s", "start and end of a block"),
    FormConstant("blocks", 0.25, 8.0, 1.2, "1", "blocks an SM works on at once; a part below 1"),
    FormConstant(
        "l2", 0.02, 1.0, 0.4, "1", "share of the last-level cache's rate of gathered keys"
    ),
    FormConstant(
        "memory", 0.1, 1.0, 0.7, "1", "share of memory bandwidth of keys, queries, outputs"
    ),
    FormConstant("sharpness", 1.0, 16.0, 3.0, "1", "exponent of the soft maximum"),
)


EQUATION: Final = (
    "(launch + Σ projections + scores + choice + [block^q + load^q + bytes^q]^(1/q))"
    " · exp(residual)"
)


def _form(kind: str, names: Sequence[str], coordinates: tuple[str, ...]) -> Form:
    """The equation with some of the constants fitted, the others at their priors."""
    whole = Form(kind, CONSTANTS, seconds, coordinates, regime, EQUATION)
    return known(whole, {c.name: c.prior for c in CONSTANTS if c.name not in names})


MODULE_KIND: Final = "sparse-module"
KINDS: Final = (MODULE_KIND, "sparse-attention", "index-scores", "index-choice")
GRID: Final = ("context", "new", "batch", "heads")
AROUND: Final = ("launch", "each")
WHOLE: Final = (*AROUND, *OF_PROJECTIONS, *OF_INDEX, *OF_ATTENTION)
STEP_MODULE: Final = _form(MODULE_KIND, ("host", *WHOLE), ("context", "batch", "heads"))
"""A token of each sequence, as a graph of kernels."""
MODULE: Final = _form(MODULE_KIND, ("host", "beyond", *WHOLE), GRID)
"""Several tokens, launched one by one or as a graph."""
UNALIGNED_MODULE: Final = _form(MODULE_KIND, ("host", "unaligned", "beyond", *WHOLE), GRID)
"""The same of an engine that launches other kernels for widths its usual one has no tiles for."""


def short(form: Form) -> Form:
    """Form of kernels on Blackwell whose blocks have few rows for few heads, as in `latent`.

    Each of two blocks of 16 heads gathers the keys itself, so that 32 heads take longer than 64.
    """

    def blocks(dims: Dims) -> Dims:
        few = (dims["heads"] <= WIDE) & (dims["attends"] > 0.0)
        rows = np.where(few, np.minimum(dims["heads"], PADDED), dims["rows"])
        groups = np.where(few, np.ceil(dims["heads"] / PADDED), dims["groups"])
        return {**dims, "rows": rows, "groups": groups}

    def seconds(dims: Dims, machine: Machine, constants: Values) -> Array:
        return form.seconds(blocks(dims), machine, constants)

    def regime(dims: Dims, machine: Machine, constants: Values) -> Regimes:
        return form.regime(blocks(dims), machine, constants)

    return replace(form, seconds=seconds, regime=regime)


SHORT_MODULE: Final = short(MODULE)
SHORT_UNALIGNED_MODULE: Final = short(UNALIGNED_MODULE)
FOLDED_MODULE: Final = _form(MODULE_KIND, ("host", "fold", *WHOLE), GRID)
"""The same where neighbouring queries may share the keys of a block."""
DENSE_MODULE: Final = _form(
    MODULE_KIND, ("host", "idle", *AROUND, *OF_PROJECTIONS, *OF_ATTENTION), GRID
)
"""The same where all keys are attended, made of the latent for each head."""
UNFUSED_MODULE: Final = _form(
    MODULE_KIND, ("host", *AROUND, *OF_PROJECTIONS, *OF_SWEEPS, "memory", "sharpness"), GRID
)
"""The same, of kernels that score all pairs through memory."""
COPIED_MODULE: Final = _form(MODULE_KIND, ("host", "copies", *WHOLE), STEP_MODULE.coordinates)
"""A token of each sequence, of kernels that copy the cache first."""
ATTENTION: Final = _form("sparse-attention", (*AROUND, *OF_ATTENTION), GRID)
"""Attention to chosen keys alone."""
SCORING: Final = _form(
    "index-scores",
    (*AROUND, "index", "index_memory", "index_step", "index_start", "spread", "sharpness"),
    ("context", "new", "batch"),
)
"""Scores of the index alone."""
FORMS: Final = {
    "sparse-step": STEP_MODULE,
    "sparse-module": MODULE,
    "sparse-unaligned": UNALIGNED_MODULE,
    "sparse-short": SHORT_MODULE,
    "sparse-short-unaligned": SHORT_UNALIGNED_MODULE,
    "sparse-folded": FOLDED_MODULE,
    "sparse-dense": DENSE_MODULE,
    "sparse-unfused": UNFUSED_MODULE,
    "sparse-copied": COPIED_MODULE,
    "sparse-attention": ATTENTION,
    "sparse-scores": SCORING,
    "sparse-choice": choice.FORM,
}
"""Forms by their names in calibration files. Source: DeepSeek-AI 2025 (DeepSeek-V3.2),
section 2.1, for index and choice; DeepSeek-AI 2026 (DeepSeek-V4), section 2.3; FlashMLA
(https://github.com/deepseek-ai/FlashMLA) and DeepGEMM
(https://github.com/deepseek-ai/DeepGEMM) for how they are scheduled."""
