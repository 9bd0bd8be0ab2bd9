"""Rows and work of a mixture of experts, and its result where PyTorch is installed."""

from itertools import product

import numpy as np
import pytest

from roofline.bench.gpu.torch_experts import MIXTURES, ROWS, SKEWS, chosen, loads, mixture
from roofline.bench.probe import find, points
from tests.bench.predicting import dims_of

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


@pytest.mark.parametrize("skew", SKEWS)
def test_a_token_has_as_many_experts_as_it_chooses_and_none_twice(skew: int) -> None:
    for m, every, local, active in SHAPES:
        found = np.sort(chosen(m, every, local, active, skew), axis=1)
        assert found.shape == (m, active)
        assert (np.diff(found, axis=1) > 0).all()
        assert 0 <= found.min() <= found.max() < every


def test_skewed_loads_differ_more_than_balanced_ones() -> None:
    even, skewed = (loads(1024, 128, 128, 8, skew) for skew in SKEWS)
    assert even.max() - even.min() <= 1
    assert skewed.max() > 2 * even.max()


def test_work_is_of_the_experts_that_have_rows() -> None:
    probe = find("mixture-bf16").probe
    point = next(p for p in points(probe) if p.at["m"] == 1 and p.at["local"] == 32)
    work = probe.work(point.at)
    assert work.weight_bytes == 3 * 7168 * 2048 * 2
    assert work.flops == 2 * 3 * 7168 * 2048
    assert {p.regime for p in points(probe)} == {
        f"{tokens} {rows} cold" for tokens in ("few", "many") for rows in ("balanced", "skewed")
    }


def test_a_form_sees_the_rows_and_experts_of_the_device() -> None:
    """They are made of the work, which is all that a record has."""
    probe = find("mixture-bf16").probe
    for point in points(probe):
        names = ("m", "experts", "local", "active", "skew")
        found = loads(*(point.at[name] for name in names))
        dims = dims_of(point, "experts")
        assert dims["rows"][0] == pytest.approx(found.sum())
        assert dims["touched"][0] == pytest.approx((found > 0).sum())


@pytest.mark.parametrize("local", [4, 8])
def test_a_mixture_sums_what_the_experts_of_the_device_make_of_a_token(local: int) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    ids = torch.from_numpy(chosen(6, 8, local, 2, 0))
    values, shares = torch.randn(6, 64).bfloat16(), torch.rand(12).bfloat16()
    gate_up, down = torch.randn(local, 64, 64).bfloat16(), torch.randn(local, 64, 32).bfloat16()
    output = torch.full((6, 64), float("nan")).bfloat16()
    rows = int(loads(6, 8, local, 2, 0).sum())
    mixture(values, ids, shares, gate_up, down, output, rows=rows)
    wanted = torch.zeros(6, 64)
    for place, expert in enumerate(ids.flatten().tolist()):
        if expert < local:
            x = values[place // 2].float()
            gate, up = (gate_up[expert].float() @ x).chunk(2)
            made = down[expert].float() @ (torch.nn.functional.silu(gate) * up)
            wanted[place // 2] += made * shares[place].float()
    assert float((output.float() - wanted).norm()) <= 2e-2 * float(wanted.norm())
