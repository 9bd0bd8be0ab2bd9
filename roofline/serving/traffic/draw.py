"""Requests of a workload, drawn by a seed, whole or chunk by chunk.

Each purpose has its own stream of random numbers, and each request, or session, takes one number of
each: a change of one axis leaves the others as they were, and chunks are the same as the whole.
"""

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from roofline.cost.work import Array
from roofline.errors import InputError
from roofline.records import replace
from roofline.serving.requests import Integers, Requests, joined, part
from roofline.serving.traffic.agents import (
    PURPOSES,
    SessionSteps,
    agent_steps,
    pauses,
    requests_per_session,
    so_far,
)
from roofline.serving.traffic.lengths import drawn, picked
from roofline.serving.traffic.rate_curve import RateCurve
from roofline.serving.traffic.traffic import Traffic, gaps, number

_PURPOSES: Final = (
    *("arrival", "turns", "shared", "priority", "prompt", "output", "think"),
    *PURPOSES,
)
CHUNK: Final = 2**16
MOST_TOGETHER: Final = 2**25
"""Requests that are drawn at once: more are streamed."""


def draw(traffic: Traffic, seed: int = 0, *, block: int = 16) -> Requests:
    """All requests of a workload.

    Args:
        traffic: Workload.
        seed: Same seed, same requests. [1]
        block: Tokens of a block whose prefix can be shared. [token]

    Raises:
        InputError: There are too many to be held together.

    Examples:
        >>> made = draw(Traffic(requests=3), seed=7)
        >>> len(made), made.prompt.tolist()
        (3, [2048, 2048, 2048])
    """
    if number(traffic) > MOST_TOGETHER:
        raise InputError(
            f"{number(traffic):,} requests at once",
            hint=f"draw up to {MOST_TOGETHER:,}, or stream them in chunks",
        )
    return joined(stream(traffic, seed, block=block))


def stream(
    traffic: Traffic, seed: int = 0, *, block: int = 16, chunk: int = CHUNK
) -> Iterator[Requests]:
    """Requests of a workload in chunks of so many sessions or prompts at most [1]: see `draw`."""
    if seed < 0:
        raise InputError(f"seed is {seed}", hint="give 0 or more")
    streams = {
        name: np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(place,))))
        for place, name in enumerate(_PURPOSES)
    }
    source = _Source(traffic, streams, block)
    wanted = number(traffic)
    sent = 0
    while sent < wanted:
        # As many as are needed on average, as many again for what is left, and so on.
        sessions = math.ceil((wanted - sent) / max(requests_per_session(traffic), 1.0))
        made = part(source.take(min(chunk, sessions)), 0, wanted - sent)
        sent += len(made)
        yield replace(made, joins=np.where(made.joins < sent, made.joins, -1))


class _Source:
    """State of a stream: the time, the requests and the ids that are used up."""

    def __init__(
        self, traffic: Traffic, streams: dict[str, np.random.Generator], block: int
    ) -> None:
        self._traffic = traffic
        self._streams = streams
        self._block = max(block, 0)
        self._clock = 0.0
        self._sessions = 0
        self._requests = 0
        self._pool = np.zeros(0, np.int64)
        shared = traffic.shared
        self._head = shared.tokens // block if shared and block > 0 else 0
        self._ids = self._head * (shared.number if shared else 0)

    def take(self, sessions: int) -> Requests:
        """Requests of the next sessions; of a prompt with several answers, as of one session."""
        traffic = self._traffic
        arrival = self._arrivals(sessions)
        if traffic.turns and traffic.turns.tools:
            return self._stepped(agent_steps(traffic, sessions, self._uniform), arrival)
        sizes = np.full(sessions, traffic.samples, np.int64)
        if traffic.turns:
            sizes = drawn(traffic.turns.number, self._uniform("turns", sessions))
        groups = self._groups(sessions)
        of = np.repeat(np.arange(sessions), sizes)
        turn = np.arange(len(of)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        asked = sessions if traffic.samples > 1 else len(of)
        new = drawn(traffic.prompt, self._uniform("prompt", asked))
        new = new[of] if traffic.samples > 1 else new
        new = new + traffic.media * ((turn == 0) | (traffic.turns is None))
        if traffic.pool:  # prompts in turn, whose lengths are the first that were drawn
            self._pool = np.append(self._pool, new[: max(traffic.pool - len(self._pool), 0)])
            new = self._pool[np.arange(self._requests, self._requests + len(new)) % traffic.pool]
        output = drawn(traffic.output, self._uniform("output", len(of)))
        # Numbers beyond a session that ends early are drawn all the same.
        waits = self._uniform("think", len(of)) if traffic.turns else np.zeros(len(of))
        prompt = new + (traffic.shared.tokens if traffic.shared else 0)
        kept = np.ones(len(of), np.bool_)
        think = np.zeros(len(of))
        if traffic.turns:
            prompt += so_far(new + output, turn) - output - new
            think = np.where(turn > 0, pauses(traffic.turns, waits), 0.0)
            kept = (turn == 0) | (prompt + output <= traffic.turns.longest)
        classes = np.zeros(len(of), np.int64)
        if len(traffic.priorities) > 1:
            shares = np.asarray(traffic.priorities)
            classes = picked(shares, self._uniform("priority", len(of)))
        of, turn, prompt, output = of[kept], turn[kept], prompt[kept], output[kept]
        follows = (turn > 0) & (traffic.turns is not None)
        rows = np.arange(self._requests, self._requests + len(of))
        self._requests += len(of)
        made = Requests(
            arrival=arrival[of],
            prompt=prompt,
            output=output,
            priority=classes[kept],
            after=np.where(follows, rows - 1, -1),
            think=think[kept],
            joins=np.full(len(of), -1),
            prefix=np.zeros(len(of) + 1, np.int64),
            hashes=np.zeros(0, np.int64),
            block=0,
        )
        return self._hashed(made, of, groups[of])

    def _stepped(self, steps: SessionSteps, arrival: Array) -> Requests:
        """Requests of agents whose steps were drawn."""
        groups = self._groups(len(arrival))
        classes = np.zeros(len(steps.session), np.int64)
        if len(self._traffic.priorities) > 1:
            shares = np.asarray(self._traffic.priorities)
            classes = picked(shares, self._uniform("priority", len(arrival)))[steps.session]
        first = self._requests
        self._requests += len(steps.session)
        made = Requests(
            arrival=arrival[steps.session],
            prompt=steps.prompt,
            output=steps.output,
            priority=classes,
            after=np.where(steps.after < 0, -1, steps.after + first),
            think=steps.wait_s,
            joins=np.where(steps.joins < 0, -1, steps.joins + first),
            prefix=np.zeros(len(steps.session) + 1, np.int64),
            hashes=np.zeros(0, np.int64),
            block=0,
        )
        return self._hashed(made, steps.context, groups[steps.session])

    def _uniform(self, purpose: str, count: int) -> Array:
        return self._streams[purpose].random(count)

    def _arrivals(self, sessions: int) -> Array:
        traffic = self._traffic
        between = gaps(traffic.arrivals, self._uniform("arrival", sessions), self._sessions)
        times = np.cumsum(np.concatenate([[self._clock], between * requests_per_session(traffic)]))[
            1:
        ]
        self._clock = float(times[-1])
        self._sessions += sessions
        had = traffic.arrivals
        return had.times(times) if isinstance(had, RateCurve) else times

    def _groups(self, sessions: int) -> Integers:
        """Shared prefix that each session starts with."""
        shared = self._traffic.shared
        if shared is None or shared.number == 1:
            return np.zeros(sessions, np.int64)
        shares = np.arange(1.0, shared.number + 1) ** -shared.skew
        return picked(shares, self._uniform("shared", sessions))

    def _hashed(self, made: Requests, of: Integers, group: Integers) -> Requests:
        """The requests with the ids of the blocks that may be met again.

        Those of a shared prefix come first; then those of the session, or of the context that grows
        in a branch of it, which are its own. Contexts are counted as they begin.
        """
        traffic, block, head = self._traffic, self._block, self._head
        if traffic.pool and block:
            return self._repeating(made)
        grows = traffic.turns is not None or traffic.samples > 1
        if not block or not (grows or head):
            return made
        listed = made.prompt // block if grows else np.full(len(made), head)
        ends = np.concatenate([[0], np.cumsum(listed)]).astype(np.int64)
        place = np.arange(ends[-1]) - np.repeat(ends[:-1], listed)
        # One takes as many ids of its own as its longest prompt has blocks beyond the head.
        own = np.zeros(int(of.max()) + 1, np.int64)
        np.maximum.at(own, of, listed - head)
        first = self._ids + np.cumsum(own) - own
        self._ids += int(own.sum())
        base = first[of]
        ids = np.where(
            place < head,
            np.repeat(group * head, listed) + place,
            np.repeat(base - head, listed) + place,
        )
        return replace(made, prefix=ends, hashes=ids, block=block)

    def _repeating(self, made: Requests) -> Requests:
        """The requests with the ids of the blocks of their prompts, the same each time round."""
        listed = made.prompt // self._block
        ends = np.concatenate([[0], np.cumsum(listed)]).astype(np.int64)
        place = np.arange(ends[-1]) - np.repeat(ends[:-1], listed)
        which = np.arange(self._requests - len(made), self._requests) % self._traffic.pool
        starts = np.concatenate([[0], np.cumsum(self._pool // self._block)])[which]
        ids = np.repeat(starts, listed) + place
        return replace(made, prefix=ends, hashes=ids, block=self._block)
