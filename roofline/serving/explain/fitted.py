"""Derivations of operators that are priced by a measured kernel."""

from roofline.cost.calibration.kernel import Found, Kernel, Wires
from roofline.cost.kernels.calibrated import Calibrated
from roofline.cost.measured import Measured
from roofline.serving.static import OpTime
from roofline.table import BASES, Derivation
from roofline.units import show


def fitted(entry: OpTime, known: Measured, counted: tuple[Derivation, ...]) -> Derivation:
    """Time of an operator, all its executions together, as a fit has it.

    Parameters
    ----------
    entry, known
        The operator, and what measurements say of it.
    counted
        What one execution computes and moves.
    """
    op, found = entry.op, known.found
    each = show(entry.seconds / op.repeat, "s")
    floor = Derivation(
        "least at published rates",
        entry.roof,
        "s",
        source="max(F / P, B / BW) or the wires, all executions",
        basis="datasheet",
    )
    if found is None:
        return Derivation(
            op.name,
            entry.seconds,
            "s",
            source="measured with the product that it feeds",
            basis=entry.basis,
        )
    formula = "t(shape, constants) · exp(residual)"
    told: tuple[Derivation, ...] = ()
    if isinstance(found.fit, Kernel):
        model = found.fit.model
        formula = model.form.equation or formula
        told = _constants(model)
    elif isinstance(found.fit, Wires):
        formula = "least over algorithms of start + messages · delay + bytes / (share · W)"
        told = _regimes(found.fit)
    return Derivation(
        op.name,
        entry.seconds,
        "s",
        formula=f"{op.repeat} · {formula}",
        substituted=f"{op.repeat} · {each}",
        inputs=(*counted, *told, floor),
        source=_whose(found),
        basis=BASES[int(known.basis)],
        note=_note(known, found),
    )


def _whose(found: Found) -> str:
    """Which measurements."""
    fit = found.fit
    label = fit.label
    name = f"{label.provider} {label.kind} {label.variant} on {label.device}"
    rows = fit.model.source if isinstance(fit, Kernel) else ""
    return f"fit of {name}" + (f": {rows}" if rows else "")


def _note(known: Measured, found: Found) -> str:
    """How far the fit is from what was asked for, and how well it is known."""
    parts = [f"log standard deviation {float(known.log_sd):.2g}"]
    if found.foreign:
        parts.append("measured on another device and carried over by published rates")
    if found.borrowed:
        parts.append("kernels of another engine")
    if known.assumed:
        parts.append(known.assumed)
    return "; ".join(parts)


def _constants(model: Calibrated) -> tuple[Derivation, ...]:
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


def _regimes(fit: Wires) -> tuple[Derivation, ...]:
    return tuple(
        Derivation(
            f"{regime.path}, {name}",
            getattr(regime, name),
            "" if name == "efficiency" else "s",
            source={
                "start": "before the first message",
                "message": "each message that follows another",
                "efficiency": "share of the link's published rate",
            }[name],
            basis="measured",
        )
        for regime in fit.constants.regimes
        for name in ("start", "message", "efficiency")
    )
