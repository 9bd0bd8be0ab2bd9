"""The closed loop against a plain step-by-step one, and laws it cannot break."""

from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.bench.end_to_end.driving import Driven
from roofline.bench.end_to_end.engines import Engine
from roofline.bench.end_to_end.modes import Costs, _served, predict
from tests.bench.end_to_end.synthetic import KEY, PAIR, PLAIN, TOKEN, WEIGHTS, row, step, tables

EQUAL = Driven(rounds=3.0)
ENGINES = {
    "decode-first": Engine("a", "decode-first", 700, 4096, 1.0, (), {}),
    "whole-prompts": Engine("b", "whole-prompts", 2048, 4096, 1.0, (), {}),
    "prefill-first": Engine("c", "prefill-first", 1500, 4096, 1.0, (), {}),
}


def plain(
    isl: list[int], osl: list[int], clients: int, engine: Engine, most: int, room: float
) -> tuple[list[float], list[float], float]:
    """One step after the other, with lists: what the loop has to agree with."""
    number, now = len(isl), 0.0
    first: dict[int, float] = {}
    last: dict[int, float] = {}
    arrival = dict.fromkeys(range(min(clients, number)), 0.0)
    sent = len(arrival)
    waiting, filling = deque(arrival), deque[int]()
    running: dict[int, int] = {}
    done = dict.fromkeys(range(number), 0)
    while len(last) < number:
        held = float(sum(isl[r] + engine.reserved * osl[r] for r in [*filling, *running]))
        while waiting and len(filling) + len(running) < most:
            need = isl[waiting[0]] + engine.reserved * osl[waiting[0]]
            if held + need > room and (filling or running):
                break
            held += need
            filling.append(waiting.popleft())
        decoding = dict(running)
        if filling and engine.policy == "prefill-first":
            decoding = {}
        left = engine.budget - (len(running) if engine.policy == "decode-first" else 0)
        new, pairs, whole = 0, 0.0, []
        for request in filling:
            want = isl[request] - done[request]
            if engine.policy == "whole-prompts":
                if new and new + want > left:
                    break
                part = want
            else:
                part = min(want, max(left, 16) - new)
            if part <= 0:
                break
            pairs += PAIR * ((done[request] + part) ** 2 - done[request] ** 2)
            done[request] += part
            new += part
            if done[request] < isl[request]:
                break
            whole.append(request)
        keys = sum(isl[r] + (osl[r] - 1 - rest) + 1 for r, rest in decoding.items())
        now += step(len(decoding), keys, new) + pairs
        ended = []
        for request in decoding:
            running[request] -= 1
            if not running[request]:
                del running[request]
                ended.append(request)
        for request in whole:
            filling.popleft()
            first[request] = now - arrival[request]
            if osl[request] > 1:
                running[request] = osl[request] - 1
            else:
                ended.append(request)
        for request in ended:
            last[request] = now - arrival[request]
            if sent < number:
                arrival[sent] = now
                waiting.append(sent)
                sent += 1
    return [first[r] for r in range(number)], [last[r] for r in range(number)], now


@pytest.mark.parametrize("policy", ENGINES)
@pytest.mark.parametrize("room", [1e9, 9000.0])
def test_the_loop_agrees_with_one_that_takes_every_step(policy: str, room: float) -> None:
    """Within what tables leave between their points: prompts' attention is a square there."""
    random = np.random.default_rng(3)
    isl, osl = random.integers(200, 1800, 24), random.integers(1, 90, 24)
    engine = ENGINES[policy]
    found = _served(isl, osl, 6, 6, tables(room), Costs(), engine)
    wanted = plain(isl.tolist(), osl.tolist(), 6, engine, 6, room)
    assert np.sort(found[0]) == pytest.approx(np.sort(wanted[0]), rel=0.02)
    assert np.sort(found[1]) == pytest.approx(np.sort(wanted[1]), rel=0.02)
    assert found[2] == pytest.approx(wanted[2], rel=0.01)


def test_one_client_has_nobody_in_its_way() -> None:
    found = predict(row(), tables(), Costs(), PLAIN, EQUAL)
    assert found["ttft_s"] == pytest.approx(WEIGHTS + TOKEN * 1024 + PAIR * 1024**2, rel=1e-3)
    contexts = np.arange(1025, 1025 + 64)
    assert found["tpot_s"] == pytest.approx(WEIGHTS + TOKEN + KEY * contexts.mean(), rel=1e-6)


def test_constants_of_an_engine_are_where_the_equation_has_them() -> None:
    base = predict(row(), tables(), Costs(), PLAIN, EQUAL)
    costs = Costs(step=1e-3, sequence=1e-4, prefill=5e-3, request=2e-2)
    more = predict(row(), tables(), costs, PLAIN, EQUAL)
    assert more["tpot_s"] - base["tpot_s"] == pytest.approx(1.1e-3, rel=1e-6)
    assert more["ttft_s"] - base["ttft_s"] == pytest.approx(1e-3 + 5e-3 + 2e-2, rel=1e-6)


def test_a_front_end_lets_one_request_after_the_other_through() -> None:
    """Four clients at once, 1 s each, faster served than they come: they wait 1, 2, 3 and 4 s."""
    one = row(batch=4.0, osl=2.0)
    found = predict(one, tables(), Costs(serial=1.0), PLAIN, Driven(rounds=1.0))
    alone = WEIGHTS + TOKEN * 1024 + PAIR * 1024**2
    assert found["ttft_s"] == pytest.approx(2.5 + alone, rel=1e-2)


def test_tokens_cannot_leave_faster_than_the_front_end_hands_them_on() -> None:
    found = predict(row(batch=8.0), tables(), Costs(front=5e-3), PLAIN, EQUAL)
    assert found["tpot_s"] >= 8 * 5e-3


@given(
    clients=st.integers(1, 24),
    isl=st.integers(16, 3000),
    osl=st.integers(2, 200),
    policy=st.sampled_from(sorted(ENGINES)),
)
@settings(max_examples=60, deadline=None)
def test_every_request_gets_its_tokens_and_never_sooner_than_alone(
    clients: int, isl: int, osl: int, policy: str
) -> None:
    lengths = np.full(2 * clients, isl), np.full(2 * clients, osl)
    first, last, end = _served(*lengths, clients, clients, tables(), Costs(), ENGINES[policy])
    assert np.all(first > 0)
    assert np.all(last >= first + (osl - 1) * WEIGHTS * (1 - 1e-9))
    assert end >= last.max() * (1 - 1e-9)
    whole = 2 * clients * (isl + osl - 1) * TOKEN
    assert end >= whole * (1 - 1e-9)  # no token is lost


@given(clients=st.integers(1, 40))
@settings(max_examples=25, deadline=None)
def test_more_clients_never_have_shorter_tpot_without_interference(clients: int) -> None:
    """All together in one batch: prompts of a static batch do not interrupt anyone."""
    few, many = (
        predict(row("static_batch", batch=float(n)), tables(), Costs(), PLAIN, EQUAL)["tpot_s"]
        for n in (clients, clients + 1)
    )
    assert many >= few


def test_more_clients_have_longer_tpot_in_a_loop_too() -> None:
    how = Driven(10.0, 0.8, 1.0)
    tpot = [
        predict(row(batch=float(n), osl=256.0), tables(), Costs(), PLAIN, how)["tpot_s"]
        for n in (1, 4, 16, 64)
    ]
    assert tpot == sorted(tpot)


def test_a_faster_machine_is_faster_in_proportion() -> None:
    """Scaling every price scales every time: no decision of the loop depends on a time."""
    one = row(batch=16.0, osl=256.0)
    slow = predict(one, tables(), Costs(decode_gain=2.0, prefill_gain=2.0), PLAIN, EQUAL)
    fast = predict(one, tables(), Costs(), PLAIN, EQUAL)
    assert slow["ttft_s"] == pytest.approx(2 * fast["ttft_s"], rel=1e-9)
    assert slow["tpot_s"] == pytest.approx(2 * fast["tpot_s"], rel=1e-9)
