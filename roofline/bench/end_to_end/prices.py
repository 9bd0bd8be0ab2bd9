"""What the operators of a deployment take: as measured, else as such kernels usually do.

    t = t0 + [ (F / (P·e_c))^2 + (B / (BW·e_m))^2 ]^(1/2)

is assumed of operators that no measured kernel is like, with a launch t0 inside a CUDA graph and
two shares of the published rates for each kind.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from roofline.bench.shipping.files import fit_of, labels
from roofline.cost.calibration.kernel import devices
from roofline.cost.calibration.pricing import GpuCalibration
from roofline.cost.deployment import Deployment
from roofline.cost.engine_costs import IDEAL, EngineCosts
from roofline.cost.measured import Calibration, Measured
from roofline.cost.work import Number, Op
from roofline.hardware.machine import Gpu
from roofline.table import BASES

ASSUMED: Final = float(BASES.index("assumed"))


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
    compute: float
    memory: float


KINDS: Final[Mapping[str, Kind]] = {
    "gemm": Kind(3.6e-6, 0.78, 0.85),
    "moe": Kind(1.0e-5, 0.6, 0.75),
    "prefill-attention": Kind(9e-6, 0.55, 0.7),
    "decode-attention": Kind(6e-6, 0.3, 0.8),
    "latent-attention": Kind(9e-6, 0.5, 0.7),
    "index": Kind(4e-5, 0.4, 0.6),
    "scan": Kind(3e-5, 0.4, 0.6),
    "pointwise": Kind(1.6e-6, 1.0, 0.6),
    "lookup": Kind(2e-6, 1.0, 0.6),
}
"""Assumed. Scoring and choosing keys, and a recurrent step with its convolution and gates, are
five to eight small kernels each."""
WEIGHT_ONLY_EXPERTS: Final = Kind(1.0e-5, 0.35, 0.5)
"""Grouped products that convert integer weights on the way. Assumed."""
FUSED_KINDS: Final = frozenset({"pointwise", "lookup"})
"""Passes over activations, which engines fuse and capture in graphs: measured alone, they take two
to three times as long."""
FUSED: Final = "quantise"
"""How the names of operators begin that the kernel before does at its end."""
FUSED_START: Final = 8e-7
"""What that adds. Assumed. [s]"""
WIRES: Final = Kind(4e-6, 1.0, 0.75)
"""Start of a collective beside its messages, and the share of the wires' rate. Assumed."""
THROUGH_HOST: Final = 0.35
"""The same share where devices reach each other through the host's PCIe. Assumed. [1]"""
LOG_SD: Final = 0.2
"""Of the logarithm of an operator's time. Assumed."""


@dataclass(frozen=True, slots=True)
class Usual:
    """A calibration of assumed constants, under one that was measured where there is one.

    Attributes
    ----------
    measured
        Kernels that stand for the device's; None where there are none.
    switched
        Whether the devices of the node are joined by more than the host's PCIe.
    """

    measured: Calibration | None = None
    switched: bool = True

    @property
    def name(self) -> str:
        """What it is called."""
        return "usual kernels" if self.measured is None else self.measured.name

    @property
    def costs(self) -> EngineCosts:
        """None: what an engine adds is fitted beside these prices."""
        return IDEAL

    def price(self, op: Op, gpu: Gpu) -> Measured | None:
        """As measured, else as usual; None for what is loaded from the host."""
        wired = op.kind == "collective"
        alone = op.kind not in FUSED_KINDS and (self.switched or not wired)
        if self.measured is not None and alone:
            found = self.measured.price(op, gpu)
            if found is not None:
                return found
        if wired:
            share = WIRES.memory if self.switched else THROUGH_HOST
            return _told(op.wire_s, WIRES.start + op.wire_s / share)
        kind = _kind(op)
        if kind is None:
            return None
        memory = op.work.hbm_bytes / (kind.memory * gpu.hbm_bytes_per_s)
        compute: Number = 0.0
        if op.arithmetic:
            compute = op.work.flops / (kind.compute * gpu.rate(op.arithmetic))
        joined = np.hypot(compute, memory)
        return _told(joined, kind.start + joined)


def _kind(op: Op) -> Kind | None:
    known = KINDS.get(op.kind)
    if known is None:
        return None
    if op.name.startswith(FUSED):
        return replace(known, start=FUSED_START)
    integer = op.formats.get("weights", "").startswith("int4")
    if op.kind == "moe" and integer and op.arithmetic in ("bf16", "fp16"):
        return WEIGHT_ONLY_EXPERTS
    return known


def _told(work: Number, seconds: Number) -> Measured:
    """The time where there is anything to do."""
    return Measured(np.where(np.asarray(work) > 0, seconds, 0.0)[()], LOG_SD, ASSUMED)


def priced(deployment: Deployment) -> Deployment:
    """The deployment with the kernels that stand for those of its device and engine.

    Parameters
    ----------
    deployment
        At datasheet rates.
    """
    device, link = deployment.node.gpu, deployment.node.link
    mine = tuple(label for label in labels() if label.device in devices(device))
    known = GpuCalibration(device.name, deployment.engine.name, mine, fit_of) if mine else None
    switched = link is None or link.topology != "host"
    return replace(deployment, calibration=Usual(known, switched))
