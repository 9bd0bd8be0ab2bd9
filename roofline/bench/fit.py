"""Fit a form to measurements, and say how it does on families of shapes it did not see.

A family is what is held out together: of a linear layer, all token counts of one weight matrix.
Errors are of the logarithm, with a robust loss; constants keep to their bounds; seeds are fixed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from typing import Final, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.bench.held_out import ENOUGH, Labels, spreads, unallowed
from roofline.bench.rows import SEED, FormRows, checked, search
from roofline.bench.rows import families_of as families_of
from roofline.bench.rows import grouped as grouped
from roofline.bench.surface import CHOICE_POINTS, POINTS, branches, cover, lines, steps, surface
from roofline.cost.kernels.form import (
    WIDEN,
    Dims,
    FittedForm,
    Form,
    Machine,
    octaves,
    take,
    waves_of,
)
from roofline.cost.kernels.form import log_sd as spread_of
from roofline.cost.kernels.form import seconds as time_of
from roofline.cost.kernels.residual import (
    DecisionTrees,
    Hull,
    Residual,
    asked,
    beyond,
    branched,
    distances,
    separation,
    tabled,
    with_waves,
)
from roofline.cost.work import Array

REACHES: Final = (1.5, 3.0, 6.0)
"""Lengths of a residual surface that are tried on families left out. [octave]"""
STEPS_REACH: Final = 3.0
"""Length of the jumps between families. [octave]"""
GAIN: Final = 0.98
"""A residual table must take the typical error left out below this share of that without it."""
BRANCHED_GAIN: Final = 0.96
"""The same of branches that are not paired: they are five times the bytes of a table without."""
INNER: Final = 4
FEW_INNER: Final = 8
FEW: Final = 64
"""Folds inside a fit, which give interval and table; more where fewer families than this are known,
so that what is left out keeps most of its neighbours, as it does in use."""
OUTER: Final = 8
"""Folds of families that a validation scores."""
SEARCH_ROWS: Final = 2500
"""Rows that a search for constants sees at most."""
CHOICE_ROWS: Final = 3000
"""Rows that a table sees at most while its shape is chosen."""
TABLE_ROWS: Final = 8000
"""Rows that a table is made of at most."""
ALL_ROWS: Final = 2**20
"""More rows than any group has. [1]"""
BRANCHED_ROWS: Final = 1000
"""Rows with which branches are tried: fewer tell kernels apart by chance."""
JUDGED_ROWS: Final = 1000
"""Rows of a fold left out that judge a table, where they are many."""
NONE: Final = -1
"""A regime that no row is in."""


_Shape: TypeAlias = tuple[float, str] | None
SMOOTH: Final = ""
STEPPED: Final = "steps"
BRANCHED: Final = "branches"
LINED: Final = "lines"
TABLES: Final[tuple[_Shape, ...]] = (
    None,
    *((reach, jumps) for reach in REACHES for jumps in (SMOOTH, STEPPED)),
)
"""Residual tables that are tried: length of the surface, and which jumps are on top."""
JUMPING: Final = (*TABLES, *((reach, BRANCHED) for reach in REACHES))
"""The same of forms that have trees."""
PAIRED: Final[tuple[_Shape, ...]] = ((3.0, BRANCHED),)
"""The table of forms that have pairs of trees, where rows are many: the best of nearly all."""
LINES: Final[tuple[_Shape, ...]] = ((STEPS_REACH, LINED),)
"""The table of forms whose times are straight lines between few sizes. There is no other to choose:
families left out are twice as far from their neighbours as sizes between two of them."""
LINED_SIZES: Final = 24
"""Sizes that are few: through more of them, lines would follow the noise of single rows. [1]"""


class LeftOutRows(Struct, frozen=True):
    """Rows of a fit as fits without their families predict them."""

    rows: NDArray[np.intp]
    """Places of the rows that were judged: of many, a random part. [1]"""
    log_error: Array
    """Logarithm of measured over predicted. [1]"""
    log_sd: Array
    """Spread of the prediction, from the residuals of the other folds. [1]"""
    far: Array
    """Distance outside the hull of the other folds. [octave]"""


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
) -> FittedForm:
    """Constants, residual table and spreads that make the logarithms of the times agree best.

    Spreads are of residuals of families that the inner fit did not see, less what being outside its
    hull allows for: those rows are widened when they are predicted.

    Args:
        form: The equation.
        dims, measured: Columns of equal length, and the time of each row. [s]
        machine: The device they were measured on, at published rates.
        families: Label of each row; rows of a family are left out together.
        residual: Whether a table may be used; it is where it helps on families left out.
        starts: Beginnings of the search: the priors, then random ones. [1]
        source: Which measurements, in words.

    Raises:
        InputError: Too few rows or families, or a dimension or time that has no meaning.
    """
    rows = checked(form, machine, dims, measured, families)
    return fit_and_score(rows, residual=residual, starts=starts, source=source)[0]


def fit_and_score(
    rows: FormRows, *, residual: bool = True, starts: int = 2, source: str = ""
) -> tuple[FittedForm, LeftOutRows]:
    """A fit, and how fits without the families of its rows predict them.

    Args:
        rows: As `roofline.bench.rows.checked` makes them.
        residual, starts, source: As in `fit`.
    """
    constants = search(rows[_thinned(np.arange(len(rows.measured)), SEARCH_ROWS)], starts)
    chosen, judged, missed, far, regimes = _left_out(
        rows, constants, _tables(rows) if residual else (None,)
    )
    covered = unallowed(missed, WIDEN * far)
    families = rows.families[judged]
    own, every = regime_spreads(covered, regimes, families)
    fold, spread = inner(rows.families)[judged], np.empty(len(judged))
    for each in np.unique(fold):
        held, rest = fold == each, fold != each
        spread[held] = spreads(covered[rest], regimes[rest], regimes[held], families[rest])
    few = _thinned(np.arange(len(rows.measured)), _most(rows.form, chosen))
    at, off = octaves(rows.form, rows.dims), rows.off(constants)
    seen = _Seen(rows[few], at[few], cover(at, _points(chosen)))
    (table,) = _tried((chosen,), seen, off[few])
    found = FittedForm(
        rows.form, constants, table, own, every, seen.hull, len(rows.measured), source
    )
    return found, LeftOutRows(judged, missed, np.hypot(spread, WIDEN * far), far)


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

    The nesting: `fit` takes its spreads from inner folds of the rows it is given, and it is given
    no row of the fold that is scored. So that fold makes neither constants, table nor interval.

    Args:
        form, dims, machine, measured, families, residual, starts: As in `fit`.
        folds, score: Groups of families, and how many of them are scored, all if not stated: the
            rows of the others are NaN. [1]
    """
    rows = checked(form, machine, dims, measured, families)
    refit = partial(fit, form, residual=residual, starts=starts)
    return scored(rows, folds, refit, score)


def scored(
    rows: FormRows, folds: int, refit: Callable[..., FittedForm], score: int | None = None
) -> tuple[Array, Array]:
    """Predict and bracket each fold by a model of the others."""
    label = grouped(rows.families, folds)
    predicted, spread = np.full((2, len(label)), np.nan)

    for fold in np.unique(label)[:score]:
        rest, wanted = rows[label != fold], take(rows.dims, label == fold)
        model = refit(
            dims=rest.dims, machine=rows.machine, measured=rest.measured, families=rest.families
        )
        predicted[label == fold] = time_of(model, wanted, rows.machine)
        spread[label == fold] = spread_of(model, wanted, rows.machine)
    return predicted, spread


def regime_spreads(
    missed: Array, regimes: NDArray[np.intp], families: Labels
) -> tuple[dict[int, float], float]:
    """Log standard deviation of each regime with enough residuals, and of all."""
    kinds = [int(kind) for kind in np.unique(regimes) if (regimes == kind).sum() >= ENOUGH]
    *own, every = spreads(missed, regimes, np.array([*kinds, NONE]), families).tolist()
    return dict(zip(kinds, own, strict=True)), every


def inner(families: Labels) -> Labels:
    """Fold of each row inside a fit."""
    kinds = len(np.unique(families))
    return grouped(families, INNER if kinds >= FEW else min(FEW_INNER, kinds))


def _tables(rows: FormRows) -> tuple[_Shape, ...]:
    """Residual tables that are tried."""
    fast = rows.dims[rows.form.coordinates[0]]
    if rows.form.lines and len(np.unique(fast)) <= LINED_SIZES:
        return LINES
    many = len(rows.measured)
    if rows.form.trees is None or many < BRANCHED_ROWS:
        return TABLES
    return PAIRED if _paired(rows.form) and many > CHOICE_ROWS else JUMPING


def _left_out(
    rows: FormRows, begin: Mapping[str, float], tables: tuple[_Shape, ...]
) -> tuple[_Shape, NDArray[np.intp], Array, Array, NDArray[np.intp]]:
    """Best table; and of rows left out: places, log residual, octaves outside the hull, regime.

    The shape of the table is chosen on few rows and points, with branches and without; of both the
    better one is taken, judged as they are made. A single one is judged so at once. The searches
    begin at constants that saw all rows given, and end where the rows of the other folds lead them.
    """
    single = len(tables) == 1
    most = _most(rows.form, tables[0]) if single else CHOICE_ROWS
    points = _points(tables[0]) if single else CHOICE_POINTS
    label = inner(rows.families)
    folds = [
        (np.flatnonzero(label != fold), _thinned(np.flatnonzero(label == fold), JUDGED_ROWS))
        for fold in np.unique(label)
    ]
    offs, regimes, tried = [], [], []
    for rest, judged in folds:
        constants = search(rows[_thinned(rest, SEARCH_ROWS)], 1, begin)
        regimes.append(rows.form.regime(take(rows.dims, judged), rows.machine, constants))
        offs.append(rows.off(constants))
        tried.append(_missed(rows, tables, offs[-1], _thinned(rest, most), judged, points))
    typical = np.abs(_joined(tried)[0]).mean(axis=1)
    best = int(typical.argmin())
    best = best if typical[best] <= GAIN * typical[0] else 0
    chosen = tables[best]
    missed, far = _joined(tried)
    missed = missed[best]
    if not single and chosen is not None and len(label) > CHOICE_POINTS:
        finals = {
            shape: _joined(
                _missed(rows, (shape,), off, _thinned(rest, TABLE_ROWS), judged, _points(shape))
                for off, (rest, judged) in zip(offs, folds, strict=True)
            )
            for shape in _finalists(tables, typical, chosen)
        }
        error = {shape: float(np.abs(missed).mean()) for shape, (missed, _) in finals.items()}
        costs = {BRANCHED: 1.0 if _paired(rows.form) else 1.0 / BRANCHED_GAIN}
        chosen = min(error, key=lambda shape: error[shape] * costs.get(shape[1], 1.0))
        (missed,), far = finals[chosen]
    return (
        chosen,
        np.concatenate([judged for _, judged in folds]),
        missed,
        far,
        np.concatenate(regimes),
    )


def _joined(folds: Iterable[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Residuals and distances of all folds, from those of each."""
    missed, far = zip(*folds, strict=True)
    return np.concatenate(missed, axis=1), np.concatenate(far)


def _finalists(
    tables: tuple[_Shape, ...], typical: Array, chosen: tuple[float, str]
) -> Iterator[tuple[float, str]]:
    """The table that was best on few rows, then the best of those that differ in branching.

    Which of both is better depends on how many rows there are.
    """
    yield chosen
    rivals = [
        (float(error), shape)
        for error, shape in zip(typical, tables, strict=True)
        if shape is not None and (shape[1] == BRANCHED) != (chosen[1] == BRANCHED)
    ]
    if rivals:
        yield min(rivals)[1]


def _paired(form: Form) -> bool:
    """Whether its trees are made in pairs."""
    return form.trees is not None and form.trees.paired


def _most(form: Form, table: _Shape) -> int:
    """Rows that a table is made of at most; paired trees are quick, and see them all. [1]"""
    every = table is not None and table[1] == BRANCHED and _paired(form)
    return ALL_ROWS if every else TABLE_ROWS


def _points(table: _Shape) -> int:
    """Points of a table's surface, which needs fewer on branches. [1]"""
    return CHOICE_POINTS if table is not None and table[1] == BRANCHED else POINTS


def _missed(
    rows: FormRows,
    tables: tuple[_Shape, ...],
    off: Array,
    seen: NDArray[np.intp],
    held: NDArray[np.intp],
    points: int,
) -> tuple[Array, Array]:
    """Log residual of the rows held, by the table of each shape that is made of the rows seen.

    And how far they are outside its hull. [octave]
    """
    judged, at = rows[held], octaves(rows.form, rows.dims)
    made = _Seen(rows[seen], at[seen], cover(at[seen], points))
    near = separation(made.hull, at[held])
    far = beyond(made.hull, at[held], near)
    waves = waves_of(rows.form, judged.dims, rows.machine)
    apart = with_waves(near, waves, made.waves)
    left = [
        off[held]
        - (0.0 if table is None else tabled(table, made.hull, at[held], apart, far, waves))
        for table in _tried(tables, made, off[seen])
    ]
    return np.stack(left), far


class _Seen:
    """Rows that a table is made of, the points of its hull, and all their distances."""

    def __init__(self, rows: FormRows, at: Array, hull: Hull) -> None:
        form, machine, points = rows.form, rows.machine, hull.points
        self.trees, self.measured = form.trees, rows.measured
        self.paired = _paired(form)
        shapes = np.round(2.0**points) if form.waves is not None else points
        dims = dict(zip(form.coordinates, shapes.T, strict=True))
        self.at, self.hull, self.families = at, hull, rows.families
        self.waves = waves_of(form, dims, machine)
        self.seen = waves_of(form, rows.dims, machine)
        self.apart = with_waves(separation(hull, at), self.seen, self.waves)
        self.points_apart = with_waves(distances(points, points), self.waves, self.waves)

    @cached_property
    def columns(self) -> Array:
        """Columns that trees compare, of each row. [octave]"""
        return asked(self.at, self.seen)

    def grown(self, values: Array) -> DecisionTrees:
        """Trees close to values of the rows. [1]"""
        assert self.trees is not None, "trees of a form without any"
        return branches(self.columns, values, self.families, self.trees)


def _mean(smooth: Residual, alone: DecisionTrees, above: DecisionTrees) -> Residual:
    """Mean of trees alone and of a surface with trees above it."""
    columns, bounds, values = (np.concatenate(both) for both in zip(alone, above, strict=True))
    both = DecisionTrees(columns, bounds, values / 2.0)
    return smooth._replace(weights=smooth.weights / 2.0, branches=both)


def _tried(tables: tuple[_Shape, ...], seen: _Seen, values: Array) -> Iterator[Residual | None]:
    """Residual table of each shape; a surface serves with jumps and without."""
    smooth: dict[float, tuple[Residual, Array]] = {}
    branching: DecisionTrees | None = None
    for shape in tables:
        if shape is None:
            yield None
            continue
        reach, jumps = shape
        if jumps == LINED:
            drawn = lines(seen.at, values, seen.measured, reach)
            flat = np.zeros(len(seen.hull.points))
            yield Residual(flat, reach, drawn, reach)
            continue
        if jumps == BRANCHED and not seen.paired:
            branching = branching or seen.grown(values)
            left = values - branched(branching, seen.columns)
            table, _ = surface(seen.apart, left, seen.points_apart, reach)
            yield table._replace(waves=seen.waves, branches=branching)
            continue
        if reach not in smooth:
            found, there = surface(seen.apart, values, seen.points_apart, reach)
            smooth[reach] = found._replace(waves=seen.waves), there
        table, there = smooth[reach]
        if jumps == BRANCHED:
            branching = branching or seen.grown(values)
            yield _mean(table, branching, seen.grown(values - there))
        elif jumps == STEPPED:
            jumping = steps(seen.at, values - there, STEPS_REACH)
            yield table._replace(steps=jumping, steps_reach=STEPS_REACH)
        else:
            yield table


def _thinned(places: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """The places, or a random part of them where they are more."""
    if len(places) <= most:
        return places
    return np.sort(np.random.default_rng(SEED).choice(places, most, replace=False))
