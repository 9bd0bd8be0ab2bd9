"""Predict groups of measurements: by fits that never saw the family of a row, or by those shipped.

A group that is a sample, of a device whose sibling was measured at length, takes the sibling's fit
carried to its own device: published rates, and one factor from the other families of the sample.
Every other group is fitted by itself.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from multiprocessing import get_all_start_methods, get_context
from typing import Final, TypeAlias

import numpy as np
from msgspec import Struct

from roofline.bench.fit import OUTER, cross_validate, fit, inner, regime_spreads, scored
from roofline.bench.held_out import Labels, unallowed
from roofline.bench.kernel_rows import RowGroup
from roofline.bench.rows import checked
from roofline.bench.shipping.files import fit_of, labels
from roofline.bench.shipping.variants import label_of
from roofline.cost.calibration.kernel import nearest
from roofline.cost.kernels.form import WIDEN, Dims, FittedForm, Form, Machine, octaves, predict
from roofline.cost.kernels.form import seconds as time_of
from roofline.cost.kernels.residual import outside
from roofline.cost.work import Array
from roofline.errors import MissingRateError, RooflineError
from roofline.hardware.catalog import gpu
from roofline.records import replace
from roofline.study.executors import cores

SAMPLE: Final = 0.125
"""A group of less than this share of its sibling's rows is a sample. Of measured samples of 1-2 %
the carried fit is better on families left out, in p90 nearly always: tests/validation prints it."""


FORK: Final = "fork"
"""Way of starting processes that know all groups; where there is none, one does it all."""


class PredictedTimes(Struct, frozen=True):
    """Predicted times of the rows of a group."""

    seconds: Array
    """Medians; NaN where a row cannot be predicted. [s]"""
    log_sd: Array
    """Standard deviations of their logarithms. [1]"""
    basis: str
    """Origin of the prediction, in words."""
    why: str = ""
    """Reason for the rows that are NaN."""


Predictor: TypeAlias = Callable[[Sequence[RowGroup]], Iterator[PredictedTimes | RooflineError]]
"""Predicts each of some groups, in their order, or says why it cannot. It is given them together,
since what is known of one may be carried to another."""


def one_by_one(predict: Callable[[RowGroup], PredictedTimes]) -> Predictor:
    """A predictor that treats each group by itself, such as a profile that was fitted before."""

    def every(groups: Sequence[RowGroup]) -> Iterator[PredictedTimes | RooflineError]:
        for group in groups:
            try:
                yield predict(group)
            except RooflineError as error:
                yield error

    return every


def shipped(kind: str, group: RowGroup) -> PredictedTimes:
    """Times of a group of rows by the shipped fit that is nearest to it.

    Raises:
        MissingRateError: No kernel of that format was measured on a device like it.
    """
    wanted = label_of(kind, group.name)
    device = gpu(group.name["gpu"])
    variants = (wanted.variant,)
    found = nearest(
        labels(), fit_of, device, wanted.provider, wanted.kind, variants, in_steps=False
    )
    if found is None:
        raise MissingRateError(
            f"no {wanted.kind} of {wanted.variant} was measured on a device like {device.name}",
            hint="add `cross_validate`, or calibrate the device: roofline calibrate",
        )
    model = as_measured(found.fit.model, group.form) if found.foreign else found.fit.model
    time, own, _ = predict(model, group.dims, group.machine)
    label = found.fit.label
    basis = f"{label.provider} on {label.device}" + ", transferred" * found.foreign
    return PredictedTimes(time, np.hypot(own, found.spread), basis)


def as_measured(model: FittedForm, form: Form) -> FittedForm:
    """A fit of another device with the form that rows have on theirs.

    What a benchmark leaves in the last-level cache shows on some devices and not on others: their
    forms have constants that the fit may lack, whose values without data are taken.
    """
    if model.form is form or model.form.kind != form.kind:
        return model
    unknown = {each.name: each.prior for each in form.constants}
    return replace(model, form=form, constants={**unknown, **model.constants})


UNSCORED: Final = "its family is not among those that are left out"
"""Reason for rows of other folds than those that are scored."""


def left_out(jobs: int = 0, folds: int = 0) -> Predictor:
    """A predictor of each row by fits that saw no row of its family.

    Args:
        jobs: Groups that are fitted at the same time; 0 for one per processor. [1]
        folds: Folds of families that are predicted, of `OUTER`; 0 for all. The seed of a split is
            fixed, and rows of other folds are NaN. [1]
    """
    predict = partial(_left_out, score=folds or None)

    def every(groups: Sequence[RowGroup]) -> Iterator[PredictedTimes | RooflineError]:
        _GROUPS[:] = groups
        _fitted.cache_clear()
        at_once = min(jobs or cores(), len(groups))
        if at_once <= 1 or FORK not in get_all_start_methods():
            yield from map(predict, range(len(groups)))
            return
        largest = sorted(range(len(groups)), key=lambda place: -len(groups[place]))
        with ProcessPoolExecutor(at_once, get_context(FORK)) as pool:
            found = dict(zip(largest, pool.map(predict, largest), strict=True))
        yield from (found[place] for place in range(len(groups)))

    return every


_GROUPS: Final[list[RowGroup]] = []
"""Groups that are being predicted: processes are forked with them."""


@cache
def _fitted(place: int) -> FittedForm:
    """Fit of all rows of a group."""
    one = _GROUPS[place]
    return fit(one.form, one.dims, one.machine, one.measured, families=one.families)


def _left_out(place: int, score: int | None) -> PredictedTimes | RooflineError:
    """Prediction by the fit of a sibling that a group is a sample of, else by fits of its own."""
    group = _GROUPS[place]
    about = group.dims, group.machine, group.measured
    try:
        sibling = sibling_of(group, _GROUPS)
        if sibling is None:
            own = cross_validate(group.form, *about, families=group.families, score=score)
            return PredictedTimes(*own, "fitted", UNSCORED)
        carried = cross_transfer(_fitted(sibling), *about, families=group.families)
    except RooflineError as error:
        return error
    return PredictedTimes(*carried, f"transferred from {_GROUPS[sibling].name['gpu']}")


def sibling_of(group: RowGroup, groups: Sequence[RowGroup]) -> int | None:
    """Place of the largest group of the same kernels on a sibling, of which this one is a sample.

    A sibling is another device of the same generation; None if no group is so.
    """

    def kernels(one: RowGroup) -> list[tuple[str, str]]:
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


def transfer(
    model: FittedForm, dims: Dims, machine: Machine, measured: Array, *, families: Labels
) -> FittedForm:
    """A fit of one device, on another: one factor and the spreads come from a sample there.

    Args:
        model: Fitted on a device whose kernels are the same.
        dims, measured, families: Of the sample, as in `fit`.
        machine: The device of the sample, at published rates: they scale the terms of the equation.

    Raises:
        InputError: As `fit`.
    """
    rows = checked(model.form, machine, dims, measured, families, constants=1)
    bare = replace(model, scale=1.0)
    off = np.log(measured / time_of(bare, dims, machine))
    label = inner(families)
    missed = np.empty_like(off)
    for fold in np.unique(label):
        missed[label == fold] = off[label == fold] - np.median(off[label != fold])
    beyond = outside(model.hull, octaves(model.form, dims))
    regimes = model.form.regime(dims, machine, model.constants)
    own, every = regime_spreads(unallowed(missed, WIDEN * beyond), regimes, rows.families)
    return replace(
        bare,
        scale=float(np.exp(np.median(off))),
        spreads=own,
        spread=every,
        rows=len(rows.measured),
        source="",
        transferred=True,
    )


def cross_transfer(
    model: FittedForm,
    dims: Dims,
    machine: Machine,
    measured: Array,
    *,
    families: Labels,
    folds: int = OUTER,
) -> tuple[Array, Array]:
    """Prediction [s] and log spread [1] of each row of a sample, from other families of it."""
    rows = checked(model.form, machine, dims, measured, families, constants=1)
    return scored(rows, folds, partial(transfer, model))
