"""Fit a residual table robustly: points that cover the shapes, a smooth surface, then jumps."""

from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofline.bench.held_out import Labels
from roofline.bench.rows import SEED
from roofline.cost.kernels.form import Trees
from roofline.cost.kernels.residual import (
    FINEST,
    DecisionTrees,
    Hull,
    Residual,
    StepTable,
    between,
    distances,
    matern,
)
from roofline.cost.work import Array

POINTS: Final = 600
"""Points of the smooth surface."""
CHOICE_POINTS: Final = 224
"""The same while the shape of a table is chosen."""
NODES: Final = 96
"""Nodes of the jumps along the fast coordinate, at most."""
HOLE: Final = 2.0
"""Octaves between neighbouring values of a coordinate that are still a grid, not a hole in it."""
DISTURBED: Final = 2.0
"""Times that of the next larger size with which a size was disturbed; assumed. [1]"""
BETWEEN: Final = 4
"""Nodes of straight lines for each value of the fast coordinate that was measured."""
FAMILIES: Final = 12
"""Families of the jumps across the other coordinates, at most."""
ERROR_SCALE: Final = 0.05
"""Log residuals off the table beyond this count linearly."""
NOISE: Final = 0.1
"""Variance of a row about the surface over that of the surface itself; assumed. [1]"""
STEP_NOISE: Final = 1.0
"""The same of a row about the jumps: few rows make no jump; assumed. [1]"""
FEW_ROWS: Final = 1500
"""Rows that are enough to tell outliers."""
PART: Final = 0.7
"""Part of the families that a tree is made of, so that no family decides all trees. [1]"""
BOUNDS: Final = 64
"""Bounds that a column of branches may be compared with, at most. [1]"""
SHARE: Final = 0.1
"""Share of the remaining residual that each tree takes. [1]"""
OCTAVE_DIGITS: Final = 4
"""After the point, of values between which bounds are: what differs less is the same size."""
LEAF_NOISE: Final = 2.0
"""Rows that a leaf must have for half of its mean; assumed. [1]"""
PASSES: Final = 3
"""Passes of reweighting."""
JITTER: Final = 2e-9
"""Keeps the normal equations solvable where two points nearly coincide."""


def cover(at: Array, points: int = POINTS) -> Hull:
    """Box around the rows, and points that cover them: each the row farthest from those before.

    Source: Gonzalez 1985, clustering to minimize the maximum intercluster distance.
    """
    low, high = at.min(axis=0), at.max(axis=0)
    every = np.unique(at, axis=0)

    def squares(point: Array) -> Array:
        apart = every - point
        found: Array = np.einsum("rc,rc->r", apart, apart)
        return found

    chosen = [int(squares((low + high) / 2).argmin())]
    nearest = squares(every[chosen[0]])
    while len(chosen) < min(points, len(every)):
        chosen.append(int(nearest.argmax()))
        nearest = np.minimum(nearest, squares(every[chosen[-1]]))
    radius = float(np.sqrt(nearest.max()))
    # The widest step between neighbouring values of a coordinate, holes aside.
    gaps = np.concatenate([np.diff(np.unique(column)) for column in at.T])
    spacing = float(gaps[gaps <= HOLE].max(initial=0.0))
    return Hull(low, high, every[chosen], max(radius, spacing))


def surface(
    apart: Array, values: Array, between_points: Array, reach: float
) -> tuple[Residual, Array]:
    """Smooth surface close to the values, without jumps, and its own values there.

    Source: Rasmussen and Williams 2006, section 8.3.1 (subset of regressors).

    Args:
        apart: `roofline.cost.kernels.residual.with_waves` of the rows that the hull is of. [octave]
        values: Log residual of each row. [1]
        between_points: The same distances of the points that carry the weights, to each other.
            [octave]
        reach: Length of the kernel. [octave]
    """
    seen = matern(apart / reach)
    prior = matern(between_points / reach)
    weights = _ridge(seen, values, NOISE * prior, np.ones(len(seen)))
    return Residual(weights, reach), seen @ weights


def steps(at: Array, values: Array, reach: float) -> StepTable | None:
    """Jumps close to what a surface left, node by node; None where there is nothing to step along.

    Args:
        at: Coordinates of each row. [octave]
        values: As in `surface`, less the surface.
        reach: Length of the kernel between families. [octave]
    """
    nodes = np.unique(at[:, 0])
    if len(nodes) < 2 or at.shape[1] < 2:
        return None
    if len(nodes) > NODES:
        nodes = nodes[np.linspace(0, len(nodes) - 1, NODES).round().astype(np.intp)]
    families = cover(at[:, 1:], FAMILIES).points
    near = matern(distances(at[:, 1:], families) / reach)
    prior = STEP_NOISE * matern(distances(families, families) / reach)
    below, share = between(nodes, at[:, 0])
    # A row weighs on the node below it and on the one above, unless it is at one.
    node, hat = np.concatenate([below, below + 1]), np.concatenate([1.0 - share, share])
    order = np.flatnonzero(hat > 0.0)
    order = order[np.argsort(node[order], kind="stable")]
    row, starts = order % len(at), np.searchsorted(node[order], np.arange(len(nodes) + 1))
    weights = _ridges(near[row], values[row], prior, hat[order], starts)
    return StepTable(nodes, families, weights)


def lines(at: Array, values: Array, measured: Array, reach: float) -> StepTable:
    """Table with which times are straight lines between measured values of the fast coordinate.

    Between two sizes a message has a fixed cost and a rate; beyond them the formula has its own.
    A size that was measured several times has the median; one that takes far longer than the next
    larger one was disturbed and is left out. Each family has lines of its own.

    Args:
        at, values: As in `surface`.
        measured: Time of each row. [s]
        reach: Length of the kernel between families. [octave]
    """
    sizes = np.unique(at[:, 0])
    nodes = np.interp(np.arange(BETWEEN * (len(sizes) - 1) + 1) / BETWEEN, range(len(sizes)), sizes)
    families, place = np.unique(at[:, 1:], axis=0, return_inverse=True)
    off = np.empty((len(nodes), len(families)))
    for family in range(len(families)):
        mine = np.flatnonzero(place.reshape(-1) == family)
        seen, own = np.unique(at[mine, 0], return_inverse=True)
        each = [mine[own == size] for size in range(len(seen))]
        formula = np.array([np.median(measured[some] / np.exp(values[some])) for some in each])
        time = formula * np.exp([np.median(values[some]) for some in each])
        kept = np.append(time[:-1] <= DISTURBED * time[1:], True)
        line, plain = (
            np.interp(2.0**nodes, 2.0 ** seen[kept], known[kept]) for known in (time, formula)
        )
        off[:, family] = np.log(line / plain)
    near = matern(distances(families, families) / reach)
    weights = np.asarray(np.linalg.solve(near, off.T).T, dtype=np.float64)
    return StepTable(nodes, families, weights)


def branches(columns: Array, values: Array, families: Labels, trees: Trees) -> DecisionTrees:
    """Trees close to the values: each takes a share of what those before it leave.

    Each is made of a random part of the families, and all nodes of a level ask one question.

    Args:
        columns: `roofline.cost.kernels.residual.asked` of each row. [octave]
        values: Log residual of each row. [1]
        families: Label of each row.
        trees: How many to make.
    """
    from roofline.bench.boosting import boosted  # compiling is for fits that branch

    bounds = [_bounds(column) for column in columns.T]
    codes = [np.searchsorted(of, column) for of, column in zip(bounds, columns.T, strict=True)]
    kinds, family = np.unique(families, return_inverse=True)
    part = np.random.default_rng(SEED).random((trees.number, len(kinds))) < PART
    asks, places, leaves = boosted(
        np.stack(codes).astype(np.uint8),
        np.array([len(of) for of in bounds]),
        values,
        part[:, family],
        trees.levels,
        SHARE,
        LEAF_NOISE,
        ERROR_SCALE,
    )
    padded = np.zeros((len(bounds), BOUNDS))
    for row, of in zip(padded, bounds, strict=True):
        row[: len(of)] = of
    return DecisionTrees(asks, padded[asks, places], np.round(leaves / FINEST) * FINEST)


def _bounds(column: Array) -> Array:
    """Halfway between neighbouring values, or those that split rows evenly where they are many."""
    values = np.unique(np.round(column, OCTAVE_DIGITS))
    halfway = (values[1:] + values[:-1]) / 2.0
    if len(halfway) > BOUNDS:
        shares = np.linspace(0.0, 1.0, BOUNDS + 2)[1:-1]
        at = np.quantile(column, shares, method="nearest")
        halfway = np.unique(halfway[np.minimum(np.searchsorted(values, at), len(halfway) - 1)])
    return halfway


def _ridges(
    seen: Array, values: Array, prior: Array, weight: Array, starts: NDArray[np.intp]
) -> Array:
    """Kernel ridge regressions as `_ridge`, one for each run of rows, all of one prior."""
    runs = [slice(begin, end) for begin, end in pairwise(starts.tolist())]
    many = np.diff(starts)[:, None, None]
    prior = prior + JITTER * np.maximum(many, 1) * np.eye(len(prior))
    share = weight
    found: Array = np.zeros((len(runs), seen.shape[1]))
    for _ in range(PASSES):
        scaled = seen * share[:, None]
        normal = np.stack([scaled[run].T @ seen[run] for run in runs])
        right = np.stack([scaled[run].T @ values[run] for run in runs])
        found = np.asarray(
            np.linalg.solve(normal + prior, right[:, :, None])[:, :, 0], dtype=np.float64
        )
        fitted = np.einsum("rp,rp->r", seen, np.repeat(found, np.diff(starts), axis=0))
        share = weight / np.sqrt(1.0 + ((values - fitted) / ERROR_SCALE) ** 2)
    return found


def _ridge(seen: Array, values: Array, prior: Array, weight: Array) -> Array:
    """Kernel ridge regression on a subset of points, reweighted so that outliers count less.

    Of many rows, some find the weights of all.
    """
    from scipy.linalg import cho_factor, cho_solve

    prior = prior + JITTER * max(len(seen), 1) * np.eye(len(prior))
    few = slice(None, None, max(len(seen) // FEW_ROWS, 1))
    share, found = weight, np.zeros(len(prior))
    for left in reversed(range(PASSES)):
        some = few if left else slice(None)
        root = np.sqrt(share[some])
        scaled = seen[some] * root[:, None]
        scale = len(seen) / len(scaled)
        # NumPy computes half of a matrix times its own transpose.
        normal = scale * (scaled.T @ scaled) + prior
        found = cho_solve(
            cho_factor(normal, check_finite=False), scale * (scaled.T @ (root * values[some]))
        )
        share = weight / np.sqrt(1.0 + ((values - seen @ found) / ERROR_SCALE) ** 2)
    return found
