"""Which measured kernels price a deployment."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from roofline.bench.calibrating import Fitted
from roofline.bench.profile import Profile
from roofline.bench.profile_file import find
from roofline.bench.shipping.files import fit_of, labels
from roofline.cost.calibration.kernel import LIKE, Kernel, Label, devices
from roofline.cost.calibration.pricing import GpuCalibration
from roofline.cost.deployment import Deployment
from roofline.cost.engine_costs import EngineCosts
from roofline.cost.kernels import processor
from roofline.cost.kernels.catalog import FORMS
from roofline.errors import InputError
from roofline.hardware.machine import Gpu
from roofline.model.architecture import Mla, Moe

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
    return GpuCalibration(found.name, engine, tuple(fits), fits.__getitem__, costs=_costs(engine))


def _shipped(gpu: Gpu, engine: str) -> GpuCalibration | None:
    """What was measured of the device, or of those like it."""
    if gpu.architecture not in LIKE:
        return None
    near = devices(gpu)
    mine = tuple(label for label in labels() if label.device in near)
    if not mine:
        return None
    measured = {label.device for label in mine}
    name = gpu.name if gpu.name in measured else f"kernels of {near[1]}"
    return GpuCalibration(name, engine, mine, fit_of, costs=_costs(engine))


def _fits(found: Profile, gpu: Gpu) -> Mapping[Label, Kernel]:
    """Fits of a calibration file by what they are of, on the device that is asked about."""
    out: dict[Label, Kernel] = {}
    for name, fitted in found.fits.items():
        if fitted.form in FORMS and fitted.form not in processor.FORMS:
            label = Label(gpu.name, found.provider, fitted.kind, _variant(name, fitted))
            out[label] = Kernel(label, fitted.arithmetic, fitted.model)
    return out


def _variant(name: str, fitted: Fitted) -> str:
    """Formats or operator of a fit: as its form is called, else as the fit is."""
    kind, _, variant = fitted.form.partition("-")
    return variant if kind in NAMED else name


def _costs(engine: str, own: Path | None = None) -> EngineCosts:
    from roofline.bench.end_to_end.profiles import costs_of

    return costs_of(engine, own)


def with_profile(deployment: Deployment, profile: str | Path) -> Deployment:
    """The deployment with an engine's constants from a file, in place of the shipped ones.

    Parameters
    ----------
    deployment
        Priced by measured kernels.
    profile
        File, as `roofline.api.learn_engine` writes it.

    Raises
    ------
    RooflineError
        It cannot be read, or no measured kernels price the deployment: constants are fitted beside
        those.
    """
    known = deployment.calibration
    if not isinstance(known, GpuCalibration):
        raise InputError(
            "a profile goes with measured kernels, and none price this deployment",
            hint="leave --profile out, or give a GPU and --calibration that have some",
        )
    costs = _costs(deployment.engine.name, Path(profile))
    return replace(deployment, calibration=replace(known, costs=costs))


def engine_misses(deployment: Deployment) -> Mapping[str, float]:
    """How far predictions of the deployment's engine were off end to end: log sd by metric. [1]"""
    from roofline.bench.end_to_end.profiles import misses_of

    blocks = deployment.architecture.kinds
    kind = "dense"
    if any(isinstance(block.mixer, Mla) for block in blocks):
        kind = "latent"
    elif any(isinstance(block.feedforward, Moe) for block in blocks):
        kind = "mixture"
    return misses_of(deployment.engine.name, kind)
