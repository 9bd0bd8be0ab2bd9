"""Calibrated time of traffic: one pass over an array, and rooflines of what has no form of its own.

    t = start + (1 − miss)·B / (cache·L2) + miss·B / (memory·HBM)
    t = start + F / (P·e_c) + B / (BW·e_m)

Cold arrays are not in the last-level cache. Warm ones are as far as they fit in.
"""

from typing import Final

import numpy as np

from roofline.cost.kernels.form import (
    Constant,
    Dims,
    Machine,
    Values,
    cache_bytes_per_s,
    summed,
)
from roofline.cost.work import Array

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


FORM: Final = summed(
    "pointwise",
    (
        Constant("start", 1e-7, 5e-5, 3e-6, "s", "Launch, first access and last write."),
        Constant("cache", 0.02, 1.0, 0.5, "1", "Share of the last-level cache's rate."),
        Constant("memory", 0.1, 1.0, 0.85, "1", "Share of the device memory's rate."),
        Constant("resident", 0.1, 1.5, 0.7, "1", "Share of that cache that traffic can fill."),
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
        Constant("start", 5e-7, 1e-3, 1e-5, "s", "Launches."),
        Constant("compute", 0.01, 1.0, 0.5, "1", "Share of the dense rate."),
        Constant("memory", 0.02, 1.0, 0.6, "1", "Share of the device memory's rate."),
    ),
    limits,
    ("flops", "bytes"),
)
"""Kernels that do not overlap. Source: Williams, Waterman and Patterson 2009, Roofline."""
