"""What a calibrated form is: an equation over dimensions, with bounded constants that have names.

A form is fitted once per provider, kind, type and device by `roofline.bench.fit`, and evaluated by
`roofline.cost.kernels.calibrated`.
"""

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.cost.work import Array
from roofline.hardware.machine import Gpu

Dims: TypeAlias = Mapping[str, Array]
"""Columns of equal length, float64, by the name of the dimension: ``m``, ``batch``."""
Values: TypeAlias = Mapping[str, float]
"""Constants of a form, by name."""
Regimes: TypeAlias = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Machine:
    """What a form needs of a device, at published rates."""

    flops_per_s: float
    """Dense rate of the arithmetic that the form is fitted for. [FLOP/s]"""
    hbm_bytes_per_s: float
    """Device memory. [B/s]"""
    l2_bytes: float
    l2_bytes_per_s: float
    """Last-level cache: capacity [B] and rate [B/s]; 0 if unknown."""
    multiprocessors: float
    """SMs or CUs. [1]"""


def machine(gpu: Gpu, arithmetic: str) -> Machine:
    """What forms need of a device that computes in that type.

    Raises:
        MissingRateError: The device has no such arithmetic.
    """
    return Machine(
        gpu.rate(arithmetic),
        gpu.hbm_bytes_per_s,
        gpu.l2_bytes,
        gpu.l2_bytes_per_s,
        gpu.multiprocessors,
    )


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant of a form and what it can physically be."""

    name: str
    """Identifier in the equation."""
    low: float
    high: float
    """Bounds, above zero; the search is in logarithms."""
    prior: float
    """Value without data, inside the bounds."""
    unit: str
    """``"s"``, ``"1"``, ``"B"``."""
    meaning: str
    """One sentence about it."""

    def __post_init__(self) -> None:
        """Hold the order of the bounds."""
        assert 0 < self.low <= self.prior <= self.high, self.name


@dataclass(frozen=True, slots=True)
class Form:
    """Published formula of a kind of operator."""

    kind: str
    """``"gemm"``, ``"decode-attention"``, ``"quantize"``."""
    constants: tuple[Constant, ...]
    """What is fitted."""
    seconds: Callable[[Dims, Machine, Values], Array]
    """The equation: dimensions, machine, values of the constants → times. [s]"""
    coordinates: tuple[str, ...]
    """Dimensions in whose logarithms the residual table lives, all above zero; the first varies
    within a family of shapes."""
    regime: Callable[[Dims, Machine, Values], Regimes]
    """Which part of the equation a row is in, a small integer: rows of a regime share a spread."""
    equation: str = ""
    """The same in symbols, as derivations print it."""
    waves: Callable[[Dims, Machine], Array] | None = None
    """Further columns in which the residual table lives: how much of a device a product leaves
    idle in its last wave of tiles and in the last of its tiles, one column for each tile; None
    where nothing is tiled. Residuals of such forms may branch. [octave]"""


def pinned(form: Form, names: Container[str]) -> Form:
    """The form with some constants at their priors: those that no row of a kernel can tell."""
    constants = (
        replace(c, low=c.prior, high=c.prior) if c.name in names else c for c in form.constants
    )
    return replace(form, constants=tuple(constants))


def free(form: Form) -> int:
    """Constants that a fit looks for. [1]"""
    return sum(constant.low < constant.high for constant in form.constants)


def one_regime(dims: Dims, machine: Machine, constants: Values) -> Regimes:
    """All rows in one."""
    return np.zeros(len(next(iter(dims.values()))), dtype=np.intp)


def take(dims: Dims, which: NDArray[np.bool_] | NDArray[np.intp] | slice) -> dict[str, Array]:
    """Some of the rows."""
    return {name: column[which] for name, column in dims.items()}
