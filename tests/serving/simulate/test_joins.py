"""Requests that wait for several: by hand, and as laws."""

import numpy as np
import pytest

from roofline.errors import InputError
from roofline.records import replace
from roofline.serving.requests import requests as made
from roofline.serving.simulate.prices import step_prices
from roofline.serving.simulate.run import simulate
from roofline.serving.simulate.server import Server
from tests.serving.deployments import on
from tests.serving.simulate.cases import requests

TABLE = step_prices(on(), sequences=8)
SERVER = Server(max_sequences=8, token_budget=2048, kv_tokens=2**20, sharing=True)
# A step, two agents of two steps and one of one, and the step that joins them.
AFTER, JOINS = [-1, 0, 1, 0, 0], [-1, -1, 4, 4, -1]


def test_a_step_comes_when_the_last_of_its_branches_has_ended() -> None:
    given = requests(0.0, [100, 50, 80, 60, 400], [9, 7, 5, 90, 3], after=AFTER, joins=JOINS)
    think = np.array([0.0, 0.0, 0.5, 0.0, 0.25])
    served = simulate(replace(given, think=think), TABLE, SERVER)
    # The agents begin together, when the first step has ended.
    assert served.arrival[[1, 3]] == pytest.approx(served.finish[0])
    assert served.arrival[2] == pytest.approx(served.finish[1] + 0.5)
    last = max(served.finish[0], served.finish[2], served.finish[3])
    assert served.arrival[4] == pytest.approx(last + 0.25)


def test_a_step_that_joins_finds_what_was_said_before_its_branches() -> None:
    head = list(range(4))
    first, agent = [*head, 4, 5], [*head, 100, 101]
    whole = [*first, 6, 7, 8, 9]
    blocks = [first, agent, [*agent, 102], agent, whole]
    given = requests(
        0.0, [96, 96, 112, 96, 160], [48, 16, 16, 16, 4],
        after=AFTER, joins=JOINS, blocks=blocks, block=16,
    )  # fmt: skip
    served = simulate(given, TABLE, SERVER)
    # 96 + 48 − 1 tokens of the first step are cached, 8 whole pages; so is an agent's own start.
    assert served.cached[4] == 128
    assert served.cached[1] == 64
    assert served.cached[2] == 96


@pytest.mark.parametrize("seed", range(10))
def test_a_join_of_one_that_ended_before_changes_nothing(seed: int) -> None:
    random = np.random.default_rng(seed)
    prompt, output = random.integers(1, 500, 5), random.integers(1, 50, 5)
    chain = requests(0.0, prompt, output, after=[-1, 0, 1, 2, 3])
    # In a chain, what joins a later step has ended anyway.
    joined = replace(chain, joins=np.array([3, 4, -1, -1, -1]))
    one, other = (simulate(each, TABLE, SERVER) for each in (chain, joined))
    assert np.array_equal(one.finish, other.finish)


def test_what_joins_nothing_that_can_be_is_refused() -> None:
    for after, joins in (
        ([-1, 0], [0, -1]),  # itself
        ([-1, 0], [-1, 0]),  # an earlier one
        ([-1, -1], [1, -1]),  # one that follows none
        ([-1, 0], [2, -1]),  # one that is not there
    ):
        with pytest.raises(InputError, match="joins one"):
            made([0.0, 0.0], 5, 5, after=after, joins=joins)
