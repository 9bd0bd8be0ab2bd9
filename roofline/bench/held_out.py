"""Errors of a fit on rows that it did not see, and the interval that follows from them."""

from statistics import NormalDist
from typing import Final, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.cost.work import Array

Mask: TypeAlias = NDArray[np.bool_]
Labels: TypeAlias = NDArray[np.int64]

CENTRAL: Final = 0.8
DEVIATIONS: Final = NormalDist().inv_cdf((1.0 + CENTRAL) / 2.0)
"""Standard deviations from the median to either end of the central 80 %."""
ENOUGH: Final = 10
"""Residuals that a regime must have for a spread of its own."""


class Errors(Struct, frozen=True):
    """Absolute errors as shares of the measured time. [1]"""

    median: float
    mean: float
    p90: float

    def __str__(self) -> str:
        """Errors in percent, as tables print them."""
        return " / ".join(f"{100 * value:4.1f}" for value in (self.median, self.mean, self.p90))


def errors(predicted: Array, measured: Array) -> Errors:
    """Median, mean and 90th percentile of the absolute errors.

    >>> print(errors(np.array([1.0, 1.2]), np.array([1.0, 1.0])))
    10.0 / 10.0 / 18.0
    """
    off = np.abs(predicted / measured - 1.0)
    return Errors(float(np.median(off)), float(off.mean()), float(np.quantile(off, 0.9)))


def octaves(sizes: Array) -> Labels:
    """Octave of each size: the power of two below it.

    >>> octaves(np.array([512.0, 1023.0, 1024.0])).tolist()
    [9, 9, 10]
    """
    return np.frexp(sizes)[1].astype(np.int64) - 1


def coverage(predicted: Array, spread: Array, measured: Array) -> float:
    """Share of rows in their central 80 % interval. [1]

    >>> coverage(np.array([1.0, 1.0]), np.array([0.1, 0.1]), np.array([1.1, 1.2]))
    0.5
    """
    off = np.abs(np.log(measured / predicted))
    return float((off <= DEVIATIONS * spread).mean())


def unallowed(residuals: Array, allowed: Array) -> Array:
    """Rest of each residual for a spread to cover, where some is allowed for already. [1]

    An interval of √(s² + w²) holds as many residuals r as one of s alone holds of √(r² − w²).

    Args:
        residuals: Logarithms of measured over predicted. [1]
        allowed: Log standard deviation w that the prediction of each has beside its spread. [1]

    Examples:
        >>> unallowed(np.array([-0.5, 0.1]), np.array([0.3, 0.3]) / DEVIATIONS).round(6).tolist()
        [0.4, 0.0]
    """
    left: Array = np.sqrt(np.maximum(residuals**2 - (DEVIATIONS * allowed) ** 2, 0.0))
    return left


def spreads(
    residuals: Array,
    regimes: NDArray[np.intp],
    wanted: NDArray[np.intp],
    families: Labels | None = None,
) -> Array:
    """Standard deviation of the logarithm for each of the wanted regimes.

    So that the central 80 % of a lognormal holds four of five residuals of the regime yet to come;
    of all residuals where the regime has fewer than `ENOUGH`.

    Args:
        residuals, regimes: Of rows that were held out.
        wanted: Regimes.
        families: Label of each residual; None where they are independent.
    """
    label = np.arange(len(residuals)) if families is None else families
    every = _spread(residuals, label)
    own = {
        int(kind): _spread(residuals[regimes == kind], label[regimes == kind])
        for kind in np.unique(regimes)
        if (regimes == kind).sum() >= ENOUGH
    }
    return np.array([own.get(int(kind), every) for kind in wanted])


def independent(inside: Mask, families: Labels) -> float:
    """Number of independent rows that tell as much about a share as these do by families. [1]

    N rows over the design effect 1 + ρ·(m − 1), with m rows in the family of a row, and the
    correlation ρ within families by an analysis of variance; a family at least. Source: Kish 1965,
    Survey Sampling, section 5.4; Ridout, Demétrio and Firth 1999, Biometrics 55, 137-148.

    Families that are inside or outside as a whole count once each:

    >>> families = np.repeat([0, 1, 2, 3], 25)
    >>> independent(families > 0, families)
    4.0
    """
    rows, (_, place, sizes) = (
        len(inside),
        np.unique(families, return_inverse=True, return_counts=True),
    )
    kinds = len(sizes)
    if kinds == rows or kinds < 2:
        return float(kinds)
    share = np.bincount(place, weights=inside) / sizes
    between = (sizes * (share - inside.mean()) ** 2).sum() / (kinds - 1)
    within = (sizes * share * (1.0 - share)).sum() / (rows - kinds)
    met = (sizes**2).sum() / rows
    typical = (rows - met) / (kinds - 1)
    if (both := between + (typical - 1.0) * within) <= 0.0:
        return float(rows)
    correlation = min(max((between - within) / both, 0.0), 1.0)
    return float(rows / (1.0 + correlation * (met - 1.0)))


def _spread(residuals: Array, families: Labels) -> float:
    """Spread by the quantile that holds `CENTRAL` of rows to come, not of those seen.

    The i-th of n residuals holds a share of i/(n + 1) of others like them.
    """
    size = np.abs(residuals)
    inside = size <= np.quantile(size, CENTRAL)
    many = max(independent(inside, families), 2.0)
    share = min((CENTRAL * (many + 1.0) - 1.0) / (many - 1.0), 1.0)
    return float(np.quantile(size, share)) / DEVIATIONS
