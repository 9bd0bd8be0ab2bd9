"""Measured devices: which of them stand for another, and how their kernels are carried to it."""

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from roofline.cost.kernels.calibrated import Calibrated
from roofline.hardware.machine import Gpu
from roofline.records import replace


class Device(NamedTuple):
    """Published figures of a measured device, by which its kernels are carried to others."""

    generation: str
    hbm_bytes_per_s: float
    """Memory. [B/s]"""
    clock_hz: float
    """Boost clock. [Hz]"""
    sustained: float = 0.0
    """Share of the dense rate that large products keep up, 0 if unknown. [1]"""


MEASURED: Final[Mapping[str, Device]] = {
    "a100-sxm": Device("ampere", 2.039e12, 1.41e9, 0.848),
    "l40s": Device("ada", 0.864e12, 2.52e9, 0.743),
    "h100-sxm": Device("hopper", 3.35e12, 1.98e9, 0.798),
    "h200-sxm": Device("hopper", 4.8e12, 1.98e9, 0.799),
    "b200-sxm": Device("blackwell", 7.7e12, 1.965e9, 0.754),
    "gb200": Device("blackwell", 8e12, 2.062e9),
    "b300-sxm": Device("blackwell-ultra", 7.7e12, 2.032e9),
    "gb300": Device("blackwell-ultra", 8e12, 2.032e9),
}
"""Figures of the catalog."""
STACKED: Final = 2e12
"""Bandwidth from which a device of these generations has stacked memory. [B/s]"""
ORDER: Final[Mapping[str, tuple[str, ...]]] = {
    "ampere": ("ampere", "ada", "hopper"),
    "ada": ("ada", "ampere", "hopper"),
    "hopper": ("hopper", "blackwell", "blackwell-ultra", "ampere"),
    "blackwell": ("blackwell", "blackwell-ultra", "hopper", "ampere"),
    "blackwell-ultra": ("blackwell-ultra", "blackwell", "hopper", "ampere"),
    "blackwell-gddr": ("ada", "ampere", "blackwell", "blackwell-ultra", "hopper"),
    "xe2": ("ada", "ampere"),
}
"""Generations whose kernels stand for those of a generation, the most alike first. Ada runs the
kernels of Ampere (mma.sync, no wgmma or TMA), and so do the chips of Blackwell with GDDR memory;
chips with stacked memory have tensor memory and kernels of their own."""
FOREIGN: Final = frozenset({"xe2"})
"""Generations of another vendor than the measured devices': their libraries have other kernels."""
WIRED: Final = frozenset({"collective", "expert-exchange", "moe-alltoall"})
"""Kinds whose latencies are those of wires between devices, whatever the clock."""
HOST: Final = frozenset({"host", "uneven"})
"""Latencies of the host, by name."""
PRODUCTS: Final = frozenset({"gemm", "moe", "moe-wideep", "gated-mlp"})
"""Kinds that multiply as densely as a device can, whose power may bound them."""
ALIKE: Final = 1.05
"""Ratio up to which published boost clocks are one clock: those of a B200 and a GB200 are 1.05
apart, and their latencies are the same (decoding on a B200 by a GB200's fits is 3.3 % off in the
median, with latencies by the clock 6.0)."""


def generation(gpu: Gpu) -> str:
    """Generation of a device as its kernels have it, a key of `ORDER` where it has any like it."""
    gddr = gpu.architecture == "blackwell" and gpu.hbm_bytes_per_s < STACKED
    return "blackwell-gddr" if gddr else gpu.architecture


def known(gpu: Gpu) -> bool:
    """True where kernels of a device, or of one like it, were measured."""
    return generation(gpu) in ORDER


def devices(gpu: Gpu) -> tuple[str, ...]:
    """Measured devices that may stand for one, itself first, then by generation and bandwidth."""
    order = ORDER.get(generation(gpu), ())

    def unlike(name: str) -> tuple[int, float]:
        known = MEASURED[name]
        rate = known.hbm_bytes_per_s / gpu.hbm_bytes_per_s
        return order.index(known.generation), abs(math.log(rate))

    others = [name for name in MEASURED if name != gpu.name and MEASURED[name].generation in order]
    return (gpu.name, *sorted(others, key=unlike))


def carried(model: Calibrated, kind: str, device: str, gpu: Gpu) -> Calibrated:
    """A fit of one device as it stands for another.

    Shares of published rates stay as they are. Latencies are cycles of the multiprocessors: in
    seconds they go with the clock. Products reach the share of the dense rate that large ones keep
    up within the power of each device, where that is known of both.

    Args:
        model: The fit.
        kind: Of kernel.
        device: Name of the device that was measured; a fit of one that is not in `MEASURED` is
            taken as it is.
        gpu: The device that it stands for.
    """
    source = MEASURED.get(device)
    if source is None or device == gpu.name:
        return model
    slower = source.clock_hz / gpu.clock_hz if gpu.clock_hz and kind not in WIRED else 1.0
    if 1.0 / ALIKE <= slower <= ALIKE:
        slower = 1.0
    kept = gpu.sustained / source.sustained if gpu.sustained and source.sustained else 1.0
    constants = dict(model.constants)
    for each in model.form.constants:
        if each.unit == "s" and each.name not in HOST:
            constants[each.name] *= slower
        elif each.name == "compute" and kind in PRODUCTS:
            constants[each.name] = min(constants[each.name] * kept, each.high)
    return replace(model, constants=constants)
