"""Laws of the published closed forms, and where they meet the engine's own cost model."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.cost import attention as engine
from roofline.cost.textbook import (
    attention,
    bounds,
    intensity,
    latency,
    memory,
    parameters,
    silicon,
    training,
)
from roofline.cost.work import gemm

sizes = st.integers(1, 4096).map(float)
rates = st.floats(1e9, 1e16)
widths = st.sampled_from([0.5, 1.0, 2.0, 4.0])


@given(sizes, sizes, sizes, widths)
def test_a_matmul_costs_what_the_engine_says(m: float, k: float, n: float, width: float) -> None:
    engine = gemm(m, n, k, weight_width=width, width=width)
    assert intensity.matmul_flops(m, k, n) == engine.flops
    assert intensity.matmul_bytes(m, k, n, width) == pytest.approx(engine.hbm_bytes)
    assert intensity.matmul_intensity(m, k, n, width) == pytest.approx(engine.intensity)


@given(sizes, sizes, sizes)
def test_matmul_intensity_does_not_depend_on_the_order_of_its_sizes(
    b: float, d: float, f: float
) -> None:
    assert intensity.matmul_intensity(b, d, f) == pytest.approx(intensity.matmul_intensity(f, b, d))


@given(st.integers(1, 64), st.integers(1, 64))
def test_intensity_tends_to_the_tokens_when_they_are_few(batch: int, tokens: int) -> None:
    wide = 1e9
    assert intensity.matmul_intensity(batch, wide, wide) == pytest.approx(batch, rel=1e-5)
    assert intensity.mlp_intensity(batch, tokens, wide, wide) == pytest.approx(
        batch * tokens, rel=1e-5
    )


@given(sizes, sizes, sizes, sizes)
def test_intensity_never_exceeds_the_tokens_that_share_a_matrix(
    batch: float, tokens: float, d: float, f: float
) -> None:
    assert intensity.matmul_intensity(batch, d, f) < batch
    assert intensity.mlp_intensity(batch, tokens, d, f) < batch * tokens


@given(sizes, sizes, sizes)
def test_a_gated_mlp_is_three_matmuls_that_read_their_common_input_once(
    tokens: float, d: float, f: float
) -> None:
    up, down = intensity.matmul_bytes(tokens, d, f), intensity.matmul_bytes(tokens, f, d)
    read_twice = 2 * tokens * d  # X by the gate as well
    read_back = 2 * tokens * f  # act(G)·U by the down projection: left out by the lecture
    assert intensity.mlp_bytes(1, tokens, d, f) == pytest.approx(
        2 * up + down - read_twice - read_back
    )
    assert intensity.mlp_flops(1, tokens, d, f) == 3 * intensity.matmul_flops(tokens, d, f)


@given(sizes, sizes, widths)
def test_a_matrix_of_ones_own_is_a_matmul_of_one_row(d: float, f: float, width: float) -> None:
    assert intensity.per_example_matmul_intensity(d, f, width) == pytest.approx(
        intensity.matmul_intensity(1, d, f, width)
    )


@given(sizes, sizes, st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 8]))
def test_attention_agrees_with_the_engine_where_masks_are_ignored(
    context: float, share: float, group: int, kv_heads: int
) -> None:
    new = min(context, share)
    work = engine.attention(
        1, new, context, heads=group * kv_heads, kv_heads=kv_heads, head_dim=64,
        width=2, kv_width=2, mask="square",
    )  # fmt: skip
    assert attention.attention_intensity(context, new, group) == pytest.approx(work.intensity)
    if group == 1:
        d_model = kv_heads * 64
        assert attention.attention_flops(1, context, new, d_model) == work.flops
        assert attention.attention_bytes(1, context, new, d_model) == work.hbm_bytes


@given(sizes, sizes)
def test_gqa_with_as_many_kv_heads_as_query_heads_is_mha(context: float, new: float) -> None:
    mha = attention.attention_flops(3, context, new, 512) / attention.attention_bytes(
        3, context, new, 512
    )
    assert attention.attention_intensity(context, new, group=1) == pytest.approx(mha)
    whole = parameters.lecture_parameters(512, 2048, 4, 8, 8, 64, 1000)
    grouped = parameters.lecture_parameters(512, 2048, 4, 8, 2, 64, 1000)
    assert whole - grouped == 4 * 2 * 512 * 6 * 64


@given(sizes, sizes, st.integers(1, 64))
def test_decode_attention_intensity_stays_below_the_group(
    context: float, new: float, group: int
) -> None:
    assert attention.attention_intensity(context, 1, group) < group
    longer = attention.attention_intensity(context + 1, new, group)
    assert longer > attention.attention_intensity(context, new, group)


@given(sizes, st.floats(0, 8))
def test_equal_flops_tokens_is_where_the_ratio_is_one(d_model: float, multiple: float) -> None:
    tokens = attention.equal_flops_tokens(d_model, multiple)
    assert attention.attention_to_matmul_flops(tokens, d_model, multiple) == pytest.approx(1)


@given(sizes, sizes, st.integers(1, 100))
def test_the_flop_ratio_is_that_of_the_counted_flops(
    tokens: float, d_model: float, layers: int
) -> None:
    dots = attention.attention_flops(1, tokens, tokens, d_model) * layers
    matrices = parameters.lecture_parameters(d_model, 4 * d_model, layers, 1, 1, d_model, 0)
    assert attention.attention_to_matmul_flops(tokens, d_model) == pytest.approx(
        dots / (2 * tokens * matrices)
    )


@given(rates, rates, widths, st.floats(1e3, 1e12))
def test_at_the_critical_batch_weights_are_read_as_fast_as_they_are_used(
    peak: float, rate: float, width: float, parameters: float
) -> None:
    batch = bounds.critical_batch(bounds.ridge(peak, rate), width)
    math = latency.prefill_latency(parameters, batch, peak)
    read = bounds.memory_time(memory.weight_memory(parameters, width), rate)
    assert math == pytest.approx(read)


@given(rates, rates, sizes, sizes)
def test_the_two_chip_threshold_is_where_the_link_takes_as_long(
    peak: float, link: float, batch: float, f: float
) -> None:
    d = bounds.two_chip_threshold(peak, link)
    math = bounds.math_time(intensity.matmul_flops(batch, d, f), peak, chips=2)
    assert math == pytest.approx(bounds.memory_time(2 * batch * f, link))


@given(
    st.integers(1, 4096),
    st.floats(0, 1e12),
    st.floats(1e6, 1e12),
    rates,
    rates,
    st.integers(1, 64),
)
def test_a_decode_step_is_between_its_slowest_part_and_the_sum(
    batch: int, cache: float, parameters: float, peak: float, rate: float, chips: int
) -> None:
    step = latency.decode_step_time(batch, cache, parameters, peak, rate, chips)
    math = latency.prefill_latency(parameters, batch, peak, chips)
    held = memory.decode_memory(memory.weight_memory(parameters, 2), batch, cache)
    read = bounds.memory_time(held, rate, chips)
    slack = 1 + 1e-12
    assert max(math, read) <= step * slack
    assert step <= (math + read) * slack


@given(st.integers(1, 512), rates)
def test_a_memory_bound_decode_step_is_the_lectures(batch: int, rate: float) -> None:
    held = memory.decode_memory(2e9, batch, 1e6)
    no_limit = latency.decode_step_time(batch, 1e6, 1e9, np.inf, rate)
    assert no_limit == pytest.approx(bounds.memory_time(held, rate))


@given(rates, st.floats(1.01, 10), st.integers(1, 8))
def test_more_bandwidth_more_chips_and_a_higher_peak_are_never_slower(
    rate: float, more: float, chips: int
) -> None:
    def step(peak: float, bandwidth: float, number: float) -> float:
        return float(latency.decode_step_time(8, 1e8, 1e9, peak, bandwidth, number))

    base = step(1e15, rate, chips)
    assert step(1e15, rate * more, chips) <= base
    assert step(1e15 * more, rate, chips) <= base
    assert step(1e15, rate, chips + 1) <= base


def test_throughput_of_a_larger_batch_grows_to_the_limit_of_the_cache() -> None:
    batches = np.array([1.0, 16.0, 256.0, 1e9])
    seconds = bounds.memory_time(memory.decode_memory(26e9, batches, 1e9), 2e12)
    rate = np.asarray(latency.decode_throughput(batches, seconds))
    assert (np.diff(rate) > 0).all()
    assert rate[-1] == pytest.approx(2e12 / 1e9, rel=1e-6)


@given(st.floats(0.01, 1), st.floats(1e6, 1e12), st.integers(1, 1000), st.integers(1, 64))
def test_mfu_is_the_utilisation_that_gave_the_time(
    mfu: float, parameters: float, tokens: int, chips: int
) -> None:
    seconds = latency.prefill_latency(parameters, 4 * tokens, 1e15, chips, mfu)
    again = latency.inference_mfu(parameters, 4, tokens, seconds, 1e15, chips)
    assert again == pytest.approx(mfu)
    took = training.training_time(parameters, tokens, 1e15, chips, mfu)
    assert training.training_mfu(parameters, tokens, took * chips, 1e15) == pytest.approx(mfu)


@given(st.floats(1e6, 1e12), st.floats(1, 1e12))
def test_a_backward_pass_is_two_forward_passes(parameters: float, tokens: float) -> None:
    forward = intensity.matmul_flops(tokens, parameters, 1)
    assert training.training_flops(parameters, tokens) == pytest.approx(3 * forward)


@given(sizes, sizes, sizes, st.integers(1, 128))
def test_activations_on_one_rank_are_34_plus_the_scores_with_either_split(
    sequence: float, batch: float, d_model: float, heads: int
) -> None:
    published = sequence * batch * d_model * (34 + 5 * heads * sequence / d_model)
    inputs = (sequence, batch, d_model, heads)
    assert training.activation_bytes(*inputs) == pytest.approx(published)
    assert training.activation_bytes(*inputs, sequence_parallel=True) == pytest.approx(published)


@given(sizes, sizes, sizes, st.integers(1, 128), st.integers(2, 64))
def test_sequence_parallel_splits_what_tensor_parallel_repeats(
    sequence: float, batch: float, d_model: float, heads: int, ranks: int
) -> None:
    inputs = (sequence, batch, d_model, heads, ranks)
    repeated = training.activation_bytes(*inputs)
    split = training.activation_bytes(*inputs, sequence_parallel=True)
    assert repeated - split == pytest.approx(10 * sequence * batch * d_model * (1 - 1 / ranks))
    assert split * ranks == pytest.approx(
        training.activation_bytes(sequence, batch, d_model, heads)
    )


@given(st.integers(1, 128), sizes, sizes, sizes)
def test_the_lecture_counts_the_sum_of_its_parts(
    layers: int, d_model: float, d_ff: float, vocab: float
) -> None:
    shape = (8, 2, 64)
    whole = parameters.lecture_parameters(d_model, d_ff, layers, *shape, vocab)
    tied = parameters.lecture_parameters(d_model, d_ff, layers, *shape, vocab, tied=True)
    block = parameters.ffn_parameters(d_model, d_ff, 1) + parameters.attention_parameters(
        d_model, *shape, layers=1
    )
    assert whole == layers * block + 2 * vocab * d_model
    assert whole - tied == vocab * d_model


@given(sizes, st.floats(0.1, 8))
def test_attention_share_is_that_of_the_counted_parameters(d_model: float, multiple: float) -> None:
    part = parameters.attention_parameters(d_model, 1, 1, d_model, 1)
    rest = parameters.ffn_parameters(d_model, multiple * d_model, 1)
    assert parameters.attention_share(multiple) == pytest.approx(part / (part + rest))


@given(sizes, st.integers(1, 100))
def test_a_gpt_block_is_as_large_as_a_gated_one_of_eight_thirds(
    d_model: float, layers: int
) -> None:
    gated = parameters.lecture_parameters(d_model, 8 / 3 * d_model, layers, 1, 1, d_model, 0)
    assert parameters.gpt_parameters(d_model, layers, 0) == pytest.approx(gated)


@given(st.floats(0, 1e12), st.floats(1, 1e12))
def test_one_more_cache_than_fits_does_not_fit(free: float, cache: float) -> None:
    number = memory.caches_that_fit(free, cache)
    assert number * cache <= free * (1 + 1e-12)
    assert (number + 1) * cache >= free * (1 - 1e-12)


@given(st.floats(1, 1e13), st.floats(1e9, 1e12))
def test_one_chip_less_than_needed_is_too_few(held: float, each: float) -> None:
    chips = memory.chips_needed(held, each)
    rounding = 1e-12 * held
    assert memory.memory_left(chips, each, held) >= -rounding
    assert memory.memory_left(chips - 1, each, held) <= rounding


@given(st.integers(1, 200), st.floats(1e8, 3e9))
def test_peaks_and_what_they_are_made_of_invert_each_other(sms: int, clock: float) -> None:
    cores = silicon.vector_cores(sms)
    assert silicon.vector_clock(silicon.vector_rate(cores, clock), cores) == pytest.approx(clock)
    peak = silicon.tensor_peak(sms, 4, 1024, clock)
    assert silicon.tensor_flops_per_cycle(peak, sms, 4, clock) == pytest.approx(1024)


def test_a_long_dot_product_does_a_flop_per_element_read() -> None:
    assert intensity.dot_product_intensity(1e12, width=2) == pytest.approx(1 / 2)
    assert intensity.dot_product_intensity(1, width=2) == 1 / 6
    assert intensity.vector_add_intensity() == 10 / intensity.vector_add_bytes(10)


def test_a_column_is_computed_like_its_rows() -> None:
    batches = np.array([1.0, 64.0, 4096.0])
    together = latency.decode_step_time(batches, 1e8, 1e9, 1e15, 3e12, chips=2)
    alone = [latency.decode_step_time(batch, 1e8, 1e9, 1e15, 3e12, chips=2) for batch in batches]
    assert np.asarray(together).tolist() == [float(time) for time in alone]
    fit = memory.caches_that_fit(1e10, np.array([1e9, 3e9]))
    assert np.asarray(fit).tolist() == [10.0, 3.0]


def test_answers_per_second_are_tokens_per_second_over_their_length() -> None:
    tokens = latency.decode_throughput(32, 0.016, chips=4)
    assert latency.queries_per_second(32, 0.016, 100, chips=4) == tokens / 100
    assert latency.queries_per_second(32, 0.016, 100) == 4 * tokens / 100
    assert bounds.ratio(1.6, 100) == 0.016


@given(st.integers(1, 40), st.integers(0, 300), st.integers(1, 40))
def test_evicted_tokens_are_what_leaves_a_batch_that_is_kept_full(
    batch: int, prompt: int, generated: int
) -> None:
    """Sequences that started one after the other; each that ends makes room for the next."""
    ages = [start % generated for start in range(batch)]
    left = 0
    for _ in range(generated):  # after so many steps every sequence has ended once
        ages = [age + 1 for age in ages]
        left += sum(prompt + age for age in ages if age == generated)
        ages = [age % generated for age in ages]
    each = latency.evicted_tokens(batch, prompt, generated)
    assert each == pytest.approx(left / generated)
