"""Replicas, saturation, and what waits and runs at once."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.records import replace
from roofline.serving.requests import picked_rows, requests
from roofline.serving.run.routing import turn
from roofline.serving.run.serve import Fleet, running, saturation, serve, waiting
from roofline.serving.simulate.prices import step_prices
from roofline.serving.simulate.run import simulate
from roofline.serving.simulate.served import Course, ServedRequests, Totals
from roofline.serving.simulate.server import Server
from roofline.serving.simulate.steady import arriving, share_of
from roofline.serving.traffic.draw import draw
from roofline.serving.traffic.lengths import ConstantLength, Uniform
from roofline.serving.traffic.traffic import Poisson, Traffic, Turns
from tests.serving.deployments import on

PRICES = step_prices(on("llama-3.1-8b"), sequences=32, longest=4096)
SERVER = Server(token_budget=2048, max_sequences=32, kv_tokens=200_000)
ONE = Fleet(PRICES, SERVER)
LOAD = Traffic(Uniform(100, 900), Uniform(20, 120), Poisson(5.0), requests=300)
NOTHING = Totals(1, 1.0, 1.0, *([0] * 8), *([0.0] * 5))


def columns(start: list[float], begun: list[float], end: list[float]) -> ServedRequests:
    zeros = np.zeros(len(start), np.int64)
    times = (np.array(start), np.array(begun), np.array(begun), np.array(end))
    empty = Course(1.0, np.zeros(1), np.zeros(1))
    return ServedRequests(*times, zeros + 1, zeros + 1, zeros, zeros, zeros, NOTHING, empty)


def test_replicas_serve_what_each_of_them_would_serve_alone() -> None:
    made = draw(LOAD, 3)
    both = serve(replace(ONE, replicas=2), made)
    assert both.number.tolist() == list(range(300))
    for replica in (0, 1):
        rows = np.arange(replica, 300, 2)
        alone = simulate(picked_rows(made, rows), PRICES, SERVER)
        assert np.array_equal(both.finish[rows], alone.finish)
        assert np.array_equal(both.prompt[rows], alone.prompt)
    assert both.totals.decoded_tokens == int((made.output - 1).sum())


def test_a_session_stays_with_its_replica() -> None:
    made = draw(replace(LOAD, turns=Turns(Uniform(1, 4), 0.5)), 3)
    served = serve(replace(ONE, replicas=3), made)
    follows = np.flatnonzero(made.after >= 0)
    assert (served.arrival[follows] >= served.finish[made.after[follows]]).all()
    turns = turn(made)
    assert (turns[follows] == turns[made.after[follows]]).all()
    assert len(set(turns.tolist())) == int((made.after < 0).sum())


def test_parts_of_a_run_are_the_same_as_the_whole_and_are_told() -> None:
    made = draw(replace(LOAD, requests=9000, arrivals=Poisson(20.0)), 1)
    told: list[tuple[int, int]] = []
    served = serve(ONE, made, progress=lambda done, whole: told.append((done, whole)))
    assert np.array_equal(served.finish, simulate(made, PRICES, SERVER).finish)
    assert len(told) > 1
    assert told[-1] == (9000, 9000)
    assert told == sorted(told)


def test_below_saturation_the_queue_is_short_and_above_it_grows_with_the_run() -> None:
    limit = saturation(ONE, draw(LOAD, 1))
    for share, growing in ((0.7, False), (1.3, True)):
        waits = []
        for number in (1500, 3000):
            load = replace(LOAD, arrivals=Poisson(share * limit), requests=number)
            served = serve(ONE, draw(load, 2))
            late = served.queue_s[-number // 10 :].mean()
            waits.append(float(late))
        assert (waits[1] > 1.5 * waits[0] and waits[0] > 1.0) == growing, waits


def test_an_overloaded_server_serves_what_saturation_says() -> None:
    load = replace(LOAD, arrivals=Poisson(200.0), requests=4000)
    made = draw(load, 2)
    limit = saturation(ONE, made)
    assert limit < 100
    finish = np.sort(serve(ONE, made).finish)
    assert 2000 / (finish[3000] - finish[1000]) == pytest.approx(limit, rel=0.02)


def test_saturation_grows_with_replicas_and_falls_with_lengths() -> None:
    made = draw(LOAD, 1)
    limit = saturation(ONE, made)
    assert saturation(replace(ONE, replicas=4), made) == pytest.approx(4 * limit)
    assert saturation(ONE, replace(made, output=made.output * 2)) < limit
    assert saturation(ONE, replace(made, prompt=made.prompt * 2)) < limit
    # When they come does not matter.
    assert saturation(ONE, replace(made, arrival=made.arrival * 7)) == limit


@pytest.mark.slow
def test_batches_saturate_earlier_than_a_server_that_lets_sequences_join() -> None:
    made = draw(LOAD, 1)
    static = Server("static", max_sequences=32, kv_tokens=200_000)
    assert saturation(Fleet(PRICES, static), made) < saturation(ONE, made)


def test_a_closed_loop_shares_its_clients_between_replicas() -> None:
    made = replace(draw(LOAD, 1), arrival=np.zeros(300))
    served = serve(replace(ONE, replicas=2), made, concurrency=9)
    times = np.sort(np.concatenate([served.arrival, served.finish]))
    most = max(
        int(((served.arrival <= t) & (served.finish > t)).sum()) for t in times[::10].tolist()
    )
    assert most == 9


SPANS = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 9), st.integers(1, 9)), min_size=1, max_size=15
)


@pytest.mark.slow
@given(SPANS)
def test_what_waits_and_runs_is_counted_moment_by_moment(spans: list[tuple[int, ...]]) -> None:
    start = [float(a) for a, _, _ in spans]
    begun = [float(a + w) for a, w, _ in spans]
    end = [float(a + w + r) for a, w, r in spans]
    served = columns(start, begun, end)
    for made, left, right in ((waiting(served), start, begun), (running(served), begun, end)):
        moments = [t + 0.5 for t in range(60)]
        there = [sum(a < t < b for a, b in zip(left, right, strict=True)) for t in moments]
        assert made[1] == max(there)
        length = max(right) - min(left)
        assert made[0] == pytest.approx(sum(there) / length if length else 0.0)


def test_sessions_are_numbered_in_order() -> None:
    made = requests([0.0, 0.0, 1.0, 1.0, 1.0], 5, 5, after=[-1, 0, -1, 2, 1])
    assert turn(made).tolist() == [0, 0, 1, 1, 0]


def test_saturation_is_that_of_the_closed_form(capsys: pytest.CaptureFixture[str]) -> None:
    # Two ways to one figure: requests that are simulated, and means of a steady state.
    for load in (LOAD, replace(LOAD, prompt=Uniform(20, 60))):
        made = draw(replace(load, requests=3000), 1)
        simulated = saturation(ONE, made)
        formed = float(arriving(share_of(made, PRICES, SERVER), 0.1).saturation_per_s[0])
        with capsys.disabled():
            sys.stdout.write(f"\nsaturates at {simulated:.2f}, closed form {formed:.2f} a second\n")
        assert simulated == pytest.approx(formed, rel=0.05)


def test_where_answers_are_one_token_saturation_is_that_of_full_steps() -> None:
    made = draw(replace(LOAD, output=ConstantLength(1), requests=3000), 1)
    full = float(np.interp(2048, PRICES.tokens, PRICES.others_s[0]))
    most = 2048 / float(made.prompt.mean()) / full
    # Attention of the chunks is what a full step takes beside that.
    assert 0.9 * most < saturation(ONE, made) < most
