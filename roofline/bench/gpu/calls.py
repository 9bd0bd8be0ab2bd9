"""What a probe asks of a GPU besides kernels of its own, as data: products and collectives.

A probe's ``kernels`` gives these and `roofline.bench.gpu.launch.Launch`; the backend
(`roofline.bench.gpu.backend`) carries them out, in order.
"""

from dataclasses import dataclass
from math import prod
from typing import Literal, TypeAlias

from roofline.bench.gpu.cublaslt import Arithmetic
from roofline.bench.gpu.launch import Array, Launch

Operation: TypeAlias = Literal["all_reduce", "all_gather", "send_recv"]


@dataclass(frozen=True, slots=True)
class Multiply:
    """``output[…, m, n] = values[…, m, k] @ weight[…, n, k].T`` by cuBLASLt.

    Attributes
    ----------
    arithmetic
        Type of operands and multiplier, a key of `roofline.bench.gpu.cublaslt.TYPES`.
    values, weight, output
        Arrays of the device; axes before the last two are a batch.
    """

    arithmetic: Arithmetic
    values: Array
    weight: Array
    output: Array

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Batch, m, n and k."""
        *batch, m, n = self.output.shape
        return prod(batch), m, n, self.values.shape[-1]


@dataclass(frozen=True, slots=True)
class Collective:
    """An operation of NCCL on the first GPUs, in half precision.

    Attributes
    ----------
    operation
        A key of `roofline.cost.regimes.PATHS`.
    payload
        As defined there. [B]
    ranks
        GPUs. [1]
    """

    operation: Operation
    payload: int
    ranks: int


@dataclass(frozen=True, slots=True)
class Replay:
    """A graph of kernels, launched as one by the host.

    Attributes
    ----------
    calls
        In their order.
    """

    calls: tuple[Launch, ...]


Call: TypeAlias = Launch | Multiply | Collective | Replay
