"""Requests come, wait, and end; those that follow them come later."""

import numpy as np

from roofline.serving.simulate.compiled import heap, memory
from roofline.serving.simulate.compiled.compiler import compiled
from roofline.serving.simulate.compiled.state import FUTURE, WAITING, Rules, State


@compiled
def enqueue(s: State, i: int) -> None:
    """Wait: first by priority, then by time."""
    r, n = s.rows, s.counts[0]
    n.waiting = heap.push(s.lists, WAITING, n.waiting, i, r)


@compiled
def later(s: State, i: int, ready: float) -> None:
    """Come at a time that is known now."""
    r, n = s.rows, s.counts[0]
    r[i].ready = ready
    n.future = heap.push(s.lists, FUTURE, n.future, i, r)


@compiled
def arrive(g: Rules, s: State) -> None:
    """Let everything in that has come by now."""
    r, n = s.rows, s.counts[0]
    now = n.now
    while n.root < len(s.roots):
        i = s.roots[n.root]
        if g.concurrency:
            if n.open >= g.concurrency or r[i].arrival > now:
                break
            n.open += 1
            r[i].arrival = now
        ready = r[i].arrival + g.request_s
        n.root += 1
        if ready <= now:
            r[i].ready = ready
            enqueue(s, i)
        elif g.concurrency:
            later(s, i, ready)
        else:
            n.root -= 1
            break
    while n.future and r[s.lists[FUTURE, 0]].ready <= now:
        i = s.lists[FUTURE, 0]
        n.future = heap.remove(s.lists, FUTURE, n.future, 0, r)
        enqueue(s, i)


@compiled
def next_arrival(g: Rules, s: State) -> float:
    """When the next request comes, as far as it is known; infinity where none does. [s]"""
    r, n = s.rows, s.counts[0]
    soonest = np.inf
    if n.future:
        soonest = r[s.lists[FUTURE, 0]].ready
    if n.root < len(s.roots):
        arrival = r[s.roots[n.root]].arrival
        if not g.concurrency:
            soonest = min(soonest, arrival + g.request_s)
        elif n.open < g.concurrency:
            soonest = min(soonest, arrival)
    return float(soonest)


@compiled
def end(g: Rules, s: State, i: int) -> None:
    """Finish a request now: its memory is free, and those that follow it will come."""
    r, n = s.rows, s.counts[0]
    now = n.now
    r[i].finish = now
    child, other = r[i].child, i
    if not g.batched:
        stored = r[i].prompt + r[i].output - 1
        if g.sharing and child >= 0 and _goes_on(s, i, child):
            other = child
            memory.keep(g, s, i, child, stored)
        memory.release(g, s, i, stored, stored, other)
    n.open -= 1
    while child >= 0:
        r[child].arrival = now + r[child].think
        n.open += 1
        later(s, child, r[child].arrival + g.request_s)
        child = r[child].sibling


@compiled
def _goes_on(s: State, i: int, child: int) -> bool:
    """Whether the prompt of a request begins with all pages that another one shares."""
    own, its = s.rows[i], s.rows[child]
    last = own.blocks_end - own.blocks - 1
    if its.blocks_end - its.blocks <= last:
        return False
    return bool(last < 0 or s.hashes[its.blocks + last] == s.hashes[own.blocks + last])
