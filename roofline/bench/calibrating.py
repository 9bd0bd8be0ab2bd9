"""Fits of a run's records, each with its errors on families of shapes that it did not see."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from roofline.bench.clock import OTHERS
from roofline.bench.fit import cross_validate, families_of, fit
from roofline.bench.forms import columns, form_of
from roofline.bench.held_out import coverage, errors
from roofline.bench.prices import SUSTAINED
from roofline.bench.profile import Fitted
from roofline.bench.published import Published
from roofline.bench.records import Record, Records
from roofline.bench.stopping import SLOWED
from roofline.bench.trust import trusted
from roofline.cost.kernels.calibrated import seconds
from roofline.cost.kernels.catalog import FORMS
from roofline.cost.kernels.form import Dims, Machine
from roofline.cost.work import Array
from roofline.errors import InputError

FOLDS: Final = 5
"""Groups of families that a validation leaves out, one after the other."""
FAMILIES: Final = {
    "gemm": ("n", "k"),
    "decode-attention": ("count", "heads", "kv_heads", "head_dim"),
    "prefill-attention": ("count", "heads", "kv_heads", "head_dim"),
}
"""Axes of a family by kind, which is left out as one; of others, the form's coordinates."""


def fit_records(records: Records, published: Published) -> tuple[list[Fitted], list[str]]:
    """Fit every probe of a run that has enough rows.

    Returns:
        tuple: The fits, and sentences about what is left out of them.

    Raises:
        InputError: The run is of a part of a device.
    """
    fits = []
    kept, notes = trusted(records, published)
    for probe, entry in records.header.probes.items():
        if probe in SUSTAINED:
            continue
        if not records.of(probe):
            notes.append(f"{probe} was not measured.")
            continue
        rows = [row for row in kept if row.probe == probe]
        if not rows:
            notes.append(f"{probe} is measured, not fitted: no point can be trusted.")
            continue
        fit_of = partial(
            fit_probe,
            published=published,
            version=entry.version,
            provider=records.header.provider,
            form=entry.form,
        )
        try:
            fits.append(_with_few(fit_of, rows))
        except InputError as error:
            notes.append(f"{probe} is measured, not fitted: {error.message}.")
    for long, short in SUSTAINED.items():
        for place, each in enumerate(fits):
            if each.probe == short and (rows := records.of(long)):
                fits[place], share = _at_the_limit(each, rows, published)
                notes.append(
                    f"Large products of {short} go on at {share:.0%} of the rate at which they "
                    "begin; prices are of what goes on."
                )
    return fits, notes


def _at_the_limit(
    fitted: Fitted, rows: Sequence[Record], published: Published
) -> tuple[Fitted, float]:
    """A fit whose products compute as fast as a device at its power limit, and that share.

    Points of a few milliseconds end before the limit has an effect, prompts in a row do not.

    Args:
        fitted: Of products that were measured one by one.
        rows: The same kernel after seconds of work.
        published: Rates of the device.
    """
    dims, machine = columns(rows, fitted.form, published), published.of(fitted.arithmetic)
    share = min(1.0, float(np.median(seconds(fitted.model, dims, machine) / times(rows))))
    lowest = next(c.low for c in fitted.model.form.constants if c.name == "compute")
    compute = max(lowest, share * fitted.model.constants["compute"])
    constants = {**fitted.model.constants, "compute": compute}
    return replace(fitted, model=replace(fitted.model, constants=constants)), share


def _with_few(fit_of: Callable[[Sequence[Record]], Fitted], rows: Sequence[Record]) -> Fitted:
    """Fit of the rows that others let alone; of all where those are too few."""
    alone = [row for row in rows if not with_others(row)]
    try:
        return fit_of(alone or rows)
    except InputError:
        return fit_of(rows)


def with_others(row: Record) -> bool:
    """True where others on the device slowed all of a row's samples down."""
    return row.stopped == SLOWED and OTHERS in row.dropped


def fit_probe(
    rows: Sequence[Record], published: Published, version: int, provider: str, form: str = ""
) -> Fitted:
    """Fit the rows of one probe.

    Args:
        rows: All of one probe.
        published: Rates of where they were measured.
        version, form: Those of the probe.
        provider: ``"numpy"``, ``"cupy"``.

    Raises:
        InputError: They are too few, or of too few families.
    """
    first = rows[0]
    name = form_of(first.kind, first.arithmetic, provider, form)
    equation, dims, measured = FORMS[name], columns(rows, name, published), times(rows)
    machine = published.of(first.arithmetic)
    families = families_of(dims, FAMILIES.get(equation.kind, equation.coordinates))
    source = f"{provider}, {len(rows)} points of the probe {first.probe}"
    model = fit(equation, dims, machine, measured, families=families, source=source)
    predicted, spread = cross_validate(
        equation, dims, machine, measured, families=families, folds=FOLDS
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
    """The largest of arithmetic, traffic and wires at published rates. [s]"""
    traffic = dims["bytes"] / machine.hbm_bytes_per_s
    time: Array = np.maximum(dims["flops"] / machine.flops_per_s, traffic)
    return np.maximum(time, dims["wire_s"]) if "wire_s" in dims else time


def times(rows: Iterable[Record]) -> Array:
    """Median of each point. [s]"""
    return np.array([row.median.value for row in rows])
