"""Calibrated forms: equations over dimensions, with bounded constants that have names.

A form is fitted once per provider, kind, type and device by `roofline.bench.fit`, and evaluated by
`roofline.cost.kernels.calibrated`.
"""

from collections.abc import Callable, Container, Mapping
from functools import reduce, wraps
from operator import add, is_
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.cost.work import Array
from roofline.hardware.machine import Gpu
from roofline.records import replace

Dims: TypeAlias = Mapping[str, Array]
"""Columns of equal length, float64, by the name of the dimension: ``m``, ``batch``."""
Values: TypeAlias = Mapping[str, float]
"""Constants of a form, by name."""
Regimes: TypeAlias = NDArray[np.intp]


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


class Constant(Struct, frozen=True):
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
    constants: tuple[Constant, ...]
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
    constants: tuple[Constant, ...],
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
    Constant("cache", 0.05, 1.0, 0.4, "1", "share of the last-level cache's rate"),
    Constant("memory", 0.05, 1.0, 0.8, "1", "share of the memory's rate"),
    Constant("held", 0.1, 1.5, 0.7, "1", "share of the cache that holds a working set"),
)
"""Constants of `through`."""


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


def through(
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
