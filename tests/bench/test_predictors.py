"""Groups of a file predicted by fits that never saw the family of a row."""

import numpy as np
import pytest

from roofline.bench.fit import fit
from roofline.bench.kernel_rows import RowGroup
from roofline.bench.predictors import (
    PredictedTimes,
    cross_transfer,
    left_out,
    one_by_one,
    sibling_of,
)
from roofline.errors import InputError, RooflineError
from roofline.hardware.catalog import gpu
from roofline.records import replace
from tests.bench.test_fit import DIMS, FAMILIES, FORM, MACHINE, noisy

NAME = {"gpu": "h100-sxm", "backend": "trtllm", "kernel": "gemm"}
LONG = RowGroup(NAME, FORM, MACHINE, DIMS, noisy(0.05), FAMILIES, np.arange(len(FAMILIES)), "bf16")
FEW = np.arange(len(FAMILIES)) % 11 == 3


def sample(device: str = "h200-sxm") -> RowGroup:
    """Few rows of a device that takes a quarter longer."""
    some = LONG[FEW]
    return replace(some, name={**NAME, "gpu": device}, measured=1.25 * some.measured)


def test_a_sample_belongs_to_the_sibling_with_the_same_kernels() -> None:
    assert gpu("h200-sxm").architecture == gpu("h100-sxm").architecture
    assert sibling_of(sample(), [sample(), LONG]) == 1
    assert sibling_of(LONG, [sample(), LONG]) is None
    assert sibling_of(sample("a100-sxm"), [LONG]) is None
    other = replace(LONG, name={**NAME, "kernel": "other"})
    assert sibling_of(sample(), [other]) is None
    assert sibling_of(sample(), [other, LONG[FEW], LONG]) == 2


def test_a_group_that_is_no_sample_is_fitted_by_itself() -> None:
    half = LONG[np.arange(len(LONG)) % 2 == 0]
    assert sibling_of(replace(half, name={**NAME, "gpu": "h200-sxm"}), [LONG]) is None


@pytest.mark.slow
def test_a_sample_takes_the_fit_of_its_sibling_and_a_factor() -> None:
    there = sample()
    own, carried = left_out(1)([LONG, there])
    assert isinstance(own, PredictedTimes)
    assert isinstance(carried, PredictedTimes)
    assert (own.basis, carried.basis) == ("fitted", "transferred from h100-sxm")
    model = fit(FORM, DIMS, MACHINE, LONG.measured, families=FAMILIES)
    alone = cross_transfer(model, there.dims, MACHINE, there.measured, families=there.families)
    np.testing.assert_array_equal([carried.seconds, carried.log_sd], alone)
    assert np.median(carried.seconds / there.measured) == pytest.approx(1.0, abs=0.05)


@pytest.mark.slow
def test_more_processors_change_nothing_but_the_time() -> None:
    (one,), (two,) = (list(left_out(jobs)([LONG])) for jobs in (1, 2))
    assert isinstance(one, PredictedTimes)
    assert isinstance(two, PredictedTimes)
    np.testing.assert_array_equal(one.seconds, two.seconds)
    np.testing.assert_array_equal(one.log_sd, two.log_sd)


@pytest.mark.slow
def test_some_folds_are_predicted_as_all_of_them_are() -> None:
    (every,), (some,) = (list(left_out(1, folds)([LONG])) for folds in (0, 2))
    assert isinstance(every, PredictedTimes)
    assert isinstance(some, PredictedTimes)
    known = np.isfinite(some.seconds)
    kinds = len(np.unique(FAMILIES))
    assert len(np.unique(FAMILIES[known])) == pytest.approx(kinds / 4, abs=1)
    assert not set(FAMILIES[known]) & set(FAMILIES[~known])
    np.testing.assert_array_equal(some.seconds[known], every.seconds[known])
    assert "left out" in some.why


@pytest.mark.slow
def test_what_cannot_be_fitted_stops_no_other_group() -> None:
    few, found = left_out(1)([LONG[np.arange(len(LONG)) < 3], LONG])
    assert isinstance(few, RooflineError)
    assert "3 rows cannot fit" in str(few)
    assert isinstance(found, PredictedTimes)


def test_a_profile_predicts_groups_one_by_one() -> None:
    def known(group: RowGroup) -> PredictedTimes:
        if group.name["gpu"] != "h100-sxm":
            raise InputError("no profile", hint="measure it")
        return PredictedTimes(group.measured, np.full(len(group), 0.1), "measured")

    there, here = one_by_one(known)([sample(), LONG])
    assert isinstance(there, InputError)
    assert isinstance(here, PredictedTimes)
