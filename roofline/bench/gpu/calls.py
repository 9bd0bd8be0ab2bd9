"""What a probe asks of a GPU besides kernels of its own, as data: products and collectives.

A probe's ``kernels`` gives these and `roofline.bench.gpu.launch.Launch`; the backend
(`roofline.bench.gpu.backend`) carries them out, in order.
"""

from dataclasses import dataclass
from math import prod
from typing import Literal, TypeAlias

from roofline.bench.gpu.cublaslt import Arithmetic
from roofline.bench.gpu.launch import Array, Launch

Operation: TypeAlias = Literal["all_reduce", "all_gather", "reduce_scatter", "send_recv"]


@dataclass(frozen=True, slots=True)
class Multiply:
    """``output[…, m, n] = values[…, m, k] @ weight[…, n, k].T`` by cuBLASLt."""

    arithmetic: Arithmetic
    """Type of operands and multiplier, a key of `roofline.bench.gpu.cublaslt.TYPES`."""
    values: Array
    weight: Array
    output: Array
    """Arrays of the device; axes before the last two are a batch."""

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Batch, m, n and k."""
        *batch, m, n = self.output.shape
        return prod(batch), m, n, self.values.shape[-1]


@dataclass(frozen=True, slots=True)
class Collective:
    """An operation of NCCL on the first GPUs, in half precision."""

    operation: Operation
    """A key of `roofline.cost.kernels.collective.PATHS`."""
    payload: int
    """As defined there. [B]"""
    ranks: int
    """GPUs. [1]"""


Call: TypeAlias = Launch | Multiply | Collective
