"""Shipped calibrations: each file is what its name says, and predicts what it was fitted to."""

import numpy as np
import pytest

from roofline.bench.columns import prepared
from roofline.bench.held_out import coverage, errors
from roofline.bench.kernel_rows import Group
from roofline.bench.shipping import files
from roofline.bench.shipping.making import FILES
from roofline.bench.shipping.predicting import predicted
from roofline.bench.validation import READERS
from roofline.cost.calibration.kernel import Label
from tests.validation.measurements import SAMPLE, file, measured, needs

EVERY = files.labels()
HELD = ("gemm", "attention-decode", "mla-decode")
"""Kinds whose fits are held against the rows they were fitted to."""


def test_the_devices_that_were_measured_have_calibrations() -> None:
    assert {label.device for label in EVERY} == {"a100-sxm", "h100-sxm", "h200-sxm"}


@pytest.mark.parametrize("label", EVERY, ids=lambda each: files.path_of(each).stem)
def test_a_file_is_what_its_name_says(label: Label) -> None:
    fit = files.fit_of(label)
    assert fit.label == label
    # One kind may have a form for each phase.
    assert fit.model.form.kind.startswith(label.kind)
    assert 0.0 < fit.model.spread < 1.5
    assert fit.model.source


def test_a_sample_corrects_the_fits_of_another_device_by_one_factor() -> None:
    for label in EVERY:
        if label.device == "h200-sxm":
            model = files.fit_of(label).model
            assert model.transferred
            assert 0.7 < model.scale < 1.4


def groups(kind: str) -> list[Group]:
    rows = measured(FILES[kind])
    return list(READERS[kind](prepared(kind, rows[rows.gpu != SAMPLE], "")[0]))


@needs(*(file(FILES[kind]) for kind in HELD))
@pytest.mark.parametrize("kind", HELD)
def test_fits_predict_the_rows_they_were_fitted_to(kind: str) -> None:
    for group in groups(kind):
        if len(group) < 1000:
            continue
        known = predicted(kind, group)
        assert "transferred" not in known.basis
        assert errors(known.seconds, group.measured).median < 0.06, group.name
        assert 0.7 < coverage(known.seconds, known.log_sd, group.measured) < 0.99
        assert np.all(known.log_sd > 0)
