"""Readings of hardware that lies are said, and change no fit."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roofline.bench.calibrating import fit_records, trusted
from roofline.bench.probe import points
from roofline.bench.recorder import begin
from roofline.bench.records import Record, Records, read_records
from roofline.errors import InputError
from roofline.records import replace
from tests.bench.probes import loaded, measurement, probe
from tests.bench.test_calibrating import PUBLISHED, header, planted

ROWS = [replace(row, clocks={"sm_hz": 1.7e9}) for row in planted("rmsnorm", 0.02)]
LIES: Mapping[str, tuple[dict[str, Any], str]] = {
    "a clock that stood still": ({"samples": (1e-12,)}, "faster than the device can be"),
    "a clock that ran away": ({"samples": (1e6,)}, "slower than any kernel is"),
    "a throttled clock": (
        {"stopped": "slowed", "dropped": {"power cap, temperature": 20}},
        "throttled by heat or by the board",
    ),
    "a brake": ({"stopped": "slowed", "dropped": {"power brake": 9}}, "throttled by heat"),
    "a low clock without a reason": ({"clocks": {"sm_hz": 0.3e9}}, "at a clock that nothing"),
    "a clock of nothing": ({"clocks": {"sm_hz": 0.0}}, "at a clock that nothing explains"),
    "another process": ({"clocks": {"sm_hz": 1.7e9, "others": 1.0}}, "beside other processes"),
}
GPU = replace(PUBLISHED, machine=replace(PUBLISHED.machine, l2_bytes_per_s=1e12))


def asked(rows: list[Record], **about: str) -> tuple[list[Record], list[str]]:
    found = header("rmsnorm")
    environment = {**found.environment, **about}
    return trusted(Records(found.model_copy(update={"environment": environment}), tuple(rows)), GPU)


@pytest.mark.parametrize("lie", LIES)
def test_a_reading_that_cannot_be_is_said_and_kept_out(lie: str) -> None:
    change, said = LIES[lie]
    rows = [replace(row, **change) if place % 5 == 0 else row for place, row in enumerate(ROWS)]
    kept, (note,) = asked(rows)
    assert kept == [row for place, row in enumerate(ROWS) if place % 5]
    assert note.startswith(f"{len(ROWS[::5])} points are kept out of the fit: ")
    assert said in note


def test_launches_among_graphs_are_kept_out() -> None:
    rows = [replace(row, replayed=place % 7 != 0) for place, row in enumerate(ROWS)]
    kept, (note,) = asked(rows)
    assert kept == [row for row in rows if row.replayed]
    assert "launched one by one" in note


def test_honest_rows_are_all_taken_and_nothing_is_said() -> None:
    assert asked(ROWS) == (ROWS, [])
    held = [replace(row, stopped="slowed", dropped={"power cap": 9}) for row in ROWS]
    assert asked(held) == (held, [])
    assert asked([replace(row, clocks={}) for row in ROWS])[1] == []


@pytest.mark.slow
def test_a_fit_is_as_if_what_lies_had_not_been_measured() -> None:
    lying = [replace(row, point=f"{row.point}+", samples=(1e6,)) for row in ROWS]
    (one,), notes = fit_records(Records(header("rmsnorm"), (*ROWS, *lying)), PUBLISHED)
    (other,), silent = fit_records(Records(header("rmsnorm"), tuple(ROWS)), PUBLISHED)
    assert one.model.constants == other.model.constants
    assert (one.model.rows, one.model.spread) == (other.model.rows, other.model.spread)
    assert notes == [f"{len(ROWS)} points are kept out of the fit: 24 slower than any kernel is."]
    assert silent == []


def test_a_probe_whose_rows_all_lie_has_no_fit() -> None:
    rows = tuple(replace(row, samples=(1e6,)) for row in ROWS)
    fits, notes = fit_records(Records(header("rmsnorm"), rows), PUBLISHED)
    assert fits == []
    assert notes[-1] == "rmsnorm is measured, not fitted: no point can be trusted."


def test_a_slice_of_a_device_is_refused_and_a_whole_one_with_mig_is_not() -> None:
    with pytest.raises(InputError, match=r"a slice with 0 of the 1 multiprocessors .*MIG is on"):
        asked(ROWS, mig="on", multiprocessors="0")
    kept, notes = asked(ROWS, mig="on", multiprocessors="1", ecc="off")
    assert (kept, notes) == (ROWS, ["Memory was measured with ECC off."])


@pytest.mark.parametrize("value", [float("nan"), -0.5, 0.0, float("inf"), -float("inf")])
def test_times_that_are_none_do_not_count_and_are_measured_again(
    tmp_path: Path, value: float
) -> None:
    places = list(points(probe()))[:3]
    about = {"machine": "toy", "threads": "1", "date": "2025-01-01"}
    recorder = begin(tmp_path, "numpy", about, [loaded(probe())])
    for number, point in enumerate(places):
        recorder.keep(measurement(point, 0.5, value if number == 1 else 0.25, 1.0, stopped="time"))
    found = read_records(tmp_path)
    assert [row.point for row in found.rows] == [places[0].name, places[2].name]
    assert found.notes == ("1 points have times that are none, not above zero: they do not count.",)
    again = begin(tmp_path, "numpy", about, [loaded(probe())])
    assert places[1].name not in again.done
    again.keep(measurement(places[1], 0.5, 0.25, 1.0, stopped="time"))
    found = read_records(tmp_path)
    assert sorted(row.point for row in found.rows) == sorted(place.name for place in places)
    assert all(np.isfinite(row.samples).all() for row in found.rows)
