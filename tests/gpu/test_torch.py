"""Products by PyTorch against NumPy: of a mixture of experts, and with 4-bit weights."""

from typing import Any

import numpy as np
import pytest

from roofline.bench.gpu.device import Device
from roofline.bench.gpu.torch_attention import Borrowed
from roofline.bench.gpu.torch_experts import HOPPER, loads, plain, products
from roofline.bench.gpu.torch_packed import GROUP, PACKING, TILES
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


def test_products_with_4_bit_weights_agree_with_numpy(gpu: Device) -> None:
    torch = pytest.importorskip("torch")
    rng, (m, n, k) = np.random.default_rng(2), (5, 64, 512)
    whole = rng.integers(0, 16, (n, k))
    two = (whole[:, ::2] << 4 | whole[:, 1::2]).astype(np.uint8)
    weight = torch._convert_weight_to_int4pack(torch.from_numpy(two).cuda(), TILES)
    outputs, depth, threads, words = PACKING
    assert tuple(weight.shape) == (n // outputs, k // depth, threads, words)
    x = torch.from_numpy(rng.standard_normal((m, k))).bfloat16()
    pairs = torch.from_numpy(0.1 * rng.standard_normal((k // GROUP, n, 2))).bfloat16()
    found = torch._weight_int4pack_mm(x.cuda(), weight, GROUP, pairs.cuda()).float().cpu().numpy()
    scale, zero = (np.repeat(part.double().numpy().T, GROUP, 1) for part in pairs.unbind(2))
    wanted = x.double().numpy() @ ((whole - 8) * scale + zero).T
    assert np.linalg.norm(found - wanted) < 2e-2 * np.linalg.norm(wanted)
