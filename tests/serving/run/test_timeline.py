"""A timeline: every request where it waits, prefills and decodes, no two on top of each other."""

from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.serving.run import tables
from roofline.serving.run.serve import Fleet, serve
from roofline.serving.run.timeline import events, lanes
from roofline.serving.simulate.prices import step_prices
from roofline.serving.simulate.server import Server
from roofline.serving.traffic.draw import draw
from roofline.serving.traffic.lengths import Uniform
from roofline.serving.traffic.traffic import Poisson, Traffic
from tests.serving.deployments import on

SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)), min_size=1, max_size=25)


@given(SPANS)
def test_spans_of_a_row_do_not_overlap_and_no_row_is_wasted(spans: list[tuple[int, int]]) -> None:
    start = np.array([float(a) for a, _ in spans])
    end = np.array([float(a + b) for a, b in spans])
    rows = lanes(start, end)
    by_row = defaultdict(list)
    for a, b, row in zip(start, end, rows, strict=True):
        by_row[row].append((a, b))
    for several in by_row.values():
        assert all(before[1] <= after[0] for before, after in pairwise(sorted(several)))
    most = max(int(((start < t) & (end > t)).sum()) for t in np.arange(0.5, 45))
    assert sorted(by_row) == list(range(most))


def test_events_are_the_times_of_the_requests() -> None:
    prices = step_prices(on(), sequences=8, longest=2048)
    server = Server(token_budget=512, max_sequences=8, kv_tokens=50_000)
    made = draw(Traffic(Uniform(50, 500), Uniform(1, 40), Poisson(40.0), requests=60), 1)
    served = serve(Fleet(prices, server), made)
    every = list(events(tables.requests(served)))
    spent: dict[str, float] = defaultdict(float)
    for event in every:
        if event["ph"] == "X":
            assert event["dur"] > 0
            spent[event["name"]] += event["dur"] / 1e6
    assert spent["wait"] == pytest.approx(served.queue_s.sum())
    assert spent["wait"] + spent["prefill"] == pytest.approx(served.ttft_s.sum())
    assert spent["decode"] == pytest.approx((served.finish - served.first_token).sum())
    counters = defaultdict(list)
    for event in every:
        if event["ph"] == "C":
            counters[event["name"]].append((event["ts"], event["args"]["requests"]))
    for levels in counters.values():
        assert levels == sorted(levels)
        assert levels[-1][1] == 0
        assert min(level for _, level in levels) == 0
    assert max(level for _, level in counters["running"]) <= 8
