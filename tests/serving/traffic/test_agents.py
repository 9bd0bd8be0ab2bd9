"""Steps of agents: what each reads, what it waits for, what branches add."""

from collections import defaultdict

import numpy as np
import pytest

from roofline.errors import InputError
from roofline.records import replace
from roofline.serving.requests import Requests, check, first_rows, joined, picked_rows
from roofline.serving.traffic.agents import requests_per_session
from roofline.serving.traffic.draw import draw, stream
from roofline.serving.traffic.lengths import ConstantLength, Empirical, Lognormal, Uniform
from roofline.serving.traffic.traffic import (
    Poisson,
    SharedPrefixes,
    SubAgents,
    Tools,
    Traffic,
    Turns,
    offered_rate,
    requests_within_context,
)

BRANCHES = SubAgents(0.3, Uniform(2, 4), Uniform(1, 3), ConstantLength(70))
TOOLS = Tools(Empirical((1, 2, 6)), Lognormal(200, 1.0), Uniform(100, 900), BRANCHES)
TURNS = Turns(Uniform(1, 3), pause=Uniform(20_000, 40_000), tools=TOOLS)
AGENTS = Traffic(
    ConstantLength(50),
    Uniform(10, 90),
    Poisson(5.0),
    requests=600,
    shared=SharedPrefixes(100),
    turns=TURNS,
)


def ids(made: Requests, row: int) -> list[int]:
    found: list[int] = made.hashes[made.prefix[row] : made.prefix[row + 1]].tolist()
    return found


def test_a_step_reads_all_that_was_said_and_its_branches_last_answers() -> None:
    made = draw(AGENTS, 1)
    check(made)
    met = defaultdict(list)
    for end in np.flatnonzero(made.joins >= 0).tolist():
        met[int(made.joins[end])].append(end)
    assert len(met) > 20
    for row, ends in met.items():
        before = int(made.after[row])
        # It follows the step that called the agents, which all begin together after that step.
        assert 2 <= len(ends) <= 4
        added = sum(int(made.output[end]) for end in ends)
        assert made.prompt[row] == made.prompt[before] + made.output[before] + added
        assert made.think[row] == 0.0
        for end in ends:
            first = end
            while made.after[first] != before:
                earlier = int(made.after[first])
                assert made.prompt[first] > made.prompt[earlier] + made.output[earlier]
                first = earlier
            assert made.prompt[first] == 100 + 70
            assert made.think[first] == 0.0


def test_waits_are_those_of_tools_within_a_turn_and_of_people_between() -> None:
    one = replace(AGENTS, turns=replace(TURNS, tools=replace(TOOLS, branches=None)))
    made = draw(one, 2)
    later = made.after >= 0
    said = made.prompt[later] - (made.prompt + made.output)[made.after[later]]
    people = said == 50  # what a user says; a result may be as long, and then its wait is short
    assert made.think[later][~people].max() <= 0.9
    assert made.think[later][~people].min() >= 0.1
    assert (made.think[later][people] >= 20).sum() > 50


def test_contexts_go_on_and_branches_share_but_the_prefix() -> None:
    made = draw(replace(AGENTS, shared=SharedPrefixes(160), output=Uniform(30, 90)), 3)
    owner: dict[int, int] = {}
    context = np.arange(len(made))
    for row in range(len(made)):
        before = int(made.after[row])
        assert len(ids(made, row)) == made.prompt[row] // 16
        if before >= 0 and made.prompt[row] != 160 + 70:  # else a branch that begins
            context[row] = context[before]
            assert ids(made, row)[: len(ids(made, before))] == ids(made, before)
        for block in ids(made, row)[10:]:
            assert owner.setdefault(block, int(context[row])) == context[row]
        assert ids(made, row)[:10] == ids(made, 0)[:10]


@pytest.mark.parametrize("chunk", [1, 3, 50])
def test_chunks_are_the_same_as_the_whole(chunk: int) -> None:
    whole, parts = draw(AGENTS, 4), joined(stream(AGENTS, 4, chunk=chunk))
    for name in ("arrival", "prompt", "output", "after", "think", "joins", "prefix", "hashes"):
        assert np.array_equal(getattr(whole, name), getattr(parts, name)), name


def test_the_rate_is_that_of_requests() -> None:
    short = replace(AGENTS, turns=replace(TURNS, longest=1200))
    for traffic in (AGENTS, short):
        made = draw(replace(traffic, requests=40_000), 5, block=0)
        assert len(made) / made.arrival[-1] == pytest.approx(offered_rate(AGENTS), rel=0.03)
    assert requests_per_session(short) < 0.8 * requests_per_session(AGENTS)
    assert requests_per_session(AGENTS) == pytest.approx(requests_within_context(AGENTS), rel=0.03)
    # 2 turns of (1 + 2 + 6)/3 steps, of which 2 of 3 are after a tool, 0.3 · 3 · 2 requests each.
    assert requests_within_context(AGENTS) == pytest.approx(2 * (3 + 2 * 0.3 * 3 * 2))


def test_a_context_that_grows_too_long_ends_its_session_or_its_branch() -> None:
    made = draw(replace(AGENTS, turns=replace(TURNS, longest=1200)), 6)
    check(made)
    follows = made.after >= 0
    begins = follows & (made.prompt == 170)
    assert (made.prompt + made.output)[follows & ~begins].max() <= 1200


def test_what_is_cut_off_is_waited_for_by_none() -> None:
    made = draw(AGENTS, 7)
    for count in range(1, 60):
        check(first_rows(made, count))
    without = np.flatnonzero(np.arange(len(made)) % 5 != 3)
    check(picked_rows(made, without))


def test_a_share_is_one() -> None:
    with pytest.raises(InputError, match="share from 0 to 1"):
        replace(BRANCHES, share=1.5)
