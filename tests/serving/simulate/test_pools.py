"""Prefill and decode on pools of their own, request by request."""

import numpy as np
import pytest

from roofline.errors import InputError
from roofline.records import replace
from roofline.serving.kv_transfer import transfer
from roofline.serving.pools import PoolSplit, PoolTimes
from roofline.serving.simulate.disaggregated import Handover, InstancePool, disaggregated, handover
from roofline.serving.simulate.prices import step_prices
from roofline.serving.simulate.run import simulate
from roofline.serving.simulate.server import Server
from tests.serving.deployments import on
from tests.serving.simulate.cases import chat, requests
from tests.serving.simulate.reference_prices import step_s

TABLE = step_prices(on(), sequences=64)
PREFILL = Server(policy="continuous", first="prefill", max_sequences=64, token_budget=4096)
DECODE = Server(max_sequences=32)
WIRES = Handover(2e-6, 1e-6, 1e-4)


def pool(server: Server, instances: int = 1) -> InstancePool:
    return InstancePool(TABLE, server, instances)


def test_one_request_takes_prefill_transfer_and_decode() -> None:
    served = disaggregated(requests(0.5, [1000], [100]), pool(PREFILL), pool(DECODE), WIRES)
    prefill = step_s(TABLE, 0, 0, [(1000, 0)])
    decode = sum(step_s(TABLE, 1, 1000.0 + k, []) for k in range(1, 100))
    first = prefill + 1000 * 2e-6 + 1e-4 + step_s(TABLE, 1, 1001.0, [])
    assert served.prefilled[0] == pytest.approx(0.5 + prefill, rel=1e-9)
    assert served.ttft_s[0] == pytest.approx(first, rel=1e-9)
    assert served.transfer_s[0] == pytest.approx(1000 * 2e-6 + 1e-4, rel=1e-9)
    rest = sum(step_s(TABLE, 1, 1000.0 + k, []) for k in range(2, 100))
    assert served.tpot_s[0] == pytest.approx(rest / 99, rel=1e-9)
    assert served.latency_s[0] == pytest.approx(prefill + 1000 * 2e-6 + 1e-4 + decode, rel=1e-9)


def test_of_two_requests_the_second_has_its_first_token_when_there_is_room_for_it() -> None:
    """One sequence at a time: the second decodes when the first has ended."""
    alone = replace(DECODE, max_sequences=1)
    served = disaggregated(requests(0.0, [1000, 800], [5, 3]), pool(PREFILL), pool(alone), WIRES)
    handed = step_s(TABLE, 0, 0, [(1000, 0), (800, 0)]) + 1000 * 2e-6 + 1e-4
    ends = np.cumsum([step_s(TABLE, 1, 1000.0 + k, []) for k in range(1, 5)])
    others = np.cumsum([step_s(TABLE, 1, 800.0 + k, []) for k in range(1, 3)])
    assert served.handed[1] < handed + ends[0]
    expected = handed + np.array([ends[0], ends[-1] + others[0]])
    np.testing.assert_allclose(served.first_token, expected, rtol=1e-9)
    expected = handed + np.array([ends[-1], ends[-1] + others[-1]])
    np.testing.assert_allclose(served.finish, expected, rtol=1e-9)


def test_a_cache_that_comes_during_a_step_decodes_from_the_end_of_the_next() -> None:
    """It is taken in beside the next step, and its own first step is the one after."""
    wires = Handover(send_s_per_token=1e-5)
    served = disaggregated(requests(0.0, [1000, 800], [50, 3]), pool(PREFILL), pool(DECODE), wires)
    start = step_s(TABLE, 0, 0, [(1000, 0), (800, 0)]) + 1000 * 1e-5
    ends = start + np.cumsum([step_s(TABLE, 1, 1000.0 + k, []) for k in range(1, 50)])
    handed = start + 800 * 1e-5
    assert served.handed[1] == pytest.approx(handed, rel=1e-9)
    running = int(np.searchsorted(ends, handed))
    both = step_s(TABLE, 2, 1000.0 + running + 3 + 801.0, [])
    assert served.first_token[0] == pytest.approx(ends[0], rel=1e-9)
    assert served.first_token[1] == pytest.approx(ends[running + 1] + both, rel=1e-9)


def test_the_end_of_a_prefill_does_not_see_the_decode_pool() -> None:
    given = chat(500, 20.0)
    alone = simulate(replace(given, output=np.ones_like(given.output)), TABLE, PREFILL)
    for wires, decode in ((WIRES, 1), (Handover(1e-3, 1e-3, 1.0), 3)):
        served = disaggregated(given, pool(PREFILL), pool(DECODE, decode), wires)
        assert (served.prefilled == alone.first_token).all()


def test_pools_take_as_long_as_the_closed_form_says() -> None:
    """One request at a time: every figure of `PoolTimes` but its mean step."""
    prompt, output, wires = 1000, 40, Handover(2e-6, 1e-6, 1e-4)
    given = requests(0.0, [prompt] * 3, output)
    served = disaggregated(given, pool(PREFILL), pool(DECODE), wires, concurrency=1)
    steps = [step_s(TABLE, 1, 1000.0 + k, []) for k in range(1, output)]
    prefill, mean = step_s(TABLE, 0, 0, [(prompt, 0)]), float(np.mean(steps))
    phases = PoolTimes(output, prefill, prompt * 2e-6 + 1e-4, mean, prefill, 1.0, 0.0, 0.0)
    # The first step is shorter than the mean: its context is.
    assert served.ttft_s == pytest.approx(phases.ttft_s + steps[0] - mean, rel=1e-9)
    assert served.tpot_s == pytest.approx(phases.tpot_s + (mean - steps[0]) / 39, rel=1e-9)
    assert served.latency_s == pytest.approx(phases.latency_s, rel=1e-9)


def test_every_request_is_served_once_on_some_instance_of_each_pool() -> None:
    given = chat(400, 40.0)
    given = replace(given, output=np.where(np.arange(400) % 7 == 0, 1, given.output))
    served = disaggregated(given, pool(PREFILL, 3), pool(DECODE, 4), WIRES)
    assert [len(part) for part in served.prefill] == [134, 133, 133]
    assert sum(len(part) for part in served.decode) == (given.output > 1).sum()
    made = sum(part.totals.decoded_tokens for part in served.decode)
    assert made == (given.output - 1).sum()
    assert (served.arrival <= served.prefilled).all()
    assert (served.prefilled <= served.handed).all()
    assert (served.handed <= served.first_token).all()
    assert (served.first_token <= served.finish).all()
    assert (served.finish[given.output == 1] == served.prefilled[given.output == 1]).all()
    assert (served.finish[given.output == 2] == served.first_token[given.output == 2]).all()
    assert (served.finish > served.first_token)[given.output > 2].all()


def test_wires_carry_one_cache_after_the_other() -> None:
    wires = Handover(send_s_per_token=1e-3, receive_s_per_token=1e-4)
    given = requests(0.0, [200] * 30, 10)
    served = disaggregated(given, pool(PREFILL), pool(DECODE), wires)
    assert (np.diff(np.sort(served.handed)) >= 0.2 - 1e-9).all()


@pytest.mark.slow
@pytest.mark.parametrize(("prefill", "decode"), [(1, 1), (1, 2), (2, 1), (3, 2)])
@pytest.mark.parametrize("slow", [0.0, 1e-4])
def test_an_overloaded_split_serves_what_the_closed_form_says(
    prefill: int, decode: int, slow: float
) -> None:
    """`roofline.serving.pools` says the rate of each side and of the wires."""
    prompt, output, count = 512, 129, 6000
    server = replace(PREFILL, max_sequences=1)
    given = requests(0.0, [prompt] * count, output)
    wires = Handover(send_s_per_token=slow)
    served = disaggregated(given, pool(server, prefill), pool(DECODE, decode), wires)
    step = float(np.mean([step_s(TABLE, 32, 32.0 * (prompt + k), []) for k in range(1, output)]))
    prefill_s = step_s(TABLE, 0, 0, [(prompt, 0)])
    answer_s = step * (output - 1) / 32
    phases = PoolTimes(output, prefill_s, 0.0, step, prefill_s, answer_s, slow * prompt, 0.0)
    ends = np.sort(served.finish)
    low, high = count // 4, count * 3 // 4
    rate = (high - low) / (ends[high] - ends[low])
    assert rate == pytest.approx(PoolSplit(prefill, decode).requests_per_s(phases), rel=0.02)


def test_more_clients_than_requests_send_all_at_once() -> None:
    given = requests(0.0, [300, 800, 200] * 20, 40)
    some, all_ = (
        disaggregated(given, pool(PREFILL, 2), pool(DECODE), WIRES, concurrency=clients)
        for clients in (100, 60)
    )
    burst = disaggregated(given, pool(PREFILL, 2), pool(DECODE), WIRES)
    for each in (some, all_):
        assert (each.finish == burst.finish).all()


def test_a_client_asks_when_it_is_answered() -> None:
    given = requests(0.0, [300, 800, 200] * 4, 40)
    served = disaggregated(given, pool(PREFILL), pool(DECODE), WIRES, concurrency=1)
    assert served.arrival[0] == 0.0
    assert served.arrival[1:] == pytest.approx(served.finish[:-1])
    alone = disaggregated(requests(0.0, [300], 40), pool(PREFILL), pool(DECODE), WIRES)
    assert served.latency_s[0] == pytest.approx(alone.latency_s[0])


@pytest.mark.slow
@pytest.mark.parametrize(("prefill", "decode", "clients"), [(1, 1, 24), (2, 1, 48), (1, 3, 20)])
def test_a_closed_loop_has_as_many_requests_in_flight_as_clients(
    prefill: int, decode: int, clients: int
) -> None:
    rng = np.random.default_rng(0)
    given = requests(0.0, rng.integers(200, 900, 20 * clients), rng.integers(20, 200, 20 * clients))
    served = disaggregated(
        given, pool(PREFILL, prefill), pool(DECODE, decode), WIRES, concurrency=clients
    )
    times = np.linspace(0.1, 0.8, 50) * served.finish.max()
    there = [(served.arrival <= t).sum() - (served.finish <= t).sum() for t in times]
    assert np.mean(there) == pytest.approx(clients, rel=0.02)
    one = disaggregated(
        given, pool(PREFILL, 4 * prefill), pool(DECODE, 4 * decode), WIRES, concurrency=clients
    )
    assert one.latency_s.mean() < served.latency_s.mean()


def test_no_clients_are_refused() -> None:
    given = requests(0.0, [300] * 4, 40)
    with pytest.raises(InputError, match="concurrency is -1"):
        disaggregated(given, pool(PREFILL), pool(DECODE), WIRES, concurrency=-1)


def test_wires_between_deployments_are_those_of_the_closed_form() -> None:
    one, two = on(node="hgx-h100-8"), on(tp=2, node="hgx-h100-8")
    wires = handover(one, two, 2048, "link")
    whole = transfer(one, two, 2048, 1, "link")
    ends = max(wires.send_s_per_token, wires.receive_s_per_token)
    assert 2048 * ends + wires.latency_s == pytest.approx(whole.seconds)


def test_what_cannot_be_is_refused() -> None:
    talk = requests(0.0, [10, 10], 5, after=[-1, 0])
    with pytest.raises(InputError, match="conversations"):
        disaggregated(talk, pool(PREFILL), pool(DECODE), WIRES)
    with pytest.raises(InputError, match="a pool of 0 instances"):
        pool(PREFILL, 0)
