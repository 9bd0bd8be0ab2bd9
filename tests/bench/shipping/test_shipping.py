"""Shipped calibrations: each file is what its name says, and predicts what it was fitted to."""

from pathlib import Path

import numpy as np
import pytest

from roofline.bench.held_out import coverage, errors
from roofline.bench.kernel_rows import Group
from roofline.bench.shipping import files, wires
from roofline.bench.shipping.making import FILES
from roofline.bench.shipping.predicting import predicted
from roofline.bench.validation import READERS
from roofline.cost.calibration.kernel import Kernel, Label, Wires
from roofline.errors import DocumentError
from tests.validation.measurements import FOLDER

EVERY = files.labels()


def test_the_devices_that_were_measured_have_calibrations() -> None:
    assert {label.device for label in EVERY} == {"a100-sxm", "h100-sxm", "h200-sxm"}


@pytest.mark.parametrize("label", EVERY, ids=lambda each: files.path_of(each).stem)
def test_a_file_is_what_its_name_says(label: Label) -> None:
    fit = files.fit_of(label)
    assert fit.label == label
    if isinstance(fit, Kernel):
        # One kind may have a form for each phase.
        assert fit.model.form.kind.startswith(label.kind)
        assert 0.0 < fit.model.spread < 1.5
        assert fit.model.source
    else:
        assert fit.constants.op == label.variant
        assert fit.low < fit.high


def test_a_sample_corrects_the_fits_of_another_device_by_one_factor() -> None:
    for label in EVERY:
        if label.device == "h200-sxm":
            fit = files.fit_of(label)
            assert isinstance(fit, Kernel)
            assert fit.model.transferred
            assert 0.7 < fit.model.scale < 1.4


def test_a_mistake_in_a_file_of_collectives_is_located(tmp_path: Path) -> None:
    label = next(label for label in EVERY if label.kind == files.COLLECTIVE)
    text = files.path_of(label).read_text()
    fit = wires.load_wires(files.path_of(label), label)
    assert isinstance(fit, Wires)
    for old, new, said in (
        ("efficiency: 0.", "efficiency: 9.", "outside what is physical"),
        ("smallest: ", "smalest: ", "smalest"),
        ("path: ring", "path: wring", "no collective"),
    ):
        path = tmp_path / "broken.yaml"
        path.write_text(text.replace(old, new, 1))
        with pytest.raises(DocumentError, match=said):
            wires.load_wires(path, label)


def groups(kind: str) -> list[Group]:
    import pandas as pd

    frame = pd.read_parquet(FOLDER / f"{FILES[kind]}.parquet")
    for column in frame.select_dtypes("category"):
        frame[column] = frame[column].astype(str)
    return list(READERS[kind](frame))


@pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no measurements to compare with: {FOLDER}")
@pytest.mark.parametrize("kind", ["gemm", "attention-decode", "mla-decode"])
def test_fits_predict_the_rows_they_were_fitted_to(kind: str) -> None:
    for group in groups(kind):
        if len(group) < 1000:
            continue
        known = predicted(kind, group)
        assert not known.found.foreign
        assert errors(known.seconds, group.measured).median < 0.06, group.name
        assert 0.7 < coverage(known.seconds, known.log_sd, group.measured) < 0.99
        assert np.all(known.log_sd > 0)
