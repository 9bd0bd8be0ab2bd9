"""Calibrations by name, the user's own of a device, and measured kernels of a deployment."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from roofline.bench.prices import HEADS, PRICES, PROMPTS, RIVALS
from roofline.bench.shipping.files import FOLDER, fit_of, labels
from roofline.content import home, shipped, there
from roofline.cost.calibration.kernel import IDEAL, FitLabel, FittedKernel, devices, known
from roofline.cost.calibration.pricing import GpuCalibration
from roofline.cost.calibration.usual import UsualKernels
from roofline.cost.engine_costs import EngineProfile
from roofline.cost.kernels import processor
from roofline.cost.kernels.catalog import FORMS
from roofline.cost.kernels.form import seconds
from roofline.cost.kernels.prefill import prefill_dims
from roofline.cost.measured import AUTO, NONE, USUAL
from roofline.errors import InputError, UnknownNameError
from roofline.hardware.engine import ROCM, engine_on
from roofline.hardware.engine import engine as engine_named
from roofline.hardware.machine import Gpu, Node

if TYPE_CHECKING:
    from roofline.bench.profile import FittedProbe, Profile

NAMED: Final = ("gemm", "pointwise", "quantize")
"""Kinds with a form for each variant."""
Stamp: TypeAlias = tuple[Path, int]
"""A file, and when it last changed. [ns]"""


def calibration_of(
    asked: str, gpu: Gpu, engine: str, *, switched: bool = True
) -> GpuCalibration | UsualKernels | None:
    """Calibration of a device under an engine; None for the datasheet's rates.

    Args:
        asked: ``"auto"``: the user's own calibrations of the device, and what is shipped for it or
            the one most like it. ``"usual"``: shares of the published rates that kernels usually
            reach, assumed. ``"none"``, or the name or file of a calibration. Kernels that it lacks
            are as ``"usual"`` on AMD's devices, and with ``"auto"`` on those like a measured one.
        gpu, engine: What runs, and whose kernels are preferred.
        switched: Whether the devices of a node are joined by more than the host's PCIe.

    Raises:
        RooflineError: There is no such calibration, or it is of no kernel that a network has.
    """
    if asked == NONE:
        return None
    from roofline.bench.engine_profiles import shipped_profile

    runs = engine_on(engine, gpu.architecture)
    own = shipped_profile(runs)
    if asked == USUAL:
        return UsualKernels(own, switched)
    ported = runs.profile == ROCM
    if asked != AUTO:
        wired = switched or not ported
        return _named(gpu.name, engine, own, stamped(path_of(asked)), ported, wired)
    near = devices(gpu) if known(gpu) else ()
    rest = engine != IDEAL and (bool(near) or ported)
    wired = switched or not rest
    found = _gathered(gpu.name, near, engine, own, files_of(gpu.name), rest, wired)
    return UsualKernels(own, switched) if found is None and ported else found


def joined(node: Node) -> bool:
    """True where the devices of a node are joined by more than the host's PCIe."""
    return node.link is None or node.link.topology != "host"


@lru_cache(maxsize=64)
def _named(
    device: str, engine: str, constants: EngineProfile, file: Stamp, rest: bool, switched: bool
) -> GpuCalibration:
    """Calibration of a device from one file, made once for all deployments."""
    (found,) = read([file])
    fits = _fits(found, device)
    if not fits:
        raise InputError(
            f"the calibration {found.name!r:.60} has no kernel of a network in it",
            hint="calibrate this GPU: roofline calibrate --backend cupy; or `calibration=auto`",
        )
    load = fits.__getitem__
    return GpuCalibration(found.name, engine, tuple(fits), load, constants, rest, switched)


def own_files(asked: str, gpu: Gpu) -> tuple[Path, ...]:
    """Files that `calibration_of` reads and that may change while the program does not.

    Raises:
        UnknownNameError: There is no such calibration.
    """
    if asked in (NONE, USUAL):
        return ()
    return tuple(path for path, _ in files_of(gpu.name)) if asked == AUTO else (path_of(asked),)


@lru_cache(maxsize=64)
def _gathered(
    device: str,
    near: tuple[str, ...],
    engine: str,
    constants: EngineProfile,
    own_files: tuple[Stamp, ...],
    rest: bool,
    switched: bool,
) -> GpuCalibration | None:
    """One object for all deployments of a device under an engine: what a sweep remembers is its."""
    fits: dict[FitLabel, FittedKernel] = {}
    names = []
    for profile in read(own_files):
        used = {label: fit for label, fit in _fits(profile, device).items() if _new(label, fits)}
        names += [profile.name] if used else []
        fits |= used
    shipped = tuple(label for label in labels() if label.device in near)
    if shipped:
        own = any(label.device == device for label in shipped)
        names.append(device if own else f"kernels of {near[1]}")
    if not names:
        return None

    def load(label: FitLabel) -> FittedKernel:
        return fits[label] if label in fits else fit_of(label)

    name = ", else ".join(names)
    return GpuCalibration(
        name, _kernels(engine), (*fits, *shipped), load, constants, rest, switched
    )


def _new(label: FitLabel, fits: Iterable[FitLabel]) -> bool:
    """True where operators ask for such a kernel, and no later calibration has it."""
    asked = any((each.kind, each.variant) == (label.kind, label.variant) for each in labels())
    return asked and not any(each._replace(mine=label.mine) == label for each in fits)


def _fits(found: "Profile", device: str) -> dict[FitLabel, FittedKernel]:
    """Fits of a calibration file by what they are of, on the device that is asked about."""
    out: dict[FitLabel, FittedKernel] = {}
    slower = set(_by_speed(found)[1:])
    for name in sorted(set(found.fits) - slower):
        fitted = found.fits[name]
        if fitted.form in FORMS and fitted.form not in processor.FORMS:
            provider, variant = PRICES.get(name, (found.provider, _variant(name, fitted)))
            label = FitLabel(device, provider, fitted.kind, variant, found.name)
            out[label] = FittedKernel(label, fitted.arithmetic, fitted.model)
    return out


def _by_speed(found: "Profile") -> list[str]:
    """Kernels of attention to prompts that were measured, the one with the least time first."""
    rivals = [name for name in RIVALS if name in found.fits]
    count, tokens = np.array(PROMPTS, dtype=float).T
    ones, none, width = np.ones_like(count), np.zeros_like(count), np.full_like(count, 2.0)
    heads, kv_heads, head_dim = (each * ones for each in HEADS)
    dims = prefill_dims(count, tokens, tokens, heads, kv_heads, head_dim, none, width, width)

    def times(name: str) -> float:
        fitted = found.fits[name]
        return float(np.log(seconds(fitted.model, dims, found.of(fitted.arithmetic))).sum())

    return sorted(rivals, key=times) if len(rivals) > 1 else rivals


def _variant(name: str, fitted: "FittedProbe") -> str:
    """Formats or operator of a fit: as its form is called, else as the fit is."""
    kind, _, variant = fitted.form.partition("-")
    return variant if kind in NAMED else name


def _kernels(engine: str) -> str:
    """Engine whose kernels one has: those of its family, vLLM's where none of its own are known."""
    known = engine_named(engine)
    if known.name == IDEAL or known.name in {label.provider for label in labels()}:
        return known.name
    return known.family or "vllm"


def folders() -> tuple[Path, Path]:
    """Folders of calibrations: the user's own, then those shipped."""
    return home() / FOLDER, shipped("hwspecs") / FOLDER


def find(name: str) -> "Profile":
    """A calibration by name, the user's own before one that is shipped, or by path.

    Raises:
        UnknownNameError: There is none of that name.
        DocumentError: It cannot be read.
    """
    return _read(*stamped(path_of(name)))


def path_of(name: str) -> Path:
    """File of a calibration, as `find` takes it.

    Raises:
        UnknownNameError: There is none of that name.
    """
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    for folder in folders():
        if there(folder / f"{name}.yaml"):
            return folder / f"{name}.yaml"
    known = sorted({path.stem for folder in folders() for path in folder.glob("*.yaml")})
    raise UnknownNameError(
        f"there is no calibration {name!r:.80}",
        hint=f"there are {', '.join(known)}" if known else "make one: roofline calibrate",
    )


def files_of(device: str) -> tuple[Stamp, ...]:
    """Files of the user's own calibrations of a device, by name."""
    line = f"\ndevice: {device}\n"  # of a file that `roofline calibrate` wrote, near its beginning
    paths = sorted(folders()[0].glob("*.yaml"))
    found = [path for path in paths if line in path.read_text(encoding="utf-8", errors="replace")]
    return tuple(map(stamped, found))


def stamped(path: Path) -> Stamp:
    """A file and when it last changed, 0 where it cannot be read: reading it says why."""
    try:
        return path, path.stat().st_mtime_ns
    except OSError:
        return path, 0


def read(files: Sequence[Stamp]) -> "list[Profile]":
    """Calibrations of some files, the latest first.

    Raises:
        DocumentError: One of them cannot be read.
    """
    profiles = (_read(path, changed) for path, changed in files)
    return sorted(profiles, key=lambda each: each.date, reverse=True)


@lru_cache(maxsize=16)
def _read(path: Path, changed: int) -> "Profile":
    """A calibration as it was when it last changed; sweeps ask again and again."""
    from roofline.bench.profile_file import load

    return load(path)
