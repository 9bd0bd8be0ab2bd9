"""Tiles of grouped GEMMs where only the rows and the experts they touch are known."""

from collections.abc import Mapping
from functools import cache
from typing import Final

import numpy as np

from roofline.cost.kernels.experts import HEIGHTS
from roofline.cost.work import Array
from roofline.kept import kept

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
    return {height: touched * _tiles(each, height) for height in HEIGHTS}


def _tiles(rows: Array, tile: int) -> Array:
    """Mean tiles of an expert that has some rows, that many in the mean."""
    means, tiles = _tables()[tile]
    far = rows / tile + 0.5
    near = np.interp(np.log(np.maximum(rows, 1.0)), np.log(means), tiles)
    found: Array = np.where(rows > means[-1], far, near)
    return found


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
