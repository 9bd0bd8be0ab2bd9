"""What each mode measures, by definition."""

from dataclasses import replace

import numpy as np
import pytest

from roofline.bench.end_to_end.driving import Driven, arrivals, driven, lengths
from roofline.bench.end_to_end.engines import ENGINES, Engine, engine_of
from roofline.bench.end_to_end.modes import Costs, Served, predict, requests, throughput
from roofline.cost.layout import Layout
from tests.bench.end_to_end.synthetic import (
    CASE,
    KEY,
    PAIR,
    PLAIN,
    TOKEN,
    WEIGHTS,
    row,
    tables,
)

ALONE = Driven()


def test_a_static_batch_is_one_prefill_and_its_decode_steps() -> None:
    found = predict(row("static_batch", batch=8.0), tables(), Costs(), PLAIN, ALONE)
    ttft = WEIGHTS + 8 * (TOKEN * 1024 + PAIR * 1024**2)
    contexts = np.arange(1025, 1025 + 64)
    latency = ttft + 64 * (WEIGHTS + 8 * TOKEN) + 8 * KEY * contexts.sum()
    assert found["ttft_s"] == pytest.approx(ttft, rel=1e-3)
    assert found["latency_s"] == pytest.approx(latency, rel=1e-3)
    assert found["tpot_s"] == pytest.approx((latency - ttft) / 64, rel=1e-3)
    assert found["throughput_tok_s"] == pytest.approx(8 * 65 / latency, rel=1e-3)


@pytest.mark.parametrize(
    ("counts", "scope", "tokens"),
    [
        ("output", "total", 8 * 65),
        ("input", "total", 8 * 1024),
        ("input+output", "total", 8 * (1024 + 65)),
        ("output", "per_gpu", 8 * 65 / 4),
    ],
)
def test_throughput_counts_what_the_row_says(counts: str, scope: str, tokens: float) -> None:
    one = row("static_batch", batch=8.0, counts=counts, scope=scope, devices=4.0)
    found = predict(one, tables(), Costs(), PLAIN, ALONE)
    assert found["throughput_tok_s"] == pytest.approx(tokens / found["latency_s"], rel=1e-9)


def test_replicas_work_side_by_side() -> None:
    one, two = row(replicas=1.0, devices=4.0), row(replicas=2.0, devices=8.0)
    assert throughput(two, 10.0, 10.0, 1.0) == 2 * throughput(one, 10.0, 10.0, 1.0)


def test_one_token_is_a_prefill() -> None:
    found = predict(row("bs1_prefill", osl=1.0), tables(), Costs(), PLAIN, ALONE)
    assert found["latency_s"] == found["ttft_s"]
    assert found["ttft_s"] == pytest.approx(WEIGHTS + TOKEN * 1024 + PAIR * 1024**2, rel=1e-3)


def test_decoding_alone_is_the_mean_time_between_tokens() -> None:
    found = predict(row("bs1_decode", isl=1.0, osl=513.0), tables(), Costs(), PLAIN, ALONE)
    assert found["throughput_tok_s"] == pytest.approx(1 / found["tpot_s"], rel=1e-9)
    assert found["tpot_s"] == pytest.approx(WEIGHTS + TOKEN + KEY * 257.5, rel=1e-3)


def test_a_static_batch_beyond_the_cache_takes_turns() -> None:
    """Room for four of eight: twice as long, and the last first token waits for the first four."""
    one = row("static_batch", batch=8.0, osl=1025.0)
    fits = predict(one, tables(8 * 2049.0), Costs(), PLAIN, ALONE)
    turns = predict(one, tables(4 * 2049.0), Costs(), PLAIN, ALONE)
    assert 1.5 < turns["latency_s"] / fits["latency_s"] < 2.0
    assert turns["ttft_s"] > fits["latency_s"] / 2


def test_at_full_load_answers_leave_as_fast_as_prompts_come() -> None:
    """n sequences; each step decodes them and prefills n/osl prompts."""
    one = row("offline_max", batch=0.0, isl=1024.0, osl=512.0)
    sequences = 64
    engine = Engine("one", "whole-prompts", 1024, 4096, 1.0, (), {})
    found = predict(one, tables(sequences * 1536.0), Costs(), engine, ALONE)
    decode = WEIGHTS + TOKEN * sequences + KEY * sequences * 1280
    fill = TOKEN * 1024 + PAIR * 1024**2
    step = decode + fill * sequences / 512
    assert found["throughput_tok_s"] == pytest.approx(sequences / step, rel=2e-3)


def test_more_room_never_serves_less() -> None:
    one = row("offline_max", batch=0.0)
    rates = [
        predict(one, tables(room), Costs(), PLAIN, ALONE)["throughput_tok_s"]
        for room in (2e3, 2e4, 2e5, 2e6)
    ]
    assert rates == sorted(rates)


def test_groups_with_sequences_of_their_own_have_limits_of_their_own() -> None:
    """Two sequences at once on one group, eight on four."""
    engine = Engine("few", "whole-prompts", 1024, 2, 1.0, (), {})
    apart = replace(CASE, layout=Layout(dp=4, ep=4))
    alone, four = (
        predict(row("offline_max", case=case, batch=0.0), tables(), Costs(), engine, ALONE)
        for case in (CASE, apart)
    )
    assert four["tpot_s"] > alone["tpot_s"]
    one = row(case=apart, batch=8.0)
    queued = predict(row(batch=8.0), tables(), Costs(), engine, ALONE)
    assert predict(one, tables(), Costs(), engine, ALONE)["ttft_s"] < queued["ttft_s"]


def test_the_first_token_of_a_mixture_can_wait_longer() -> None:
    mixture = tables()
    mixture.body[:, 2] = 1e-3
    one, costs = row(), Costs(mixture=0.1)
    assert predict(one, tables(), costs, PLAIN, ALONE)["ttft_s"] < 0.1
    assert predict(one, mixture, costs, PLAIN, ALONE)["ttft_s"] > 0.1


def test_lengths_are_drawn_as_the_source_draws_them_and_always_alike() -> None:
    how = Driven(10.0, 0.8, 1.0)
    isl, osl = lengths(1000.0, 500.0, 4000, how)
    assert (isl.min(), isl.max()) == (800, 1000)
    assert osl.mean() == pytest.approx(450, rel=0.01)
    assert lengths(1000.0, 500.0, 4000, how)[0] is isl
    assert np.all(lengths(7.0, 3.0, 5, Driven())[0] == 7)


def test_a_source_decides_how_clients_are_driven_before_the_engine_does() -> None:
    known = driven(row(family="inferencemax"), "vllm")
    assert (known.rounds, known.shortest, known.longest) == (10.0, 0.8, 1.0)
    assert driven(row(family="elsewhere", version="1.0.0rc3"), "trtllm").waiting == 1
    assert driven(row(family="inferencemax", version="1.0.0rc3"), "trtllm").waiting == 0
    assert driven(row(family="elsewhere", version="1.3.0"), "trtllm").waiting == 0
    assert driven(row(family="elsewhere"), "never-heard-of").waiting == 0


def test_a_client_more_than_slots_waits_for_one() -> None:
    """Its wait is the life of a sequence over their number."""
    one = row(batch=8.0, osl=512.0)
    alike = Driven(20.0, 0.9, 1.1)
    more = Driven(20.0, 0.9, 1.1, waiting=1)
    usual = predict(one, tables(), Costs(), PLAIN, alike)
    waits = predict(one, tables(), Costs(), PLAIN, more)
    life = usual["latency_s"]
    assert waits["ttft_s"] - usual["ttft_s"] == pytest.approx(life / 8, rel=0.25)
    assert waits["tpot_s"] == pytest.approx(usual["tpot_s"], rel=0.05)


@pytest.mark.parametrize(
    ("name", "version", "profile"),
    [
        ("vllm", "0.12.0", "vllm"),
        ("vllm", "", "vllm"),
        ("vLLM", "", "vllm-2024"),
        ("vLLM", "0.15.1", "vllm"),
        ("vllm", "0.4.2", "vllm-2024"),
        ("trtllm", "1.0.0rc3", "trtllm"),
        ("trtllm", "0.14.0", "trtllm-2024"),
        ("trtllm", "0.8.0", "trtllm-2023"),
        ("TensorRT-LLM", "", "trtllm-2023"),
        ("TensorRT-LLM", "1.2.0rc6.post2", "trtllm"),
        ("sglang", "nightly-dev", "sglang"),
        ("mlc-llm", "0.1", "unknown"),
    ],
)
def test_a_version_decides_the_profile_and_then_the_spelling(
    name: str, version: str, profile: str
) -> None:
    assert engine_of(name, version).name == profile


def test_every_profile_is_found_by_its_names() -> None:
    for engine in ENGINES:
        for name in engine.names:
            assert engine_of(name, "") is engine


def test_requests_far_apart_are_each_alone() -> None:
    """At one request in many lifetimes every figure is that of a single client."""
    alone = predict(row(batch=1.0), tables(), Costs(), PLAIN, Driven(3.0))
    apart = row("steady_rate", batch=1.0, rate=0.01, cv=0.0, requests=50.0)
    found = predict(apart, tables(), Costs(), PLAIN, Driven())
    for name in ("ttft_s", "tpot_s", "latency_s"):
        assert found[name] == pytest.approx(alone[name], rel=1e-6)
    # 50 requests, the last one sent after 49 gaps of 100 s.
    assert found["throughput_tok_s"] == pytest.approx(50 * 65 / (4900 + found["latency_s"]))


def test_a_rate_that_is_kept_up_with_is_the_throughput() -> None:
    one = row("steady_rate", rate=4.0, cv=0.0, requests=4000.0)
    found = predict(one, tables(), Costs(), PLAIN, Driven())
    assert found["throughput_tok_s"] == pytest.approx(4 * 65, rel=5e-3)


def test_beyond_what_is_possible_a_queue_grows_with_the_requests() -> None:
    few, many = (
        predict(
            row("steady_rate", rate=1e4, requests=number), tables(30e3), Costs(), PLAIN, Driven()
        )
        for number in (200.0, 800.0)
    )
    assert many["ttft_s"] > 3 * few["ttft_s"]
    assert many["throughput_tok_s"] == pytest.approx(few["throughput_tok_s"], rel=0.1)


def test_bursts_wait_longer_than_even_gaps() -> None:
    means = [
        predict(
            row("steady_rate", rate=25.0, cv=cv, requests=2000.0),
            tables(),
            Costs(),
            PLAIN,
            Driven(),
        )["ttft_s"]
        for cv in (0.0, 1.0, 3.0)
    ]
    assert means == sorted(means)
    assert means[2] > 1.1 * means[0]


@pytest.mark.parametrize("cv", [0.0, 0.5, 1.0, 2.0])
def test_gaps_have_the_rate_and_the_deviation_asked_for(cv: float) -> None:
    sent = arrivals(5.0, cv, 40_000)
    gaps = np.diff(sent)
    assert sent[0] == 0
    assert gaps.min() >= 0
    assert gaps.mean() == pytest.approx(0.2, rel=0.03)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.05, abs=1e-9)


def test_a_burst_is_a_loop_of_one_round() -> None:
    """As many clients as requests: the first of them all come together."""
    burst = row(batch=30.0, requests=30.0)
    how = driven(burst, "plain")
    assert how.rounds == 1.0
    found = requests(burst, tables(), Costs(), PLAIN, how)
    assert len(found.ttft) == 30
    assert found.seconds == pytest.approx(found.latency.max())


def test_a_known_number_of_requests_ends_with_the_last_of_them() -> None:
    """The steady rate has neither a first prefill nor a last straggler; a long run comes near."""
    one = row("offline_max", batch=0.0, isl=1024.0, osl=512.0)
    engine = Engine("one", "whole-prompts", 1024, 64, 1.0, (), {})
    steady = predict(one, tables(), Costs(), engine, ALONE)["throughput_tok_s"]
    rates = [
        predict(replace(one, requests=number), tables(), Costs(), engine, ALONE)["throughput_tok_s"]
        for number in (64.0, 640.0, 6400.0)
    ]
    assert rates == sorted(rates)
    assert rates[2] == pytest.approx(steady, rel=0.05)


def test_gaps_of_all_requests_weigh_long_answers_more() -> None:
    found = Served(
        np.array([1, 1]), np.array([2, 11]), np.array([1.0, 1.0]), np.array([2.0, 6.0]), 6.0
    )
    assert found.tpot.tolist() == [1.0, 0.5]
    assert found.itl == pytest.approx((1 + 5) / (1 + 10))


def test_what_a_row_says_of_its_clients_goes_before_the_usual() -> None:
    how = driven(row(batch=4.0, requests=20.0, spread=0.3), "vllm")
    assert (how.rounds, how.shortest, how.longest) == (5.0, 0.7, 1.3)
    wide = driven(row(spread=7.0), "vllm")
    assert wide.shortest > 0
    known = driven(row(family="inferencemax", batch=4.0, requests=20.0, spread=0.3), "vllm")
    assert (known.rounds, known.shortest) == (10.0, 0.8)
