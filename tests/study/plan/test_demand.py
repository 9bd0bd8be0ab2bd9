"""Demands: the same requests, faster, longer, or in part."""

import numpy as np
import pytest

from roofline.errors import InputError
from roofline.serving.requests import mean_rate, requests
from roofline.study.plan.demand import Demand, Goal
from tests.study.plan import cases


def test_requests_come_as_often_as_asked() -> None:
    given = cases.even(4.0, 101, 100, 10)
    for rate in (0.5, 4.0, 32.0):
        assert mean_rate(given.at(rate)) == pytest.approx(rate)


def test_longer_requests_keep_what_they_share() -> None:
    made = requests([0.0, 1.0], 50, 7, blocks=[(1, 2), (1, 2)], block=16)
    given = Demand(made, 1.0, 1.0, name="shared")
    half = given.scaled(0.5, 2.0)
    assert half.requests.prompt.tolist() == [32, 32]
    assert half.requests.output.tolist() == [14, 14]
    assert given.new_tokens.tolist() == [50, 18]
    assert half.name != given.name


def test_means_are_those_of_the_requests() -> None:
    given = Demand(requests([0.0, 1.0], [100, 200], [1, 5]), 1.0, 1.0)
    assert (given.prompt, given.output, given.steps, given.longest) == (150.0, 3.0, 2.0, 205)
    assert given.mean_context == np.mean([201, 202, 203, 204])
    assert given.answers().requests.prompt.tolist() == [200]
    assert given.prompts().requests.output.tolist() == [1, 1]


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(InputError, match="requests per second"):
        Demand(requests([0.0, 1.0], 10, 2), 1.0, rate)


@pytest.mark.parametrize(
    ("field", "value"),
    [("headroom", -0.1), ("headroom", float("nan")), ("spares", -1), ("confidence", 1.0)],
)
def test_goals_without_meaning_are_refused(field: str, value: float) -> None:
    with pytest.raises(InputError):
        Goal((), 8, **{field: value})  # type: ignore[arg-type]
