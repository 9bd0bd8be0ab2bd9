"""Boosted decision trees whose levels each ask one question of all rows, compiled.

Source: Friedman 2001, Greedy function approximation: a gradient boosting machine, Annals of
Statistics 29; Friedman 2002, Stochastic gradient boosting, Computational Statistics 38 (trees that
see a part of the rows); Kohavi 1994, Bottom-up induction of oblivious, read-once decision graphs.
"""

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from roofline.compiling import compile_once
from roofline.cost.work import Array

Codes = NDArray[np.uint8]


def boosted(
    codes: Codes,
    bounds: NDArray[np.intp],
    values: Array,
    seen: NDArray[np.bool_],
    *,
    levels: int,
    share: float,
    leaf_noise: float,
    error_scale: float,
) -> tuple[NDArray[np.intp], NDArray[np.intp], Array]:
    """Columns that each level of a tree compares, their bounds by number, and values of leaves.

    Args:
        codes: Number of bounds below each row's value, a row of the table for each column. [1]
        bounds: How many bounds each column has. [1]
        values: What the sum of the trees is to be close to, for each row. [1]
        seen: Rows that each tree is made of, a row of the table for each tree.
        levels: Questions of a tree. [1]
        share: Part of what the trees before it leave that a tree takes. [1]
        leaf_noise: Rows that a leaf must have for half of its mean. [1]
        error_scale: Values left beyond this count linearly, not squared. [1]
    """
    return cast(
        "tuple[NDArray[np.intp], NDArray[np.intp], Array]",
        _boosted(codes, bounds, values, seen, levels, share, leaf_noise, error_scale),
    )


@compile_once
def _boosted(
    codes: Codes,
    bounds: NDArray[np.intp],
    values: Array,
    seen: NDArray[np.bool_],
    levels: int,
    share: float,
    leaf_noise: float,
    error_scale: float,
) -> Any:
    trees = len(seen)
    asks = np.zeros((trees, levels), np.intp)
    places = np.zeros((trees, levels), np.intp)
    leaves = np.zeros((trees, 2**levels))
    left, leaf = values.copy(), np.zeros(len(values), np.intp)
    for tree in range(trees):
        weight = 1.0 / np.sqrt(1.0 + (left / error_scale) ** 2)
        rows = np.flatnonzero(seen[tree])
        leaf[:] = 0
        for level in range(levels):
            column, bound = _question(codes, bounds, rows, weight, left, leaf, 2**level, leaf_noise)
            asks[tree, level], places[tree, level] = column, bound
            for row in range(len(leaf)):
                leaf[row] = 2 * leaf[row] + (codes[column, row] > bound)
        total, count = np.zeros(2**levels), np.zeros(2**levels)
        for one in rows:
            total[leaf[one]] += weight[one] * left[one]
            count[leaf[one]] += weight[one]
        leaves[tree] = share * total / (count + leaf_noise)
        for row in range(len(left)):
            left[row] -= leaves[tree, leaf[row]]
    return asks, places, leaves


@compile_once
def _question(
    codes: Codes,
    bounds: NDArray[np.intp],
    rows: NDArray[np.intp],
    weight: Array,
    left: Array,
    leaf: NDArray[np.intp],
    parts: int,
    leaf_noise: float,
) -> Any:
    """Column and bound after which leaves explain most; the first of equals."""
    best, column, bound = -1.0, 0, 0
    for place in range(len(codes)):
        many, code = bounds[place], codes[place]
        sums = np.zeros((parts, many + 1, 2))
        for row in rows:
            cell = sums[leaf[row], code[row]]
            cell[0] += weight[row] * left[row]
            cell[1] += weight[row]
        gain = np.zeros(many)
        for part in range(parts):
            total, count = sums[part, :, 0].sum(), sums[part, :, 1].sum()
            if count == 0.0:
                continue
            below, few = 0.0, 0.0
            for at in range(many):
                below += sums[part, at, 0]
                few += sums[part, at, 1]
                gain[at] += below**2 / (few + leaf_noise)
                gain[at] += (total - below) ** 2 / (count - few + leaf_noise)
        for at in range(many):
            if gain[at] > best:
                best, column, bound = gain[at], place, at
    return column, bound
