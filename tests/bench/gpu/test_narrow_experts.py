"""Layout and work of mixtures in 8 bits, and their sums where PyTorch is installed."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from roofline.bench.gpu.kernels import BLOCK
from roofline.bench.gpu.launch import Launch, LibraryCall
from roofline.bench.gpu.narrow_experts import (
    BLOCK_MIXTURES,
    ends,
    narrow,
    owners,
    places,
    sorted_choices,
    spread,
    widen,
)
from roofline.bench.gpu.torch_experts import ROWS, SKEWS, chosen, loads
from roofline.bench.probe import find, points
from tests.bench.gpu.test_marshalling import SKU
from tests.bench.predicting import dims_of
from tests.bench.probes import made

NAMES = ["mixture-fp8", "mixture-fp8-block"]
MIXTURES = [(m, *mixture[2:], skew) for m, mixture, skew in product(ROWS, BLOCK_MIXTURES, SKEWS)]


@pytest.mark.parametrize("block", [1, BLOCK])
def test_every_row_has_a_place_and_every_block_one_expert(block: int) -> None:
    for mixture in MIXTURES:
        held, found = loads(*mixture), owners(block, *mixture)
        assert len(found) == ends(block, *mixture)[-1]
        assert len(found) % block == 0
        assert len(found) < held.sum() + block * (held > 0).sum()
        at = places(block, *mixture)
        assert (np.diff(at) > 0).all()
        np.testing.assert_array_equal(found[at], np.repeat(np.arange(len(held)), held))
        assert (found >= 0).sum() == held.sum()
        blocks = found.reshape(-1, block)
        assert (blocks[:, 0] >= 0).all()
        assert ((blocks == blocks[:, :1]) | (blocks < 0)).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_form_sees_the_rows_and_experts_of_the_device(name: str) -> None:
    for point in points(find(name).probe):
        held = loads(*(point.at[axis] for axis in ("m", "experts", "local", "active", "skew")))
        dims = dims_of(point, "experts")
        assert dims["rows"][0] == pytest.approx(held.sum())
        assert dims["touched"][0] == pytest.approx((held > 0).sum())
        assert dims["weight_width"][0] == 1.0


@pytest.mark.parametrize("name", NAMES)
def test_conversions_are_the_projects_and_products_a_library_s(name: str) -> None:
    at = {"m": 5, "hidden": 256, "inter": 128, "experts": 8, "local": 4, "active": 2, "skew": 0}
    probe = find(name).probe
    assert probe.kernels is not None
    found = probe.kernels(SKU, **made(probe, at))
    assert [type(call) for call in found] == [Launch, LibraryCall, Launch, LibraryCall]
    kernel = "quantise_blocks" if name.endswith("block") else "quantise"
    assert [call.kernel for call in found if isinstance(call, Launch)] == [kernel] * 2


@pytest.mark.parametrize("local", [4, 8])
@pytest.mark.parametrize("block", [1, 16])
def test_a_mixture_sums_what_the_experts_of_the_device_make_of_a_token(
    block: int, local: int
) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    mixture = (6, 8, local, 2, 0)
    ids, at = (torch.from_numpy(each(*mixture)) for each in (chosen, lambda *m: places(block, *m)))
    owner = torch.from_numpy(owners(block, *mixture)).long()
    values, scales = torch.randn(6, 64), torch.rand(1, 8) + 0.5
    shares = torch.rand(12)
    gate_up, down = torch.randn(local, 64, 64), torch.randn(local, 64, 32)
    around = torch.rand(local) + 0.5

    def multiply(rows: Any, beside: Any, weights: Any, factors: Any, layout: Any) -> Any:
        each = weights[layout.clamp(min=0)] * factors[layout.clamp(min=0)][:, None, None]
        return torch.einsum("rk,rnk->rn", rows * beside[0, : len(rows), None], each)

    inner, output = torch.empty(len(owner), 32), torch.full((6, 64), float("nan"))
    order = sorted_choices(ids, len(at))
    rows = spread(order // 2, values, scales, at, len(owner))
    widen(multiply, *rows, gate_up, around, owner, inner)
    ones = torch.ones(1, len(owner))
    narrow(multiply, order, order // 2, inner, ones, shares, at, down, around, owner, output)
    wanted = torch.zeros(6, 64)
    for place, expert in enumerate(ids.flatten().tolist()):
        if expert < local:
            x = values[place // 2] * scales[0, place // 2]
            gate, up = (around[expert] * gate_up[expert] @ x).chunk(2)
            inside = torch.nn.functional.silu(gate) * up
            wanted[place // 2] += around[expert] * down[expert] @ inside * shares[place]
    assert float((output - wanted).norm()) <= 1e-5 * float(wanted.norm())
