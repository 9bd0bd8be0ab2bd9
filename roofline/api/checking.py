"""Checks of an installation: versions, extras, GPU, calibration, folders."""

import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

from roofline.bench.calibrations import calibration_of, folders
from roofline.bench.gpu import nvml
from roofline.bench.gpu.environment import WHEELS, installed, require_device
from roofline.bench.gpu.sku import called
from roofline.bench.profile_file import load
from roofline.content import Folder, home, shipped
from roofline.cost.calibration.pricing import GpuCalibration
from roofline.cost.calibration.usual import UsualKernels
from roofline.cost.measured import AUTO
from roofline.errors import MissingEnvironmentError, RooflineError, not_one_of
from roofline.hardware.catalog import gpu as gpu_named
from roofline.hardware.catalog import gpu_names
from roofline.hardware.machine import Gpu
from roofline.table import Result, table
from roofline.version import __version__

State = Literal["ok", "missing", "wrong"]
LIBRARIES: Final = (
    "jinja2", "msgspec", "numba", "numpy", "nvidia-ml-py", "pandas", "plotly", "pyarrow",
    "pydantic", "pyyaml", "scipy", "typer",
)  # fmt: skip
"""Libraries that roofline does not run without."""
OLDEST_PYTHON: Final = (3, 11)
EXTRAS: Final = {
    "ray": (("ray",), "pip install 'roofline[ray]' runs sweeps on several machines"),
    "tests": (("pytest", "hypothesis"), "pip install 'roofline[test]'"),
    "browser tests": (("playwright",), "pip install 'roofline[dev]'"),
}
"""Wheels of each extra, and how they are installed."""
CONTENT: Final[Mapping[str, tuple[Folder, str]]] = {
    "GPUs": ("hwspecs", "gpus"),
    "nodes": ("hwspecs", "nodes"),
    "engines": ("hwspecs", "engines"),
    "calibrations": ("hwspecs", "calibrations"),
    "networks": ("scenarios", "models"),
    "workloads": ("scenarios", "workloads"),
}
NEEDS: Final = ("driver", "gpu", "cupy", "calibration", "own calibration", "ray", "home")
"""Checks that can be asked for."""


class Check(Struct, frozen=True):
    """One thing, and whether it is as it should be."""

    name: str
    state: State
    """Subject of the check, and its verdict; ``"missing"`` may be fine, ``"wrong"`` is not."""
    found: str
    """Findings."""
    hint: str = ""
    """Advice; empty where none is needed."""


def doctor(gpu: str = "", *, engine: str = "vllm", need: Sequence[str] = ()) -> Result:
    """Say what works here, and what to do about the rest.

    Args:
        gpu: Catalog name or YAML file whose calibration is looked for; empty for the GPU that is
            here.
        engine: Whose kernels are preferred.
        need: Checks that have to be ok: ``"driver"``, ``"gpu"``, ``"cupy"``, ``"calibration"``,
            ``"own calibration"``, ``"ray"``, ``"home"``.

    Returns:
        Result: Table ``checks``; metadata ``absent``: those needed that are not ok.

    Raises:
        InputError: There is no such GPU, or nothing of that name can be needed.
    """
    for name in need:
        if name not in NEEDS:
            raise not_one_of("need", name, NEEDS)
    asked = gpu_named(gpu) if gpu else None
    driver, here = _driver()
    checks = [
        *_versions(),
        *(_library(name) for name in LIBRARIES),
        *(_extra(name, *extra) for name, extra in EXTRAS.items()),
        *driver,
        _cupy(),
        *_calibrations(asked or here, engine),
        *(_shipped(name, *place) for name, place in CONTENT.items()),
        _home(),
    ]
    known = {check.name: check for check in checks}
    absent = [name for name in need if name not in known or known[name].state != "ok"]
    rows = [
        {"check": each.name, "state": each.state, "found": each.found, "hint": each.hint}
        for each in checks
    ]
    return Result("doctor", {"checks": table(rows, {})}, metadata={"absent": absent})


def _versions() -> Iterator[Check]:
    yield Check("roofline", "ok", __version__)
    new = sys.version_info[:2] >= OLDEST_PYTHON
    hint = "" if new else "use Python 3.11 or newer"
    yield Check("python", "ok" if new else "wrong", platform.python_version(), hint)
    yield Check("system", "ok", f"{platform.system()} {platform.release()} {platform.machine()}")


def _library(name: str) -> Check:
    version = installed(name)
    if version:
        return Check(name, "ok", version)
    return Check(name, "missing", "not installed", "pip install roofline brings it")


def _extra(name: str, wheels: Sequence[str], hint: str) -> Check:
    versions = {wheel: installed(wheel) for wheel in wheels}
    there = ", ".join(f"{wheel} {version}" for wheel, version in versions.items() if version)
    if all(versions.values()):
        return Check(name, "ok", there)
    return Check(name, "missing", there or "not installed", hint)


def _driver() -> tuple[list[Check], Gpu | None]:
    """The driver and what it shows; the product that the first GPU is."""
    try:
        boards, cuda = nvml.boards()
    except MissingEnvironmentError as error:
        absent = Check("gpu", "missing", "none", "everything but measuring on a GPU works without")
        return [Check("driver", "missing", error.message, error.hint), absent], None
    if not boards:
        hint = "check nvidia-smi and CUDA_VISIBLE_DEVICES"
        return [_driver_check("unknown", cuda), Check("gpu", "missing", "none", hint)], None
    driver = _driver_check(boards[0].driver, cuda)
    title, number = boards[0].title, f"{len(boards)} × " if len(boards) > 1 else ""
    alike = called(title, (gpu_named(name) for name in gpu_names()))
    if len(alike) != 1:
        names = ", ".join(found.name for found in alike[:4])
        hint = f"say which it is with `gpu`: {names}" if names else "say one like it with `gpu`"
        return [driver, Check("gpu", "ok", f"{number}{title}", hint)], None
    return [driver, Check("gpu", "ok", f"{number}{title}: {alike[0].name}")], alike[0]


def _driver_check(version: str, cuda: int) -> Check:
    return Check("driver", "ok", f"{version}, CUDA {cuda // 1000}.{cuda % 1000 // 10}")


def _cupy() -> Check:
    """CuPy, and whether it reaches a GPU."""
    there = " and ".join(f"{name} {installed(name)}" for name in WHEELS if installed(name))
    try:
        require_device()
    except MissingEnvironmentError as error:
        state: State = "wrong" if all(map(installed, WHEELS)) else "missing"
        found = f"{there}: {error.message}" if there and state == "missing" else error.message
        return Check("cupy", state, found, error.hint)
    return Check("cupy", "ok", f"{there}, reaches the GPU")


def _calibrations(gpu: Gpu | None, engine: str) -> Iterator[Check]:
    """Measured kernels that are used for a GPU unless told otherwise, and the user's own."""
    if gpu is None:
        yield Check("calibration", "missing", "no GPU is here or named", "name one: `gpu=h100-sxm`")
    else:
        yield _in_use(gpu, engine)
    found, faults = _own(gpu)
    yield from faults
    hint = "roofline calibrate measures this machine"
    whose = f" of {gpu.name}" if gpu is not None else ""
    if found:
        use = f"priced with by `calibration={found[0]}`"
        yield Check("own calibration", "ok", ", ".join(found), use)
    else:
        yield Check("own calibration", "missing", f"none{whose} in {folders()[0]}", hint)


def _in_use(gpu: Gpu, engine: str) -> Check:
    used = calibration_of(AUTO, gpu, engine)
    if isinstance(used, UsualKernels):
        how = "usual shares of published rates, and what serving took end to end on such devices"
        return Check("calibration", "ok", f"{gpu.name} under {engine}: {used.name}", how)
    if not isinstance(used, GpuCalibration):
        hint = "the datasheet's rates are used; roofline calibrate measures this machine"
        return Check("calibration", "missing", f"no measured kernels are like {gpu.name}'s", hint)
    return Check(
        "calibration", "ok", f"{gpu.name} under {engine}: {used.name}", _kernels(gpu, used)
    )


def _kernels(gpu: Gpu, used: GpuCalibration) -> str:
    """Kinds of kernel, by whose are used and where those were measured."""
    found: dict[str, set[str]] = {}
    for kind, variant in sorted({(label.kind, label.variant) for label in used.labels}):
        known = used.find(gpu, kind, (variant,))
        if known is not None:
            label = known.fit.label
            found.setdefault(f"{label.provider} on {label.device}", set()).add(kind)
    first = sorted(found, key=lambda name: (not name.endswith(gpu.name), -len(found[name])))
    return "; ".join(f"{name}: {', '.join(sorted(found[name]))}" for name in first)


def _own(gpu: Gpu | None) -> tuple[list[str], list[Check]]:
    """Names of the user's calibrations of a GPU, or of all, and those that cannot be read."""
    names, faults = [], []
    for path in sorted(folders()[0].glob("*.yaml")):
        try:
            profile = load(path)
        except RooflineError as error:
            faults.append(Check(f"calibration {path.stem}", "wrong", error.told, error.hint))
            continue
        if gpu is None or profile.device == gpu.name:
            names.append(path.stem)
    return names, faults


def _shipped(name: str, folder: Folder, shelf: str) -> Check:
    place = shipped(folder) / shelf
    files = sum(path.suffix in (".yaml", ".zip") for path in place.rglob("*"))
    if files:
        return Check(name, "ok", f"{files:,} in {place}")
    return Check(name, "missing", f"none in {place}", "install roofline again")


def _home() -> Check:
    """Folder of what the user measures: there, or possible to make."""
    folder = home()
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    writable = nearest.is_dir() and os.access(nearest, os.W_OK)
    if not writable:
        return Check("home", "wrong", f"{folder} cannot be written", "set ROOFLINE_HOME to one")
    return Check("home", "ok", f"{folder}{'' if folder == nearest else ', made when needed'}")
