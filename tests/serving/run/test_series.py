"""Series of a run against counts that are made request by request."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import roofline
from roofline.records import replace
from roofline.serving.run.series import SHARES, distribution, present, saturated_from
from roofline.serving.run.serve import Fleet, serve
from roofline.serving.simulate.prices import step_prices
from roofline.serving.simulate.run import simulate
from roofline.serving.simulate.server import Server
from roofline.table import table
from tests.serving.deployments import on
from tests.serving.simulate.cases import chat, requests

TABLE = step_prices(on(), sequences=64)
CHAT = Server(max_sequences=64, token_budget=2048, kv_tokens=450_000)


def test_mean_and_most_of_a_bin_are_those_of_a_count_at_every_moment() -> None:
    random = np.random.default_rng(3)
    start = random.uniform(0, 20, 300)
    end = start + random.exponential(2.0, 300)
    edges = np.arange(0.0, 33.0, 2.0)
    mean, most = present(start, end, edges)
    for at, (low, high) in enumerate(pairwise(edges)):
        stay = np.minimum(end, high) - np.maximum(start, low)
        assert mean[at] == pytest.approx(stay[stay > 0].sum() / (high - low), abs=1e-9)
        moments = [low, *(time for time in (*start, *end) if low <= time <= high)]
        assert most[at] == max(int(((start <= t) & (t < end)).sum()) for t in moments)


def test_the_cache_of_one_request_grows_by_a_page_at_a_time() -> None:
    """By hand: 100 tokens of prompt are 7 pages of 16, and 32 tokens more are 9."""
    given = requests([0.0], 100, 33)
    served = simulate(given, TABLE, replace(CHAT, page=16))
    first, last = float(served.first_token[0]), float(served.finish[0])
    course, held = served.course, served.course.mean * served.course.bin_s
    assert course.most.max() == served.totals.kv_peak_tokens == 9 * 16
    # In prefill 7 pages; from then on a line from 7 to 9.
    assert held.sum() == pytest.approx(16 * (7 * first + 8 * (last - first)), rel=1e-9)


@pytest.mark.parametrize("policy", ["chunked", "continuous", "packed", "static", "dynamic"])
def test_no_bin_has_more_than_the_most_and_one_has_it(policy: str) -> None:
    server = replace(CHAT, policy=policy, kv_tokens=20_000, max_sequences=16)  # type: ignore[arg-type]
    served = simulate(chat(400, 10.0), TABLE, server)
    assert served.course.most.max() == served.totals.kv_peak_tokens
    assert (served.course.mean <= served.course.most * (1 + 1e-9)).all()
    assert len(served.course.mean) * served.course.bin_s >= served.finish.max()


def test_coarser_bins_hold_as_much_and_replicas_are_averaged() -> None:
    given = chat(400, 10.0)
    course = simulate(given, TABLE, CHAT).course
    wide = course.coarser(4 * course.bin_s)
    assert wide.bin_s == 4 * course.bin_s
    assert wide.mean.sum() * wide.bin_s == pytest.approx(course.mean.sum() * course.bin_s)
    assert wide.most.max() == course.most.max()
    both = serve(Fleet(TABLE, CHAT, 2), given).course
    alone = serve(Fleet(TABLE, CHAT, 1), given).course
    # Two replicas hold what one would, but for steps that are shorter.
    assert both.mean.sum() * both.bin_s < alone.mean.sum() * alone.bin_s / 2


def test_a_distribution_is_the_empirical_one() -> None:
    served = simulate(chat(777, 10.0), TABLE, CHAT)
    found = distribution(served)
    assert found["request_share"] == SHARES
    for share, within in zip(SHARES, found["ttft_s"], strict=True):
        assert within in served.ttft_s
        assert (served.ttft_s <= within).mean() >= share - 1e-12
        assert (served.ttft_s < within).mean() < share


def test_a_load_curve_passes_through_what_is_simulated_at_its_load() -> None:
    asked: dict[str, Any] = {"workload": "chat", "requests": 300, "calibration": "none"}
    first = roofline.simulate("llama-3.1-8b", rate=5.0, **asked)
    row = first.rows("by_load")[5]
    again = roofline.simulate("llama-3.1-8b", rate=row["requests_per_s"], **asked)
    (ttft,) = (each for each in again.rows("headline") if each["metric"] == "ttft_s")
    assert row["ttft_mean_s"] == pytest.approx(ttft["mean"], rel=1e-6)
    assert row["ttft_p99_s"] == pytest.approx(ttft["p99"], rel=1e-6)
    limit = first.metadata["saturation_requests_per_s"]
    assert all(each["requests_per_s"] < limit for each in first.rows("by_load"))


def test_of_clients_that_wait_for_answers_there_is_a_curve_over_clients() -> None:
    asked: dict[str, Any] = {"prompt": "64", "output": "16", "calibration": "none"}
    found = roofline.simulate("llama-3.1-8b", concurrency=6, requests=60, warmup=6, **asked)
    assert "by_load" not in found.tables
    time = found.rows("over_time")
    assert max(row["running_most"] for row in time) == 6
    (most,) = (row for row in found.rows("server") if row["metric"] == "running_most")
    assert max(row["running_most"] for row in time) == most["value"]
    rows = {row["clients"]: row for row in found.rows("by_clients")}
    assert list(rows)[:5] == [1, 2, 4, 6, 8]
    # Its own row is the run; any other is the run with as many clients.
    assert rows[6]["throughput_tok_s"] == found.throughput_tok_s.value
    again = roofline.simulate("llama-3.1-8b", concurrency=8, requests=80, warmup=8, **asked)
    (ttft,) = (each for each in again.rows("headline") if each["metric"] == "ttft_s")
    assert rows[8]["throughput_tok_s"] == pytest.approx(again.throughput_tok_s.value)
    assert rows[8]["ttft_p99_s"] == pytest.approx(ttft["p99"])


def test_throughput_saturates_where_more_clients_hardly_add_to_it() -> None:
    found = roofline.simulate("llama-3.1-8b", concurrency=4, max_sequences=16, calibration="none")
    full, rows = found.metadata["saturation_clients"], found.rows("by_clients")
    most = max(row["throughput_tok_s"] for row in rows)
    for row in rows:
        assert (row["throughput_tok_s"] >= 0.95 * most) == (row["clients"] >= full)
    # Slots, not memory, are what ends: beyond them requests wait before they are admitted.
    assert full >= 16
    assert rows[-1]["ttft_p50_s"] > 5 * rows[0]["ttft_p50_s"]


def test_a_curve_that_still_grows_has_no_saturation() -> None:
    rows = [{"clients": n, "throughput_tok_s": float(n)} for n in (1, 2, 4)]
    assert saturated_from(table(rows, {})) is None
    flat = [*rows, {"clients": 8, "throughput_tok_s": 4.1}]
    assert saturated_from(table(flat, {})) == 4
