"""Time of a collective from records of constants: a reference for the forms of collectives."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roofline.cost.kernels.collective import (
    BOUNDS,
    MEANINGS,
    PATHS,
    moved,
    soft_minimum,
    usable,
)
from roofline.cost.kernels.form import Values
from roofline.cost.work import Array, Number
from roofline.errors import InputError


@dataclass(frozen=True, slots=True)
class Regime:
    """Constants of one algorithm."""

    path: str
    """Algorithm, a key of `PATHS` under the operation."""
    start: float
    """Time that does not depend on ranks or payload: launch, synchronisation. [s]"""
    message: float
    """Time of each message that follows another. [s]"""
    efficiency: float
    """Achieved share of the link's published rate. [1]"""


@dataclass(frozen=True, slots=True)
class Constants:
    """Constants of one operation of one library on one machine.

    Raises:
        InputError: An unknown operation or algorithm, no algorithm, or a constant outside `BOUNDS`.
    """

    op: str
    """Operation, a key of `PATHS`."""
    regimes: tuple[Regime, ...]
    """Algorithms the library chooses from."""
    sharpness: float = 16.0
    """Exponent q of the soft minimum; the larger, the sharper. [1]"""

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        if not self.regimes or any(r.path not in PATHS.get(self.op, {}) for r in self.regimes):
            known = "; ".join(f"{op}: {', '.join(paths)}" for op, paths in PATHS.items())
            raise InputError(
                f"{self.op!r} by {[r.path for r in self.regimes]} is no collective known here",
                hint=f"known are {known}",
            )
        values = [("sharpness", self.sharpness)] + [
            (name, getattr(regime, name))
            for regime in self.regimes
            for name in ("start", "message", "efficiency")
        ]
        for name, value in values:
            low, high = BOUNDS[name]
            if not low <= value <= high:
                raise InputError(
                    f"{name} = {value:g} of {self.op} is outside what is physical",
                    hint=f"give a value from {low:g} to {high:g}",
                )


def by_regime(
    payload: Number,
    ranks: Number,
    bytes_per_s: Number,
    constants: Constants,
    *,
    in_switch: bool | NDArray[np.bool_] = False,
) -> Array:
    """Time of each regime alone, stacked along a first axis; infinite where it cannot be taken.

    Arguments as of `seconds`. The regime a payload falls into is ``by_regime(...).argmin(0)``.
    """
    times = []
    for regime in constants.regimes:
        messages, share = moved(constants.op, regime.path, ranks)
        wire = share * payload / (regime.efficiency * bytes_per_s)
        time = regime.start + regime.message * messages + wire
        times.append(np.where(usable(regime.path, ranks, in_switch), time, np.inf))
    return np.stack(np.broadcast_arrays(*times))


def seconds(
    payload: Number,
    ranks: Number,
    bytes_per_s: Number,
    constants: Constants,
    *,
    in_switch: bool | NDArray[np.bool_] = False,
) -> Number:
    """Time of a collective. [s]

    ``soft minimum over regimes of start + message·messages(n) + share(n)·payload/(e·rate)``.
    Contention with other traffic is left out. Source: start and slope per algorithm as in NCCL
    ``src/graph/tuning.cc``; the bytes of each algorithm as cited in `PATHS`.

    Args:
        payload: Tensor, whole, as `PATHS` defines it. [B]
        ranks: Devices n. One has nobody to talk to and takes no time. [1]
        bytes_per_s: Published rate of a device's link in one direction. [B/s]
        constants: Of the operation, library and machine.
        in_switch: Whether the switch can add this type of number: floats on NVSwitch since Hopper.

    Examples:
        One regime is plain alpha-beta: 4 µs, 6 messages of 1 µs, 1.5 tensors at half of 200 GB/s.

        >>> ring = Constants("all_reduce", (Regime("ring", 4e-6, 1e-6, 0.5),))
        >>> f"{float(seconds(2e6, 4.0, 2e11, ring)):.2e}"
        '4.00e-05'
    """
    times = by_regime(payload, ranks, bytes_per_s, constants, in_switch=in_switch)
    return np.where(np.asarray(ranks) > 1, soft_minimum(times, constants.sharpness), 0.0)


def known(op: str, paths: Sequence[str], values: Values) -> Constants:
    """Constants of a form as one record."""
    return Constants(
        op,
        tuple(
            Regime(path, *(values[f"{what}_{place}"] for what in MEANINGS))
            for place, path in enumerate(paths)
        ),
        values["sharpness"],
    )
