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
def later(s: State, i: int, ready: float, inside: bool) -> None:
    """Come at a time that is known now; ``inside`` where the front end is done with it then."""
    r, n = s.rows, s.counts[0]
    r[i].ready, r[i].inside = ready, inside
    n.future = heap.push(s.lists, FUTURE, n.future, i, r)


@compiled
def _through(g: Rules, s: State, i: int, door: float) -> None:
    """Pass the front end, which takes one request after the other, from a time on.

    Where it is behind with tokens a request does not wait for all of them: an event loop takes
    turns, or has a process for each.
    """
    r, n = s.rows, s.counts[0]
    n.front = max(n.front, door) + g.serial_s
    if n.front <= n.now:
        r[i].ready = n.front
        enqueue(s, i)
    else:
        later(s, i, n.front, True)


@compiled
def send(g: Rules, s: State) -> None:
    """Clients that have their answers by now, or start, send what they ask next."""
    r, n = s.rows, s.counts[0]
    now = n.now
    while g.concurrency and n.root < len(s.roots):
        i = s.roots[n.root]
        if r[i].arrival > now:
            break
        start = _next_start(g, s)
        if start <= now:
            n.started += 1
            r[i].arrival = start
        elif n.open < _started(g, s):
            r[i].arrival = now + n.behind
            if n.left:
                late = n.leaving_s / n.left
                n.leaving_s, n.left = n.leaving_s - late, n.left - 1
                r[i].arrival += late
        else:
            break
        n.open += 1
        n.root += 1
        later(s, i, r[i].arrival + g.request_s, False)


@compiled
def enter(g: Rules, s: State) -> None:
    """Let everything that has come by now pass the front end and wait."""
    r, n, now = s.rows, s.counts[0], s.counts[0].now
    while True:
        door, soonest = _door(g, s), np.inf
        if n.future:
            soonest = r[s.lists[FUTURE, 0]].ready
        if min(door, soonest) > now:
            return
        if door <= soonest:
            n.root += 1
            _through(g, s, s.roots[n.root - 1], door)
            continue
        i = s.lists[FUTURE, 0]
        n.future = heap.remove(s.lists, FUTURE, n.future, 0, r)
        if r[i].inside:
            enqueue(s, i)
        else:
            _through(g, s, i, soonest)


@compiled
def start(cold_s: float, s: State) -> float:
    """Time added to the first step with prompts; 0 for later ones. [s]"""
    n = s.counts[0]
    first = n.warm == 0
    n.warm = 1
    return cold_s if first else 0.0


@compiled
def wait(s: State, until: float) -> None:
    """Let time pass in which no step runs, but the front end goes on."""
    n = s.counts[0]
    idle = max(until - n.now, 0.0)
    n.now += idle
    n.behind = max(n.behind - idle, 0.0)


@compiled
def _started(g: Rules, s: State) -> int:
    """Clients that have started."""
    return int(s.counts[0].started if g.ramp_s else g.concurrency)


@compiled
def _next_start(g: Rules, s: State) -> float:
    """Start of the next client; infinity where all have started, or all do at once. [s]"""
    n = s.counts[0]
    if g.ramp_s and n.started < g.concurrency:
        return float(n.started * g.ramp_s / g.concurrency)
    return float(np.inf)


@compiled
def _door(g: Rules, s: State) -> float:
    """Time at which the next request of an open loop is at the front end; else infinity. [s]"""
    n = s.counts[0]
    if g.concurrency or n.root == len(s.roots):
        return float(np.inf)
    return float(s.rows[s.roots[n.root]].arrival + g.request_s)


@compiled
def next_arrival(g: Rules, s: State) -> float:
    """Arrival of the next request, as far as it is known; infinity where none comes. [s]"""
    r, n = s.rows, s.counts[0]
    soonest = _door(g, s)
    if n.future:
        soonest = min(soonest, r[s.lists[FUTURE, 0]].ready)
    if g.concurrency and n.root < len(s.roots):
        arrival = r[s.roots[n.root]].arrival
        # All that have started wait for answers, where branches may be more than clients.
        if n.open >= _started(g, s):
            arrival = max(arrival, _next_start(g, s))
        soonest = min(soonest, arrival)
    return float(soonest)


@compiled
def end(g: Rules, s: State, i: int) -> None:
    """Finish a request now: its memory is free, and those that follow it will come."""
    r, n = s.rows, s.counts[0]
    now = n.now + n.behind + r[i].late
    r[i].finish = now
    n.leaving_s, n.left = n.leaving_s + r[i].late, n.left + 1
    child, other = r[i].child, i
    if not g.batched:
        stored = r[i].prompt + r[i].output - 1
        if g.sharing:
            while child >= 0:
                if _goes_on(s, i, child):
                    other = child
                child = r[child].sibling
        if other != i:
            memory.keep(g, s, i, other, stored)
        memory.release(g, s, i, stored, stored, other)
    n.open -= 1
    child = r[i].child
    while child >= 0:
        _follow(g, s, child, now)
        child = r[child].sibling
    if r[i].joins >= 0:
        _follow(g, s, r[i].joins, now)


@compiled
def _follow(g: Rules, s: State, i: int, now: float) -> None:
    """One less that a request waits for; it comes after the last of them."""
    r, n = s.rows, s.counts[0]
    r[i].awaits -= 1
    if r[i].awaits == 0:
        r[i].arrival = now + r[i].think
        n.open += 1
        later(s, i, r[i].arrival + g.request_s, False)


@compiled
def _goes_on(s: State, i: int, child: int) -> bool:
    """Whether the prompt of a request begins with all pages that another one shares."""
    own, its = s.rows[i], s.rows[child]
    last = own.blocks_end - own.blocks - 1
    if its.blocks_end - its.blocks <= last:
        return False
    return bool(last < 0 or s.hashes[its.blocks + last] == s.hashes[own.blocks + last])
