"""Replica that each request is sent to: in turn, by load, or by load and known prefix.

A router that weighs loads sees no replica from inside. It believes that a request takes

    w = (prompt − known) · s + answer · d

seconds of a replica, s for each token of a prompt and d for each of an answer, and that a replica
works off what it was sent. Replicas on other GPUs have an s and d of their own. A request goes to
the replica where backlog + w is least, the first of equals. Which tokens are known is nothing
(``"load"``), or what the router sent there before and the replica has room for (``"prefix"``).
Nobody knows how long an answer will be: the mean counts.

Source: Mooncake, Qin et al. 2024 (arXiv 2407.00079), KVCache-centric scheduling; NVIDIA
Dynamo, KV router: overlap and load in one cost.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, Literal, get_args

import numpy as np
from msgspec import Struct

from roofline.cost.work import Array
from roofline.serving.requests import Integers, Requests
from roofline.serving.simulate.prices import StepPrices
from roofline.serving.simulate.server import Server

Router = Literal["turns", "load", "prefix"]
ROUTERS: Final[tuple[Router, ...]] = get_args(Router)


class ReplicaWork(Struct, frozen=True):
    """Time of a replica that a router counts with."""

    prefill_s: float
    decode_s: float
    """For each token of a prompt, and of an answer. [s]"""
    room: int
    """Tokens of prefixes that a replica is believed to keep. [token]"""


class ReplicaSchedule(Struct, frozen=True):
    """Replicas that serve over time."""

    starts_s: Array
    """Times from which they are so many, ascending; the first is 0. [s]"""
    replicas: Integers
    """Number of them, 1 or more. [1]"""
    paid_s: float
    """Time for which replicas are paid, all together, those that start included. [s]"""

    @property
    def most(self) -> int:
        """Most of them at once. [1]"""
        return int(self.replicas.max())


def work_of(prices: StepPrices, server: Server, requests: Requests) -> ReplicaWork:
    """Work of tokens at the mean prompt, and at as many sequences as have room.

    Source: prices of steps of `roofline.serving.simulate.prices`.

    Args:
        prices, server: A replica.
        requests: What comes, of which the mean lengths count.
    """
    prompt = float(requests.prompt.mean())
    context = prompt + float(requests.output.mean()) / 2.0
    batch = float(np.clip(server.kv_tokens / context, 1.0, server.max_sequences))
    # Of the batches with a price, which may be hundreds, the two beside this one count.
    above = max(min(int(np.searchsorted(prices.batches, batch)), len(prices.batches) - 1), 1)
    beside = slice(above - 1, above + 1)
    at = [float(np.interp(context, prices.contexts, row)) for row in prices.decode_s[beside]]
    step = prices.engine.decode_step(float(np.interp(batch, prices.batches[beside], at)), batch)
    room = server.kv_tokens + server.outside
    prefill = prices.engine.prefill_gain * prices.prompt_s(prompt, prompt * prices.groups)
    return ReplicaWork(prefill / prompt, float(step) / batch, room if server.sharing else 0)


def routed(requests: Requests, replicas: Sequence[ReplicaWork], router: Router) -> Integers:
    """Replica of each request; those of a session go where its first one went. [1]

    Sessions count with all of their requests as they begin.

    Args:
        requests: What comes, in the order of its arrival.
        replicas: Time that tokens take on each of them.
        router: One of `ROUTERS`.

    Examples:
        A long prompt keeps the first replica busy; the next two go to the second:

        >>> from roofline.serving.requests import requests
        >>> work = ReplicaWork(1.0, 0.0, 0)
        >>> routed(requests([0.0, 0.0, 1.0], [9, 2, 2], 1), [work, work], "load").tolist()
        [0, 1, 1]
    """
    sessions = turn(requests)
    if router == "turns":
        return sessions % len(replicas)
    heads = np.flatnonzero(requests.after < 0)
    prompts, counts = (
        np.bincount(sessions, weights=column).tolist()
        for column in (requests.prompt, np.ones(len(requests)))
    )
    mean = float(requests.output.mean())
    answers = [work.decode_s * mean for work in replicas]
    backlog, last = [0.0] * len(replicas), 0.0
    known = [OrderedDict[int, None]() for _ in replicas]
    kept = requests.block if router == "prefix" else 0
    pages = [work.room // kept if kept else 0 for work in replicas]
    chosen = np.zeros(len(heads), np.int64)
    for number, row in enumerate(heads.tolist()):
        now = float(requests.arrival[row])
        backlog = [max(each - (now - last), 0.0) for each in backlog]
        last = now
        blocks = requests.hashes[requests.prefix[row] : requests.prefix[row + 1]].tolist()
        cost = []
        for place, work in enumerate(replicas):
            hits = _leading(blocks, known[place]) * requests.block
            tokens = max(prompts[number] - hits, 1.0)
            cost.append(tokens * work.prefill_s + counts[number] * answers[place])
        totals = [wait + each for wait, each in zip(backlog, cost, strict=True)]
        best = totals.index(min(totals))
        chosen[number] = best
        backlog[best] = totals[best]
        _remember(known[best], blocks, pages[best])
    out: Integers = chosen[sessions]
    return out


def scheduled(requests: Requests, schedule: ReplicaSchedule) -> Integers:
    """Replica of each request: in turn among those that serve when its session begins. [1]

    Replicas are counted from 0, and the last of them are those that come and go; one that goes
    finishes what it has.

    Examples:
        >>> from roofline.serving.requests import requests
        >>> more = ReplicaSchedule(np.array([0.0, 5.0]), np.array([1, 2]), 0.0)
        >>> scheduled(requests([0.0, 1.0, 6.0, 7.0], 9, 1), more).tolist()
        [0, 0, 0, 1]
    """
    heads = np.flatnonzero(requests.after < 0)
    place = np.searchsorted(schedule.starts_s, requests.arrival[heads], side="right") - 1
    chosen = np.arange(len(heads)) % schedule.replicas[np.maximum(place, 0)]
    return chosen if len(heads) == len(requests) else chosen[turn(requests)]


def turn(requests: Requests) -> Integers:
    """Session, or single request, that each row belongs to, counted from 0. [1]

    Examples:
        >>> from roofline.serving.requests import requests
        >>> turn(requests([0.0, 0.0, 1.0], 5, 5, after=[-1, 0, -1])).tolist()
        [0, 0, 1]
    """
    out: Integers = np.zeros(len(requests), np.int64)
    first = requests.after < 0
    out[first] = np.arange(int(first.sum()))
    for row in np.flatnonzero(~first):
        out[row] = out[requests.after[row]]
    return out


def _leading(blocks: list[int], known: OrderedDict[int, None]) -> int:
    """Blocks at the start that are known. [1]"""
    for number, block in enumerate(blocks):
        if block not in known:
            return number
    return len(blocks)


def _remember(known: OrderedDict[int, None], blocks: list[int], pages: int) -> None:
    """Keep the blocks as those that were used last, in as many pages as there are. [1]"""
    if not pages:
        return
    for block in reversed(blocks):  # those later in a prompt are of use to fewer: they go first
        known[block] = None
        known.move_to_end(block)
    while len(known) > pages:
        known.popitem(last=False)
