"""Products by cuBLASLt against NumPy, in every arithmetic type that the device has."""

from typing import Any

import numpy as np
import pytest

from roofline.bench.gpu.cublaslt import TYPES, WORKSPACE_BYTES, Arithmetic, LinearProduct, handle
from roofline.bench.gpu.device import CudaDevice
from roofline.bench.gpu.launch import Multiply
from roofline.bench.gpu.libraries import products
from tests.microbench.elements import Array, narrow, widen

pytestmark = pytest.mark.gpu

M, N, K = 48, 96, 256
WITH_FP8 = 89
"""Oldest architecture: Ada."""
WITH_BLOCKS = 90
"""Architecture with scales of blocks in single precision: Hopper."""
TOLERANCE = {"fp32": 1e-5, "tf32": 1e-3, "fp16": 1e-3, "bf16": 4e-3, "fp8": 4e-3, "int8": 0.0}
"""The result is rounded to its type; fp8 operands are exact here."""


def operands(arithmetic: Arithmetic, shape: tuple[int, int], seed: int) -> tuple[Array, Array]:
    """An array as the library takes it, and what it means."""
    rng = np.random.default_rng(seed)
    if arithmetic == "int8":
        whole = rng.integers(-100, 100, shape, dtype=np.int8)
        return whole, whole.astype(np.float64)
    if arithmetic == "fp8":  # e4m3 has ±1, ±2 and ±4 as 0x38, 0x40 and 0x48
        power, sign = rng.integers(0, 3, shape), rng.integers(0, 2, shape)
        bits = (0x38 + 8 * power + 128 * sign).astype(np.uint8)
        return bits, (2.0**power) * (1.0 - 2.0 * sign)
    values = rng.standard_normal(shape)
    if arithmetic in ("bf16", "fp16"):
        elements = narrow(values, "bf16" if arithmetic == "bf16" else "fp16")
        return elements, widen(elements)
    single = values.astype(np.float32)
    return single, single.astype(np.float64)


def result(arithmetic: Arithmetic) -> Any:
    kinds = {"fp32": np.float32, "fp16": np.float16, "bf16": np.uint16, "int32": np.int32}
    return kinds[TYPES[arithmetic].result]


@pytest.mark.parametrize("arithmetic", [name for name in TYPES if not TYPES[name].scaled])
def test_a_product_agrees_with_numpy(arithmetic: Arithmetic, gpu: CudaDevice) -> None:
    if arithmetic == "fp8" and gpu.sku.architecture < WITH_FP8:
        pytest.skip("this device has no fp8 arithmetic")
    values, wide_values = operands(arithmetic, (M, K), 1)
    weight, wide_weight = operands(arithmetic, (N, K), 2)
    cupy = gpu.cupy
    placed = [cupy.asarray(values), cupy.asarray(weight), cupy.empty((M, N), result(arithmetic))]
    workspace = cupy.empty(WORKSPACE_BYTES, cupy.uint8)
    product = LinearProduct(arithmetic, M, N, K)
    with handle() as library:
        assert product.choose(library) > 0
        x, w, y, scratch = (array.data.ptr for array in (*placed, workspace))
        product.run(library, x, w, y, scratch, cupy.cuda.get_current_stream().ptr)
        found = placed[2].get()
    product.close()
    wide = widen(found) if found.dtype == np.uint16 else found.astype(np.float64)
    expected = wide_values @ wide_weight.T
    assert np.linalg.norm(wide - expected) <= TOLERANCE[arithmetic] * np.linalg.norm(expected)


def test_a_product_with_scales_of_blocks_agrees_with_numpy(gpu: CudaDevice) -> None:
    """Each scale is another, so that one in a wrong place is noticed."""
    if gpu.sku.architecture != WITH_BLOCKS:
        pytest.skip("this device has no scales of blocks")
    m, n, k = 24, 272, 640
    values, wide_values = operands("fp8", (m, k), 3)
    weight, wide_weight = operands("fp8", (n, k), 4)
    of_values = np.exp2(np.arange(5 * m) % 7 - 3.0).reshape(5, m).astype(np.float32)
    of_weight = np.exp2(np.arange(3 * 8) % 5 - 2.0).reshape(3, 8).astype(np.float32)
    cupy = gpu.cupy
    scales = cupy.asarray(of_values), cupy.asarray(of_weight)
    output = cupy.empty((m, n), np.uint16)
    call = Multiply("fp8_block", cupy.asarray(values), cupy.asarray(weight), output, scales)
    with products(cupy) as found:
        found.prepared(call)()
        cupy.cuda.Device().synchronize()
    scaled = wide_values * np.repeat(of_values.T, 128, axis=1)
    by_row = np.repeat(of_weight[:, :5], 128, axis=1)
    expected = scaled @ (wide_weight * np.repeat(by_row, 128, axis=0)[:n]).T
    off = np.linalg.norm(widen(output.get()) - expected)
    assert off <= TOLERANCE["bf16"] * np.linalg.norm(expected)
