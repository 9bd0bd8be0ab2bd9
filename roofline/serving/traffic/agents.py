"""Steps of agents: turns of a session, tools with their waits, agents that run side by side."""

from collections.abc import Callable
from functools import lru_cache
from typing import Final

import numpy as np
from msgspec import Struct

from roofline.cost.work import Array
from roofline.records import replace
from roofline.serving.requests import Integers
from roofline.serving.traffic.lengths import drawn
from roofline.serving.traffic.traffic import Closed, Traffic, Turns, requests_within_context
from roofline.units import PREFIX

Uniform = Callable[[str, int], Array]
"""Next uniform numbers of a purpose, so many."""
PURPOSES: Final = (
    *("steps", "result", "wait", "forks", "agents", "agent steps"),
    *("task", "agent result", "agent output", "agent wait"),
)
"""Purposes of random numbers beside those of all workloads."""
MILLISECONDS: Final = PREFIX["m"]
SAMPLE: Final = 2**13
"""Sessions by whose mean it is known how many requests one has. [1]"""


class SessionSteps(Struct, frozen=True):
    """Requests of some sessions: those of each together, branches before the step that joins them.

    Attributes:
        session, context: Session of each, and context that grows with it: the session's own, or
            that of a branch; both counted from 0 as they begin. [1]
        prompt, output: Tokens of all that is read, and of the answer. [token]
        after, joins: Rows of what it follows, and of what waits for it too; −1 for none. [1]
        wait_s: Time between what it waits for and its arrival. [s]
    """

    session: Integers
    context: Integers
    prompt: Integers
    output: Integers
    after: Integers
    joins: Integers
    wait_s: Array


def so_far(values: Integers, turn: Integers) -> Integers:
    """Sum over the turns of the same session up to each one, itself included. [token]"""
    total = np.cumsum(values)
    first = np.arange(len(values)) - turn
    return np.asarray(total - total[first] + values[first], np.int64)


def pauses(turns: Turns, uniform: Array) -> Array:
    """Times from answers to the next messages, of uniform numbers below 1. [s]"""
    if turns.pause is not None:
        return np.asarray(drawn(turns.pause, uniform) * MILLISECONDS, np.float64)
    return -np.log1p(-uniform) * turns.think_s


def requests_per_session(traffic: Traffic) -> float:
    """Mean requests of a session, or answers to a prompt. [1]

    Where a context that grows too long ends sessions with tools, it is the mean of a sample.
    """
    if traffic.turns is None or traffic.turns.tools is None:
        return requests_within_context(traffic)
    return _sampled(replace(traffic, arrivals=Closed(1), requests=2, warmup=0))


@lru_cache(64)
def _sampled(traffic: Traffic) -> float:
    random = np.random.Generator(np.random.PCG64(0))
    return len(agent_steps(traffic, SAMPLE, lambda _, count: random.random(count)).session) / SAMPLE


def agent_steps(traffic: Traffic, sessions: int, uniform: Uniform) -> SessionSteps:
    """Requests of so many sessions of a workload with tools. [1]

    Context n of a session is its prefix, all messages and results up to n and all answers before
    it; a branch begins again with the prefix. What a step adds where branches join are their last
    answers. Numbers of steps beyond a context that grows too long are drawn all the same.
    """
    turns = traffic.turns
    assert turns is not None, "agents have turns"
    assert turns.tools is not None, "agents have tools"
    tools, prefix = turns.tools, traffic.shared.tokens if traffic.shared else 0
    sizes = drawn(turns.number, uniform("turns", sessions))
    steps = drawn(tools.steps, uniform("steps", int(sizes.sum())))
    per_session = np.add.reduceat(steps, np.cumsum(sizes) - sizes)
    session = np.repeat(np.arange(sessions), per_session)
    place = np.arange(len(session)) - np.repeat(np.cumsum(per_session) - per_session, per_session)
    asked = np.zeros(len(session), np.bool_)
    asked[np.cumsum(steps) - steps] = True
    results = len(session) - len(steps)
    new, wait_s = np.zeros(len(session), np.int64), np.zeros(len(session))
    new[asked] = drawn(traffic.prompt, uniform("prompt", len(steps)))
    new[~asked] = drawn(tools.result, uniform("result", results))
    wait_s[asked] = pauses(turns, uniform("think", len(steps)))
    wait_s[~asked] = drawn(tools.wait, uniform("wait", results)) * MILLISECONDS
    wait_s[place == 0] = 0.0
    output = drawn(traffic.output, uniform("output", len(session)))

    # Branches: `meets` is the step that joins each, which has the answers as its result.
    share = 0.0 if tools.branches is None else tools.branches.share
    forks = np.flatnonzero(~asked)[uniform("forks", results) < share]
    meets, length = np.zeros(0, np.int64), np.zeros(0, np.int64)
    if tools.branches is not None:
        meets = np.repeat(forks, drawn(tools.branches.number, uniform("agents", len(forks))))
        length = drawn(tools.branches.steps, uniform("agent steps", len(meets)))
    branch = np.repeat(np.arange(len(meets)), length)
    begins = np.cumsum(length) - length
    at = np.arange(len(branch)) - begins[branch]
    own = drawn(tools.result, uniform("agent result", len(branch)))
    if tools.branches is not None:
        own[begins] = drawn(tools.branches.task, uniform("task", len(meets)))
    answer = drawn(traffic.output, uniform("agent output", len(branch)))
    between = drawn(tools.wait, uniform("agent wait", len(branch))) * MILLISECONDS
    between[begins] = 0.0
    read = prefix + so_far(own + answer, at) - answer
    fits = (at == 0) | (read + answer <= turns.longest)
    ends = begins + np.bincount(branch[fits], minlength=len(meets)) - 1
    new[forks], wait_s[forks] = 0, 0.0
    np.add.at(new, meets, answer[ends])

    prompt = prefix + so_far(new + output, place) - output
    stays = (place == 0) | (prompt + output <= turns.longest)
    fits &= stays[meets[branch]]
    whole = len(session)
    joins = np.full(len(branch), -1)
    joins[ends] = meets
    # Each step after the branches that it joins, and numbered by its place among those that stay.
    order = np.lexsort((
        np.concatenate([np.zeros(whole, np.int64), np.arange(len(branch))]),
        np.concatenate([np.ones(whole, np.int64), np.zeros(len(branch), np.int64)]),
        np.concatenate([np.arange(whole), meets[branch]]),
    ))  # fmt: skip
    order = order[np.concatenate([stays, fits])[order]]
    row = np.full(whole + len(branch) + 1, -1)
    row[order] = np.arange(len(order))
    before = np.concatenate(
        [
            np.where(place > 0, np.arange(whole) - 1, -1),
            np.where(at > 0, whole + np.arange(len(branch)) - 1, meets[branch] - 1),
        ]
    )

    def column(of_steps: Integers, of_branches: Integers) -> Integers:
        return np.asarray(np.concatenate([of_steps, of_branches])[order], np.int64)

    context = column(session, sessions + branch)
    _, start, inverse = np.unique(context, return_index=True, return_inverse=True)
    return SessionSteps(
        session=column(session, session[meets[branch]]),
        context=np.argsort(np.argsort(start))[inverse],
        prompt=column(prompt, read),
        output=column(output, answer),
        after=row[before[order]],
        joins=row[column(np.full(whole, -1), joins)],
        wait_s=np.concatenate([wait_s, between])[order],
    )
