"""Calibrated time of traffic: passes over activations or one array, and rooflines of the rest.

    t = t0 + lane·width + row·m/SMs + traffic through cache and memory
    t = start + (1 − miss)·B / (cache·L2) + miss·B / (memory·HBM)
    t = start + F / (P·e_c) + B / (BW·e_m)

The first is of m rows: norms, activations, conversions. The second is of an array: cold ones are
not in the last-level cache, warm ones are as far as they fit in. The third is of what has no form
of its own.

The multiprocessors share the rows; one block walks along a row. To convert 16 bits to 8, a block
finds the largest element of a row, or scales what it is given. One source calls the time of both in
one kernel, less that of scaling alone, the time of finding a scale: a difference of two roofs,
which is small where memory bounds both.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from roofline.cost.kernels.form import (
    RATES,
    Dims,
    Form,
    FormConstant,
    Machine,
    Regimes,
    Values,
    cache_bytes_per_s,
    cached_traffic_time,
    longest,
    soft_maximum,
    summed,
    warm_seconds,
)
from roofline.cost.work import Array

EQUATION: Final = (
    "(start + lane·width + row·m/SMs + bytes through cache and memory) · exp(residual)"
)

CONSTANTS: Final = (
    FormConstant("start", 1e-7, 3e-5, 2e-6, "s", "Launch and first access."),
    FormConstant("lane", 1e-14, 2e-9, 2e-11, "s", "Each element that a block walks along its row."),
    FormConstant("row", 1e-10, 2e-6, 1e-8, "s", "Each row that a multiprocessor takes."),
    FormConstant("cache", 0.01, 1.0, 0.4, "1", "Share of the last-level cache's rate."),
    FormConstant("memory", 0.01, 1.0, 0.8, "1", "Share of the device memory's rate."),
)


def _start(dims: Dims, machine: Machine, constants: Values) -> Array:
    """Launch, a walk along a row, and the rows of a multiprocessor. [s]"""
    rows = constants["row"] * dims["m"] / machine.multiprocessors
    return constants["start"] + constants["lane"] * dims["width"] + rows


def stream(kind: str, traffic: float) -> Form:
    """Form of a kernel that passes once over m rows of that width.

    Source: every operand crosses memory once, as in `roofline.cost.work.pointwise`.

    Args:
        kind: ``"pointwise"`` or ``"quantize"``.
        traffic: Read and written per element of the width. [B]
    """

    def terms(dims: Dims, machine: Machine, constants: Values) -> tuple[Array, Array]:
        moved = dims["m"] * dims["width"] * traffic
        moving = warm_seconds(moved, machine, constants["cache"], constants["memory"])
        return _start(dims, machine, constants), moving

    return summed(kind, CONSTANTS, terms, ("m", "width"), EQUATION)


SCALED: Final = 3.0
"""Bytes per element: 16 bits read, 8 written. [B]"""
SEARCHED: Final = 2.0
"""Bytes per element: 16 bits read. [B]"""
QUANTIZE: Final[Mapping[str, Form]] = {
    "scale_matrix": stream("quantize", SCALED),
    "computescale": stream("quantize", SEARCHED),
}
"""Conversions to one byte from two: scaling and narrowing elements; finding their largest."""
POINTWISE: Final[Mapping[str, Form]] = {
    "add": stream("pointwise", 6.0),
    "attn_rope": stream("pointwise", 4.0),
    "emb": stream("pointwise", 4.0),
    "input_layernorm": stream("pointwise", 4.0),
    "post_attention_layernorm": stream("pointwise", 4.0),
    "mlp_act": stream("pointwise", 6.0),
}
"""Passes over elements of two bytes; the width of an activation function is that of its output, of
which it reads two."""

LANES: Final = (32.0, 256.0)
"""Width of a row of one warp, and of a row whose block has several to agree. [1]"""
PASS: Final = 4096.0
"""Elements of a row that a block takes at a time: 256 threads with 16 each. [1]"""
RESIDENT: Final = {"hopper": 8.0, "ampere": 8.0}
"""Blocks of 256 threads on a multiprocessor, by generation; `FEWER` on others: Ada holds 1536
threads, and on Blackwell measured times step up with every 6 rows of a multiprocessor. [1]"""
FEWER: Final = 6.0
LEAST: Final = 0.1
"""Least share of the launches that a difference takes. [1]"""

_STARTED: Final = (
    FormConstant("start", 1e-7, 3e-5, 2e-6, "s", "launch and first access"),
    FormConstant("lane", 1e-14, 2e-9, 2e-11, "s", "each element that a block walks along its row"),
    FormConstant("row", 1e-10, 2e-6, 1e-8, "s", "each row that a multiprocessor takes"),
)


def _pass(traffic: float) -> Form:
    """Form of a conversion that moves so many bytes of each element."""

    def terms(dims: Dims, machine: Machine, constants: Values) -> tuple[Array, Array]:
        moved = dims["m"] * dims["width"] * traffic
        return _start(dims, machine, constants), cached_traffic_time(
            moved, moved, machine, constants
        )

    equation = "(start + lane·width + row·m/SMs + bytes) · exp(residual)"
    return summed("quantize", (*_STARTED, *RATES), terms, ("m", "width"), equation)


def difference_dims(m: Array, width: Array, generation: str) -> dict[str, Array]:
    """Columns of a difference: rows, their width, and blocks on a multiprocessor."""
    resident = np.full_like(m, RESIDENT.get(generation, FEWER))
    return {"m": m, "width": width, "resident": resident}


def _roofs(dims: Dims, machine: Machine, constants: Values) -> tuple[Array, Array]:
    """Start of a search, and how much longer rows take that are searched and scaled. [s]

    Rows of the first wave are searched at once, those of the next after them; narrow ones come and
    go one by one. Rows that do not stay on chip are read twice, again from the last-level cache as
    far as it holds all that are being searched.
    """
    m, width, q = dims["m"], dims["width"], constants["sharpness"]
    resident = dims["resident"]
    start = constants["start"] + constants["lane"] * (np.ceil(width / PASS) - 1.0) * PASS
    narrow, wide = LANES
    full = m / machine.multiprocessors
    full = np.where(width < wide, full, resident * (np.ceil(full / resident) - 1.0))
    agreeing = np.clip(np.log2(width / narrow) / np.log2(wide / narrow), 0.0, 1.0)
    searched = (constants["row"] + constants["agree"] * agreeing) * full
    again = 1.0 / (1.0 + (constants["kept"] / width) ** 4)
    searching = np.minimum(m, resident * machine.multiprocessors) * width * SEARCHED
    bytes_once = m * width * SCALED
    once = cached_traffic_time(bytes_once, bytes_once, machine, constants)
    both = once + cached_traffic_time(m * width * SEARCHED * again, searching, machine, constants)
    return start, soft_maximum(q, searched, both) - soft_maximum(q, constants["row"] * full, once)


def _difference_seconds(dims: Dims, machine: Machine, constants: Values) -> Array:
    start, longer = _roofs(dims, machine, constants)
    return np.maximum(start + longer, LEAST * constants["start"])


def _difference_regime(dims: Dims, machine: Machine, constants: Values) -> Regimes:
    return longest(*_roofs(dims, machine, constants))


CONVERSION: Final[Mapping[str, Form]] = {
    "scale_matrix": _pass(SCALED),
    "computescale": _pass(SEARCHED),
    "difference": Form(
        "quantize",
        (
            *_STARTED,
            FormConstant(
                "agree", 1e-10, 2e-6, 1e-7, "s", "warps of a row that agree on its largest"
            ),
            FormConstant("kept", 1e3, 1e5, 1.5e4, "1", "elements of a row that stay on chip"),
            *RATES,
            FormConstant("sharpness", 1.0, 16.0, 2.0, "1", "exponent of the soft maximum"),
        ),
        _difference_seconds,
        ("m", "width"),
        _difference_regime,
        "(start + lane·width + roof of searching and scaling − roof of scaling) · exp(residual)",
    ),
}
"""Conversions by the names of collectors; a difference of two kernels apart. Source: every operand
crosses memory once, as in `roofline.cost.work.pointwise`."""

SHARPNESS: Final = 4.0
"""Exponent of the size over the capacity on the way from hits to misses; assumed."""


def missed(dims: Dims, machine: Machine, constants: Values) -> Array:
    """Share of the traffic that goes through device memory. [1]

    All of it where arrays are cold; of warm ones 1/(1 + (resident·L2 / B)^4), half at the capacity.
    """
    fits = constants["resident"] * machine.l2_bytes / dims["bytes"]
    share: Array = np.maximum(dims["cold"], 1.0 / (1.0 + fits**SHARPNESS))
    return share


def passed(dims: Dims, machine: Machine, constants: Values) -> tuple[Array, Array, Array]:
    """Start, traffic through the cache and traffic through memory, each by itself. [s]"""
    share = missed(dims, machine, constants)
    hit = (1.0 - share) * dims["bytes"] / (constants["cache"] * cache_bytes_per_s(machine))
    miss = share * dims["bytes"] / (constants["memory"] * machine.hbm_bytes_per_s)
    return np.full_like(hit, constants["start"]), hit, miss


ARRAY: Final = summed(
    "pointwise",
    (
        FormConstant("start", 1e-7, 5e-5, 3e-6, "s", "Launch, first access and last write."),
        FormConstant("cache", 0.02, 1.0, 0.5, "1", "Share of the last-level cache's rate."),
        FormConstant("memory", 0.1, 1.0, 0.85, "1", "Share of the device memory's rate."),
        FormConstant("resident", 0.1, 1.5, 0.7, "1", "Share of that cache that traffic can fill."),
    ),
    passed,
    ("bytes",),
)
"""One array after the other. Source: roofline per level of the memory, Ilic, Pratas and Sousa 2014,
Cache-aware Roofline."""


def limits(dims: Dims, machine: Machine, constants: Values) -> tuple[Array, Array, Array]:
    """Start, arithmetic and traffic, each by itself. [s]"""
    arithmetic = dims["flops"] / (constants["compute"] * machine.flops_per_s)
    traffic = dims["bytes"] / (constants["memory"] * machine.hbm_bytes_per_s)
    return np.full_like(traffic, constants["start"]), arithmetic, traffic


ROOF: Final = summed(
    "any",
    (
        FormConstant("start", 5e-7, 1e-3, 1e-5, "s", "Launches."),
        FormConstant("compute", 0.01, 1.0, 0.5, "1", "Share of the dense rate."),
        FormConstant("memory", 0.02, 1.0, 0.6, "1", "Share of the device memory's rate."),
    ),
    limits,
    ("flops", "bytes"),
)
"""Kernels that do not overlap. Source: Williams, Waterman and Patterson 2009, Roofline."""
