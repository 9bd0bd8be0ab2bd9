"""Requests of a workload: drawn by seed, the same in chunks, axes apart, prefixes as they are."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.errors import InputError
from roofline.records import replace
from roofline.serving.requests import Requests, check, joined
from roofline.serving.traffic.draw import draw, stream
from roofline.serving.traffic.lengths import ConstantLength, Empirical, Lognormal, Uniform
from roofline.serving.traffic.traffic import (
    Bursty,
    Closed,
    Poisson,
    SharedPrefixes,
    Traffic,
    Turns,
    number,
    offered_rate,
    requests_within_context,
)
from tests.cases import examples

CHAT = Traffic(Lognormal(300, 0.8), Lognormal(100, 0.9), Poisson(5.0), requests=400)
SESSIONS = replace(CHAT, turns=Turns(Uniform(1, 5), 10.0), shared=SharedPrefixes(100, 3, 1.0))
SAMPLES = replace(CHAT, samples=4)
EVERY = {
    "chat": CHAT,
    "bursts": replace(CHAT, arrivals=Bursty(5.0, 3.0)),
    "closed": replace(CHAT, arrivals=Closed(8)),
    "sessions": SESSIONS,
    "short sessions": replace(SESSIONS, turns=Turns(Uniform(1, 9), 1.0, 1500)),
    "samples": SAMPLES,
    "shared": replace(CHAT, shared=SharedPrefixes(1000, 5)),
    "classes": replace(CHAT, priorities=(1.0, 3.0)),
}


def same(a: Requests, b: Requests) -> bool:
    return a.block == b.block and all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for name in (
            "arrival", "prompt", "output", "priority", "after", "think", "joins", "prefix", "hashes"
        )
    )  # fmt: skip


@pytest.mark.parametrize("name", EVERY)
def test_the_same_seed_gives_the_same_requests_and_another_one_others(name: str) -> None:
    traffic = EVERY[name]
    assert same(draw(traffic, 3), draw(traffic, 3))
    assert not same(draw(traffic, 3), draw(traffic, 4))


@pytest.mark.parametrize("name", EVERY)
def test_what_is_drawn_can_be(name: str) -> None:
    made = draw(EVERY[name], 1)
    assert len(made) == 400
    check(made)


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None)
@given(st.sampled_from(sorted(EVERY)), st.integers(1, 300), st.integers(0, 5))
def test_chunks_are_the_same_as_the_whole(name: str, chunk: int, seed: int) -> None:
    parts = list(stream(EVERY[name], seed, chunk=chunk))
    assert same(joined(parts), draw(EVERY[name], seed))
    earlier = 0
    for made in parts:
        check(made, earlier=earlier)
        # A chunk ends with a session: what follows has its predecessor in the same chunk.
        assert ((made.after == -1) | (made.after >= earlier)).all()
        earlier += len(made)


def test_a_change_of_one_axis_leaves_the_others_as_they_were() -> None:
    base = draw(CHAT, 2)
    longer = draw(replace(CHAT, output=Lognormal(200, 0.9)), 2)
    assert np.array_equal(base.arrival, longer.arrival)
    assert np.array_equal(base.prompt, longer.prompt)
    assert (longer.output >= base.output).all()
    faster = draw(replace(CHAT, arrivals=Poisson(10.0)), 2)
    assert faster.arrival == pytest.approx(base.arrival / 2)
    assert np.array_equal(base.prompt, faster.prompt)
    assert np.array_equal(base.output, faster.output)
    more = draw(replace(CHAT, requests=600), 2)
    assert np.array_equal(more.prompt[:400], base.prompt)
    with_prefix = draw(replace(CHAT, shared=SharedPrefixes(64)), 2)
    assert np.array_equal(with_prefix.prompt, base.prompt + 64)


@pytest.mark.slow
@pytest.mark.parametrize("traffic", [CHAT, SESSIONS, SAMPLES], ids=["chat", "sessions", "samples"])
def test_the_rate_is_that_of_requests_whatever_they_belong_to(traffic: Traffic) -> None:
    made = draw(replace(traffic, requests=60_000), 5)
    assert len(made) / made.arrival[-1] == pytest.approx(offered_rate(traffic), rel=0.03)


def test_a_turn_says_again_what_was_said_before() -> None:
    made = draw(SESSIONS, 1)
    new = made.prompt.copy()
    for row, before in enumerate(made.after):
        if before < 0:
            new[row] -= 100
        else:
            assert before == row - 1
            new[row] -= made.prompt[before] + made.output[before]
            assert made.arrival[row] == made.arrival[before]
            assert made.think[row] >= 0
    # What is left are the messages: the same as of single prompts.
    assert np.array_equal(new, draw(CHAT, 1).prompt)
    assert made.think[made.after < 0].max() == 0
    assert made.think[made.after >= 0].mean() == pytest.approx(10.0, rel=0.2)


def test_a_session_ends_before_its_context_is_too_long() -> None:
    made = draw(EVERY["short sessions"], 1)
    later = made.after >= 0
    assert (made.prompt + made.output)[later].max() <= 1500


def tokens_of(made: Requests) -> list[tuple[int, ...]]:
    return [
        tuple(made.hashes[start:stop])
        for start, stop in zip(made.prefix[:-1], made.prefix[1:], strict=True)
    ]


def test_blocks_of_a_session_are_those_of_its_earlier_turns_and_of_no_other() -> None:
    made = draw(SESSIONS, 1)
    ids = tokens_of(made)
    owner: dict[int, set[int]] = defaultdict(set)
    first = 0
    for row, before in enumerate(made.after):
        first = row if before < 0 else first
        assert len(ids[row]) == made.prompt[row] // 16
        if before >= 0:
            assert ids[row][: len(ids[before])] == ids[before]
        for place, block in enumerate(ids[row]):
            if place >= 100 // 16:
                owner[block].add(first)
    assert all(len(sessions) == 1 for sessions in owner.values())
    heads = {row[: 100 // 16] for row in ids if len(row) >= 100 // 16}
    assert len(heads) == 3
    assert not set().union(*heads) & set(owner)


def test_the_first_of_several_prefixes_is_asked_for_most() -> None:
    made = draw(replace(CHAT, shared=SharedPrefixes(160, 4, 1.0), requests=20_000), 1)
    heads = np.array([row[0] // 10 for row in tokens_of(made)])
    shares = np.bincount(heads) / len(heads)
    # 1, 1/2, 1/3, 1/4 of their sum, 25/12
    assert shares == pytest.approx([0.48, 0.24, 0.16, 0.12], abs=0.01)


def test_answers_to_one_prompt_come_together_and_share_it() -> None:
    made = draw(SAMPLES, 1)
    ids = tokens_of(made)
    groups = np.arange(400) // 4
    for name in ("arrival", "prompt"):
        column = getattr(made, name).reshape(100, 4)
        assert (column == column[:, :1]).all()
    assert len({(ids[row], groups[row]) for row in range(400)}) == 100
    firsts = [set(ids[4 * group]) for group in range(100)]
    assert len(set().union(*firsts)) == sum(map(len, firsts))
    assert len(set(made.output.reshape(100, 4)[0])) > 1


def test_blocks_are_left_out_where_nothing_is_shared() -> None:
    assert len(draw(CHAT).hashes) == 0
    assert len(draw(SESSIONS, block=0).hashes) == 0
    short = draw(replace(CHAT, shared=SharedPrefixes(15)))
    assert len(short.hashes) == 0


def test_classes_come_as_often_as_asked() -> None:
    made = draw(replace(CHAT, priorities=(1.0, 0.0, 3.0), requests=20_000), 1)
    assert np.bincount(made.priority) / 20_000 == pytest.approx([0.25, 0, 0.75], abs=0.01)


def test_how_many_requests_there_are_by_default() -> None:
    assert number(Traffic()) == 1000
    assert number(Traffic(arrivals=Closed(32))) == 320
    assert number(Traffic(arrivals=Closed(32), requests=7)) == 7
    assert requests_within_context(SAMPLES) == 4
    assert requests_within_context(replace(CHAT, turns=Turns(Empirical((1, 4), (2.0, 1.0))))) == 2
    assert offered_rate(Traffic(arrivals=Closed(32))) == 0


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"samples": 0}, "samples is 0"),
        ({"samples": 2, "turns": Turns(ConstantLength(2))}, "leave out the turns|sessions with 2"),
        ({"requests": -1}, "requests is -1"),
        ({"requests": True}, "requests is True"),
        ({"warmup": 400}, "warm-up takes 400 of 400"),
        ({"priorities": (1.0, -1.0)}, "not shares"),
        ({"priorities": (0.0,)}, "not shares"),
    ],
)
def test_a_workload_that_has_no_meaning_is_refused(changed: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        replace(CHAT, **changed)  # type: ignore[arg-type]


def test_seeds_below_zero_and_more_than_memory_holds_are_refused() -> None:
    with pytest.raises(InputError, match="seed is -1"):
        draw(CHAT, -1)
    with pytest.raises(InputError, match="at once"):
        draw(replace(CHAT, requests=2**26))
    with pytest.raises(InputError, match="shared prefixes"):
        SharedPrefixes(0)
    with pytest.raises(InputError, match="skew"):
        SharedPrefixes(1, 1, -1.0)
    with pytest.raises(InputError, match="thinking"):
        Turns(ConstantLength(2), -1.0)
    with pytest.raises(InputError, match="longest"):
        Turns(ConstantLength(2), 1.0, 1)
