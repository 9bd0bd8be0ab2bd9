"""Acceptance that differs between requests, against integrals done by hand."""

import math

import numpy as np
import pytest

from roofline.errors import InputError
from roofline.serving.acceptance import (
    expected_tokens,
    mean_rounds,
    of_requests,
    parse,
    spread_out,
    tokens_by_request,
)
from roofline.serving.draft_trees import chain
from roofline.serving.drafts import NGRAM
from roofline.serving.simulate.drafting import RoundDraft
from tests.serving.simulate.cases import requests

EVENLY = (np.arange(20_000) + 0.5) / 20_000
UNIFORM = spread_out(parse("0.5"), 1 / math.sqrt(12))
"""Beta(1, 1)."""


def test_a_uniform_acceptance_is_its_own_quantile() -> None:
    assert UNIFORM.concentration == pytest.approx(2.0)
    np.testing.assert_allclose(of_requests(UNIFORM, 1, EVENLY)[0], EVENLY, rtol=1e-9)


@pytest.mark.parametrize(("mean", "spread"), [(0.7, 0.15), (0.3, 0.05), (0.9, 0.2)])
def test_requests_have_the_mean_and_the_deviation_that_are_asked(
    mean: float, spread: float
) -> None:
    (rates,) = of_requests(spread_out(parse(str(mean)), spread), 1, EVENLY)
    assert rates.mean() == pytest.approx(mean, rel=1e-3)
    assert rates.std() == pytest.approx(spread, rel=1e-2)
    assert ((rates >= 0) & (rates <= 1)).all()


def test_mean_time_of_requests_is_the_integral_by_hand() -> None:
    # ∫ da / (1 + a) = ln 2; ∫ da / (1 + a + a²) = π / (3·√3), both over 0 … 1.
    assert mean_rounds(UNIFORM, 1) == pytest.approx(math.log(2), rel=1e-6)
    assert mean_rounds(UNIFORM, 2) == pytest.approx(math.pi / (3 * math.sqrt(3)), rel=1e-6)
    # Jensen: more than at the mean acceptance, though rounds yield more tokens than there.
    for length in (1, 2, 4):
        tokens = tokens_by_request(UNIFORM, length, EVENLY)
        assert tokens.mean() >= expected_tokens(0.5, length) - 1e-9
        assert mean_rounds(UNIFORM, length) > 1 / expected_tokens(0.5, length)
    assert tokens_by_request(UNIFORM, 2, EVENLY).mean() == pytest.approx(1 + 1 / 2 + 1 / 3)


def test_positions_share_a_concentration_and_sure_ones_stay_sure() -> None:
    rates = of_requests(spread_out(parse("0.8,1.0,0.5"), 0.1), 3, EVENLY)
    np.testing.assert_array_equal(rates[1], 1.0)
    # p(1 − p) / (1 + ν), ν = 0.16 / 0.01 − 1
    assert rates[2].var() == pytest.approx(0.25 / 16, rel=1e-2)
    assert (np.diff(rates, axis=1) >= 0).all()


def test_alike_requests_have_the_closed_form() -> None:
    alike = spread_out(parse("0.7"), 0.0)
    assert alike.spread == 0.0
    assert mean_rounds(alike, 4) == pytest.approx(1 / float(expected_tokens(0.7, 4)))


@pytest.mark.parametrize("spread", [-0.1, 0.46, float("nan")])
def test_a_deviation_that_no_share_has_is_refused(spread: float) -> None:
    with pytest.raises(InputError, match="acceptance_spread"):
        spread_out(parse("0.7"), spread)


def test_refusing_more_keeps_the_concentration() -> None:
    rates = spread_out(parse("0.7"), 0.15)
    assert rates.refused(1.2).concentration == rates.concentration
    assert rates.refused(0.0).spread == 0.0


def test_drawn_rounds_are_those_of_each_request() -> None:
    rates = spread_out(parse("0.7"), 0.15)
    given, tree = requests(0.0, [10] * 3000, 2001), chain(rates, 4)
    rounds = RoundDraft(NGRAM, tree, 3, rates).in_rounds(given).output - 1
    alike = RoundDraft(NGRAM, tree, 3).in_rounds(given).output - 1
    # 3,000 requests whose time spreads by 25 %.
    assert rounds.mean() / 2000 == pytest.approx(mean_rounds(rates, 4), rel=0.02)
    slow = 1 / tokens_by_request(rates, 4, np.array([0.01]))[0]
    assert np.quantile(rounds, 0.99) / 2000 == pytest.approx(slow, rel=0.05)
    assert rounds.std() > 5 * alike.std()
    again = RoundDraft(NGRAM, tree, 3, rates).in_rounds(given).output - 1
    np.testing.assert_array_equal(rounds, again)
