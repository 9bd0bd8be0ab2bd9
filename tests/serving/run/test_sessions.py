"""Sessions of a run: parts of their time against a walk of all paths, what a larger cache buys."""

from typing import Any

import numpy as np
import pytest

import roofline
from roofline.errors import InputError
from roofline.records import replace
from roofline.serving.run.sessions import by_place, paths, places
from roofline.serving.simulate.prices import step_prices
from roofline.serving.simulate.run import simulate
from roofline.serving.simulate.server import Server
from roofline.serving.traffic.agents import requests_per_session
from roofline.serving.traffic.draw import draw
from roofline.serving.traffic.presets import traffic_named
from roofline.serving.traffic.traffic import Poisson
from tests.serving.deployments import on
from tests.serving.simulate.cases import requests
from tests.serving.traffic.test_agents import AGENTS

TABLE = step_prices(on(), sequences=32)
SERVER = Server(max_sequences=32, token_budget=2048, kv_tokens=2**19, sharing=True)


def test_parts_add_up_along_the_longest_of_all_paths() -> None:
    given = draw(replace(AGENTS, requests=250), 1)
    served = simulate(given, TABLE, SERVER)
    found = paths(given, served)
    whole = found.away_s + found.queue_s + found.prefill_s + found.decode_s
    assert whole == pytest.approx(found.session_s)

    # Of every path through a session, the busy time and the waits: the longest is its time.
    def longest(row: int) -> float:
        own = float(given.think[row] + served.finish[row] - served.arrival[row])
        earlier = [int(given.after[row])] if given.after[row] >= 0 else []
        earlier += np.flatnonzero(given.joins == row).tolist()
        return own + max(map(longest, earlier), default=0.0)

    starts = np.flatnonzero(given.after < 0)
    for session, (start, stop) in enumerate(zip(starts, [*starts[1:], len(given)], strict=True)):
        rows = range(start, stop)
        assert found.requests[session] == stop - start
        assert found.session_s[session] == pytest.approx(max(map(longest, rows)))
        assert found.session_s[session] == pytest.approx(
            max(served.finish[row] for row in rows) - served.arrival[start]
        )


def test_without_branches_all_requests_are_on_the_path() -> None:
    given = requests(0.0, 100, 20, after=[-1, 0, 1], think=[0.0, 3.0, 4.0])
    served = simulate(given, TABLE, SERVER)
    found = paths(given, served)
    assert found.away_s.tolist() == pytest.approx([7.0])
    assert found.decode_s.sum() == pytest.approx((served.finish - served.first_token).sum())


def test_figures_by_place_are_those_of_its_requests() -> None:
    given = draw(replace(AGENTS, requests=250), 2)
    served = simulate(given, TABLE, SERVER)
    table = by_place(given, served)
    assert sum(table["requests"]) == len(given)
    first = given.after < 0
    assert places(given)[first].tolist() == [1] * int(first.sum())
    assert table["place"][0] == "1"
    assert table["requests"][0] == first.sum()
    assert table["ttft_s"][0] == pytest.approx(served.ttft_s[first].mean())
    hits = served.cached[first].sum() / served.prompt[first].sum()
    assert table["prefix_hits"][0] == pytest.approx(hits)


ASKED: dict[str, Any] = {
    "workload": "agent-coding",
    "requests": 200,
    "max_sequences": 64,
    "with_intervals": False,
}


@pytest.mark.slow
def test_a_larger_cache_finds_more_and_the_row_of_its_own_room_is_the_run() -> None:
    result = roofline.simulate("llama-3.1-8b", rate=0.5, cache_curve=True, **ASKED)
    rows = {row["room"]: row for row in result.tables["cache_curve"].rows()}
    hits = [row["prefix_hits"] for name, row in rows.items() if "host" not in name]
    assert hits == sorted(hits)
    server = {row["metric"]: row["value"] for row in result.tables["server"].rows()}
    own = rows["GPU × 1"]
    assert own["prefix_hits"] == pytest.approx(server["prefix_hits"])
    assert own["ttft_s"] == pytest.approx(result.tables["headline"]["mean"][0])
    # 32 layers · 2 · 8 heads · 128 · 2 bytes a token.
    assert own["room_bytes"] == pytest.approx(own["tokens"] * 131072)


@pytest.mark.slow
def test_sessions_a_day_come_at_that_rate() -> None:
    each = requests_per_session(traffic_named("agent-coding"))
    result = roofline.simulate("llama-3.1-8b", sessions_per_day=1728, **ASKED)
    rows = {row["what"]: row["value"] for row in result.tables["workload"].rows()}
    assert "1,728 sessions a day" in rows["arrivals"]
    # 50 s from one to the next.
    assert result.metadata["offered_requests_per_s"] == pytest.approx(each / 50)
    asked = replace(traffic_named("agent-coding"), arrivals=Poisson(each / 50), requests=30_000)
    made = draw(asked, block=0)
    starts = made.arrival[made.after < 0]
    assert starts[-1] / len(starts) == pytest.approx(50.0, rel=0.05)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"sessions_per_day": 100, "rate": 1}, "rate"),
        ({"sessions_per_day": 100, "concurrency": 3}, "concurrency"),
        ({"sessions_per_day": 0}, "0 sessions a day"),
        ({"cache_curve": True, "workload": "chat"}, "share no prefix"),
    ],
)
def test_what_has_no_meaning_is_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        roofline.simulate("llama-3.1-8b", **ASKED | {"requests": 20} | asked)
