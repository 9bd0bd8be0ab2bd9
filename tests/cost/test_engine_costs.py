"""Overheads of an engine worked out by hand, and laws that hold for any constants."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.cost.deployment import Deployment
from roofline.cost.engine_costs import (
    ALONE,
    IDEAL,
    LAUNCH_S,
    NO_ENGINE,
    EngineCosts,
    EngineProfile,
    KernelGains,
    eager,
    gains_on,
    kind_of,
)
from roofline.cost.layout import parse
from roofline.cost.measured import MeasuredTime
from roofline.cost.moe import Routing
from roofline.cost.roof import roof
from roofline.cost.step import SequenceGroup, step
from roofline.cost.work import ACTIVATED, SHARED, Op, Work
from roofline.errors import InputError
from roofline.hardware.catalog import gpu
from roofline.hardware.engine import engine
from roofline.hardware.machine import Gpu
from roofline.model.catalog import architecture
from roofline.records import replace
from tests.pricing import seconds
from tests.serving.deployments import on

DENSE, MIXTURE, LATENT = (
    architecture(name) for name in ("llama-3.1-8b", "mixtral-8x7b", "deepseek-v3")
)
HOPPER, BLACKWELL = gpu("h100-sxm"), gpu("b200-sxm")
GAINS = KernelGains(
    1.1, 0.9, 1.2, 1.3, 1.4, start=0.5, start_low=0.6, start_pass=0.7, start_experts=0.8
)
TEN = MeasuredTime(10e-6, 0.1, 2.0, start_s=4e-6)
"""A kernel of 10 µs, 4 of them to start."""
CONSTANTS = [
    name
    for name in EngineProfile.__struct_fields__
    if name not in ("fused_inputs", "reach_bytes_per_s", "spreads", "logged", "source")
]
TIMES = [name for name in CONSTANTS if name.endswith("_s")]
FACTORS = [name for name in CONSTANTS if name not in TIMES]
OWN: dict[str, Any] = {name: 1e-3 * (place + 1) for place, name in enumerate(TIMES)}
OWN |= {name: 1.1 + 0.1 * place for place, name in enumerate(FACTORS)}
CHANGED = EngineProfile(
    **OWN,
    fused_inputs=True,
    reach_bytes_per_s=1e12,
    spreads=(("hopper", 0.2, 0.1), ("", 0.3, 0.2)),
)
"""Every constant at a value of its own."""


@dataclass(frozen=True)
class HalfStart:
    """Kernels at the datasheet's rates, and as long again to start."""

    profile: EngineProfile = NO_ENGINE
    name: str = "half a start"
    basis: str = "interpolated"

    def price(self, op: Op, gpu: Gpu) -> MeasuredTime:
        work = op.work.hbm_bytes / gpu.hbm_bytes_per_s + op.wire_s
        return MeasuredTime(2 * work, 0.1, 2.0, start_s=work)


def test_a_decode_step_is_its_kernels_the_step_and_each_sequence() -> None:
    """1.1·10 + 1 + 64·0.01 = 12.64 ms, if the front end hands tokens on as fast."""
    costs = EngineCosts(step_s=1e-3, sequence_s=1e-5, decode_gain=1.1, prefill_s=9.0)
    assert costs.decode_step(10e-3, 64) == pytest.approx(12.64e-3)
    assert costs.decode_step(10e-3, 0) == pytest.approx(12e-3)
    slow = replace(costs, front_end_s=3e-4)
    assert slow.decode_step(10e-3, 64) == pytest.approx(64 * 0.3e-3)
    assert slow.decode_step(10e-3, 16) == pytest.approx(12.16e-3)
    columns = slow.decode_step(np.array([10e-3, 10e-3]), np.array([16.0, 64.0]))
    assert columns == pytest.approx([12.16e-3, 19.2e-3])


def test_a_step_of_prompts_is_its_kernels_the_step_and_what_prompts_need() -> None:
    """1.05·100 + 1 + 2 = 108 ms, whatever decoding costs."""
    costs = EngineCosts(step_s=1e-3, prefill_s=2e-3, prefill_gain=1.05, sequence_s=7.0)
    assert costs.prefill_step(0.1) == pytest.approx(0.108)
    assert costs.prefill_step_s == pytest.approx(3e-3)


def test_a_request_that_comes_alone_passes_the_whole_front_end() -> None:
    assert EngineCosts(request_s=0.02, serial_s=0.003).arrival_s == pytest.approx(0.023)


def test_a_step_is_no_surer_than_its_kernels_nor_than_serving_was() -> None:
    costs = EngineCosts(tpot_log_sd=0.1)
    assert costs.log_sd(0.3, 0.5) == pytest.approx(0.15)
    assert costs.log_sd(0.3, 0.1) == 0.1


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"step_s": -1e-3}, "step overhead is -0.001"),
        ({"serial_s": float("inf")}, "serial overhead is inf"),
        ({"request_s": float("nan")}, "request overhead is nan"),
        ({"decode_gain": 0.0}, "decode gain is 0"),
    ],
)
def test_overheads_that_have_no_meaning_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        EngineCosts(**wrong)


@pytest.mark.parametrize(
    ("kind", "weights", "micro"),
    [
        ("gemm", "bf16", 6 * 1.1 + 4 * 0.5),
        ("gemm", "fp8", 6 * 1.1 + 4 * 0.6),
        ("gemm", "nvfp4", 6 * 1.1 + 4 * 0.6),
        ("gemm", "fp8-block", 6 * 1.1 + 4 * 0.5),
        ("gemm", "", 6 * 1.1 + 4 * 0.5),
        ("moe", "fp8", 6 * 1.2 + 4 * 0.8),
        ("decode-attention", "", 10 * 1.3),
        ("prefill-attention", "", 10 * 1.3),
        ("latent-attention", "", 10 * 1.3),
        ("collective", "", 10 * 1.4),
        ("pointwise", "", 6 * 0.9 + 4 * 0.7),
        ("lookup", "", 6 * 1.1 + 4 * 0.7),
        ("scan", "", 6 * 1.1 + 4 * 0.7),
        ("index", "", 6 * 1.1 + 4 * 0.7),
    ],
)
def test_a_kernel_gains_by_its_kind_and_its_start_by_another_factor(
    kind: Any, weights: str, micro: float
) -> None:
    op = Op("one", kind, Work(), formats={"weights": weights} if weights else {})
    assert GAINS.seconds(op, TEN) == pytest.approx(micro * 1e-6)
    assert ALONE.seconds(op, TEN) == pytest.approx(10e-6)


def test_products_start_alike_where_a_kernel_beside_them_converts_their_inputs() -> None:
    profile = EngineProfile(start=0.8, start_low=0.2)
    assert profile.gains.start_low == 0.8
    assert replace(profile, fused_inputs=True).gains.start_low == 0.2
    fused = [name for name in ("sglang", "trtllm", "vllm") if engine(name).fused_inputs]
    assert fused == ["trtllm"]


@pytest.mark.parametrize(
    ("inputs", "stored", "fused"),
    [
        ("", "fp8", True),
        (ACTIVATED, "fp8", True),
        (SHARED, "fp8", False),
        ("", "nvfp4", True),
        (ACTIVATED, "nvfp4", False),
        (SHARED, "nvfp4", False),
    ],
)
def test_norms_write_16_bits_for_shared_experts_and_activations_no_nvfp4(
    inputs: str, stored: str, fused: bool
) -> None:
    op = Op("one", "gemm", Work(), formats={"weights": stored, "inputs": inputs})
    assert gains_on(op, "") == ("dense", "start_low" if fused else "start")


def test_experts_over_groups_of_devices_take_longer_unless_copies_even_them_out() -> None:
    profile = EngineProfile(experts=0.8, experts_apart=1.5)
    known = replace(on("mixtral-8x7b", tp=2), calibration=HalfStart(profile))
    assert known.kernel_gains.experts == pytest.approx(0.8)
    spread = replace(known, layout=replace(known.layout, ep=2))
    assert spread.kernel_gains.experts == pytest.approx(1.2)
    even = replace(spread, options=replace(spread.options, routing=Routing(redundant=2)))
    assert even.kernel_gains.experts == pytest.approx(0.8)


def test_a_kernel_whose_start_nobody_knows_gains_as_a_whole() -> None:
    op = Op("one", "gemm", Work(), formats={"weights": "fp8"})
    assert GAINS.seconds(op, replace(TEN, start_s=0.0)) == pytest.approx(11e-6)
    columns = replace(TEN, seconds=np.array([10e-6, 5e-6]), start_s=np.array([4e-6, 0.0]))
    assert GAINS.seconds(op, columns) == pytest.approx([9e-6, 5.5e-6])


def test_outside_cuda_graphs_kernels_start_as_alone_and_none_is_shorter_than_its_launch() -> None:
    """6·1.1 + 4 = 10.6 µs; what takes 5.5 µs takes a launch, and what does nothing nothing."""
    op = Op("one", "gemm", Work(), formats={"weights": "bf16"})
    gains = eager(GAINS)
    assert (gains.dense, gains.experts, gains.attention, gains.interconnect) == (1.1, 1.2, 1.3, 1.4)
    assert gains.seconds(op, TEN) == pytest.approx(10.6e-6)
    assert gains.seconds(op, MeasuredTime(5e-6, 0.1, 2.0)) == LAUNCH_S
    both = gains.seconds(op, MeasuredTime(np.array([5e-6, 0.0]), 0.1, 2.0))
    assert np.array_equal(both, [LAUNCH_S, 0.0])
    known = replace(on(), calibration=HalfStart(CHANGED))
    apart = replace(known, options=replace(known.options, cuda_graphs=False))
    assert apart.kernel_gains == eager(known.kernel_gains)


def test_a_network_is_dense_a_mixture_or_latent() -> None:
    assert [kind_of(each) for each in (DENSE, MIXTURE, LATENT)] == ["dense", "mixture", "latent"]
    assert kind_of(architecture("gpt-oss-120b")) == "mixture"


def test_constants_of_mixtures_are_of_mixtures() -> None:
    profile = EngineProfile(
        request_s=0.02, cold_s=0.5, launch_s=1e-3, step_s=1e-3, mixture_s=1e-5, prefill_gain=1.1,
        experts_prompts=1.5, experts=0.9, experts_all=0.8,
    )  # fmt: skip
    dense, mixture, latent = (profile.costs(each, HOPPER, 1.0) for each in (DENSE, MIXTURE, LATENT))
    assert (dense.request_s, dense.prefill_gain) == (0.02, 1.1)
    assert (dense.cold_s, mixture.cold_s, latent.cold_s) == (0.0, 0.5, 0.5)
    # Layers with experts: all of Mixtral's 32, all but the first three of DeepSeek-V3's 61.
    assert (dense.launch_s, mixture.launch_s, latent.launch_s) == pytest.approx((0.0, 0.032, 0.058))
    steps = [each.step_s for each in (dense, mixture, latent)]
    assert steps == pytest.approx([1e-3, 1.32e-3, 1.58e-3])
    assert mixture.prefill_gain == latent.prefill_gain == pytest.approx(1.65)
    assert profile.gains.experts == pytest.approx(0.72)


def test_each_group_has_a_front_end_of_its_own() -> None:
    costs = EngineProfile(front_end_s=1e-3, request_s=0.02).costs(LATENT, HOPPER, 8.0)
    assert costs.front_end_s == pytest.approx(1.25e-4)
    assert costs.request_s == 0.02


def test_intervals_are_those_of_the_generation_and_none_where_none_was_told() -> None:
    found = [CHANGED.costs(DENSE, each, 1.0) for each in (HOPPER, BLACKWELL)]
    assert [(each.ttft_log_sd, each.tpot_log_sd) for each in found] == [(0.2, 0.1), (0.3, 0.2)]
    silent = replace(CHANGED, spreads=()).costs(DENSE, HOPPER, 1.0)
    assert (silent.ttft_log_sd, silent.tpot_log_sd) == (0.0, 0.0)


def test_beyond_the_reach_of_an_engine_more_bandwidth_decodes_no_faster() -> None:
    """A device of 3.35 TB/s decodes as one of 1.675 TB/s does, twice as long as its kernels."""
    reach = HOPPER.hbm_bytes_per_s / 2
    costs = EngineProfile(reach_bytes_per_s=reach).costs(DENSE, HOPPER, 1.0)
    assert (costs.decode_gain, costs.prefill_gain) == (2.0, 1.0)
    assert NO_ENGINE.costs(DENSE, HOPPER, 1.0).decode_gain == 1.0


@pytest.mark.parametrize("network", [DENSE, MIXTURE, LATENT])
@pytest.mark.parametrize("device", [HOPPER, BLACKWELL])
def test_no_engine_changes_nothing(network: Any, device: Gpu) -> None:
    assert NO_ENGINE.gains == ALONE
    assert NO_ENGINE.costs(network, device, 4.0) == IDEAL
    assert IDEAL.decode_step(0.01, 64.0) == 0.01
    assert IDEAL.prefill_step(0.01) == 0.01
    assert IDEAL.arrival_s == 0.0


def test_without_an_engine_a_step_is_the_sum_of_its_kernels() -> None:
    deployment = replace(on("mixtral-8x7b", tp=2), calibration=HalfStart())
    ops = step(deployment, [SequenceGroup(16.0, 1.0, 500.0, "d")])
    alone = sum(float(HalfStart().price(op, HOPPER).seconds) * op.repeat for op in ops.values())
    assert float(seconds(ops, deployment)) == pytest.approx(alone, rel=1e-12)


def step_times(deployment: Deployment, profile: EngineProfile) -> list[float]:
    """Steps that decode, that prefill, the wait before them, and what a cold start adds. [s]"""
    priced = replace(deployment, calibration=HalfStart(profile))
    costs = priced.engine_costs
    many, prompt = SequenceGroup(16.0, 1.0, 500.0, "d"), SequenceGroup(1.0, 256.0, 256.0, "p")
    decode, prefill = (float(seconds(step(priced, [each]), priced)) for each in (many, prompt))
    return [
        float(costs.decode_step(decode, 16)),
        float(costs.prefill_step(prefill)),
        costs.arrival_s,
        costs.cold_s,
    ]


SOME = {
    "dense": on(),
    "mixture": on("mixtral-8x7b", tp=2),
    "groups": on("deepseek-v3", "h200-sxm", layout=parse("dp8-ep8"), weights="fp8"),
    "carried": on("qwen3-30b-a3b", "b200-sxm", weights="fp8"),
}


@pytest.mark.slow
@given(
    where=st.sampled_from(sorted(SOME)),
    name=st.sampled_from(CONSTANTS),
    start=st.floats(0.3, 3.0),
    factor=st.floats(1.0, 4.0),
)
def test_a_larger_constant_is_never_faster(
    where: str, name: str, start: float, factor: float
) -> None:
    profile = replace(CHANGED, **{name: start * getattr(CHANGED, name)})
    more = replace(profile, **{name: factor * getattr(profile, name)})
    before, then = (step_times(SOME[where], each) for each in (profile, more))
    assert all(b >= a * (1 - 1e-12) for a, b in zip(before, then, strict=True))


@pytest.mark.slow
def test_every_constant_makes_some_step_slower() -> None:
    """None of them is read from a file and then forgotten."""
    for name in CONSTANTS:
        larger = replace(CHANGED, **{name: 3 * getattr(CHANGED, name)})
        # A front end of a millisecond for each token would hide what steps cost.
        least: dict[str, Any] = {} if name == "front_end_s" else {"front_end_s": 0.0}
        moved = [
            step_times(each, replace(larger, **least))
            != step_times(each, replace(CHANGED, **least))
            for each in SOME.values()
        ]
        assert any(moved), name


def test_gains_reach_the_price_of_an_operator() -> None:
    """Half of the start of a kernel that is half a start makes three quarters of it."""
    deployment = replace(on(), calibration=HalfStart())
    (op,) = (
        each for each in step(deployment, [SequenceGroup(1.0, 1.0, 9.0, "d")]).values()
        if each.name == "qkv"
    )  # fmt: skip
    carried = replace(on(device="b200-sxm"), calibration=HalfStart(EngineProfile(start=0.5)))
    one = float(roof(op, replace(carried, calibration=HalfStart())).seconds)
    assert float(roof(op, carried).seconds) == pytest.approx(0.75 * one)
