"""Smooth surface of log residuals through a few hundred points, fitted robustly."""

from typing import Final

import numpy as np

from roofline.cost.kernels.calibrated import Hull, distances, matern
from roofline.cost.work import Array

ERROR_SCALE: Final = 0.05
"""Log residuals off the surface beyond this count linearly."""
NOISE: Final = 0.3
"""Variance of a row about the surface over that of the surface itself; assumed. [1]"""
PASSES: Final = 3
"""Of reweighting."""
JITTER: Final = 2e-9
"""Keeps the normal equations solvable where two points nearly coincide."""


def cover(at: Array, points: int) -> Hull:
    """Box around the rows, and points that cover them: each the row farthest from those before.

    Source: Gonzalez 1985, clustering to minimize the maximum intercluster distance.
    """
    low, high = at.min(axis=0), at.max(axis=0)
    every = np.unique(at, axis=0)
    apart = np.linalg.norm(every - (low + high) / 2, axis=1)
    chosen = [int(apart.argmin())]
    nearest = np.linalg.norm(every - every[chosen[0]], axis=1)
    while len(chosen) < min(points, len(every)):
        chosen.append(int(nearest.argmax()))
        nearest = np.minimum(nearest, np.linalg.norm(every - every[chosen[-1]], axis=1))
    return Hull(low, high, every[chosen], float(nearest.max()))


def surface(at: Array, values: Array, hull: Hull, reach: float) -> Array:
    """Weights of the hull's points that bring the surface close to the values. [1]

    Parameters
    ----------
    at
        Coordinates of each row. [octave]
    values
        Log residual of each row. [1]
    hull
        Whose points carry the weights.
    reach
        Length of the kernel. [octave]

    Notes
    -----
    Kernel ridge regression on a subset of points, reweighted so that outliers count less.
    Source: Rasmussen and Williams 2006, section 8.3.1 (subset of regressors).
    """
    seen = matern(distances(at, hull.points) / reach)
    prior = matern(distances(hull.points, hull.points) / reach)
    prior = NOISE * prior + JITTER * len(at) * np.eye(len(hull.points))
    share = np.ones(len(values))
    weights: Array = np.zeros(len(hull.points))
    for _ in range(PASSES):
        scaled = seen * share[:, None]
        weights = np.asarray(
            np.linalg.solve(scaled.T @ seen + prior, scaled.T @ values), dtype=np.float64
        )
        share = 1.0 / np.sqrt(1.0 + ((values - seen @ weights) / ERROR_SCALE) ** 2)
    return weights
