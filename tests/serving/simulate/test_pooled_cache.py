"""A pool of prefixes that replicas share: by hand, and against replicas one step at a time."""

import os

import numpy as np
import pytest

from roofline.errors import InputError
from roofline.records import replace
from roofline.serving.requests import Requests, picked_rows
from roofline.serving.run.serve import Fleet, serve
from roofline.serving.simulate.prices import step_prices
from roofline.serving.simulate.run import simulate, simulate_pooled
from roofline.serving.simulate.server import BATCHED, Server, with_cache
from tests.serving.deployments import on
from tests.serving.simulate.cases import prices, requests, server, some_engine, trace
from tests.serving.simulate.reference import pooled_reference
from tests.serving.simulate.test_reference import same

TABLE = step_prices(on(), sequences=8)
PROMPT = 16 * 16
# Room for one prompt of 16 pages and its answer, but not for two.
TIGHT = Server(max_sequences=8, token_budget=2048, kv_tokens=20 * 16, sharing=True)
POOL = replace(TIGHT, disk_tokens=2**30, pooled=True)
TRACES = int(os.environ.get("ROOFLINE_TRACES", "150"))


def turns(*topics: int) -> Requests:
    """One request a minute, each with the prefix of its topic; replicas take turns."""
    blocks = [[topic * 100 + page for page in range(16)] for topic in topics]
    times = [60.0 * place for place in range(len(topics))]
    return requests(times, PROMPT + 4, 3, blocks=blocks, block=16)


def test_what_a_replica_computed_the_others_load() -> None:
    given = turns(1, 1, 2, 1)
    alone = serve(Fleet(TABLE, replace(TIGHT), 2), given)
    shared = serve(Fleet(TABLE, POOL, 2), given)
    # Alone the second replica has topic 1 from its own request; the first, topic 2 is new.
    assert alone.cached.tolist() == [0, 0, 0, PROMPT]
    assert shared.cached.tolist() == [0, PROMPT, 0, PROMPT]
    assert shared.totals.read_tokens == PROMPT
    assert alone.totals.prefilled_tokens - shared.totals.prefilled_tokens == PROMPT


def test_loading_takes_as_long_as_the_network_does() -> None:
    given, link = turns(1, 1, 2, 2, 3, 1), 1e-5
    free = serve(Fleet(TABLE, POOL, 3), given).totals
    slow = serve(Fleet(TABLE, replace(POOL, disk_s_per_token=link), 3), given).totals
    assert free.read_tokens == slow.read_tokens > 0
    assert slow.busy_s == pytest.approx(free.busy_s + link * free.read_tokens)


def test_a_pool_drops_what_was_used_longest_ago() -> None:
    small = replace(POOL, disk_tokens=2 * PROMPT)
    # Of 1, 2, 3 the pool keeps two; 1 has left it when the fourth replica asks.
    found = serve(Fleet(TABLE, small, 4), turns(1, 2, 3, 1)).cached.tolist()
    assert found == [0, 0, 0, 0]
    # A topic that was read is the newest: 2 leaves in place of 1.
    found = serve(Fleet(TABLE, small, 5), turns(1, 2, 1, 3, 1)).cached.tolist()
    assert found == [0, 0, PROMPT, 0, PROMPT]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_random_traces_are_served_as_by_replicas_one_step_at_a_time(part: int) -> None:
    compared = read = 0
    for seed in range(part, TRACES, 4):
        random = np.random.default_rng(seed)
        block = int(random.choice([1, 2, 4, 7]))
        setting = server(random, block)
        if setting.policy in BATCHED:
            continue
        room = int(random.choice([2 * block, 60, 2**30]))
        setting = replace(setting, kv="pages", sharing=True, disk_tokens=room, pooled=True)
        replicas = int(random.integers(2, 5))
        given = [trace(random, int(random.integers(1, 15)), block) for _ in range(replicas)]
        clients = [0] * replicas
        if random.random() < 0.3:
            clients = random.integers(1, 5, replicas).tolist()
            given = [replace(own, arrival=np.zeros(len(own))) for own in given]
        table = prices(random, some_engine(random))
        ours = simulate_pooled(given, table, setting, concurrency=clients)
        theirs = pooled_reference(given, table, setting, clients)
        for mine, other in zip(ours, theirs, strict=True):
            try:
                same(mine, other)
            except AssertionError as error:
                raise AssertionError(f"seed {seed}: {setting}") from error
            read += other.read
        compared += 1
    assert compared > TRACES // 20, "few traces were compared"
    assert read > 0


def test_a_pool_without_prefixes_changes_nothing() -> None:
    given = requests(np.arange(40) * 0.01, 300, 20)
    for replicas in (1, 3):
        with_pool, without = (serve(Fleet(TABLE, each, replicas), given) for each in (POOL, TIGHT))
        assert with_pool.finish.tolist() == pytest.approx(without.finish.tolist(), rel=1e-12)
        assert with_pool.totals.steps == without.totals.steps


def test_one_replica_has_the_pool_for_itself() -> None:
    given = turns(1, 2, 1, 3, 2)
    alone, fleet = simulate(given, TABLE, POOL), serve(Fleet(TABLE, POOL), given)
    (both,) = simulate_pooled([given], TABLE, POOL, concurrency=[0])
    assert alone.cached.tolist() == both.cached.tolist() == fleet.cached.tolist()
    assert alone.finish.tolist() == both.finish.tolist()
    assert picked_rows(given, np.arange(5)).hashes.tolist() == given.hashes.tolist()


def test_room_is_that_of_bytes_over_all_devices_and_the_rate_that_of_the_network() -> None:
    deployment = on(tp=2)
    assert deployment.node.network is not None
    made = with_cache(deployment, Server(sharing=True), context=1000, pool_bytes=1e12)
    assert made.pooled
    # 8 kv heads x 128 x 2 x 2 bytes x 32 layers
    assert made.disk_tokens == int(1e12 / 131072)
    rate = deployment.node.network.rate_between_nodes
    assert made.disk_s_per_token == pytest.approx(131072 / 2 / rate)


def test_a_pool_beside_drives_or_without_prefixes_is_refused() -> None:
    with pytest.raises(InputError, match="beside drives"):
        with_cache(on(), Server(sharing=True), context=9, disk_bytes=1e9, pool_bytes=1e9)
    with pytest.raises(InputError, match="that nobody shares"):
        Server(disk_tokens=1000, pooled=True)
    with pytest.raises(InputError, match="no room for a page"):
        Server(sharing=True, disk_tokens=15, page=16, pooled=True)
