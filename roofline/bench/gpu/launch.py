"""Calls of a GPU as data, as ``kernels`` of a probe has them: kernels, products, collectives.

A kernel call says what to compile, how many blocks, which arguments. Whoever can run such a call
can run every kernel of ``microbench/cuda``: `roofline.bench.gpu.device` does on a GPU, the tests do
on a CPU. The backend (`roofline.bench.gpu.backend`) carries out all calls of a run, in order.
"""

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, Final, Literal, Protocol, TypeAlias

from msgspec import Struct

from roofline.bench.gpu.cublaslt import Arithmetic
from roofline.content import shipped
from roofline.errors import InputError

Element: TypeAlias = Literal["bf16", "fp16"]
"""Two bytes; bfloat16 is kept as ``uint16`` where a library has no such type."""

Operation: TypeAlias = Literal[
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"
]

WARP: Final = 32
"""Threads that run in step. [thread]"""


class Array(Protocol):
    """An array of NumPy or CuPy."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        ...

    @property
    def dtype(self) -> Any:
        """Type of an element."""
        ...


class Program(Struct, frozen=True):
    """A source of ``microbench/cuda`` and the constants it is specialised to."""

    source: str
    constants: tuple[tuple[str, int], ...] = ()

    def options(self) -> list[str]:
        """The constants as a compiler takes them.

        >>> program("rms_norm", "fp16").options()
        ['-DELEMENT_FP16=1']
        """
        return [f"-D{name}={value}" for name, value in self.constants]


class Launch(Struct, frozen=True):
    """One kernel call.

    Args:
        grid: Blocks in each direction.
        threads: Threads per block. [thread]
        shared_bytes: Shared memory that a block asks for at launch. [B]
        arguments: Arrays of the device and NumPy scalars, in the order of the kernel's parameters.
    """

    program: Program
    kernel: str
    grid: tuple[int, int, int]
    threads: int
    shared_bytes: int
    arguments: tuple[Any, ...]


class Multiply(Struct, frozen=True):
    """``output[…, m, n] = values[…, m, k] @ weight[…, n, k].T`` by cuBLASLt."""

    arithmetic: Arithmetic
    """Type of operands and multiplier, a key of `roofline.bench.gpu.cublaslt.TYPES`."""
    values: Array
    weight: Array
    output: Array
    """Arrays of the device; axes before the last two are a batch."""
    scales: tuple[Array, Array] | None = None
    """Scales of blocks of the values and of the weight, as `Product.scale` takes them."""

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Batch, m, n and k."""
        *batch, m, n = self.output.shape
        return prod(batch), m, n, self.values.shape[-1]


class Collective(Struct, frozen=True):
    """An operation of NCCL on the first GPUs, in half precision."""

    operation: Operation
    """A key of `roofline.cost.kernels.collective.PATHS`."""
    payload: int
    """Payload as that table defines it. [B]"""
    ranks: int
    """GPUs. [1]"""


class LibraryCall(Struct, frozen=True):
    """Work that another library puts on CuPy's current stream."""

    run: Callable[[Any], object]
    """Takes CuPy."""


Call: TypeAlias = Launch | Multiply | Collective | LibraryCall


def program(source: str, element: Element, constants: Mapping[str, int] | None = None) -> Program:
    """A program for elements of that type."""
    if element not in ("bf16", "fp16"):
        raise InputError(f"no kernel computes in {element}", hint="ask for bf16 or fp16")
    given = {"ELEMENT_FP16": int(element == "fp16"), **(constants or {})}
    return Program(source, tuple(sorted(given.items())))


def sources() -> dict[str, str]:
    """Text of every CUDA source and header that is shipped, by file name."""
    files = sorted((shipped("microbench") / "cuda").iterdir(), key=lambda path: path.name)
    wanted = [path for path in files if path.suffix in (".cu", ".cuh")]
    return {path.name: path.read_text(encoding="utf-8") for path in wanted}


def ceil_div(count: int, size: int) -> int:
    """Parts of that size that cover a count.

    >>> ceil_div(17, 16)
    2
    """
    return -(-count // size)
