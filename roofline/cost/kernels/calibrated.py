"""A form with fitted constants, a residual table and an interval: what a calibration predicts.

    time = form(dims, machine, constants) × exp(residual(log2 dims))

The residual is a smooth surface through a few hundred points, in octaves of the form's
coordinates. It holds inside the calibrated hull; outside, the value at the nearest edge fades to
none and the interval widens.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofline.cost.kernels.form import Dims, Form, Machine, take
from roofline.cost.work import Array
from roofline.table import BASES

CHUNK: Final = 8192
"""Rows priced at once, so that their distances to the table's points stay in the cache."""
FADE: Final = 1.0
"""Octaves outside the hull over which a residual falls by a factor of e; assumed."""
WIDEN: Final = 0.1
"""Log standard deviation that each octave outside the hull adds; assumed."""
TOUCHING: Final = 2e-9
"""Octaves: a row this close to the hull is in it."""
INTERPOLATED: Final = BASES.index("interpolated")
EXTRAPOLATED: Final = BASES.index("extrapolated")


@dataclass(frozen=True, slots=True)
class Hull:
    """Where measurements are: a box, and points that cover what is measured in it.

    Attributes
    ----------
    low, high
        Of the box, one per coordinate. [octave]
    points
        Some of the measured shapes, one row each. [octave]
    radius
        No measured shape is farther than this from its nearest point. [octave]
    """

    low: Array
    high: Array
    points: Array
    radius: float


@dataclass(frozen=True, slots=True)
class Residual:
    """Smooth surface in the logarithm of the time: one weight per point of the hull.

    Attributes
    ----------
    weights
        Of a Matérn 3/2 kernel around each point. [1]
    reach
        Its length. [octave]
    """

    weights: Array
    reach: float


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A form fitted to measurements.

    Attributes
    ----------
    form
        The equation.
    constants
        Its fitted values, by name.
    residual
        None where a table did not help on families of shapes that were left out.
    spreads, spread
        Log standard deviation by regime, and of a regime that has none of its own. [1]
    hull
        Where it was fitted.
    rows
        Measurements it was fitted to. [1]
    source
        Which ones, in words.
    scale
        Factor on the whole, where the fit comes from another device; else 1. [1]
    """

    form: Form
    constants: Mapping[str, float]
    residual: Residual | None
    spreads: Mapping[int, float]
    spread: float
    hull: Hull
    rows: int = 0
    source: str = ""
    scale: float = field(default=1.0)

    @property
    def digest(self) -> str:
        """Short fingerprint of everything that decides a prediction."""
        parts = [self.form.kind, sorted(self.constants.items()), self.scale]
        parts += [sorted(self.spreads.items()), self.spread, self.hull.radius]
        found = hashlib.sha256(repr(parts).encode())
        for array in (self.hull.low, self.hull.high, self.hull.points):
            found.update(np.ascontiguousarray(array).tobytes())
        if self.residual is not None:
            found.update(repr(self.residual.reach).encode())
            found.update(np.ascontiguousarray(self.residual.weights).tobytes())
        return found.hexdigest()[:12]


def octaves(form: Form, dims: Dims) -> Array:
    """Coordinates of each row. [octave]"""
    return np.log2(np.stack([dims[name] for name in form.coordinates], axis=-1))


def seconds(model: Calibrated, dims: Dims, machine: Machine) -> Array:
    """Time of each row. [s]

    Parameters
    ----------
    model
        Of the provider, kind, type and device.
    dims
        Columns of equal length.
    machine
        The device, at published rates.
    """
    out = np.empty(_length(dims))
    for rows in _chunks(len(out)):
        some = take(dims, rows)
        out[rows] = model.form.seconds(some, machine, model.constants)
        out[rows] *= model.scale * np.exp(residual(model, octaves(model.form, some)))
    return out


def log_sd(model: Calibrated, dims: Dims, machine: Machine) -> Array:
    """Standard deviation of the logarithm of the time of each row. [1]"""
    out = np.empty(_length(dims))
    for rows in _chunks(len(out)):
        some = take(dims, rows)
        regimes = model.form.regime(some, machine, model.constants)
        own = _by_regime(model, regimes)
        out[rows] = np.hypot(own, WIDEN * outside(model.hull, octaves(model.form, some)))
    return out


def basis(model: Calibrated, dims: Dims) -> NDArray[np.intp]:
    """Index into `roofline.table.BASES` of how each row is known."""
    out = np.empty(_length(dims), dtype=np.intp)
    for rows in _chunks(len(out)):
        beyond = outside(model.hull, octaves(model.form, take(dims, rows)))
        out[rows] = np.where(beyond > TOUCHING, EXTRAPOLATED, INTERPOLATED)
    return out


def residual(model: Calibrated, at: Array) -> Array:
    """Logarithm of what the table multiplies the form by. [1]"""
    if model.residual is None:
        return np.zeros(len(at))
    hull = model.hull
    inside = np.clip(at, hull.low, hull.high)
    apart = distances(inside, hull.points)
    beyond = _box_distance(hull, at) + _gap(hull, apart)
    surface = matern(apart / model.residual.reach) @ model.residual.weights
    faded: Array = surface * np.exp(-beyond / FADE)
    return faded


def outside(hull: Hull, at: Array) -> Array:
    """How far each row is from what was measured, 0 inside. [octave]"""
    inside = np.clip(at, hull.low, hull.high)
    return _box_distance(hull, at) + _gap(hull, distances(inside, hull.points))


def distances(a: Array, b: Array) -> Array:
    """Euclidean distance of each row of a to each row of b."""
    squares = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1) - 2.0 * (a @ b.T)
    apart: Array = np.sqrt(np.maximum(squares, 0.0))
    return apart


def matern(r: Array) -> Array:
    """Matérn 3/2 correlation at a distance of r lengths. [1]

    Source: Rasmussen and Williams 2006, Gaussian Processes for Machine Learning, eq. 4.17.

    >>> float(matern(np.array(0.0)))
    1.0
    """
    scaled = np.sqrt(3.0) * r
    correlation: Array = (1.0 + scaled) * np.exp(-scaled)
    return correlation


def _box_distance(hull: Hull, at: Array) -> Array:
    distance: Array = np.linalg.norm(at - np.clip(at, hull.low, hull.high), axis=1)
    return distance


def _gap(hull: Hull, apart: Array) -> Array:
    """Beyond the radius around the nearest point. [octave]"""
    gap: Array = np.maximum(apart.min(axis=1) - hull.radius - TOUCHING, 0.0)
    return gap


def _by_regime(model: Calibrated, regimes: NDArray[np.intp]) -> Array:
    kinds, place = np.unique(regimes, return_inverse=True)
    each = np.array([model.spreads.get(int(kind), model.spread) for kind in kinds])
    own: Array = each[place]
    return own


def _length(dims: Dims) -> int:
    return len(next(iter(dims.values())))


def _chunks(rows: int) -> Iterator[slice]:
    return (slice(start, start + CHUNK) for start in range(0, rows, CHUNK))
