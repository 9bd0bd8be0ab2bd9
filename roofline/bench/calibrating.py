"""From records to fitted forms, each with its errors on families of shapes that it did not see."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from roofline.bench.fit import cross_validate, families_of, fit
from roofline.bench.held_out import Errors, Labels, coverage, errors
from roofline.bench.records import Record, Records
from roofline.cost.kernels.calibrated import Calibrated
from roofline.cost.kernels.form import Dims, Form, Machine
from roofline.cost.kernels.processor import FORMS, OF_KIND
from roofline.cost.work import Array
from roofline.errors import InputError

FOLDS: Final = 5
"""Groups of families that a validation leaves out, one after the other."""
FAMILIES: Final = {
    "gemm": ("n", "k"),
    "decode-attention": ("count", "heads", "kv_heads", "head_dim"),
    "prefill-attention": ("count", "heads", "kv_heads", "head_dim"),
}
"""What is left out together, by kind; of any other kind, each shape is a family."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """One probe's form, fitted.

    Attributes
    ----------
    probe, version, kind, arithmetic
        As of the probe.
    form
        Name of the form in a calibration file.
    model
        What predicts.
    errors, datasheet
        On families left out; of the roofline at published rates on the same rows, where known.
    inside
        Share of rows left out that are in their central 80 % interval. [1]
    """

    probe: str
    version: int
    kind: str
    arithmetic: str
    form: str
    model: Calibrated
    errors: Errors
    datasheet: Errors | None
    inside: float


def fit_records(records: Records, machine: Machine) -> tuple[list[Fitted], list[str]]:
    """Fit every probe of a run that has enough rows.

    Parameters
    ----------
    records
        Of a run.
    machine
        Where it ran, at published rates.

    Returns
    -------
    tuple
        The fits, and a sentence for each probe that has none.
    """
    fits, notes = [], []
    for probe, entry in records.header.probes.items():
        rows = records.of(probe)
        if not rows:
            notes.append(f"{probe} was not measured.")
            continue
        try:
            fits.append(fit_probe(rows, machine, entry.version, records.header.provider))
        except InputError as error:
            notes.append(f"{probe} is measured, not fitted: {error.message}.")
    return fits, notes


def fit_probe(rows: Sequence[Record], machine: Machine, version: int, provider: str) -> Fitted:
    """Fit the rows of one probe.

    Raises
    ------
    InputError
        They are too few, or of too few families.
    """
    first = rows[0]
    name = OF_KIND.get(first.kind, "processor-roof")
    form, dims, measured = FORMS[name], columns(rows), times(rows)
    families = _families(form, dims)
    source = f"{provider}, {len(rows)} points of the probe {first.probe}"
    model = fit(form, dims, machine, measured, families=families, source=source)
    predicted, spread = cross_validate(
        form, dims, machine, measured, families=families, folds=FOLDS
    )
    return Fitted(
        probe=first.probe,
        version=version,
        kind=first.kind,
        arithmetic=first.arithmetic,
        form=name,
        model=model,
        errors=errors(predicted, measured),
        datasheet=errors(roofline(dims, machine), measured),
        inside=coverage(predicted, spread, measured),
    )


def roofline(dims: Dims, machine: Machine) -> Array:
    """The larger of arithmetic and traffic at published rates. [s]"""
    time: Array = np.maximum(
        dims["flops"] / machine.flops_per_s, dims["bytes"] / machine.hbm_bytes_per_s
    )
    return time


def times(rows: Iterable[Record]) -> Array:
    """Median of each point. [s]"""
    return np.array([row.median.value for row in rows])


def columns(rows: Sequence[Record]) -> Dims:
    """What forms are functions of: axes, work, and how the arrays lie.

    ``rows`` are runs of an array that are passed over one by one; ``cold`` is 1 where arguments
    come from memory.
    """
    out = {name: np.array([float(row.at[name]) for row in rows]) for name in rows[0].at}
    moved = ("weight_bytes", "activation_bytes", "kv_bytes")
    out["bytes"] = np.array([sum(row.work[name] for name in moved) for row in rows])
    out["flops"] = np.array([row.work["flops"] for row in rows])
    out["cold"] = np.array([float(row.state == "cold") for row in rows])
    out["rows"] = out.get("m", np.ones(len(rows))) * out.get("heads", 1.0)
    return out


def _families(form: Form, dims: Dims) -> Labels:
    return families_of(dims, FAMILIES.get(form.kind, ("rows", "bytes")))
