"""The interval of the median, by counting coin throws, and the reasons to stop."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.bench.stopping import (
    CONVERGED,
    OUT_OF_SAMPLES,
    OUT_OF_TIME,
    Stop,
    median,
    rank_of_interval,
    reason,
)


@pytest.mark.parametrize("count", [6, 9, 10, 13])
def test_the_rank_is_what_counting_coin_throws_gives(count: int) -> None:
    heads = [sum(throw) for throw in itertools.product((0, 1), repeat=count)]
    misses = [2 * sum(h < r for h in heads) / 2**count for r in range(1, count // 2 + 1)]
    allowed = [r for r, missed in enumerate(misses, 1) if missed <= 0.05]
    assert rank_of_interval(count) == max(allowed)


@pytest.mark.slow
def test_the_rank_of_many_samples_is_near_the_normal_one() -> None:
    for count in (100, 1000, 3000):
        normal = count / 2 - 1.96 * math.sqrt(count) / 2
        assert abs(rank_of_interval(count) - normal) <= 1


def test_the_interval_holds_the_true_median_about_as_often_as_it_says() -> None:
    random = np.random.default_rng(0)
    held = 0
    for _ in range(2000):
        found = median(random.exponential(1.0, 21).tolist())
        held += found.low <= math.log(2.0) <= found.high
    assert 0.95 <= held / 2000 <= 0.99


@given(st.lists(st.floats(min_value=1e-9, max_value=1.0), min_size=1, max_size=60))
def test_the_median_is_inside_its_interval(samples: list[float]) -> None:
    found = median(samples)
    assert min(samples) <= found.low <= found.value <= found.high <= max(samples)
    assert found.value == pytest.approx(float(np.median(samples)))


def test_equal_samples_converge_at_the_least_number() -> None:
    stop = Stop(least=10)
    assert [reason([1.0] * n, 0.0, stop) for n in (1, 9, 10)] == ["", "", CONVERGED]


def test_scattered_samples_stop_with_the_time_and_say_so() -> None:
    stop, samples = Stop(budget_s=0.5, most=40), [1.0, 2.0] * 10
    assert reason(samples, 0.4, stop) == ""
    assert reason(samples, 0.5, stop) == OUT_OF_TIME
    assert reason(samples * 2, 0.1, stop) == OUT_OF_SAMPLES


def test_the_time_does_not_cut_the_least_number_short() -> None:
    assert reason([1.0, 2.0] * 4, 100.0, Stop(least=10)) == ""
