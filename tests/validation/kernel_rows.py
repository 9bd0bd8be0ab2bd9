"""Measured linear layers and passes over activations, in groups that one fit may hold."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofline.bench.fit import fit, scored
from roofline.bench.held_out import Errors, Labels, coverage, errors
from roofline.bench.rows import checked, families_of, grouped, search
from roofline.cost.kernels.form import Dims, FittedForm, Form, Machine, machine, take
from roofline.cost.kernels.gemm import GEMM, PRODUCTS
from roofline.cost.kernels.pointwise import POINTWISE, QUANTIZE
from roofline.cost.work import Array
from roofline.hardware.catalog import gpu
from roofline.records import replace
from tests.validation.measurements import measured

if TYPE_CHECKING:
    import pandas

FEW: Final = 8
"""Fewer widths than this are held out in octaves of tokens too."""
FOLDS: Final = 8
SCORE: Final = int(os.environ.get("ROOFLINE_FOLDS", "1"))
"""Groups of families, of eight, that are held out here; 8 gives the published table."""
OTHER_NORM: Final = {"microsoft/phi-2"}
"""Networks whose norm subtracts a mean and whose residual adds three tensors: other kernels."""


@dataclass(frozen=True, slots=True)
class Group:
    """Rows of one provider, kind, type and device."""

    name: str
    form: Form
    machine: Machine
    dims: Dims
    measured: Array
    families: Labels

    def __len__(self) -> int:
        return len(self.measured)


def every_other(group: Group, name: str) -> Group:
    """Rows of every other size in a dimension: families and their neighbours are all there."""
    keep = np.isin(group.dims[name], np.unique(group.dims[name])[::2])
    return replace(
        group,
        dims=take(group.dims, keep),
        measured=group.measured[keep],
        families=group.families[keep],
    )


@dataclass(frozen=True, slots=True)
class Score:
    """Predictions of the rows that were held out."""

    model: FittedForm
    """Fit without the first rows that were held out."""
    measured: Array
    predicted: Array
    spread: Array
    plain: Array

    @property
    def errors(self) -> Errors:
        return errors(self.predicted, self.measured)

    @property
    def inside(self) -> float:
        return coverage(self.predicted, self.spread, self.measured)


def score(group: Group) -> Score:
    """Held out families, with a residual table and without."""
    form, dims, unit = group.form, group.dims, group.machine
    rows = checked(form, unit, dims, group.measured, group.families)
    models: list[FittedForm] = []

    def refit(**rest: Any) -> FittedForm:
        models.append(fit(form, **rest, starts=1))
        return models[-1]

    predicted, spread = scored(rows, FOLDS, refit, SCORE)
    plain, label = np.full(len(group), np.nan), grouped(group.families, FOLDS)
    for fold in range(SCORE):
        held = label == fold
        plain[held] = form.seconds(take(dims, held), unit, search(rows[~held], 1))
    held = np.isfinite(predicted)
    return Score(models[0], rows.measured[held], predicted[held], spread[held], plain[held])


@cache
def linear(device: str, dtype: str) -> Group:
    every = measured("gemm")
    rows = every[(every.gpu == device) & (every.dtype == dtype)]
    return _linear(f"{device[:4]} {rows.backend.iloc[0]} {dtype}", device, dtype, rows)


@cache
def timed_layers(device: str) -> Group:
    """Linear layers of vidur; the same shape in several networks is one row."""
    every = measured("vidur_gemm")
    shapes = ["m", "n", "k"]
    rows = every[every.gpu == device].groupby(shapes)["time_s"].median().reset_index()
    return _linear(f"{device} vidur float16", f"{device}_sxm", "float16", rows)


def _linear(name: str, device: str, dtype: str, rows: "pandas.DataFrame") -> Group:
    dims = _columns(rows, {"m": "m", "n": "n", "k": "k"})
    unit = machine(gpu(device), PRODUCTS[dtype].arithmetic)
    families = families_of(dims, ("n", "k"))
    return Group(name, GEMM[dtype], unit, dims, _times(rows), families)


def quantised() -> Iterator[Group]:
    every = measured("quantize")
    for (backend, op), rows in every.groupby(["backend", "op"]):
        if len(rows) > FEW:
            dims = _columns(rows, {"m": "m", "width": "k"})
            unit = machine(gpu("h100_sxm"), "bf16")
            families = families_of(dims, ("width",))
            name = f"h100 {backend} {op}"
            yield Group(name, QUANTIZE[str(op)], unit, dims, _times(rows), families)


def passes(device: str) -> Iterator[Group]:
    """Passes over activations of vidur; the same width in several networks is one row."""
    every = measured("elementwise")
    every = every[(every.gpu == device) & ~every.model.isin(OTHER_NORM)]
    for op, part in every.groupby("op"):
        rows = part.groupby(["num_tokens", "width"])["time_s"].median().reset_index()
        dims = _columns(rows, {"m": "num_tokens", "width": "width"})
        octave = {**dims, "octave": np.floor(np.log2(dims["m"]))}
        names = ("width", "octave") if rows.width.nunique() < FEW else ("width",)
        unit = machine(gpu(f"{device}_sxm"), "fp16")
        families = families_of(octave, names)
        yield Group(f"{device} vidur {op}", POINTWISE[str(op)], unit, dims, _times(rows), families)


def _columns(rows: "pandas.DataFrame", names: Mapping[str, str]) -> dict[str, Array]:
    return {name: rows[column].to_numpy(np.float64) for name, column in names.items()}


def _times(rows: "pandas.DataFrame") -> Array:
    return rows.time_s.to_numpy(np.float64)
