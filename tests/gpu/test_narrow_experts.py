"""Mixtures of experts in 8-bit floats, against the same in double precision."""

from typing import Any

import numpy as np
import pytest

from roofline.bench.gpu.device import CudaDevice
from roofline.bench.gpu.kernels import BLOCK
from roofline.bench.gpu.torch_experts import HOPPER
from tests.gpu.running import ran
from tests.microbench.elements import Array, widen

pytestmark = pytest.mark.gpu

SHAPE = {"m": 40, "hidden": 512, "inter": 256, "experts": 8, "active": 2}
ROUNDED = 0.06
"""Relative error of a sum of products of rounded numbers: e4m3 has three bits of mantissa."""


def weights(found: dict[str, Any], name: str) -> Array:
    """Weights times their scales, of rows or of blocks."""
    bits, scales = found[name].get(), found[f"{name}_scales"].get().astype(np.float64)
    if scales.ndim == 3:
        scales = np.repeat(np.repeat(scales, BLOCK, axis=1), BLOCK, axis=2)
    else:
        scales = scales[:, :, None]
    wide: Array = widen(bits) * scales
    return wide


@pytest.mark.parametrize("skew", [0, 12])
@pytest.mark.parametrize("local", [4, 8])
@pytest.mark.parametrize("name", ["mixture-fp8", "mixture-fp8-block"])
def test_a_mixture_in_8_bits_agrees_with_numpy(
    name: str, local: int, skew: int, gpu: CudaDevice
) -> None:
    pytest.importorskip("torch")
    if name.endswith("block"):
        pytest.importorskip("deep_gemm")
    if gpu.sku.architecture < HOPPER:
        pytest.skip("PyTorch and DeepGEMM have no grouped kernel for this device")
    found = ran(gpu, name, {**SHAPE, "local": local, "skew": skew})
    ids, shares = found["chosen"].get(), widen(found["shares"].get())
    gate_up, down = weights(found, "gate_up"), weights(found, "down")
    values = widen(found["values"].get())
    wanted = np.zeros_like(values)
    for place, expert in enumerate(ids.ravel()):
        if expert < local:
            gate, up = np.split(gate_up[expert] @ values[place // 2], 2)
            inner: Array = gate / (1.0 + np.exp(-np.clip(gate, -700, 700))) * up
            wanted[place // 2] += shares[place] * (down[expert] @ inner)
    off = np.linalg.norm(widen(found["output"].get()) - wanted)
    assert off < ROUNDED * np.linalg.norm(wanted)
