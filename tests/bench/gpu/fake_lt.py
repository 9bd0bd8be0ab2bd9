"""cuBLASLt, made up: descriptors are what was asked for, products reach the clock of a GPU."""

import ctypes
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

SMALL: Final = 100_000
"""Multiplications up to which products of single precision are computed."""
ARITHMETIC: Final = {
    (0, 68): "fp32",
    (0, 77): "tf32",
    (2, 68): "fp16",
    (14, 68): "bf16",
    (28, 68): "fp8",
    (3, 72): "int8",
}
"""By type of the operands (library_types.h) and of the arithmetic (cublas_api.h)."""


@dataclass
class FakeLt:
    """cuBLASLt: descriptors are what was asked for; numbers are those of its headers."""

    gpu: Any
    made: dict[int, Any] = field(default_factory=dict)
    refused: frozenset[str] = frozenset()

    def cublasLtGetVersion(self) -> int:
        return 130_100

    def _new(self, pointer: Any, value: Any) -> int:
        key = len(self.made) + 1
        self.made[key], pointer._obj.value = value, key
        return 0

    def cublasLtCreate(self, pointer: Any) -> int:
        return self._new(pointer, "handle")

    def cublasLtMatmulDescCreate(self, pointer: Any, compute: int, scale: int) -> int:
        return self._new(pointer, {"compute": compute, "scale": scale})

    def cublasLtMatmulDescSetAttribute(self, made: Any, name: int, value: Any, size: int) -> int:
        self.made[made.value][name] = value._obj.value
        return 0

    def cublasLtMatrixLayoutCreate(self, pointer: Any, *layout: int) -> int:
        return self._new(pointer, {"layout": layout})

    def cublasLtMatrixLayoutSetAttribute(self, made: Any, name: int, value: Any, size: int) -> int:
        return self.cublasLtMatmulDescSetAttribute(made, name, value, size)

    def cublasLtMatmulPreferenceCreate(self, pointer: Any) -> int:
        return self._new(pointer, {})

    def cublasLtMatmulPreferenceSetAttribute(
        self, made: Any, name: int, value: Any, size: int
    ) -> int:
        return self.cublasLtMatmulDescSetAttribute(made, name, value, size)

    def cublasLtDestroy(self, made: Any) -> int:
        del self.made[made.value]
        return 0

    def cublasLtMatmulDescDestroy(self, made: Any) -> int:
        return self.cublasLtDestroy(made)

    def cublasLtMatrixLayoutDestroy(self, made: Any) -> int:
        return self.cublasLtDestroy(made)

    def cublasLtMatmulPreferenceDestroy(self, made: Any) -> int:
        return self.cublasLtDestroy(made)

    def _arithmetic(self, description: Any, weight: Any) -> str:
        operand = self.made[weight.value]["layout"][0]
        told = self.made[description.value]
        found = ARITHMETIC[operand, told["compute"]]
        if 31 not in told:
            return found
        assert (told[31], told[32]) == (5, 4), "a scale of the weight is of 128 by 128"
        assert told[17], "the weight has scales"
        assert told[18], "values have scales"
        assert 25 not in told, "partial sums are scaled"
        return f"{found}_block"

    def cublasLtMatmulAlgoGetHeuristic(self, *arguments: Any) -> int:
        _, description, weight, *_, count = arguments
        if self._arithmetic(description, weight) in self.refused:
            return 15
        count._obj.value = 1
        return 0

    def cublasLtMatmul(self, *arguments: Any) -> int:
        (_, description, _, weight, weight_layout, values, values_layout, _, _, _, output) = (
            arguments[:11]
        )
        output_layout = arguments[11]
        (_, k, n, _), (_, k_too, m, _), (_, n_too, m_too, _) = (
            self.made[layout.value]["layout"]
            for layout in (weight_layout, values_layout, output_layout)
        )
        assert (k, m, n) == (k_too, m_too, n_too)
        assert self.made[description.value][3] == 1, "the weight is transposed"
        if self.gpu.strikes("product"):
            return 14
        arithmetic = self._arithmetic(description, weight_layout)
        batch = self.made[weight_layout.value].get(5, 1)
        if arithmetic == "fp32" and batch * m * n * k <= SMALL:
            places = (values, weight, output)
            layouts = (values_layout, weight_layout, output_layout)
            strides = [self.made[layout.value].get(6, 0) for layout in layouts]
            for i in range(batch):
                each = (p + 4 * i * s for p, s in zip(places, strides, strict=True))
                self._compute(m, n, k, *each)
        self.gpu.call(
            f"matmul {arithmetic}",
            [values, weight, output],
            constants={},
            grid=(),
            arguments=tuple(np.int64(value) for value in (batch, m, n, k)),
        )
        return 0

    @staticmethod
    def _compute(m: int, n: int, k: int, values: int, weight: int, output: int) -> None:
        def at(address: int, rows: int, columns: int) -> Any:
            kind = ctypes.c_float * (rows * columns)
            return np.ctypeslib.as_array(kind.from_address(address)).reshape(rows, columns)

        at(output, m, n)[...] = at(values, m, k) @ at(weight, n, k).T
