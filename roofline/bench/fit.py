"""Fit a form to measurements, and say how it does on families of shapes it did not see.

A family is what is held out together: of a linear layer, all token counts of one weight matrix.
Errors are of the logarithm, with a robust loss; constants keep to their bounds; seeds are fixed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofline.bench.held_out import ENOUGH, Labels, spreads
from roofline.bench.surface import cover, surface
from roofline.cost.kernels.calibrated import Calibrated, Residual, octaves
from roofline.cost.kernels.calibrated import log_sd as spread_of
from roofline.cost.kernels.calibrated import seconds as time_of
from roofline.cost.kernels.form import Dims, Form, Machine, take
from roofline.cost.work import Array
from roofline.errors import InputError

POINTS: Final = 224
"""Of a residual table."""
REACHES: Final = (1.5, 3.0, 6.0)
"""Lengths of a residual surface that are tried on families left out. [octave]"""
GAIN: Final = 0.98
"""A residual table must take the typical error left out below this share of that without it."""
INNER: Final = 4
"""Folds of families inside a fit, which give the interval and the reach."""
OUTER: Final = 8
"""Folds of families that a validation scores."""
INNER_ROWS: Final = 6000
"""Rows that an inner fit sees at most: it decides a spread and a reach, not a constant."""
ERROR_SCALE: Final = 0.1
"""Relative errors beyond this count linearly, not squared."""
WEIGHT: Final = 0.05
"""A constant a factor of e from its prior weighs as much as a row that is 5 % off."""
SPREAD: Final = 0.7
"""Of random beginnings around the priors, in natural logarithms."""
TOLERANCE: Final = 2e-6
"""Relative, of constants and cost; also how far from its bounds a search begins."""
SEED: Final = 0


@dataclass(frozen=True, slots=True)
class _Rows:
    """Measurements of one form on one machine."""

    form: Form
    machine: Machine
    dims: Dims
    measured: Array
    families: Labels

    def __getitem__(self, which: NDArray[np.bool_] | NDArray[np.intp]) -> "_Rows":
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


def fit(
    form: Form,
    dims: Dims,
    machine: Machine,
    measured: Array,
    *,
    families: Labels,
    residual: bool = True,
    starts: int = 2,
    source: str = "",
) -> Calibrated:
    """Constants, residual table and spreads that make the logarithms of the times agree best.

    Parameters
    ----------
    form
        The equation.
    dims, measured
        Columns of equal length, and the time of each row. [s]
    machine
        The device they were measured on, at published rates.
    families
        Label of each row; rows of a family are left out together.
    residual
        Whether a table may be used; it is where it helps on families left out.
    starts
        Beginnings of the search: the priors, then random ones. [1]
    source
        Which measurements, in words.

    Raises
    ------
    InputError
        Too few rows or families, or a dimension or time that has no meaning.

    Notes
    -----
    Spreads are of residuals of families that the inner fit did not see.
    """
    rows = _checked(form, machine, dims, measured, families)
    constants = _constants(rows, starts)
    reaches = REACHES if residual else ()
    reach, missed, regimes = _left_out(rows, constants, reaches)
    kinds = [int(kind) for kind in np.unique(regimes) if (regimes == kind).sum() >= ENOUGH]
    every = float(spreads(missed, regimes, np.array([-1]))[0])
    own = spreads(missed, regimes, np.array(kinds, dtype=np.intp))
    at = octaves(form, rows.dims)
    hull = cover(at, POINTS)
    table = (
        None if reach is None else Residual(surface(at, rows.off(constants), hull, reach), reach)
    )
    return Calibrated(
        form,
        constants,
        table,
        dict(zip(kinds, own.tolist(), strict=True)),
        every,
        hull,
        len(rows.measured),
        source,
    )


def cross_validate(
    form: Form,
    dims: Dims,
    machine: Machine,
    measured: Array,
    *,
    families: Labels,
    folds: int = OUTER,
    residual: bool = True,
    starts: int = 1,
) -> tuple[Array, Array]:
    """Prediction [s] and log spread [1] of each row, by a fit that saw nothing of its fold.

    Parameters
    ----------
    form, dims, machine, measured, families, residual, starts
        As in `fit`.
    folds
        Groups of families. [1]

    Notes
    -----
    The nesting: `fit` takes its spreads from inner folds of the rows it is given, and it is given
    no row of the fold that is scored. So that fold makes neither constants, table nor interval.
    """
    rows = _checked(form, machine, dims, measured, families)
    label = grouped(families, folds)
    predicted, spread = np.full((2, len(measured)), np.nan)
    for fold in range(folds):
        held = label == fold
        rest = rows[~held]
        model = fit(
            form,
            rest.dims,
            machine,
            rest.measured,
            families=rest.families,
            residual=residual,
            starts=starts,
        )
        scored = take(dims, held)
        predicted[held] = time_of(model, scored, machine)
        spread[held] = spread_of(model, scored, machine)
    return predicted, spread


def families_of(dims: Dims, names: tuple[str, ...]) -> Labels:
    """Label of each row: rows that agree in all of these columns are a family.

    >>> families_of({"m": np.array([1.0, 2, 1]), "n": np.array([8.0, 8, 4])}, ("n",)).tolist()
    [1, 1, 0]
    """
    columns = np.stack([dims[name] for name in names], axis=-1)
    _, label = np.unique(columns, axis=0, return_inverse=True)
    return label.reshape(-1).astype(np.int64)


def grouped(families: Labels, folds: int) -> Labels:
    """Fold of each row: whole families, shuffled, in groups of nearly equal number."""
    kinds, place = np.unique(families, return_inverse=True)
    order = np.random.default_rng(SEED).permutation(len(kinds))
    return (order % folds)[place].astype(np.int64)


def _constants(
    rows: _Rows, starts: int, begin: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Best of some searches, in the logarithms of the constants."""
    from scipy.optimize import least_squares

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

    first = prior if begin is None else np.log([begin[c.name] for c in every])
    if not free.any():
        return values(first[free])
    random = np.random.default_rng(SEED)
    best = None
    for start in range(starts):
        at = first + (random.normal(0.0, SPREAD, prior.shape) if start else 0.0)
        found = least_squares(
            residuals,
            np.clip(at, low + TOLERANCE, high - TOLERANCE)[free],
            bounds=(low[free], high[free]),
            loss="soft_l1",
            f_scale=ERROR_SCALE,
            ftol=TOLERANCE,
            xtol=TOLERANCE,
            gtol=TOLERANCE,
        )
        if best is None or found.cost < best.cost:
            best = found
    assert best is not None, "no start"
    return values(best.x)


def _left_out(
    rows: _Rows, begin: Mapping[str, float], reaches: tuple[float, ...]
) -> tuple[float | None, Array, NDArray[np.intp]]:
    """Best reach, and with it the log residual and regime of each row by a fit without its fold.

    The searches begin at constants that saw all rows given, and end where the rows of the other
    folds lead them.
    """
    label = grouped(rows.families, INNER)
    candidates = (None, *reaches)
    missed = np.full((len(candidates), len(label)), np.nan)
    regimes = np.zeros(len(label), dtype=np.intp)
    for fold in range(INNER):
        held, seen = label == fold, _thinned(np.flatnonzero(label != fold), INNER_ROWS)
        rest, scored = rows[seen], rows[held]
        constants = _constants(rest, 1, begin)
        regimes[held] = rows.form.regime(scored.dims, rows.machine, constants)
        here, hull = scored.off(constants), cover(octaves(rows.form, rest.dims), POINTS)
        for i, reach in enumerate(candidates):
            missed[i, held] = here
            if reach is not None:
                at = octaves(rows.form, rest.dims)
                table = Residual(surface(at, rest.off(constants), hull, reach), reach)
                model = Calibrated(rows.form, constants, table, {}, 0.0, hull)
                missed[i, held] = np.log(
                    scored.measured / time_of(model, scored.dims, rows.machine)
                )
    typical = np.abs(missed).mean(axis=1)
    best = int(typical.argmin())
    if typical[best] > GAIN * typical[0]:
        best = 0
    return candidates[best], missed[best], regimes


def _thinned(which: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    if len(which) <= most:
        return which
    return np.sort(np.random.default_rng(SEED).choice(which, most, replace=False))


def _checked(form: Form, machine: Machine, dims: Dims, measured: Array, families: Labels) -> _Rows:
    """Refuse rows that cannot fit the form."""
    least = 2 * len(form.constants) + INNER
    if len(measured) < least:
        raise InputError(
            f"{len(measured)} rows cannot fit the {len(form.constants)} constants of {form.kind}",
            hint=f"measure at least {least} shapes",
        )
    if len(np.unique(families)) < INNER:
        raise InputError(
            f"{len(np.unique(families))} families of shapes cannot be left out in {INNER} groups",
            hint=f"measure {form.kind} for at least {INNER} of them",
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
    return _Rows(form, machine, dims, measured, families)
