"""Time of operators by measured kernels: a calibration of one device under one engine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from roofline.cost.calibration.asked import Asked, asked
from roofline.cost.calibration.kernel import Found, Kernel, Label, Load, nearest
from roofline.cost.calibration.wires import library, payload_of, wire_seconds
from roofline.cost.kernels import experts
from roofline.cost.kernels.calibrated import Calibrated, predict
from roofline.cost.kernels.form import Dims, Machine, machine
from roofline.cost.measured import Measured
from roofline.cost.work import Array, Number, Op
from roofline.hardware.machine import Gpu
from roofline.table import BASES

ASSUMED: Final = BASES.index("assumed")
INTERPOLATED: Final = BASES.index("interpolated")
TRANSFERRED: Final = BASES.index("transferred")
GUESS: Final = 0.25
"""Log standard deviation that is added where no kernel of these formats was measured; assumed."""


@dataclass(frozen=True, slots=True)
class GpuCalibration:
    """Measured kernels of a device, or of the one most like it.

    Attributes
    ----------
    name
        What it is called.
    engine
        Whose kernels are taken where there are several.
    labels
        Of all fits there are.
    load
        Fit of a label.
    launch
        Factor on what a kernel takes to start, by kind; kernels that an engine fuses or captures in
        a graph start sooner than alone. [1]
    """

    name: str
    engine: str
    labels: tuple[Label, ...]
    load: Load = field(repr=False)
    launch: Mapping[str, float] = field(default_factory=dict)

    def price(self, op: Op, gpu: Gpu) -> Measured | None:
        """Time of one execution of an operator; None where nothing like it was measured."""
        if op.kind == "collective":
            return self._wired(op, gpu)
        if op.name.startswith("quantise-"):
            # Measured products make their own inputs; the form of the product has the time.
            zero = np.zeros_like(np.asarray(op.work.activation_bytes))
            return Measured(_plain(zero), _plain(zero), float(INTERPOLATED))
        wanted = asked(op, gpu)
        found = None if wanted is None else self.find(gpu, wanted.kind, wanted.variants)
        if wanted is None or found is None:
            return None
        return self._priced(op, gpu, wanted, found)

    def find(self, gpu: Gpu, kind: str, variants: Sequence[str]) -> Found | None:
        """Fit that stands for a kernel."""
        return nearest(self.labels, self.load, gpu, self.engine, kind, variants)

    def _priced(self, op: Op, gpu: Gpu, wanted: Asked, found: Found) -> Measured | None:
        kernel = found.fit
        assert isinstance(kernel, Kernel)
        rate = next(
            (
                name
                for name in (wanted.arithmetic, kernel.arithmetic, "bf16", "fp16")
                if name in gpu.flops_per_s
            ),
            None,
        )
        if rate is None:
            return None
        device = machine(gpu, rate)
        model = kernel.model
        if wanted.form is not None:
            model = replace(model, form=wanted.form)
        model = self._started(model)
        time, own, known = predict(model, wanted.dims, device)
        if wanted.part:
            time = time * share(wanted.part, model, wanted.dims, device)
        spread = np.hypot(own, found.spread)
        known = np.maximum(known, TRANSFERRED if found.foreign or found.borrowed else 0)
        if wanted.assumed:
            spread, known = np.hypot(spread, GUESS), np.full_like(known, ASSUMED)
        priced = _shaped(op, time, spread, known.astype(float))
        return replace(priced, found=found, assumed=wanted.assumed)

    def _started(self, model: Calibrated) -> Calibrated:
        """The model with launches as the engine has them."""
        factor = self.launch.get(model.form.kind)
        if factor is None:
            return model
        name = "launch" if "launch" in model.constants else "start"
        constants = {**model.constants, name: model.constants[name] * factor}
        return replace(model, constants=constants)

    def _wired(self, op: Op, gpu: Gpu) -> Measured | None:
        """Collectives inside a node, by the library that takes less time."""
        wanted = payload_of(op)
        if wanted is None:
            return None
        best: Measured | None = None
        for provider in library(op, self.engine):
            labels = [label for label in self.labels if label.provider == provider]
            found = nearest(labels, self.load, gpu, provider, "collective", (wanted.op,))
            if found is None:
                continue
            borrowed = provider.endswith("custom") and self.engine not in provider
            found = replace(found, borrowed=borrowed)
            priced = wire_seconds(wanted, gpu, found)
            if priced is None:
                continue
            priced = replace(priced, found=found)
            best = priced if best is None else _faster(best, priced)
        if best is None:
            return None
        columns = (np.atleast_1d(each) for each in (best.seconds, best.log_sd, best.basis))
        return replace(_shaped(op, *columns), found=best.found)


def share(part: str, model: Calibrated, dims: Dims, device: Machine) -> Array:
    """Share of a fused mixture of experts that is one of its matrices, or around them. [1]

    Parameters
    ----------
    part
        ``"first"`` or ``"second"`` matrix, ``"around"`` them, or ``"none"``.
    model, dims, device
        Fit, columns and device.

    Notes
    -----
    Source: the terms of `roofline.cost.kernels.experts`, with half of the launches each.
    """
    if part == "none":
        return np.zeros(len(dims["rows"]))
    first, second, around = experts.parts(dims, device, model.constants)
    q, launch = model.constants["sharpness"], model.constants["launch"]
    each = {
        "first": launch / 2 + first.seconds(q),
        "second": launch / 2 + second.seconds(q),
        "around": around,
    }
    shared: Array = each[part] / (each["first"] + each["second"] + each["around"])
    return shared


def _faster(one: Measured, other: Measured) -> Measured:
    """The faster of two libraries, row by row; told as the one that is faster more often."""
    first = np.asarray(one.seconds) <= np.asarray(other.seconds)
    seconds, log_sd, basis = (
        np.where(first, getattr(one, name), getattr(other, name))
        for name in ("seconds", "log_sd", "basis")
    )
    return Measured(seconds, log_sd, basis, one.found if first.mean() > 0.5 else other.found)


def _shaped(op: Op, time: Array, spread: Array, known: Array) -> Measured:
    """Numbers where the operator has numbers; nothing where it has nothing to do."""
    work = op.work
    idle = (np.asarray(work.flops) == 0) & (np.asarray(work.hbm_bytes) == 0)
    idle = idle & (np.asarray(op.wire_s) == 0)
    time = np.where(idle, 0.0, time)
    if time.size == 1 and all(np.ndim(value) == 0 for value in op.dims.values()):
        return Measured(float(time[0]), float(np.ravel(spread)[0]), float(np.ravel(known)[0]))
    return Measured(time, spread, known)


def _plain(value: Array) -> Number:
    return float(value) if value.ndim == 0 else value
