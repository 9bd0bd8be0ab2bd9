"""Prefixes that wait on the host: by hand, and as laws."""

import numpy as np
import pytest

from roofline.errors import InputError
from roofline.records import replace
from roofline.serving.requests import Requests
from roofline.serving.simulate.prices import step_prices
from roofline.serving.simulate.run import simulate
from roofline.serving.simulate.served import ServedRequests
from roofline.serving.simulate.server import Server, with_cache
from tests.serving.deployments import on
from tests.serving.simulate.cases import requests

TABLE = step_prices(on(), sequences=8)
# Room for one prompt of 16 pages and its answer, but not for two.
TIGHT = Server(max_sequences=8, token_budget=2048, kv_tokens=20 * 16, sharing=True)
LARGE = replace(TIGHT, tier_tokens=2**30)
PROMPT = 16 * 16


def turns(*topics: int) -> Requests:
    """One request after the other, each with the prefix of its topic."""
    blocks = [[topic * 100 + page for page in range(16)] for topic in topics]
    return requests([0.0] * len(topics), PROMPT + 4, 3, blocks=blocks, block=16)


def one_by_one(given: Requests, server: Server) -> ServedRequests:
    return simulate(given, TABLE, server, concurrency=1)


def test_what_left_the_device_comes_back_from_the_host() -> None:
    # Topic 1 leaves when 2 comes, and comes back, as does 2: 16 pages each time.
    given = turns(1, 2, 1, 2)
    served = one_by_one(given, LARGE)
    assert served.cached.tolist() == [0, 0, PROMPT, PROMPT]
    # By then some of the pages that were used last are still on the device.
    bare = one_by_one(given, TIGHT)
    kept = bare.cached.tolist()
    assert served.totals.loaded_tokens == 2 * PROMPT - sum(kept)
    saved = bare.totals.prefilled_tokens - served.totals.prefilled_tokens
    assert saved == served.totals.loaded_tokens


def test_loading_takes_as_long_as_the_link_does() -> None:
    given, link = turns(1, 2, 1, 2), 1e-6
    free = one_by_one(given, LARGE).totals
    linked = one_by_one(given, replace(LARGE, swap_s_per_token=link)).totals
    assert linked.busy_s == pytest.approx(free.busy_s + link * free.loaded_tokens)


def test_the_host_drops_what_was_used_longest_ago() -> None:
    # It holds one topic: of 1, 2, 3, 2, 1 only 2 is there when it is asked for again.
    small = replace(LARGE, tier_tokens=PROMPT)
    served = one_by_one(turns(1, 2, 3, 2, 1), small)
    assert served.cached[3] == PROMPT
    assert served.cached[4] < PROMPT


@pytest.mark.parametrize("seed", range(20))
def test_without_room_on_the_host_there_is_no_tier(seed: int) -> None:
    random = np.random.default_rng(seed)
    given = turns(*random.integers(0, 4, 12).tolist())
    bare = simulate(given, TABLE, TIGHT, concurrency=3)
    none = simulate(given, TABLE, replace(TIGHT, tier_tokens=15), concurrency=3)
    np.testing.assert_array_equal(bare.finish, none.finish)
    assert none.totals == bare.totals


@pytest.mark.parametrize("seed", range(20))
def test_a_tier_behind_an_endless_link_is_never_slower(seed: int) -> None:
    random = np.random.default_rng(seed)
    given = turns(*random.integers(0, 6, 20).tolist())
    bare, tier = one_by_one(given, TIGHT), one_by_one(given, LARGE)
    assert (tier.finish <= bare.finish).all()
    assert (tier.cached >= bare.cached).all()
    # And every topic is computed once.
    topics = len(set(given.hashes[given.prefix[:-1]].tolist()))
    whole = int(given.prompt.sum())
    assert tier.totals.prefilled_tokens == whole - (20 - topics) * PROMPT


def test_a_slow_link_is_worse_than_computing_again() -> None:
    given = turns(1, 2, 1, 2)
    slow = one_by_one(given, replace(LARGE, swap_s_per_token=1.0)).totals
    assert slow.makespan_s > one_by_one(given, TIGHT).totals.makespan_s


def test_room_is_that_of_bytes_over_all_devices() -> None:
    one = with_cache(on(), Server(sharing=True), context=1000, tier_bytes=1e9)
    # 32 layers · 2 · 8 heads · 128 · 2 bytes a token.
    assert one.tier_tokens == int(1e9 / 131072)
    two = with_cache(on(tp=2), Server(sharing=True), context=1000, tier_bytes=1e9)
    assert two.tier_tokens == one.tier_tokens


def test_a_tier_needs_prefixes() -> None:
    with pytest.raises(InputError, match="nobody shares"):
        Server(tier_tokens=16)


# --- drives behind the host

DEEP = replace(LARGE, tier_tokens=PROMPT, disk_tokens=2**30)


def test_what_left_the_host_comes_back_from_its_drives() -> None:
    # The host holds one topic: of 1, 2, 3 the first has left it when it is asked for again.
    given = turns(1, 2, 3, 2, 1)
    served = one_by_one(given, DEEP)
    assert served.cached.tolist() == [0, 0, 0, PROMPT, PROMPT]
    shallow = one_by_one(given, replace(DEEP, disk_tokens=0))
    assert shallow.totals.read_tokens == 0 < served.totals.read_tokens
    assert served.totals.read_tokens <= served.totals.loaded_tokens
    computed = shallow.totals.prefilled_tokens - served.totals.prefilled_tokens
    assert computed == served.totals.loaded_tokens - shallow.totals.loaded_tokens


def test_each_tier_is_as_fast_as_its_link() -> None:
    given, host, disk = turns(1, 2, 3, 2, 1), 1e-6, 1e-5
    free = one_by_one(given, DEEP).totals
    slow = replace(DEEP, swap_s_per_token=host, disk_s_per_token=disk)
    linked = one_by_one(given, slow).totals
    took = host * (free.loaded_tokens - free.read_tokens) + disk * free.read_tokens
    assert linked.busy_s == pytest.approx(free.busy_s + took)


@pytest.mark.parametrize("seed", range(20))
def test_host_and_drives_find_what_a_larger_host_does(seed: int) -> None:
    # What was used last is on the host, the rest below it: together one list of the last used.
    random = np.random.default_rng(seed)
    given = turns(*random.integers(0, 7, 24).tolist())
    for below in (1, 2, 4):
        both = replace(LARGE, tier_tokens=PROMPT, disk_tokens=below * PROMPT)
        one = replace(LARGE, tier_tokens=(1 + below) * PROMPT)
        assert one_by_one(given, both).cached.tolist() == one_by_one(given, one).cached.tolist()


def test_drives_need_the_host_before_them() -> None:
    with pytest.raises(InputError, match="none in the host's memory before them"):
        replace(TIGHT, disk_tokens=1000)
