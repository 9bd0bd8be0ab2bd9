"""Batches that nobody joins: gathered, prefilled in one step, decoded to the end."""

import numpy as np

from roofline.serving.simulate.compiled import heap, lookup, memory, queue
from roofline.serving.simulate.compiled.compiler import compiled, entry
from roofline.serving.simulate.compiled.state import (
    DECODING,
    JOINING,
    WAITING,
    PriceTables,
    Rules,
    State,
)


@entry
def serve(p: PriceTables, g: Rules, s: State, more: bool) -> None:
    """Serve the rows until all are finished, or until the one after the last matters."""
    n = s.counts[0]
    while True:
        queue.send(g, s)
        queue.enter(g, s)
        if more and n.root == len(s.roots):
            return
        soonest = queue.next_arrival(g, s)
        if n.waiting < g.max_sequences and soonest < np.inf:
            until = _last_call(g, s)
            if n.now < until:
                queue.wait(s, min(soonest, until))
                continue
        if n.waiting == 0:
            return
        count = _gather(g, s)
        if g.padded:
            _padded(p, g, s, count)
        else:
            _packed(p, g, s, count)


@compiled
def _last_call(g: Rules, s: State) -> float:
    """Start of a batch that is not full. [s]"""
    if g.waits or s.counts[0].waiting == 0:
        return float(np.inf)
    r, n = s.rows, s.counts[0]
    oldest = np.inf
    for at in range(n.waiting):
        oldest = min(oldest, r[s.lists[WAITING, at]].ready)
    return float(oldest + g.timeout_s)


@compiled
def _gather(g: Rules, s: State) -> int:
    """Take from the queue what a batch holds, and what the cache holds at its end."""
    r, n = s.rows, s.counts[0]
    count, held, prompt, output = 0, 0, 0, 0
    while n.waiting and count < g.max_sequences:
        i = s.lists[WAITING, 0]
        prompt, output = max(prompt, r[i].prompt), max(output, r[i].output)
        if g.padded:
            held = (count + 1) * memory.pages(g, prompt + output - 1)
        else:
            held += memory.pages(g, r[i].prompt + r[i].output - 1)
        if count and held > g.pages:
            break
        n.waiting = heap.remove(s.lists, WAITING, n.waiting, 0, r)
        r[i].admitted = n.now
        s.lists[JOINING, count] = i
        count += 1
    return count


@compiled
def _pass(s: State, took: float, steps: int, held: int, final: int, stored: int) -> None:
    """Steps go by, with so many tokens held and needed in the end; those stored are a sum."""
    n = s.counts[0]
    memory.record(s, n.now, n.now + took, held, held)
    n.now += took
    n.busy += took
    n.steps += steps
    n.held_steps += steps * held
    n.final_steps += steps * final
    n.stored_steps += stored
    n.peak = max(n.peak, held) if steps else n.peak


@compiled
def _padded(p: PriceTables, g: Rules, s: State, count: int) -> None:
    """Every prompt as long as the longest, every answer too; all are returned at the end."""
    r, n = s.rows, s.counts[0]
    prompt, output, real, final = 0, 0, 0, 0
    for at in range(count):
        i = s.lists[JOINING, at]
        prompt, output = max(prompt, r[i].prompt), max(output, r[i].output)
        real += r[i].prompt
        final += r[i].prompt + r[i].output - 1
    held = count * memory.pages(g, prompt + output - 1) * g.page
    passing = p.token_s * count
    each = (count + g.groups - 1) // g.groups  # prompts of the busiest group
    attention_s = each * lookup.chunk_s(p, prompt, 0)
    took = lookup.step_s(p, 0, 0, 0, count * prompt, count, each * prompt, attention_s)
    took += queue.start(p.cold_s, s)
    n.behind = max(n.behind + passing - took, 0.0)
    _pass(s, took, 1, held, final, real)
    n.prefilled_tokens += count * prompt
    steps = output - 1
    stored = steps * real
    for at in range(count):
        i = s.lists[JOINING, at]
        r[i].first = n.now + n.behind
        own = r[i].output - 1
        stored += own * (own + 1) // 2 + (steps - own) * own
    growing = min(max(g.window - prompt - 1, 0), steps)
    seen, whole = count * min(prompt + 1, g.window), count * (prompt + 1)
    _, took, n.behind = lookup.decode_run(
        p, count, whole, seen, count, growing, np.inf, passing, n.behind
    )
    seen, whole = count * g.window, count * (prompt + 1 + growing)
    _, more, n.behind = lookup.decode_run(
        p, count, whole, seen, 0, steps - growing, np.inf, passing, n.behind
    )
    _pass(s, took + more, steps, held, final, stored)
    n.decoded_tokens += count * steps
    for at in range(count):
        queue.end(g, s, s.lists[JOINING, at])


@compiled
def _packed(p: PriceTables, g: Rules, s: State, count: int) -> None:
    """Only tokens that are asked for; each answer is returned when it is complete."""
    r, n = s.rows, s.counts[0]
    context, held, final, batch = 0, 0, 0, 0
    s.loads[:] = 0
    s.attending[:] = 0.0
    for at in range(count):
        i = s.lists[JOINING, at]
        context += r[i].prompt
        final += r[i].prompt + r[i].output - 1
        held += memory.pages(g, r[i].prompt + r[i].output - 1)
        group = s.loads.argmin()
        s.loads[group] += r[i].prompt
        s.attending[group] += lookup.chunk_s(p, r[i].prompt, 0)
        r[i].ends = r[i].output
        batch = heap.push(s.lists, DECODING, batch, i, r)
    took = lookup.step_s(p, 0, 0, 0, context, count, max(s.loads), max(s.attending))
    took += queue.start(p.cold_s, s)
    n.behind = max(n.behind + p.token_s * count - took, 0.0)
    _pass(s, took, 1, held * g.page, final, context)
    n.prefilled_tokens += context
    for at in range(count):
        r[s.lists[JOINING, at]].first = n.now + n.behind
    made = 1
    while batch:
        i = s.lists[DECODING, 0]
        steps, seen, growing = r[i].output - made, 0, 0
        for at in range(batch):
            own = r[s.lists[DECODING, at]].prompt + made
            seen += min(own, g.window)
            if own < g.window:
                growing += 1
                steps = min(steps, g.window - own)
        passing = p.token_s * batch
        _, took, n.behind = lookup.decode_run(
            p, batch, context + batch, seen, growing, steps, np.inf, passing, n.behind
        )
        stored = steps * context + batch * (steps * (steps + 1) // 2)
        _pass(s, took, steps, held * g.page, final, stored)
        n.decoded_tokens += batch * steps
        context += batch * steps
        made += steps
        if made < r[i].output:
            continue
        batch = heap.remove(s.lists, DECODING, batch, 0, r)
        context -= r[i].prompt + made - 1
        final -= r[i].prompt + r[i].output - 1
        held -= memory.pages(g, r[i].prompt + r[i].output - 1)
        queue.end(g, s, i)
