"""Laws of every calibrated form."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from roofline.cost.kernels import (
    decode,
    exchange,
    experts,
    latent,
    latent_module,
    latent_prefill,
    prefill,
)
from roofline.cost.kernels.collective import CUSTOM, NCCL, collective_dims, form
from roofline.cost.kernels.form import Dims, Form, machine
from roofline.cost.kernels.gemm import GEMM
from roofline.cost.kernels.pointwise import POINTWISE, QUANTIZE
from roofline.cost.work import Array
from roofline.hardware.catalog import gpu
from tests.cost.regimes import by_regime, known, seconds

H100 = machine(gpu("h100-sxm"), "bf16")
ROWS = 40
RANDOM = np.random.default_rng(5)


def sizes(low: int, high: int) -> Array:
    """Powers of two."""
    return np.exp2(RANDOM.integers(low, high, ROWS).astype(np.float64))


def attention(make: Callable[..., Dims]) -> Dims:
    context = sizes(4, 14)
    new = np.minimum(sizes(0, 6), context)
    heads = 8.0 * sizes(0, 4)
    window = np.where(RANDOM.random(ROWS) < 0.3, 128.0, 0.0)
    two = np.full(ROWS, 2.0)
    return make(sizes(0, 6), new, context, heads, heads / 4, 128.0 + 0 * new, window, two, two)


def latents(make: Callable[..., Dims]) -> Dims:
    context, two = sizes(4, 14), np.full(ROWS, 2.0)
    return make(sizes(0, 6), np.minimum(4.0, context), context, sizes(0, 8), two, two)


def module(dims: Dims) -> Dims:
    own = {"heads": sizes(0, 8), "weight_width": np.full(ROWS, 2.0), "faster": np.ones(ROWS)}
    return {**dims, **own}


def expanded_module() -> Dims:
    new, two = sizes(4, 12), np.full(ROWS, 2.0)
    heads = sizes(0, 8)
    shape = (sizes(0, 6), new, new, heads, two)
    return latent_module.expanded_dims(*shape, weight_width=two, faster=np.ones(ROWS))


def routed() -> Dims:
    rows, one = sizes(0, 12), np.ones(ROWS)
    shape = {
        "tokens": rows,
        "hidden": sizes(10, 13),
        "inter": sizes(8, 12),
        "active": 8 * one,
        "local": 8 * one,
        "matrices": 3 * one,
        "weight_width": one,
        "width": 2 * one,
        "highest": 128 * one,
        "rows": rows,
        "touched": np.minimum(rows, 8),
    }
    return experts.expert_dims(shape, {each: 8 + rows / each for each in experts.HEIGHTS})


LINEAR = {"m": sizes(0, 14), "n": sizes(8, 14), "k": sizes(8, 14), "width": sizes(8, 14)}
SENT = exchange.exchange_dims(
    sizes(0, 12), sizes(10, 13), 8 + 0 * sizes(0, 2), sizes(5, 9), sizes(2, 5),
    np.full(ROWS, 2.0), np.full(ROWS, 450e9),
)  # fmt: skip
JOINED = collective_dims(
    sizes(8, 30),
    2 * sizes(0, 3),
    np.full(ROWS, 450e9),
    (RANDOM.random(ROWS) < 0.5).astype(np.float64),
)
HEADS = {
    "tokens": sizes(0, 12), "heads": sizes(0, 8), "inner": np.full(ROWS, 128.0),
    "weight_width": np.full(ROWS, 2.0), "quantised": np.zeros(ROWS),
}  # fmt: skip
FORMS: dict[str, tuple[Form, Dims]] = {
    **{f"gemm {name}": (one, LINEAR) for name, one in GEMM.items()},
    "quantise": (QUANTIZE["scale_matrix"], LINEAR),
    "add": (POINTWISE["add"], LINEAR),
    "prefill": (prefill.FORM, attention(prefill.prefill_dims)),
    "decode": (decode.FORM, attention(decode.decode_dims)),
    "latent decode": (latent.DECODE, latents(latent.latent_dims)),
    "latent prefill": (latent_prefill.FORM, latents(latent_prefill.latent_prefill_dims)),
    "latent prefill inside": (
        latent_prefill.INSIDE,
        latents(partial(latent_prefill.latent_prefill_dims, kernel="flash_attention")),
    ),
    "module decode": (latent_module.ABSORBED, module(latents(latent.latent_dims))),
    "module prefill": (latent_module.EXPANDED, expanded_module()),
    "heads": (latent_module.HEADS, HEADS),
    "experts": (experts.FORM, routed()),
    "exchange": (exchange.FORM, SENT),
    "all-reduce": (form("all_reduce", NCCL["all_reduce"]), JOINED),
    "custom all-reduce": (form("all_reduce", CUSTOM["all_reduce"]), JOINED),
    "all-to-all": (form("all_to_all", NCCL["all_to_all"]), JOINED),
}


def drawn(one: Form, count: int) -> Array:
    """Values of the constants inside their bounds, a row for each draw."""
    low, high = np.log([(c.low, c.high) for c in one.constants]).T
    return np.exp(np.random.default_rng(1).uniform(low, high, (count, len(low))))


@pytest.mark.parametrize("name", FORMS)
def test_constants_may_be_columns(name: str) -> None:
    one, dims = FORMS[name]
    names = [c.name for c in one.constants]
    values = drawn(one, 6)
    at_once = one.seconds(dims, H100, dict(zip(names, values.T[:, :, None], strict=True)))
    each = [one.seconds(dims, H100, dict(zip(names, v.tolist(), strict=True))) for v in values]
    np.testing.assert_allclose(at_once, np.stack(each), rtol=1e-12)


@pytest.mark.parametrize("name", FORMS)
def test_times_are_above_zero_and_grow_with_every_constant_in_seconds(name: str) -> None:
    one, dims = FORMS[name]
    values = {c.name: c.prior for c in one.constants}
    before = one.seconds(dims, H100, values)
    assert (before > 0).all()
    for constant in one.constants:
        if constant.unit == "s":
            after = one.seconds(dims, H100, {**values, constant.name: 2 * values[constant.name]})
            assert (after >= before * (1 - 1e-12)).all(), constant.name


@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "send_recv"])
def test_a_collective_is_priced_as_its_regimes_are(op: str) -> None:
    one = form(op, NCCL[op])
    for row in drawn(one, 4):
        values = dict(zip([c.name for c in one.constants], row.tolist(), strict=True))
        constants = known(op, NCCL[op], values)
        given = (JOINED["payload"], JOINED["ranks"], JOINED["bytes_per_s"], constants)
        adds = JOINED["in_switch"] > 0
        expected = np.asarray(seconds(*given, in_switch=adds))
        np.testing.assert_allclose(one.seconds(JOINED, H100, values), expected, rtol=1e-12)
        fastest = by_regime(*given, in_switch=adds).argmin(axis=0)
        np.testing.assert_array_equal(one.regime(JOINED, H100, values), fastest)
