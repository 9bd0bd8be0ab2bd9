"""Carry a fit to another device: published rates, and one factor from a sample measured there."""

from dataclasses import replace
from functools import partial

import numpy as np

from roofline.bench.fit import OUTER, inner, regime_spreads, scored
from roofline.bench.held_out import Labels, unallowed
from roofline.bench.rows import checked
from roofline.cost.kernels.calibrated import WIDEN, Calibrated, octaves
from roofline.cost.kernels.calibrated import seconds as time_of
from roofline.cost.kernels.form import Dims, Machine
from roofline.cost.kernels.residual import outside
from roofline.cost.work import Array


def transfer(
    model: Calibrated,
    dims: Dims,
    machine: Machine,
    measured: Array,
    *,
    families: Labels,
    source: str = "",
) -> Calibrated:
    """A fit of one device, on another: one factor and the spreads come from a sample there.

    Args:
        model: Fitted on a device whose kernels are the same.
        dims, measured, families, source: Of the sample, as in `fit`.
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
        source=source,
        transferred=True,
    )


def cross_transfer(
    model: Calibrated,
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
