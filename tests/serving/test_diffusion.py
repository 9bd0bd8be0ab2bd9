"""Denoising in parallel, beside decoding token by token."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofline
from roofline.api.setting import machine_of, network_of
from roofline.api.setting import make_deployment as deployment_of
from roofline.cost.deployment import Deployment
from roofline.cost.memory import kv_bytes_per_sequence
from roofline.cost.step import SequenceGroup, decode, step
from roofline.cost.work import Work
from roofline.errors import InputError
from roofline.hardware.catalog import default_node
from roofline.records import replace
from roofline.serving.diffusion import Denoising, denoise, denoising_step
from roofline.serving.static import static_batch
from roofline.serving.workload import Workload
from tests.cases import examples
from tests.cost.networks import dense, deployed, total
from tests.cost.networks import setting as counted
from tests.cost.reference import Sequences, count_step
from tests.pricing import seconds
from tests.serving.deployments import on

SEVERAL = settings(max_examples=examples(40), deadline=None)


def both_ways(deployment: Deployment) -> Deployment:
    return replace(
        deployment,
        architecture=replace(deployment.architecture, causal=False),
        options=replace(deployment.options, logits="all"),
    )


def price(deployment: Deployment, *groups: SequenceGroup) -> float:
    return float(seconds(step(deployment, groups), deployment))


SHAPES = st.tuples(
    st.integers(1, 4),  # batch
    st.integers(1, 40),  # prompt
    st.integers(1, 6),  # blocks
    st.integers(1, 8),  # tokens of a block
    st.integers(1, 8),  # steps of a block
).filter(lambda shape: shape[4] <= shape[3])


def asked(shape: tuple[int, int, int, int, int]) -> dict[str, Any]:
    batch, prompt, blocks, block, each = shape
    return {
        "batch": batch,
        "prompt": prompt,
        "output": blocks * block,
        "steps": blocks * each,
        "block": block,
    }


@pytest.mark.slow
@SEVERAL
@given(SHAPES)
def test_latency_with_a_cache_is_the_sum_over_every_step_of_every_block(
    shape: tuple[int, int, int, int, int],
) -> None:
    deployment = deployed(dense())
    batch, prompt, blocks, block, each = shape
    here, ours = both_ways(deployment), denoise(deployment, **asked(shape), cached=True)
    silent = replace(here, options=replace(here.options, logits="last"))
    start = price(silent, SequenceGroup(batch, prompt, prompt))
    steps = []
    for number in range(blocks):
        before = prompt + number * block
        for turn in range(each):
            work = [SequenceGroup(batch, block, before + block)]
            if number and not turn:
                work.append(SequenceGroup(batch, block, before))  # the block that is finished
            steps.append(price(here, *work))
    assert ours.prefill_s == pytest.approx(start, rel=1e-13)
    assert ours.step_s == pytest.approx(sum(steps) / len(steps), rel=1e-13)
    assert ours.first_block_s == pytest.approx(start + sum(steps[:each]), rel=1e-13)
    assert ours.latency_s == pytest.approx(start + sum(steps), rel=1e-13)


@SEVERAL
@given(SHAPES)
def test_without_a_cache_every_step_computes_everything(
    shape: tuple[int, int, int, int, int],
) -> None:
    deployment = deployed(dense())
    batch, prompt, blocks, block, each = shape
    ours = denoise(deployment, **asked(shape))
    longest = prompt + blocks * block
    one = price(both_ways(deployment), SequenceGroup(batch, longest, longest))
    assert ours.step_s == one
    assert ours.latency_s == pytest.approx(one * blocks * each, rel=1e-13)
    assert ours.first_block_s == pytest.approx(one * each, rel=1e-13)
    assert ours.prefill_s == ours.memory.kv == 0


@SEVERAL
@given(st.integers(1, 5), st.integers(1, 12), st.integers(0, 30))
def test_tokens_of_a_step_see_each_other_and_all_before_counted_one_by_one(
    batch: int, block: int, before: int
) -> None:
    deployment = both_ways(deployed(dense()))
    [group] = denoising_step(float(batch), float(block), float(before))
    slow = count_step(
        deployment.architecture, [Sequences(batch, block, before + block)], counted(deployment)
    )
    ours = total(step(deployment, group))
    assert ours.flops == slow.flops
    assert ours.kv_bytes == slow.kv_bytes


@pytest.mark.parametrize("model", ["llama-3.1-8b", "llada-8b-base", "mixtral-8x7b-v0.1"])
@pytest.mark.parametrize("batch", [1, 64])
@pytest.mark.parametrize("before", [1, 512, 4000])
def test_a_step_over_one_token_is_a_decode_step(model: str, batch: int, before: int) -> None:
    causal = on(model, "h200-sxm")
    causal = replace(causal, architecture=replace(causal.architecture, causal=True))
    [group] = denoising_step(float(batch), 1.0, float(before))
    denoising = step(both_ways(causal), [group])
    decoding = step(causal, decode(float(batch), float(before)))
    work = [sum((op.total for op in ops.values()), start=Work()) for ops in (denoising, decoding)]
    assert work[0] == work[1]
    assert seconds(denoising, causal) == seconds(decoding, causal)


def test_one_token_a_step_in_blocks_of_one_is_close_to_decoding() -> None:
    # The finished token is computed once more beside the next one: weights are read once for both.
    ours = denoise(on(), batch=1, prompt=512, output=64, steps=64, block=1, cached=True)
    assert ours.tokens_per_step == 1
    assert 1 < ours.break_even_tokens_per_step < 1.01
    assert 0.97 < ours.speed_up < 1


@given(st.integers(1, 8), st.integers(1, 500), st.integers(1, 60))
@settings(max_examples=examples(15), deadline=None)
def test_the_autoregressive_equivalent_is_a_static_batch(
    batch: int, prompt: int, output: int
) -> None:
    deployment = on("llama-3.2-1b")
    ours = denoise(deployment, batch=batch, prompt=prompt, output=output, steps=output, block=1)
    static = static_batch(deployment, Workload(batch, prompt, output))
    assert ours.autoregressive_s == pytest.approx(static.latency_s, rel=1e-12)
    if output > 1:
        assert ours.token_s == pytest.approx(static.tpot_s, rel=1e-12)


def llada(**change: object) -> Denoising:
    base = {"batch": 1, "prompt": 512, "output": 256, "steps": 128, "block": 32}
    return denoise(on("llada-8b-base"), **(base | change))  # type: ignore[arg-type]


def test_fewer_steps_take_proportionally_less_without_a_cache() -> None:
    assert llada(steps=256).latency_s == pytest.approx(4 * llada(steps=64).latency_s)


def test_blocks_do_not_matter_without_a_cache() -> None:
    assert llada(block=256).latency_s == llada(block=32).latency_s


def test_a_cache_is_faster_and_needs_room() -> None:
    plain, cached = llada(), llada(cached=True)
    # A block of 32 is still bound by its weights, like one token; 768 tokens are bound by compute.
    assert cached.step_s < 1.05 * cached.token_s
    assert plain.step_s > 2.5 * plain.token_s
    assert cached.latency_s < plain.latency_s
    deployment = plain.deployment
    assert cached.memory.kv == kv_bytes_per_sequence(deployment, 768.0)
    assert plain.memory.kv == 0
    assert plain.memory.activations > cached.memory.activations


def test_the_break_even_is_where_both_take_as_long_for_a_token() -> None:
    ours = llada(cached=True)
    # If every step filled in that many tokens, steps and decode steps would take the same time.
    steps = ours.output / ours.break_even_tokens_per_step
    assert steps * ours.step_s == pytest.approx(ours.output * ours.token_s)
    assert (ours.tokens_per_step > ours.break_even_tokens_per_step) == (ours.speed_up > 1)


def test_denoising_loses_its_lead_as_the_batch_grows() -> None:
    # Decoding is bound by memory, so that its step takes more sequences for nothing; a block is
    # many tokens already, and reaches the compute bound first.
    leads = [llada(cached=True, batch=batch).speed_up for batch in (1, 16, 256)]
    assert leads == sorted(leads, reverse=True)
    assert leads[0] > 1.5
    assert leads[2] < 1


def test_rates_are_tokens_over_latency() -> None:
    ours = llada(batch=4)
    assert ours.throughput_tok_s == pytest.approx(4 * 256 / ours.latency_s)
    one_by_one = 4 * 256 / ours.autoregressive_s
    assert ours.speed_up == pytest.approx(ours.throughput_tok_s / one_by_one)
    assert (ours.blocks, ours.tokens_per_step) == (8, 2.0)


@pytest.mark.slow
def test_a_long_answer_in_small_blocks_is_priced_at_nodes_and_still_summed() -> None:
    deployment = deployed(dense())
    ours = denoise(deployment, batch=1, prompt=7, output=6000, steps=6000, block=2, cached=True)
    here = both_ways(deployment)
    slow = sum(
        price(here, *denoising_step(1.0, 2.0, 7.0 + 2 * i, 2.0 * (turn == 0 and i > 0)))
        for i in range(3000)
        for turn in (0, 1)
    )
    assert ours.latency_s - ours.prefill_s == pytest.approx(slow, rel=1e-4)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"block": 0}, "whole blocks of 0"),
        ({"block": 48}, "divides 256"),
        ({"block": 512}, "whole blocks of 512"),
        ({"block": float("nan")}, "whole blocks of nan"),
        ({"steps": 0}, "0 denoising steps"),
        ({"steps": 100}, "multiple of 8"),
        ({"steps": 512}, "256 at most"),
        ({"steps": 8.5}, "8.5 denoising steps"),
        ({"batch": 0}, "batch is 0"),
        ({"prompt": -3}, "prompt is -3"),
        ({"prompt": 10**9}, "is made for"),
    ],
    ids=str,
)
def test_what_cannot_be_denoised_is_refused(change: dict[str, float], said: str) -> None:
    with pytest.raises(InputError) as caught:
        llada(**change)
    assert said in f"{caught.value} {caught.value.hint}"


def test_a_recurrent_network_is_refused() -> None:
    with pytest.raises(InputError, match="one way only"):
        denoise(on("mamba-2.8b"), batch=1, prompt=8, output=8, steps=8)


ASKED: dict[str, Any] = {"batch": 1, "prompt": 512, "output": 256}
STEPS: dict[str, Any] = {"denoising_steps": 128, "block": 32}


@pytest.mark.slow
def test_measured_kernels_give_an_interval_and_what_an_analysis_says_token_by_token() -> None:
    alone = roofline.analyze("llada-8b-base", **ASKED)
    others: list[dict[str, Any]] = [{}, {"calibration": "none"}, {"engine": "ideal"}]
    answer, floor, kernels = (
        roofline.analyze("llada-8b-base", **ASKED, **STEPS, **other) for other in others
    )
    assert answer.autoregressive.value == alone.latency.value
    assert answer.autoregressive.low == pytest.approx(alone.latency.low, rel=1e-12)
    assert floor.latency.value < answer.latency.low < answer.latency.value < answer.latency.high
    assert kernels.latency.value < answer.latency.value
    assert answer.latency.basis not in ("datasheet", "measured")
    assert floor.latency.basis == "datasheet"


def test_one_new_token_is_decoded_by_the_same_kernel_whichever_way_a_network_sees() -> None:
    gpu, box = machine_of("h100-sxm", None, None)
    assert box is None
    one = deployment_of(network_of("llama-3.1-8b"), gpu, default_node(gpu, 1), calibration="auto")
    other = both_ways(one)
    contexts = np.array([100.0, 4000.0])
    first, second = (seconds(step(each, decode(8.0, contexts)), each) for each in (one, other))
    assert (np.asarray(second) > 0).all()
    assert np.asarray(second).tolist() == np.asarray(first).tolist()
