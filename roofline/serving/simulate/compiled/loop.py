"""Continuous batching: steps are planned one by one, and skipped over where nothing can change.

At every step what has come waits, a plan is made, the step is priced, and its tokens appear at its
end. A batch that only decodes goes on until a sequence ends, its pages run out, or a request comes
that could join; the steps until then are one sum over the table of prices.
"""

import numpy as np

from roofline.serving.simulate.compiled import heap, lookup, memory, paced, queue
from roofline.serving.simulate.compiled.compiler import compiled, entry
from roofline.serving.simulate.compiled.state import (
    DECODING,
    JOINING,
    PARTIAL,
    PREFILLED,
    WAITING,
    PacedDrafts,
    PriceTables,
    Rules,
    State,
)


@entry
def serve(p: PriceTables, g: Rules, s: State, d: PacedDrafts, more: bool, until: float) -> bool:
    """Serve the rows until all are finished, the one after the last matters, or a time is reached.

    At least one step is taken; beyond it none that other replicas could see begins at ``until`` [s]
    or later. True if there may be more to serve.
    """
    n, follows = s.counts[0], len(d.lengths) > 0
    while True:
        queue.send(g, s)
        idle = n.decoding == 0 and n.partial == 0
        looks = idle or n.unseen >= g.look
        if looks:
            queue.enter(g, s)
        if more and n.root == len(s.roots):
            return True
        if looks:
            n.unseen = 0
        if idle and n.waiting == 0:
            soonest = queue.next_arrival(g, s)
            if soonest == np.inf:
                return False
            queue.wait(s, soonest)
            if n.now >= until:
                return True
            continue
        n.swapping, n.begun = 0.0, 0
        calm = True
        if g.decode_first:
            calm = _room_to_decode(g, s, d)
            n.begun = 0 if g.contiguous else _wanted(g, s, 0)
        decoding = n.decoding if g.decode_first else 0
        # Tokens of the step that decode, or verify.
        beside = decoding * (1 + (d.lengths[decoding] if follows else g.drafted))
        new, chunks, blocked = 0, 0, False
        n.prefilled, n.joining = 0, 0
        held = g.hold > 0 and not idle and _held(g, s)
        if calm and not held:
            before = n.preemptions
            new, chunks, blocked = _prefill(p, g, s, beside)
            calm = n.preemptions == before
        if not g.decode_first and new == 0 and n.joining == 0:
            calm = _room_to_decode(g, s, d)
            decoding = n.decoding
        if follows and decoding:
            paced.follow(d, s, decoding)
        steps, took, passing = 0, 0.0, p.token_s * decoding
        if new:
            steps = 1
            busiest, attention_s = max(s.loads), max(s.attending)
            took = lookup.step_s(p, decoding, n.context, n.seen, new, chunks, busiest, attention_s)
            n.late = 0.0
            if p.stages > 1:
                own, own_s = n.longest, n.longest_s
                n.late = lookup.late_s(p, decoding, new, busiest, attention_s, own, own_s)
            took += queue.start(p.cold_s, s)
            passing += p.token_s * n.prefilled
            n.behind = max(n.behind + passing - took - n.swapping, 0.0)
            n.unseen = g.look  # what came meanwhile is looked at next
        elif decoding:
            most, limit = 1, np.inf
            if calm and n.joining == 0 and n.fresh == 0:
                most, limit = _undisturbed(g, s, beside)
                # Steps that decode touch nothing that others see, but ends of what goes on do.
                if len(s.roots) < len(s.rows):
                    limit = min(limit, until - n.now)
            steps, took, n.behind = lookup.decode_run(
                p,
                decoding,
                n.context,
                n.seen,
                n.growing,
                most,
                limit,
                passing,
                n.behind - n.swapping,
            )
            n.unseen += steps
            n.held += steps - 1
        else:
            n.behind = max(n.behind - n.swapping, 0.0)
        start, before = n.now, memory.taken(s)
        n.now += took + n.swapping
        n.busy += took + n.swapping
        _account(g, s, steps, decoding, new, blocked)
        memory.record(s, start, n.now, before * g.page, memory.taken(s) * g.page)
        if decoding:
            if n.fresh:
                _begun(s)
            _decoded(g, s, steps)
        if new and n.late:
            _late(s)
        _joined(g, s, d)
        if n.now >= until:
            return True


@compiled
def _held(g: Rules, s: State) -> bool:
    """Whether prompts wait for others, in this step."""
    n = s.counts[0]
    if n.partial:
        return False
    n.held += 1
    if n.waiting >= g.together or n.held >= g.hold:
        n.held = 0
    return bool(n.held)


@compiled
def _room_to_decode(g: Rules, s: State, d: PacedDrafts) -> bool:
    """Preempt until every sequence has room for its next token; whether nobody had to go."""
    n, calm = s.counts[0], True
    while n.decoding:
        if g.contiguous or _wanted(g, s, 0) <= g.pages - memory.taken(s):
            break
        _preempt(g, s, d)
        calm = False
    return calm


@compiled
def _wanted(g: Rules, s: State, ahead: int) -> int:
    """Pages that sequences begin in a decode step, so many steps ahead."""
    return int(s.phases[(1 - g.drafted - s.counts[0].clock - ahead) % g.page])


@compiled
def _preempt(g: Rules, s: State, d: PacedDrafts) -> None:
    """The last one by priority and time gives up its pages and waits again."""
    r, n = s.rows, s.counts[0]
    at, partial, victim = -1, -1, -1
    for place in range(n.partial):
        i = s.lists[PARTIAL, place]
        if victim < 0 or heap.before(r[victim], r[i], WAITING):
            partial, victim = place, i
    for place in range(n.decoding):
        i = s.lists[DECODING, place]
        if victim < 0 or heap.before(r[victim], r[i], WAITING):
            at, victim = place, i
    n.preemptions += 1
    r[victim].preempted += 1
    if at < 0:
        _stop_partial(g, s, partial)
    else:
        n.decoding = heap.remove(s.lists, DECODING, n.decoding, at, r)
        s.phases[(r[victim].prompt + r[victim].made - r[victim].joined) % g.page] -= 1
        if len(d.lengths):
            paced.catch_up(d, s, victim)
        r[victim].made += n.clock - r[victim].joined
        _attend(g, s, r[victim].prompt + r[victim].made, -1)
        stored = r[victim].prompt + r[victim].made - 1
        memory.release(g, s, victim, stored, stored, victim)
        if g.swap and n.host + stored <= g.host_tokens:
            r[victim].swapped = True
            n.host += stored
            n.swapped_tokens += stored
            n.swapping += stored * g.swap_s
        else:
            n.recomputed_tokens += stored
    queue.enqueue(s, victim)


@compiled
def _stop_partial(g: Rules, s: State, at: int) -> None:
    """Take back the memory of a prompt that is partly prefilled, by its place among them."""
    r, n = s.rows, s.counts[0]
    i = s.lists[PARTIAL, at]
    memory.release(g, s, i, r[i].done if g.grown else r[i].goal, r[i].done, i)
    n.recomputed_tokens += r[i].done
    _drop_partial(s, at)


@compiled
def _drop_partial(s: State, at: int) -> None:
    n = s.counts[0]
    n.partial -= 1
    for place in range(at, n.partial):
        s.lists[PARTIAL, place] = s.lists[PARTIAL, place + 1]


@compiled
def _room(g: Rules, beside: int) -> int:
    """Tokens of prompts for which a group has room in a step, beside those that all decode."""
    return max(g.budget // g.groups, 1) - (beside + g.groups - 1) // g.groups


@compiled
def _prefill(p: PriceTables, g: Rules, s: State, beside: int) -> tuple[int, int, bool]:
    """Plan the prompts of a step: tokens, chunks, whether memory is short.

    A prompt goes on in the group in which it began, and begins in the one with fewest tokens.
    """
    r, n = s.rows, s.counts[0]
    room = _room(g, beside)
    new, chunks, at = 0, 0, 0
    n.longest, n.longest_s = 0, 0.0
    s.loads[:] = 0
    s.attending[:] = 0.0
    while at < n.partial:
        i = s.lists[PARTIAL, at]
        tokens = min(room, r[i].goal - r[i].done)
        if tokens <= 0:
            at += 1
            continue
        if g.grown and not memory.grow(g, s, i, tokens):
            # One has to go, the last of those that are still to come, and nobody is admitted.
            at = n.partial - 1
            i = s.lists[PARTIAL, at]
            n.preemptions += 1
            r[i].preempted += 1
            _stop_partial(g, s, at)
            queue.enqueue(s, i)
            return new, chunks, True
        new, chunks = new + tokens, chunks + 1
        if _compute(p, g, s, i, tokens):
            _drop_partial(s, at)
        else:
            at += 1
    while n.waiting and n.running < g.max_sequences:
        group = s.loads.argmin()
        left = room - s.loads[group]
        if left <= 0:
            break
        i = s.lists[WAITING, 0]
        ready = r[i].swapped
        r[i].goal = r[i].prompt + r[i].made - ready
        # A prompt that is not cut is the first of its group's step, or has room in what is left.
        beside_others = s.loads[group] or (g.fits and beside)
        whole = beside_others and not g.chunked and not ready
        if whole and r[i].goal - memory.matched(g, s, i)[3] > left:
            break
        if not memory.admit(g, s, i, ready, left):
            return new, chunks, True
        n.waiting = heap.remove(s.lists, WAITING, n.waiting, 0, r)
        came = np.isnan(r[i].admitted)
        if came:
            r[i].admitted = n.now
            r[i].found = r[i].done
        if ready:
            r[i].swapped = False
            if not came:  # it was here before, and is back from the host
                n.host -= r[i].done
                n.swapping += r[i].done * g.swap_s
            s.lists[JOINING, n.joining] = i
            n.joining += 1
            continue
        tokens = r[i].goal - r[i].done
        if g.chunked:
            tokens = min(left, tokens)
        new, chunks = new + tokens, chunks + 1
        r[i].group = group
        if not _compute(p, g, s, i, tokens):
            s.lists[PARTIAL, n.partial] = i
            n.partial += 1
    return new, chunks, False


@compiled
def _compute(p: PriceTables, g: Rules, s: State, i: int, tokens: int) -> bool:
    """Take a chunk of a prompt into its group's step; whether it is the last one."""
    r, n = s.rows, s.counts[0]
    attention_s = lookup.chunk_s(p, tokens, r[i].done)
    s.attending[r[i].group] += attention_s
    if tokens > n.longest:
        n.longest, n.longest_s = tokens, attention_s
    s.loads[r[i].group] += tokens
    r[i].done += tokens
    if r[i].done < r[i].goal:
        return False
    s.lists[PREFILLED, n.prefilled] = i
    n.prefilled += 1
    if g.sharing:
        memory.keep(g, s, i, i, r[i].prompt)
    return True


@compiled
def _undisturbed(g: Rules, s: State, beside: int) -> tuple[int, float]:
    """Decode steps after which the batch is another, and the time until one may join it. [s]"""
    r, n = s.rows, s.counts[0]
    most = r[s.lists[DECODING, 0]].ends - n.clock
    if not g.contiguous:
        most = min(most, _steps_with_pages(g, s, most))
    if n.growing:
        at = n.clock % g.window
        for ahead in range(1, most):
            at = at + 1 if at + 1 < g.window else 0
            if s.fills[at]:
                most = ahead
                break
    left = _room(g, beside)
    if g.hold:
        most = min(most, g.hold - n.held) if n.held else 1
    if g.look > 1:
        return min(most, g.look - n.unseen), np.inf
    # Who waits for memory stays first in the queue, unless one of a higher priority comes.
    queued = n.waiting and g.uniform and not g.hold
    if n.running >= g.max_sequences or left <= 0 or queued:
        return most, np.inf
    return most, queue.next_arrival(g, s) - n.now


@compiled
def _attend(g: Rules, s: State, context: int, one: int) -> None:
    """A sequence whose next step sees so many keys more among those that decode, or less: −1."""
    n = s.counts[0]
    n.context += one * context
    n.seen += one * min(context, g.window)
    if context < g.window:
        n.growing += one
        s.fills[(n.clock + g.window - context) % g.window] += one


@compiled
def _steps_with_pages(g: Rules, s: State, most: int) -> int:
    """Decode steps for which there are pages, no more than asked for."""
    n = s.counts[0]
    free, batch = g.pages - memory.taken(s), n.decoding
    if batch * ((most + g.page - 1) // g.page) <= free:
        return most
    steps = free // batch * g.page
    left = free % batch
    while steps < most:
        left -= _wanted(g, s, steps)
        if left < 0:
            break
        steps += 1
    return int(min(steps, most))


@compiled
def _account(g: Rules, s: State, steps: int, decoding: int, new: int, blocked: bool) -> None:
    """Give out the pages of the steps, and add up what is held and stored at the end of each."""
    n = s.counts[0]
    held = steps * memory.taken(s)
    if decoding and not g.contiguous:
        grown, over = _growth(g, s, steps, decoding)
        n.own += grown
        held += over
        memory.make_room(g, s)
    if steps:
        n.peak = max(n.peak, memory.taken(s))
    if blocked and g.contiguous:
        n.blocked_steps += steps * (g.pages - n.own)
    n.steps += steps
    n.held_steps += held * g.page
    n.final_steps += steps * n.final
    n.stored_steps += steps * (n.stored + new) + decoding * (steps * (steps + 1) // 2)
    n.stored += new + decoding * steps
    n.prefilled_tokens += new
    n.decoded_tokens += decoding * steps


@compiled
def _growth(g: Rules, s: State, steps: int, decoding: int) -> tuple[int, int]:
    """Pages that a batch begins in some steps, and their sum over the ends of those steps.

    In as many steps as a page has tokens every sequence begins one.
    """
    whole, rest = steps // g.page, steps % g.page
    grown, over, rest_grown, rest_over = 0, 0, 0, 0
    at = (1 - g.drafted - s.counts[0].clock) % g.page
    for ahead in range(g.page if whole else rest):
        grown += s.phases[at]
        over += grown
        at = at - 1 if at else g.page - 1
        if ahead + 1 == rest:
            rest_grown, rest_over = grown, over
    if not whole:
        return rest_grown, rest_over
    over = whole * over + decoding * g.page * (whole * (whole - 1) // 2)
    return whole * decoding + rest_grown, over + rest * whole * decoding + rest_over


@compiled
def _late(s: State) -> None:
    """Prompts of a step leave the pipeline as late as the latest of their chunks."""
    r, n = s.rows, s.counts[0]
    for place in range(n.partial):
        i = s.lists[PARTIAL, place]
        r[i].late = max(r[i].late, n.late)
    for at in range(n.prefilled):
        i = s.lists[PREFILLED, at]
        r[i].late = max(r[i].late, n.late)


@compiled
def _begun(s: State) -> None:
    """Caches that came have had a step: its token is handed out with the one before."""
    r, n = s.rows, s.counts[0]
    for place in range(n.decoding):
        i = s.lists[DECODING, place]
        if np.isnan(r[i].first):
            r[i].first = n.now + n.behind
    n.fresh = 0


@compiled
def _decoded(g: Rules, s: State, steps: int) -> None:
    """Every sequence that decodes has so many tokens more; some have all of theirs."""
    r, n = s.rows, s.counts[0]
    n.clock += steps
    n.context += steps * n.decoding
    n.seen += steps * n.growing
    if n.growing:
        n.growing -= s.fills[n.clock % g.window]
        s.fills[n.clock % g.window] = 0
    while n.decoding and r[s.lists[DECODING, 0]].ends == n.clock:
        i = s.lists[DECODING, 0]
        n.decoding = heap.remove(s.lists, DECODING, n.decoding, 0, r)
        s.phases[(r[i].prompt + r[i].made - r[i].joined) % g.page] -= 1
        r[i].output = r[i].made + n.clock - r[i].joined  # in rounds, where lengths followed
        _attend(g, s, r[i].prompt + r[i].output, -1)
        queue.end(g, s, i)


@compiled
def _joined(g: Rules, s: State, d: PacedDrafts) -> None:
    """Prompts that are prefilled have their next token; they, and caches that came, decode."""
    r, n = s.rows, s.counts[0]
    for at in range(n.prefilled):
        i = s.lists[PREFILLED, at]
        r[i].made += 1
        if np.isnan(r[i].first):
            r[i].first = n.now + n.behind + r[i].late
        done = r[i].made == r[i].output
        if len(d.lengths):
            k = r[i].number
            d.made[k] += 1
            done = d.made[k] >= d.tokens[k]
        if done:
            r[i].output = r[i].made
            queue.end(g, s, i)
        else:
            _join(g, s, d, i)
    for at in range(n.joining):
        i = s.lists[JOINING, at]
        if np.isnan(r[i].first):
            n.fresh = 1
        _join(g, s, d, i)


@compiled
def _join(g: Rules, s: State, d: PacedDrafts, i: int) -> None:
    r, n = s.rows, s.counts[0]
    r[i].joined = n.clock
    r[i].ends = n.clock + r[i].output - r[i].made
    if len(d.lengths):
        d.since[r[i].number] = n.clock
        r[i].ends = n.clock + paced.rounds_left(d, r[i].number, n.length)
    s.phases[(r[i].prompt + r[i].made - n.clock) % g.page] += 1
    _attend(g, s, r[i].prompt + r[i].made, 1)
    n.decoding = heap.push(s.lists, DECODING, n.decoding, i, r)
