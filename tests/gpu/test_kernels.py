"""The cases of the emulator on a GPU, and the same attention by PyTorch where it is installed."""

from typing import Final

import numpy as np
import pytest

from roofline.bench.gpu.attention import HOPPER
from roofline.bench.gpu.device import CudaDevice
from tests.microbench.attention_cases import CASES, Decode, Prefill, build
from tests.microbench.case import Case
from tests.microbench.small_cases import BUILDERS

pytestmark = pytest.mark.gpu

LARGE: Final[dict[str, Decode | Prefill]] = {
    "decode, long": Decode((4096, 1000), (32, 8), splits=16),
    "decode, long, fp16": Decode((8191,), (8, 1), splits=33, element="fp16", page_tokens=64),
    "decode, long, 8-bit cache": Decode((4096, 1000), (32, 8), splits=16, narrow_cache=True),
    "verify, long": Decode((4099, 2048), (32, 8), new_tokens=5, splits=8),
    "prefill, long": Prefill(1100, 1100, (4, 1)),
    "prefill, a long chunk": Prefill(512, 2200, (4, 2), batch=2),
    "warpgroups, long": Prefill(1100, 1100, (4, 1), architecture=HOPPER),
    "warpgroups, a long chunk": Prefill(512, 2200, (4, 2), batch=2, architecture=HOPPER),
    "warpgroups, long, narrow heads": Prefill(900, 1500, (2, 2), head_dim=64, architecture=HOPPER),
}


WITH_FP8: Final = 89
"""Oldest architecture: Ada."""


def served(case: Decode | Prefill, gpu: CudaDevice) -> None:
    """Skip a case of another architecture."""
    if isinstance(case, Prefill) and case.architecture not in (80, gpu.sku.architecture):
        pytest.skip("products of warpgroups are Hopper's")


def found(case: Case, gpu: CudaDevice) -> float:
    """Error of a case on the device, in tolerances."""
    narrow = any(array.dtype == np.uint8 for array in case.arrays.values())
    if narrow and gpu.sku.architecture < WITH_FP8:
        pytest.skip("this device has no 8-bit floats")
    placed = {name: gpu.cupy.asarray(array) for name, array in case.arrays.items()}
    gpu.run(*case.launches(placed))
    return case.error(placed[case.result].get()) / case.tolerance


@pytest.mark.parametrize("name", CASES)
def test_attention_on_the_device(name: str, gpu: CudaDevice) -> None:
    served(CASES[name], gpu)
    assert found(build(name), gpu) < 1.0


@pytest.mark.parametrize("name", LARGE)
def test_attention_over_many_tiles(name: str, gpu: CudaDevice) -> None:
    served(LARGE[name], gpu)
    assert found(LARGE[name].build(np.random.default_rng(0)), gpu) < 1.0


@pytest.mark.parametrize("name", BUILDERS)
def test_small_kernels_on_the_device(name: str, gpu: CudaDevice) -> None:
    assert found(BUILDERS[name](), gpu) < 1.0


def test_a_result_does_not_change_from_run_to_run(gpu: CudaDevice) -> None:
    case = LARGE["decode, long"].build(np.random.default_rng(1))
    placed = {name: gpu.cupy.asarray(array) for name, array in case.arrays.items()}
    gpu.run(*case.launches(placed))
    first = placed["output"].get()
    for _ in range(20):
        gpu.run(*case.launches(placed))
    assert (placed["output"].get() == first).all()


@pytest.mark.parametrize("architecture", [80, HOPPER])
@pytest.mark.parametrize("causal", [True, False])
def test_prefill_agrees_with_pytorch(gpu: CudaDevice, causal: bool, architecture: int) -> None:
    torch = pytest.importorskip("torch")
    shape = Prefill(700, 700, (8, 2), causal=causal, element="fp16", architecture=architecture)
    served(shape, gpu)
    case = shape.build(np.random.default_rng(2))
    placed = {name: gpu.cupy.asarray(array) for name, array in case.arrays.items()}
    gpu.run(*case.launches(placed))
    heads = [
        torch.from_numpy(case.arrays[name]).cuda().transpose(1, 2)
        for name in ("query", "keys", "values")
    ]
    theirs = torch.nn.functional.scaled_dot_product_attention(
        *heads, is_causal=causal, enable_gqa=True
    )
    ours = torch.from_numpy(placed["output"].get()).cuda().transpose(1, 2)
    assert float((ours - theirs).float().norm() / theirs.float().norm()) < 1e-3


@pytest.mark.parametrize("new_tokens", [1, 4])
def test_paged_decoding_agrees_with_pytorch(gpu: CudaDevice, new_tokens: int) -> None:
    torch = pytest.importorskip("torch")
    context, heads = 1000, (8, 2)
    shape = Decode((context,), heads, new_tokens=new_tokens, splits=4, element="fp16")
    case = shape.build(np.random.default_rng(3))
    placed = {name: gpu.cupy.asarray(array) for name, array in case.arrays.items()}
    gpu.run(*case.launches(placed))
    pages = case.arrays["block_table"][0]
    flat = [case.arrays[name][pages].reshape(-1, heads[1], 128) for name in ("keys", "values")]
    arrays = [case.arrays["query"][0], *(cache[:context] for cache in flat)]
    query, keys, values = (torch.from_numpy(a.copy()).cuda().transpose(0, 1)[None] for a in arrays)
    seen = torch.arange(context)[None] <= torch.arange(context - new_tokens, context)[:, None]
    theirs = torch.nn.functional.scaled_dot_product_attention(
        query, keys, values, attn_mask=seen.cuda(), enable_gqa=True
    )
    ours = torch.from_numpy(placed["output"].get()[0]).cuda().transpose(0, 1)[None]
    assert float((ours - theirs).float().norm() / theirs.float().norm()) < 1e-3
