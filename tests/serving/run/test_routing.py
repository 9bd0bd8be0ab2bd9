"""Replicas that requests are sent to: as a router that looks at one request after the other."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from roofline.api import parameters
from roofline.serving.requests import Requests, picked_rows, requests
from roofline.serving.run.routing import (
    ROUTERS,
    Router,
    Schedule,
    Work,
    routed,
    scheduled,
    work_of,
)
from roofline.serving.run.serve import Fleet, serve
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


def reference(made: Requests, replicas: int, work: Work, *, prefix: bool) -> list[int]:
    """Replica of each request: load and pages of each replica looked at one at a time."""
    head: dict[int, int] = {}
    for row, after in enumerate(made.after.tolist()):
        head[row] = row if after < 0 else head[after]
    whole: dict[int, list[float]] = {}
    for row in range(len(made)):
        tokens, count = whole.get(head[row], [0.0, 0.0])
        whole[head[row]] = [tokens + float(made.prompt[row]), count + 1]
    free = [0.0] * replicas  # when each would have worked off what it was sent
    pages: list[list[int]] = [[] for _ in range(replicas)]  # used last at the end
    answer = float(made.output.mean()) * work.decode_s
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
            ends.append(wait + tokens * work.prefill_s + whole[row][1] * answer)
        best = min(range(replicas), key=lambda place: ends[place])
        free[best] = now + ends[best]
        went[row] = best
        if prefix:
            for block in blocks[::-1]:
                if block in pages[best]:
                    pages[best].remove(block)
                pages[best].append(block)
            pages[best] = pages[best][-(work.room // made.block) :]
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
        work = Work(2.0**-7, 2.0**-9, int(random.choice([0, 3, 20, 1000])) * BLOCK + BLOCK)
        made = replace(made, arrival=np.round(made.arrival * 64.0) / 64.0)
        replicas = int(random.integers(1, 5))
        router: Router = "prefix" if prefix else "load"
        ours = routed(made, replicas, router, work).tolist()
        assert ours == reference(made, replicas, work, prefix=prefix), seed


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
        assert set(routed(made, 1, router, work_of(PRICES, SERVER, made)).tolist()) == {0}
    assert get_args(parameters.Router) == ROUTERS
    turns = routed(made, 3, "turns", Work(0.0, 0.0, 0))
    heads = np.flatnonzero(made.after < 0)
    assert turns[heads].tolist() == [n % 3 for n in range(len(heads))]


def test_work_is_that_of_the_prices() -> None:
    made = requests(np.arange(4.0), 1024, 128)
    work = work_of(PRICES, SERVER, made)
    whole = float(
        np.interp(1024.0, PRICES.tokens, PRICES.others_s)
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
    chosen = scheduled(made, Schedule(changes, counts, 0.0))
    for place, (arrival, replica) in enumerate(zip(made.arrival, chosen, strict=True)):
        serving = [n for start, n in zip(changes, counts, strict=True) if start <= arrival][-1]
        assert replica == place % serving


def test_replicas_side_by_side_serve_as_one_after_the_other() -> None:
    made = chat(600, 40.0)
    schedule = Schedule(np.array([0.0, 5.0, 9.0]), np.array([1, 4, 2]), 30.0)
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
