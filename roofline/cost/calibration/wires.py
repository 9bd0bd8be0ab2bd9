"""Measured collectives of the devices of one node, and exchanges of tokens between experts."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from roofline.cost.calibration.kernel import Found, Wires
from roofline.cost.measured import Measured
from roofline.cost.regimes import by_regime, seconds
from roofline.cost.work import Array, Op
from roofline.hardware.machine import Gpu
from roofline.table import BASES

OPERATIONS: Final = {
    "all-reduce": "all_reduce",
    "all-gather": "all_gather",
    "gather-context": "all_gather",
    "reduce-scatter": "reduce_scatter",
    "send": "send_recv",
}
"""By how the operator's name begins."""
INTERPOLATED: Final = float(BASES.index("interpolated"))
EXTRAPOLATED: Final = float(BASES.index("extrapolated"))
TRANSFERRED: Final = float(BASES.index("transferred"))
WIDEN: Final = 0.1
"""Log standard deviation that each octave beyond the measured sizes adds; assumed."""
MEASURED_RANKS: Final = 8.0
ADDS: Final = frozenset({"hopper", "blackwell", "blackwell-ultra"})
"""Generations whose NVSwitch sums: NVLink SHARP of the third generation and later."""


@dataclass(frozen=True, slots=True)
class Payload:
    """A collective as its fit takes it: operation, tensor [B] and devices [1], row by row."""

    op: str
    size: Array
    ranks: Array


def payload_of(op: Op) -> Payload | None:
    """What a collective moves; None for one that leaves the node, or that was not measured."""
    name = next((each for begin, each in OPERATIONS.items() if op.name.startswith(begin)), None)
    if name is None or np.any(np.asarray(op.dims["nodes"]) > 1):
        return None
    size, ranks = np.broadcast_arrays(
        *(np.atleast_1d(np.asarray(op.dims[key], dtype=float)) for key in ("bytes", "ranks"))
    )
    return Payload(name, np.maximum(size, 1.0), ranks)


def library(op: Op, engine: str) -> tuple[str, ...]:
    """Libraries that an engine has for a collective: its own kernels for sums, NCCL for all.

    Every engine has kernels of its own for small sums; TensorRT-LLM's are the measured ones.
    """
    return ("trtllm-custom", "nccl") if op.name.startswith("all-reduce") else ("nccl",)


def wire_seconds(payload: Payload, gpu: Gpu, found: Found) -> Measured | None:
    """Time of a collective over the links of a node; None where there are no such links.

    Parameters
    ----------
    payload
        What is moved.
    gpu
        The device.
    found
        The fit of the operation.
    """
    fit = found.fit
    assert isinstance(fit, Wires)
    link = gpu.links.get("nvlink")
    if link is None:
        return None
    rate, adds = link.bytes_per_s, gpu.architecture in ADDS
    time = np.asarray(seconds(payload.size, payload.ranks, rate, fit.constants, in_switch=adds))
    each = by_regime(payload.size, payload.ranks, rate, fit.constants, in_switch=adds)
    own = np.array([fit.spreads.get(int(i), fit.spread) for i in np.atleast_1d(each.argmin(0))])
    beyond = np.maximum(np.log2(payload.size / fit.high), np.log2(fit.low / payload.size)).clip(0.0)
    beyond = np.maximum(beyond, np.log2(payload.ranks / MEASURED_RANKS))
    basis = np.where(beyond > 0, EXTRAPOLATED, INTERPOLATED)
    if found.foreign or found.borrowed:
        basis = np.maximum(basis, TRANSFERRED)
    spread = np.sqrt(own**2 + (WIDEN * beyond) ** 2 + found.spread**2)
    return Measured(time, spread, basis)
