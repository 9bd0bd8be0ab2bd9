"""Replicas that follow a rate curve, by hand and counted replica by replica."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.errors import InputError
from roofline.records import replace
from roofline.serving.traffic.rate_curve import DAY, RateCurve, hourly, spelled_curve
from roofline.study.plan.day import AFTER, FIXED, FOLLOWS, Day, DayFleet
from roofline.study.plan.day_tables import said
from roofline.study.plan.scaling import (
    PeriodicValues,
    Policy,
    PoolHours,
    ScaledPool,
    by_hours,
    fixed,
    followed,
    late,
    policy_of,
    reserve,
)
from tests.cases import examples

HOUR, MINUTE = 3600.0, 60.0
TWO = spelled_curve("0h 5, 12h 25")
"""Two levels: 1 and 3 replicas of 10 requests a second."""
POOL = ScaledPool(carries=10.0, saturation=12.5, devices=2, start_s=360.0, usd_per_hour=3.0)


def test_two_levels_by_hand() -> None:
    """12 h of one and 12 h of three; two start 6 min before, and two are kept for 5 min."""
    found = followed(TWO, POOL, Policy())
    replica_hours = 12 * 1 + 12 * 3 + 2 * 6 / 60 + 2 * 5 / 60
    assert found.gpu_hours == pytest.approx(2 * replica_hours)
    assert found.paid.at(np.array([60.0, 11.8 * HOUR, 11.95 * HOUR, 20 * HOUR])).tolist() == [
        3,
        1,
        3,
        3,
    ]
    assert found.ready.at(np.array([11.99 * HOUR, 12 * HOUR])).tolist() == [1, 3]
    assert late(TWO, [found]).share == 0.0


def test_who_does_not_look_ahead_is_late_by_a_start_and_until_the_queue_is_gone() -> None:
    """Half of 25 requests a second go for 360 s: 4,500 wait, and leave at 37.5 − 25 a second."""
    found = followed(TWO, POOL, Policy(look_ahead_s=0.0))
    gone = late(TWO, [found])
    waiting = (25.0 - 12.5) * 360.0
    assert gone.backlog.max() == pytest.approx(waiting)
    assert gone.late.sum() == pytest.approx(25.0 * (360.0 + waiting / (3 * 12.5 - 25.0)))


def test_a_start_that_is_longer_than_the_rise_is_late_at_every_step_of_it() -> None:
    """Rates rise by the minute, replicas come 10 min after each step: all but one step are late."""
    rise = spelled_curve("0h 5, 12h 15, 12:01 25, 12:02 35, 18h 5")
    pool = ScaledPool(10.0, 1e9, 1, 600.0)
    found = followed(rise, pool, Policy(look_ahead_s=0.0))
    times = 12 * HOUR + MINUTE * np.array([9.5, 10.5, 11.5, 12.5])
    assert found.paid.at(times).tolist() == [4, 4, 4, 4]
    assert found.ready.at(times).tolist() == [1, 2, 3, 4]
    gone = late(rise, [found])
    # From the first step until the last replica serves, 12 min later.
    assert gone.late.sum() == pytest.approx(15 * 60 + 25 * 60 + 35 * 600)


def test_a_look_ahead_as_long_as_a_start_is_never_late() -> None:
    curve = hourly(tuple(float(5 + 17 * (hour % 5)) for hour in range(24)))
    for start in (0.0, 30.0, 5_000.0):
        pool = ScaledPool(10.0, 10.0, 1, start)
        assert late(curve, [followed(curve, pool, Policy())]).share == 0.0


def test_the_least_and_the_most_replicas_hold() -> None:
    found = followed(TWO, POOL, Policy(least=2, most=2))
    assert set(found.paid.values) == {2.0}
    assert found.gpu_hours == 2 * 24 * 2
    # 25 a second come for half of the day, and two replicas carry 20.
    assert late(TWO, [found]).late.sum() == pytest.approx(25.0 * DAY / 2)


def test_nobody_asks_and_nothing_runs_where_that_is_allowed() -> None:
    night = spelled_curve("0h 0, 8h 5")
    found = followed(night, POOL, Policy(least=0), spares=1)
    assert found.paid.at(np.array([4 * HOUR])).tolist() == [0]
    assert found.paid.at(np.array([12 * HOUR])).tolist() == [2]
    assert late(night, [found]).share == 0.0


def test_spares_and_headroom_are_those_of_a_plan() -> None:
    found = followed(TWO, POOL, Policy(), headroom=0.3, spares=1)
    # ⌈6.5 / 10⌉ + 1 and ⌈32.5 / 10⌉ + 1
    assert found.paid.at(np.array([6 * HOUR, 18 * HOUR])).tolist() == [2, 5]


def test_a_number_that_simulation_refused_has_one_more() -> None:
    pool = ScaledPool(10.0, 12.5, 1, 0.0, refused=frozenset({1}))
    assert followed(TWO, pool, Policy()).paid.at(np.array([6 * HOUR, 18 * HOUR])).tolist() == [2, 3]


def counted(need: list[int], start: int, ahead: int, keep: int) -> tuple[list[int], list[int]]:
    """Replicas that are paid for and that serve in each minute, each replica by itself.

    A replica is switched on when it will be needed within the look-ahead, and off when it has not
    been needed for the cool-down; it serves when it has been on for its start.
    """
    period, rounds = len(need), 3
    paid, ready = [0] * period, [0] * period
    for replica in range(1, max(need) + 1):
        on_since: int | None = None
        for minute in range(rounds * period):
            wanted = any(
                need[(minute + other) % period] >= replica for other in range(-keep, ahead + 1)
            )
            if wanted and on_since is None:
                # Before the first minute it was on for ever, if it is always on.
                on_since = minute if minute else -(10**6) * (min(need) >= replica)
            if not wanted:
                on_since = None
            if minute >= (rounds - 1) * period and on_since is not None:
                paid[minute % period] += 1
                ready[minute % period] += minute - on_since >= start
    return paid, ready


@given(
    need=st.lists(st.integers(1, 5), min_size=24, max_size=24),
    start=st.integers(0, 150),
    ahead=st.integers(0, 150),
    keep=st.integers(0, 150),
)
@settings(max_examples=examples(12), deadline=None)
@pytest.mark.slow
def test_replicas_are_those_counted_minute_by_minute(
    need: list[int], start: int, ahead: int, keep: int
) -> None:
    curve = hourly(tuple(10.0 * each for each in need))
    minutes = [each for each in need for _ in range(60)]
    paid, ready = counted(minutes, start, ahead, keep)
    pool = ScaledPool(10.0, 12.5, 1, start * MINUTE)
    found = followed(curve, pool, Policy("", ahead * MINUTE, keep * MINUTE))
    middle = np.arange(0.5, len(minutes)) * MINUTE
    assert found.paid.at(middle).tolist() == paid
    assert found.ready.at(middle).tolist() == ready
    assert found.gpu_hours == pytest.approx(sum(paid) / 60.0)


@given(st.lists(st.floats(0.0, 60.0), min_size=24, max_size=24), st.floats(0.0, 4_000.0))
@settings(max_examples=examples(30), deadline=None)
def test_requests_are_conserved(rates: list[float], start: float) -> None:
    """Every request is served or waits; no more are late than came."""
    rates[3] = 1.0
    curve = hourly(tuple(rates))
    pool = ScaledPool(10.0, 12.0, 1, start)
    hours = followed(curve, pool, Policy(look_ahead_s=0.0, cool_down_s=0.0))
    found = late(curve, [hours])
    assert found.requests.sum() == pytest.approx(curve.rate * DAY)
    assert (found.late <= found.requests * (1 + 1e-12)).all()
    seconds = np.diff(np.append(found.starts_s, DAY))
    most = hours.ready.at(found.starts_s) * pool.saturation * seconds
    before = np.concatenate([found.backlog[-1:], found.backlog[:-1]])
    served = before + found.requests - found.backlog
    assert (served[1:] <= most[1:] * (1 + 1e-9) + 1e-6).all()
    assert (served[1:] >= -1e-6).all()


def test_a_queue_is_that_of_a_loop_over_seconds() -> None:
    curve = spelled_curve("0h 5, 6h 38, 7h 12, 20h 31")
    pool = ScaledPool(10.0, 11.0, 1, 900.0)
    hours = followed(curve, pool, Policy(look_ahead_s=120.0))
    found = late(curve, [hours])
    ready = hours.ready.at(np.arange(0.5, DAY))
    rates = curve.at(np.arange(0.5, DAY))
    queue, outside = 0.0, 0.0
    for second in range(int(DAY)):
        after = max(queue + rates[second] - 11.0 * ready[second], 0.0)
        if queue > 0 or after > 0 or rates[second] > 10.0 * ready[second]:
            outside += rates[second]
        queue = after
    assert found.late.sum() == pytest.approx(outside, rel=2e-3)


@pytest.mark.parametrize("held", [0.1, 0.5, 0.99, 1.5, 2.0, 2.6, 2.999, 3.0, 4.0])
def test_what_is_reserved_costs_least_of_all_numbers(held: float) -> None:
    curve = hourly(tuple(float(1 + (7 * hour) % 47) for hour in range(24)))
    pool = ScaledPool(10.0, 12.5, 2, 0.0, usd_per_hour=3.0, reserved_usd_per_hour=held)
    hours = followed(curve, pool, Policy(cool_down_s=0.0))
    number, cost = reserve(hours)
    paid = [int(np.ceil(rate / 10.0)) for rate in curve.rates]
    costs = {
        2 * reserved: sum(2 * (held * reserved + 3.0 * max(each - reserved, 0)) for each in paid)
        for reserved in range(max(paid) + 2)
    }
    assert cost == pytest.approx(min(costs.values()))
    assert costs[number] == pytest.approx(cost)


def test_nothing_is_reserved_at_no_price_for_it() -> None:
    hours = fixed(TWO, POOL, 3)
    assert reserve(hours) == (0, 24 * 3 * 2 * 3.0)


def test_hours_have_the_time_in_them() -> None:
    found = by_hours(np.array([0.0, 1800.0, 7200.0]), np.array([1.0, 2.0, 3.0]), 3 * HOUR)
    assert found.tolist() == [1800 * 1 + 1800 * 2, 3600 * 2, 3600 * 3]


def test_two_pools_are_late_where_either_is_short() -> None:
    steps = PeriodicValues(np.array([0.0, 12 * HOUR]), np.array([1.0, 3.0]), DAY)
    enough, short = (
        PoolHours(POOL, steps, steps),
        PoolHours(POOL, *(PeriodicValues(np.zeros(1), np.ones(1), DAY),) * 2),
    )
    assert late(TWO, [enough, enough]).share == 0.0
    assert late(TWO, [enough, short]).late.sum() == late(TWO, [short]).late.sum() > 0


def test_longer_look_ahead_and_cool_down_never_cost_less() -> None:
    curve = hourly(tuple(float(1 + (7 * hour) % 47) for hour in range(24)))
    times = (0.0, 100.0, 4_000.0, 2 * DAY)
    for policies in (
        [Policy(look_ahead_s=each) for each in times],
        [Policy(cool_down_s=each) for each in times],
    ):
        costs = [followed(curve, POOL, each).gpu_hours for each in policies]
        assert all(one <= other for one, other in pairwise(costs))
        assert costs[-1] == 24 * 2 * 5  # ⌈47 / 10⌉ at all times


@pytest.mark.parametrize(
    "text", ["mim=2", "min", "min=x", "cool-down=5 parsecs", "min=-1", "max=0", "min=3,max=2"]
)
def test_a_policy_with_other_words_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        policy_of(text)


def test_a_policy_is_read() -> None:
    text = "start=90s, look-ahead=2min, cool-down=10min, min=2, max=8"
    assert policy_of(text) == Policy("90s", 120.0, 600.0, 2, 8)
    assert policy_of("") == Policy()


def test_a_curve_of_one_rate_is_a_fixed_fleet() -> None:
    flat = RateCurve((0.0,), (25.0,))
    found = followed(flat, POOL, Policy())
    assert found.gpu_hours == fixed(flat, POOL, 3).gpu_hours == 24 * 3 * 2


def fleet(name: str, hours: PoolHours) -> DayFleet:
    return DayFleet(name, (hours,), late(TWO, [hours]))


def test_the_sentence_names_a_deployment_that_follows_the_load_for_less() -> None:
    """Replicas of one device that carry half as much, and so fewer devices at night."""
    still = fleet(FIXED, fixed(TWO, POOL, 3))
    moves = fleet(FOLLOWS, followed(TWO, POOL, Policy(cool_down_s=0.0, look_ahead_s=0.0)))
    fine = ScaledPool(5.0, 6.0, 1, 0.0, usd_per_hour=3.0)
    finer = fleet(f"tp1 × 5{AFTER}", followed(TWO, fine, Policy(cool_down_s=0.0)))
    nothing: Any = None
    day = Day(TWO, nothing, (), Policy(), (), (still, moves, finer))
    # 2 · (12 · 1 + 12 · 3) and 12 · 1 + 12 · 5, of 2 · 24 · 3
    text = said(day)
    assert "takes 96.0 GPU hours a day of 144, $288.00 of $432.00 on demand" in text
    assert "tp1 × 5 follows the load for less: 72.0 GPU hours a day" in text
    assert "for less" not in said(replace(day, fleets=(still, moves)))
