"""Requests as columns: made, cut and joined without loss; what cannot be is refused by row."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import InputError
from roofline.records import replace
from roofline.serving.requests import (
    COLUMNS,
    at_rate,
    check_rate,
    joined,
    mean_rate,
    part,
    picked_rows,
    requests,
)

BLOCKS = ((1, 2), (), (1, 2, 3), (7,))
FOUR = requests([0.0, 1.0, 1.0, 5.0], [40, 9, 50, 16], 3, after=[-1, 0, -1, 1], blocks=BLOCKS,
                block=16)  # fmt: skip


@given(st.lists(st.integers(0, 4), min_size=0, max_size=4).map(sorted))
def test_parts_joined_are_the_whole(cuts: list[int]) -> None:
    ends = [0, *cuts, 4]
    again = joined(part(FOUR, a, b) for a, b in pairwise(ends))
    for name in ("arrival", "prompt", "output", "after", "think", "joins", "prefix", "hashes"):
        assert np.array_equal(getattr(again, name), getattr(FOUR, name)), name
    assert again.block == 16


def test_a_part_has_the_blocks_of_its_rows() -> None:
    made = part(FOUR, 2, 4)
    assert made.hashes.tolist() == [1, 2, 3, 7]
    assert made.prefix.tolist() == [0, 3, 4]
    assert len(part(FOUR, 1, 99)) == 3


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"arrival": [0.0, math.nan]}, "request 1 arrives at no time"),
        ({"arrival": [-1.0, 0.0]}, "request 0 arrives at no time"),
        ({"arrival": [2.0, 1.0]}, "request 1 arrives before"),
        ({"prompt": [1, 0]}, "request 1 has no prompt"),
        ({"output": [-5, 1]}, "request 0 has no answer"),
        ({"priority": [0, -1]}, "request 1 has a negative priority"),
        ({"after": [0, -1]}, "request 0 follows"),
        ({"after": [-1, -2]}, "request 1 follows"),
        ({"think": [0.0, math.inf]}, "request 1 has no thinking time"),
        ({"blocks": [(), (1, 2)], "block": 16, "prompt": [9, 31]}, "request 1 has more hashed"),
        ({"blocks": [(), (1, 2)]}, "size is not said"),
    ],
)
def test_requests_that_cannot_be_are_refused(changed: dict[str, Any], said: str) -> None:
    given_: dict[str, Any] = {"arrival": [0.0, 1.0], "prompt": 40, "output": 2} | changed
    with pytest.raises(InputError, match=said):
        requests(**given_)


@given(st.floats(0.01, 100.0))
def test_a_trace_at_another_rate_keeps_its_shape(rate: float) -> None:
    recorded = requests([3.0, 4.0, 6.0, 6.0, 11.0], 5, 5)
    assert mean_rate(recorded) == 0.5
    made = at_rate(recorded, rate)
    assert mean_rate(made) == pytest.approx(rate)
    assert made.arrival[0] == 3.0
    assert np.diff(made.arrival) / np.diff(made.arrival).sum() == pytest.approx(
        np.array([1, 2, 0, 5]) / 8
    )


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan, math.inf])
def test_a_rate_that_cannot_be_is_refused(rate: float) -> None:
    with pytest.raises(InputError, match="cannot come at"):
        at_rate(FOUR, rate)


def test_requests_that_all_come_at_once_have_no_rate() -> None:
    together = requests([1.0, 1.0], 5, 5)
    assert mean_rate(together) == 0
    with pytest.raises(InputError, match="all arrive at once have no rate that could be changed"):
        at_rate(together, 2.0)
    with pytest.raises(InputError, match=r"all arrive at once have no rate\n"):
        check_rate(together)


def test_one_request_has_no_rate() -> None:
    one = requests([3.0], 5, 5)
    with pytest.raises(InputError, match="one request has no rate that could be changed"):
        at_rate(one, 2.0)
    with pytest.raises(InputError, match=r"one request has no rate\n") as caught:
        check_rate(one)
    assert "two requests" in str(caught.value.hint)
    check_rate(FOUR)


def test_columns_of_one_value_are_kept_once_and_mean_the_same() -> None:
    rows = np.arange(0, 50, 3)
    small = requests(np.arange(50.0), np.arange(1, 51), 7)
    columns: dict[str, Any] = {
        name: np.array(getattr(small, name)) for name in (*COLUMNS, "prefix")
    }
    large = replace(small, **columns)
    for start in (0, 20):
        few, many = (joined([part(each, start, 30), part(each, 30, 50)]) for each in (small, large))
        few, many = picked_rows(few, rows[:10]), picked_rows(many, rows[:10])
        assert few.after.strides == few.think.strides == few.prefix.strides == (0,)
        for name in (*COLUMNS, "prefix", "hashes"):
            assert getattr(few, name).tolist() == getattr(many, name).tolist(), name
