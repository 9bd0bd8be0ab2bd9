"""A user's own constants of an engine in a deployment."""

from pathlib import Path

from roofline.bench.end_to_end.profiles import profile_of
from roofline.bench.engine_notes import name_of
from roofline.cost.calibration.pricing import GpuCalibration
from roofline.cost.calibration.usual import UsualKernels
from roofline.cost.deployment import Deployment
from roofline.cost.engine_costs import EngineProfile
from roofline.errors import InputError
from roofline.records import replace


def with_profile(deployment: Deployment, profile: str | Path) -> Deployment:
    """The deployment with an engine's constants from a file that `roofline.api.learn_engine` wrote.

    Raises:
        RooflineError: It cannot be read, or no measured kernels price the deployment: constants are
            fitted beside those.
    """
    known, path = deployment.calibration, Path(profile)
    if not isinstance(known, GpuCalibration | UsualKernels):
        raise InputError(
            "a profile goes with measured kernels, and none price this deployment",
            hint="leave `profile` out, or give a GPU and `calibration` that have some",
        )
    return replace(deployment, calibration=replace(known, profile=_own_profile(deployment, path)))


def _own_profile(deployment: Deployment, path: Path) -> EngineProfile:
    """Profile of a file; of a log of another deployment nothing is known of the loads of this."""
    own = profile_of(deployment.engine, path)
    if own.logged is not None and own.logged.deployment != name_of(deployment):
        source = f"{own.source} (learnt from the log of {own.logged.deployment})"
        return replace(own, logged=None, source=source)
    return own
