"""Metrics of each mode by definition: rows served again at prices that follow a law."""

from typing import Any

import numpy as np
import pytest

import roofline
from roofline.bench.end_to_end import replay
from roofline.bench.end_to_end.replay import itl_of, known, throughput, tpot_of
from roofline.bench.engine_profiles import shipped_profile
from roofline.cost.engine_costs import NO_ENGINE, EngineProfile
from roofline.cost.layout import Layout
from roofline.hardware.engine import engine
from roofline.records import replace
from tests.bench.end_to_end.synthetic import CASE, decode, lawful, limited, prefill, row, settings

MIDDLE = 1025 + 63 / 2
"""Mean context of a step that decodes an answer of 65 tokens to a prompt of 1,024. [token]"""
GROUPS = replace(CASE, network="qwen3-30b-a3b", layout=Layout(dp=4, ep=4))


def test_a_static_batch_is_one_prefill_and_its_decode_steps() -> None:
    found = lawful("static_batch", batch=8.0).predicted(NO_ENGINE)
    ttft, tpot = prefill(8, 1024), decode(8, MIDDLE)
    assert found["ttft_s"] == pytest.approx(ttft, rel=1e-6)
    assert found["tpot_s"] == pytest.approx(tpot, rel=1e-6)
    assert found["latency_s"] == pytest.approx(ttft + 64 * tpot, rel=1e-6)
    assert found["throughput_tok_s"] == pytest.approx(8 * 65 / (ttft + 64 * tpot), rel=1e-6)


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
    one = lawful("static_batch", batch=8.0, counts=counts, scope=scope, devices=4.0)
    found = one.predicted(NO_ENGINE)
    assert found["throughput_tok_s"] == pytest.approx(tokens / found["latency_s"], rel=1e-9)


@pytest.mark.parametrize("mode", ["static_batch", "steady_concurrency", "offline_max"])
def test_replicas_work_side_by_side(mode: str) -> None:
    """Each of them as alone, so that together they make twice the tokens."""
    one, two = (
        lawful(mode, batch=8.0, requests=32.0, replicas=n, devices=n).predicted(NO_ENGINE)
        for n in (1.0, 2.0)
    )
    assert two["throughput_tok_s"] == pytest.approx(2 * one["throughput_tok_s"], rel=1e-9)
    for metric in ("ttft_s", "tpot_s", "latency_s"):
        assert two[metric] == pytest.approx(one[metric], rel=1e-9)


def test_throughput_of_a_device_is_a_share_of_that_of_all() -> None:
    whole, share = row(devices=4.0), row(devices=4.0, scope="per_gpu")
    assert throughput(whole, 30.0, 20.0, 2.0) == 10.0
    assert throughput(share, 30.0, 20.0, 2.0) == 2.5


def test_one_token_is_a_prefill() -> None:
    found = lawful("bs1_prefill", osl=1.0).predicted(NO_ENGINE)
    assert found["latency_s"] == found["ttft_s"]
    assert found["ttft_s"] == pytest.approx(prefill(1, 1024), rel=1e-6)


def test_decoding_alone_is_the_mean_time_between_tokens() -> None:
    found = lawful("bs1_decode", isl=1.0, osl=513.0).predicted(NO_ENGINE)
    assert found["throughput_tok_s"] == pytest.approx(1 / found["tpot_s"], rel=1e-9)
    assert found["tpot_s"] == pytest.approx(decode(1, 2 + 511 / 2), rel=1e-6)


def test_one_client_has_nobody_in_its_way() -> None:
    found = lawful().predicted(NO_ENGINE)
    assert found["ttft_s"] == pytest.approx(prefill(1, 1024), rel=1e-6)
    assert found["tpot_s"] == pytest.approx(decode(1, MIDDLE), rel=1e-6)


def test_constants_of_an_engine_are_where_the_equation_has_them() -> None:
    profile = EngineProfile(
        step_s=1e-3,
        sequence_s=1e-4,
        prefill_s=5e-3,
        request_s=2e-2,
        serial_s=1e-2,
        decode_gain=1.5,
        prefill_gain=2.0,
    )
    found = lawful().predicted(profile)
    # A step of prompts is what they add to the weights, which is all that prefill does alone.
    ttft = 2.0 * prefill(1, 1024) + 1e-3 + 5e-3 + 2e-2 + 1e-2
    assert found["ttft_s"] == pytest.approx(ttft, rel=1e-6)
    assert found["tpot_s"] == pytest.approx(1.5 * decode(1, MIDDLE) + 1.1e-3, rel=1e-6)


def test_tokens_cannot_leave_faster_than_the_front_end_hands_them_on() -> None:
    found = lawful(batch=8.0).predicted(EngineProfile(front_end_s=5e-3))
    assert found["tpot_s"] == pytest.approx(8 * 5e-3, rel=1e-12)


def test_a_front_end_lets_one_request_after_the_other_through() -> None:
    """Four clients at once, 1 s each, served faster than they come: they wait 1, 2, 3 and 4 s."""
    found = lawful(batch=4.0, requests=4.0, osl=2.0).predicted(EngineProfile(serial_s=1.0))
    assert found["ttft_s"] == pytest.approx(2.5 + prefill(1, 1024), rel=1e-6)


@pytest.mark.parametrize("mode", ["static_batch", "bs1_prefill"])
def test_a_batch_is_in_the_engines_hands_before_it_starts(mode: str) -> None:
    costs = EngineProfile(request_s=5.0, serial_s=3.0, cold_s=9.0)
    one = lawful(mode)
    assert one.predicted(costs) == one.predicted(NO_ENGINE)


def test_requests_that_are_all_handed_over_at_once_pass_no_serial_front_end() -> None:
    one = lawful("offline_max", batch=8.0)
    assert one.predicted(EngineProfile(serial_s=3.0)) == one.predicted(NO_ENGINE)


def test_more_clients_have_longer_tpot() -> None:
    found = [
        lawful(batch=float(n), osl=256.0, requests=10.0 * n, lengths=(0.8, 1.0))
        for n in (1, 4, 16, 64)
    ]
    tpot = [each.predicted(NO_ENGINE)["tpot_s"] for each in found]
    assert tpot == sorted(tpot)
    together = [
        lawful("static_batch", batch=float(n)).predicted(NO_ENGINE)["tpot_s"] for n in (1, 2, 7, 40)
    ]
    assert together == sorted(together)


def test_a_static_batch_beyond_the_cache_takes_turns() -> None:
    """Room for four of eight: twice as long, and the last first token waits for the first four."""
    one = limited(lawful("static_batch", batch=8.0, osl=1025.0), reservation=1.0)
    page = one.server.page
    fits = one.predicted(NO_ENGINE)
    turns = limited(one, kv_tokens=4 * (2049 + page)).predicted(NO_ENGINE)
    assert 1.5 < turns["latency_s"] / fits["latency_s"] < 2.0
    assert turns["ttft_s"] > fits["latency_s"] / 2


def test_at_full_load_answers_leave_as_fast_as_prompts_come() -> None:
    """n sequences; each step decodes them and prefills n/osl prompts."""
    sequences = 64
    one = lawful("offline_max", batch=0.0, osl=512.0, max_sequences=sequences)
    found = one.predicted(NO_ENGINE)
    fill = prefill(1, 1024) - prefill(0, 1024)
    step = decode(sequences, 1280.0) + fill * sequences / 512
    assert found["throughput_tok_s"] == pytest.approx(sequences / step, rel=5e-3)


def test_more_room_never_serves_less() -> None:
    one = lawful("offline_max", batch=0.0)
    rates = [
        limited(one, kv_tokens=room).predicted(NO_ENGINE)["throughput_tok_s"]
        for room in (2_000, 20_000, 200_000, 2_000_000)
    ]
    assert rates == sorted(rates)


def test_a_known_number_of_requests_ends_with_the_last_of_them() -> None:
    """The steady rate has neither a first prefill nor a last straggler; a long run comes near."""
    limits: dict[str, Any] = {"batch": 0.0, "osl": 512.0, "max_sequences": 64}
    steady = lawful("offline_max", **limits).predicted(NO_ENGINE)["throughput_tok_s"]
    rates = [
        lawful("offline_max", **limits, requests=number).predicted(NO_ENGINE)["throughput_tok_s"]
        for number in (64.0, 640.0, 6400.0)
    ]
    assert rates == sorted(rates)
    assert rates[2] == pytest.approx(steady, rel=0.05)


def test_requests_far_apart_are_each_alone() -> None:
    """At one request in many lifetimes every figure is that of a single client."""
    alone = lawful().predicted(NO_ENGINE)
    apart = lawful("steady_rate", rate=0.01, cv=0.0, requests=50.0).predicted(NO_ENGINE)
    for metric in ("ttft_s", "tpot_s", "latency_s"):
        assert apart[metric] == pytest.approx(alone[metric], rel=1e-6)


def test_beyond_what_is_possible_a_queue_grows_with_the_requests() -> None:
    few, many = (
        limited(lawful("steady_rate", rate=1e4, requests=number), kv_tokens=30_000).predicted(
            NO_ENGINE
        )
        for number in (200.0, 800.0)
    )
    assert many["ttft_s"] > 3 * few["ttft_s"]
    assert many["throughput_tok_s"] == pytest.approx(few["throughput_tok_s"], rel=0.1)


def test_bursts_wait_longer_than_even_gaps() -> None:
    means = [
        lawful("steady_rate", rate=25.0, cv=cv, requests=2000.0).predicted(NO_ENGINE)["ttft_s"]
        for cv in (0.0, 1.0, 3.0)
    ]
    assert means == sorted(means)
    assert means[2] > 1.1 * means[0]


def test_a_client_more_than_slots_waits_for_one() -> None:
    """Its wait is the life of a sequence over their number."""
    cases = (replace(CASE, engine=engine) for engine in ("trtllm", "trtllm-1.0"))
    usual, waits = (
        lawful(
            case=case,
            family="nvidia-dynamo-lab",
            batch=8.0,
            osl=512.0,
            requests=160.0,
            lengths=(0.9, 1.1),
        )
        for case in cases
    )
    assert (usual.clients, waits.clients, waits.server.max_sequences) == (8, 9, 8)
    before, then = usual.predicted(NO_ENGINE), waits.predicted(NO_ENGINE)
    life = before["latency_s"]
    assert then["ttft_s"] - before["ttft_s"] == pytest.approx(life / 8, rel=0.25)
    assert then["tpot_s"] == pytest.approx(before["tpot_s"], rel=0.05)


def test_gaps_of_all_requests_weigh_long_answers_more() -> None:
    known = lawful(batch=4.0, osl=100.0, requests=40.0, lengths=(0.1, 1.9))
    served = known.served(known.prices(NO_ENGINE))
    gaps = served.output[served.output > 1] - 1
    assert itl_of(served) == pytest.approx(np.average(tpot_of(served), weights=gaps), rel=1e-9)
    assert itl_of(served) != pytest.approx(tpot_of(served).mean(), rel=1e-6)


def test_settings_of_the_row_reach_the_server_and_others_are_the_engines() -> None:
    usual = known(row(batch=4.0)).server
    assert (usual.max_sequences, usual.token_budget) == (1024, 8192)
    asked = known(row(batch=4.0, max_sequences=96, token_budget=512)).server
    assert (asked.max_sequences, asked.token_budget) == (96, 512)


def test_a_smaller_share_of_memory_leaves_as_much_less_cache() -> None:
    """A token of llama-3.1-8b is 2·32·8·128 values of 2 B."""
    less, more = (known(row(memory_share=share)) for share in (0.7, 0.8))
    assert (less.utilization, more.utilization) == (0.7, 0.8)
    tenth = 0.1 * less.deployment.node.gpu.memory_bytes / (2 * 32 * 8 * 128 * 2)
    assert more.server.kv_tokens - less.server.kv_tokens == pytest.approx(tenth, rel=0.01)


def test_a_network_that_its_share_of_memory_does_not_hold_gets_nearly_all_of_it() -> None:
    cramped = known(row(memory_share=0.1))
    assert cramped.utilization == replay.FULLEST
    assert cramped.server.kv_tokens == known(row(memory_share=replay.FULLEST)).server.kv_tokens


def test_a_static_batch_is_never_cut_by_the_limits_of_a_server() -> None:
    one = known(row("static_batch", batch=2000.0, isl=16.0, osl=2.0, token_budget=512)).server
    assert one.max_sequences == 2000
    assert one.token_budget >= 2000


@pytest.mark.parametrize(("engine", "together"), [("vllm", 8), ("trtllm", 8), ("sglang", 2)])
def test_limits_of_a_flag_are_of_each_group_or_of_all_as_the_engine_means(
    engine: str, together: int
) -> None:
    """Four groups with sequences of their own and a limit of two sequences."""
    found = known(row(case=replace(GROUPS, engine=engine), batch=8.0, max_sequences=2))
    assert found.server.max_sequences == together


def test_networks_of_one_shape_are_left_out_together() -> None:
    case = replace(CASE, network="deepseek-r1", gpu="h200-sxm", layout=Layout(tp=8))
    one, other = (
        known(row(case=replace(case, network=name))) for name in ("deepseek-r1", "deepseek-v3")
    )
    assert one.group == other.group
    assert one.kind == "latent"


def test_clients_are_those_of_all_replicas_and_none_where_requests_come_by_themselves() -> None:
    assert known(row(batch=4.0, replicas=2.0, devices=2.0)).clients == 8
    assert known(row("offline_max", batch=4.0, requests=30.0)).clients == 30
    assert known(row("offline_max", batch=0.0)).clients == 0
    assert known(row("steady_rate", rate=2.0)).clients == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"batch": 4.0, "requests": 16.0},
        {"batch": 6.0, "lengths": (0.8, 1.0), "requests": 24.0, "max_sequences": 4},
        {"batch": 4.0, "requests": 8.0, "token_budget": 512, "memory_share": 0.6},
        {"batch": 4.0, "requests": 8.0, "replicas": 2.0, "devices": 2.0},
    ],
)
def test_simulate_told_the_settings_of_a_row_gives_its_prediction(changes: dict[str, Any]) -> None:
    each = known(row(**changes))
    compared = each.predicted(shipped_profile(engine("vllm")))
    said = roofline.simulate(**settings(each), with_intervals=False)
    ttft, _, tpot, _ = (line["mean"] for line in said.tables["headline"].rows())
    assert (ttft, tpot) == (compared["ttft_s"], compared["tpot_s"])
