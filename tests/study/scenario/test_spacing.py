"""Axes of numbers: one, some, steps, points on two scales."""

from typing import Any

import numpy as np
import pytest

from roofline.errors import InputError
from roofline.study.grid import SteppedNumbers
from roofline.study.scenario.crossing import series_of
from roofline.study.scenario.files import RangeFile
from tests.study.scenario.documents import BATCH, scenario


def numbers(name: str, asked: Any) -> list[float]:
    series = series_of(name, RangeFile.model_validate(asked) if isinstance(asked, dict) else asked)
    return list(series.at(np.arange(len(series))))


@pytest.mark.parametrize(
    ("name", "asked", "found"),
    [
        ("batch", 7, [7]),
        ("batch", (4, 2), [4, 2]),
        ("batch", {"from": 8, "to": 33, "step": 8}, [8, 16, 24, 32]),
        ("batch", {"from": 8, "to": 32, "step": 8}, [8, 16, 24, 32]),
        ("rate", {"from": 0.1, "to": 0.3, "step": 0.1}, [0.1, 0.2, pytest.approx(0.3)]),
        ("prompt", {"from": 10, "to": 20, "points": 3}, [10, 15, 20]),
        ("prompt", {"from": 1, "to": 1000, "points": 4, "scale": "log"}, [1, 10, 100, 1000]),
        ("batch", {"from": 1, "to": 4, "points": 9, "scale": "log"}, [1, 2, 3, 4]),
        ("rate", {"from": 1, "to": 4, "points": 3, "scale": "log"}, [1, 2, 4]),
        ("batch", {"from": 3, "to": 3, "step": 1}, [3]),
    ],
)
def test_what_axes_hold(name: str, asked: Any, found: list[float]) -> None:
    assert numbers(name, asked) == found


def test_numbers_are_taken_as_people_write_them() -> None:
    asked = RangeFile.model_validate({"from": "1k", "to": "3k", "step": "1k"})
    assert numbers("prompt", asked.model_dump(by_alias=True)) == [1000, 2000, 3000]
    made = scenario(BATCH, prompt=["1k", "1K", "1.5k"])
    assert made.numbers["prompt"] == series_of("prompt", (1000, 1024, 1500))


def test_a_million_steps_are_not_listed() -> None:
    asked = RangeFile.model_validate({"from": 1, "to": 2**24, "step": 1})
    assert series_of("batch", asked) == SteppedNumbers(1.0, 1.0, 2**24)


@pytest.mark.parametrize(
    ("name", "asked", "message"),
    [
        ("batch", 0, "batch cannot be 0"),
        ("batch", 1.5, "batch cannot be 1.5"),
        ("batch", 2**25, "batch cannot be"),
        ("rate", -1, "rate cannot be -1"),
        ("batch", {"from": 4, "to": 2, "step": 1}, "goes from 4 down to 2"),
        ("batch", {"from": 1, "to": 2, "step": 0.5}, "step of batch is 0.5"),
        ("batch", {"from": 1, "to": 2}, "needs a step or a number of points"),
        ("batch", {"from": 1, "to": 2, "step": 1, "points": 2}, "needs a step or a number"),
    ],
)
def test_what_is_no_axis_is_refused(name: str, asked: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        numbers(name, asked)
