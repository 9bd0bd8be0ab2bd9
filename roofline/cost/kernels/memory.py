"""Calibrated time of passing once over memory: copies, reads and writes of one array.

    t = start + (1 − miss)·B / (cache·L2) + miss·B / (memory·HBM)

Cold arrays are not in the last-level cache. Warm ones are as far as they fit in.
"""

from typing import Final

import numpy as np

from roofline.cost.kernels.form import Constant, Dims, Form, Machine, Regimes, Values
from roofline.cost.kernels.warm import cache_bytes_per_s
from roofline.cost.work import Array

SHARPNESS: Final = 4.0
"""Of the way from hits to misses, a power of the size over the capacity; assumed."""


def missed(dims: Dims, machine: Machine, constants: Values) -> Array:
    """Share of the traffic that goes through device memory. [1]

    All of it where arrays are cold; of warm ones 1/(1 + (resident·L2 / B)^4), half at the capacity.
    """
    fits = constants["resident"] * machine.l2_bytes / dims["bytes"]
    share: Array = np.maximum(dims["cold"], 1.0 / (1.0 + fits**SHARPNESS))
    return share


def parts(dims: Dims, machine: Machine, constants: Values) -> tuple[Array, Array]:
    """Traffic through the cache and through memory, each by itself. [s]"""
    share = missed(dims, machine, constants)
    hit = (1.0 - share) * dims["bytes"] / (constants["cache"] * cache_bytes_per_s(machine))
    return hit, share * dims["bytes"] / (constants["memory"] * machine.hbm_bytes_per_s)


def seconds(dims: Dims, machine: Machine, constants: Values) -> Array:
    """Start, then all of the traffic. [s]"""
    hit, miss = parts(dims, machine, constants)
    return constants["start"] + hit + miss


def regime(dims: Dims, machine: Machine, constants: Values) -> Regimes:
    """What takes longest: start, cache or memory."""
    hit, miss = parts(dims, machine, constants)
    each = np.stack([np.full_like(hit, constants["start"]), hit, miss])
    return np.asarray(np.argmax(each, axis=0))


FORM: Final = Form(
    "pointwise",
    (
        Constant("start", 1e-7, 5e-5, 3e-6, "s", "Launch, first access and last write."),
        Constant("cache", 0.02, 1.0, 0.5, "1", "Share of the last-level cache's rate."),
        Constant("memory", 0.1, 1.0, 0.85, "1", "Share of the device memory's rate."),
        Constant("resident", 0.1, 1.5, 0.7, "1", "Share of that cache that traffic can fill."),
    ),
    seconds,
    ("bytes",),
    regime,
)
"""One array after the other. Source: roofline per level of the memory, Ilic, Pratas and Sousa 2014,
Cache-aware Roofline."""
