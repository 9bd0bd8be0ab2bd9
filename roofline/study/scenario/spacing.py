"""Axes of numbers of a scenario: one, some, or a range."""

from typing import Final

import numpy as np

from roofline.errors import InputError
from roofline.serving.workload import MOST_SEQUENCES, MOST_TOKENS
from roofline.study.grid import Listed, Series, Steps
from roofline.study.scenario.files import NumbersFile, RangeFile

WHOLE: Final = {
    "batch": MOST_SEQUENCES,
    "prompt": MOST_TOKENS,
    "output": MOST_TOKENS,
    "concurrency": MOST_SEQUENCES,
}
"""Axes of whole numbers from 1, and the most that has a meaning."""
MOST_RATE: Final = 2.0**30
MOST_STEPS: Final = 2**53
"""Places of an axis: a float has no more whole numbers."""


def series_of(name: str, asked: NumbersFile) -> Series:
    """Numbers of an axis.

    Parameters
    ----------
    name
        Of the axis: some have whole numbers only.
    asked
        As written.

    Raises
    ------
    InputError
        A number has no meaning for the axis, is there twice, or a range does not go up.

    Examples
    --------
    >>> series_of("batch", RangeFile.model_validate(
    ...     {"from": 1, "to": 64, "points": 4, "scale": "log"}))
    Listed(values=(1.0, 4.0, 16.0, 64.0))
    """
    if not isinstance(asked, RangeFile):
        values = asked if isinstance(asked, tuple) else (asked,)
        for value in values:
            _check(name, value)
        if len(set(values)) < len(values):
            raise InputError(f"{name} has a number twice", hint="say each number once")
        return Listed(tuple(float(value) for value in values))
    if (asked.step is None) == (asked.points is None):
        raise InputError(
            f"{name} from {asked.first:g} to {asked.to:g} needs a step or a number of points",
            hint="write {from: 1, to: 64, step: 1}, or {from: 1, to: 64, points: 7, scale: log}",
        )
    for value in (asked.first, asked.to):
        _check(name, value)
    if asked.to < asked.first:
        raise InputError(
            f"{name} goes from {asked.first:g} down to {asked.to:g}",
            hint="write the smaller number first",
        )
    return _steps(name, asked) if asked.step is not None else _points(name, asked)


def _steps(name: str, asked: RangeFile) -> Steps:
    assert asked.step is not None
    if asked.scale == "log":
        raise InputError(
            f"{name} has a step on a logarithmic scale", hint="give points in place of a step"
        )
    if name in WHOLE and asked.step != int(asked.step):
        raise InputError(f"step of {name} is {asked.step:g}", hint="give a whole number")
    # A last number that rounding pushed beyond the end still belongs to it.
    places = int((asked.to - asked.first) / asked.step * (1 + 2.0**-50)) + 1
    if places > MOST_STEPS:
        raise InputError(f"{name} has {places:,} numbers", hint="give a larger step")
    return Steps(float(asked.first), float(asked.step), places)


def _points(name: str, asked: RangeFile) -> Listed:
    assert asked.points is not None
    if asked.scale == "log":
        if asked.first <= 0:
            raise InputError(f"{name} from {asked.first:g} has no logarithm", hint="start above 0")
        values = np.geomspace(asked.first, asked.to, asked.points)
    else:
        values = np.linspace(asked.first, asked.to, asked.points)
    if name in WHOLE:
        values = np.rint(values)
    # Whole numbers that several points round to are one.
    return Listed(tuple(float(value) for value in np.unique(values)))


def _check(name: str, value: float) -> None:
    if name in WHOLE:
        if value != int(value) or not 1 <= value <= WHOLE[name]:
            raise InputError(
                f"{name} cannot be {value:g}", hint=f"give whole numbers from 1 to {WHOLE[name]:,}"
            )
    elif not 0 < value <= MOST_RATE:
        raise InputError(f"{name} cannot be {value:g}", hint="give requests a second, above 0")
