"""Residual of a formula as a table over shapes: its hull, its surface, and how it fades beyond.

Coordinates are in octaves, one column per dimension; the first is the fast one, such as the tokens
of a linear layer, and the others tell families of shapes apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
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
FINEST: Final = 2.0**-11
"""Values of leaves are rounded to this, far below what a row scatters, which compresses. [1]"""
BLOCK: Final = 64
"""Rows whose distances to a few hundred points stay in a core's cache."""
ASKED: Final = 128
"""Rows whose answers to a few hundred questions do."""


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


class StepTable(NamedTuple):
    """Jumps along the fast coordinate, as tiles make them: a table of nodes × families."""

    nodes: Array
    """Values of the fast coordinate, increasing; linear in between. [octave]"""
    families: Array
    """Some of the measured families, one row each. [octave]"""
    weights: Array
    """Weights of a kernel around each family, one row per node. [1]"""


class DecisionTrees(NamedTuple):
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
    steps: StepTable | None = None
    """None where they did not help on families that were left out."""
    steps_reach: float = 3.0
    """Length of the kernel between families. [octave]"""
    waves: Array | None = None
    """`Form.waves` of each point of the hull, which are coordinates of the surface too. [octave]"""
    branches: DecisionTrees | None = None
    """Trees in place of steps, where they helped more."""


def value(residual: Residual, hull: Hull, at: Array, waves: Array | None = None) -> Array:
    """Logarithm of what the table multiplies a formula by. [1]

    Outside the hull it is the value at the nearest edge, faded by a factor of e each `FADE`.
    """
    inside = np.clip(at, hull.low, hull.high)
    out, nearest = _surfaces([residual], hull.points, inside, waves)
    return _whole(
        residual, out[0], inside, waves, _apart(at, inside) + _beyond_radius(hull, nearest)
    )


class _Places(dict[bytes, int]):
    """Numbers of keys, in the order in which they are first asked for."""

    def __missing__(self, key: bytes) -> int:
        self[key] = number = len(self)
        return number


@dataclass(slots=True, eq=False)
class _Rows:
    """Rows that tables of the same points were asked for, and what is known of each.

    Types of a cache, or devices, that were measured at the same shapes have their points in common:
    what takes longest, how far rows are from points, is computed for all of their tables at once.
    """

    tables: list[tuple[Residual | None, Hull]]
    """Held, so that no other gets its place in memory."""
    places: _Places = field(default_factory=_Places)
    known: Array = field(default_factory=lambda: np.empty((1, 0)))
    """Distance of each row `outside`, then the surface and the value in each table; nan where they
    are not known."""

    def fit(self) -> None:
        """Make room for all tables and rows."""
        old, wide, rows = self.known, 1 + 2 * len(self.tables), len(self.places)
        if wide > len(old) or rows > old.shape[1]:
            self.known = np.full((wide, max(2 * rows, old.shape[1])), np.nan)
            self.known[: len(old), : old.shape[1]] = old

    def fill(self, table: int, rows: NDArray[np.intp], at: Array, waves: Array | None) -> None:
        """Compute what is not known of rows of a table that differ."""
        (residual, hull), beyond = self.tables[table], self.known[0]
        surfaces, values = self.known[1::2], self.known[2::2]
        if residual is None:
            values[table, rows], beyond[rows] = 0.0, outside(hull, at)
            return
        inside = np.clip(at, hull.low, hull.high)
        new = np.isnan(surfaces[table, rows])
        if new.any():
            tables = [each for each, _ in self.tables if each is not None]
            some = None if waves is None else waves[new]
            surfaces[:, rows[new]], nearest = _surfaces(tables, hull.points, inside[new], some)
            beyond[rows[new]] = _apart(at[new], inside[new]) + _beyond_radius(hull, nearest)
        values[table, rows] = _whole(residual, surfaces[table, rows], inside, waves, beyond[rows])


_KNOWN: Final[dict[tuple[int, int], tuple[_Rows, int]]] = {}
"""Rows of a table and its number among those that have them in common, by its and its hull's id."""
_RECENT: Final[list[_Rows]] = []
_LOCK: Final = Lock()
"""Rows are served again in threads, which all remember in `_KNOWN`."""


def located(
    residual: Residual | None, hull: Hull, at: Array, waves: Array | None = None
) -> tuple[Array, Array]:
    """`value` of each row, 0 without a table, and how far it is `outside`.

    Steps, layouts and devices that have their kernels from one fit ask for the same rows again:
    those are remembered, one by one.
    """
    lines = np.ascontiguousarray(at if waves is None else np.hstack([at, waves]))
    keys: list[Any] = lines.view(np.dtype((np.void, lines.strides[0]))).ravel().tolist()
    with _LOCK:
        rows, table = _rows_of(residual, hull)
        place = np.array([*map(rows.places.__getitem__, keys)], np.intp)
        rows.fit()
        values = rows.known[2 * table + 2]
        missing = np.flatnonzero(np.isnan(values[place]))
        if len(missing):
            which, first = np.unique(place[missing], return_index=True)
            some = missing[first]
            rows.fill(table, which, at[some], None if waves is None else waves[some])
            _RECENT.remove(rows)
            _RECENT.append(rows)
            while sum(len(each.places) for each in _RECENT) > MOST_ROWS:
                for key in _RECENT.pop(0).tables:
                    del _KNOWN[id(key[0]), id(key[1])]
        return values[place], rows.known[0, place]


def _rows_of(residual: Residual | None, hull: Hull) -> tuple[_Rows, int]:
    """Rows of a table, which are those of others with the same points, and its number there."""
    key = id(residual), id(hull)
    if key not in _KNOWN:
        rows = next((each for each in _RECENT if _alike(each.tables[0], (residual, hull))), None)
        if rows is None:
            rows = _Rows([])
            _RECENT.append(rows)
        rows.tables.append((residual, hull))
        _KNOWN[key] = rows, len(rows.tables) - 1
    return _KNOWN[key]


def _alike(one: tuple[Residual | None, Hull], other: tuple[Residual | None, Hull]) -> bool:
    """True where two tables have surfaces around the same points, of the same width."""
    (residual, hull), (like, as_hull) = one, other
    pairs: list[tuple[Any, Any]] = [*zip(hull, as_hull, strict=True)]
    if residual is None or like is None:
        pairs.append((residual is None, like is None))
    else:
        pairs += [(residual.reach, like.reach), (residual.waves, like.waves)]
    return all(np.array_equal(*pair) for pair in pairs)


def _whole(
    residual: Residual, surface: Array, inside: Array, waves: Array | None, beyond: Array
) -> Array:
    """`value` of rows put into the box, whose surface and distance `outside` are known. [1]"""
    out = surface + _jumping(residual, inside, waves)
    out *= np.exp(beyond / -FADE)
    return out


def _jumping(residual: Residual, inside: Array, waves: Array | None) -> Array | float:
    """Jumps of rows in the box, which the smooth surface lacks. [1]"""
    if residual.branches is not None:
        return branched(residual.branches, asked(inside, waves))
    if residual.steps is not None:
        return jumps(residual.steps, residual.steps_reach, inside)
    return 0.0


def _surfaces(
    tables: Sequence[Residual], points: Array, at: Array, waves: Array | None
) -> tuple[Array, Array]:
    """Smooth parts of some tables around the same points, and how far the nearest point is.

    As `matern` and `distances` say. Rows are taken so many at a time that all stays in a core's
    cache.
    """
    out, nearest = np.empty((len(tables), len(at))), np.empty(len(at))
    scale, near = np.sqrt(3.0) / tables[0].reach, tables[0].waves
    squares = _Squares(points * scale)
    waved = None if near is None else _Squares(near * scale)
    whole, more, faded = np.empty((3, BLOCK, len(points)))
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
        for found, table in zip(out, tables, strict=True):
            found[rows] = (whole @ table.weights)[:some]
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


def jumps(steps: StepTable, reach: float, at: Array) -> Array:
    """The table between its nodes, at the family of each row. [1]"""
    below, share = between(steps.nodes, at[:, 0])
    near = matern(distances(at[:, 1:], steps.families) / reach)
    weights = (
        steps.weights[below] * (1.0 - share)[:, None] + steps.weights[below + 1] * share[:, None]
    )
    found: Array = np.einsum("rf,rf->r", weights, near)
    return found


def asked(at: Array, waves: Array | None) -> Array:
    """Columns that `DecisionTrees` compare: coordinates, all their products, and waves. [octave]

    Args:
        at: Coordinates of rows. [octave]
        waves: `Form.waves` of the same rows; None where the form has none. [octave]
    """
    each = np.ascontiguousarray(at.T)
    columns: dict[tuple[int, ...], Array] = {(n,): column for n, column in enumerate(each)}
    for many in range(2, len(each) + 1):
        for places in combinations(range(len(each)), many):
            columns[places] = columns[places[:-1]] + each[places[-1]]
    return np.stack([*columns.values(), *(() if waves is None else waves.T)]).T


def branched(branches: DecisionTrees, columns: Array) -> Array:
    """Sum over trees of the value that each has for the answers of a row. [1]

    >>> values = np.array([[1.0, 2.0, 3.0, 4.0]])
    >>> one = DecisionTrees(np.array([[0, 1]]), np.array([[0.0, 0.0]]), values)
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
    for start in range(0, len(columns), ASKED):
        rows = slice(start, start + ASKED)
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
    residual: Residual, hull: Hull, at: Array, apart: Array, far: Array, waves: Array | None = None
) -> Array:
    """`value` of rows whose `with_waves` and `beyond` are known. [1]"""
    out: Array = matern(apart / residual.reach) @ residual.weights
    out += _jumping(residual, np.clip(at, hull.low, hull.high), waves)
    out *= np.exp(far / -FADE)
    return out
