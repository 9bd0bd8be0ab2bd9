"""Calibrated linear layers on weight shapes the fit did not see, beside simpler models."""

from typing import Final

import numpy as np
import pytest

from roofline.bench.held_out import Errors, coverage, errors
from roofline.bench.predictors import cross_transfer
from roofline.cost.kernels.form import TRANSFERRED, FittedForm, predict
from roofline.cost.work import Array
from tests.cases import cases
from tests.validation.kernel_rows import (
    SCORE,
    Group,
    Score,
    every_other,
    linear,
    score,
    timed_layers,
)
from tests.validation.measurements import file, needs

pytestmark = needs(file("gemm"), file("vidur_gemm"))

BOUNDS: Final = {
    ("h100_sxm", "bfloat16"): (0.045, 0.14),
    ("h100_sxm", "fp8"): (0.035, 0.11),
    ("h100_sxm", "fp8_block"): (0.035, 0.11),
    ("a100_sxm", "bfloat16"): (0.065, 0.20),
}
"""Median and 90th percentile that the held out errors keep below."""
SCALED: Final = cases((("h100_sxm", "fp8"),), ())
"""Fitted where all cases run: products of a scale each, between those of one for each block."""
GROUPS: Final = {key: bound for key, bound in BOUNDS.items() if key not in SCALED}
TRANSFER: Final = (0.06, 0.18)


def datasheet(group: Group) -> Errors:
    """Errors of the uncalibrated roofline."""
    m, n, k = (group.dims[name] for name in "mnk")
    width = 1.0 if "fp8" in group.name else 2.0
    compute = 2 * m * n * k / group.machine.flops_per_s
    memory = ((m * k + k * n) * width + 2 * m * n) / group.machine.hbm_bytes_per_s
    return errors(np.maximum(compute, memory), group.measured)


def constants(model: FittedForm) -> str:
    each = [
        f"{c.name} {model.constants[c.name]:.3g}{' s' if c.unit == 's' else ''}"
        for c in model.form.constants
    ]
    return "; ".join(each)


@pytest.fixture(scope="module")
def scores() -> dict[tuple[str, str], tuple[Group, Score]]:
    """Scores of every other token count, or of all where the published table is made."""
    groups = {key: linear(*key) for key in GROUPS}
    if SCORE == 1:
        groups = {key: every_other(group, "m") for key, group in groups.items()}
    else:
        groups |= {(device, "vidur"): timed_layers(device) for device in ("a100", "h100")}
    return {key: (group, score(group)) for key, group in groups.items()}


@pytest.fixture(scope="module")
def hopper(scores: dict[tuple[str, str], tuple[Group, Score]]) -> dict[str, FittedForm]:
    """Fits of the H100 without the families left out, to be carried to the H200."""
    return {
        dtype: scores[device, dtype][1].model for device, dtype in GROUPS if device == "h100_sxm"
    }


def test_the_errors_of_all_groups_are_printed(
    scores: dict[tuple[str, str], tuple[Group, Score]], hopper: dict[str, FittedForm]
) -> None:
    titles = [f"{title:21}" for title in ("held out", "without table", "datasheet")]
    print(f"\n{'median / mean / p90 error, %':30}    of  rows  inside  {''.join(titles)}")
    for group, found in scores.values():
        plain = errors(found.plain, found.measured)
        columns = "".join(f"{each!s:21}" for each in (found.errors, plain, datasheet(group)))
        rows = f"{len(found.measured):5} {len(group):5}"
        print(f"{group.name:30} {rows}  {100 * found.inside:4.0f} %  {columns}")
    for dtype, model in hopper.items():
        print(f"{model.rows} rows, {dtype}: {constants(model)}")
    assert set(GROUPS) <= set(scores)


@pytest.mark.parametrize("key", GROUPS, ids=" ".join)
def test_a_weight_shape_left_out_is_known(
    scores: dict[tuple[str, str], tuple[Group, Score]], key: tuple[str, str]
) -> None:
    group, found = scores[key]
    median, p90 = GROUPS[key]
    assert found.errors.median <= median
    assert found.errors.p90 <= p90
    assert found.errors.median < errors(found.plain, found.measured).median
    assert errors(found.plain, found.measured).median < datasheet(group).median


def test_intervals_hold_on_rows_that_made_neither_them_nor_the_constants(
    scores: dict[tuple[str, str], tuple[Group, Score]],
) -> None:
    inside = {key: scores[key][1].inside for key in GROUPS}
    sizes = [len(scores[key][1].measured) for key in GROUPS]
    overall = float(np.average(list(inside.values()), weights=sizes))
    print(f"\n{100 * overall:.0f} % of all rows lie in their central 80 % interval")
    assert 0.77 <= overall <= 0.83
    assert all(0.72 <= share <= 0.88 for share in inside.values())


def test_a_fit_of_the_h100_is_carried_to_the_h200(hopper: dict[str, FittedForm]) -> None:
    """Only the published rates and one factor, from other shapes of the sample, are of the H200."""
    print(f"\n{'H200 from H100: median / mean / p90 error, %':46} rows  inside")
    parts: list[tuple[Array, Array, Array]] = []
    for dtype, model in hopper.items():
        group = linear("h200_sxm", dtype)
        predicted, spread = cross_transfer(
            model, group.dims, group.machine, group.measured, families=group.families
        )
        found = errors(predicted, group.measured)
        inside = coverage(predicted, spread, group.measured)
        print(f"{dtype:24}{found!s:22} {len(group):4}  {100 * inside:4.0f} %")
        assert found.median <= TRANSFER[0], dtype
        assert found.p90 <= TRANSFER[1], dtype
        assert 0.72 <= inside <= 0.88, dtype
        parts.append((predicted, spread, group.measured))
    every = [np.concatenate(column) for column in zip(*parts, strict=True)]
    assert 0.77 <= coverage(*every) <= 0.83


def test_what_is_carried_says_so(hopper: dict[str, FittedForm]) -> None:
    from roofline.bench.predictors import transfer

    group = linear("h200_sxm", "bfloat16")
    rows = (group.dims, group.machine, group.measured)
    carried = transfer(hopper["bfloat16"], *rows, families=group.families)
    assert set(predict(carried, group.dims, group.machine)[2].tolist()) == {TRANSFERRED}
    assert carried.constants == hopper["bfloat16"].constants
    assert 0.9 < carried.scale < 1.1
