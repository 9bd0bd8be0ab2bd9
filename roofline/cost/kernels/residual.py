"""Residual of a formula as a table over shapes: its hull, its surface, and how it fades beyond.

Coordinates are in octaves, one column per dimension; the first is the fast one, such as the tokens
of a linear layer, and the others tell families of shapes apart.
"""

from collections import OrderedDict
from dataclasses import dataclass
from itertools import combinations
from threading import Lock
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roofline.cost.work import Array

FADE: Final = 1.0
"""Octaves outside the hull over which a residual falls by a factor of e; assumed."""
TOUCHING: Final = 2e-9
"""Octaves: a row this close to the hull is in it."""
MOST_ROWS: Final = 2**17
"""Rows that are remembered of all tables, those of the tables asked last. [1]"""
BLOCK: Final = 64
"""Rows whose distances to a few hundred points stay in a core's cache."""


class Hull(NamedTuple):
    """Region of the measurements: a box, and points that cover what is measured in it."""

    low: Array
    high: Array
    """Edges of the box, one per coordinate. [octave]"""
    points: Array
    """Some of the measured shapes, one row each. [octave]"""
    radius: float
    """No measured shape is farther than this from its nearest point, nor a shape between two
    neighbours. [octave]"""


class Steps(NamedTuple):
    """Jumps along the fast coordinate, as tiles make them: a table of nodes × families."""

    nodes: Array
    """Values of the fast coordinate, increasing; linear in between. [octave]"""
    families: Array
    """Some of the measured families, one row each. [octave]"""
    weights: Array
    """Weights of a kernel around each family, one row per node. [1]"""


class Branches(NamedTuple):
    """Jumps where sizes pass bounds, as libraries choose kernels: decision trees in levels.

    All nodes of a level compare the same column with the same bound, so that the answers of a tree
    are a place in its row of values.
    """

    columns: NDArray[np.intp]
    """Column of `asked` that each level compares, one row per tree. [1]"""
    bounds: Array
    """Bound that the level compares it with, of the same shape. [octave]"""
    values: Array
    """Leaves of each tree, one row each: the answer of the first level is the highest bit. [1]"""


class Residual(NamedTuple):
    """Smooth surface in the logarithm of the time, and jumps on top of it."""

    weights: Array
    """Weights of a Matérn 3/2 kernel around each point of the hull. [1]"""
    reach: float
    """Length of that kernel. [octave]"""
    steps: Steps | None = None
    """None where they did not help on families that were left out."""
    steps_reach: float = 3.0
    """Length of the kernel between families. [octave]"""
    waves: Array | None = None
    """`Form.waves` of each point of the hull, which are coordinates of the surface too. [octave]"""
    branches: Branches | None = None
    """Trees in place of steps, where they helped more."""


def value(residual: Residual, hull: Hull, at: Array, waves: Array | None = None) -> Array:
    """Logarithm of what the table multiplies a formula by. [1]

    Outside the hull it is the value at the nearest edge, faded by a factor of e each `FADE`.
    """
    return _located(residual, hull, at, waves)[0]


@dataclass(slots=True)
class _Rows:
    """Rows of a table that were located: their places by coordinates, and what is known of each.

    Holds the table, so that no other gets its place in memory.
    """

    of: tuple[Residual | None, Hull]
    places: dict[bytes, int]
    table: Array
    beyond: Array


_KNOWN: Final[OrderedDict[tuple[int, int], _Rows]] = OrderedDict()
_LOCK: Final = Lock()
"""Rows are served again in threads, which all remember in `_KNOWN`."""


def located(
    residual: Residual | None, hull: Hull, at: Array, waves: Array | None = None
) -> tuple[Array, Array]:
    """`value` of each row, 0 without a table, and how far it is `outside`.

    Steps, layouts and devices that have their kernels from one fit ask for the same rows again:
    those are remembered, one by one.
    """
    rows = np.ascontiguousarray(at if waves is None else np.hstack([at, waves]))
    keys: list[Any] = rows.view(np.dtype((np.void, rows.strides[0]))).ravel().tolist()
    with _LOCK:
        known = _KNOWN.setdefault(
            (id(residual), id(hull)), _Rows((residual, hull), {}, np.empty(0), np.empty(0))
        )
        places, count = known.places, len(known.places)
        found = list(map(places.get, keys))
        if None in found:
            found = [places.setdefault(key, len(places)) for key in keys]
        place = np.array(found, np.intp)
        if len(places) > count:
            _, first = np.unique(place, return_index=True)
            new = first[count - len(places) :]
            more = _located(residual, hull, at[new], None if waves is None else waves[new])
            known.table, known.beyond = (
                np.concatenate(pair) for pair in zip((known.table, known.beyond), more, strict=True)
            )
            _KNOWN.move_to_end((id(residual), id(hull)))
            while sum(len(each.places) for each in _KNOWN.values()) > MOST_ROWS:
                _KNOWN.popitem(last=False)
        return known.table[place], known.beyond[place]


def _located(
    residual: Residual | None, hull: Hull, at: Array, waves: Array | None
) -> tuple[Array, Array]:
    inside = np.clip(at, hull.low, hull.high)
    if residual is None:
        return np.zeros(len(at)), outside(hull, at)
    out, nearest = _surface(residual, hull.points, inside, waves)
    beyond = _apart(at, inside) + _beyond_radius(hull, nearest)
    out += _jumping(residual, inside, waves)
    out *= np.exp(beyond / -FADE)
    return out, beyond


def _jumping(residual: Residual, inside: Array, waves: Array | None) -> Array | float:
    """Jumps of rows in the box, which the smooth surface lacks. [1]"""
    if residual.branches is not None:
        return branched(residual.branches, asked(inside, waves))
    if residual.steps is not None:
        return jumps(residual.steps, residual.steps_reach, inside)
    return 0.0


def _surface(
    residual: Residual, points: Array, at: Array, waves: Array | None
) -> tuple[Array, Array]:
    """Smooth part at each row, and how far its nearest point is, as `matern` and `distances` say.

    Rows are taken so many at a time that all stays in a core's cache.
    """
    out, nearest = np.empty((2, len(at)))
    scale = np.sqrt(3.0) / residual.reach
    squares = _Squares(points * scale)
    waved = None if residual.waves is None else _Squares(residual.waves * scale)
    whole, more, faded = np.zeros((3, BLOCK, len(points)))
    for start in range(0, len(at), BLOCK):
        rows = slice(start, start + BLOCK)
        some = squares.to(at[rows] * scale, whole)
        apart, fading = whole[:some], faded[:some]
        np.abs(apart, out=apart)  # rounding may leave a square below 0
        nearest[rows] = np.sqrt(apart.min(axis=1)) / scale
        if waved is not None and waves is not None:
            waved.to(waves[rows, : waved.coordinates] * scale, more)
            apart += np.abs(more[:some], out=more[:some])
        np.sqrt(apart, out=apart)
        np.exp(np.negative(apart, out=fading), out=fading)
        apart += 1.0
        apart *= fading
        out[rows] = (whole @ residual.weights)[:some]
    return out, nearest


class _Squares:
    """Squared distances of rows to some points, as one product: |a − p|² = −2a·p + |p|² + |a|².

    Products are always of as many rows, as in `_product`: what a row has must not depend on what
    it is asked for with.
    """

    def __init__(self, points: Array) -> None:
        wide, self.coordinates = points.shape
        self.right = np.empty((self.coordinates + 2, wide))
        self.right[:-2] = -2.0 * points.T
        self.right[-2], self.right[-1] = (points * points).sum(axis=1), 1.0
        self.left = np.zeros((BLOCK, self.coordinates + 2))
        self.left[:, -2] = 1.0

    def to(self, rows: Array, out: Array) -> int:
        """Write them for some rows, `BLOCK` at most, and say how many rows these are. [1]"""
        some = len(rows)
        self.left[:some, :-2], self.left[:some, -1] = rows, (rows * rows).sum(axis=1)
        np.matmul(self.left, self.right, out=out)
        return some


def outside(hull: Hull, at: Array) -> Array:
    """Distance of each row from what was measured, 0 inside. [octave]"""
    return beyond(hull, at, separation(hull, at))


def jumps(steps: Steps, reach: float, at: Array) -> Array:
    """The table between its nodes, at the family of each row. [1]"""
    below, share = between(steps.nodes, at[:, 0])
    near = matern(distances(at[:, 1:], steps.families) / reach)
    weights = (
        steps.weights[below] * (1.0 - share)[:, None] + steps.weights[below + 1] * share[:, None]
    )
    found: Array = np.einsum("rf,rf->r", weights, near)
    return found


def asked(at: Array, waves: Array | None) -> Array:
    """Columns that `Branches` compare: coordinates, all their products, and waves. [octave]

    Args:
        at: Coordinates of rows. [octave]
        waves: `Form.waves` of the same rows; None where the form has none. [octave]
    """
    products = [
        sum(places[1:], places[0])[None]
        for many in range(2, at.shape[1] + 1)
        for places in combinations(at.T, many)
    ]
    columns = [at.T, *products] if waves is None else [at.T, *products, waves.T]
    return np.concatenate(columns).T


def branched(branches: Branches, columns: Array) -> Array:
    """Sum over trees of the value that each has for the answers of a row. [1]

    >>> one = Branches(np.array([[0, 1]]), np.array([[0.0, 0.0]]), np.array([[1.0, 2.0, 3.0, 4.0]]))
    >>> branched(one, np.array([[-1.0, 1.0], [1.0, -1.0]])).tolist()
    [2.0, 3.0]
    """
    trees, wide = branches.values.shape
    first = wide * np.arange(trees)[:, None]
    leaves, found = branches.values.ravel(), np.empty(len(columns))
    # A bound is halfway between sizes that differ by far more than what float32 tells apart.
    turned = np.ascontiguousarray(columns.T, np.float32)
    bounds = np.ascontiguousarray(branches.bounds.T, np.float32)[:, :, None]
    asks = np.ascontiguousarray(branches.columns.T)
    for start in range(0, len(columns), BLOCK):
        rows = slice(start, start + BLOCK)
        some = np.ascontiguousarray(turned[:, rows])
        places = np.zeros((trees, some.shape[1]), np.min_scalar_type(wide - 1))
        for column, bound in zip(asks, bounds, strict=True):
            places += places
            places += (some.take(column, axis=0) > bound).view(np.uint8)
        found[rows] = leaves.take(places + first).sum(axis=0)
    return found


def between(nodes: Array, at: Array) -> tuple[NDArray[np.intp], Array]:
    """Node below each value, the last but one at most, and the share of the way to the next."""
    below = np.clip(np.searchsorted(nodes, at, side="right") - 1, 0, len(nodes) - 2)
    way = (at - nodes[below]) / (nodes[below + 1] - nodes[below])
    return below, np.clip(way, 0.0, 1.0)


def distances(a: Array, b: Array) -> Array:
    """Euclidean distance of each row of a to each row of b."""
    squares = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1) - 2.0 * _product(a, b.T)
    apart: Array = np.sqrt(np.maximum(squares, 0.0))
    return apart


def _product(a: Array, b: Array) -> Array:
    """``a @ b`` of `BLOCK` rows at a time: of fewer they are rounded in other ways."""
    blocks = np.zeros((-(-len(a) // BLOCK), BLOCK, a.shape[1]))
    blocks.reshape(-1, a.shape[1])[: len(a)] = a
    found: Array = (blocks @ b).reshape(-1, b.shape[1])[: len(a)]
    return found


def matern(r: Array) -> Array:
    """Matérn 3/2 correlation at a distance of r lengths. [1]

    Source: Rasmussen and Williams 2006, Gaussian Processes for Machine Learning, eq. 4.17.

    >>> float(matern(np.array(0.0)))
    1.0
    """
    scaled = np.sqrt(3.0) * r
    correlation: Array = (1.0 + scaled) * np.exp(-scaled)
    return correlation


def _apart(at: Array, inside: Array) -> Array:
    """Distance of each row to what it was put to. [octave]"""
    apart = at - inside
    distance: Array = np.sqrt(np.einsum("rd,rd->r", apart, apart))
    return distance


def _beyond_radius(hull: Hull, nearest: Array) -> Array:
    """Distance beyond the radius around the nearest point. [octave]"""
    return np.maximum(nearest - hull.radius - TOUCHING, 0.0)


def separation(hull: Hull, at: Array) -> Array:
    """Distance of each row, put into the box, to each point of the hull. [octave]

    All tables of a hull have it in common: see `tabled`.
    """
    return distances(np.clip(at, hull.low, hull.high), hull.points)


def beyond(hull: Hull, at: Array, apart: Array) -> Array:
    """`outside` of rows whose `separation` is known. [octave]"""
    inside = np.clip(at, hull.low, hull.high)
    return _apart(at, inside) + _beyond_radius(hull, apart.min(axis=1))


def with_waves(apart: Array, waves: Array | None, points: Array | None) -> Array:
    """Distances of the surface: those in the coordinates, and in `Form.waves` of rows and points.

    Args:
        apart: `separation` of the rows. [octave]
        waves, points: One row each; None where the form has none. [octave]
    """
    if waves is None or points is None:
        return apart
    return np.hypot(apart, distances(waves, points))


def tabled(
    residual: Residual,
    hull: Hull,
    at: Array,
    apart: Array,
    far: Array,
    waves: Array | None = None,
) -> Array:
    """`value` of rows whose `with_waves` and `beyond` are known. [1]"""
    out: Array = matern(apart / residual.reach) @ residual.weights
    out += _jumping(residual, np.clip(at, hull.low, hull.high), waves)
    out *= np.exp(far / -FADE)
    return out
