"""Calibrated roofline of what has no form of its own: t = start + F / (P·e_c) + B / (BW·e_m)."""

from typing import Final

import numpy as np

from roofline.cost.kernels.form import Constant, Dims, Form, Machine, Regimes, Values
from roofline.cost.work import Array


def parts(dims: Dims, machine: Machine, constants: Values) -> tuple[Array, Array]:
    """Arithmetic and traffic, each by itself. [s]"""
    arithmetic = dims["flops"] / (constants["compute"] * machine.flops_per_s)
    return arithmetic, dims["bytes"] / (constants["memory"] * machine.hbm_bytes_per_s)


def seconds(dims: Dims, machine: Machine, constants: Values) -> Array:
    """Start, arithmetic and traffic, one after the other. [s]"""
    arithmetic, traffic = parts(dims, machine, constants)
    return constants["start"] + arithmetic + traffic


def regime(dims: Dims, machine: Machine, constants: Values) -> Regimes:
    """What takes longest: start, arithmetic or traffic."""
    arithmetic, traffic = parts(dims, machine, constants)
    each = np.stack([np.full_like(traffic, constants["start"]), arithmetic, traffic])
    return np.asarray(np.argmax(each, axis=0))


FORM: Final = Form(
    "any",
    (
        Constant("start", 5e-7, 1e-3, 1e-5, "s", "Launches."),
        Constant("compute", 0.01, 1.0, 0.5, "1", "Share of the dense rate."),
        Constant("memory", 0.02, 1.0, 0.6, "1", "Share of the device memory's rate."),
    ),
    seconds,
    ("flops", "bytes"),
    regime,
)
"""Kernels that do not overlap. Source: Williams, Waterman and Patterson 2009, Roofline."""
