"""Forms, which are equations over dimensions with bounded constants, and what is fitted to them.

A form is fitted once per provider, kind, type and device by `roofline.bench.fit`: to constants, a
residual table and an interval.

    time = form(dims, machine, constants) × exp(residual(log2 dims))

The residual holds inside the calibrated hull; outside, the value at the nearest edge fades to none
and the interval widens.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce, wraps
from operator import add, is_
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.cost.kernels.residual import TOUCHING, Hull, Residual, located, outside, value
from roofline.cost.work import Array, root_sum_square
from roofline.hardware.machine import Gpu
from roofline.records import replace
from roofline.table import BASES

Dims: TypeAlias = Mapping[str, Array]
"""Columns of equal length, float64, by the name of the dimension: ``m``, ``batch``."""
Values: TypeAlias = Mapping[str, float]
"""Constants of a form, by name."""
Regimes: TypeAlias = NDArray[np.intp]
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


class Machine(Struct, frozen=True):
    """Published rates and sizes of a device that forms use."""

    flops_per_s: float
    """Dense rate of the arithmetic that the form is fitted for. [FLOP/s]"""
    hbm_bytes_per_s: float
    """Device memory. [B/s]"""
    l2_bytes: float
    l2_bytes_per_s: float
    """Last-level cache: capacity [B] and rate [B/s]; 0 if unknown."""
    multiprocessors: float
    """SMs or CUs. [1]"""


def machine(gpu: Gpu, arithmetic: str) -> Machine:
    """Published rates of a device for one type of arithmetic.

    Raises:
        MissingRateError: The device has no such arithmetic.
    """
    return Machine(
        gpu.rate(arithmetic),
        gpu.hbm_bytes_per_s,
        gpu.l2_bytes,
        gpu.l2_bytes_per_s,
        gpu.multiprocessors,
    )


class FormConstant(Struct, frozen=True):
    """Constant of a form, within physical bounds."""

    name: str
    """Identifier in the equation."""
    low: float
    high: float
    """Bounds, above zero; the search is in logarithms."""
    prior: float
    """Value without data, inside the bounds."""
    unit: str
    """``"s"``, ``"1"``, ``"B"``."""
    meaning: str
    """One sentence about it."""

    def __post_init__(self) -> None:
        """Hold the order of the bounds."""
        assert 0 < self.low <= self.prior <= self.high, self.name


class Trees(NamedTuple):
    """Size of the decision trees of a residual, whose kernels a library chooses by sizes."""

    number: int
    levels: int
    """Trees, and questions of each. [1]"""
    paired: bool = False
    """True where as many again are made of what a smooth surface leaves, and the mean of both is
    taken: what each of the two gets wrong of a family left out is not the same."""


SMALL: Final = Trees(number=200, levels=6)
"""Trees of kernels of which a few thousand shapes are measured."""


class Form(Struct, frozen=True):
    """Published formula of a kind of operator."""

    kind: str
    """``"gemm"``, ``"decode-attention"``, ``"quantize"``."""
    constants: tuple[FormConstant, ...]
    """Fitted constants."""
    seconds: Callable[[Dims, Machine, Values], Array]
    """The equation: dimensions, machine, values of the constants → times. [s]"""
    coordinates: tuple[str, ...]
    """Dimensions in whose logarithms the residual table lives, all above zero; the first varies
    within a family of shapes."""
    regime: Callable[[Dims, Machine, Values], Regimes]
    """Part of the equation that bounds a row, a small integer: rows of a regime share a spread."""
    equation: str = ""
    """The same in symbols, as derivations print it."""
    waves: Callable[[Dims, Machine], Array] | None = None
    """Further columns in which the residual table lives: how much of a device a product leaves
    idle in its last wave of tiles and in the last of its tiles, one column for each tile; None
    where nothing is tiled. [octave]"""
    trees: Trees | None = None
    """Size of the trees that its residual may have; None where it has none."""
    lines: bool = False
    """Whether the time between two measured values of the first coordinate is taken as a straight
    line: a start, and a rate."""
    in_steps: "Form | None" = None
    """The same kernel in a step, with the same constants, where what was measured found in the
    last-level cache what a step brings from memory; None where a step is as measured."""


Terms = TypeVar("Terms")


def computed_once(
    terms: Callable[[Dims, Machine, Values], Terms],
) -> Callable[[Dims, Machine, Values], Terms]:
    """Terms that are not computed again for the same objects: a time takes them, and a regime."""
    last: list[tuple[Dims, Machine, Values, Terms]] = []

    @wraps(terms)
    def known(dims: Dims, machine: Machine, constants: Values) -> Terms:
        for *asked, found in last[:1]:
            if all(map(is_, asked, (dims, machine, constants))):
                return found
        found = terms(dims, machine, constants)
        last[:] = [(dims, machine, constants, found)]
        return found

    return known


Term: TypeAlias = Callable[[Dims, Machine, Values], Array]


def of_constants(*names: str) -> Callable[[Term], Term]:
    """A term of some constants alone, computed once for all that agree in them.

    A search takes differences of many constants at once, each in a row of its own, and most of
    these rows leave a term as it is.

    Args:
        names: All constants that the term takes; it sees no other.
    """

    def once(term: Term) -> Term:
        @wraps(term)
        def known(dims: Dims, machine: Machine, constants: Values) -> Array:
            own: dict[str, Any] = {name: constants[name] for name in names}
            moved = {name: values for name, values in own.items() if np.ndim(values)}
            if not moved:
                return term(dims, machine, own)
            values, place = np.unique(np.hstack([*moved.values()]), axis=0, return_inverse=True)
            own |= zip(moved, values.T[:, :, None], strict=True)
            found = term(dims, machine, own)
            return found[place.ravel()] if found.ndim > 1 else found

        return known

    return once


def summed(
    kind: str,
    constants: tuple[FormConstant, ...],
    terms: Callable[[Dims, Machine, Values], tuple[Array, ...]],
    coordinates: tuple[str, ...],
    equation: str = "",
    knee: str = "",
    waves: Callable[[Dims, Machine], Array] | None = None,
    trees: Trees | None = None,
) -> Form:
    """Form whose time is a sum of terms and whose regime is the longest of them.

    With the name of a constant as ``knee``, all terms but the first overlap: their soft maximum
    with that exponent is added to the first.
    """
    terms = computed_once(terms)

    def seconds(dims: Dims, machine: Machine, constants: Values) -> Array:
        each = terms(dims, machine, constants)
        if knee:
            each = each[0], soft_maximum(constants[knee], *each[1:])
        return reduce(add, each)

    def regime(dims: Dims, machine: Machine, constants: Values) -> Regimes:
        return longest(*terms(dims, machine, constants))

    return Form(kind, constants, seconds, coordinates, regime, equation, waves, trees)


def soft_maximum(q: float, *times: Array | float) -> Array:
    """Soft maximum of times, (Σ tᵢ^q)^(1/q): the larger q, the sharper. [s]"""
    joined: Array = reduce(add, (time**q for time in times)) ** (1.0 / q)
    return joined


def longest(*times: Array | float) -> Regimes:
    """Index of the longest of some times in each row, the first of equals.

    One after the other: `numpy.argmax` over so few takes fifty times as long.

    >>> longest(np.array([1.0, 3.0]), np.array([2.0, 3.0]), 0.5).tolist()
    [1, 0]
    """
    shape = np.broadcast_shapes(*map(np.shape, times))
    most, found = np.empty(shape), np.zeros(shape, np.intp)
    most[...] = times[0]
    for place, time in enumerate(times[1:], 1):
        np.copyto(found, place, where=time > most)
        np.maximum(most, time, out=most)
    return found


def pinned(form: Form, names: Container[str]) -> Form:
    """The form with some constants at their priors: those that no row of a kernel can tell."""
    constants = (
        replace(c, low=c.prior, high=c.prior) if c.name in names else c for c in form.constants
    )
    return replace(form, constants=tuple(constants))


def known(form: Form, values: Values) -> Form:
    """Form some of whose constants are known, and not fitted."""

    def seconds(dims: Dims, machine: Machine, constants: Values) -> Array:
        return form.seconds(dims, machine, {**values, **constants})

    def regime(dims: Dims, machine: Machine, constants: Values) -> Regimes:
        return form.regime(dims, machine, {**values, **constants})

    fitted = tuple(each for each in form.constants if each.name not in values)
    return replace(form, constants=fitted, seconds=seconds, regime=regime)


def free(form: Form) -> int:
    """Number of constants that a fit looks for. [1]"""
    return sum(constant.low < constant.high for constant in form.constants)


def take(dims: Dims, which: NDArray[np.bool_] | NDArray[np.intp] | slice) -> dict[str, Array]:
    """Some of the rows."""
    return {name: column[which] for name, column in dims.items()}


OVERLAP: Final = 8.0
"""Exponent that joins host and device, of which one waits for the other."""
L2_BYTES_PER_S: Final = 7e10
"""Cache rate of one multiprocessor where a device's published rate is unknown; assumed, after 67e9
on an A100 and 77e9 on an H100 (5120 B per clock over 108 and 132 of them). [B/s]"""
STEEP: Final = 4.0
"""Exponent with which the last-level cache stops holding a working set that outgrows it. [1]"""
RATES: Final = (
    FormConstant("cache", 0.05, 1.0, 0.4, "1", "share of the last-level cache's rate"),
    FormConstant("memory", 0.05, 1.0, 0.8, "1", "share of the memory's rate"),
    FormConstant("held", 0.1, 1.5, 0.7, "1", "share of the cache that holds a working set"),
)
"""Constants of `cached_traffic_time`."""


def cache_bytes_per_s(machine: Machine) -> float:
    """Rate of the last-level cache, as published or else assumed. [B/s]"""
    return machine.l2_bytes_per_s or L2_BYTES_PER_S * machine.multiprocessors


def warm_seconds(traffic: Array, machine: Machine, cache: float, memory: float) -> Array:
    """Time of activations that are read and written soon after one another. [s]

    What exceeds the cache's capacity goes through device memory. Source: roofline per level of
    the memory, Ilic, Pratas and Sousa 2014, Cache-aware Roofline.

    Args:
        traffic: Read and written. [B]
        machine: The device, at published rates.
        cache, memory: Shares of the rates of cache and device memory that are reached. [1]

    Examples:
        Half of 100 MB fits in a cache of 50 MB and 10 TB/s; the rest takes 2 TB/s:

        >>> gpu = Machine(1e15, 2e12, 5e7, 1e13, 132)
        >>> float(warm_seconds(np.array(1e8), gpu, 1.0, 1.0)) == 5e-6 + 25e-6
        True
    """
    kept = np.minimum(traffic, machine.l2_bytes)
    found: Array = kept / (cache * cache_bytes_per_s(machine))
    return found + (traffic - kept) / (memory * machine.hbm_bytes_per_s)


def cached_traffic_time(
    traffic: Array, footprint: Array, machine: Machine, constants: Values, sharp: float = STEEP
) -> Array:
    """Time of traffic over a working set, from the last-level cache as far as it holds the set. [s]

    Source: roofline per level of the memory, Ilic, Pratas and Sousa 2014, Cache-aware Roofline; a
    set that is used in a cycle is evicted as a whole, Belady 1966.

    Args:
        traffic: Read and written. [B]
        footprint: Different bytes that are touched: more than the cache holds are evicted before
            they are used again. [B]
        machine: The device.
        constants: Those of `RATES`.
        sharp: Exponent with which the cache stops holding a set that outgrows it. [1]
    """
    kept: Array | float = 0.0
    if machine.l2_bytes:
        kept = 1.0 / (1.0 + (footprint / (constants["held"] * machine.l2_bytes)) ** sharp)
    cached = traffic * kept / (constants["cache"] * cache_bytes_per_s(machine))
    return cached + traffic * (1.0 - kept) / (constants["memory"] * machine.hbm_bytes_per_s)


@dataclass(frozen=True, slots=True)
class FittedForm:
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


def seconds(model: FittedForm, dims: Dims, machine: Machine) -> Array:
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


def log_sd(model: FittedForm, dims: Dims, machine: Machine) -> Array:
    """Standard deviation of the logarithm of the time of each row. [1]"""
    out = np.empty(_length(dims))
    for rows in _chunks(len(out)):
        some = take(dims, rows)
        own = _by_regime(model, model.form.regime(some, machine, model.constants))
        out[rows] = root_sum_square(own, WIDEN * outside(model.hull, octaves(model.form, some)))
    return out


def predict(
    model: FittedForm, dims: Dims, machine: Machine
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


def _by_regime(model: FittedForm, regimes: NDArray[np.intp]) -> Array:
    each = [model.spreads.get(kind, model.spread) for kind in range(int(regimes.max()) + 1)]
    own: Array = np.array(each)[regimes]
    return own


def _length(dims: Dims) -> int:
    return len(next(iter(dims.values())))


def _chunks(rows: int) -> Iterator[slice]:
    return (slice(start, start + CHUNK) for start in range(0, rows, CHUNK))
