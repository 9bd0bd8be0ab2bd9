"""Time that kernels of a kind usually take, for operators that nothing like was measured of.

    t = t0 + [ (F / (P·e_c))^2 + (B / (BW·e_m))^2 ]^(1/2)

with a launch t0 inside a CUDA graph and two shares of the published rates for each kind.
"""

from collections.abc import Mapping
from typing import ClassVar, Final, NamedTuple

import numpy as np
from msgspec import Struct

from roofline.cost.engine_costs import NO_ENGINE, EngineProfile
from roofline.cost.measured import MeasuredTime
from roofline.cost.work import CONVERSION, CONVERSION_OF_EXPERTS, Number, Op
from roofline.hardware.machine import Gpu
from roofline.records import replace
from roofline.table import BASES, USUAL_KERNELS
from roofline.units import show

ASSUMED: Final = float(BASES.index("assumed"))


class UsualShares(NamedTuple):
    """Constants of a kind of operator."""

    start: float
    """Launch, prologue and epilogue. [s]"""
    compute: float
    memory: float
    """Shares of the published rates. [1]"""


KINDS: Final[Mapping[str, UsualShares]] = {
    "gemm": UsualShares(3.6e-6, 0.78, 0.85),
    "moe": UsualShares(1.0e-5, 0.6, 0.75),
    "prefill-attention": UsualShares(9e-6, 0.55, 0.7),
    "decode-attention": UsualShares(6e-6, 0.3, 0.8),
    "latent-attention": UsualShares(9e-6, 0.5, 0.7),
    "index": UsualShares(4e-5, 0.4, 0.6),
    "scan": UsualShares(3e-5, 0.4, 0.6),
    "pointwise": UsualShares(1.6e-6, 1.0, 0.6),
    "adapter": UsualShares(1.6e-6, 1.0, 1.0),
    "lookup": UsualShares(2e-6, 1.0, 0.6),
}
"""Assumed. Scoring and choosing keys, and a recurrent step with its convolution and gates, are
five to eight small kernels each."""
WEIGHT_ONLY_EXPERTS: Final = UsualShares(1.0e-5, 0.35, 0.5)
"""Grouped products that convert integer weights on the way. Assumed."""
QUANTISE: Final = UsualShares(8e-7, 1.0, 0.6)
"""Conversion of activations, at the end of the kernel before. Assumed."""
INTERCONNECT: Final = UsualShares(4e-6, 1.0, 0.75)
"""Start of a collective beside its messages, and the share of the links' rate. Assumed."""
THROUGH_HOST: Final = 0.35
"""The same share where devices reach each other through the host's PCIe. Assumed. [1]"""
LOG_SD: Final = 0.2
"""Standard deviation of the logarithm of an operator's time. Assumed. [1]"""
ADAPTER_LOG_SD: Final = 0.5
"""The same of products with LoRA adapters, most of whose time is their start. Assumed. [1]"""
ADAPTERS: Final = (
    "no kernels of LoRA adapters were measured: the time of each is the datasheet's after the "
    f"start of a pass over activations in a CUDA graph, {show(KINDS['adapter'].start, 's')}, both "
    "assumed, with a wider interval"
)
"""Reason that prices of adapters are told with."""
UNMEASURED: Final = (
    "no kernels were measured on such devices: operators take the shares of published rates that "
    "kernels usually reach, assumed; `calibration=none` has the bounds of the datasheet"
)
"""Reason that prices of a device are told with."""


def usual(op: Op, gpu: Gpu, *, switched: bool = True) -> MeasuredTime | None:
    """Time of one execution of an operator as such kernels usually take; None for host loads.

    Args:
        op, gpu: What runs on which device.
        switched: Whether the devices of a node are joined by more than the host's PCIe.
    """
    if op.kind == "collective":
        share = INTERCONNECT.memory if switched else THROUGH_HOST
        start = INTERCONNECT.start * op.dims.get("times", 1.0)
        return _told(op.wire_s, start + op.wire_s / share)
    kind = _kind(op)
    if kind is None:
        return None
    memory = op.work.hbm_bytes / (kind.memory * gpu.hbm_bytes_per_s)
    compute: Number = 0.0
    if op.arithmetic:
        compute = op.work.flops / (kind.compute * gpu.rate(op.arithmetic))
    joined = np.hypot(compute, memory)
    told = _told(joined, kind.start + joined)
    if op.kind == "adapter":
        told = replace(told, log_sd=ADAPTER_LOG_SD, assumed=ADAPTERS)
    return told


def _kind(op: Op) -> UsualShares | None:
    if op.kernel in (CONVERSION, CONVERSION_OF_EXPERTS):
        return QUANTISE
    integer = op.formats.get("weights", "").startswith("int4")
    if op.kind == "moe" and integer and op.arithmetic in ("bf16", "fp16"):
        return WEIGHT_ONLY_EXPERTS
    return KINDS.get(op.kind)


def _told(work: Number, seconds: Number) -> MeasuredTime:
    """The time where there is anything to do; on a part of an axis there may be nothing."""
    if not isinstance(work, np.ndarray):
        return MeasuredTime(seconds if work > 0 else 0.0, LOG_SD, ASSUMED)
    there = work > 0
    return MeasuredTime(np.where(there, seconds, 0.0), LOG_SD, np.where(there, ASSUMED, 0.0))


class UsualKernels(Struct, frozen=True):
    """Calibration of a device that no kernels were measured on: every time is assumed."""

    basis: ClassVar[str] = "assumed"
    profile: EngineProfile = NO_ENGINE
    """Constants of the engine."""
    switched: bool = True
    """Whether the devices of a node are joined by more than the host's PCIe."""

    @property
    def name(self) -> str:
        """Name of the profile."""
        return USUAL_KERNELS

    def price(self, op: Op, gpu: Gpu) -> MeasuredTime | None:
        """Time of one execution of an operator."""
        found = usual(op, gpu, switched=self.switched)
        if found is None or found.assumed:
            return found
        return replace(found, assumed=UNMEASURED)
