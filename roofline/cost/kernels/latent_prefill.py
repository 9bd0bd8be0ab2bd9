"""Calibrated time of prefill in multi-head latent attention.

Expanded, the latent is made into keys of 192 and values of 128 for each head, and is prefill
attention at their mean, 160: FLOPs and bytes of both are in proportion to 192 + 128. Inside the
latent, it is `roofline.cost.kernels.latent` of several new tokens: what SGLang's kernels were
measured doing.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from roofline.cost.kernels import latent, prefill
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
from roofline.records import replace

EXPANDED: Final = 160.0
"""Mean of the widths of an expanded key (128 + 64) and value (128) (DeepSeek-AI 2024,
arXiv 2412.19437, section 4.2)."""
INSIDE_KERNELS: Final[Mapping[str, latent.LatentSchedule]] = {
    "flash_attention": latent.LatentSchedule(even=False, cast=True),
    "triton": latent.LatentSchedule(
        block=32.0, rows=32.0, splits=1.0, even=False, packs=False, several=True
    ),
}
"""Kernels that attend inside the latent, by their names: FLOPs and times of FlashAttention-3 and of
Triton's ``extend_attention`` in SGLang are those of 576 and 512 numbers for each key."""
HOSTED: Final = frozenset({"vllm_flash_attn_mla", "vllm_flashmla", "vllm_triton_mla"})
"""Kernels that were timed one launch after the other, from the host."""


def latent_prefill_dims(*shape: Array, kernel: str = "") -> dict[str, Array]:
    """Columns of `FORM` and `INSIDE`, made of those of `latent.SHAPE`."""
    batch, new, context, heads, width, kv_width = shape
    h, none = np.full_like(batch, EXPANDED), np.zeros_like(batch)
    made = prefill.prefill_dims(batch, new, context, heads, heads, h, none, width, kv_width)
    return scheduled(made, kernel)


def scheduled(dims: Dims, kernel: str) -> dict[str, Array]:
    """The same columns as a kernel schedules the work."""
    known = INSIDE_KERNELS.get(kernel, latent.LatentSchedule())
    hosted = float(kernel in HOSTED) * np.ones_like(dims["batch"])
    return {**latent.columns(dims, known), "hosted": hosted}


def memory(dims: Dims, machine: Machine, constants: Values) -> Array:
    """Queries, keys, values and outputs, from memory as far as they outgrow the last level. [s]"""
    sequences, h = dims["sequences"], dims["head_dim"]
    queries = 2.0 * dims["width"] * sequences * dims["new"] * h
    keys = 2.0 * dims["kv_width"] * sequences * dims["context"] * h * constants["passes"]
    # The latent and the rotated key of a token are made and cached once for all heads.
    shared = latent.READ * (dims["width"] + dims["kv_width"])
    moved = queries + keys + constants["stored"] * dims["batch"] * dims["new"] * shared
    fits = constants["resident"] * machine.l2_bytes / moved
    missed = 1.0 / (1.0 + fits**latent.MISS)
    l2 = constants["l2"] * latent.last_level_bytes_per_s(machine)
    hbm = constants["memory"] * machine.hbm_bytes_per_s
    return moved * (missed / hbm + (1.0 - missed) / l2)


@computed_once
def attention(dims: Dims, machine: Machine, constants: Values) -> tuple[Array, Array]:
    """Longest block, and the mean load of an SM. [s]"""
    ones = np.ones_like(dims["new"])
    blocks, together, last = prefill.visits({**dims, "rows": prefill.ROWS * ones, "packed": ones})
    per_sm = constants["compute"] * machine.flops_per_s / machine.multiprocessors
    wide = dims["head_dim"] + constants["softmax"]
    tile = 4.0 * prefill.ROWS * prefill.COLUMNS * wide / per_sm
    load = dims["sequences"] * (blocks * constants["block"] + together * tile)
    return constants["block"] + last * tile, load / machine.multiprocessors


def seconds(dims: Dims, machine: Machine, constants: Values) -> Array:
    """Launches, memory, and the larger of the longest block and the mean load of an SM. [s]

    Or the host's time between launches, where that is longer and was timed.
    """
    blocks = soft_maximum(constants["sharpness"], *attention(dims, machine, constants))
    own = constants["launch"] + memory(dims, machine, constants)
    return latent.hosted(own + blocks, dims, constants)


def regime(dims: Dims, machine: Machine, constants: Values) -> Regimes:
    """Launch, longest block or all of them."""
    return longest(constants["launch"], *attention(dims, machine, constants))


FORM: Final = Form(
    "latent-prefill",
    (
        FormConstant("launch", 1e-6, 5e-5, 1e-5, "s", "launches of all kernels of the operator"),
        FormConstant("block", 1e-7, 2e-5, 2e-6, "s", "start and end of a thread block"),
        FormConstant("compute", 0.1, 1.0, 0.6, "1", "share of the tensor rate inside a tile"),
        FormConstant("softmax", 1.0, 1024.0, 32.0, "1", "exponentials, as head width they cost"),
        FormConstant("memory", 0.1, 1.0, 0.7, "1", "share of memory bandwidth"),
        FormConstant("l2", 0.02, 1.0, 0.5, "1", "share of the last-level cache's bandwidth"),
        FormConstant("resident", 0.2, 1.2, 0.8, "1", "share of that cache that operands can fill"),
        FormConstant("passes", 1.0, 16.0, 1.5, "1", "times keys and values are moved"),
        FormConstant("stored", 0.25, 16.0, 1.0, "1", "times latents of new tokens are moved"),
        FormConstant("sharpness", 1.0, 16.0, 4.0, "1", "exponent of the soft maximum"),
        FormConstant(
            "host", 1e-6, 1e-3, 1e-4, "s", "host time between launches, where it was timed"
        ),
    ),
    seconds,
    ("new", "sequences"),
    regime,
    "(launch + bytes / (memory·BW) + [longest^q + load^q]^(1/q)) · exp(residual)",
)
"""Blocks over causal tiles of expanded keys. Source: as `roofline.cost.kernels.prefill`."""
INSIDE: Final = replace(latent.DECODE, kind="latent-prefill", coordinates=("new", "sequences"))
"""Blocks over causal tiles of the latent. Source: as `roofline.cost.kernels.latent`."""
