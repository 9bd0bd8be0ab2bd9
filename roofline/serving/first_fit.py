"""External fragmentation: free room between contiguous caches that no waiting request fits into."""

import numpy as np

from roofline.cost.work import Array
from roofline.errors import InputError

TURNS = 4000
MOST_REGIONS = 256
"""Departures that are counted, and regions of a mean length that a pool is cut to. [1]"""


def lengths_around(mean: float, spread: float, number: int, seed: int) -> Array:
    """Lengths of requests, uniform within a share of their mean. [token]

    Args:
        mean: Of the lengths. [token]
        spread: Share to either side, below 1. [1]
        number, seed: How many; of the random numbers. [1]
    """
    if not 0 <= spread < 1:
        raise InputError(f"a spread of {spread:g}", hint="give a share from 0 to below 1")
    low, high = round(mean * (1 - spread)), round(mean * (1 + spread))
    drawn = np.random.default_rng(seed).integers(max(low, 1), high + 1, number)
    return drawn.astype(float)


def external_share(pool: float, mean: float, spread: float, *, seed: int = 0) -> float:
    """Room that is free, and enough for the next request, in pieces that are each too short. [1]

    Requests wait for the first hole that is long enough, in their order; where the first of them
    finds none, any of those that have room leaves. Mean over departures, of the share of the pool
    that is free while a request waits that a pool without holes would have room for. Source:
    first fit, Knuth 1997, The Art of Computer Programming 1, section 2.5; external fragmentation
    of caches, Kwon et al. 2023 (arXiv 2309.06180), section 3.1.

    Args:
        pool: Room for caches. [token]
        mean, spread: As of `lengths_around`. [token] [1]
        seed: Of the random numbers. [1]

    Examples:
        >>> external_share(10_000, 1000, 0.0)
        0.0
    """
    pool = float(int(min(pool, MOST_REGIONS * mean)))
    if pool < mean * (1 + spread):
        return 0.0
    leaving = np.random.default_rng(seed + 1)
    lengths = iter(lengths_around(mean, spread, 2 * (TURNS + MOST_REGIONS) + MOST_REGIONS, seed))
    regions: list[tuple[float, float]] = []  # start and end, in order
    asked, wasted, turns = next(lengths), 0.0, 0
    while turns < TURNS:
        place = _hole(regions, asked, pool)
        if place is not None:
            index, start = place
            regions.insert(index, (start, start + asked))
            asked = next(lengths)
            continue
        free = pool - sum(end - start for start, end in regions)
        wasted += free if free >= asked else 0.0
        turns += 1
        del regions[leaving.integers(len(regions))]
    return wasted / (pool * TURNS)


def _hole(
    regions: list[tuple[float, float]], asked: float, pool: float
) -> tuple[int, float] | None:
    """Place in the list, and start, of the first hole that is long enough."""
    before = 0.0
    for index, (start, end) in enumerate(regions):
        if start - before >= asked:
            return index, before
        before = end
    return (len(regions), before) if pool - before >= asked else None
