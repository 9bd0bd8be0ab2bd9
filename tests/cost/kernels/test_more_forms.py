"""Laws of the forms of memory, launches, collectives and rooflines."""

from typing import Final

import numpy as np
import pytest

from roofline.cost.kernels import collective, pointwise
from roofline.cost.kernels.catalog import FORMS
from roofline.cost.kernels.form import Form, machine
from roofline.hardware.catalog import gpu
from tests.cost.regimes import Constants, Regime, seconds

H100: Final = machine(gpu("h100-sxm"), "bf16")
SIZES: Final = 2.0 ** np.arange(10.0, 34.0)


def priors(form: Form, **over: float) -> dict[str, float]:
    return {constant.name: constant.prior for constant in form.constants} | over


@pytest.mark.parametrize("name", FORMS)
def test_names_are_unique_and_constants_say_what_they_are(name: str) -> None:
    form = FORMS[name]
    names = [constant.name for constant in form.constants]
    assert len(names) == len(set(names))
    assert all(constant.meaning for constant in form.constants)
    assert all(c.low <= c.prior <= c.high for c in form.constants)


def test_cold_memory_is_never_faster_than_warm_and_both_agree_far_beyond_the_cache() -> None:
    values = priors(pointwise.ARRAY)
    cold, warm = (
        pointwise.ARRAY.seconds({"bytes": SIZES, "cold": np.full_like(SIZES, c)}, H100, values)
        for c in (1.0, 0.0)
    )
    assert (cold >= warm * (1.0 - 1e-12)).all()
    assert cold[-1] == pytest.approx(warm[-1], rel=1e-3)
    held = 14  # 16 MiB
    assert cold[held] - values["start"] > 1.5 * (warm[held] - values["start"])
    assert (np.diff(cold) > 0).all()
    assert (np.diff(warm) > 0).all()


def test_half_of_the_traffic_misses_at_the_capacity() -> None:
    values = priors(pointwise.ARRAY, resident=0.8)
    full = np.array([0.8 * H100.l2_bytes])
    dims = {"bytes": full, "cold": np.zeros(1)}
    assert pointwise.missed(dims, H100, values)[0] == pytest.approx(0.5)


def test_memory_is_bound_by_start_cache_and_memory_in_turn() -> None:
    dims = {"bytes": np.array([1e3, 2e7, 1e10]), "cold": np.zeros(3)}
    assert pointwise.ARRAY.regime(dims, H100, priors(pointwise.ARRAY)).tolist() == [0, 1, 2]


def test_a_roofline_without_overlap_is_the_sum_of_its_roofs() -> None:
    dims = {"flops": np.array([989.4e12]), "bytes": np.array([3.35e12])}
    values = priors(pointwise.ROOF, compute=0.5, memory=0.25, start=1e-6)
    assert pointwise.ROOF.seconds(dims, H100, values)[0] == pytest.approx(2.0 + 4.0 + 1e-6)
    assert pointwise.ROOF.regime(dims, H100, values).tolist() == [2]


@pytest.mark.parametrize("operation", collective.NCCL)
def test_collectives_are_priced_as_their_regimes_are(operation: str) -> None:
    form = collective.form(operation, collective.NCCL[operation])
    values = priors(form)
    payload, ranks = SIZES, np.full_like(SIZES, 4.0)
    wires = {"bytes_per_s": np.full_like(SIZES, 450e9), "in_switch": np.ones_like(SIZES)}
    dims = {"payload": payload, "ranks": ranks, **wires}
    found = form.seconds(dims, H100, values)
    each = tuple(
        Regime(path, values[f"start_{i}"], values[f"message_{i}"], values[f"efficiency_{i}"])
        for i, path in enumerate(collective.NCCL[operation])
    )
    fitted = Constants(operation, each, values["sharpness"])
    np.testing.assert_allclose(found, seconds(payload, 4.0, 450e9, fitted, in_switch=True))
    assert set(form.regime(dims, H100, values)) <= set(range(len(each)))
    off = form.seconds({**dims, "in_switch": np.zeros_like(SIZES)}, H100, values)
    assert (off >= found * (1.0 - 1e-12)).all()
