"""Kernels as they usually are, where a device has no measured profile.

    t = t0 + [ (F / (P·e_c))^2 + (B / (BW·e_m))^2 ]^(1/2)

with a launch floor t0 for each kind of operator and two shares of the published rates. The floors
are those inside a CUDA graph.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from roofline.cost.measured import Calibration, Measured
from roofline.cost.work import Number, Op
from roofline.hardware.machine import Gpu
from roofline.table import BASES

ASSUMED: Final = float(BASES.index("assumed"))
FUSED: Final = "quantise"
"""Operators that engines fuse into the one before, by the beginning of their name."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Constants of a kind of operator.

    Attributes
    ----------
    start
        Launch, prologue and epilogue. [s]
    compute, memory
        Shares of the published rates. [1]
    """

    start: float
    compute: float = 0.75
    memory: float = 0.85


KINDS: Final[Mapping[str, Kind]] = {
    "gemm": Kind(3.6e-6, 0.78, 0.85),
    "moe": Kind(1.0e-5, 0.6, 0.75),
    "prefill-attention": Kind(9e-6, 0.55, 0.7),
    "decode-attention": Kind(6e-6, 0.3, 0.8),
    "latent-attention": Kind(9e-6, 0.5, 0.7),
    "index": Kind(2.4e-5, 0.4, 0.6),
    "scan": Kind(2e-5, 0.4, 0.6),
    "pointwise": Kind(1.6e-6, 1.0, 0.6),
    "lookup": Kind(2e-6, 1.0, 0.6),
}
FUSED_START: Final = 8e-7
"""A conversion that the kernel before does at its end. [s]"""
COLLECTIVE: Final = Kind(4e-6, 1.0, 0.75)
"""Start of a collective beside its messages, and the share of the wires' rate. Assumed."""
LOG_SD: Final = 0.2
"""Of the logarithm of an operator's time. Assumed."""


@dataclass(frozen=True, slots=True)
class Usual:
    """A calibration of assumed constants, under one that was measured where there is one.

    Attributes
    ----------
    measured
        Profile of the device; None where there is none.
    """

    measured: Calibration | None = None
    kinds: Mapping[str, Kind] = field(default_factory=lambda: KINDS)

    @property
    def name(self) -> str:
        """What it is called."""
        return "usual kernels" if self.measured is None else self.measured.name

    def price(self, op: Op, gpu: Gpu) -> Measured | None:
        """As measured, else as usual; None for what is loaded from the host."""
        if self.measured is not None and (found := self.measured.price(op, gpu)) is not None:
            return found
        if op.kind == "collective":
            seconds: Number = COLLECTIVE.start + op.wire_s / COLLECTIVE.memory
            seconds = np.where(np.asarray(op.wire_s) > 0, seconds, 0.0)[()]
            return Measured(seconds, LOG_SD, ASSUMED)
        kind = self.kinds.get(op.kind)
        if op.kind == "moe" and op.arithmetic in ("bf16", "fp16") and "int4" in op.formats.get("weights", ""):
            kind = Kind(1.0e-5, 0.35, 0.5)
        if kind is None:
            return None
        start = FUSED_START if op.name.startswith(FUSED) else kind.start
        work = op.work
        memory = work.hbm_bytes / (kind.memory * gpu.hbm_bytes_per_s)
        compute: Number = 0.0
        if op.arithmetic:
            compute = work.flops / (kind.compute * gpu.rate(op.arithmetic))
        joined = np.hypot(compute, memory)
        used = np.where(np.asarray(joined) > 0, start + joined, 0.0)[()]
        return Measured(used, LOG_SD, ASSUMED)
