"""A fit carried to another device takes one factor from there, and nothing it is scored on."""

from functools import cache

import numpy as np
import pytest

from roofline.bench.fit import fit
from roofline.bench.held_out import CENTRAL, DEVIATIONS, coverage
from roofline.bench.predictors import cross_transfer, transfer
from roofline.bench.rows import grouped
from roofline.cost.kernels.form import TRANSFERRED, FittedForm, log_sd, predict, seconds
from roofline.errors import InputError
from roofline.records import replace
from tests.bench.test_fit import DIMS, FAMILIES, FORM, MACHINE, PLANTED, TRUE, noisy, roofed

FASTER = replace(MACHINE, hbm_bytes_per_s=1.5 * MACHINE.hbm_bytes_per_s)
THERE = roofed(DIMS, FASTER, PLANTED)


@cache
def model() -> FittedForm:
    """The fit that is carried."""
    return fit(FORM, DIMS, MACHINE, TRUE, families=FAMILIES)


@pytest.mark.slow
def test_published_rates_carry_the_equation() -> None:
    assert seconds(model(), DIMS, FASTER) == pytest.approx(THERE, rel=1e-3)


def test_a_planted_factor_is_recovered_and_the_constants_stay() -> None:
    carried = transfer(model(), DIMS, FASTER, 1.25 * THERE, families=FAMILIES)
    assert carried.scale == pytest.approx(1.25, rel=1e-3)
    assert carried.constants == model().constants
    assert seconds(carried, DIMS, FASTER) == pytest.approx(1.25 * THERE, rel=2e-3)
    assert carried.digest != model().digest


def test_all_that_is_carried_is_transferred() -> None:
    carried = transfer(model(), DIMS, FASTER, THERE, families=FAMILIES)
    assert (predict(carried, DIMS, FASTER)[2] == TRANSFERRED).all()


def test_the_interval_is_of_the_sample() -> None:
    sample = noisy(0.2) * THERE / TRUE
    carried = transfer(model(), DIMS, FASTER, sample, families=FAMILIES)
    own = np.quantile(np.abs(np.log(sample / THERE)), CENTRAL) / DEVIATIONS
    assert carried.spread == pytest.approx(own, rel=0.1)
    assert np.median(log_sd(carried, DIMS, FASTER)) > 2 * model().spread
    predicted, spread = cross_transfer(model(), DIMS, FASTER, sample, families=FAMILIES)
    assert coverage(predicted, spread, sample) == pytest.approx(0.8, abs=0.06)


def test_nonsense_in_a_fold_does_not_move_its_own_predictions() -> None:
    sample = noisy(0.1) * THERE / TRUE
    held = grouped(FAMILIES, 8) == 1
    before = np.stack(cross_transfer(model(), DIMS, FASTER, sample, families=FAMILIES))
    poisoned = np.where(held, 5.0 * sample, sample)
    after = np.stack(cross_transfer(model(), DIMS, FASTER, poisoned, families=FAMILIES))
    assert (after[:, held] == before[:, held]).all()
    assert (after[:, ~held] != before[:, ~held]).any()


def test_a_sample_of_few_rows_is_one_error() -> None:
    few = {name: column[:3] for name, column in DIMS.items()}
    with pytest.raises(InputError, match="3 rows cannot fit 1 constants"):
        transfer(model(), few, FASTER, THERE[:3], families=FAMILIES[:3])
