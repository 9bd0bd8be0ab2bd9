"""Calibrated time of a whole multi-head latent attention, projections included.

Absorbed, queries are taken into the latent space and outputs out of it, head by head, around a
`roofline.cost.kernels.latent` decoding: how tokens are decoded. Expanded, the latent is made into
keys and values around a prefill attention.
"""

from typing import Final

import numpy as np

from roofline.cost.kernels import latent, sparse, sparse_columns
from roofline.cost.kernels.decode import read_again
from roofline.cost.kernels.form import (
    Dims,
    Form,
    FormConstant,
    Machine,
    Regimes,
    Values,
    longest,
    soft_maximum,
)
from roofline.cost.work import Array
from roofline.records import replace

HIDDEN: Final = 7168.0
QUERY: Final = 1536.0
LATENT: Final = 512.0
ROTATED: Final = 64.0
PLAIN: Final = 128.0
"""Widths of DeepSeek-V3: of the model, of the compressed query, of the latent, of the part of a key
that is rotated, of the part that is not and of a value (DeepSeek-AI 2024, arXiv 2412.19437,
section 4.2)."""


def projections(heads: Array, *, absorbed: bool) -> list[tuple[Array, Array]]:
    """Columns and depth of the matrices that every token goes through. [1]

    What is done head by head is one matrix of the same weights and FLOPs here.
    """
    ones = np.ones_like(heads)
    down = ((QUERY + LATENT + ROTATED) * ones, HIDDEN * ones)
    query = ((PLAIN + ROTATED) * heads, QUERY * ones)
    up = (2.0 * PLAIN * heads, LATENT * ones)
    out = (HIDDEN * ones, PLAIN * heads)
    each = (PLAIN * heads, LATENT * ones)
    return [down, query, *([each, each] if absorbed else [up]), out]


def expanded_dims(
    batch: Array,
    new: Array,
    context: Array,
    heads: Array,
    width: Array,
    *,
    weight_width: Array,
    faster: Array,
) -> dict[str, Array]:
    """Columns of `EXPANDED`, by the names of `roofline.cost.kernels.sparse`: no key is left out.

    Keys and values are made of every token of the context, as many as are new or more.

    Args:
        batch, new, context: Sequences [1], new tokens and context [token].
        heads: On the device. [1]
        width, weight_width: Bytes per element of activations, and per weight of a projection. [B]
        faster: Rate of the projections' arithmetic over that of the attention. [1]
    """
    own = sparse_columns.tokens(batch, new, context, 2.0)
    down, query, (up, depth), out = projections(heads, absorbed=False)
    matrices = [down, query, (up * context / new, depth), out]
    return {
        **own,
        **sparse_columns.dense(own, heads, key=PLAIN + ROTATED, value=PLAIN, width=2.0),
        **sparse.projections(matrices, heads, weight_width=weight_width, faster=faster),
        "hosted": np.ones_like(own["batch"]),
        "width": width,
    }


def projected(dims: Dims, machine: Machine, constants: Values, *, absorbed: bool) -> Array:
    """Time of the projections: FLOPs and weights, each under a soft maximum. [s]"""
    tokens, q = dims["batch"] * dims["new"], constants["knee"]
    total = np.zeros_like(tokens)
    for n, k in projections(dims["heads"], absorbed=absorbed):
        compute = 2.0 * tokens * n * k / (constants["gemm"] * dims["faster"] * machine.flops_per_s)
        moved = n * k * dims["weight_width"] + tokens * (n + k) * dims["width"]
        memory = moved / (constants["weights"] * machine.hbm_bytes_per_s)
        total = total + soft_maximum(q, compute, memory)
    return total


def absorbed_seconds(dims: Dims, machine: Machine, constants: Values) -> Array:
    """Projections, then latent attention, with the launches of all. [s]"""
    own = projected(dims, machine, constants, absorbed=True)
    return latent.seconds(dims, machine, constants) + own


def absorbed_regime(dims: Dims, machine: Machine, constants: Values) -> Regimes:
    """Longest of launches, attention and projections."""
    own, launch = projected(dims, machine, constants, absorbed=True), constants["launch"]
    return longest(launch, latent.seconds(dims, machine, constants) - launch, own)


OWN: Final = (
    FormConstant("gemm", 0.1, 1.0, 0.7, "1", "share of the tensor rate that projections reach"),
    FormConstant("weights", 0.1, 1.0, 0.6, "1", "share of memory bandwidth that they reach"),
    FormConstant("knee", 1.0, 16.0, 3.0, "1", "exponent of the soft maximum of both"),
)
LAUNCH: Final = FormConstant("launch", 1e-6, 5e-4, 5e-5, "s", "launches of all kernels")


ABSORBED: Final = Form(
    "latent-module-decode",
    (LAUNCH, *(c for c in latent.DECODE.constants if c.name != "launch"), *OWN),
    absorbed_seconds,
    ("context", "batch", "rounded", "new"),
    absorbed_regime,
)
EXPANDED: Final = replace(sparse.DENSE_MODULE, kind="latent-module-prefill")
"""Projections around latent attention. Source: DeepSeek-AI 2024 (arXiv 2405.04434), section 2.1,
equations 9-13; absorption is of its last paragraph. Absorbed ones have the columns of
`latent.latent_dims`, and ``weight_width`` and ``faster`` as `expanded_dims`."""


DEQUANTISED: Final = "_dequant_bf16"
"""End of the names of kernels whose 8-bit weights were converted to 16 bits when they were loaded
(TensorRT-LLM on Blackwell)."""


def heads_dims(dims: Dims, kernel: str) -> dict[str, Array]:
    """Columns of `HEADS` as a kernel takes them, and the rows of all heads, as in `WIDE_HEADS`."""
    found = {**dims, "rows": dims["tokens"] * dims["heads"]}
    if kernel.endswith(DEQUANTISED):
        ones = np.ones_like(dims["tokens"])
        found |= {"weight_width": 2.0 * ones, "quantised": 0.0 * ones}
    return found


def heads_seconds(dims: Dims, machine: Machine, constants: Values) -> Array:
    """A launch, and FLOPs or bytes of a matrix for each head; fp8 inputs are made first. [s]"""
    tokens, heads, both = dims["tokens"], dims["heads"], PLAIN + LATENT
    compute = 2.0 * tokens * heads * PLAIN * LATENT / (constants["compute"] * machine.flops_per_s)
    weights = heads * PLAIN * LATENT * dims["weight_width"]
    ends = tokens * heads * (dims["inner"] * dims["weight_width"] + (both - dims["inner"]) * 2.0)
    memory = read_again(weights + ends, machine, constants)
    made = dims["quantised"] * tokens * heads * dims["inner"] * 3.0
    quantise = made / (constants["quantise"] * machine.hbm_bytes_per_s)
    return constants["launch"] + soft_maximum(constants["sharpness"], compute, memory) + quantise


def heads_regime(dims: Dims, machine: Machine, constants: Values) -> Regimes:
    """Longer of the launch and what follows."""
    rest = heads_seconds(dims, machine, constants) - constants["launch"]
    return longest(constants["launch"], rest)


HEADS: Final = Form(
    "latent-heads",
    (
        FormConstant("launch", 1e-6, 5e-5, 5e-6, "s", "launches, quantisation included"),
        FormConstant("compute", 0.05, 1.0, 0.6, "1", "share of the tensor rate"),
        FormConstant("memory", 0.1, 1.0, 0.8, "1", "share of memory bandwidth"),
        FormConstant("l2", 0.05, 1.0, 0.4, "1", "share of the last-level cache's bandwidth"),
        FormConstant("resident", 0.2, 1.2, 0.7, "1", "share of that cache that operands can fill"),
        FormConstant("quantise", 0.05, 1.0, 0.5, "1", "share of memory bandwidth of quantising"),
        FormConstant("sharpness", 1.0, 16.0, 4.0, "1", "exponent of the soft maximum"),
    ),
    heads_seconds,
    ("tokens", "heads"),
    heads_regime,
)
"""Queries into the latent space (``mla_gen_pre``) or outputs out of it (``mla_gen_post``), head by
head. Source: DeepSeek-AI 2024 (arXiv 2405.04434), section 2.1."""
WIDE_HEADS: Final = replace(
    HEADS,
    constants=(
        *HEADS.constants,
        FormConstant("evicted", 2.0, 16.0, 6.0, "1", "sharpness of that limit, as an exponent"),
    ),
    coordinates=("rows", "heads"),
)
"""The same of engines in 16 bits, which is one kernel without quantisation. Its measurements tell
how sharply the cache stops holding operands, and its residual jumps at rows of all heads, as tiles,
waves and the cache count them. Columns as `heads_dims`."""
