"""Rows and work of the products of a mixture, and the products where PyTorch is installed."""

from itertools import product

import numpy as np
import pytest

from roofline.bench.gpu.torch_experts import MIXTURES, ROWS, SKEWS, ends, loads, products
from roofline.bench.probe import find, points

SHAPES = [(m, *mixture[2:]) for m, mixture in product(ROWS, MIXTURES)]


@pytest.mark.parametrize("skew", SKEWS)
def test_a_device_has_its_share_of_the_rows_or_the_most_of_them(skew: int) -> None:
    for m, every, local, active in SHAPES:
        found = loads(m, every, local, active, skew)
        assert len(found) == local
        assert m * active * local / every <= found.sum() <= m * active
        assert 0 <= found.min() <= found.max() <= m
        if local == every:
            assert found.sum() == m * active
    assert ends(4096, 8, 8, 2, skew)[-1] == 8192


def test_skewed_loads_differ_more_than_balanced_ones() -> None:
    even, skewed = (loads(1024, 128, 128, 8, skew) for skew in SKEWS)
    assert even.max() - even.min() <= 1
    assert skewed.max() > 2 * even.max()


def test_work_is_of_the_experts_that_have_rows() -> None:
    probe = find("experts-bf16").probe
    point = next(p for p in points(probe) if p.at["m"] == 1 and p.at["local"] == 32)
    work = probe.work(point.at)
    assert work.weight_bytes == 3 * 7168 * 2048 * 2
    assert work.flops == 2 * 3 * 7168 * 2048
    assert {p.regime for p in points(probe)} == {
        f"{tokens} {rows} cold" for tokens in ("few", "many") for rows in ("balanced", "skewed")
    }


def test_products_are_those_of_each_expert() -> None:
    torch = pytest.importorskip("torch")
    rows = np.array([0, 5, 0, 9])
    torch.manual_seed(0)
    values = torch.randn(14, 64).bfloat16()
    gate_up, down = torch.randn(4, 64, 64).bfloat16(), torch.randn(4, 64, 32).bfloat16()
    places = torch.from_numpy(rows.cumsum().astype(np.int32))
    found = products(values, places, gate_up, down)
    for i, x in enumerate(torch.split(values, rows.tolist())):
        gate, up = (x.float() @ gate_up[i].float().T).bfloat16().chunk(2, dim=1)
        inner = (torch.nn.functional.silu(gate.float()) * up.float()).bfloat16()
        part = found[rows[:i].sum() : rows[: i + 1].sum()].float()
        wanted = inner.float() @ down[i].float().T
        assert part.shape == wanted.shape
        assert float((part - wanted).norm()) <= 1e-2 * float(wanted.norm())
