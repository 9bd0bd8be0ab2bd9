"""How many rows the experts of the busiest group of devices get, under known distributions.

A kernel's time depends on loads one by one: weights are read of experts that have any, and rows of
each are rounded up to tiles. So loads are summed up in the numbers that decide it.
"""

from collections.abc import Iterator
from dataclasses import astuple, dataclass
from functools import cache
from math import ceil
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofline.cost.work import Array

TILE: Final = 128
"""Rows of a large tile of grouped GEMM kernels."""
LEAST: Final = 16
"""Rows of the smallest tile."""
DRAWS: Final = 16
"""Of loads that are averaged."""
SHARE: Final = 0.8
"""Largest load that is drawn, of all tokens."""
FEW: Final = (0.01, 2.0)
"""Loads that are drawn between where there are fewer rows than experts."""

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Loads:
    """Rows of the experts of one group of devices.

    Attributes
    ----------
    rows
        Together. [1]
    touched
        Experts that have any. [1]
    tiles
        Tiles of `TILE` rows, the last one of each expert part full. [1]
    padded
        Rows with those of each expert rounded up to `LEAST`. [1]
    """

    rows: float
    touched: float
    tiles: float
    padded: float


def summed(rows: Rows) -> Loads:
    """What decides the time of these loads.

    >>> summed(np.array([0, 1, 129]))
    Loads(rows=130.0, touched=2.0, tiles=3.0, padded=160.0)
    """
    some = rows[rows > 0]
    tiles, least = np.ceil(some / TILE).sum(), np.ceil(some / LEAST).sum()
    return Loads(float(some.sum()), float(len(some)), float(tiles), float(LEAST * least))


def balanced(tokens: int, experts: int, active: int, groups: int) -> Rows:
    """Loads of a group that gets its share, spread evenly over as many of its experts as can be.

    >>> balanced(3, 8, 2, 2).tolist()
    [1, 1, 1]
    """
    held = ceil(experts / groups)
    rows = max(1, ceil(tokens * active / groups))
    touched = min(held, rows)
    return np.full(touched, rows // touched) + (np.arange(touched) < rows % touched)


def power_law(
    tokens: int, experts: int, active: int, groups: int, exponent: float
) -> Iterator[Rows]:
    """Loads of the group with most rows, in some draws from a fixed seed.

    The load of each expert is drawn from the density x^−a between 1 and 0.8·t, or between 0.01 and
    2 where there are fewer rows than experts; loads are scaled to t·k rows together and rounded,
    and what that leaves is given to or taken from them one by one. Source: the generator of the
    measured rows, ``power_law_logits_v3`` of aiconfigurator
    (https://github.com/ai-dynamo/aiconfigurator, ``collector/helper.py``).
    """
    random, rows, held = np.random.default_rng(0), tokens * active, ceil(experts / groups)
    low, high = (1.0, SHARE * tokens) if rows > experts else FEW
    power = 1.0 - exponent
    for _ in range(DRAWS):
        level = low**power + (high**power - low**power) * random.random(experts)
        drawn = level ** (1.0 / power)
        loads = _corrected(np.round(drawn / drawn.sum() * rows).astype(np.int64), rows)
        whole = np.zeros(groups * held, dtype=np.int64)
        whole[:experts] = loads
        each = whole.reshape(groups, held)
        yield each[each.sum(axis=1).argmax()]


def _corrected(loads: Rows, rows: int) -> Rows:
    """Loads that add up: rows are added to the largest, taken from the smallest."""
    left, order = rows - int(loads.sum()), np.argsort(-loads, kind="stable")
    if left > 0:
        loads += left // len(loads)
        loads[order[: left % len(loads)]] += 1
    while left < 0:
        spare = order[loads[order] > 0][::-1][:-left]
        loads[spare] -= 1
        left += len(spare)
    return loads


@cache
def busiest(tokens: int, experts: int, active: int, groups: int, exponent: float) -> Loads:
    """Mean over the draws of what decides the time of the busiest group; balanced if a is 0."""
    if not exponent:
        return summed(balanced(tokens, experts, active, groups))
    drawn = [astuple(summed(d)) for d in power_law(tokens, experts, active, groups, exponent)]
    return Loads(*np.mean(drawn, axis=0).tolist())


def columns(
    tokens: Array, experts: Array, active: Array, groups: Array, exponent: Array
) -> dict[str, Array]:
    """Columns ``rows``, ``touched``, ``tiles`` and ``padded`` of `roofline.cost.kernels.experts`.

    Parameters
    ----------
    tokens
        Routed together, over all groups. [token]
    experts, active, groups
        E, k, and the groups of devices that experts are spread over. [1]
    exponent
        a of the power law, 0 for balanced loads. [1]
    """
    keys = zip(tokens, experts, active, groups, exponent, strict=True)
    found = np.array(
        [astuple(busiest(int(t), int(e), int(k), int(g), float(a))) for t, e, k, g, a in keys]
    )
    return dict(zip(("rows", "touched", "tiles", "padded"), found.T, strict=True))
