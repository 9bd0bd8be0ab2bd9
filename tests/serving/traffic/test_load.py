"""Clients of a service: in step or spread out, at once or ramping up, with prompts of a pool."""

from functools import partial

import numpy as np
import pytest

from roofline import simulate
from roofline.errors import InputError
from roofline.records import replace
from roofline.serving.traffic.draw import draw, stream
from roofline.serving.traffic.lengths import ConstantLength, Uniform, spread
from roofline.serving.traffic.traffic import Closed, Poisson, SharedPrefixes, Traffic

POOL = Traffic(Uniform(100, 900), ConstantLength(10), Closed(4), 50, pool=8)


def test_prompts_of_a_pool_come_round_in_turn_with_their_blocks() -> None:
    made = draw(POOL, 3, block=16)
    assert made.prompt[:8].tolist() == made.prompt[8:16].tolist()
    blocks = [made.hashes[a:b].tolist() for a, b in zip(made.prefix, made.prefix[1:], strict=False)]
    assert blocks[:8] == blocks[8:16] == blocks[40:48]
    own = [set(each) for each in blocks[:8]]
    assert sum(map(len, own)) == len(set().union(*own))
    assert [len(each) for each in blocks] == (made.prompt // 16).tolist()


@pytest.mark.parametrize("chunk", [1, 3, 8, 49])
def test_a_pool_is_the_same_in_chunks(chunk: int) -> None:
    whole, parts = draw(POOL, 3), list(stream(POOL, 3, chunk=chunk))
    for name in ("prompt", "output", "hashes"):
        column = np.concatenate([getattr(part, name) for part in parts])
        assert column.tolist() == getattr(whole, name).tolist(), name


def test_a_pool_beside_shared_prefixes_is_refused() -> None:
    with pytest.raises(InputError, match="a pool of 3 prompts beside"):
        Traffic(pool=3, shared=SharedPrefixes(10))


def test_equal_lengths_at_once_go_in_waves_and_nothing_else_does() -> None:
    alike = Traffic(ConstantLength(100), ConstantLength(10), Closed(4))
    assert alike.waves
    assert not replace(alike, prompt=Uniform(90, 110)).waves
    assert not replace(alike, arrivals=Closed(4, 10.0)).waves
    assert not replace(alike, arrivals=Closed(1)).waves
    assert not replace(alike, arrivals=Poisson(1.0)).waves


def test_a_spread_is_to_both_sides_of_one_length() -> None:
    assert spread(ConstantLength(1000), 0.2) == Uniform(800, 1200)
    assert spread(ConstantLength(1000), 0.0) == ConstantLength(1000)
    with pytest.raises(InputError, match="length spread is 1"):
        spread(ConstantLength(10), 1.0)
    with pytest.raises(InputError, match="a length spread around 5 to 6"):
        spread(Uniform(5, 6), 0.1)


def test_waves_wait_longer_than_clients_that_are_spread_out() -> None:
    """And the run says that there are waves."""
    asked = partial(simulate, concurrency=16, prompt=1000, output=200, with_intervals=False)
    wave, spread_out = asked(), asked(length_spread=0.1)
    ramp, pool = asked(ramp_s=5.0), asked(prompt_pool=4)
    first = [next(run.tables["headline"].rows())["mean"] for run in (wave, spread_out, ramp, pool)]
    assert max(first[1:]) < 0.7 * first[0]
    assert any("waves" in note for note in wave.notes)
    assert not any("waves" in note for run in (spread_out, ramp) for note in run.notes)


def test_clients_of_an_open_loop_do_not_ramp_up() -> None:
    with pytest.raises(InputError, match="in an open loop"):
        simulate(rate=1.0, prompt=10, output=10, ramp_s=1.0)
