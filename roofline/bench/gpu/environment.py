"""Packages and drivers that measuring on a GPU needs: a missing one is an error with its remedy."""

from importlib.metadata import PackageNotFoundError, distribution
from typing import Any, Final

from roofline.errors import MissingEnvironmentError

WHEELS: Final = ("cupy-cuda12x", "cupy-cuda13x")
"""CuPy for either CUDA; they install into the same folder."""
_INSTALL: Final = "pip install 'roofline[gpu-cu13]', or [gpu-cu12] for a driver older than 580"


def installed(name: str) -> str:
    """Version of an installed distribution, or nothing."""
    try:
        return distribution(name).version
    except PackageNotFoundError:
        return ""


def require_cupy() -> Any:
    """CuPy.

    Raises:
        MissingEnvironmentError: If it is missing, there twice, or does not load.
    """
    if all(map(installed, WHEELS)):
        raise MissingEnvironmentError(
            f"{' and '.join(WHEELS)} are both installed and overwrite each other",
            hint=f"pip uninstall -y {' '.join(WHEELS)}, then {_INSTALL}",
        )
    try:
        import cupy
    except ModuleNotFoundError as error:
        if error.name != "cupy":
            raise
        raise MissingEnvironmentError("CuPy is not installed", hint=_INSTALL) from None
    except ImportError as error:
        reason = (str(error).strip().splitlines() or ["it does not say why"])[0]
        raise MissingEnvironmentError(
            f"CuPy is installed and does not load: {reason}", hint=f"reinstall it: {_INSTALL}"
        ) from None
    return cupy


def require_device(index: int = 0) -> Any:
    """CuPy, with that device current.

    Raises:
        MissingEnvironmentError: If there is no CuPy, no driver that it can use, or no such device.
    """
    cupy = require_cupy()
    runtime = cupy.cuda.runtime
    if (driver := runtime.driverGetVersion()) == 0:
        raise MissingEnvironmentError(
            "there is no NVIDIA driver",
            hint="install one, or run where there is a GPU; nvidia-smi shows it",
        )
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        if "InsufficientDriver" in str(error):
            raise MissingEnvironmentError(
                f"the driver is for CUDA {_version(driver)} and CuPy for "
                f"{_version(runtime.runtimeGetVersion())}",
                hint="install a newer driver, or the CuPy of the older CUDA",
            ) from None
        count = 0
    if index >= count:
        raise MissingEnvironmentError(
            f"there is no CUDA device {index}" if count else "there is no CUDA device",
            hint="check nvidia-smi and CUDA_VISIBLE_DEVICES",
        )
    cupy.cuda.Device(index).use()
    return cupy


def _version(number: int) -> str:
    """13000 is CUDA 13.0."""
    return f"{number // 1000}.{number % 1000 // 10}"
