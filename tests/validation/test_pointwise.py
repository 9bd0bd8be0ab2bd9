"""Calibrated passes over activations and their quantisation, on widths the fit did not see."""

from typing import Final

import numpy as np
import pytest

from roofline.bench.held_out import coverage, errors
from roofline.bench.predictors import left_out
from roofline.bench.validation import validate
from tests.cases import cases
from tests.validation.kernel_rows import (
    SCORE,
    Group,
    Score,
    passes,
    quantised,
    score,
)
from tests.validation.measurements import file, measured, needs

pytestmark = needs(file("quantize"), file("elementwise"))

UNSTEADY: Final = {"h100 vllm computescale"}
"""Rows that fall from 6 µs to 3 µs as the tensor grows eightfold: a difference of two timings."""


def datasheet(group: Group) -> float:
    """Median error of the uncalibrated roofline."""
    bytes_ = {"quantize": 3.0, "pointwise": 4.0}[group.form.kind]
    moved = group.dims["m"] * group.dims["width"] * bytes_
    return errors(moved / group.machine.hbm_bytes_per_s, group.measured).median


@pytest.fixture(scope="module")
def scores() -> list[tuple[Group, Score]]:
    groups = [*quantised(), *passes("h100"), *(passes("a100") if SCORE > 1 else ())]
    return [(group, score(group)) for group in groups]


def test_the_errors_of_all_groups_are_printed(scores: list[tuple[Group, Score]]) -> None:
    titles = f"{'held out':21}{'without table':21}datasheet"
    print(f"\n{'median / mean / p90 error, %':38}    of  rows  inside  {titles}")
    for group, found in scores:
        columns = f"{found.errors!s:21}{errors(found.plain, found.measured)!s:21}"
        rows = f"{len(found.measured):5} {len(group):5}"
        bare = f"{100 * datasheet(group):5.1f}"
        print(f"{group.name:38} {rows}  {100 * found.inside:4.0f} %  {columns}{bare}")
        assert found.errors.median < datasheet(group)


def test_quantisation_of_a_width_left_out_is_known(scores: list[tuple[Group, Score]]) -> None:
    for group, found in scores:
        if group.form.kind == "quantize" and group.name not in UNSTEADY:
            assert found.errors.median <= 0.05, group.name
            assert found.errors.p90 <= 0.15, group.name


def test_intervals_of_quantisation_hold(scores: list[tuple[Group, Score]]) -> None:
    some = [found for group, found in scores if group.form.kind == "quantize"]
    columns = [
        np.concatenate([getattr(found, name) for found in some])
        for name in ("predicted", "spread", "measured")
    ]
    inside = coverage(*columns)
    print(f"\nquantize: {100 * inside:.0f} % lie in their central 80 % interval")
    assert 0.72 <= inside <= 0.95


def test_intervals_of_passes_hold_over_all_families() -> None:
    """Passes of a third of the token counts; every family is left out once where all cases run."""
    every = measured("elementwise")
    counts = np.unique(every.num_tokens)[::3]
    some = every[(every.gpu == "h100") & every.num_tokens.isin(counts)]
    found = validate("pointwise", some, left_out(folds=cases(3, 0)))
    inside = found.figures()["interval_coverage"]
    print(f"\npointwise: {100 * inside:.0f} % lie in their central 80 % interval")
    assert 0.72 <= inside <= 0.88
