"""What a calibrated form is: an equation over dimensions, with bounded constants that have names.

A form is fitted once per provider, kind, type and device by `roofline.bench.fit`, and evaluated by
`roofline.cost.kernels.calibrated`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
    """What a form needs of a device, at published rates.

    Attributes
    ----------
    flops_per_s
        Dense rate of the arithmetic that the form is fitted for. [FLOP/s]
    hbm_bytes_per_s
        Device memory. [B/s]
    l2_bytes, l2_bytes_per_s
        Last-level cache: capacity [B] and rate [B/s]; 0 if unknown.
    multiprocessors
        SMs or CUs. [1]
    """

    flops_per_s: float
    hbm_bytes_per_s: float
    l2_bytes: float
    l2_bytes_per_s: float
    multiprocessors: float


def machine(gpu: Gpu, arithmetic: str) -> Machine:
    """What forms need of a device that computes in that type.

    Raises
    ------
    MissingRateError
        The device has no such arithmetic.
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
    """A constant of a form and what it can physically be.

    Attributes
    ----------
    name, meaning
        Identifier in the equation; one sentence about it.
    low, high
        Bounds, above zero; the search is in logarithms.
    prior
        Value without data, inside the bounds.
    unit
        ``"s"``, ``"1"``, ``"B"``.
    """

    name: str
    low: float
    high: float
    prior: float
    unit: str
    meaning: str

    def __post_init__(self) -> None:
        """Hold the order of the bounds."""
        assert 0 < self.low <= self.prior <= self.high, self.name


@dataclass(frozen=True, slots=True)
class Form:
    """Published formula of a kind of operator.

    Attributes
    ----------
    kind
        ``"gemm"``, ``"decode-attention"``, ``"quantize"``.
    constants
        What is fitted.
    seconds
        The equation: dimensions, machine, values of the constants → times. [s]
    coordinates
        Dimensions in whose logarithms the residual table lives, all above zero; the first varies
        within a family of shapes.
    regime
        Which part of the equation a row is in, a small integer: rows of a regime share a spread.
    equation
        The same in symbols, as derivations print it.
    waves
        Further columns in which the residual table lives: how much of a device a product leaves
        idle in its last wave of tiles, one column for each tile; None where nothing is tiled.
        [octave]
    """

    kind: str
    constants: tuple[Constant, ...]
    seconds: Callable[[Dims, Machine, Values], Array]
    coordinates: tuple[str, ...]
    regime: Callable[[Dims, Machine, Values], Regimes]
    equation: str = ""
    waves: Callable[[Dims, Machine], Array] | None = None


def one_regime(dims: Dims, machine: Machine, constants: Values) -> Regimes:
    """All rows in one."""
    return np.zeros(len(next(iter(dims.values()))), dtype=np.intp)


def take(dims: Dims, which: NDArray[np.bool_] | NDArray[np.intp] | slice) -> dict[str, Array]:
    """Some of the rows."""
    return {name: column[which] for name, column in dims.items()}
