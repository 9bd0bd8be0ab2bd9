"""Measurements of one form on one device, and the search for its constants."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.bench.held_out import Labels
from roofline.cost.kernels.form import Dims, Form, Machine, free, take
from roofline.cost.work import Array
from roofline.errors import InputError
from roofline.records import replace

ERROR_SCALE: Final = 0.1
"""Relative errors beyond this count linearly, not squared."""
WEIGHT: Final = 0.05
"""A constant a factor of e from its prior weighs as much as a row that is 5 % off."""
SPREAD: Final = 0.7
"""Standard deviation of random beginnings around the priors, in natural logarithms."""
TOLERANCE: Final = 2e-6
"""Relative, of constants and cost; also how far from its bounds a search begins."""
STEP: Final = 2.0**-26
"""Relative step of differences: half the digits of float64."""
AT_ONCE: Final = 4096
"""Rows whose differences are taken in one evaluation of the form."""
SEED: Final = 0
FEW: Final = 4
"""Families in a fold that are too few to be shuffled."""
LEAST: Final = 4
"""Families that a fit needs."""


class FormRows(Struct, frozen=True):
    """Measurements of one form on one machine."""

    form: Form
    machine: Machine
    dims: Dims
    measured: Array
    families: Labels

    def __getitem__(self, which: NDArray[np.bool_] | NDArray[np.intp]) -> "FormRows":
        return replace(
            self,
            dims=take(self.dims, which),
            measured=self.measured[which],
            families=self.families[which],
        )

    def off(self, constants: Mapping[str, float]) -> Array:
        """Logarithm of measured over what the equation says. [1]"""
        found: Array = np.log(self.measured / self.form.seconds(self.dims, self.machine, constants))
        return found


def search(
    rows: FormRows, starts: int, begin: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Best of some searches, in the logarithms of the constants."""
    every = rows.form.constants
    low, high, prior = np.log([(c.low, c.high, c.prior) for c in every]).T
    free = high > low

    def values(x: Array) -> dict[str, float]:
        full = prior.copy()
        full[free] = x
        clipped = np.clip(np.exp(full), np.exp(low), np.exp(high))
        return dict(zip((c.name for c in every), clipped.tolist(), strict=True))

    def residuals(x: Array) -> Array:
        return np.concatenate([rows.off(values(x)), WEIGHT * (x - prior[free])])

    def jacobian(x: Array) -> Array:
        """Forward differences; backward at an upper bound."""
        step = STEP * np.maximum(np.abs(x), 1.0)
        step = np.where(x + step > high[free], -step, step)
        full = np.tile(prior, (len(x) + 1, 1))
        full[:, free] = x
        full[np.arange(len(x)), np.flatnonzero(free)] += step
        clipped = np.clip(np.exp(full), np.exp(low), np.exp(high))
        times = _each(rows, [c.name for c in every], clipped)
        moved = np.log(times[-1] / times[:-1]) / step[:, None]
        return np.concatenate([moved.T, WEIGHT * np.eye(len(x))])

    first = prior if begin is None else np.log([begin[c.name] for c in every])
    if not free.any():
        return values(first[free])
    begins = beginnings(first, low, high, starts, TOLERANCE)[:, free]
    return values(least(residuals, jacobian, begins, (low[free], high[free]), TOLERANCE))


def beginnings(first: Array, low: Array, high: Array, starts: int, tolerance: float) -> Array:
    """Beginnings of searches, one row each: the first values, then random ones around them.

    Args:
        first, low, high: Logarithms of the constants and of their bounds. [1]
        starts: Rows. [1]
        tolerance: How far from its bounds a search begins. [1]
    """
    random = np.random.default_rng(SEED)
    begins = [first, *(first + random.normal(0.0, SPREAD, first.shape) for _ in range(1, starts))]
    return np.clip(np.array(begins), low + tolerance, high - tolerance)


def least(
    residuals: Callable[[Array], Array],
    jacobian: Callable[[Array], Array],
    begins: Array,
    bounds: tuple[Array, Array],
    tolerance: float,
) -> Array:
    """Constants with the least residuals, robustly, of searches from several beginnings.

    Args:
        residuals, jacobian: Of the logarithms of the constants. [1]
        begins: One row for each search. [1]
        bounds: The least and the largest values. [1]
        tolerance: Relative, of constants and cost. [1]
    """
    from scipy.optimize import least_squares

    searches = [
        least_squares(
            residuals,
            begin,
            jacobian,
            bounds=bounds,
            loss="soft_l1",
            f_scale=ERROR_SCALE,
            ftol=tolerance,
            xtol=tolerance,
            gtol=tolerance,
        )
        for begin in begins
    ]
    return np.asarray(min(searches, key=lambda found: float(found.cost)).x)


def _each(rows: FormRows, names: list[str], values: Array) -> Array:
    """Times of the rows by each row of values: at once where arithmetic is not what takes time."""
    form, dims, machine = rows.form, rows.dims, rows.machine
    if len(rows.measured) <= AT_ONCE:
        columns: Any = dict(zip(names, values.T[:, :, None], strict=True))
        return form.seconds(dims, machine, columns)
    return np.stack(
        [form.seconds(dims, machine, dict(zip(names, v.tolist(), strict=True))) for v in values]
    )


def checked(
    form: Form,
    machine: Machine,
    dims: Dims,
    measured: Array,
    families: Labels,
    *,
    constants: int | None = None,
) -> FormRows:
    """The rows, unless they cannot fit that many constants: those of the form, if not stated."""
    if len({len(families), len(measured), *(len(column) for column in dims.values())}) > 1:
        raise InputError(
            f"{form.kind} has columns of different length",
            hint="give each row all its dimensions, a time and a family",
        )
    wanted = free(form) if constants is None else constants
    least = 2 * wanted + LEAST
    if len(measured) < least:
        raise InputError(
            f"{len(measured)} rows cannot fit {wanted} constants of {form.kind}",
            hint=f"measure at least {least} shapes",
        )
    if len(np.unique(families)) < LEAST:
        raise InputError(
            f"{len(np.unique(families))} families of shapes cannot be left out in {LEAST} groups",
            hint=f"measure {form.kind} for at least {LEAST} of them",
        )
    columns = [*((name, dims[name]) for name in dims), ("measured", measured)]
    for name, column in columns:
        positive = name in form.coordinates or name == "measured"
        wrong = ~(np.isfinite(column) & ((column > 0.0) | (not positive)))
        if wrong.any():
            raise InputError(
                f"row {int(wrong.argmax())} has {name} = {column[wrong][0]:g}",
                hint=f"leave out rows whose {name} is not a number{' above 0' * positive}",
            )
    return FormRows(form, machine, dims, measured, families)


def families_of(dims: Dims, names: tuple[str, ...]) -> Labels:
    """Label of each row: rows that agree in all of these columns are a family.

    >>> families_of({"m": np.array([1.0, 2, 1]), "n": np.array([8.0, 8, 4])}, ("n",)).tolist()
    [1, 1, 0]
    """
    columns = np.stack([dims[name] for name in names], axis=-1)
    _, label = np.unique(columns, axis=0, return_inverse=True)
    return label.reshape(-1).astype(np.int64)


def grouped(families: Labels, folds: int) -> Labels:
    """Fold of each row: whole families, shuffled, in groups of nearly equal number.

    Few families are dealt out in the order of their labels: neighbours along a size, such as
    octaves, are not left out together.

    >>> grouped(np.array([30, 10, 20, 40]), 3).tolist()
    [2, 0, 1, 0]
    """
    kinds, place = np.unique(families, return_inverse=True)
    order = np.arange(len(kinds))
    if len(kinds) > FEW * folds:
        order = np.random.default_rng(SEED).permutation(len(kinds))
    return (order % folds)[place].astype(np.int64)
