"""The front end lets requests through one after the other, before any of them can be queued."""

import numpy as np
import pytest

from roofline.cost.engine_costs import IDEAL, EngineCosts
from roofline.records import replace
from roofline.serving.requests import Requests
from roofline.serving.simulate.prices import step_prices
from roofline.serving.simulate.run import simulate
from roofline.serving.simulate.server import Server
from tests.serving.deployments import on
from tests.serving.simulate.cases import chat, requests

TABLE = step_prices(on(), sequences=64, engine=IDEAL)
SERVER = Server(max_sequences=64, token_budget=2048, kv_tokens=450_000)


def four(gap: float = 0.0, **changes: object) -> Requests:
    return requests(np.arange(4) * gap, 16, 2, **changes)  # type: ignore[arg-type]


def waited(given: Requests, engine: EngineCosts, clients: int = 0) -> list[float]:
    """Time from each arrival to the first step, where every step is short beside the waits. [s]"""
    served = simulate(given, replace(TABLE, engine=engine), SERVER, concurrency=clients)
    return list(served.admitted - served.arrival)


@pytest.mark.parametrize("clients", [0, 4])
def test_four_at_once_of_a_second_each_wait_one_to_four_seconds(clients: int) -> None:
    assert waited(four(), EngineCosts(serial_s=1.0), clients) == pytest.approx([1, 2, 3, 4])


def test_what_comes_slower_than_the_front_end_is_waits_for_itself_alone() -> None:
    assert waited(four(1.5), EngineCosts(serial_s=1.0)) == pytest.approx([1] * 4)
    assert waited(four(0.5), EngineCosts(serial_s=1.0)) == pytest.approx([1, 1.5, 2, 2.5])


def test_what_takes_no_turns_passes_side_by_side() -> None:
    assert waited(four(), EngineCosts(request_s=3.0)) == pytest.approx([3] * 4)
    both = EngineCosts(request_s=3.0, serial_s=1.0)
    assert waited(four(), both) == pytest.approx([4, 5, 6, 7])


def test_a_client_comes_again_behind_those_that_wait_already() -> None:
    """Two clients, four requests: each is answered in next to no time and asks again at once."""
    found = waited(four(), EngineCosts(serial_s=1.0), clients=2)
    assert found[:2] == pytest.approx([1, 2])
    assert found[2:] == pytest.approx([2, 2], abs=0.1)


def test_the_first_to_arrive_passes_first_whatever_its_priority() -> None:
    """The front end knows no priorities; the queue behind it does."""
    found = waited(four(0.1, priority=[0, 0, 0, 9]), EngineCosts(serial_s=1.0))
    assert found == pytest.approx([1, 1.9, 2.8, 3.7])


def test_a_follow_up_passes_the_front_end_again() -> None:
    given = requests(0.0, [16, 16], 2, after=[-1, 0], think=[0.0, 5.0])
    assert waited(given, EngineCosts(serial_s=1.0, request_s=0.5)) == pytest.approx([1.5, 1.5])


def test_a_front_end_that_takes_no_time_changes_nothing() -> None:
    given = chat(400, 20.0)
    plain, served = (
        simulate(given, replace(TABLE, engine=engine), SERVER)
        for engine in (IDEAL, EngineCosts(serial_s=0.0, request_s=0.0))
    )
    assert np.array_equal(plain.finish, served.finish)


def test_a_busier_front_end_is_a_queue_of_its_own() -> None:
    """M/D/1 where the engine is never busy: s + λs²/(2(1 − λs)) from arrival to queue."""
    random = np.random.default_rng(2)
    rate, serial = 0.7, 1.0
    given = requests(np.cumsum(random.exponential(1 / rate, 60_000)), 1, 1)
    mean = float(np.mean(waited(given, EngineCosts(serial_s=serial))))
    assert mean == pytest.approx(serial + rate * serial**2 / (2 * (1 - rate * serial)), rel=0.05)


def test_tokens_pass_one_after_the_other_however_fast_the_engine_is() -> None:
    """A millisecond each: a thousand a second, of 64 clients whose steps take a tenth of that."""
    given, engine = requests(0.0, np.full(256, 16), 200), EngineCosts(front_end_s=1e-3)
    served = simulate(given, replace(TABLE, engine=engine), SERVER, concurrency=64)
    assert 256 * 200 / served.totals.makespan_s == pytest.approx(1000.0, rel=0.01)
    together = replace(SERVER, stream_interval=4)
    served = simulate(given, replace(TABLE, engine=engine), together, concurrency=64)
    assert 256 * 200 / served.totals.makespan_s == pytest.approx(4000.0, rel=0.01)


def test_an_engine_that_is_slower_than_its_front_end_does_not_feel_it() -> None:
    given = chat(400, 20.0)
    plain, served = (
        simulate(given, replace(TABLE, engine=EngineCosts(front_end_s=each)), SERVER)
        for each in (0.0, 1e-6)
    )
    assert np.array_equal(plain.finish, served.finish)


def test_what_comes_between_two_looks_waits_for_the_second() -> None:
    """After a prompt the server looks at once, then after every eighth decode step."""
    alone = simulate(requests(0.0, 16, 9), TABLE, SERVER)
    eighth = float(alone.finish[0])
    after_first = float(alone.first_token[0]) + (eighth - float(alone.first_token[0])) / 6.0
    given = requests([0.0, after_first], 16, 100)
    served = simulate(given, TABLE, replace(SERVER, recv_interval=8))
    assert served.admitted[1] == pytest.approx(eighth, rel=1e-9)
    assert simulate(given, TABLE, SERVER).admitted[1] < after_first + eighth / 8.0


def test_an_idle_server_looks_at_once() -> None:
    served = simulate(four(10.0), TABLE, replace(SERVER, recv_interval=1000))
    assert list(served.admitted - served.arrival) == pytest.approx([0.0] * 4)


def test_prompts_wait_for_others_or_for_so_many_steps() -> None:
    """The eighth step after the first prompt may have others; before, as soon as two wait."""
    eighth = float(simulate(requests(0.0, 16, 8), TABLE, SERVER).finish[0])
    first = float(simulate(requests(0.0, 16, 2), TABLE, SERVER).first_token[0])
    early = first + (eighth - first) / 7.0 * np.array([0.5, 2.5])
    given = requests([0.0, *early], 16, 100)
    held = replace(SERVER, hold_steps=8, hold_prompts=3)
    assert simulate(given, TABLE, held).admitted[1:] == pytest.approx([eighth] * 2, rel=1e-9)
    both = simulate(given, TABLE, replace(held, hold_prompts=2)).admitted[1:]
    assert both[0] == both[1]
    assert early[1] < both[0] < eighth


def test_a_step_with_prompts_takes_as_long_as_its_launches_at_least() -> None:
    served = simulate(four(), replace(TABLE, engine=EngineCosts(launch_s=1.0)), SERVER)
    assert served.ttft_s == pytest.approx([1.0] * 4, rel=1e-12)
    assert served.tpot_s.max() < 0.1
