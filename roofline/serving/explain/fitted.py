"""Derivations of operators that are priced by a measured kernel."""

from typing import TYPE_CHECKING

from roofline.cost.measured import Measured
from roofline.serving.static import OpTime
from roofline.table import BASES, Derivation
from roofline.units import show

if TYPE_CHECKING:
    from roofline.cost.calibration.kernel import Found
    from roofline.cost.kernels.calibrated import Calibrated


def fitted(entry: OpTime, known: Measured, counted: tuple[Derivation, ...]) -> Derivation:
    """Time of an operator, all its executions together, as a fit has it."""
    op, found = entry.op, known.found
    if found is None:
        source = "measured with the product that it feeds"
        return Derivation(op.name, entry.seconds, "s", source=source, basis=entry.basis)
    floor = Derivation(
        "least at published rates",
        entry.roof,
        "s",
        source="max(F / P, B / BW) or the wires, all executions",
        basis="datasheet",
    )
    model, label = found.fit.model, found.fit.label
    equation = model.form.equation or "t(shape, constants) · exp(residual)"
    whose = f"{label.provider} {label.kind} {label.variant} on {label.device}"
    return Derivation(
        op.name,
        entry.seconds,
        "s",
        formula=f"{op.repeat} · {equation}",
        substituted=f"{op.repeat} · {show(entry.seconds / op.repeat, 's')}",
        inputs=(*counted, *_constants(model), floor),
        source=f"fit of {whose}: {model.source}",
        basis=BASES[int(known.basis)],
        note=_note(known, found),
    )


def _note(known: Measured, found: "Found") -> str:
    """How far the fit is from what was asked for, and how well it is known."""
    parts = [f"log standard deviation {float(known.log_sd):.2g}"]
    if found.foreign:
        parts.append("measured on another device and carried over by published rates")
    if found.borrowed:
        parts.append("kernels of another engine")
    if known.assumed:
        parts.append(known.assumed)
    return "; ".join(parts)


def _constants(model: "Calibrated") -> tuple[Derivation, ...]:
    return tuple(
        Derivation(
            constant.name,
            model.constants[constant.name],
            "" if constant.unit == "1" else constant.unit,
            source=constant.meaning.rstrip("."),
            basis="measured",
        )
        for constant in model.form.constants
    )
