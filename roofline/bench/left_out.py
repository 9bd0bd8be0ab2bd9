"""Predict each group of measurements by fits that never saw the family of the row.

A group that is a sample, of a device whose sibling was measured at length, takes the sibling's fit
and one factor from the other families of the sample; every other group is fitted by itself.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from typing import Final, TypeAlias

from roofline.bench.fit import Each, cross_validate, fit
from roofline.bench.kernel_rows import Group
from roofline.bench.transfer import cross_transfer
from roofline.cost.kernels.calibrated import Calibrated
from roofline.cost.work import Array
from roofline.errors import RooflineError
from roofline.hardware.catalog import gpu
from roofline.study.executors import cores

SAMPLE: Final = 0.125
"""A group of less than this share of its sibling's rows is a sample. Of measured samples of 1-2 %
the carried fit is better on families left out, in p90 nearly always: tests/validation prints it."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """What a predictor says of the rows of a group."""

    seconds: Array
    """Medians; NaN where a row cannot be predicted. [s]"""
    log_sd: Array
    """Standard deviations of their logarithms. [1]"""
    basis: str
    """How they are known, in words."""
    why: str = ""
    """Of the rows that are NaN."""


Predictor: TypeAlias = Callable[[Sequence[Group]], Iterator[Predicted | RooflineError]]
"""Predicts each of some groups, in their order, or says why it cannot. It is given them together,
since what is known of one may be carried to another."""


def one_by_one(predict: Callable[[Group], Predicted]) -> Predictor:
    """A predictor that treats each group by itself, such as a profile that was fitted before."""

    def every(groups: Sequence[Group]) -> Iterator[Predicted | RooflineError]:
        for group in groups:
            yield _tried(partial(predict, group))

    return every


def left_out(jobs: int = 0) -> Predictor:
    """A predictor of each row by fits that saw no row of its family.

    Args:
        jobs: Fits that run at the same time; 0 for one per processor. [1]
    """

    def every(groups: Sequence[Group]) -> Iterator[Predicted | RooflineError]:
        with ThreadPoolExecutor(jobs or cores()) as pool:

            @cache
            def fitted(place: int) -> Calibrated:
                one = groups[place]
                return fit(one.form, one.dims, one.machine, one.measured, families=one.families)

            for group in groups:
                yield _tried(partial(_left_out, group, groups, fitted, pool.map))

    return every


def _left_out(
    group: Group, groups: Sequence[Group], fitted: Callable[[int], Calibrated], each: Each
) -> Predicted:
    """By the fit of a sibling where the group is a sample of it, else by fits of its own."""
    sibling = sibling_of(group, groups)
    if sibling is None:
        found = cross_validate(
            group.form,
            group.dims,
            group.machine,
            group.measured,
            families=group.families,
            each=each,
        )
        return Predicted(*found, "fitted")
    found = cross_transfer(
        fitted(sibling), group.dims, group.machine, group.measured, families=group.families
    )
    return Predicted(*found, f"transferred from {groups[sibling].name['gpu']}")


def sibling_of(group: Group, groups: Sequence[Group]) -> int | None:
    """Place of the largest group of the same kernels on a sibling, of which this one is a sample.

    A sibling is another device of the same generation; None if no group is so.
    """

    def kernels(one: Group) -> list[tuple[str, str]]:
        return [(key, value) for key, value in one.name.items() if key != "gpu"]

    generation = gpu(group.name["gpu"]).architecture
    alike = [
        (len(other), place)
        for place, other in enumerate(groups)
        if len(group) < SAMPLE * len(other)
        and kernels(other) == kernels(group)
        and gpu(other.name["gpu"]).architecture == generation
    ]
    return max(alike)[1] if alike else None


def _tried(predict: Callable[[], Predicted]) -> Predicted | RooflineError:
    try:
        return predict()
    except RooflineError as error:
        return error
