"""Traffic of what a kernel finds in the last-level cache because the kernel before it wrote it."""

from typing import Final

import numpy as np

from roofline.cost.kernels.form import Constant, Machine, Values
from roofline.cost.work import Array

L2_BYTES_PER_S: Final = 7e10
"""Of one multiprocessor, where a device's published rate is unknown; assumed, after 67e9 on an
A100 and 77e9 on an H100 (5120 B per clock over 108 and 132 of them)."""
STEEP: Final = 4.0
"""How sharply the last-level cache stops holding a working set that outgrows it. [1]"""
RATES: Final = (
    Constant("cache", 0.05, 1.0, 0.4, "1", "share of the last-level cache's rate"),
    Constant("memory", 0.05, 1.0, 0.8, "1", "share of the memory's rate"),
    Constant("held", 0.1, 1.5, 0.7, "1", "share of the cache that holds a working set"),
)
"""Constants of `through`."""


def cache_bytes_per_s(machine: Machine) -> float:
    """Rate of the last-level cache, as published or else assumed. [B/s]"""
    return machine.l2_bytes_per_s or L2_BYTES_PER_S * machine.multiprocessors


def warm_seconds(traffic: Array, machine: Machine, cache: float, memory: float) -> Array:
    """Time of activations that are read and written soon after one another. [s]

    What exceeds the cache's capacity goes through device memory. Source: roofline per level of
    the memory, Ilic, Pratas and Sousa 2014, Cache-aware Roofline.

    Args:
        traffic: Read and written. [B]
        machine: The device, at published rates.
        cache, memory: Shares of the rates of cache and device memory that are reached. [1]

    Examples:
        Half of 100 MB fits in a cache of 50 MB and 10 TB/s; the rest takes 2 TB/s:

        >>> gpu = Machine(1e15, 2e12, 5e7, 1e13, 132)
        >>> float(warm_seconds(np.array(1e8), gpu, 1.0, 1.0)) == 5e-6 + 25e-6
        True
    """
    kept = np.minimum(traffic, machine.l2_bytes)
    found: Array = kept / (cache * cache_bytes_per_s(machine))
    return found + (traffic - kept) / (memory * machine.hbm_bytes_per_s)


def through(traffic: Array, footprint: Array, machine: Machine, constants: Values) -> Array:
    """Time of traffic over a working set, from the last-level cache as far as it holds the set. [s]

    Source: roofline per level of the memory, Ilic, Pratas and Sousa 2014, Cache-aware Roofline; a
    set that is used in a cycle is evicted as a whole, Belady 1966.

    Args:
        traffic: Read and written. [B]
        footprint: Different bytes that are touched: more than the cache holds are evicted before
            they are used again. [B]
        machine: The device.
        constants: ``cache`` and ``memory``, shares of the rates; ``held``, the share of the cache's
            capacity that holds a working set.
    """
    kept: Array | float = 0.0
    if machine.l2_bytes:
        kept = 1.0 / (1.0 + (footprint / (constants["held"] * machine.l2_bytes)) ** STEEP)
    cached = traffic * kept / (constants["cache"] * cache_bytes_per_s(machine))
    fetched = traffic * (1.0 - kept) / (constants["memory"] * machine.hbm_bytes_per_s)
    found: Array = cached + fetched
    return found
