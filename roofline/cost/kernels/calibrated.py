"""A form with fitted constants, a residual table and an interval: what a calibration predicts.

    time = form(dims, machine, constants) × exp(residual(log2 dims))

The residual holds inside the calibrated hull; outside, the value at the nearest edge fades to none
and the interval widens.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from roofline.cost.kernels.form import Dims, Form, Machine, take
from roofline.cost.kernels.residual import TOUCHING, Hull, Residual, located, outside, value
from roofline.cost.work import Array, root_sum_square
from roofline.table import BASES

CHUNK: Final = 8192
"""Rows priced at once, so that their distances to the table's points stay in the cache."""
FEW: Final = 4096
"""Rows that are priced sooner than they are told apart."""
MIXER: Final = np.uint64(0x9E3779B97F4A7C15)
"""Odd number that mixes bits of others: 2**64 over the golden ratio."""
WIDEN: Final = 0.1
"""Log standard deviation that each octave outside the hull adds; assumed."""
INTERPOLATED: Final = BASES.index("interpolated")
EXTRAPOLATED: Final = BASES.index("extrapolated")
TRANSFERRED: Final = BASES.index("transferred")


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A form fitted to measurements."""

    form: Form
    """The equation."""
    constants: Mapping[str, float]
    """Its fitted values, by name."""
    residual: Residual | None
    """None where a table did not help on families of shapes that were left out."""
    spreads: Mapping[int, float]
    spread: float
    """Log standard deviation by regime, and of a regime that has none of its own. [1]"""
    hull: Hull
    """Region of the shapes that it was fitted to."""
    rows: int = 0
    """Measurements it was fitted to. [1]"""
    source: str = ""
    """Source of the measurements, in words."""
    scale: float = 1.0
    """Factor on the whole that a sample of another device asked for. [1]"""
    transferred: bool = False
    """True where the constants were fitted on another device."""

    @property
    def digest(self) -> str:
        """Short fingerprint of everything that decides a prediction."""
        import hashlib

        scalars: list[object] = [
            self.form.kind,
            sorted(self.constants.items()),
            sorted(self.spreads.items()),
        ]
        arrays: list[NDArray[Any]] = [self.hull.low, self.hull.high, self.hull.points]
        if self.residual is not None:
            scalars += [self.residual.reach, self.residual.steps_reach]
            arrays.append(self.residual.weights)
            if (steps := self.residual.steps) is not None:
                arrays += [steps.nodes, steps.families, steps.weights]
            if self.residual.waves is not None:
                arrays.append(self.residual.waves)
            if (branches := self.residual.branches) is not None:
                arrays += [branches.columns, branches.bounds, branches.values]
        found = hashlib.sha256(repr([*scalars, self.spread, self.hull.radius]).encode())
        for array in arrays:
            found.update(np.ascontiguousarray(array).tobytes())
        return found.hexdigest()[:12]


def octaves(form: Form, dims: Dims) -> Array:
    """Coordinates of each row. [octave]"""
    return np.log2(np.stack([dims[name] for name in form.coordinates], axis=-1))


def waves_of(form: Form, dims: Dims, machine: Machine) -> Array | None:
    """`Form.waves` of each row, None where the form has none. [octave]"""
    return None if form.waves is None else form.waves(dims, machine)


def seconds(model: Calibrated, dims: Dims, machine: Machine) -> Array:
    """Time of each row. [s]

    Args:
        model: Of the provider, kind, type and device.
        dims: Columns of equal length.
        machine: The device, at published rates.
    """
    out = np.empty(_length(dims))
    for rows in _chunks(len(out)):
        some = take(dims, rows)
        out[rows] = model.form.seconds(some, machine, model.constants) * model.scale
        if model.residual is not None:
            at, waves = octaves(model.form, some), waves_of(model.form, some, machine)
            out[rows] *= np.exp(value(model.residual, model.hull, at, waves))
    return out


def log_sd(model: Calibrated, dims: Dims, machine: Machine) -> Array:
    """Standard deviation of the logarithm of the time of each row. [1]"""
    out = np.empty(_length(dims))
    for rows in _chunks(len(out)):
        some = take(dims, rows)
        own = _by_regime(model, model.form.regime(some, machine, model.constants))
        out[rows] = root_sum_square(own, WIDEN * outside(model.hull, octaves(model.form, some)))
    return out


def predict(
    model: Calibrated, dims: Dims, machine: Machine
) -> tuple[Array, Array, NDArray[np.intp]]:
    """`seconds`, `log_sd` and `basis` of each row; each shape is looked up once."""
    if _length(dims) > FEW:
        first, place = distinct(dims)
        if len(first) <= len(place) / 2:
            found = predict(model, take(dims, first), machine)
            return found[0][place], found[1][place], found[2][place]
    time, spread = np.empty((2, _length(dims)))
    known = np.full(len(time), TRANSFERRED, dtype=np.intp)
    for rows in _chunks(len(time)):
        some = take(dims, rows)
        at, waves = octaves(model.form, some), waves_of(model.form, some, machine)
        table, beyond = located(model.residual, model.hull, at, waves)
        formula = model.form.seconds(some, machine, model.constants) * model.scale
        time[rows] = formula * np.exp(table)
        own = _by_regime(model, model.form.regime(some, machine, model.constants))
        spread[rows] = root_sum_square(own, WIDEN * beyond)
        if not model.transferred:
            known[rows] = np.where(beyond > TOUCHING, EXTRAPOLATED, INTERPOLATED)
    return time, spread, known


def distinct(dims: Dims) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows that differ from all others, and which of them each row is.

    Of a step of many batches and contexts most operators see the batch only.

    Examples:
        >>> first, place = distinct({"m": np.array([8.0, 4.0, 8.0]), "n": np.ones(3)})
        >>> first.tolist(), place.tolist()
        ([1, 0], [1, 0, 1])
    """
    columns = {id(column): column for column in dims.values()}.values()
    varying = [column for column in columns if (column != column[0]).any()]
    if len(varying) > 1:
        first, place = _first_of(_mixed(varying))
        if all((column == column[first][place]).all() for column in varying):
            # In the order of the numbers, which those that mix them have lost.
            order = np.lexsort([column[first] for column in reversed(varying)])
            rank = np.empty_like(order)
            rank[order] = np.arange(len(order))
            return first[order], rank[place]
    codes: NDArray[Any] = varying[0] if varying else np.zeros(_length(dims))
    for column in varying[1:]:
        _, codes = np.unique(codes, return_inverse=True)
        _, place = np.unique(column, return_inverse=True)
        codes = codes * (place.max() + 1) + place
    _, first, place = np.unique(codes, return_index=True, return_inverse=True)
    return first, place


def _mixed(columns: Sequence[Array]) -> NDArray[np.uint64]:
    """A number for each row that is the same for equal rows, and hardly ever for others."""
    found = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        bits = np.add(column, 0.0, dtype=np.float64).view(np.uint64)  # -0 is 0
        found = (found ^ bits) * MIXER
        found ^= found >> np.uint64(32)
    return found


def _first_of(codes: NDArray[np.uint64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """First row of each code, and which of them each row has; a sort of numbers is enough."""
    order = np.argsort(codes)
    ordered = codes[order]
    new = np.append(True, ordered[1:] != ordered[:-1])
    place = np.empty(len(codes), np.intp)
    place[order] = np.cumsum(new) - 1
    return np.minimum.reduceat(order, np.flatnonzero(new)), place


def _by_regime(model: Calibrated, regimes: NDArray[np.intp]) -> Array:
    each = [model.spreads.get(kind, model.spread) for kind in range(int(regimes.max()) + 1)]
    own: Array = np.array(each)[regimes]
    return own


def _length(dims: Dims) -> int:
    return len(next(iter(dims.values())))


def _chunks(rows: int) -> Iterator[slice]:
    return (slice(start, start + CHUNK) for start in range(0, rows, CHUNK))
