"""Percentiles of what is known by its mean and its variance, request by request."""

from typing import Final

import numpy as np

from roofline.cost.work import Array

ROUNDS: Final = 64
NEAR: Final = 2.0**-30
"""Probability, and share of a percentile, that are left where it is found. [1]"""
FAR: Final = 40.0
"""Standard deviations within which every percentile is looked for."""


def mixed(shift: Array, mean: Array, variance: Array, percent: float) -> Array:
    """Percentile over requests, each with a gamma distribution beyond what is certain.

    Where the mean of gamma distributions is that percentage: by Newton's steps, and by halving
    where these do not halve what is missing. Source: definition.

    Args:
        shift, mean, variance: What is certain, mean beyond it, and its variance, of shape
            (requests, loads).
        percent: Which. [1]
    """
    from roofline.special import gammainc, gammaln

    shift, mean, variance = np.broadcast_arrays(shift, mean, variance)
    tiny = 2.0**-20 * (shift + mean) + 2.0**-60
    mean = np.maximum(mean, tiny)
    variance = np.maximum(variance, tiny**2)
    shape, scale = mean**2 / variance, variance / mean
    constant = gammaln(shape) + np.log(scale)
    low = shift.min(axis=0)
    high = (shift + mean + FAR * np.sqrt(variance)).max(axis=0)
    found: Array = np.percentile(shift + mean, percent, axis=0)
    before, out, places = np.ones_like(found), found, np.arange(len(found))
    for _ in range(ROUNDS):
        beyond = np.maximum(found - shift, 0.0) / scale
        missing = percent / 100.0 - gammainc(shape, beyond).mean(axis=0)
        low, high = np.where(missing > 0, found, low), np.where(missing > 0, high, found)
        logs = (shape - 1.0) * np.log(np.maximum(beyond, 2.0**-200)) - beyond - constant
        density = np.exp(np.minimum(logs, 300.0)).mean(axis=0, where=beyond > 0.0)
        step = found + missing / np.maximum(density, 2.0**-500)
        fast = (np.abs(missing) <= before / 2.0) & (step > low) & (step < high)
        open_ = (np.abs(missing) > NEAR) & (high - low > NEAR * high)
        if not open_.any():
            break
        found = np.where(open_, np.where(fast, step, (low + high) / 2.0), found)
        before = np.abs(missing)
        out[places] = found
        # Two at least: the sum of a single column is taken in another order.
        if max(open_.sum(), 2) < len(places):
            left = np.sort(np.argsort(~open_, kind="stable")[: max(open_.sum(), 2)])
            places = places[left]
            found, before, low, high = (each[left] for each in (found, before, low, high))
            shift, shape, scale, constant = (
                np.take(each, left, axis=1) for each in (shift, shape, scale, constant)
            )
    return out
