"""Laws of the forms: bounds of physics, whatever the constants."""

from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.cost.kernels.form import (
    Form,
    FormConstant,
    Machine,
    cache_bytes_per_s,
    machine,
    take,
    warm_seconds,
)
from roofline.cost.kernels.gemm import GEMM, PRODUCTS
from roofline.cost.kernels.pointwise import POINTWISE, QUANTIZE
from roofline.hardware.catalog import gpu
from roofline.records import replace

H100: Final = machine(gpu("h100-sxm"), "bf16")
FORMS: Final = [*GEMM.values(), *POINTWISE.values(), *QUANTIZE.values()]
SIZES: Final = 2.0 ** np.arange(0, 17, 2)


def grid(form: Form) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    columns = np.meshgrid(*[SIZES] * len(form.coordinates), indexing="ij")
    return {name: col.ravel() for name, col in zip(form.coordinates, columns, strict=True)}


def constants(form: Form, share: float) -> dict[str, float]:
    """Between the bounds, that share of the way in logarithms; the pull of a bound excluded."""
    return {c.name: c.low * (c.high / c.low) ** share for c in form.constants}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@given(share=st.floats(0.0, 1.0))
def test_no_constants_beat_the_dense_rates(form: Form, share: float) -> None:
    values, dims = constants(form, share), grid(form)
    found = form.seconds(dims, H100, values)
    assert np.isfinite(found).all()
    assert (found > 0).all()
    if form.kind == "gemm":
        work = 2 * dims["m"] * dims["n"] * dims["k"]
        assert (found >= work / H100.flops_per_s).all()
        (stored,) = (PRODUCTS[name].stored for name, each in GEMM.items() if each is form)
        least = min(stored, 1.0) * dims["n"] * dims["k"]
        assert (found >= least / H100.hbm_bytes_per_s).all()


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@given(share=st.floats(0.0, 1.0), column=st.integers(0, 2))
def test_a_larger_dimension_is_never_faster(form: Form, share: float, column: int) -> None:
    name = form.coordinates[min(column, len(form.coordinates) - 1)]
    values, dims = constants(form, share), grid(form)
    larger = {**dims, name: 2.0 * dims[name]}
    small, large = (form.seconds(each, H100, values) for each in (dims, larger))
    assert (large >= small * (1 - 1e-12)).all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("field", ["flops_per_s", "hbm_bytes_per_s", "l2_bytes_per_s"])
def test_a_faster_device_is_never_slower(form: Form, field: str) -> None:
    values = {c.name: c.prior for c in form.constants}
    faster = replace(H100, **{field: 2.0 * getattr(H100, field)})
    dims = grid(form)
    before, after = (form.seconds(dims, unit, values) for unit in (H100, faster))
    assert (after <= before * (1 + 1e-12)).all()


@pytest.mark.parametrize("form", FORMS)
def test_rows_do_not_see_one_another(form: Form) -> None:
    values, dims = {c.name: c.prior for c in form.constants}, grid(form)
    every = form.seconds(dims, H100, values)
    some = np.arange(len(every))[::7]
    assert (form.seconds(take(dims, some), H100, values) == every[some]).all()
    regimes = form.regime(dims, H100, values)
    assert regimes.shape == every.shape
    assert set(regimes.tolist()) <= {0, 1, 2}


@pytest.mark.parametrize("form", FORMS)
def test_constants_say_what_they_are(form: Form) -> None:
    for constant in form.constants:
        assert constant.unit in {"s", "1", "B"}
        assert constant.meaning.endswith(".")
        if constant.unit == "1" and constant.name != "knee":
            assert constant.high <= 1.0


def test_a_prior_outside_its_bounds_is_our_mistake() -> None:
    with pytest.raises(AssertionError, match="start"):
        FormConstant("start", 1.0, 2.0, 3.0, "s", "Too late.")


def test_regimes_of_a_linear_layer_are_start_memory_and_compute() -> None:
    form = GEMM["bfloat16"]
    values = {c.name: c.prior for c in form.constants}
    dims = {
        "m": np.array([1.0, 1.0, 8192.0]),
        "n": np.array([64.0, 16384.0, 8192.0]),
        "k": np.array([64.0, 16384.0, 8192.0]),
    }
    assert form.regime(dims, H100, values).tolist() == [0, 1, 2]


def test_quantised_activations_cost_time_of_their_own() -> None:
    form, plain = GEMM["fp8"], GEMM["bfloat16"]
    assert {c.name for c in form.constants} - {c.name for c in plain.constants} == {"quantise"}
    assert set(GEMM) == set(PRODUCTS)


def test_traffic_leaves_the_cache_where_it_is_full() -> None:
    fits = np.array([0.0, H100.l2_bytes])
    assert warm_seconds(fits, H100, 0.5, 0.5).tolist() == [
        0.0,
        H100.l2_bytes / (0.5 * H100.l2_bytes_per_s),
    ]
    beyond = warm_seconds(np.array([3.0, 4.0]) * H100.l2_bytes, H100, 0.5, 0.5)
    assert np.diff(beyond) == pytest.approx(H100.l2_bytes / (0.5 * H100.hbm_bytes_per_s))


def test_an_unknown_cache_rate_is_that_of_its_multiprocessors() -> None:
    unknown = Machine(1e15, 3e12, 5e7, 0.0, 100.0)
    assert cache_bytes_per_s(unknown) == pytest.approx(7e12)
    assert cache_bytes_per_s(H100) == H100.l2_bytes_per_s
