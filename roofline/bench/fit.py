"""Fit a form to measurements, and say how it does on families of shapes it did not see.

A family is what is held out together: of a linear layer, all token counts of one weight matrix.
Errors are of the logarithm, with a robust loss; constants keep to their bounds; seeds are fixed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofline.bench.held_out import ENOUGH, Labels, spreads
from roofline.bench.rows import INNER, SEED, Rows, checked, search
from roofline.bench.rows import families_of as families_of
from roofline.bench.rows import grouped as grouped
from roofline.bench.surface import cover, steps, surface
from roofline.cost.kernels.calibrated import Calibrated, octaves
from roofline.cost.kernels.calibrated import log_sd as spread_of
from roofline.cost.kernels.calibrated import seconds as time_of
from roofline.cost.kernels.form import Dims, Form, Machine, take
from roofline.cost.kernels.residual import Hull, Residual, value
from roofline.cost.work import Array

REACHES: Final = (1.5, 3.0, 6.0)
"""Lengths of a residual surface that are tried on families left out. [octave]"""
STEPS_REACH: Final = 3.0
"""Length of the jumps between families. [octave]"""
GAIN: Final = 0.98
"""A residual table must take the typical error left out below this share of that without it."""
OUTER: Final = 8
"""Folds of families that a validation scores."""
INNER_ROWS: Final = 6000
"""Rows that an inner fit sees at most: it decides a spread and a reach, not a constant."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """A residual table to try: length of its surface [octave], and whether jumps are on top."""

    reach: float
    steps: bool


TABLES: Final = (None, *(_Shape(reach, steps) for steps in (False, True) for reach in REACHES))


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
    rows = checked(form, machine, dims, measured, families)
    constants = search(rows, starts)
    tables = TABLES if residual else (None,)
    chosen, missed, regimes = _left_out(rows, constants, tables)
    own, every = regime_spreads(missed, regimes)
    at = octaves(form, rows.dims)
    hull = cover(at)
    return Calibrated(
        form,
        constants,
        _table(chosen, at, rows.off(constants), hull),
        own,
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
    rows = checked(form, machine, dims, measured, families)
    refit = partial(fit, form, residual=residual, starts=starts)
    return scored(rows, folds, refit)


def scored(rows: Rows, folds: int, refit: Callable[..., Calibrated]) -> tuple[Array, Array]:
    """Predict and bracket each fold by a model of the others."""
    label = grouped(rows.families, folds)
    predicted, spread = np.full((2, len(label)), np.nan)
    for fold in np.unique(label):
        held, rest = label == fold, rows[label != fold]
        model = refit(
            dims=rest.dims, machine=rows.machine, measured=rest.measured, families=rest.families
        )
        wanted = take(rows.dims, held)
        predicted[held] = time_of(model, wanted, rows.machine)
        spread[held] = spread_of(model, wanted, rows.machine)
    return predicted, spread


def regime_spreads(missed: Array, regimes: NDArray[np.intp]) -> tuple[dict[int, float], float]:
    """Log standard deviation of each regime with enough residuals, and of all."""
    kinds = [int(kind) for kind in np.unique(regimes) if (regimes == kind).sum() >= ENOUGH]
    own = spreads(missed, regimes, np.array(kinds, dtype=np.intp))
    every = float(spreads(missed, regimes, np.array([-1]))[0])
    return dict(zip(kinds, own.tolist(), strict=True)), every


def _left_out(
    rows: Rows, begin: Mapping[str, float], tables: tuple[_Shape | None, ...]
) -> tuple[_Shape | None, Array, NDArray[np.intp]]:
    """Best table, and with it the log residual and regime of each row by a fit without its fold.

    The searches begin at constants that saw all rows given, and end where the rows of the other
    folds lead them.
    """
    label, at = grouped(rows.families, INNER), octaves(rows.form, rows.dims)
    missed = np.full((len(tables), len(label)), np.nan)
    regimes = np.zeros(len(label), dtype=np.intp)
    for fold in range(INNER):
        held, seen = label == fold, _thinned(np.flatnonzero(label != fold), INNER_ROWS)
        rest, scored = rows[seen], rows[held]
        constants = search(rest, 1, begin)
        regimes[held] = rows.form.regime(scored.dims, rows.machine, constants)
        values, here, hull = rest.off(constants), scored.off(constants), cover(at[seen])
        for i, shape in enumerate(tables):
            table = _table(shape, at[seen], values, hull)
            missed[i, held] = here - (0.0 if table is None else value(table, hull, at[held]))
    typical = np.abs(missed).mean(axis=1)
    best = int(typical.argmin())
    if typical[best] > GAIN * typical[0]:
        best = 0
    return tables[best], missed[best], regimes


def _table(shape: _Shape | None, at: Array, values: Array, hull: Hull) -> Residual | None:
    """Residual table of that shape."""
    if shape is None:
        return None
    smooth = surface(at, values, hull, shape.reach)
    if not shape.steps:
        return smooth
    left = values - value(smooth, hull, at)
    found = steps(at, left, STEPS_REACH)
    return replace(smooth, steps=found, steps_reach=STEPS_REACH)


def _thinned(which: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    if len(which) <= most:
        return which
    return np.sort(np.random.default_rng(SEED).choice(which, most, replace=False))
