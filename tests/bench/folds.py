"""Rows that are predicted by fits which saw nothing of their fold: a helper of tests of fits."""

from collections.abc import Callable
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.bench.held_out import Labels, Mask, spreads
from roofline.cost.work import Array
from roofline.errors import InputError

Fit: TypeAlias = Callable[[Mask], Any]
"""Model of the rows that are marked."""
Predict: TypeAlias = Callable[[Any, Mask], Array]
"""Times of the marked rows."""
Classify: TypeAlias = Callable[[Any, Mask], NDArray[np.intp]]
"""Regime of the marked rows, a small integer."""


def leave_out(folds: Labels, fit: Fit, predict: Predict) -> Array:
    """Predict each row by a fit that saw no row of its fold."""
    kinds = _kinds(folds, 2)
    out = np.full(folds.shape, np.nan)
    for fold in kinds:
        held = folds == fold
        out[held] = predict(fit(~held), held)
    return out


def with_spread(
    folds: Labels, measured: Array, fit: Fit, predict: Predict, classify: Classify
) -> tuple[Array, Array]:
    """Prediction and lognormal spread of each row, from rows of other folds alone.

    The spread of a fold comes from the other folds, each predicted by a fit that saw neither: the
    rows scored fit neither the constants nor their interval.
    """
    kinds = _kinds(folds, 3)
    missed: dict[tuple[int, int], tuple[Array, NDArray[np.intp]]] = {}
    for pair in combinations(kinds, 2):
        model = fit(~np.isin(folds, pair))
        for scored, other in (pair, pair[::-1]):
            held = folds == other
            residuals = np.log(measured[held] / predict(model, held))
            missed[scored, other] = residuals, classify(model, held)
    predicted, spread = np.full((2, *folds.shape), np.nan)
    for fold in kinds:
        others = [found for (scored, _), found in missed.items() if scored == fold]
        residuals, regimes = (np.concatenate(part) for part in zip(*others, strict=True))
        held = folds == fold
        model = fit(~held)
        predicted[held] = predict(model, held)
        spread[held] = spreads(residuals, regimes, classify(model, held))
    return predicted, spread


def _kinds(folds: Labels, least: int) -> list[int]:
    kinds = [int(fold) for fold in np.unique(folds)]
    if len(kinds) < least:
        raise InputError(
            f"{len(kinds)} folds are too few to hold one out",
            hint=f"measure sizes in at least {least} octaves",
        )
    return kinds
