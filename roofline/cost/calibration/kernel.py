"""Fitted kernels of devices, and which of them stand for which device."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from roofline.cost.kernels.calibrated import Calibrated
from roofline.hardware.machine import Gpu


@dataclass(frozen=True, slots=True)
class Label:
    """What a fit is of.

    Attributes
    ----------
    device
        Catalog name of the device that was measured.
    provider
        Whose kernels: ``"trtllm"``, ``"nccl"``.
    kind
        Of kernel: ``"gemm"``, ``"decode-attention"``.
    variant
        Number formats or operator: ``"fp8_block"``, ``"bfloat16-fp8"``, ``"all_reduce"``.
    mine
        The user's own calibration that it is in; empty for one that is shipped.
    """

    device: str
    provider: str
    kind: str
    variant: str
    mine: str = ""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A fitted form.

    Attributes
    ----------
    label
        What it is of.
    arithmetic
        Whose published rate the form was given: ``"bf16"``.
    model
        The fit.
    """

    label: Label
    arithmetic: str
    model: Calibrated


Load: TypeAlias = Callable[[Label], Kernel]

LIKE: Final[Mapping[str, tuple[str, ...]]] = {
    "hopper": ("h100-sxm", "a100-sxm"),
    "blackwell": ("h100-sxm", "a100-sxm"),
    "blackwell-ultra": ("h100-sxm", "a100-sxm"),
    "ampere": ("a100-sxm", "h100-sxm"),
    "ada": ("a100-sxm", "h100-sxm"),
}
"""Devices whose kernels stand for those of a generation, the most alike first. Ada runs the
kernels of Ampere (mma.sync, no wgmma or TMA); Blackwell has kernels of its own, after Hopper's."""
GENERATIONS: Final[Mapping[str, str]] = {
    "a100-sxm": "ampere",
    "h100-sxm": "hopper",
    "h200-sxm": "hopper",
}
"""Of measured devices."""
NEAR: Final = 0.1
"""Log standard deviation that carrying a kernel to a device of its generation adds: fits of an H100
are 0.04 to 0.15 off on an H200, their own spread included. [1]"""
FAR: Final[Mapping[str, float]] = {
    "gemm": 0.37,
    "decode-attention": 0.24,
    "latent-decode": 1.0,
    "latent-prefill": 0.3,
}
"""The same to another generation, by kind; of other kinds `ELSEWHERE`. Those of an A100's fits on
the kernels of an H100, and back."""
ELSEWHERE: Final = 0.35
BORROWED: Final[Mapping[str, float]] = {
    "gemm": 0.05,
    "pointwise": 0.1,
    "quantize": 0.15,
    "collective": 0.2,
}
"""The same of kernels of another engine's, by kind; of other kinds `ENGINES`. Assumed, after
engines that differ by 21 % (experts) and 33 % (decode) on the same device in the median."""
ENGINES: Final = 0.3
PASSES: Final = "passes"
CUBLAS: Final = "cublas"
NCCL: Final = "nccl"
NEUTRAL: Final = frozenset({"vidur", NCCL, "torch-nccl", "deepep", PASSES, CUBLAS})
"""Whose kernels no engine replaces: passes over activations, libraries."""
IDEAL: Final = "ideal"
"""An engine that has the kernels of all."""
LIBRARY: Final = frozenset({("gemm", "bfloat16")})
"""Kernels that every engine takes from one library: products in 16 bits, cuBLAS."""


@dataclass(frozen=True, slots=True)
class Found:
    """A fit, and how far it is from what was asked for.

    Attributes
    ----------
    fit
        The kernel.
    foreign
        Whether it was measured on another device.
    far
        Whether that is of another generation.
    borrowed
        Whether it is another engine's.
    """

    fit: Kernel
    foreign: bool
    far: bool
    borrowed: bool

    @property
    def spread(self) -> float:
        """Log standard deviation that the distance adds. [1]"""
        kind = self.fit.label.kind
        of_engine = BORROWED.get(kind, ENGINES) if self.borrowed else 0.0
        of_device = NEAR if self.foreign else 0.0
        if self.far:
            of_device = FAR.get(kind, ELSEWHERE)
        return math.hypot(of_engine, of_device)


def devices(gpu: Gpu) -> tuple[str, ...]:
    """Measured devices that may stand for one, itself first."""
    others = tuple(name for name in LIKE.get(gpu.architecture, ()) if name != gpu.name)
    return (gpu.name, *others)


def nearest(
    labels: Sequence[Label],
    load: Load,
    gpu: Gpu,
    provider: str,
    kind: str,
    variants: Sequence[str],
) -> Found | None:
    """The fit that stands for a kernel, and how far it is from it; None if nothing is like it.

    The first variant that any device has is taken; of its devices the most alike, and there the
    engine's own kernels before those of others. Kernels that are not an engine's are the user's own
    first, and those are also the first to stand for what an engine has no kernel of.

    Parameters
    ----------
    labels, load
        Of all fits there are, and how to get one.
    gpu, provider
        Device and engine that are asked about.
    kind, variants
        Of kernel; formats in the order in which they would do.
    """
    for variant in variants:
        for device in devices(gpu):
            here = [
                each
                for each in labels
                if (each.device, each.kind, each.variant) == (device, kind, variant)
            ]
            if here:
                here.sort(key=lambda each: not each.mine)
                own = [each for each in here if each.provider == provider]
                shared = [each for each in here if _shared(each)]
                measured = [each for each in shared if each.mine]
                return Found(
                    load((measured or own or shared or here)[0]),
                    foreign=device != gpu.name,
                    far=GENERATIONS.get(device, gpu.architecture) != gpu.architecture,
                    borrowed=provider != IDEAL and not (own or shared),
                )
    return None


def _shared(label: Label) -> bool:
    """Whether any engine may have this kernel."""
    return label.provider in NEUTRAL or (label.kind, label.variant) in LIBRARY
