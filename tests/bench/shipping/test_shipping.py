"""Shipped calibrations: each file is what its name says, and predicts what it was fitted to."""

from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from roofline.bench.columns import prepared
from roofline.bench.held_out import coverage, errors
from roofline.bench.kernel_rows import RowGroup
from roofline.bench.predictors import shipped
from roofline.bench.shipping import files
from roofline.bench.shipping.files import pack, unpack
from roofline.bench.shipping.making import FILES
from roofline.bench.validation import READERS
from roofline.cost.calibration.kernel import MEASURED, FitLabel
from roofline.cost.kernels.form import machine, octaves, waves_of
from roofline.cost.kernels.residual import FINEST, DecisionTrees, value
from roofline.errors import DocumentError
from roofline.hardware.catalog import gpu
from roofline.records import replace
from tests.validation.measurements import file, measured, needs

EVERY = files.labels()
HELD = ("gemm", "attention-decode", "mla-decode")
"""Kinds whose fits are held against the rows they were fitted to."""
MOST_BYTES = 15e6


def test_the_devices_that_were_measured_have_calibrations() -> None:
    assert {label.device for label in EVERY} == set(MEASURED)


def test_what_stands_for_other_devices_has_their_published_figures() -> None:
    for name, known in MEASURED.items():
        device = gpu(name)
        assert device.architecture == known.generation
        figures = device.hbm_bytes_per_s, device.clock_hz, device.sustained
        assert figures == pytest.approx(known[1:], rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("device", sorted(MEASURED))
def test_fits_are_what_the_index_says(device: str) -> None:
    """Every fit is read; constants keep to their bounds, tables to their shapes."""
    for label, entry in files.entries().items():
        if label.device != device:
            continue
        fit = files.fit_of(label)
        assert fit.label == label == entry.label
        assert fit.model.rows == entry.rows
        assert 0.0 < fit.model.spread < 2.5, label
        assert fit.model.source
        for constant in fit.model.form.constants:
            value = fit.model.constants[constant.name]
            assert constant.low * (1 - 1e-4) <= value <= constant.high * (1 + 1e-4), label
        coordinates = len(fit.model.form.coordinates)
        assert fit.model.hull.points.shape[1] == len(fit.model.hull.low) == coordinates
        if fit.model.residual is not None:
            assert len(fit.model.residual.weights) == len(fit.model.hull.points)


def test_calibrations_are_small() -> None:
    assert sum(path.stat().st_size for path in files.folder().rglob("*")) < MOST_BYTES


@pytest.mark.slow
def test_a_stored_fit_is_the_fit(tmp_path: Path) -> None:
    """The same fits make the same bytes, and what is read again predicts the same."""
    some = [label for label in EVERY if label.device == "h200-sxm"][::20]
    fits = [(files.entries()[label], files.fit_of(label)) for label in some]
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        files.write([(entry, pack(kernel)) for entry, kernel in fits], tmp_path / name)
    stored = [
        {
            path.relative_to(tmp_path / name): path.read_bytes()
            for path in sorted((tmp_path / name).rglob("*.*"))
        }
        for name in ("one", "two")
    ]
    assert stored[0] == stored[1]
    for _, kernel in fits:
        again = unpack(kernel.label, pack(kernel))
        assert again.model.constants == kernel.model.constants
        assert again.name == kernel.name
        points = {
            name: 2.0**column
            for name, column in zip(
                kernel.model.form.coordinates, kernel.model.hull.points.T, strict=True
            )
        }
        at = octaves(kernel.model.form, points)
        device = machine(gpu(kernel.label.device), kernel.arithmetic)
        waves = waves_of(kernel.model.form, points, device)
        if (table := kernel.model.residual) is not None:
            assert again.model.residual is not None
            assert value(again.model.residual, again.model.hull, at, waves) == pytest.approx(
                value(table, kernel.model.hull, at, waves), abs=1e-4
            )


@pytest.mark.parametrize(("step", "far"), [(FINEST, 0.0), (FINEST / 2.0, 0.0), (FINEST, 0.5)])
def test_trees_are_stored_as_they_are(step: float, far: float) -> None:
    """Leaves of one tree, of the mean of two, and one that is further from 0 than bytes reach."""
    label = next(label for label in EVERY if label.kind == "gemm")
    kernel, random = files.fit_of(label), np.random.default_rng(3)
    bounds = np.array([[0.5, 3.5, 7.0], [1.5, 2.5, 4.25]])
    columns = random.integers(0, 2, (50, 4))
    leaves = np.asarray(random.integers(-128, 128, (50, 16)) * step, dtype=np.float64)
    leaves[7, 3] += far
    grown = DecisionTrees(columns, bounds[columns, random.integers(0, 3, (50, 4))], leaves)
    assert kernel.model.residual is not None
    residual = kernel.model.residual._replace(branches=grown)
    packed = pack(kernel._replace(model=replace(kernel.model, residual=residual)))
    found = unpack(label, packed).model.residual
    assert found is not None
    assert found.branches is not None
    for stored, given in zip(found.branches, grown, strict=True):
        np.testing.assert_array_equal(stored, given)


def test_fits_of_an_archive_are_what_was_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Byte by byte; and tables that two of them have are in the archive once."""
    some = [label for label in EVERY if label.device == "h100-sxm" and label.kind == "moe"][:5]
    packed = {label: files.stored(label) for label in some}
    fits = [(files.entries()[label], content) for label, content in packed.items()]
    twin = replace(fits[0][0], variant="twin"), fits[0][1]
    files.write([*fits, twin], tmp_path)
    monkeypatch.setattr(files, "folder", lambda: tmp_path)
    packed[twin[0].label] = twin[1]
    assert {label: files.stored(label) for label in packed} == packed
    with ZipFile(files.path_of(some[0])) as archive:
        assert archive.getinfo("moe/twin").file_size == 0


def test_a_damaged_archive_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    label = EVERY[0]
    monkeypatch.setattr(files, "folder", lambda: tmp_path)
    (tmp_path / label.device).mkdir()
    (tmp_path / label.device / f"{label.provider}.zip").write_bytes(b"PK nonsense")
    with pytest.raises(DocumentError, match="cannot be read"):
        files.fit_of.__wrapped__(label)


@pytest.mark.parametrize("label", EVERY[::450])
def test_a_fit_that_is_kept_is_that_of_the_archive(
    label: FitLabel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOFLINE_CACHE", str(tmp_path))
    fits = [unpack(label, files.stored(label)), files.fit_of.__wrapped__(label)]
    monkeypatch.setattr(files, "stored", lambda label: pytest.fail("the archive is read again"))
    fits.append(files.fit_of.__wrapped__(label))
    assert len({pack(fit) for fit in fits}) == len({fit.model.digest for fit in fits}) == 1


def test_a_fit_that_is_kept_goes_with_its_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    label = EVERY[0]
    shipped = files.path_of(label).read_bytes()
    monkeypatch.setenv("ROOFLINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(files, "folder", lambda: tmp_path)
    archive = tmp_path / label.device / f"{label.provider}.zip"
    archive.parent.mkdir()
    archive.write_bytes(shipped)
    assert files.fit_of.__wrapped__(label).label == label
    archive.write_bytes(shipped[: len(shipped) // 2])
    for remembered in (files._fingerprint, files._archive):  # as in the next run
        remembered.cache_clear()
    with pytest.raises(DocumentError, match="cannot be read"):
        files.fit_of.__wrapped__(label)


def groups(kind: str) -> list[RowGroup]:
    (name,) = FILES[kind]
    rows = measured(name.removeprefix("v2/"))
    return list(READERS[kind](prepared(kind, rows, "")[0]))


@pytest.mark.slow
@needs(*(file(FILES[kind][0].removeprefix("v2/")) for kind in HELD))
@pytest.mark.parametrize("kind", HELD)
def test_fits_predict_the_rows_they_were_fitted_to(kind: str) -> None:
    for group in groups(kind):
        if len(group) < 1000:
            continue
        known = shipped(kind, group)
        assert "transferred" not in known.basis
        assert errors(known.seconds, group.measured).median < 0.06, group.name
        assert 0.7 < coverage(known.seconds, known.log_sd, group.measured) < 0.99
        assert np.all(known.log_sd > 0)
