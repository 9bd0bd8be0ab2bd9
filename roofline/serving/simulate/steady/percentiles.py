"""Percentiles of what is known by its mean and its variance, request by request."""

from typing import Final

import numpy as np

from roofline.cost.work import Array

HALVINGS: Final = 32
FAR: Final = 40.0
"""Standard deviations within which every percentile is looked for."""


def mixed(shift: Array, mean: Array, variance: Array, percent: float) -> Array:
    """Percentile over requests, each with a gamma distribution beyond what is certain.

    Parameters
    ----------
    shift, mean, variance
        What is certain, mean beyond it, and its variance, of shape (requests, loads).
    percent
        Which. [1]

    Notes
    -----
    Where the mean of gamma distributions is that percentage, by halving. Source: definition.
    """
    from scipy.special import gammainc

    shift, mean, variance = np.broadcast_arrays(shift, mean, variance)
    tiny = 2.0**-20 * (shift + mean) + 2.0**-60
    mean = np.maximum(mean, tiny)
    variance = np.maximum(variance, tiny**2)
    shape, scale = mean**2 / variance, variance / mean
    low = shift.min(axis=0)
    high = (shift + mean + FAR * np.sqrt(variance)).max(axis=0)
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        below = gammainc(shape, np.maximum(middle - shift, 0.0) / scale).mean(axis=0)
        less = below < percent / 100.0
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    found: Array = (low + high) / 2.0
    return found
