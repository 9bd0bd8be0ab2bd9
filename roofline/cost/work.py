"""What an operation asks of a device: arithmetic, memory traffic and wire traffic.

Fields broadcast against the scenario axis, so one expression prices one scenario or a million.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Number: TypeAlias = Array | float
Scalar = TypeVar("Scalar", bound=np.generic)
Kind: TypeAlias = Literal[
    "gemm",
    "moe",
    "prefill-attention",
    "decode-attention",
    "latent-attention",
    "index",
    "scan",
    "pointwise",
    "lookup",
    "collective",
    "host",
    "engine",
]


def distinct(values: NDArray[Scalar]) -> NDArray[Scalar]:
    """Values in order, each once; ``np.unique`` imports masked arrays, which take 10 ms.

    >>> distinct(np.array([3.0, 1.0, 3.0])).tolist()
    [1.0, 3.0]
    """
    ordered = np.sort(values)
    found: NDArray[Scalar] = ordered[np.append(True, ordered[1:] > ordered[:-1])[: len(ordered)]]
    return found


def union(*values: NDArray[Scalar]) -> NDArray[Scalar]:
    """Values that any of the arrays has, in order, each once."""
    return distinct(np.concatenate(values))


def plus(a: Number, b: Number) -> Number:
    """``a + b`` without a pass over an array where one side is the scalar zero."""
    if isinstance(a, float) and a == 0.0:
        return b
    if isinstance(b, float) and b == 0.0:
        return a
    return a + b


def times(a: Number, b: Number) -> Number:
    """``a * b`` without a pass over an array where one side is the scalar one."""
    if isinstance(a, float) and a == 1.0:
        return b
    if isinstance(b, float) and b == 1.0:
        return a
    return a * b


def scaled(a: Number, b: Number) -> Number:
    """``a * b``; the scalar zero stays one and costs no pass over an array."""
    return a if isinstance(a, float) and a == 0.0 else a * b


@dataclass(frozen=True, slots=True)
class Work:
    """Arithmetic and compulsory traffic of one operation on one device.

    Norms, softmax and activation functions do a few vector FLOP per element beside the matrix
    arithmetic; they are left out of ``flops`` and present in the bytes.

    Examples:
        >>> both = Work(flops=2.0) + 3 * Work(flops=1.0, kv_bytes=4.0)
        >>> both.flops, both.hbm_bytes
        (5.0, 12.0)
    """

    flops: Number = 0.0
    """Multiplies and adds of matrix arithmetic, each counted once. [FLOP]"""
    weight_bytes: Number = 0.0
    activation_bytes: Number = 0.0
    kv_bytes: Number = 0.0
    """Traffic to device memory, reads and writes together, by what is moved. [B]"""
    wire_bytes: Number = 0.0
    """Sent by the device to others of its node. [B]"""
    messages: Number = 0.0
    """Rounds of messages that must follow one another there. [1]"""
    network_bytes: Number = 0.0
    network_messages: Number = 0.0
    """The same out of the node. [B] [1]"""
    host_bytes: Number = 0.0
    """Read from and written to the host's memory or storage. [B]"""

    __array_ufunc__: ClassVar[None] = None  # `array * work` defers to Work.__rmul__

    def __add__(self, other: "Work") -> "Work":
        """Do one, then the other."""
        return Work(
            plus(self.flops, other.flops),
            plus(self.weight_bytes, other.weight_bytes),
            plus(self.activation_bytes, other.activation_bytes),
            plus(self.kv_bytes, other.kv_bytes),
            plus(self.wire_bytes, other.wire_bytes),
            plus(self.messages, other.messages),
            plus(self.network_bytes, other.network_bytes),
            plus(self.network_messages, other.network_messages),
            plus(self.host_bytes, other.host_bytes),
        )

    def __mul__(self, number: Number) -> "Work":
        """Do it that many times."""
        return Work(
            scaled(self.flops, number),
            scaled(self.weight_bytes, number),
            scaled(self.activation_bytes, number),
            scaled(self.kv_bytes, number),
            scaled(self.wire_bytes, number),
            scaled(self.messages, number),
            scaled(self.network_bytes, number),
            scaled(self.network_messages, number),
            scaled(self.host_bytes, number),
        )

    __rmul__ = __mul__

    @property
    def hbm_bytes(self) -> Number:
        """All traffic to device memory. [B]"""
        return plus(plus(self.activation_bytes, self.kv_bytes), self.weight_bytes)

    @property
    def intensity(self) -> Number:
        """Arithmetic intensity. [FLOP/B]"""
        return self.flops / self.hbm_bytes


@dataclass(frozen=True, slots=True)
class Op:
    """One operator of a step, with what a rate depends on."""

    name: str
    """Role in the network: ``"gate-up"``."""
    kind: Kind
    """Which kernels do it."""
    work: Work
    """Of one execution on one device."""
    repeat: int = 1
    """Executions in a step, usually one per layer. [1]"""
    arithmetic: str = ""
    """Type of the matrix arithmetic, a key of `Gpu.flops_per_s`; empty where there is none."""
    dims: Mapping[str, Number] = field(default_factory=dict)
    """Shape that a calibrated rate is looked up by: m, n, k; batch, contexts, heads."""
    formats: Mapping[str, str] = field(default_factory=dict)
    """Number formats by role: weights, activations, kv."""
    wire_s: Number = 0.0
    """Time of the wires that it uses, of one execution: what a collective takes between devices,
    or what is loaded from the host. [s]"""
    algorithm: str = ""
    """Of a collective: ``"ring"``."""

    def called(self, name: str, repeat: int) -> "Op":
        """The operator under a name, executed that many times."""
        # As `dataclasses.replace` would, in a third of its time: steps have hundreds of them.
        return Op(
            name,
            self.kind,
            self.work,
            repeat,
            self.arithmetic,
            self.dims,
            self.formats,
            self.wire_s,
            self.algorithm,
        )

    @property
    def total(self) -> Work:
        """Work of all executions."""
        return self.work * float(self.repeat)
