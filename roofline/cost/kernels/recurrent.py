"""Calibrated times of the kernels of linear attention and state-space layers.

A short convolution over the channels; then, for new prompts, matrix products inside chunks of
tokens and a state handed from chunk to chunk, or, for one token or a few, steps of the recurrence.

Symbols: B sequences of T new tokens, C channels of the convolution, h heads with a state of R × P
(key by value width), k heads that keys are made for, Q tokens of a chunk.
"""

from typing import Final

import numpy as np

from roofline.cost.kernels.form import (
    RATES,
    Dims,
    FormConstant,
    Machine,
    Regimes,
    Values,
    cached_traffic_time,
    known,
    longest,
    summed,
)
from roofline.cost.work import Array
from roofline.records import replace

WIDTH: Final = 2.0
"""Bytes of an activation. [B]"""
STATE: Final = 4.0
"""Bytes of an element of a state: engines keep it in 32 bits. [B]"""
CHUNK: Final = 64.0
"""Tokens of a chunk where the source names none: that of flash-linear-attention. [token]"""
ROWS: Final = 16.0
"""Rows of the smallest tile of a matrix instruction. [1]"""
CONVOLVED: Final = 8.0
"""Tokens that a block of a convolution walks through, one after the other. [token]"""


def convolution_dims(batch: Array, new: Array, channels: Array, taps: Array) -> dict[str, Array]:
    """Columns of the two convolutions."""
    return {"batch": batch, "new": new, "channels": channels, "taps": taps}


def _convolved(dims: Dims, machine: Machine, constants: Values) -> tuple[Array, Array, Array]:
    """Start with the tokens one after the other, blocks, and traffic. [s]

    Each input is read and each output written once; the last inputs of a sequence are kept.
    """
    batch, new, channels = dims["batch"], dims["new"], dims["channels"]
    start = constants["start"] + constants["token"] * np.minimum(new, CONVOLVED)
    rows = constants["row"] * batch * channels / machine.multiprocessors
    moved = WIDTH * batch * channels * (2.0 * new + dims["taps"] - 1.0)
    return start, rows, cached_traffic_time(moved, moved, machine, constants)


def _convolution_regime(dims: Dims, machine: Machine, constants: Values) -> Regimes:
    start, rows, moving = _convolved(dims, machine, constants)
    return longest(start, np.maximum(rows, moving))


_CONVOLUTION: Final = summed(
    "convolution",
    (
        FormConstant(
            "start", 5e-7, 6e-4, 3e-6, "s", "launches and first access, of the host if eager"
        ),
        FormConstant(
            "token", 1e-9, 5e-6, 2e-7, "s", "each of the tokens that a block walks through"
        ),
        FormConstant(
            "row", 1e-12, 5e-6, 1e-9, "s", "each channel of a sequence on a multiprocessor"
        ),
        *RATES,
        FormConstant("sharpness", 1.0, 16.0, 2.0, "1", "exponent of the soft maximum"),
    ),
    _convolved,
    ("new", "batch", "channels"),
    "(start + token·min(T, 8) + [(row·B·C/SMs)^q + bytes^q]^(1/q)) · exp(residual)",
    knee="sharpness",
)
CONVOLUTION: Final = replace(_CONVOLUTION, regime=_convolution_regime)
"""Source: causal-conv1d, Dao 2023: a block for some channels of a sequence, in 16 bits."""


def _updated(dims: Dims, machine: Machine, constants: Values) -> tuple[Array, Array]:
    """Start with the tokens one after the other, and traffic. [s]

    A step reads and writes the last inputs; where several tokens may be rejected, a window of them
    is kept for each.
    """
    batch, new, channels = dims["batch"], dims["new"], dims["channels"]
    start = constants["start"] + constants["token"] * (new - 1.0)
    each = 2.0 * new + 2.0 * (dims["taps"] - 1.0)
    windows = constants["window"] * (new - 1.0) * (dims["taps"] - 1.0)
    moved = WIDTH * batch * channels * (each + windows)
    touched = moved - WIDTH * batch * channels * (dims["taps"] - 1.0)
    return start, cached_traffic_time(moved, touched, machine, constants)


CONVOLUTION_STEP: Final = summed(
    "convolution-step",
    (
        FormConstant("start", 5e-7, 5e-5, 2e-6, "s", "launch and first access"),
        FormConstant("token", 1e-9, 5e-6, 1e-7, "s", "each further token"),
        FormConstant(
            "window", 0.05, 2.0, 0.5, "1", "share of a window that is kept for each token"
        ),
        *RATES,
    ),
    _updated,
    ("batch", "channels", "new"),
    "(start + token·(T − 1) + bytes through cache and memory) · exp(residual)",
)
"""Source: causal_conv1d_update of causal-conv1d, Dao 2023; vLLM and SGLang keep a window of each
token for verification."""


STATE_SHAPE: Final = ("batch", "new", "key_heads", "heads", "key_dim", "value_dim", "chunk")
"""Shape of a state: B, T, then k, h, R and P on the device, and Q, 0 where it is not stated."""


def state_dims(*shape: Array, alone: bool = False, solved: bool = True) -> dict[str, Array]:
    """Columns of the scan and of the steps.

    Args:
        shape: Columns `STATE_SHAPE`.
        alone: Whether one kernel does the whole scan with a state on each multiprocessor.
        solved: Whether values are solved for first, as the delta rule does.
    """
    dims = dict(zip(STATE_SHAPE, shape, strict=True))
    return {
        **dims,
        "chunk": np.where(dims["chunk"] > 0, dims["chunk"], CHUNK),
        "alone": np.full_like(dims["batch"], float(alone)),
        "solved": np.full_like(dims["batch"], float(solved)),
        "sequences": dims["batch"] * dims["heads"],
    }


def scheduled(dims: Dims, engine: str, generation: str) -> Dims:
    """Columns of the same scan by the kernel that an engine has.

    vLLM scans with one kernel, the state of a head on each multiprocessor, from Hopper on. Source:
    FlashInfer and FlashKDA are what collectors of measured rows say ran.
    """
    if "alone" not in dims:
        return dims
    alone = engine == "vllm" and generation not in ("ampere", "ada")
    return {**dims, "alone": np.full_like(dims["batch"], float(alone))}


def scan_flops(dims: Dims) -> Array:
    """Arithmetic of whole chunks: tiles do not skip what is masked. [FLOP]

    Each token meets the Q of its chunk with a key, 2·R for each key head, and a value, 2·P for each
    head, twice with the delta rule; it reads the state and updates it, 2·R·P each, and reads it
    once more with the delta rule. Source: `roofline.cost.recurrent.chunked_scan`.
    """
    heads, key, value, chunk = dims["heads"], dims["key_dim"], dims["value_dim"], dims["chunk"]
    solved = dims["solved"]
    short = 2.0 ** np.ceil(np.log2(np.maximum(dims["new"], ROWS)))
    whole = np.ceil(dims["new"] / chunk) * chunk
    rows = np.where(dims["new"] < chunk, np.minimum(short, chunk), whole)
    met = np.minimum(rows, chunk)
    inside = 2.0 * (1.0 + solved) * met * (dims["key_heads"] * key + heads * value)
    across = 2.0 * (2.0 + solved) * heads * key * value
    return dims["batch"] * rows * (inside + across)


def scan_terms(dims: Dims, machine: Machine, constants: Values) -> tuple[Array, Array, Array]:
    """Launches with the rows of the first chunk, chunks one after the other, and all of them. [s]

    The chunks of a sequence follow one another, in as many waves as there are; all chunks, their
    arithmetic, blocks and traffic, are spread over the multiprocessors.
    """
    new, chunk, units = dims["new"], dims["chunk"], dims["sequences"]
    heads, key, value = dims["heads"], dims["key_dim"], dims["value_dim"]
    chunks, alone = np.ceil(new / chunk), dims["alone"] > 0
    start = constants["launch"] + constants["inner"] * np.minimum(new, chunk) / chunk
    full = units / machine.multiprocessors
    waves = np.where(alone, np.ceil(full), np.maximum(full / constants["slots"], 1.0))
    serial = constants["chunk"] * chunks * (chunk / CHUNK) * waves
    compute = scan_flops(dims) / (constants["compute"] * machine.flops_per_s)
    operands = WIDTH * dims["batch"] * new * 2.0 * (dims["key_heads"] * key + heads * value)
    states = 2.0 * STATE * units * key * value
    moved = constants["passes"] * operands + states
    moving = cached_traffic_time(moved, moved / 2.0, machine, constants)
    blocks = constants["block"] * chunks * full
    return start, serial, compute + blocks + moving


SCAN: Final = summed(
    "scan",
    (
        FormConstant("launch", 2e-6, 1e-4, 2e-5, "s", "launches of all kernels of the scan"),
        FormConstant("inner", 1e-8, 1e-4, 1e-5, "s", "rows of a chunk, one after the other"),
        FormConstant(
            "chunk", 5e-8, 2e-5, 1.5e-6, "s", "each 64 tokens that a state is handed through"
        ),
        FormConstant(
            "slots", 0.25, 16.0, 1.0, "1", "states that a multiprocessor works on at once"
        ),
        FormConstant("compute", 0.01, 1.0, 0.3, "1", "share of the tensor rate"),
        FormConstant("block", 1e-9, 5e-5, 1e-6, "s", "each chunk that a multiprocessor takes"),
        FormConstant("passes", 1.0, 12.0, 4.0, "1", "times the operands cross memory"),
        *RATES,
        FormConstant("sharpness", 1.0, 16.0, 2.0, "1", "exponent of the soft maximum"),
    ),
    scan_terms,
    ("new", "sequences", "heads"),
    "(launch + inner·min(T, Q)/Q + [(chunk·⌈T/Q⌉·waves)^q + (F/(compute·P) + block·⌈T/Q⌉·B·h/SMs "
    "+ bytes)^q]^(1/q)) · exp(residual)",
    knee="sharpness",
)
"""Chunks as products. Source: Dao and Gu 2024 (arXiv 2405.21060), section 6; Yang et al. 2024
(arXiv 2406.06484), sections 3 and 4: five to eight kernels, of which one hands the state on."""


def _stepped(dims: Dims, machine: Machine, constants: Values) -> tuple[Array, Array]:
    """Start with the tokens one after the other, and traffic with its blocks. [s]

    The state is read once and written after each token, over itself or to where a rejected token
    can be undone.
    """
    batch, new, units = dims["batch"], dims["new"], dims["sequences"]
    heads, key, value = dims["heads"], dims["key_dim"], dims["value_dim"]
    start = constants["start"] + constants["token"] * (new - 1.0)
    state = STATE * units * key * value
    operands = WIDTH * batch * new * 2.0 * (dims["key_heads"] * key + heads * value)
    moved = state * (1.0 + new) + operands
    touched = np.where(new > 1.0, state * (1.0 + new), state) + operands
    blocks = constants["block"] * units / machine.multiprocessors
    return start, blocks + cached_traffic_time(moved, touched, machine, constants)


STEP: Final = summed(
    "recurrent-step",
    (
        FormConstant("start", 5e-7, 5e-5, 4e-6, "s", "launch, first access and one token"),
        FormConstant("token", 1e-8, 2e-5, 1e-6, "s", "each further token, after the one before it"),
        FormConstant(
            "block", 1e-10, 1e-5, 1e-8, "s", "each head of a sequence on a multiprocessor"
        ),
        *RATES,
    ),
    _stepped,
    ("sequences", "heads", "new"),
    "(start + token·(T − 1) + block·B·h/SMs + bytes through cache and memory) · exp(residual)",
)
"""Steps of the recurrence. Source: Yang et al. 2024 (arXiv 2412.06464), section 3; the fused
recurrent kernel of flash-linear-attention."""


CONVOLUTION_TOKEN: Final = known(
    CONVOLUTION_STEP, {"token": 1e-7, "window": 0.5, "cache": 0.35, "held": 0.7}
)
TOKEN: Final = known(STEP, {"token": 8e-7, "block": 1e-8, "cache": 0.6, "held": 0.7})
"""Steps of one token each. What is known is what fits of many rows find on an H100."""
