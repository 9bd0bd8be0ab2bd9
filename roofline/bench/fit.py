"""Fit a form to measurements, and say how it does on families of shapes it did not see.

A family is what is held out together: of a linear layer, all token counts of one weight matrix.
Errors are of the logarithm, with a robust loss; constants keep to their bounds; seeds are fixed.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.bench.held_out import ENOUGH, Labels, spreads
from roofline.bench.rows import SEED, Rows, checked, search
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
INNER: Final = 4
FEW_INNER: Final = 8
FEW: Final = 64
"""Folds inside a fit, which give interval and table; more where fewer families than this are known,
so that what is left out keeps most of its neighbours, as it does in use."""
OUTER: Final = 8
"""Folds of families that a validation scores."""
INNER_ROWS: Final = 4000
"""Rows that an inner fit sees at most when it chooses constants and the shape of the table."""


_Shape: TypeAlias = tuple[float, bool] | None
TABLES: Final[tuple[_Shape, ...]] = (
    None,
    *((reach, jumps) for reach in REACHES for jumps in (False, True)),
)
"""Residual tables that are tried: length of the surface, and whether jumps are on top."""


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
    (table,) = _tried((chosen,), at, rows.off(constants), hull)
    return Calibrated(
        form,
        constants,
        table,
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
    score: int | None = None,
    residual: bool = True,
    starts: int = 1,
) -> tuple[Array, Array]:
    """Prediction [s] and log spread [1] of each row, by a fit that saw nothing of its fold.

    Parameters
    ----------
    form, dims, machine, measured, families, residual, starts
        As in `fit`.
    folds, score
        Groups of families, and how many of them are scored, all if not stated: the rows of the
        others are NaN. [1]

    Notes
    -----
    The nesting: `fit` takes its spreads from inner folds of the rows it is given, and it is given
    no row of the fold that is scored. So that fold makes neither constants, table nor interval.
    """
    rows = checked(form, machine, dims, measured, families)
    refit = partial(fit, form, residual=residual, starts=starts)
    return scored(rows, folds, refit, score)


def scored(
    rows: Rows, folds: int, refit: Callable[..., Calibrated], score: int | None = None
) -> tuple[Array, Array]:
    """Predict and bracket each fold by a model of the others."""
    label = grouped(rows.families, folds)
    predicted, spread = np.full((2, len(label)), np.nan)
    for fold in np.unique(label)[:score]:
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


def inner(families: Labels) -> Labels:
    """Fold of each row inside a fit."""
    kinds = len(np.unique(families))
    return grouped(families, INNER if kinds >= FEW else min(FEW_INNER, kinds))


def _left_out(
    rows: Rows, begin: Mapping[str, float], tables: tuple[_Shape, ...]
) -> tuple[_Shape, Array, NDArray[np.intp]]:
    """Best table, and with it the log residual and regime of each row by a fit without its fold.

    Few rows choose constants and table, all of the other folds make it. The searches begin at
    constants that saw all rows given, and end where the rows of the other folds lead them.
    """
    label, at = inner(rows.families), octaves(rows.form, rows.dims)
    tried = np.full((len(tables), len(label)), np.nan)
    off = np.full((label.max() + 1, len(label)), np.nan)
    regimes = np.zeros(len(label), dtype=np.intp)
    for fold in np.unique(label):
        held, few = label == fold, _thinned(np.flatnonzero(label != fold), INNER_ROWS)
        constants = search(rows[few], 1, begin)
        regimes[held] = rows.form.regime(take(rows.dims, held), rows.machine, constants)
        off[fold] = rows.off(constants)
        for i, left in enumerate(_missed(tables, at, off[fold], few, held)):
            tried[i, held] = left
    typical = np.abs(tried).mean(axis=1)
    best = int(typical.argmin())
    if typical[best] > GAIN * typical[0]:
        best = 0
    missed = tried[best]
    if tables[best] is not None and len(label) > INNER_ROWS:
        for fold in np.unique(label):
            held, rest = label == fold, np.flatnonzero(label != fold)
            (missed[held],) = _missed((tables[best],), at, off[fold], rest, held)
    return tables[best], missed, regimes


def _missed(
    tables: tuple[_Shape, ...],
    at: Array,
    off: Array,
    seen: NDArray[np.intp],
    held: NDArray[np.bool_],
) -> Iterator[Array]:
    """Log residual of the rows held by the table of each shape that is made of the rows seen."""
    hull = cover(at[seen])
    for table in _tried(tables, at[seen], off[seen], hull):
        yield off[held] - (0.0 if table is None else value(table, hull, at[held]))


def _tried(
    tables: tuple[_Shape, ...], at: Array, values: Array, hull: Hull
) -> Iterator[Residual | None]:
    """Residual table of each shape; a surface serves with jumps and without."""
    smooth: dict[float, Residual] = {}
    for shape in tables:
        if shape is None:
            yield None
            continue
        reach, jumps = shape
        if reach not in smooth:
            smooth[reach] = surface(at, values, hull, reach)
        if jumps:
            left = values - value(smooth[reach], hull, at)
            yield replace(
                smooth[reach], steps=steps(at, left, STEPS_REACH), steps_reach=STEPS_REACH
            )
        else:
            yield smooth[reach]


def _thinned(which: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    if len(which) <= most:
        return which
    return np.sort(np.random.default_rng(SEED).choice(which, most, replace=False))
