"""Measured collectives of the devices of one node, and exchanges of tokens between experts."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from roofline.cost.calibration.kernel import IDEAL, KernelFit
from roofline.cost.kernels.collective import collective_dims
from roofline.cost.kernels.exchange import FEW_TOKENS, exchange_dims
from roofline.cost.kernels.form import machine, predict
from roofline.cost.measured import MeasuredTime
from roofline.cost.work import COMBINE, DISPATCH, Array, Number, Op, root_sum_square
from roofline.hardware.machine import Gpu
from roofline.table import BASES

TRTLLM: Final = "trtllm"
CUSTOM: Final = frozenset({"sglang", "vllm"})
"""Engines beside TensorRT-LLM whose sums were measured."""
OWN_SUMS: Final = 2.0**23
"""Largest tensor that vLLM sums with kernels of its own; others leave it to NCCL
(``max_size`` of ``vllm/distributed/device_communicators/custom_all_reduce.py``). [B]"""
SMS: Final = 20.0
"""Multiprocessors that the normal exchange takes unless told (``Buffer.num_sms`` of DeepEP)."""
TRANSFERRED: Final = float(BASES.index("transferred"))
ADDS: Final = frozenset({"hopper", "blackwell", "blackwell-ultra"})
"""Generations whose NVSwitch sums: NVLink SHARP of the third generation and later."""


class Payload(NamedTuple):
    """A collective as its fit takes it: operation, tensor [B] and devices [1], row by row."""

    op: str
    size: Array
    ranks: Array


def payload_of(op: Op) -> Payload | None:
    """Payload of a collective; None for one that was not measured.

    Measured are those between devices of one node behind an NVSwitch.
    """
    if (
        op.kernel in ("", DISPATCH, COMBINE)
        or not op.dims["nvswitch"]
        or np.any(np.asarray(op.dims["nodes"]) > 1)
    ):
        return None
    size, ranks = _wide(op.dims["bytes"], op.dims["ranks"])
    return Payload(op.kernel, np.maximum(size, 1.0), ranks)


def library(payload: Payload, engine: str) -> Iterator[tuple[str, str, float]]:
    """Libraries that an engine has for a collective: provider, variant, and most that it takes [B].

    Every engine has kernels of its own for small sums, and leaves large ones to NCCL: what was
    measured of an engine is what it took for each size. Sends are PyTorch's.
    """
    if payload.op == "all_reduce":
        if engine in CUSTOM:
            yield f"{engine}-custom", payload.op, np.inf
        yield "trtllm-custom", payload.op, np.inf if engine in (TRTLLM, IDEAL) else OWN_SUMS
    if payload.op == "send_recv":
        yield "torch-nccl", f"{payload.op}-dpn2", np.inf
    else:
        yield "nccl", payload.op, np.inf


def wire_seconds(payload: Payload, gpu: Gpu, found: KernelFit, most: float) -> MeasuredTime | None:
    """Time of a collective over the links of a node; None where there are no such links.

    Args:
        payload: What is moved.
        gpu: The device.
        found: The fit of the operation.
        most: Largest tensor that the library takes. [B]
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
    time = np.where(payload.size > most, np.inf, np.where(payload.ranks > 1, time, 0.0))
    return MeasuredTime(time, root_sum_square(own, found.spread), known, found)


def alltoall_of(
    op: Op, gpu: Gpu, made: str
) -> tuple[tuple[str, ...], str, dict[str, Array]] | None:
    """Variants, what comes before them, and columns of an all-to-all of TensorRT-LLM over NVLink.

    The one-sided kind comes first, as in ``CommunicationFactory`` of TensorRT-LLM; the other
    prepares a dispatch by a kernel of its own. None for an exchange that leaves the switch.

    Args:
        op: An exchange of tokens, of kernel `DISPATCH` or `COMBINE`.
        gpu: The device.
        made: Format that the experts compute in: ``"nvfp4"``, ``"fp8"``, ``"bfloat16"``.
    """
    d, rate = op.dims, _rate_inside(op, gpu)
    if rate is None:
        return None
    sent = (d["tokens"], d["d"], d["groups_met"], d["experts"], 0.0, d["width"], rate, d["ranks"])
    *wide, ranks = _wide(*sent)
    variant = f"{op.kernel}-{made}"
    before = f"prepare-{made}" if op.kernel == DISPATCH else ""
    return (f"{variant}-one-sided", variant), before, {**exchange_dims(*wide), "ranks": ranks}


def exchange_of(op: Op, gpu: Gpu) -> tuple[str, dict[str, Array]] | None:
    """Variant and columns of an exchange of tokens inside a node; None for one that leaves it.

    Args:
        op: An exchange of tokens, of kernel `DISPATCH` or `COMBINE`.
        gpu: The device.
    """
    d, rate = op.dims, _rate_inside(op, gpu)
    if rate is None:
        return None
    few = bool(np.all(np.asarray(d["tokens"]) <= FEW_TOKENS))
    copies, sms = (d["active"], 0.0) if few else (d["groups_met"], SMS)
    wide = _wide(d["tokens"], d["d"], copies, d["experts"], sms, d["width"], rate)
    return f"{'ll' if few else 'normal'}-{op.kernel}", exchange_dims(*wide)


def _rate_inside(op: Op, gpu: Gpu) -> float | None:
    """Rate of the link of an exchange behind the switch of a node; None for others. [B/s]"""
    link = gpu.links.get("nvlink")
    if link is None or op.kernel not in (DISPATCH, COMBINE) or not op.dims["nvswitch"]:
        return None
    return None if np.any(np.asarray(op.dims["nodes"]) > 1) else link.bytes_per_s


def _wide(*numbers: Number) -> tuple[Array, ...]:
    """Numbers and arrays as columns of one length."""
    return np.broadcast_arrays(*(np.atleast_1d(np.asarray(n, dtype=float)) for n in numbers))
