"""Measured collectives of the devices of one node, and exchanges of tokens between experts."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from roofline.cost.calibration.kernel import Found
from roofline.cost.kernels.calibrated import predict
from roofline.cost.kernels.collective import collective_dims
from roofline.cost.kernels.form import machine
from roofline.cost.measured import Measured
from roofline.cost.work import Array, Op
from roofline.hardware.machine import Gpu
from roofline.table import BASES

OPERATIONS: Final = {
    "all-reduce": "all_reduce",
    "all-gather": "all_gather",
    "gather-context": "all_gather",
    "reduce-scatter": "reduce_scatter",
    "send": "send_recv",
    "dispatch-all-gather": "all_gather",
    "combine-reduce-scatter": "reduce_scatter",
}
"""By how the operator's name begins."""
TRANSFERRED: Final = float(BASES.index("transferred"))
ADDS: Final = frozenset({"hopper", "blackwell", "blackwell-ultra"})
"""Generations whose NVSwitch sums: NVLink SHARP of the third generation and later."""


@dataclass(frozen=True, slots=True)
class Payload:
    """A collective as its fit takes it: operation, tensor [B] and devices [1], row by row."""

    op: str
    size: Array
    ranks: Array


def payload_of(op: Op) -> Payload | None:
    """What a collective moves; None for one that was not measured.

    Measured are those between devices of one node behind an NVSwitch.
    """
    name = next((each for begin, each in OPERATIONS.items() if op.name.startswith(begin)), None)
    if name is None or not op.dims["nvswitch"] or np.any(np.asarray(op.dims["nodes"]) > 1):
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
    link = gpu.links.get("nvlink")
    if link is None:
        return None
    ones = np.ones_like(payload.size)
    adds = float(gpu.architecture in ADDS) * ones
    dims = collective_dims(payload.size, payload.ranks, link.bytes_per_s * ones, adds)
    time, own, basis = predict(found.fit.model, dims, machine(gpu, "bf16"))
    known = basis.astype(float)
    if found.foreign or found.borrowed:
        known = np.maximum(known, TRANSFERRED)
    time = np.where(payload.ranks > 1, time, 0.0)
    return Measured(time, np.hypot(own, found.spread), known, found)
