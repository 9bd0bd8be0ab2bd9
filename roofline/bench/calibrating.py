"""Fits of a run's records, each with its errors on families of shapes that it did not see."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

import numpy as np

from roofline.bench.clock import OTHERS
from roofline.bench.fit import cross_validate, families_of, fit
from roofline.bench.forms import columns, form_of
from roofline.bench.held_out import coverage, errors
from roofline.bench.prices import RATES, SUSTAINED
from roofline.bench.profile import FittedProbe
from roofline.bench.published import PublishedRates
from roofline.bench.records import Record, Records, alike
from roofline.bench.stopping import SLOWED
from roofline.cost.kernels.catalog import FORMS
from roofline.cost.kernels.form import Dims, Machine, seconds
from roofline.cost.work import Array
from roofline.errors import InputError
from roofline.records import replace

FOLDS: Final = 5
"""Groups of families that a validation leaves out, one after the other."""
FAMILIES: Final = {
    "gemm": ("n", "k"),
    "decode-attention": ("count", "heads", "kv_heads", "head_dim"),
    "prefill-attention": ("count", "heads", "kv_heads", "head_dim"),
}
"""Axes of a family by kind, which is left out as one; of others, the form's coordinates."""
FASTER: Final = 4.0
"""Times the published rates that nothing reaches; what stands in for those of processors, which
raise their clocks, is reached twice. Assumed."""
SLOWER: Final = 1e4
LONGEST_S: Final = 1.0
"""Times the published rates, and beyond that, in which any kernel ends; assumed."""
CLOCK: Final = 0.5
"""Share of the usual clock of a run below which something held a device down; assumed."""
LAUNCHED: Final = "launched one by one, unlike the others of their probe"
FAULTY: Final = frozenset(
    {"hardware slowdown", "temperature", "hardware temperature", "power brake"}
)
"""Reasons of a driver for a lower clock that are of a room or a cable, not of a product."""


def fit_records(records: Records, published: PublishedRates) -> tuple[list[FittedProbe], list[str]]:
    """Fit every probe of a run that has enough rows.

    Returns:
        tuple: The fits, and sentences about what is left out of them.

    Raises:
        InputError: The run is of a part of a device.
    """
    fits = []
    kept, notes = trusted(records, published)
    for probe, entry in records.header.probes.items():
        if probe in SUSTAINED or probe in RATES:
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
    fitted: FittedProbe, rows: Sequence[Record], published: PublishedRates
) -> tuple[FittedProbe, float]:
    """A fit whose products compute as fast as a device at its power limit, and that share.

    Points of a few milliseconds end before the limit has an effect; the rows follow seconds of
    work, as prompts in a row do.
    """
    dims, machine = columns(rows, fitted.form, published), published.of(fitted.arithmetic)
    share = min(1.0, float(np.median(seconds(fitted.model, dims, machine) / times(rows))))
    lowest = next(c.low for c in fitted.model.form.constants if c.name == "compute")
    compute = max(lowest, share * fitted.model.constants["compute"])
    constants = {**fitted.model.constants, "compute": compute}
    return replace(fitted, model=replace(fitted.model, constants=constants)), share


def _with_few(
    fit_of: Callable[[Sequence[Record]], FittedProbe], rows: Sequence[Record]
) -> FittedProbe:
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
    rows: Sequence[Record], published: PublishedRates, version: int, provider: str, form: str = ""
) -> FittedProbe:
    """Fit of the rows of one probe, beside the published rates of where they were measured.

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
    return FittedProbe(
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


def trusted(records: Records, published: PublishedRates) -> tuple[list[Record], list[str]]:
    """Rows of a run that a fit may take, and a sentence about the others.

    Raises:
        InputError: All of it was measured on a part of a device.
    """
    about = records.header.environment
    have, whole = float(about.get("multiprocessors", 0)), published.machine.multiprocessors
    if about.get("mig") == "on" and have < whole:
        raise InputError(
            f"the run is of a slice with {have:.0f} of the {whole:.0f} multiprocessors of "
            f"{published.source} (MIG is on)",
            hint="measure with MIG off, or name a GPU file of the slice with `gpu`",
        )
    clocks = sorted(clock for row in records.rows if (clock := row.clocks.get("sm_hz", 0.0)) > 0)
    usual = clocks[len(clocks) // 2] if clocks else 0.0
    as_most = {row.point for probe in records.header.probes for row in alike(records.of(probe))}
    doubts = [
        _doubt(row, published.of(row.arithmetic), usual) if row.point in as_most else LAUNCHED
        for row in records.rows
    ]
    notes = []
    if counts := Counter(filter(None, doubts)):
        why = ", ".join(f"{count} {reason}" for reason, count in counts.most_common())
        notes = [f"{counts.total()} points are kept out of the fit: {why}."]
    if about.get("ecc", "unknown") != "unknown":
        notes.append(f"Memory was measured with ECC {about['ecc']}.")
    return [row for row, doubt in zip(records.rows, doubts, strict=True) if not doubt], notes


def _doubt(row: Record, machine: Machine, usual_hz: float) -> str:
    """Why a fit must not take a row; empty where it may."""
    moved = sum(size for name, size in row.work.items() if name != "flops")
    compute = row.work["flops"] / machine.flops_per_s
    # What is in a cache of unknown rate may come at any.
    cached = moved / max(machine.l2_bytes_per_s, machine.hbm_bytes_per_s)
    least = max(compute, cached if machine.l2_bytes_per_s else 0.0)
    most = max(compute, moved / machine.hbm_bytes_per_s)
    seconds = row.median.value
    if seconds < least / FASTER:
        return "faster than the device can be"
    if seconds > LONGEST_S + SLOWER * most:
        return "slower than any kernel is"
    if row.clocks.get("others", 0.0) > 0:
        return "measured beside other processes"
    if row.stopped == SLOWED and FAULTY & set(", ".join(row.dropped).split(", ")):
        return "throttled by heat or by the board"
    if row.clocks.get("sm_hz", usual_hz) < CLOCK * usual_hz and row.stopped != SLOWED:
        return "at a clock that nothing explains"
    return ""
