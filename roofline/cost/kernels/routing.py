"""Rows and tiles of the experts of the busiest group of devices.

The time of a kernel depends on the load of each expert: the weights of every expert with rows are
read, and the rows of each are rounded up to tiles. Loads are therefore reduced to the counts that
decide it, under known distributions and where only the rows and the touched experts are known.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import ceil
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roofline.cost.kernels.experts import HEIGHTS
from roofline.cost.work import Array
from roofline.kept import kept

DRAWS: Final = 8
"""Draws of loads that are averaged; measured rows are the mean of five."""
SHARE: Final = 0.8
"""Largest load that is drawn, of all tokens."""
FEW: Final = (0.01, 2.0)
"""Loads that are drawn between where there are fewer rows than experts."""
LIMITS: Final = (8, 4)
"""Groups of experts, and those of them that a token may choose from, of DeepSeek-V3's gate
(DeepSeek-AI 2024, arXiv 2412.19437, section 4.2)."""
FREE: Final = ""
"""A gate that chooses among all experts."""
LIMITED: Final = "limited"
"""A gate that chooses groups of experts first."""
ALONE: Final = "alone"
"""No gate: a device is given its own tokens, whose other choices count for its first expert."""

Rows = NDArray[np.int64]


class Loads(NamedTuple):
    """Rows of the experts of one group of devices."""

    tokens: float
    """Tokens that are sorted. [token]"""
    rows: float
    """Rows of all experts. [1]"""
    touched: float
    """Experts that have any. [1]"""
    tiles: tuple[float, ...]
    """Tiles of each of `HEIGHTS` rows, the last one of each expert part full. [1]"""


def summed(rows: Rows, tokens: int = 0) -> Loads:
    """Numbers that decide the time of these loads.

    >>> summed(np.array([0, 1, 129]))
    Loads(tokens=0.0, rows=130.0, touched=2.0, tiles=(18.0, 10.0, 6.0, 4.0, 3.0, 2.0))
    """
    some = rows[rows > 0]
    tiles = tuple(float(np.ceil(some / height).sum()) for height in HEIGHTS)
    return Loads(float(tokens), float(some.sum()), float(len(some)), tiles)


def balanced(tokens: int, experts: int, active: int) -> Rows:
    """Experts of each token under an even load, of shape (tokens, experts of a token).

    Source: the generator of the measured rows, ``balanced_logits`` of aiconfigurator
    (https://github.com/ai-dynamo/aiconfigurator, ``collector/helper.py``).

    >>> balanced(2, 8, 2).tolist()
    [[0, 4], [2, 6]]
    """
    apart = ceil(experts / active)
    first = np.arange(tokens)[:, None]
    if tokens < apart:
        first = np.floor(first * (apart / tokens)).astype(np.int64)
    chosen: Rows = (first + np.arange(active)[None, :] * apart) % experts
    return chosen


def power_law(
    tokens: int, experts: int, active: int, groups: int, exponent: float, draws: int = DRAWS
) -> Iterator[Rows]:
    """Loads of all experts, those of the group with most rows first, in draws from a fixed seed.

    The load of each expert is drawn from the density x^−a between 1 and 0.8·t, or between 0.01 and
    2 where there are fewer rows than experts; loads are scaled to t·k rows together, rounded and
    kept to one row per token; what that leaves is given to the smallest or taken from the largest
    of each group in turn. Source: the generator of the measured rows, ``power_law_logits_v3`` of
    aiconfigurator (https://github.com/ai-dynamo/aiconfigurator, ``collector/helper.py``).
    """
    random, rows = np.random.default_rng(0), tokens * active
    low, high = (1.0, SHARE * tokens) if rows > experts else FEW
    power, held = 1.0 - exponent, ceil(experts / groups)
    for _ in range(draws):
        level = low**power + (high**power - low**power) * random.random(experts)
        drawn = level ** (1.0 / power)
        loads = np.minimum(np.round(drawn / drawn.sum() * rows).astype(np.int64), tokens)
        even = (groups, held) if experts == groups * held else (1, experts)
        _correct(loads.reshape(even), rows - int(loads.sum()), tokens)
        each = np.zeros(groups * held, dtype=np.int64)
        each[:experts] = loads
        busiest = int(each.reshape(groups, held).sum(axis=1).argmax())
        each.reshape(groups, held)[[0, busiest]] = each.reshape(groups, held)[[busiest, 0]]
        yield each


def _correct(each: Rows, left: int, most: int) -> None:
    """Add the rows that are left to the smallest loads, or take them from the largest, in place."""
    while left > 0:
        groups = np.flatnonzero(each.min(axis=1) < most)[:left]
        if not len(groups):
            return
        each[groups, each[groups].argmin(axis=1)] += 1
        left -= len(groups)
    while left < 0:
        groups = np.flatnonzero(each.max(axis=1) > 0)[:-left]
        each[groups, each[groups].argmax(axis=1)] -= 1
        left += len(groups)


def assigned(loads: Rows, tokens: int, active: int) -> Rows:
    """Experts of each token under these loads, no expert twice.

    >>> assigned(np.array([2, 1, 1]), 2, 2).tolist()
    [[0, 1], [0, 2]]
    """
    order = np.argsort(-loads, kind="stable")
    return np.repeat(order, loads[order]).reshape(active, tokens).T


def limited(chosen: Rows, experts: int) -> Rows:
    """Loads where a gate chooses groups first, and takes any expert of those where it lacks some.

    Groups with most of a token's experts win, the first of those that are alike; what is missing
    are the first experts of the groups. So rows that were measured with a gate that knows a
    token's experts by one score each have some experts that every token takes.
    """
    groups, allowed = LIMITS
    held, (tokens, active) = experts // groups, chosen.shape
    every, times = np.unique(np.sort(chosen, axis=1), axis=0, return_counts=True)
    score = np.zeros((len(every), experts))
    score[np.arange(len(every))[:, None], every] = 1.0
    best = np.sort(score.reshape(len(every), groups, held), axis=2)[:, :, -2:].sum(axis=2)
    among = np.zeros((len(every), groups), dtype=np.bool_)
    among[np.arange(len(every))[:, None], np.argsort(-best, axis=1, kind="stable")[:, :allowed]] = (
        True
    )
    score = np.where(np.repeat(among, held, axis=1), score, -1.0)
    taken = np.argsort(-score, axis=1, kind="stable")[:, :active]
    found = np.bincount(taken.ravel(), np.repeat(times, active), experts)
    assert int(found.sum()) == tokens * active
    return found.astype(np.int64)


@cache
def busiest(
    tokens: int, experts: int, active: int, groups: int, exponent: float, gate: str = FREE
) -> Loads:
    """Mean over the draws of what decides the time of the busiest group; balanced if a is 0.

    Args:
        tokens: Routed together, over all groups. [token]
        experts, active, groups: E, k, and the groups of devices that experts are spread over. [1]
        exponent: a of the power law, 0 for balanced loads. [1]
        gate: `FREE`, `LIMITED` or `ALONE`.
    """
    held = ceil(experts / groups)
    found = []
    if exponent:
        drawn = list(power_law(tokens, experts, active, groups, exponent))
    else:
        drawn = [np.bincount(balanced(tokens, experts, active).ravel(), minlength=experts)]
    for loads in drawn:
        if gate == FREE:
            found.append(summed(loads[:held], tokens))
            continue
        chosen = assigned(loads, tokens, active) if exponent else balanced(tokens, experts, active)
        if gate == LIMITED:
            found.append(summed(limited(chosen, experts)[:held], tokens))
        else:
            own = chosen[(chosen < held).any(axis=1)]
            rows = np.bincount(np.where(own < held, own, 0).ravel(), minlength=held)
            found.append(summed(rows, len(own)))
    return mean(found)


def mean(found: Sequence[Loads]) -> Loads:
    """Mean of what decides the time of several loads."""
    return Loads(
        float(np.mean([each.tokens for each in found])),
        float(np.mean([each.rows for each in found])),
        float(np.mean([each.touched for each in found])),
        tuple(np.mean([each.tiles for each in found], axis=0).tolist()),
    )


def columns(
    tokens: Array, experts: Array, active: Array, groups: Array, exponent: Array, gate: str = FREE
) -> tuple[Array, Array, Array, dict[int, Array]]:
    """Tokens sorted, rows, experts touched and tiles by height, of each row of measurements.

    Arguments as of `busiest`, one value per row.
    """
    keys = zip(tokens, experts, active, groups, exponent, strict=True)
    found = [busiest(int(t), int(e), int(k), int(g), float(a), gate) for t, e, k, g, a in keys]
    tiles = np.array([each.tiles for each in found])
    return (
        np.array([each.tokens for each in found]),
        np.array([each.rows for each in found]),
        np.array([each.touched for each in found]),
        dict(zip(HEIGHTS, tiles.T, strict=True)),
    )


MOST: Final = 2000.0
"""Rows of an expert up to which their spread counts; beyond, half a tile is empty in the mean."""
POINTS: Final = 160
TINY: Final = 1e-12


def padding(rows: Array, touched: Array) -> dict[int, Array]:
    """Tiles of each of `HEIGHTS` rows, the last one of each expert part full. [1]

    The rows of an expert are taken as Poisson: as many tokens choose it, one by one, with a small
    chance. Source: the Poisson limit of the binomial distribution.

    Args:
        rows: Of all experts of a device. [1]
        touched: Experts that have any. [1]

    Examples:
        One row each: every expert has one tile, however small.

        >>> {rows: float(tiles) for rows, tiles in padding(np.array(8.0), np.array(8.0)).items()}
        {8: 8.0, 16: 8.0, 32: 8.0, 64: 8.0, 128: 8.0, 256: 8.0}
    """
    each = rows / np.maximum(touched, TINY)
    out = {}
    for height, (means, tiles) in _tables().items():
        near = np.interp(np.log(np.maximum(each, 1.0)), np.log(means), tiles)
        out[height] = touched * np.where(each > means[-1], each / height + 0.5, near)
    return out


@cache
def _tables() -> Mapping[int, tuple[Array, Array]]:
    """`_table` of each of `HEIGHTS`, kept: SciPy's functions take long to import."""
    return kept(lambda: {height: _table(height) for height in HEIGHTS}, "tiles of experts", [])


def _table(tile: int) -> tuple[Array, Array]:
    """Rows of an expert that has some, and its tiles: the sum over j of the chance of more than j.

    Of a Poisson count X, the mean of ⌈X/T⌉ is the sum over j ≥ 0 of P(X > j·T).
    """
    from roofline.special import gammainc

    rate = np.geomspace(0.001, MOST, POINTS)
    some = -np.expm1(-rate)
    full = np.arange(0.0, 2.0 * MOST / tile + 2.0)
    more = gammainc(full[:, None] * tile + 1.0, rate)
    means, tiles = rate / some, more.sum(axis=0) / some
    return np.concatenate([[1.0], means]), np.concatenate([[1.0], tiles])
