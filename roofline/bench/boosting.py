"""Boosted decision trees whose levels each ask one question of all rows, compiled.

Source: Friedman 2001, Greedy function approximation: a gradient boosting machine, Annals of
Statistics 29; Friedman 2002, Stochastic gradient boosting, Computational Statistics 38 (trees that
see a part of the rows); Kohavi 1994, Bottom-up induction of oblivious, read-once decision graphs.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline.compiling import compile_once
from roofline.cost.work import Array

Codes = NDArray[np.uint8]


@compile_once
def boosted(
    codes: Codes,
    bounds: NDArray[np.intp],
    values: Array,
    seen: NDArray[np.bool_],
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
    trees, leaves = len(seen), 2**levels
    asks = np.zeros((trees, levels), np.intp)
    places = np.zeros((trees, levels), np.intp)
    found = np.zeros((trees, leaves))
    left, leaf = values.copy(), np.zeros(len(values), np.intp)
    # Cells of all columns are in one line. Unsigned places need no check for negative ones.
    first = np.concatenate((np.zeros(1, np.intp), np.cumsum(bounds + 1)))
    cells = np.empty((len(values), len(codes)), np.uint32)
    for column in range(len(codes)):
        cells[:, column] = codes[column] + first[column]
    for tree in range(trees):
        weight = 1.0 / np.sqrt(1.0 + (left / error_scale) ** 2)
        pairs = np.stack((weight * left, weight), axis=-1)
        rows, starts = np.flatnonzero(seen[tree]), np.zeros(leaves + 1, np.intp)
        starts[1] = len(rows)
        for level in range(levels):
            column, bound = _question(cells, first, rows, pairs, starts[: 2**level + 1], leaf_noise)
            asks[tree, level], places[tree, level] = column, bound
            _split(codes[column] > bound, rows, starts, 2**level)
        leaf[:] = 0
        for level in range(levels):
            code, bound = codes[asks[tree, level]], places[tree, level]
            for row in range(len(leaf)):
                leaf[row] = 2 * leaf[row] + (code[row] > bound)
        for part in range(leaves):
            total, count = 0.0, 0.0
            for row in rows[starts[part] : starts[part + 1]]:
                total += pairs[row, 0]
                count += pairs[row, 1]
            found[tree, part] = share * total / (count + leaf_noise)
        for row in range(len(left)):
            left[row] -= found[tree, leaf[row]]
    return asks, places, found


@compile_once
def _split(
    above: NDArray[np.bool_], rows: NDArray[np.intp], starts: NDArray[np.intp], parts: int
) -> None:
    """Part the rows of each node by an answer, in their order, and write where parts start."""
    old, ends = rows.copy(), starts[: parts + 1].copy()
    for part in range(parts):
        low = ends[part]
        for row in old[ends[part] : ends[part + 1]]:
            if not above[row]:
                rows[low] = row
                low += 1
        starts[2 * part + 1] = low
        for row in old[ends[part] : ends[part + 1]]:
            if above[row]:
                rows[low] = row
                low += 1
        starts[2 * part + 2] = low


@compile_once
def _question(
    cells: NDArray[np.uint32],
    first: NDArray[np.intp],
    rows: NDArray[np.intp],
    pairs: Array,
    starts: NDArray[np.intp],
    leaf_noise: float,
) -> Any:
    """Column and bound after which leaves explain most; the first of equals.

    Args:
        cells: Place of each row's value in the line of all columns' cells. [1]
        first: Where cells of each column begin, and where the last ones end. [1]
        rows: Rows of the tree, node by node. [1]
        pairs: Weighted value and weight of each row. [1]
        starts: Where rows of each node begin, and where the last ones end. [1]
        leaf_noise: As in `boosted`.
    """
    many, columns = first[-1], len(first) - 1
    sums, gain = np.empty((many, 2)), np.zeros(many)
    below, few = np.empty(many), np.empty(many)
    for part in range(len(starts) - 1):
        if starts[part] == starts[part + 1]:
            continue
        sums[:] = 0.0
        for row in rows[starts[part] : starts[part + 1]]:
            value, weight = pairs[row, 0], pairs[row, 1]
            for column in range(columns):
                cell = cells[row, column]
                sums[cell, 0] += value
                sums[cell, 1] += weight
        for column in range(columns):
            # Sums first: divisions alone are done several at a time.
            low, high = first[column], first[column + 1] - 1
            total, count = 0.0, 0.0
            for at in range(low, high):
                total += sums[at, 0]
                count += sums[at, 1]
                below[at], few[at] = total, count
            total += sums[high, 0]
            count += sums[high, 1]
            for at in range(low, high):
                gain[at] += below[at] ** 2 / (few[at] + leaf_noise)
                gain[at] += (total - below[at]) ** 2 / (count - few[at] + leaf_noise)
    best, place, bound = -1.0, 0, 0
    for column in range(columns):
        for at in range(first[column], first[column + 1] - 1):
            if gain[at] > best:
                best, place, bound = gain[at], column, at - first[column]
    return place, bound
