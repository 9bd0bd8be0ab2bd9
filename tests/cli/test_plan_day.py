"""``roofline plan --rate-curve``: a fleet that follows the load, beside one for the peak."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

import roofline
from roofline import api
from roofline.cli import run
from roofline.report.sections.fleet_by_load import build
from roofline.table import Result
from tests.cli.once import once
from tests.cli.planned import SMALL, Command, rows

PLANNED = once(api.plan)
DAY = f"{SMALL} --gpus 8 --aggregated --rate-curve '0h 20, 9h 400, 18h 200'"
PAID = f"{DAY} --price 3 --reserved-price 2 --format json"


@pytest.fixture
def printing(cli: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A command whose plan is made once for all tests of what is printed."""
    monkeypatch.setattr(api, "plan", PLANNED)
    return cli


@pytest.mark.slow
def test_tables_by_hour_hold_together(printing: Command) -> None:
    result = printing(PAID).result
    still, moves, reacts, *others = rows(result, "fleets")
    (best,) = rows(result, "verdict")
    assert best["rate_per_s"] == 400.0
    assert still["gpu_hours_per_day"] == 24 * best["gpus"] == 24 * still["most_gpus"]
    assert still["usd_per_day"] == 3 * still["gpu_hours_per_day"]
    assert still["reserved_usd_per_day"] == 2 * still["gpu_hours_per_day"]
    assert moves["gpu_hours_per_day"] < still["gpu_hours_per_day"]
    assert moves["late_share"] == still["late_share"] == 0.0 < reacts["late_share"]
    assert {row["fleet"] for row in others} == {
        f"{row['shape']}, follows" for row in rows(result, "runners_up")
    }
    hours = rows(result, "by_hour")
    assert [row["from_h"] for row in hours] == [0, *(row["to_h"] for row in hours[:-1])]
    assert hours[-1]["to_h"] == 24
    assert sum(row["gpu_hours"] for row in hours) == pytest.approx(moves["gpu_hours_per_day"])
    came = sum(row["rate_per_s"] * (row["to_h"] - row["from_h"]) for row in hours)
    assert came == pytest.approx(9 * 20 + 9 * 400 + 6 * 200)
    busy = next(row for row in hours if row["rate_per_s"] == 400.0)
    assert busy["replicas"] == best["instances"]
    assert all(0 < row["load"] <= 1 for row in hours)
    assert max(row["ttft_s"] for row in hours) <= 0.2


@pytest.mark.slow
def test_what_is_paid_is_the_sum_over_the_hours_of_the_start_and_the_cool_down(
    printing: Command,
) -> None:
    """Two rises, two falls: replicas start before, and are kept for 5 min after."""
    result = printing(PAID).result
    (best,) = rows(result, "verdict")
    hours = rows(result, "by_hour")
    night, noon, evening = (
        min(row["replicas"] for row in hours if row["rate_per_s"] == rate)
        for rate in (20.0, 400.0, 200.0)
    )
    assert night < evening < noon
    starts = next(row["value"] for row in rows(result, "assumptions") if "start of" in row["what"])
    start_s = float(starts.split(" s:")[0])
    whole = 9 * night + 9 * noon + 6 * evening
    more = (noon - night) * start_s / 3600 + (noon - evening + evening - night) * 300 / 3600
    devices = best["gpus"] / best["instances"]
    assert rows(result, "fleets")[1]["gpu_hours_per_day"] == pytest.approx(
        devices * (whole + more), 1e-4
    )


@pytest.mark.slow
def test_sentence_table_and_page_say_the_same(printing: Command, tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    out = " ".join(printing(f"{DAY} --price 3 --reserved-price 2 --report {page}").out.split())
    assert "A fleet that follows the load takes" in out
    assert "A fleet that follows the load, by hour" in out
    assert "at the peak of a day" in out
    assert "Over the rate curve" in page.read_text()
    result = planned()
    block = next(build(result))
    (figure,) = block.figures
    moves = result.rows("fleets")[1]["gpu_hours_per_day"]
    assert f"{moves:.3g} GPU hours in 24 hours" in figure.summary


def planned() -> Result:
    """The plan of `DAY`, which was made before."""
    return PLANNED(
        "llama-3.1-8b",
        calibration="none",
        prompt=400,
        output="20..40",
        requests=600,
        slo="ttft=200ms,tpot=20ms",
        gpus=8,
        disaggregated=False,
        rate_curve="0h 20, 9h 400, 18h 200",
        usd_per_hour=3.0,
        reserved_price=2.0,
    )


@pytest.mark.slow
def test_a_workload_with_a_curve_is_planned_as_the_curve(tmp_path: Path) -> None:
    lengths = "{kind: constant, tokens: {value: 100 token, source: assumed, note: a guess}}"
    path = tmp_path / "mine.yaml"
    path.write_text(
        f"schema_version: 1\nname: mine\ntitle: Mine\nprompt: {lengths}\noutput: {lengths}\n"
        "arrivals: {kind: curve, rates: '0h 20, 9h 90', source: assumed, note: a guess}\n"
    )
    asked: dict[str, Any] = {"calibration": "none", "requests": 300, "disaggregated": False}
    one = roofline.plan(gpus=4, workload=str(path), **asked)
    other = roofline.plan(
        gpus=4, prompt=100, output=100, rate_curve="0h 20, 9h 90", slo="", **asked
    )
    assert one.tables["by_hour"] == other.tables["by_hour"]
    assert not one.metadata["simulation"]  # no option has the curve of a workload at its peak
    assert "--rate 90" in other.metadata["simulation"]


@pytest.mark.slow
def test_a_plan_of_one_rate_has_no_hours(printing: Command) -> None:
    result = printing(f"{SMALL} --gpus 2 --rate 20 --aggregated --format json").result
    assert not {"fleets", "by_hour"} & set(result["tables"])
    assert "follows the load" not in json.dumps(result)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("--rate-curve '0h 5, 9h x'", "a rate of 'x'"),
        ("--rate-curve '1,2,3'", "3 hourly rates"),
        ("--rate-curve chat", "no rate curve"),
        ("--rate-curve nope.csv", "does not exist"),
        ("--rate-curve '0h 5' --cv 2", "--cv"),
        ("--rate-curve '0h 5' --scaling mim=2", "mim=2"),
        ("--rate-curve '0h 5' --scaling start=disk", "start=disk"),
        ("--rate-curve '0h 5' --reserved-price -1", "price"),
        ("--rate 5 --scaling min=2", "--scaling"),
        ("--rate 5 --reserved-price 2", "--reserved-price"),
    ],
)
def test_what_cannot_be_is_one_error_with_a_hint(
    line: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(shlex.split(f"{SMALL} {line}")) == 2
    error = capsys.readouterr().err
    assert says in error
    assert "hint:" in error
    assert "Traceback" not in error
