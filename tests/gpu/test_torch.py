"""PyTorch against NumPy: a mixture of experts, and products with 4-bit weights."""

from typing import Any

import numpy as np
import pytest

from roofline.bench.gpu.device import CudaDevice
from roofline.bench.gpu.torch_attention import BorrowedArray
from roofline.bench.gpu.torch_experts import HOPPER, chosen, loads, mixture, plain
from roofline.bench.gpu.torch_packed import GROUP, PACKING, TILES
from tests.microbench.elements import Array, narrow, widen

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("skew", [0, 12])
@pytest.mark.parametrize("local", [4, 16])
def test_a_mixture_agrees_with_numpy(local: int, skew: int, gpu: CudaDevice) -> None:
    torch = pytest.importorskip("torch")
    if gpu.sku.architecture < HOPPER:
        pytest.skip("PyTorch has no grouped kernel for this device")
    rng, shape = np.random.default_rng(1), (40, 16, local, 2, skew)
    shapes = (40, 128), (80,), (local, 256, 128), (local, 128, 128)
    x, shares, gate_up, down = (narrow(0.3 * rng.standard_normal(each), "bf16") for each in shapes)
    ids, room = chosen(*shape), np.zeros((40, 128), np.uint16)
    arrays: list[Any] = [x, ids, shares, gate_up, down, room]
    tensors = [plain(BorrowedArray(gpu.cupy.asarray(array))) for array in arrays]
    mixture(*tensors, rows=int(loads(*shape).sum()))
    torch.cuda.synchronize()
    found = tensors[-1].float().cpu().numpy()
    wanted = np.zeros((40, 128))
    for place, expert in enumerate(ids.ravel()):
        if expert < local:
            gate, up = np.split(widen(gate_up)[expert] @ widen(x)[place // 2], 2)
            inner: Array = gate / (1.0 + np.exp(-gate)) * up
            wanted[place // 2] += widen(shares)[place] * (widen(down)[expert] @ inner)
    assert np.linalg.norm(found - wanted) < 2e-2 * np.linalg.norm(wanted)


def test_products_with_4_bit_weights_agree_with_numpy(gpu: CudaDevice) -> None:
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
