"""A static batch: what users feel, what it costs, and whether it fits."""

import math
from statistics import NormalDist

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.cost.step import SequenceGroup, decode, prefill, step
from roofline.errors import InputError
from roofline.model.architecture import Architecture
from roofline.records import replace
from roofline.serving.explain.figures import explain_all
from roofline.serving.result import headline, operators, static_table
from roofline.serving.room import largest_batch, largest_context, memory_table, most_that_fits
from roofline.serving.static import CENTRAL, StaticBatch, static_batch
from roofline.serving.static_batches import curve
from roofline.serving.steady import steady_state
from roofline.serving.workload import Workload
from tests.cases import examples
from tests.cost.networks import dense, deployed, networks
from tests.pricing import seconds
from tests.serving.deployments import on

SEVERAL = settings(max_examples=examples(30), deadline=None)

WORKLOADS = st.builds(
    Workload,
    batch=st.integers(1, 40),
    prompt=st.integers(1, 3000),
    output=st.integers(1, 300),
    prefix_hit=st.floats(0, 0.99),
    kv_cache=st.booleans(),
)


def test_the_central_interval_holds_four_fifths() -> None:
    assert NormalDist().inv_cdf(0.9) == CENTRAL


def test_a_batch_has_the_same_times_without_its_operators() -> None:
    batch = static_batch(on(), Workload(12, 512, 64))
    plain = static_batch(on(), Workload(12, 512, 64), operators=False)
    assert plain == replace(batch, prefill={}, decode={})


@SEVERAL
@given(networks(), WORKLOADS)
def test_latency_is_the_first_token_and_then_all_others(
    network: Architecture, work: Workload
) -> None:
    batch = static_batch(deployed(network), work)
    assert batch.latency_s == pytest.approx(batch.ttft_s + batch.tpot_s * (work.output - 1))
    if work.output > 1:
        tpot = (batch.latency_s - batch.ttft_s) / (work.output - 1)
        assert batch.tpot_s == pytest.approx(tpot)
    else:
        assert batch.tpot_s == batch.user_tok_s == batch.decode_tok_s == 0
    assert batch.throughput_tok_s * batch.latency_s == pytest.approx(work.batch * work.output)
    assert batch.ttft_mean_s <= batch.ttft_s * (1 + 1e-12)


@SEVERAL
@given(networks(), WORKLOADS)
def test_time_between_two_tokens_is_the_one_decode_step(
    network: Architecture, work: Workload
) -> None:
    # Two tokens of output: the second comes from a step that ends at prompt + 1.
    deployment = deployed(network)
    work = replace(work, output=2, kv_cache=True)
    one = seconds(step(deployment, decode(float(work.batch), float(work.prompt))), deployment)
    assert static_batch(deployment, work).tpot_s == pytest.approx(float(one))


@pytest.mark.parametrize(
    ("batch", "together"), [(1, 1), (16, 0), (16, 16), (16, 4), (7, 3), (5, 4), (16, 15), (9, 1)]
)
def test_prompts_wait_for_those_prefilled_before_them(batch: int, together: int) -> None:
    deployment = on()
    work = Workload(batch, 1024, 4, prefill_batch=together)
    clock, waits, left = 0.0, [], batch
    while left:
        prompts = min(together or batch, left)
        clock += float(seconds(step(deployment, prefill(float(prompts), 1024.0)), deployment))
        waits += [clock] * prompts
        left -= prompts
    ours = static_batch(deployment, work)
    assert ours.ttft_s == pytest.approx(max(waits), rel=1e-12)
    assert ours.ttft_mean_s == pytest.approx(sum(waits) / batch, rel=1e-12)


def test_the_cached_share_of_a_prompt_is_that_share() -> None:
    for percent in range(100):
        for prompt in (1, 7, 100, 1000, 2048):
            exact = min(percent * prompt // 100, prompt - 1)
            assert Workload(prompt=prompt, prefix_hit=percent / 100).cached == exact


def test_a_cached_prefix_leaves_its_queries_out_and_its_keys_in() -> None:
    work = Workload(2, 1000, 1, prefix_hit=0.75)
    assert work.prefill(2.0) == SequenceGroup(2.0, 250.0, 1000.0)


@SEVERAL
@given(networks(), WORKLOADS, st.sampled_from(["prefill", "decode"]))
def test_operators_of_a_phase_have_their_bounds(
    network: Architecture, work: Workload, phase: str
) -> None:
    batch = static_batch(deployed(network), work)
    for entry in getattr(batch, phase).values():
        limits = (entry.compute, entry.memory, entry.wire)
        assert max(limits) <= entry.seconds * (1 + 1e-12)
        assert entry.seconds <= entry.serial * (1 + 1e-12)
        assert entry.serial == pytest.approx(sum(limits))


def test_a_cache_saves_time_from_the_second_token_on() -> None:
    with_ = static_batch(on(), Workload(4, 512, 8))
    without = static_batch(on(), Workload(4, 512, 8, kv_cache=False))
    assert without.ttft_s == with_.ttft_s
    assert without.tpot_s > with_.tpot_s
    assert without.memory.kv == 0
    assert with_.memory.kv > 0


# --- memory


@SEVERAL
@given(networks(), WORKLOADS)
def test_the_memory_table_adds_up_to_the_capacity(network: Architecture, work: Workload) -> None:
    batch = static_batch(deployed(network), work)
    rows = memory_table(batch.memory)
    assert sum(rows["bytes"]) == pytest.approx(batch.memory.capacity)
    assert sum(rows["share"]) == pytest.approx(1.0)


CROWDED = [
    ("llama-3.1-8b", "h100-sxm", 1, "vllm", Workload(16, 2048, 256)),
    ("llama-3.1-8b", "h100-sxm", 1, "vllm", Workload(16, 128, 128)),
    ("llama-3.1-8b", "h100-sxm", 1, "ideal", Workload(16, 2048, 256)),
    ("llama-3.1-70b", "h100-sxm", 8, "vllm", Workload(1, 512, 64)),
    ("gemma-2-9b", "a100-sxm", 1, "sglang", Workload(2, 6000, 200)),
]


@pytest.mark.parametrize(("model", "device", "tp", "engine", "work"), CROWDED)
def test_the_largest_batch_fits_when_asked_for_and_one_more_does_not(
    model: str, device: str, tp: int, engine: str, work: Workload
) -> None:
    deployment = on(model, device, tp=tp, engine=engine)
    most = largest_batch(deployment, work, None)
    assert static_batch(deployment, replace(work, batch=most)).memory.fits
    assert not static_batch(deployment, replace(work, batch=most + 1)).memory.fits


@SEVERAL
@given(
    most=st.integers(0, 3000),
    steps=st.lists(st.tuples(st.integers(1, 3000), st.floats(0.0, 1e9)), max_size=8),
    slope=st.floats(0.0, 1e6),
    spare=st.floats(-1e6, 1e9),
)
def test_the_most_that_fits_is_that_of_a_count(
    most: int, steps: list[tuple[int, float]], slope: float, spare: float
) -> None:
    """Memory that is taken evenly, and in steps wherever they are."""

    def free(number: int) -> float:
        return spare - slope * number - sum(size for at, size in steps if number >= at)

    counted = sum(free(number) >= 0 for number in range(1, most + 1))
    assert most_that_fits(free, most) == counted


@pytest.mark.parametrize("each", [1.0, 7.3, 1e4, 3e9])
def test_the_most_that_fits_takes_a_few_looks(each: float) -> None:
    looks: list[int] = []

    def free(number: int) -> float:
        looks.append(number)
        return 4e9 - each * number - 1e8 * min(number, 30)

    most = most_that_fits(free, 2**20)
    assert len(looks) < 16
    assert free(most) >= 0
    assert most == 2**20 or free(most + 1) < 0


@pytest.mark.parametrize(("model", "device", "tp", "engine", "work"), CROWDED)
def test_the_longest_context_fits_when_asked_for_and_one_token_more_does_not(
    model: str, device: str, tp: int, engine: str, work: Workload
) -> None:
    deployment = on(model, device, tp=tp, engine=engine)
    deployment = replace(
        deployment, architecture=replace(deployment.architecture, max_context=None)
    )
    longest = largest_context(deployment, work, None)
    fits = replace(work, prompt=longest - work.output + 1)
    assert static_batch(deployment, fits).memory.fits
    assert not static_batch(deployment, replace(fits, prompt=fits.prompt + 1)).memory.fits


def test_what_does_not_fit_is_a_result_that_says_by_how_much() -> None:
    batch = static_batch(on("llama-3.1-70b"), Workload(16, 2048, 256))
    assert not batch.memory.fits
    needed = batch.memory.weights + batch.memory.kv + batch.memory.activations
    needed += batch.memory.runtime + batch.memory.graphs
    assert batch.memory.free == pytest.approx(0.92 * batch.memory.capacity - needed)
    assert batch.ttft_s > 0


def test_a_context_beyond_the_network_is_refused() -> None:
    with pytest.raises(InputError, match="131,072"):
        static_batch(on(), Workload(1, 131072, 1))
    static_batch(on(), Workload(1, 131071, 1))


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch": 0},
        {"batch": -1},
        {"prompt": 0},
        {"output": 0},
        {"prompt": 10**30},
        {"prefill_batch": 17},
        {"prefill_batch": -1},
        {"prefix_hit": 1.0},
        {"prefix_hit": math.nan},
        {"prefix_hit": -0.1},
    ],
)
def test_a_workload_without_a_meaning_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError):
        Workload(**wrong)  # type: ignore[arg-type]


# --- what it costs


def example() -> StaticBatch:
    return static_batch(deployed(dense(), tp=2), Workload(8, 100, 11))


def test_throughput_cost_and_energy_of_an_example_by_hand() -> None:
    # 8 sequences of 11 tokens are 88 tokens in `latency` seconds. Two devices at 3.60 $/h cost
    # 2 · 3.60 / 3600 = 0.002 $/s, and draw 2 · 700 W. A million tokens take 1e6 / 88 latencies.
    batch = example()
    times = 1_000_000 / 88 * batch.latency_s
    assert batch.throughput_tok_s == pytest.approx(88 / batch.latency_s)
    assert batch.usd_per_mtok == pytest.approx(0.002 * times)
    assert batch.joule_per_mtok == pytest.approx(1400 * times)
    assert batch.user_tok_s == pytest.approx(1 / batch.tpot_s)
    assert batch.decode_tok_s == pytest.approx(8 / batch.tpot_s)


def test_the_headline_is_the_batch_with_both_bounds() -> None:
    batch = example()
    steady = steady_state(batch)
    every = explain_all(batch, 3, steady)
    lasting = {row["metric"]: row for row in headline(batch, steady, 3, every).rows()}
    rows = {row["metric"]: row for row in static_table(batch, 3, every, "static_").rows()}
    assert rows["ttft_s"]["value"] == batch.ttft_s
    assert rows["tpot_s"]["serial"] == pytest.approx(batch.tpot_serial_s)
    assert rows["throughput_tok_s"]["value"] == pytest.approx(3 * batch.throughput_tok_s)
    assert rows["throughput_tok_s_per_gpu"]["value"] == pytest.approx(batch.throughput_tok_s / 2)
    for metric, row in (*rows.items(), *lasting.items()):
        slower = row["serial"] / row["value"]
        assert slower < 1 if "tok_s" in metric else slower > 1, metric
    # Replicas serve more and cost more: the price of a token stays.
    one = explain_all(batch, 1, steady)
    alone = [
        {row["metric"]: row["value"] for row in found.rows()}
        for found in (
            headline(batch, steady, 1, one),
            static_table(batch, 1, one, "static_"),
        )
    ]
    for metric in ("usd_per_mtok", "joule_per_mtok"):
        assert lasting[metric]["value"] == pytest.approx(alone[0][metric])
    for metric in ("usd_per_mtok", "joule_per_mtok", "latency_s"):
        assert rows[metric]["value"] == pytest.approx(alone[1][metric])


def test_without_a_steady_state_the_headline_has_the_static_batch() -> None:
    batch = example()
    rows = {
        row["metric"]: row["value"] for row in headline(batch, None, 1, explain_all(batch)).rows()
    }
    assert rows["throughput_tok_s"] == batch.throughput_tok_s
    assert {"ttft_idle_s", "tpot_s"} <= set(rows)
    assert not {"ttft_steady_s", "tpot_steady_s", "ttft_s"} & set(rows)


@pytest.mark.parametrize("together", [0, 4])
def test_the_curve_passes_through_the_batch_itself(together: int) -> None:
    batch = static_batch(on(), Workload(12, 512, 64, prefill_batch=together))
    row = next(row for row in curve(batch, 100).rows() if row["batch"] == 12)
    assert row["ttft_s"] == pytest.approx(batch.ttft_s, rel=1e-12)
    assert row["tpot_s"] == pytest.approx(batch.tpot_s, rel=1e-12)
    assert row["throughput_tok_s"] == pytest.approx(batch.throughput_tok_s, rel=1e-12)
    assert row["fits"] == batch.memory.fits


@SEVERAL
@given(networks(), WORKLOADS)
def test_the_operators_table_adds_up_to_the_steps(network: Architecture, work: Workload) -> None:
    batch = static_batch(deployed(network), work)
    rows = list(operators(batch).rows())
    for phase, whole in (("prefill", batch.ttft_s), ("decode", batch.tpot_s)):
        mine = [row for row in rows if row["phase"] == phase]
        assert sum(row["seconds"] for row in mine) == pytest.approx(whole)
        assert not mine or sum(row["share"] for row in mine) == pytest.approx(1.0)
