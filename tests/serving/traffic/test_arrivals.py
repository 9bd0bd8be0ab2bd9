"""Arrivals of requests: the gaps of each process against its closed form."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from roofline.errors import InputError
from roofline.serving.traffic.traffic import Bursty, Closed, Even, Poisson, RecordedArrivals, gaps

EVEN = (np.arange(100_000) + 0.5) / 100_000


def test_gaps_of_a_poisson_process_are_exponential() -> None:
    made = gaps(Poisson(4.0), EVEN, 0)
    assert stats.kstest(made, stats.expon(scale=0.25).cdf).statistic < 1e-4


@pytest.mark.parametrize("cv", [0.2, 0.5, 1.0, 2.0, 4.0])
def test_gaps_of_bursts_have_the_rate_and_the_spread_asked_for(cv: float) -> None:
    made = gaps(Bursty(4.0, cv), EVEN, 0)
    assert made.mean() == pytest.approx(0.25, rel=5e-3)
    assert made.std() / made.mean() == pytest.approx(cv, rel=2e-2)


@pytest.mark.slow
def test_bursts_of_spread_one_are_poisson() -> None:
    assert gaps(Bursty(4.0, 1.0), EVEN, 0) == pytest.approx(gaps(Poisson(4.0), EVEN, 0))


@pytest.mark.slow
def test_more_bursts_at_the_same_rate_leave_shorter_gaps_in_the_middle() -> None:
    medians = [float(np.median(gaps(Bursty(1.0, cv), EVEN, 0))) for cv in (0.5, 1.0, 2.0, 4.0)]
    assert medians == sorted(medians, reverse=True)


def test_a_recording_starts_at_once_and_comes_again_after_a_mean_gap() -> None:
    seen = RecordedArrivals((10.0, 11.0, 14.0))
    # 2 gaps in 4 s: a mean gap of 2 s between the rounds.
    assert seen.rate == 0.5
    times = np.cumsum(gaps(seen, np.zeros(7), 0)).tolist()
    assert times == [0.0, 1.0, 4.0, 6.0, 7.0, 10.0, 12.0]
    assert np.cumsum(gaps(seen, np.zeros(4), 3)).tolist() == [2.0, 3.0, 6.0, 8.0]


def test_clients_of_a_closed_loop_all_start_at_once() -> None:
    assert gaps(Closed(64), EVEN, 0).max() == 0


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Poisson(0.0), "rate is 0"),
        (lambda: Even(math.inf), "rate is inf"),
        (lambda: Bursty(math.nan, 1.0), "rate is nan"),
        (lambda: Bursty(1.0, 0.0), "coefficient of variation"),
        (lambda: RecordedArrivals((1.0,)), "fewer than two"),
        (lambda: RecordedArrivals((2.0, 1.0)), "out of order"),
        (lambda: RecordedArrivals((2.0, 2.0)), "all at once"),
        (lambda: Closed(0), "concurrency is 0"),
        (lambda: Closed(2.5), "whole number|concurrency is 2.5"),  # type: ignore[arg-type]
    ],
)
def test_arrivals_that_have_no_meaning_are_refused(make: Callable[[], object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        make()
