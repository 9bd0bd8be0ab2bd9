"""Laws of the published collectives and splits: the two times that a limit makes equal."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.cost.collectives import Ranks, all_gather, all_reduce
from roofline.cost.textbook import bounds, collectives, intensity, latency, memory, parallelism
from roofline.hardware.machine import Link

sizes = st.integers(1, 65536).map(float)
ranks = st.integers(2, 4096)
payloads = st.floats(1, 1e12)
rates = st.floats(1e9, 1e13)
peaks = st.floats(1e12, 1e16)
WIDTH = 2.0


@given(payloads, rates, ranks)
def test_a_ring_sends_what_the_engine_says(payload: float, rate: float, n: int) -> None:
    ring = Ranks(n, n, Link("pcie", rate, topology="host"))
    gathered = all_gather(payload, ring).work.wire_bytes / rate
    reduced = all_reduce(payload, ring).work.wire_bytes / rate
    assert collectives.all_gather_time(payload, rate, n) == pytest.approx(gathered)
    assert collectives.all_reduce_time(payload, rate, n) == pytest.approx(reduced)


@given(payloads, rates, ranks)
def test_the_switch_is_between_half_a_ring_and_a_ring(payload: float, rate: float, n: int) -> None:
    ring = collectives.all_reduce_time(payload, rate, n)
    switch = collectives.switch_all_reduce_time(payload, rate)
    assert ring / 2 < switch <= ring * (1 + 1e-12)
    assert switch == collectives.all_reduce_time(payload, rate) / 2


@given(payloads, rates, ranks)
def test_the_rate_of_a_gather_is_its_payload_over_its_time(
    payload: float, rate: float, n: int
) -> None:
    seconds = collectives.all_gather_time(payload, rate, n)
    assert collectives.all_gather_rate(rate, n) == pytest.approx(payload / seconds)


@given(payloads, rates, ranks)
def test_an_exchange_of_all_with_all_sends_each_pair_its_part(
    payload: float, rate: float, n: int
) -> None:
    sent = sum([payload / n / n] * (n - 1))
    assert collectives.all_to_all_time(payload, rate, n) == pytest.approx(sent / rate)
    held = collectives.all_to_all_time(payload, rate, n) * collectives.node_rate(n, rate)
    assert held == pytest.approx(payload * (n - 1) / n)  # all parts but those that stay


@given(rates, st.floats(1e-7, 1e-3), ranks)
def test_at_the_latency_bound_the_hops_take_as_long_as_the_bytes(
    rate: float, hop: float, n: int
) -> None:
    payload = collectives.latency_bound_bytes(rate, hop, n)
    assert collectives.all_gather_time(payload, rate, n) == pytest.approx((n - 1) * hop)


@pytest.mark.slow
@given(sizes, sizes, sizes, rates)
def test_tensor_parallelism_is_four_passes_over_the_activations_of_a_layer(
    batch: float, d: float, layers: float, rate: float
) -> None:
    seconds = collectives.tensor_parallel_time(batch, d, layers, rate)
    assert seconds == pytest.approx(4 * batch * d * layers * WIDTH / rate)
    assert collectives.tensor_parallel_time(batch, d, layers, rate, ranks=1) == 0
    assert collectives.tensor_parallel_latency(layers, 1e-5) == pytest.approx(4 * layers * 1e-5)


@given(sizes, sizes, peaks, rates, st.integers(1, 64), st.integers(1, 8))
def test_at_the_critical_batch_the_backward_pass_hides_the_gradients(
    d: float, f: float, peak: float, rate: float, spread: int, active: int
) -> None:
    experts = spread * active
    tokens = parallelism.data_parallel_critical_batch(peak, rate, experts, active)
    forward = intensity.matmul_flops(tokens, d, f) * 2 * active
    gradients = memory.tensor_bytes(d, f, WIDTH) * 2 * experts
    math = bounds.math_time(2 * forward, peak)
    assert math == pytest.approx(collectives.all_reduce_time(gradients, rate))


@pytest.mark.slow
@given(sizes, sizes, sizes, peaks, rates)
def test_at_the_limit_of_tensor_parallelism_activations_take_as_long_as_arithmetic(
    batch: float, d: float, f: float, peak: float, rate: float
) -> None:
    ways = parallelism.tensor_parallel_limit(f, bounds.ridge(peak, rate))
    math = bounds.math_time(2 * intensity.matmul_flops(batch, d, f), peak, ways)
    activations = memory.tensor_bytes(batch, d, WIDTH)
    assert math == pytest.approx(2 * collectives.all_gather_time(activations, rate))


@given(sizes, sizes, sizes, rates, rates)
def test_at_the_limit_of_decode_activations_take_as_long_as_the_weights(
    batch: float, d: float, f: float, hbm: float, link: float
) -> None:
    ways = parallelism.decode_tensor_parallel_limit(f, batch, hbm / link)
    weights = bounds.memory_time(memory.tensor_bytes(d, f, WIDTH), hbm, ways)
    activations = collectives.all_gather_time(memory.tensor_bytes(batch, d, WIDTH), link)
    assert weights == pytest.approx(activations)


@pytest.mark.parametrize("ff_multiple", [1.0, 2.7, 3.5, 4.0, 8.0])
def test_at_the_crossing_the_best_split_of_both_widths_takes_as_long_as_that_of_one(
    ff_multiple: float,
) -> None:
    chips = parallelism.weight_stationary_crossing(ff_multiple)
    batch, d, rate = 1.0, 4096.0, 1e9
    f = ff_multiple * d
    along_d = np.linspace(0.01, chips, 100_001)
    gather_and_scatter = 2 * collectives.all_gather_time(batch * d / along_d * WIDTH, 2 * rate)
    reduce = collectives.all_reduce_time(batch * f / (chips / along_d) * WIDTH, rate)
    one_width = 2 * collectives.all_gather_time(batch * d * WIDTH, 3 * rate)
    assert np.min(gather_and_scatter + reduce) == pytest.approx(one_width, rel=1e-6)


@pytest.mark.parametrize(("stages", "microbatches"), [(1, 4), (2, 1), (4, 8), (8, 32)])
def test_the_bubble_is_the_idle_time_of_a_pipeline_played_step_by_step(
    stages: int, microbatches: int
) -> None:
    done = np.zeros((stages, microbatches))
    for stage in range(stages):
        for batch in range(microbatches):
            input_there = done[stage - 1, batch] if stage else 0.0
            free = done[stage, batch - 1] if batch else 0.0
            done[stage, batch] = max(input_there, free) + 1.0
    idle = done[-1, -1] - microbatches
    assert parallelism.pipeline_bubble(stages, microbatches) == idle / microbatches


@given(sizes, st.integers(1, 16), sizes, rates)
def test_an_expert_exchange_is_each_copy_there_and_back(
    tokens: float, experts: int, d: float, rate: float
) -> None:
    copy = parallelism.expert_exchange_time(1, 1, d, rate)
    assert copy == pytest.approx(3 * d / rate)  # fp8 there, bf16 back
    seconds = parallelism.expert_exchange_time(tokens, experts, d, rate)
    assert seconds == pytest.approx(tokens * experts * copy)
    assert parallelism.exchange_bound_tpot(seconds, 1, 1) == seconds


@given(st.floats(0.01, 10), st.integers(1, 512), st.floats(1e-3, 1), st.integers(1, 4096))
def test_prefill_servers_finish_as_many_prompts_as_decode_finishes_answers(
    prefill: float, batch: int, step: float, tokens: int
) -> None:
    answers = latency.queries_per_second(batch, step, tokens)
    servers = parallelism.prefill_servers(prefill, answers)
    assert servers / prefill == pytest.approx(answers)


def test_published_splits_work_on_arrays() -> None:
    batch = np.array([1.0, 64.0])
    np.testing.assert_allclose(collectives.tensor_parallel_time(batch, 10, 10, 1e3), [0.8, 51.2])
    np.testing.assert_allclose(collectives.all_to_all_time(16.0, 1.0, np.array([2, 4])), [4.0, 3.0])
    np.testing.assert_allclose(collectives.all_gather_time(8.0, 1.0, np.array([2, 4])), [4.0, 6.0])
    np.testing.assert_allclose(parallelism.pipeline_bubble(np.array([1, 5]), 8), [0.0, 0.5])
    np.testing.assert_allclose(
        parallelism.decode_tensor_parallel_limit(64.0, batch, 1.0), [64.0, 1.0]
    )
    np.testing.assert_allclose(parallelism.kv_transfer_rate(batch, 2), [2.0, 128.0])
