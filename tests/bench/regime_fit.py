"""Fit of `roofline.cost.kernels.collective` to measured collectives: a reference for that of forms.

The package fits collectives as all kernels, by `roofline.bench.fit`; this fit has exact derivatives
and knows nothing of forms.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofline.bench.rows import beginnings, least
from roofline.cost.kernels.collective import (
    BOUNDS,
    SHARPNESS,
    moved,
    prior,
    usable,
)
from roofline.cost.kernels.collective import CUSTOM as CUSTOM
from roofline.cost.kernels.collective import NCCL as NCCL
from roofline.cost.work import Array
from roofline.errors import InputError
from tests.cost.regimes import Constants, Regime, by_regime, seconds

WEIGHT: Final = 0.05
"""A constant a factor of e from the values above weighs as much as a row that is 5 % off."""
TOLERANCE: Final = 1e-4
"""Relative, of constants and cost; also how far from its bounds a search begins."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Measured times of one operation of one library on one machine."""

    payload: Array
    """As `roofline.cost.kernels.collective.PATHS` defines it. [B]"""
    ranks: Array
    """Devices. [1]"""
    measured: Array
    """Time. [s]"""
    in_switch: NDArray[np.bool_]
    """Whether the switch could have added this type of number."""

    def __len__(self) -> int:
        """Rows."""
        return len(self.payload)

    def __getitem__(self, which: NDArray[np.bool_]) -> "Rows":
        """Some of the rows."""
        return Rows(
            self.payload[which], self.ranks[which], self.measured[which], self.in_switch[which]
        )


def predict(constants: Constants, rows: Rows, bytes_per_s: float) -> Array:
    """Time of each row. [s]"""
    return np.asarray(
        seconds(rows.payload, rows.ranks, bytes_per_s, constants, in_switch=rows.in_switch)
    )


def regime(constants: Constants, rows: Rows, bytes_per_s: float) -> NDArray[np.intp]:
    """Fastest regime of each row, by its place in ``constants.regimes``."""
    times = by_regime(rows.payload, rows.ranks, bytes_per_s, constants, in_switch=rows.in_switch)
    fastest: NDArray[np.intp] = times.argmin(axis=0)
    return fastest


def fit(
    rows: Rows, op: str, paths: Sequence[str], bytes_per_s: float, *, starts: int = 3
) -> Constants:
    """Constants that make the logarithms of the times agree best, robustly, within bounds.

    Args:
        rows: Of one operation, library and machine.
        op, paths: Keys of `roofline.cost.kernels.collective.PATHS`.
        bytes_per_s: Published rate of a device's link in one direction. [B/s]
        starts: Beginnings of the search: the prior values, then random ones from a fixed seed. [1]

    Raises:
        InputError: Fewer rows than constants, or a size, rank count or time that has no meaning.
    """
    problem = _Problem(rows, op, paths, bytes_per_s)
    low, high = problem.bounds
    begins = beginnings(problem.prior, low, high, starts, TOLERANCE)
    found = least(problem.residuals, problem.jacobian, begins, problem.bounds, TOLERANCE)
    return problem.constants(found)


class _Problem:
    """Residuals and their exact derivatives, in the logarithms of the constants.

    The vector holds starts, messages and efficiencies of all regimes, then the sharpness.
    """

    def __init__(self, rows: Rows, op: str, paths: Sequence[str], bytes_per_s: float) -> None:
        check(rows, 3 * len(paths) + 1)
        self.op, self.paths = op, tuple(paths)
        self.measured = np.log(rows.measured)
        pairs = [moved(op, path, rows.ranks) for path in paths]
        self.messages = np.array([messages for messages, _ in pairs])
        self.wire = np.array([share * rows.payload / bytes_per_s for _, share in pairs])
        can = np.array([usable(path, rows.ranks, rows.in_switch) for path in paths])
        self.bar = np.where(can, 0.0, -np.inf)
        names = ["start", "message", "efficiency"]
        limits = [BOUNDS[name] for name in names for _ in paths] + [BOUNDS["sharpness"]]
        self.bounds = tuple(np.log(np.array(limits)).T)
        self.prior = np.log(
            [prior(name, i, path) for name in names for i, path in enumerate(paths)] + [SHARPNESS]
        )

    def parts(self, x: Array) -> tuple[Array, Array, Array]:
        """Start, messages and wire of each regime and row."""
        start, message, efficiency = np.exp(x[:-1]).reshape(3, -1, 1)
        begin = np.broadcast_to(start, self.wire.shape)
        return begin, message * self.messages, self.wire / efficiency

    def logarithms(self, x: Array) -> tuple[Array, Array, Array]:
        """Logarithms of the time of each regime and of their soft minimum; share of each regime."""
        sharpness = np.exp(x[-1])
        start, messages, wire = self.parts(x)
        alone: Array = np.log(start + messages + wire)
        exponent = self.bar - sharpness * alone
        top = exponent.max(axis=0)
        weight = np.exp(exponent - top)
        total = weight.sum(axis=0)
        return alone, -(top + np.log(total)) / sharpness, weight / total

    def residuals(self, x: Array) -> Array:
        """Logarithm of predicted over measured, then the pull of the prior."""
        _, time, _ = self.logarithms(x)
        return np.concatenate([time - self.measured, WEIGHT * (x - self.prior)])

    def jacobian(self, x: Array) -> Array:
        """Derivatives of `residuals`, one column per constant."""
        alone, time, share = self.logarithms(x)
        start, messages, wire = self.parts(x)
        scaled = share / np.exp(alone)
        sharper = (share * alone).sum(axis=0) - time
        rows = np.concatenate([scaled * start, scaled * messages, -scaled * wire, sharper[None]]).T
        return np.concatenate([rows, WEIGHT * np.eye(len(x))])

    def constants(self, x: Array) -> Constants:
        """The vector as constants, rounding at the bounds undone."""
        low, high = np.exp(self.bounds)
        values = np.clip(np.exp(x), low, high)
        each = values[:-1].reshape(3, -1).T
        found = zip(self.paths, each.tolist(), strict=True)
        return Constants(
            self.op, tuple(Regime(path, *three) for path, three in found), float(values[-1])
        )


def check(rows: Rows, constants: int) -> None:
    """Refuse rows that cannot fit that many constants."""
    if len(rows) < constants:
        raise InputError(
            f"{len(rows)} measured collectives cannot fit {constants} constants",
            hint=f"measure at least {constants} sizes, from below 1 KiB to above 100 MiB",
        )
    for name, low in (("payload", 0.0), ("ranks", 1.0), ("measured", 0.0)):
        values = getattr(rows, name)
        wrong = ~(np.isfinite(values) & (values > low))
        if wrong.any():
            raise InputError(
                f"row {int(wrong.argmax())} has {name} = {values[wrong][0]:g}",
                hint=f"leave out rows whose {name} is not above {low:g}",
            )
