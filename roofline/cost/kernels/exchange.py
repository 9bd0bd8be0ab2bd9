"""Calibrated time of exchanging tokens between the devices that hold their experts (DeepEP).

The low-latency mode writes a copy of a token for each of its experts, straight into the receiver's
memory; an SM serves a whole number of experts, so that fewer experts keep fewer SMs busy. The
normal mode counts first, then sends a token once to each device that has some of its experts,
through a number of SMs set aside for it.
"""

from typing import Final

import numpy as np

from roofline.cost.kernels.form import Dims, FormConstant, Machine, Values, soft_maximum, summed
from roofline.cost.work import Array
from roofline.records import replace

SENT: Final = ("tokens", "hidden", "copies", "experts", "sms", "width", "bytes_per_s")
"""Shape of an exchange: tokens of one device [token]; numbers in a token, copies of it (one for
each of its experts, or for each device that has some), experts of all devices, and SMs set aside, 0
in the low-latency mode [1]; bytes per number: 1 where dispatch quantises to fp8, 2 in combine [B];
published rate of a device's link in one direction [B/s]."""
FEW_TOKENS: Final = 128.0
"""Tokens of a device up to which the low-latency exchange is used: its usual buffers."""


def exchange_dims(*sent: Array, crossing: Array | None = None) -> dict[str, Array]:
    """Columns of the form of an exchange, by name.

    Args:
        sent: Columns `SENT`.
        crossing: Copies of a token that take the link: all of them if not stated, of an exchange
            between nodes those that leave the node. [1]
    """
    dims = dict(zip(SENT, sent, strict=True))
    return {**dims, "crossing": dims["copies"] if crossing is None else crossing}


def parts(dims: Dims, machine: Machine, constants: Values) -> tuple[Array, Array, Array]:
    """Times of the start, of the copies by the SMs, and of the bytes on the link. [s]"""
    each = np.ceil(dims["experts"] / machine.multiprocessors)
    sms = np.where(dims["sms"] > 0, dims["sms"], np.ceil(dims["experts"] / each))
    sent = dims["tokens"] * dims["copies"]
    moved = sent * dims["hidden"] * dims["width"]
    copy = (constants["message"] * sent + moved / constants["per_sm"]) / sms
    start = constants["start"] + constants["expert"] * dims["experts"]
    crossed = dims["tokens"] * dims["crossing"] * dims["hidden"] * dims["width"]
    return start, copy, crossed / (constants["link"] * dims["bytes_per_s"])


FORM: Final = summed(
    "expert-exchange",
    (
        FormConstant("start", 1e-6, 2e-4, 2e-5, "s", "launch, counting and agreeing"),
        FormConstant("expert", 1e-10, 1e-6, 1e-8, "s", "an expert that is counted for"),
        FormConstant("message", 1e-9, 1e-5, 1e-7, "s", "a copy of a token, on one SM"),
        FormConstant("per_sm", 1e9, 2e11, 2e10, "B/s", "copied by one SM"),
        FormConstant("link", 0.1, 1.0, 0.7, "1", "share of the link's rate, if all copies took it"),
        FormConstant("sharpness", 1.0, 16.0, 4.0, "1", "exponent of the soft maximum"),
    ),
    parts,
    ("tokens", "hidden", "copies"),
    knee="sharpness",
)
"""Start, messages and bytes. Source: the two kinds of kernels of DeepEP
(https://github.com/deepseek-ai/DeepEP, ``csrc/kernels/internode_ll.cu`` and README)."""


def alltoall_parts(dims: Dims, machine: Machine, constants: Values) -> tuple[Array, Array]:
    """Times of the start, and of the tokens and their bytes on the link. [s]"""
    sent = dims["tokens"] * dims["copies"]
    moved = sent * dims["hidden"] * dims["width"]
    link = constants["link"] * dims["bytes_per_s"]
    start = constants["start"] + constants["rank"] * dims["ranks"]
    return start, constants["message"] * sent + constants["token"] * dims["tokens"] + moved / link


def alltoall_seconds(dims: Dims, machine: Machine, constants: Values) -> Array:
    """Time of start and copies, which overlap: their soft maximum. [s]"""
    return soft_maximum(constants["sharpness"], *alltoall_parts(dims, machine, constants))


_ALLTOALL: Final = summed(
    "moe-alltoall",
    (
        FormConstant("start", 1e-6, 2e-4, 1e-5, "s", "launch, and waiting for the other devices"),
        FormConstant("rank", 1e-9, 1e-5, 1e-7, "s", "each device that is waited for"),
        FormConstant("message", 1e-13, 1e-7, 1e-9, "s", "a copy of a token"),
        FormConstant("token", 1e-13, 1e-7, 1e-9, "s", "a token, however often it is sent"),
        FormConstant("link", 0.1, 1.0, 0.7, "1", "share of the link's rate, if all copies took it"),
        FormConstant("sharpness", 1.0, 8.0, 1.5, "1", "exponent that joins start and copies"),
    ),
    alltoall_parts,
    ("tokens", "copies", "ranks"),
    "(start beside message·copies + token·tokens + bytes / (link·W)) · exp(residual)",
)
ALLTOALL: Final = replace(_ALLTOALL, seconds=alltoall_seconds)
"""One-sided and two-sided all-to-all over NVLink. Source: ``moeAlltoAllKernels.cu`` and
``fusedMoeCommKernels.cu`` of TensorRT-LLM (https://github.com/NVIDIA/TensorRT-LLM)."""
