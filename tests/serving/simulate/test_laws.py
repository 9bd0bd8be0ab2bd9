"""Laws of any server, whatever its policy."""

import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest

from roofline.cost.engine_costs import EngineCosts
from roofline.records import replace
from roofline.serving.requests import Requests
from roofline.serving.simulate.prices import StepPrices, step_prices
from roofline.serving.simulate.run import simulate, stream
from roofline.serving.simulate.server import BATCHED, Server
from tests.serving.deployments import on
from tests.serving.simulate.cases import chat, prices, requests
from tests.serving.simulate.reference_prices import step_s
from tests.serving.simulate.test_reference import case

SEEDS = range(60)
TABLE = step_prices(on(), sequences=64)
CHAT = Server(max_sequences=64, token_budget=2048, kv_tokens=450_000)


def times(table: StepPrices, factor: float) -> StepPrices:
    """The same machine, so much slower in everything."""
    names = ("decode_s", "window_s", "alone_s", "others_s", "head_s", "attention_s")
    return replace(table, **{name: getattr(table, name) * factor for name in names})


@pytest.mark.parametrize("clients", [1, 5, 40])
@pytest.mark.parametrize("policy", ["continuous", "chunked", "packed"])
def test_requests_in_the_system_are_their_rate_times_their_latency(
    policy: str, clients: int
) -> None:
    """Little's law, where it is known how many there are: one of each client until they end."""
    given = requests(0.0, chat(2000, 1.0).prompt, 150)
    server = replace(CHAT, policy=policy, max_sequences=16)  # type: ignore[arg-type]
    served = simulate(given, TABLE, server, concurrency=clients)
    rate = len(served) / served.totals.makespan_s
    # Clients that are done are missing at the end, for no longer than a request takes.
    missing = clients * served.latency_s.max() / served.totals.makespan_s
    mean = rate * served.latency_s.mean()
    assert clients - missing <= mean <= clients * (1 + 1e-12)


def test_tokens_in_the_cache_are_their_rate_times_their_stay() -> None:
    """The same for tokens, counted by steps: a prompt stays for one step of each of its tokens."""
    given = chat(2000, 25.0)
    server = replace(CHAT, policy="continuous", token_budget=0)
    totals = simulate(given, TABLE, server).totals
    stay = (given.output * given.prompt + given.output * (given.output - 1) // 2).sum()
    assert totals.kv_stored_tokens * totals.steps == pytest.approx(stay, rel=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_token_is_made_once_and_in_order(seed: int) -> None:
    given, table, setting, driven = case(seed)
    served = simulate(given, table, setting, **driven)
    assert served.number.tolist() == list(range(len(given)))
    for earlier, later in (
        (served.arrival, served.admitted),
        (served.admitted, served.first_token),
        (served.first_token, served.finish),
    ):
        assert (earlier <= later + 1e-12).all()
    totals = served.totals
    if setting.policy == "packed":
        assert totals.decoded_tokens == (given.output - 1).sum()
        assert totals.prefilled_tokens == given.prompt.sum()
    if setting.policy not in BATCHED:
        # Decode makes every token but those that a prefill ends with: the first, and one more
        # for each time that a sequence was computed again.
        again = totals.decoded_tokens - (given.output - 1).sum()
        assert -totals.preemptions <= again <= 0
        if not totals.preemptions:
            assert again == 0
            known = given.prompt.sum() if driven.get("transferred") else served.cached.sum()
            assert totals.prefilled_tokens == given.prompt.sum() - known


@pytest.mark.parametrize("seed", SEEDS)
def test_the_cache_never_holds_more_than_there_is(seed: int) -> None:
    given, table, setting, driven = case(seed)
    totals = simulate(given, table, setting, **driven).totals
    assert totals.kv_peak_tokens <= setting.kv_tokens
    assert 0 <= totals.kv_stored_tokens <= totals.kv_held_tokens <= totals.kv_peak_tokens
    waste = totals.kv_reserved_tokens + totals.kv_internal_tokens
    assert waste == pytest.approx(totals.kv_held_tokens - totals.kv_stored_tokens, abs=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_machine_twice_as_slow_takes_twice_as_long_for_half_the_load(seed: int) -> None:
    """Scaling every price and every gap: a theorem for all policies."""
    given, table, setting, driven = case(seed)
    table = replace(table, engine=EngineCosts())
    one = simulate(given, table, setting, **driven)
    slower = replace(given, arrival=given.arrival * 2.0, think=given.think * 2.0)
    doubled = replace(
        setting,
        timeout_s=setting.timeout_s * 2.0,
        swap_s_per_token=setting.swap_s_per_token * 2.0,
    )
    driven = {**driven, "ramp_s": 2.0 * driven.get("ramp_s", 0.0)}
    two = simulate(slower, times(table, 2.0), doubled, **driven)
    np.testing.assert_array_equal(two.finish, one.finish * 2.0)
    np.testing.assert_array_equal(two.first_token, one.first_token * 2.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_faster_machine_is_never_slower_where_one_is_served_at_a_time(seed: int) -> None:
    """In order of arrival, nobody preempted: each finish is the later of two that are not later.

    With batches it is no theorem: who is earlier may meet others, as in any scheduling anomaly.
    """
    random = np.random.default_rng(seed)
    table = prices(random)
    count = 40
    given = requests(
        np.cumsum(random.exponential(3.0, count)),
        random.integers(1, 30, count),
        random.integers(1, 20, count),
    )
    setting = Server(policy="continuous", max_sequences=1)
    slow = simulate(given, table, setting)
    fast = simulate(given, times(table, random.uniform(0.3, 1.0)), setting)
    assert (fast.finish <= slow.finish + 1e-9).all()
    assert (fast.first_token <= slow.first_token + 1e-9).all()


@pytest.mark.parametrize("policy", ["continuous", "chunked"])
@pytest.mark.parametrize("first", ["decode", "prefill"])
def test_who_comes_first_is_admitted_first(policy: str, first: str) -> None:
    setting = replace(CHAT, policy=policy, first=first, max_sequences=8)  # type: ignore[arg-type]
    served = simulate(chat(800, 30.0), TABLE, setting)
    assert (np.diff(served.admitted) >= 0).all()
    assert (np.diff(served.first_token) >= 0).all()


@pytest.mark.slow
def test_an_empty_server_answers_in_the_time_of_the_prompt() -> None:
    given = requests([0.0, 1e4, 2e4], [10, 1000, 2048], [5, 1, 300])
    served = simulate(given, TABLE, CHAT)
    alone = [step_s(TABLE, 0, 0, [(int(p), 0)]) for p in given.prompt]
    np.testing.assert_allclose(served.ttft_s, alone, rtol=1e-9)
    rest = sum(step_s(TABLE, 1, 2048.0 + k, []) for k in range(1, 300))
    assert served.latency_s[2] == pytest.approx(alone[2] + rest, rel=1e-9)


def test_a_priority_goes_before_those_that_wait() -> None:
    one = replace(CHAT, max_sequences=1)
    given = requests([0.0, 0.001, 0.002], 100, 50, priority=[0, 2, 1])
    assert np.argsort(simulate(given, TABLE, one).admitted).tolist() == [0, 2, 1]


def test_clients_never_have_more_requests_than_there_are_clients() -> None:
    served = simulate(requests(0.0, np.full(200, 300), 50), TABLE, CHAT, concurrency=7)
    for at in served.arrival:
        assert ((served.arrival <= at) & (served.finish > at)).sum() <= 7
    assert (served.arrival[:7] == 0).all()
    assert (np.sort(served.finish)[:193] == np.sort(served.arrival)[7:]).all()


def test_the_seed_only_orders_what_comes_at_the_same_time() -> None:
    apart, together = chat(300, 50.0), requests(0.0, np.arange(1, 200), 20)
    one = replace(CHAT, max_sequences=4)
    assert (simulate(apart, TABLE, one, seed=3).finish == simulate(apart, TABLE, one).finish).all()
    first = simulate(together, TABLE, one, seed=3)
    assert (first.finish == simulate(together, TABLE, one, seed=3).finish).all()
    assert (first.finish != simulate(together, TABLE, one, seed=4).finish).any()


def parts(count: int) -> Iterator[Requests]:
    clock = 0.0
    for seed in range(count):
        part = chat(2000, 10.0, seed)
        yield replace(part, arrival=part.arrival + clock)
        clock += float(part.arrival[-1])


def test_a_long_stream_is_served_in_the_memory_of_a_part() -> None:
    tracemalloc.start()
    peaks = [tracemalloc.get_traced_memory()[1] for _ in stream(parts(12), TABLE, CHAT)]
    tracemalloc.stop()
    assert peaks[-1] < 1.2 * peaks[3]


def test_a_prefix_that_is_shared_is_computed_once() -> None:
    system = list(range(1, 9))  # eight blocks that all have in common
    blocks = [[*system, 100 + i] for i in range(20)]
    given = requests(np.arange(20) * 1e-3, 9 * 16 + 5, 40, blocks=blocks, block=16)
    setting = Server(max_sequences=64, sharing=True, token_budget=512, kv_tokens=16_000)
    shared, alone = (simulate(given, TABLE, replace(setting, sharing=s)) for s in (True, False))
    assert shared.cached.tolist() == [0] + [8 * 16] * 19
    saved = alone.totals.prefilled_tokens - shared.totals.prefilled_tokens
    assert saved == 19 * 8 * 16
    assert shared.totals.kv_peak_tokens < 0.5 * alone.totals.kv_peak_tokens


def test_samples_of_one_prompt_write_to_copies_of_its_last_page() -> None:
    given = requests(0.0, [64] * 4, 10, blocks=[[1, 2, 3, 4]] * 4, block=16)
    served = simulate(given, TABLE, Server(max_sequences=64, sharing=True, kv_tokens=4096))
    assert served.cached.tolist() == [0, 63, 63, 63]
    assert served.totals.copied_pages == 3
    assert served.totals.prefilled_tokens == 64 + 3


def test_the_next_turn_finds_the_answer_of_the_last_one() -> None:
    first = [1, 2, 3]
    second = [*first, 4, 5, 6, 7]
    given = requests(
        0.0, [50, 120], [40, 5], after=[-1, 0], think=[0.0, 1.0], blocks=[first, second], block=16
    )
    served = simulate(given, TABLE, Server(max_sequences=64, sharing=True, kv_tokens=4096))
    # 50 + 40 − 1 tokens are cached: five whole pages.
    assert served.cached.tolist() == [0, 80]


def test_regions_of_the_longest_context_waste_most() -> None:
    """Kwon et al. 2023, figure 2: reserved and internal waste before paging."""
    given = chat(500, 40.0)
    whole = int((given.prompt + given.output).max())
    memory = Server(max_sequences=64, token_budget=2048, kv_tokens=40 * whole)
    used = {
        name: simulate(given, TABLE, setting).totals
        for name, setting in {
            "pages": memory,
            "exact": replace(memory, kv="contiguous", region="exact"),
            "power": replace(memory, kv="contiguous", region="power", longest=whole),
            "longest": replace(memory, kv="contiguous", region="longest", longest=whole),
        }.items()
    }
    share = {name: t.kv_stored_tokens / t.kv_held_tokens for name, t in used.items()}
    assert share["pages"] > 0.95 > share["exact"] > share["power"] > share["longest"]
    assert used["exact"].kv_internal_tokens == 0
    assert used["pages"].kv_reserved_tokens == 0
