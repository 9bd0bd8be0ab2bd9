"""Lengths of prompts and answers: what is drawn is what was asked for."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from roofline.errors import InputError
from roofline.serving.traffic.lengths import (
    ConstantLength,
    Empirical,
    Lengths,
    Lognormal,
    Uniform,
    drawn,
    mean,
    said,
    spelled,
)
from tests.cases import examples

EVEN = (np.arange(200_000) + 0.5) / 200_000
TOKENS = st.integers(1, 100_000)
DISTRIBUTIONS = st.one_of(
    st.builds(ConstantLength, TOKENS),
    st.tuples(TOKENS, TOKENS).map(lambda both: Uniform(min(both), max(both))),
    st.builds(Lognormal, st.floats(1, 50_000), st.floats(0, 2), TOKENS),
    st.lists(TOKENS, min_size=1, max_size=8).map(lambda seen: Empirical(tuple(sorted(seen)))),
)


@settings(max_examples=examples(100), deadline=None)
@given(DISTRIBUTIONS, st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=20))
def test_a_larger_number_never_gives_a_shorter_length(lengths: Lengths, sent: list[float]) -> None:
    made = drawn(lengths, np.sort(np.array(sent)))
    assert (np.diff(made) >= 0).all()
    assert made.min() >= 1


def test_every_whole_number_of_a_range_is_drawn_equally_often() -> None:
    seen, counts = np.unique(drawn(Uniform(3, 10), EVEN), return_counts=True)
    assert seen.tolist() == list(range(3, 11))
    assert set(counts) == {len(EVEN) // 8}


@pytest.mark.parametrize(("median", "sigma"), [(1020, 0.5), (129, 1.0), (13, 1.24)])
def test_a_lognormal_is_that_of_the_textbook(median: float, sigma: float) -> None:
    made = drawn(Lognormal(median, sigma), EVEN)
    reference = stats.lognorm(s=sigma, scale=median)
    for share in (0.1, 0.5, 0.9, 0.99):
        # Whole tokens: half a token beside the percentile, and the step between two numbers.
        assert abs(np.quantile(made, share) - reference.ppf(share)) <= 0.5 + 0.001 * median


def test_a_lognormal_of_a_mean_has_that_mean_and_median() -> None:
    made = Lognormal.of_mean(129.0, 211.0)
    # E = m·exp(σ²/2), so that σ = sqrt(2·ln(211/129)) = 0.992
    assert made.sigma == pytest.approx(0.99202, abs=1e-5)
    assert mean(made) == pytest.approx(211.0)
    with pytest.raises(InputError, match="below the median"):
        Lognormal.of_mean(211.0, 129.0)


@pytest.mark.parametrize("most", [50, 100, 400, 100_000])
def test_the_mean_of_what_is_cut_is_that_of_the_integral(most: int) -> None:
    reference = stats.lognorm(s=0.9, scale=100.0)
    density = reference.pdf
    below = integrate.quad(lambda x: x * density(x), 0, most, epsrel=1e-10, limit=200)[0]
    assert mean(Lognormal(100.0, 0.9, most)) == pytest.approx(
        below + most * reference.sf(most), rel=1e-7
    )


@settings(max_examples=examples(60), deadline=None)
@given(DISTRIBUTIONS)
def test_the_mean_is_that_of_many_draws(lengths: Lengths) -> None:
    made = float(drawn(lengths, EVEN).mean())
    assert math.isclose(made, mean(lengths), rel_tol=0.02, abs_tol=0.51)


def test_what_was_seen_is_drawn_as_often_as_it_was_seen() -> None:
    seen, counts = np.unique(drawn(Empirical((5, 9, 20), (1, 0, 3)), EVEN), return_counts=True)
    assert seen.tolist() == [5, 20]
    assert (counts / len(EVEN)).tolist() == [0.25, 0.75]


@pytest.mark.parametrize(
    ("make", "said_"),
    [
        (lambda: ConstantLength(0), "length of 0"),
        (lambda: Uniform(5, 4), "from 5 to 4"),
        (lambda: Lognormal(100, math.nan), "sigma"),
        (lambda: Lognormal(math.inf, 1), "length of inf"),
        (lambda: Empirical(()), "no lengths"),
        (lambda: Empirical((5, 4)), "out of order"),
        (lambda: Empirical((4, 5), (1.0,)), "2 lengths and 1 weights"),
        (lambda: Empirical((4, 5), (0.0, 0.0)), "not shares"),
        (lambda: Empirical((4, 5), (1.0, -1.0)), "not shares"),
        (lambda: spelled("12.5"), "not a length"),
        (lambda: spelled("1...3"), "not a length"),
        (lambda: spelled(""), "not a length"),
        (lambda: spelled("9..3"), "from 9 to 3"),
    ],
)
def test_lengths_that_have_no_meaning_are_refused(make, said_: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=said_.replace("(", r"\(")) as refused:
        make()
    assert refused.value.hint


def test_a_distribution_is_said_in_a_few_words() -> None:
    assert said(ConstantLength(2048)) == "2,048"
    assert said(Lognormal(100, 0.0, 4096)) == "lognormal, median 100, mean 100, at most 4,096"
    assert said(Empirical((10, 20), (1, 1))) == "as seen, 10 to 20, mean 15.0"
