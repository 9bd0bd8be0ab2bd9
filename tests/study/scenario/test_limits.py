"""Limits and objectives: the side that is the worse one, units, and what is missed first."""

import math

import numpy as np
import pytest

from roofline.errors import InputError
from roofline.study.scenario.limits import FIGURES, USUAL, limit, missed, objective
from roofline.study.sweep.keep import FigureLimit


@pytest.mark.parametrize(
    ("column", "asked", "value", "at_least"),
    [
        ("tpot_s", "50 ms", 0.05, False),
        ("tpot_s", 0.05, 0.05, False),
        ("tpot_s", "0.05", 0.05, False),
        ("user_tok_s", 20, 20.0, True),
        ("user_tok_s", "<= 20", 20.0, False),
        ("throughput_tok_s", "≥ 2 ktok/s", 2000.0, True),
        ("memory_bytes", "40 GiB", 40 * 2.0**30, False),
        ("free_bytes", "4 GiB", 4 * 2.0**30, True),
        ("usd_per_mtok_high", "2.5 $", 2.5, False),
        ("gpus", 8, 8.0, False),
    ],
)
def test_a_limit_is_on_the_side_that_is_worse(
    column: str, asked: float | str, value: float, at_least: bool
) -> None:
    assert limit("batch", column, asked) == FigureLimit(column, value, at_least)


@pytest.mark.parametrize("asked", ["fast", "50 mB", "< 50 ms", "nan", "inf"])
def test_what_is_no_quantity_is_refused(asked: str) -> None:
    with pytest.raises(InputError):
        limit("batch", "tpot_s", asked)


@pytest.mark.parametrize(
    ("column", "asked"),
    [
        ("ttft_s", "-5 ms"),
        ("ttft_s", -0.005),
        ("ttft_s", ">= -5 ms"),
        ("tpot_s_high", math.nan),
        ("gpus", math.inf),
        ("usd_per_mtok", -1),
        ("served_chance", 90),
    ],
)
def test_a_limit_that_no_figure_is_ever_at_is_refused(column: str, asked: float | str) -> None:
    with pytest.raises(InputError, match=f"{column} is from 0 .* cannot be limited to "):
        limit("traffic", column, asked)


def test_a_limit_may_be_at_the_end_of_what_can_be() -> None:
    assert limit("traffic", "served_chance", 1).value == 1.0
    assert limit("traffic", "queue_s", 0).value == 0.0


@pytest.mark.parametrize("text", ["usd_per_mtok", "least usd_per_mtok", "min", "min model"])
def test_what_is_no_objective_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        objective("batch", text)


def test_the_first_limit_that_is_missed_is_told() -> None:
    limits = (FigureLimit("ttft_s", 1.0), FigureLimit("user_tok_s", 20.0, at_least=True))
    columns = {
        "ttft_s": np.array([0.5, 2.0, 2.0, 0.5, np.nan, 2.0]),
        "user_tok_s": np.array([20.0, 30.0, 10.0, 10.0, 30.0, 10.0]),
    }
    given = np.array(["", "", "", "", "", "memory"])
    assert missed(limits, columns, given).tolist() == [
        "",
        "ttft_s",
        "ttft_s",
        "user_tok_s",
        "ttft_s unknown",  # a figure that is not there does not keep to a limit
        "memory",
    ]
    assert given.tolist() == ["", "", "", "", "", "memory"]


def test_usual_objectives_are_about_figures() -> None:
    for kind, texts in USUAL.items():
        assert [objective(kind, text).column in FIGURES[kind] for text in texts] == [True, True]
