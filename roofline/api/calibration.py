"""Which measured kernels price a deployment."""

from collections.abc import Mapping
from typing import Final

from roofline.bench.calibrating import Fitted
from roofline.bench.profile import Profile
from roofline.bench.profile_file import find
from roofline.bench.shipping.files import fit_of, labels
from roofline.cost.calibration.kernel import LIKE, Kernel, Label, devices
from roofline.cost.calibration.pricing import GpuCalibration
from roofline.cost.kernels.catalog import FORMS
from roofline.errors import InputError
from roofline.hardware.machine import Gpu

NAMED: Final = ("gemm", "pointwise", "quantize")
"""Kinds with a form for each variant."""
AUTO: Final = "auto"
NONE: Final = "none"


def calibration_of(asked: str, gpu: Gpu, engine: str) -> GpuCalibration | None:
    """Calibration of a device under an engine; None for the datasheet's rates.

    Parameters
    ----------
    asked
        ``"auto"``: what is shipped for the device or the one most like it. ``"none"``, or the name
        or file of a calibration.
    gpu, engine
        What runs, and whose kernels are preferred.

    Raises
    ------
    RooflineError
        There is no such calibration, or it is of no kernel that a network has.
    """
    if asked == NONE:
        return None
    if asked == AUTO:
        return _shipped(gpu, engine)
    found = find(asked)
    fits = dict(_fits(found, gpu))
    if not fits:
        raise InputError(
            f"the calibration {found.name!r:.60} has no kernel of a network in it",
            hint="calibrate this GPU: roofline calibrate --backend cupy; or --calibration auto",
        )
    return GpuCalibration(found.name, engine, tuple(fits), fits.__getitem__)


def _shipped(gpu: Gpu, engine: str) -> GpuCalibration | None:
    """What was measured of the device, or of those like it."""
    if gpu.architecture not in LIKE:
        return None
    mine = tuple(label for label in labels() if label.device in devices(gpu))
    if not mine:
        return None
    measured = {label.device for label in mine}
    name = gpu.name if gpu.name in measured else f"kernels of {devices(gpu)[1]}"
    return GpuCalibration(name, engine, mine, fit_of)


def _fits(found: Profile, gpu: Gpu) -> Mapping[Label, Kernel]:
    """Fits of a calibration file by what they are of, on the device that is asked about."""
    out: dict[Label, Kernel] = {}
    for name, fitted in found.fits.items():
        if fitted.form in FORMS:
            label = Label(gpu.name, found.provider, fitted.kind, _variant(name, fitted))
            out[label] = Kernel(label, fitted.arithmetic, fitted.model)
    return out


def _variant(name: str, fitted: Fitted) -> str:
    """Formats or operator of a fit: as its form is called, else as the fit is."""
    kind, _, variant = fitted.form.partition("-")
    return variant if kind in NAMED else name
