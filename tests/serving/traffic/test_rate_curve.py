"""Rates that change over a day: reading them, drawing by them, reading them off a recording."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.api.workload import OfferedLoad, changed, curve_of
from roofline.errors import DocumentError, InputError
from roofline.serving.traffic.draw import draw, stream
from roofline.serving.traffic.lengths import ConstantLength
from roofline.serving.traffic.presets import traffic_named
from roofline.serving.traffic.rate_curve import (
    DAY,
    WEEK,
    RateCurve,
    hourly,
    recorded_curve,
    spelled_curve,
)
from roofline.serving.traffic.traffic import Poisson, Traffic, Turns, number

HOUR = 3600.0
THREE = spelled_curve("0h 0.05, 9h 0.4, 18h 0.2")


def test_rates_hold_from_their_time_until_the_next() -> None:
    times = np.array([0.0, 8.99, 9.0, 17.99, 18.0, 23.99, 24.0, 33.0]) * HOUR
    assert THREE.at(times).tolist() == [0.05, 0.05, 0.4, 0.4, 0.2, 0.2, 0.05, 0.4]
    assert THREE.rate == pytest.approx((9 * 0.05 + 9 * 0.4 + 6 * 0.2) / 24)


def test_before_the_first_time_the_last_rate_holds() -> None:
    assert spelled_curve("6h 1, 22:30 2") == RateCurve((0, 6 * HOUR, 22.5 * HOUR), (2, 1, 2), DAY)


def test_24_and_168_rates_are_a_day_and_a_week() -> None:
    text = ",".join(str(1 + hour) for hour in range(24))
    assert spelled_curve(text).at(np.array([5.5 * HOUR])).tolist() == [6.0]
    assert spelled_curve(",".join(["1"] * 167 + ["2"])).period_s == WEEK
    assert spelled_curve("0h 1, 30h 2").period == "week"


@pytest.mark.parametrize(
    "text",
    [
        *("", "1,2,3", "0h 5, 9h", "0h 5 6", "0h five", "9h 5, 8h 4", "0h 5, 0h 6", "0h -1"),
        *("0h 0", "0h 1, 200h 2", "9 40", "0h nan", "0h inf", "25:61 3"),
    ],
)
def test_what_is_no_curve_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        spelled_curve(text)


@given(
    st.lists(st.sampled_from([0.0, 0.5, 1.0, 30.0]), min_size=24, max_size=24),
    st.floats(0, 3e6),
)
def test_as_many_requests_are_expected_until_a_time_as_at_the_mean_rate(
    rates: list[float], even: float
) -> None:
    """Λ(Λ⁻¹(x)) = x, summed hour by hour."""
    rates[7] = 2.0
    curve = hourly(tuple(rates))
    (time,) = curve.times(np.array([even])).tolist()
    hours = int(time // HOUR)
    expected = sum(rates[hour % 24] * HOUR for hour in range(hours))
    expected += rates[hours % 24] * (time - hours * HOUR)
    assert expected == pytest.approx(curve.rate * even, rel=1e-9, abs=1e-6)


def test_each_stretch_has_as_many_requests_as_its_rate_says() -> None:
    """Counts of 20 days are Poisson: within five standard deviations of their means."""
    made = draw(
        Traffic(ConstantLength(8), ConstantLength(2), THREE, requests=20 * number(at(THREE))), 3
    )
    hours = np.bincount((made.arrival % DAY // HOUR).astype(int), minlength=24)
    expected = 20 * HOUR * THREE.at(np.arange(0.0, DAY, HOUR))
    off = (hours - expected) / np.sqrt(expected)
    assert np.abs(off).max() < 5.0
    # Neither too even nor too uneven: chi-squared with 24 degrees.
    assert 8.0 < float(off @ off) < 50.0


def at(curve: RateCurve) -> Traffic:
    return Traffic(arrivals=curve)


def test_a_workload_is_as_long_as_the_period() -> None:
    assert number(at(THREE)) == round(THREE.rate * DAY)
    last = draw(at(THREE), 1).arrival[-1]
    assert last == pytest.approx(DAY, rel=0.05)


def test_nobody_comes_where_the_rate_is_0() -> None:
    curve = spelled_curve("0h 0, 8h 0.5, 9h 0, 20h 0.1, 22h 0")
    rates = curve.at(draw(Traffic(arrivals=curve, requests=5000), 2).arrival)
    assert (rates > 0).all()


def test_a_curve_of_one_rate_is_a_poisson_process() -> None:
    flat, steady = (
        draw(Traffic(arrivals=each, requests=500), 4)
        for each in (RateCurve((0.0,), (3.0,)), Poisson(3.0))
    )
    np.testing.assert_allclose(flat.arrival, steady.arrival)
    assert flat.prompt.tolist() == steady.prompt.tolist()


def test_chunks_are_the_same_as_the_whole_and_sessions_start_by_the_curve() -> None:
    traffic = Traffic(arrivals=THREE, turns=Turns(ConstantLength(3), think_s=5.0), requests=600)
    parts = np.concatenate([each.arrival for each in stream(traffic, 5, chunk=37)])
    np.testing.assert_allclose(parts, draw(traffic, 5).arrival)
    assert draw(traffic, 5).arrival.tolist() != draw(traffic, 6).arrival.tolist()


def test_a_recording_of_two_days_gives_the_mean_of_its_hours() -> None:
    """Every hour h has 10 + h requests on the first day, and 30 + h on the second."""
    times = [
        (day * 24 + hour) * HOUR + HOUR * (place + 0.5) / count
        for day in range(2)
        for hour in range(24)
        for count in [10 + 20 * day + hour]
        for place in range(count)
    ]
    times[-1] = 2 * DAY - 1e-6  # the recording lasts until the end of its last hour
    curve = recorded_curve(np.array(times), "mine")
    assert curve.period_s == DAY
    assert np.array(curve.rates) * HOUR == pytest.approx([20.0 + hour for hour in range(24)])
    assert curve.rate * DAY * 2 == pytest.approx(len(times))


def test_a_week_is_kept_and_less_than_a_day_is_refused() -> None:
    assert recorded_curve(np.arange(0.0, WEEK, 60.0), "mine").period_s == WEEK
    with pytest.raises(InputError, match="mine lasts 5 h"):
        recorded_curve(np.arange(0.0, 5 * HOUR + 1, 60.0), "mine")


def test_a_workload_says_its_curve(tmp_path: Path) -> None:
    text = (
        "schema_version: 1\nname: mine\ntitle: Mine\n"
        "prompt: {kind: constant, tokens: {value: 10 token, source: assumed, note: n}}\n"
        "output: {kind: constant, tokens: {value: 10 token, source: assumed, note: n}}\n"
        "arrivals: {kind: curve, rates: '0h 5, 9h 40', source: assumed, note: n}\n"
    )
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    wanted = spelled_curve("0h 5, 9h 40")
    assert traffic_named(str(path)).arrivals == wanted
    assert curve_of(path) == wanted
    # At another rate its mean is that one.
    paced = changed(OfferedLoad(workload=str(path), rate=10.0)).arrivals
    assert isinstance(paced, RateCurve)
    assert paced.rate == pytest.approx(10.0)
    assert paced.peak / paced.rate == pytest.approx(wanted.peak / wanted.rate)
    path.write_text(text.replace("9h 40", "9h x"))
    with pytest.raises(DocumentError, match=r"mine\.yaml"):
        traffic_named(str(path))


def test_a_trace_gives_its_curve(tmp_path: Path) -> None:
    path = tmp_path / "day.csv"
    rows = [f"{second},10,5" for second in range(0, int(DAY), 50)]
    path.write_text("\n".join(["arrival_s,prompt,output", *rows]))
    assert np.array(curve_of(path).rates) == pytest.approx([0.02] * 24, rel=0.02)


def test_what_would_change_nothing_beside_a_curve_is_refused() -> None:
    from roofline.api.workload import drawn

    for other in ({"concurrency": 4}, {"cv": 2.0}, {"trace": "some.csv"}):
        with pytest.raises(InputError):
            drawn(OfferedLoad(rate_curve="0h 1", **other), 0, 16)
