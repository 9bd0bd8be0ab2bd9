"""Products of a mixture of experts by PyTorch against NumPy, on the arrays of a point."""

from typing import Any

import numpy as np
import pytest

from roofline.bench.gpu.device import Device
from roofline.bench.gpu.torch_attention import Borrowed
from roofline.bench.gpu.torch_experts import HOPPER, loads, plain, products
from tests.microbench.elements import Array, narrow, widen

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("skew", [0, 12])
def test_products_of_a_mixture_agree_with_numpy(skew: int, gpu: Device) -> None:
    torch = pytest.importorskip("torch")
    if gpu.sku.architecture < HOPPER:
        pytest.skip("PyTorch has no grouped kernel for this device")
    rng, rows = np.random.default_rng(1), loads(40, 16, 16, 2, skew)
    shapes = (int(rows.sum()), 128), (16, 256, 128), (16, 128, 128)
    x, gate_up, down = (narrow(0.3 * rng.standard_normal(shape), "bf16") for shape in shapes)
    arrays: list[Any] = [x, rows.cumsum().astype(np.int32), gate_up, down]
    values, places, *weights = (plain(Borrowed(gpu.cupy.asarray(array))) for array in arrays)
    found = products(values, places, *weights).float().cpu().numpy()
    torch.cuda.synchronize()
    expected = []
    first = 0
    for count, wide, small in zip(rows, widen(gate_up), widen(down), strict=True):
        gate, up = np.split(widen(x[first : first + count]) @ wide.T, 2, axis=1)
        inner: Array = gate / (1.0 + np.exp(-gate)) * up
        expected.append(inner @ small.T)
        first += count
    wanted = np.concatenate(expected)
    assert np.linalg.norm(found - wanted) < 2e-2 * np.linalg.norm(wanted)
