"""Replicas that requests are sent to: as a router that looks at one request after the other."""

from typing import get_args

import numpy as np
import pytest

from roofline.api import parameters
from roofline.api.simulation import spelled
from roofline.errors import InputError
from roofline.records import replace
from roofline.serving.requests import Requests, picked_rows, requests
from roofline.serving.run.routing import (
    ROUTERS,
    ReplicaSchedule,
    ReplicaWork,
    Router,
    routed,
    scheduled,
    turn,
    work_of,
)
from roofline.serving.run.serve import Fleet, OtherReplicas, saturation, sent, serve
from roofline.serving.simulate.prices import step_prices
from roofline.serving.simulate.run import simulate
from roofline.serving.simulate.server import Server
from roofline.serving.traffic.draw import draw
from roofline.serving.traffic.lengths import Lognormal
from roofline.serving.traffic.traffic import Poisson, Traffic
from tests.serving.deployments import on
from tests.serving.simulate.cases import chat

PRICES = step_prices(on(), sequences=64)
SERVER = Server(max_sequences=64, token_budget=2048, kv_tokens=200_000, sharing=True)
BLOCK = 16


def reference(made: Requests, works: list[ReplicaWork], *, prefix: bool) -> list[int]:
    """Replica of each request: load and pages of each replica looked at one at a time."""
    head: dict[int, int] = {}
    for row, after in enumerate(made.after.tolist()):
        head[row] = row if after < 0 else head[after]
    whole: dict[int, list[float]] = {}
    for row in range(len(made)):
        tokens, count = whole.get(head[row], [0.0, 0.0])
        whole[head[row]] = [tokens + float(made.prompt[row]), count + 1]
    replicas = len(works)
    free = [0.0] * replicas  # when each would have worked off what it was sent
    pages: list[list[int]] = [[] for _ in range(replicas)]  # used last at the end
    went: dict[int, int] = {}
    for row in whole:
        now = float(made.arrival[row])
        blocks = made.hashes[made.prefix[row] : made.prefix[row + 1]].tolist()
        ends = []
        for place in range(replicas):
            hits = 0
            while prefix and hits < len(blocks) and blocks[hits] in pages[place]:
                hits += 1
            tokens = max(whole[row][0] - hits * made.block, 1.0)
            wait = max(free[place] - now, 0.0)
            answer = float(made.output.mean()) * works[place].decode_s
            ends.append(wait + tokens * works[place].prefill_s + whole[row][1] * answer)
        best = min(range(replicas), key=lambda place: ends[place])
        free[best] = now + ends[best]
        went[row] = best
        if prefix:
            for block in blocks[::-1]:
                if block in pages[best]:
                    pages[best].remove(block)
                pages[best].append(block)
            pages[best] = pages[best][-(works[best].room // made.block) :]
    return [went[head[row]] for row in range(len(made))]


def traced(seed: int) -> Requests:
    """Requests of a few topics, some of which follow others."""
    random = np.random.default_rng(seed)
    count = int(random.integers(5, 60))
    topics, sizes = random.integers(0, 5, count), random.integers(1, 12, count)
    after = [
        int(random.integers(0, n)) if n and random.random() < 0.2 else -1 for n in range(count)
    ]
    return requests(
        np.sort(random.random(count) * 20.0),
        sizes * BLOCK + random.integers(1, BLOCK, count),
        64,
        after=after,
        blocks=[[t * 100 + n for n in range(s)] for t, s in zip(topics, sizes, strict=True)],
        block=BLOCK,
    )


@pytest.mark.parametrize("prefix", [False, True])
@pytest.mark.parametrize("part", range(4))
def test_random_traces_go_where_a_router_step_by_step_sends_them(part: int, prefix: bool) -> None:
    for seed in range(part, 120, 4):
        made, random = traced(seed), np.random.default_rng(1000 + seed)
        # Binary fractions, so that both add up to the same numbers.
        made = replace(made, arrival=np.round(made.arrival * 64.0) / 64.0)
        # Half of them of one kind, half of up to three.
        kinds = random.integers(0, 1 + 2 * (seed % 2), int(random.integers(1, 5)))
        rooms = random.choice([0, 3, 20, 1000], 3) * BLOCK + BLOCK
        works = [
            ReplicaWork(2.0 ** (-7 - k), 2.0 ** (-9 + k), int(rooms[k])) for k in kinds.tolist()
        ]
        router: Router = "prefix" if prefix else "load"
        assert routed(made, works, router).tolist() == reference(made, works, prefix=prefix), seed


def test_loads_decide_better_than_turns_where_lengths_differ() -> None:
    lengths = Lognormal.of_mean(400.0, 1600.0, 30_000), Lognormal.of_mean(60.0, 100.0, 400)
    made = draw(Traffic(*lengths, arrivals=Poisson(40.0), requests=1500), 7)
    fleet = Fleet(PRICES, SERVER, 4)
    turns, load = (serve(replace(fleet, router=router), made) for router in ("turns", "load"))
    assert len(load) == len(turns) == 1500
    late = [np.percentile(each.first_token - each.arrival, 90) for each in (turns, load)]
    assert late[1] < 0.6 * late[0]


def test_requests_of_a_topic_find_their_prefix_where_they_were_sent_before() -> None:
    random = np.random.default_rng(3)
    count, topics = 400, random.integers(0, 12, 400)
    made = requests(
        np.sort(random.random(count) * 100.0),
        np.full(count, 64 * BLOCK + 8),
        20,
        blocks=[[int(topic) * 100 + page for page in range(64)] for topic in topics],
        block=BLOCK,
    )
    few = replace(SERVER, kv_tokens=8 * 64 * BLOCK)  # of 12 topics
    found = [
        serve(Fleet(PRICES, few, 4, router=router), made).cached.sum() / made.prompt.sum()
        for router in ("turns", "load", "prefix")
    ]
    assert found[2] > 1.3 * max(found[:2])


def test_a_single_replica_has_no_choice_and_words_are_those_of_the_question() -> None:
    made = traced(1)
    for router in ROUTERS:
        assert set(routed(made, [work_of(PRICES, SERVER, made)], router).tolist()) == {0}
    assert get_args(parameters.Router) == ROUTERS
    turns = routed(made, [ReplicaWork(0.0, 0.0, 0)] * 3, "turns")
    heads = np.flatnonzero(made.after < 0)
    assert turns[heads].tolist() == [n % 3 for n in range(len(heads))]


def test_work_is_that_of_the_prices() -> None:
    made = requests(np.arange(4.0), 1024, 128)
    work = work_of(PRICES, SERVER, made)
    whole = float(
        np.interp(1024.0, PRICES.tokens, PRICES.others_s[0])
        + 1024.0 * np.interp(1024.0, PRICES.chunks, PRICES.attention_s[:, 0])
    )
    assert work.prefill_s * 1024 == pytest.approx(whole)
    assert work.room == 200_000


@pytest.mark.parametrize("seed", range(20))
def test_a_schedule_sends_in_turn_to_those_that_serve(seed: int) -> None:
    random = np.random.default_rng(seed)
    changes = np.concatenate([[0.0], np.sort(random.uniform(1.0, 50.0, 5))])
    counts = random.integers(1, 6, 6)
    made = requests(np.sort(random.uniform(0.0, 60.0, 200)), 100, 10)
    chosen = scheduled(made, ReplicaSchedule(changes, counts, 0.0))
    for place, (arrival, replica) in enumerate(zip(made.arrival, chosen, strict=True)):
        serving = [n for start, n in zip(changes, counts, strict=True) if start <= arrival][-1]
        assert replica == place % serving


def test_replicas_side_by_side_serve_as_one_after_the_other() -> None:
    made = chat(600, 40.0)
    schedule = ReplicaSchedule(np.array([0.0, 5.0, 9.0]), np.array([1, 4, 2]), 30.0)
    server = replace(SERVER, sharing=False)
    fleet = Fleet(PRICES, server, 4, schedule=schedule)
    alone, beside = serve(fleet, made), serve(replace(fleet, workers=3), made)
    where = scheduled(made, schedule)
    for name in ("number", "arrival", "admitted", "first_token", "finish"):
        assert getattr(alone, name).tolist() == getattr(beside, name).tolist()
    assert alone.totals == beside.totals
    for replica in range(4):
        rows = np.flatnonzero(where == replica)
        own = simulate(picked_rows(made, rows), fleet.prices, server)
        assert own.finish.tolist() == alone.finish[rows].tolist()


@pytest.mark.parametrize("router", ["turns", "load", "prefix"])
def test_unlike_replicas_serve_what_a_router_step_by_step_sends_them(router: Router) -> None:
    """Each as it serves alone what is sent to it, at the prices and in the room of its kind."""
    slow = step_prices(on(device="l40s"), sequences=16)
    small = replace(SERVER, max_sequences=16, kv_tokens=40_000)
    kinds = [(PRICES, SERVER), (PRICES, SERVER), (slow, small), (slow, small), (slow, small)]
    for seed in range(10):
        made = traced(seed)
        works = [work_of(*kind, made) for kind in kinds]
        assert works[2].prefill_s > 1.5 * works[0].prefill_s
        where = np.array(
            [n % 5 for n in turn(made).tolist()]
            if router == "turns"
            else reference(made, works, prefix=router == "prefix")
        )
        others = (OtherReplicas(on(device="l40s"), slow, small, 3),)
        fleet = Fleet(PRICES, SERVER, 5, router=router, others=others)
        assert sent(fleet, made).tolist() == where.tolist()
        served = serve(fleet, made)
        for replica, kind in enumerate(kinds):
            rows = np.flatnonzero(where == replica)
            if len(rows):
                alone = simulate(picked_rows(made, rows), *kind)
                assert alone.finish.tolist() == served.finish[rows].tolist()
                assert alone.cached.tolist() == served.cached[rows].tolist()


def test_unlike_replicas_are_full_when_the_slowest_is_or_by_load_when_all_are() -> None:
    made, slow = chat(400, 10.0), step_prices(on(device="l40s"), sequences=64)
    other = OtherReplicas(on(device="l40s"), slow, SERVER, 3)
    fleet = Fleet(PRICES, SERVER, 5, others=(other,))
    fast, low = (saturation(Fleet(prices, SERVER), made) for prices in (PRICES, slow))
    assert low < fast
    assert saturation(fleet, made) == pytest.approx(5 * low)
    assert saturation(replace(fleet, router="load"), made) == pytest.approx(2 * fast + 3 * low)


def test_replicas_beside_others_are_spelled_with_gpu_layout_and_number() -> None:
    wrong = ("l40s x0", "l40s x00", "l40s x9999999", "l40s x" + "9" * 5000)
    for text in (*wrong, "", "l40s,", "l40s tp1 tp2", "x3 l40s x2 x1"):
        with pytest.raises(InputError, match="beside others"):
            spelled(text)
    assert spelled("mi300x tp2-pp2 x 2,b200-sxm") == (
        ("mi300x", "tp2-pp2", 2),
        ("b200-sxm", "tp1", 1),
    )
