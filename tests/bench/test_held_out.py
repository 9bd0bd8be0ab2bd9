"""Folds, errors and intervals, on models that give a leak away."""

import numpy as np
import pytest

from roofline.bench.held_out import (
    CENTRAL,
    ENOUGH,
    Labels,
    Mask,
    coverage,
    errors,
    octaves,
    spreads,
)
from roofline.cost.work import Array
from roofline.errors import InputError
from tests.bench.folds import leave_out, with_spread

SIZES = np.repeat(2.0 ** np.arange(10, 20), 6) * np.tile([1.0, 1.2, 1.4, 1.6, 1.8, 1.99], 10)
FOLDS = octaves(SIZES)


def seen(which: Mask) -> Mask:
    """A model that remembers its rows."""
    return which.copy()


def refuse_seen(model: Mask, which: Mask) -> Array:
    assert which.any()
    assert not (model & which).any(), "asked about a row it was fitted on"
    return np.ones(int(which.sum()))


def one_regime(model: Mask, which: Mask) -> Labels:
    return np.zeros(int(which.sum()), dtype=np.int64)


def test_an_octave_is_between_powers_of_two() -> None:
    np.testing.assert_array_equal(FOLDS, np.floor(np.log2(SIZES)))
    assert np.unique(FOLDS, return_counts=True)[1].tolist() == [6] * 10


def test_every_row_is_predicted_once_by_a_fit_that_saw_none_of_its_octave() -> None:
    models: list[Mask] = []
    asked: list[Mask] = []

    def predict(model: Mask, which: Mask) -> Array:
        models.append(model)
        asked.append(which)
        return refuse_seen(model, which)

    assert (leave_out(FOLDS, seen, predict) == 1).all()
    assert (np.sum(asked, axis=0) == 1).all()
    for model, which in zip(models, asked, strict=True):
        assert not set(FOLDS[model]) & set(FOLDS[which])
        assert (model | which).all()


def test_a_fit_that_saw_the_octave_would_be_noticed() -> None:
    with pytest.raises(AssertionError, match="it was fitted on"):
        leave_out(FOLDS, lambda which: np.ones_like(which), refuse_seen)
    with pytest.raises(AssertionError, match="it was fitted on"):
        with_spread(FOLDS, SIZES, lambda which: np.ones_like(which), refuse_seen, one_regime)


def test_the_spread_of_a_fold_is_of_fits_that_saw_neither_fold() -> None:
    fitted: list[Mask] = []

    def fit(which: Mask) -> Mask:
        fitted.append(which)
        return which.copy()

    with_spread(FOLDS, np.exp(np.sin(SIZES)), fit, refuse_seen, one_regime)
    left = [tuple(sorted(set(FOLDS) - set(FOLDS[which]))) for which in fitted]
    assert sorted(len(folds) for folds in left) == [1] * 10 + [2] * 45
    assert len(set(left)) == 55


def test_a_row_far_off_widens_the_intervals_of_other_folds_alone() -> None:
    calm = np.exp(0.1 * np.sin(np.arange(len(SIZES))))
    wild = np.where(FOLDS == 12, 50.0, calm)
    narrow = with_spread(FOLDS, calm, seen, refuse_seen, one_regime)[1]
    wide = with_spread(FOLDS, wild, seen, refuse_seen, one_regime)[1]
    np.testing.assert_array_equal(narrow[FOLDS == 12], wide[FOLDS == 12])
    assert (wide[FOLDS != 12] > narrow[FOLDS != 12]).all()


def test_four_of_five_lognormal_rows_lie_inside() -> None:
    random = np.random.default_rng(0)
    folds = np.repeat(np.arange(20), 200)
    measured = np.exp(random.normal(0.0, 0.3, folds.shape))
    predicted, spread = with_spread(folds, measured, seen, refuse_seen, one_regime)
    assert spread.mean() == pytest.approx(0.3, rel=0.03)
    assert coverage(predicted, spread, measured) == pytest.approx(CENTRAL, abs=0.02)


def test_a_regime_with_few_residuals_takes_the_spread_of_all() -> None:
    residuals = np.concatenate([np.full(ENOUGH, 0.1), np.full(ENOUGH - 1, 1.0)])
    regimes = np.array([0] * ENOUGH + [1] * (ENOUGH - 1))
    own, few, never = spreads(residuals, regimes, np.array([0, 1, 2]))
    assert few == never
    assert own < few


def test_errors_are_of_the_measured_time() -> None:
    found = errors(np.array([0.5, 1.5, 1.0]), np.array([1.0, 1.0, 2.0]))
    assert (found.median, found.mean, found.p90) == (0.5, 0.5, 0.5)


@pytest.mark.parametrize("count", [0, 1])
def test_one_octave_cannot_be_left_out(count: int) -> None:
    with pytest.raises(InputError, match=f"{count} folds are too few") as caught:
        leave_out(np.zeros(count, dtype=np.int64), seen, refuse_seen)
    assert "2 octaves" in caught.value.hint
