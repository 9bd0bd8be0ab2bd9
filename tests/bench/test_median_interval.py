"""The interval of a median holds what it says, on any distribution, and the rule stops on it."""

import numpy as np
import pytest
from scipy.stats import binom

from roofline.bench.stopping import Stop, median, rank_of_interval, reason


@pytest.mark.parametrize("count", [6, 7, 10, 11, 25, 100, 501])
def test_the_rank_is_the_largest_that_misses_in_one_of_twenty(count: int) -> None:
    rank = rank_of_interval(count)
    missed = [2.0 * binom.cdf(r - 1, count, 0.5) for r in (rank, rank + 1)]
    assert missed[0] <= 0.05 < missed[1]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_few_samples_have_their_extremes_as_interval(count: int) -> None:
    found = median([float(i) for i in range(count)])
    assert (found.low, found.high) == (0.0, count - 1.0)


@pytest.mark.parametrize("count", [10, 31, 100])
def test_the_interval_holds_the_median_of_a_skewed_distribution(count: int) -> None:
    rng = np.random.default_rng(count)
    draws = rng.lognormal(0.0, 1.5, (4000, count))
    found = [median(row.tolist()) for row in draws]
    held = np.mean([one.low <= 1.0 <= one.high for one in found])
    assert 0.945 < held < 0.99


def test_an_interval_does_not_depend_on_the_order_or_the_unit() -> None:
    samples = np.random.default_rng(0).lognormal(size=40)
    first, second = median(samples.tolist()), median(np.sort(samples)[::-1].tolist())
    scaled = median((8.0 * samples).tolist())
    assert first == second
    assert (scaled.low, scaled.value, scaled.high) == tuple(
        8.0 * end for end in (first.low, first.value, first.high)
    )


def test_an_interval_within_one_percent_is_enough() -> None:
    within = [0.99, 1.0, 1.0, 1.0, 1.01] * 4
    beyond = [0.98, 1.0, 1.02] * 7
    assert reason(within, 0.0, Stop()) == "converged"
    assert reason(beyond, 0.0, Stop()) == ""
    assert reason(beyond, 0.0, Stop(relative=0.03)) == "converged"


def test_ten_samples_are_taken_whatever_they_cost() -> None:
    assert reason([1.0] * 9, 100.0, Stop()) == ""


def test_a_rule_says_whether_time_or_samples_ran_out() -> None:
    wide = [1.0, 2.0] * 10
    assert reason(wide, 1.0, Stop(budget_s=1.0)) == "time"
    assert reason(wide, 0.0, Stop(most=20)) == "samples"
