"""Matrix products by cuBLASLt, through ctypes: one path for every arithmetic type.

CuPy has no fp8 and no tensor-core int8, and its own cuBLAS refuses to be captured in a graph; this
takes an explicit stream. Descriptors need the library alone, products a device.

Numbers of the enumerations: cublasLt.h, cublas_api.h and library_types.h of CUDA 13.0.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ctypes import POINTER, byref, c_float, c_int, c_int8, c_int32, c_int64, c_size_t, c_uint64
from functools import cache
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from roofline.errors import InputError, MissingEnvironmentError

Pointer: TypeAlias = ctypes.c_void_p
Arithmetic: TypeAlias = Literal["fp32", "tf32", "fp16", "bf16", "fp8", "fp8_block", "int8"]

_DATA: Final = {"fp32": 0, "fp16": 2, "int8": 3, "int32": 10, "bf16": 14, "e4m3": 28}
_COMPUTE: Final = {"fp32": 68, "int32": 72, "tf32": 77}
_TRANSPOSE_A: Final = 3
_FAST_ACCUMULATION: Final = 25
_MOST_WORKSPACE: Final = 1
_BATCH, _STRIDE = 5, 6
_SCALE_OF_WEIGHT, _SCALE_OF_VALUES = 17, 18
_MODE_OF_WEIGHT, _MODE_OF_VALUES = 31, 32
_EACH_128, _EACH_128_BY_128 = 4, 5
INVALID_VALUE: Final = 7
NOT_SUPPORTED: Final = 15
SCALED_ROWS: Final = 4
"""m and n must be a multiple of it where blocks have scales. Source: NVIDIA, cuBLAS 13
documentation, section 3.1.4.5 (128-element 1D and 128x128 2D block scaling)."""
WORKSPACE_BYTES: Final = 32 << 20
"""Workspace that NVIDIA recommends for Hopper. [B]"""


class Types(Struct, frozen=True):
    """Data types of one arithmetic."""

    operand: str
    result: str
    compute: str
    scale: str = "fp32"
    unit: int = 1
    """Widths must be a multiple of it. [1]"""
    scaled: bool = False
    """True where each 128 of a row of the values has a scale, and each 128 × 128 of the weight."""


TYPES: Final[dict[str, Types]] = {
    "fp32": Types("fp32", "fp32", "fp32"),
    "tf32": Types("fp32", "fp32", "tf32"),
    "fp16": Types("fp16", "fp16", "fp32"),
    "bf16": Types("bf16", "bf16", "fp32"),
    "fp8": Types("e4m3", "bf16", "fp32", unit=16),
    "fp8_block": Types("e4m3", "bf16", "fp32", unit=16, scaled=True),
    "int8": Types("int8", "int32", "int32", scale="int32", unit=16),
}


class Algorithm(ctypes.Structure):
    """A kernel and how it is run; opaque."""

    _fields_ = (("data", c_uint64 * 8),)


class AlgorithmChoice(ctypes.Structure):
    """An algorithm that the library proposes."""

    _fields_ = (
        ("algorithm", Algorithm),
        ("workspace_bytes", c_size_t),
        ("state", c_int),
        ("waves", c_float),
        ("reserved", c_int * 4),
    )


_SIGNATURES: Final[dict[str, list[Any]]] = {
    "Create": [POINTER(Pointer)],
    "Destroy": [Pointer],
    "MatmulDescCreate": [POINTER(Pointer), c_int, c_int],
    "MatmulDescSetAttribute": [Pointer, c_int, Pointer, c_size_t],
    "MatmulDescDestroy": [Pointer],
    "MatrixLayoutCreate": [POINTER(Pointer), c_int, c_uint64, c_uint64, c_int64],
    "MatrixLayoutSetAttribute": [Pointer, c_int, Pointer, c_size_t],
    "MatrixLayoutDestroy": [Pointer],
    "MatmulPreferenceCreate": [POINTER(Pointer)],
    "MatmulPreferenceSetAttribute": [Pointer, c_int, Pointer, c_size_t],
    "MatmulPreferenceDestroy": [Pointer],
    "MatmulAlgoGetHeuristic": [*[Pointer] * 7, c_int, POINTER(AlgorithmChoice), POINTER(c_int)],
    "Matmul": [*[Pointer] * 12, POINTER(Algorithm), Pointer, c_size_t, Pointer],
}


@cache
def library() -> ctypes.CDLL:
    """cuBLASLt, as CuPy's wheels or the system bring it.

    Raises:
        MissingEnvironmentError: If it is not installed.
    """
    loaded = _loaded()
    if loaded is None:
        raise MissingEnvironmentError(
            "cuBLASLt is not installed",
            hint="pip install nvidia-cublas, or the CUDA toolkit that CuPy is for",
        )
    for name, arguments in _SIGNATURES.items():
        function = getattr(loaded, f"cublasLt{name}")
        function.argtypes, function.restype = arguments, c_int
    loaded.cublasLtGetVersion.restype = c_size_t
    return loaded


def version() -> str:
    """Version of the library.

    Raises:
        MissingEnvironmentError: If it is not installed.
    """
    number: int = library().cublasLtGetVersion()
    return f"{number // 10_000}.{number // 100 % 100}.{number % 100}"


def _loaded() -> ctypes.CDLL | None:
    names = ["libcublasLt.so.13", "libcublasLt.so.12"]
    with suppress(Exception):  # it may be missing, and has errors of its own where it finds nothing
        from cuda.pathfinder import load_nvidia_dynamic_lib

        names.insert(0, str(load_nvidia_dynamic_lib("cublasLt").abs_path))
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


class LibraryError(RuntimeError):
    """A call that failed, and the ``cublasStatus_t`` that it came back with."""

    def __init__(self, name: str, status: int) -> None:
        super().__init__(f"cublasLt{name} failed with status {status}")
        self.status = status


def _call(name: str, *arguments: Any) -> None:
    status = getattr(library(), f"cublasLt{name}")(*arguments)
    if status:
        raise LibraryError(name, status)


def _set(what: str, pointer: Pointer, attribute: int, value: Any) -> None:
    _call(f"{what}SetAttribute", pointer, attribute, byref(value), ctypes.sizeof(value))


class LinearProduct:
    """``output[m, n] = values[m, k] @ weight[n, k].T``, row by row: a linear layer.

    Seen by columns, as the library does, it is the transposed weight times the values, which is
    the only order that fp8 and int8 have. fp8 accumulates fast, as engines ask for; with scales of
    blocks it cannot. A batch of products lies one after the other.

    Raises:
        InputError: If the type cannot have the shape.
        MissingEnvironmentError: If the library is not installed.
    """

    def __init__(self, arithmetic: Arithmetic, m: int, n: int, k: int, *, batch: int = 1) -> None:
        types = TYPES.get(arithmetic)
        if types is None:
            raise InputError(f"no product in {arithmetic}", hint=f"take one of {', '.join(TYPES)}")
        if n % types.unit or k % types.unit:
            raise InputError(
                f"{arithmetic} cannot have n = {n} and k = {k}",
                hint=f"take multiples of {types.unit}",
            )
        if types.scaled and m % SCALED_ROWS:
            raise InputError(
                f"{arithmetic} cannot have m = {m}", hint=f"take a multiple of {SCALED_ROWS}"
            )
        self.arithmetic, self.shape = arithmetic, (m, n, k)
        number = c_int32 if types.scale == "int32" else c_float
        self._one, self._zero = number(1), number(0)
        self._description, self._layouts = Pointer(), [Pointer() for _ in range(3)]
        self.choices: list[AlgorithmChoice] = []
        compute, scale = _COMPUTE[types.compute], _DATA[types.scale]
        _call("MatmulDescCreate", byref(self._description), compute, scale)
        _set("MatmulDesc", self._description, _TRANSPOSE_A, c_int32(1))
        if arithmetic == "fp8":
            _set("MatmulDesc", self._description, _FAST_ACCUMULATION, c_int8(1))
        if types.scaled:
            self._scale_blocks()
        shapes = ((types.operand, k, n), (types.operand, k, m), (types.result, n, m))
        for layout, (data, rows, columns) in zip(self._layouts, shapes, strict=True):
            _call("MatrixLayoutCreate", byref(layout), _DATA[data], rows, columns, rows)
            if batch > 1:
                _set("MatrixLayout", layout, _BATCH, c_int32(batch))
                _set("MatrixLayout", layout, _STRIDE, c_int64(rows * columns))

    def _scale_blocks(self) -> None:
        try:
            _set("MatmulDesc", self._description, _MODE_OF_WEIGHT, c_int32(_EACH_128_BY_128))
            _set("MatmulDesc", self._description, _MODE_OF_VALUES, c_int32(_EACH_128))
        except LibraryError as error:
            library().cublasLtMatmulDescDestroy(self._description)
            if error.status != INVALID_VALUE:
                raise
            raise InputError(
                f"cuBLASLt {version()} has no scales of blocks", hint="take CUDA 12.9 or newer"
            ) from None

    def scale(self, values: int, weight: int) -> None:
        """Say where the scales of blocks are, before `choose` and before each `run`.

        Args:
            values: Address of [k / 128, m], float32.
            weight: Address of [n / 128, k / 128], float32, the second filled up to fours.
        """
        _set("MatmulDesc", self._description, _SCALE_OF_VALUES, c_uint64(values))
        _set("MatmulDesc", self._description, _SCALE_OF_WEIGHT, c_uint64(weight))

    def choose(self, handle: Pointer, workspace_bytes: int = WORKSPACE_BYTES, most: int = 8) -> int:
        """Ask for algorithms, best guess first; how many there are, 0 if it cannot be done."""
        with _created("MatmulPreference") as preference:
            _set("MatmulPreference", preference, _MOST_WORKSPACE, c_uint64(workspace_bytes))
            found, count = (AlgorithmChoice * most)(), c_int()
            layouts = (*self._layouts, self._layouts[-1])
            asked = (handle, self._description, *layouts, preference, most, found, byref(count))
            try:
                _call("MatmulAlgoGetHeuristic", *asked)
            except LibraryError as error:
                if error.status != NOT_SUPPORTED:
                    raise
        self.choices = list(found[: count.value])
        return count.value

    def run(
        self,
        handle: Pointer,
        values: int,
        weight: int,
        output: int,
        workspace: int,
        stream: int,
        *,
        choice: int = 0,
        workspace_bytes: int = WORKSPACE_BYTES,
    ) -> None:
        """Launch on a stream; arrays are addresses on the device, `choose` was called."""
        weight_layout, values_layout, output_layout = self._layouts
        _call(
            "Matmul",
            handle,
            self._description,
            byref(self._one),
            weight,
            weight_layout,
            values,
            values_layout,
            byref(self._zero),
            output,
            output_layout,
            output,
            output_layout,
            byref(self.choices[choice].algorithm),
            workspace,
            workspace_bytes,
            stream,
        )

    def close(self) -> None:
        """Give the descriptors back."""
        for layout in self._layouts:
            library().cublasLtMatrixLayoutDestroy(layout)
        library().cublasLtMatmulDescDestroy(self._description)
        self._layouts, self._description = [], Pointer()


@contextmanager
def handle() -> Iterator[Pointer]:
    """A handle on the current device."""
    with _created("") as found:
        yield found


@contextmanager
def _created(what: str) -> Iterator[Pointer]:
    pointer = Pointer()
    _call(f"{what}Create", byref(pointer))
    try:
        yield pointer
    finally:
        # Its status is not looked at: on a device that was lost it would hide why.
        getattr(library(), f"cublasLt{what}Destroy")(pointer)
