"""Clients in a closed loop, served step by step over tables of prices.

Each client sends its next request when its last one is answered; as many clients as requests, each
with the time of its own, are requests that come at a rate. A step decodes one token of every
running sequence, and prefills prompts as the engine's policy has it. Between arrivals and ends a
run of equal steps is one event: attention is taken at the middle context.
"""

from typing import Final

import numba
import numpy as np
from numpy.typing import NDArray

from roofline.cost.work import Array

DECODE_FIRST: Final = 0
WHOLE_PROMPTS: Final = 1
PREFILL_FIRST: Final = 2
RUN: Final = 128
"""Most decode steps of one event."""
WAIT: Final = 2
"""The same while a request is at the front end."""


@numba.njit(cache=True, nogil=True)
def place(grid: Array, x: float) -> int:
    """Interval of a grid that holds a point; the first or last one beyond it."""
    low, high = 0, len(grid) - 2
    while low < high:
        middle = (low + high + 1) // 2
        if grid[middle] <= x:
            low = middle
        else:
            high = middle - 1
    return low


@numba.njit(cache=True, nogil=True)
def line(grid: Array, values: Array, x: float) -> float:
    """Linear between the points of a grid, and beyond the last."""
    i = place(grid, x)
    share = max((x - grid[i]) / (grid[i + 1] - grid[i]), 0.0)
    found: float = values[i] + share * (values[i + 1] - values[i])
    return found


@numba.njit(cache=True, nogil=True)
def plane(rows: Array, columns: Array, values: Array, x: float, y: float) -> float:
    """Linear in both coordinates between the points of a grid, and beyond the last."""
    i, j = place(rows, x), place(columns, y)
    a = max((x - rows[i]) / (rows[i + 1] - rows[i]), 0.0)
    b = max((y - columns[j]) / (columns[j + 1] - columns[j]), 0.0)
    low = values[i, j] * (1 - b) + values[i, j + 1] * b
    high = values[i + 1, j] * (1 - b) + values[i + 1, j + 1] * b
    found: float = low * (1 - a) + high * a
    return found


@numba.njit(cache=True, nogil=True)
def serve(
    isl: NDArray[np.int64],
    osl: NDArray[np.int64],
    clients: int,
    sent: Array,
    tokens: Array,
    body: Array,
    head: Array,
    counts: Array,
    contexts: Array,
    decoding: Array,
    lengths: Array,
    prompt: Array,
    costs: Array,
    policy: int,
    budget: int,
    most: int,
    room: float,
    reserved: float,
) -> tuple[Array, Array, float]:
    """First-token and last-token times since arrival, of each request in order of arrival. [s]

    ``sent``: when each client sends its first request. ``costs``: of a step, of a sequence that
    decodes, of a step that prefills; of a token and of a request at the front end; gains of decode
    and of prefill.
    """
    number = len(isl)
    step_s, sequence_s, prefill_s, front_s, serial_s, decode_gain, prefill_gain = costs
    arrival, first, last = np.zeros(number), np.zeros(number), np.zeros(number)
    ready = np.zeros(number)  # through the front end, which takes one request after the other
    slots = min(most, clients)
    running = np.zeros(slots, np.int64)
    left = np.zeros(slots, np.int64)
    filling = np.zeros(slots, np.int64)  # admitted, prompt not yet whole
    live, queued, begin = 0, 0, 0
    head_done = 0  # tokens of the first prompt being filled
    arrived, taken, done = min(clients, number), 0, 0
    now, context, held, free = 0.0, 0.0, 0.0, 0.0
    for request in range(arrived):
        arrival[request] = sent[request]
        free = max(free, sent[request]) + serial_s
        ready[request] = free
    while done < number:
        if live + queued == 0 and taken < arrived:
            now = max(now, ready[taken])
        blocked = True
        while taken < arrived and live + queued < slots:
            if ready[taken] > now:
                blocked = False
                break
            need = isl[taken] + reserved * osl[taken]
            if held + need > room and live + queued > 0:
                break
            held += need
            filling[(begin + queued) % slots] = taken
            queued += 1
            taken += 1
        new, chunk_s, ended, parts = 0, 0.0, 0, 0
        decodes = live
        if queued > 0:
            allowed = budget - live if policy == DECODE_FIRST else budget
            allowed = max(allowed, 16)
            if policy == PREFILL_FIRST:
                decodes = 0
            while ended < queued and new < allowed:
                request = filling[(begin + ended) % slots]
                start = head_done if ended == 0 else 0
                want = isl[request] - start
                if policy == WHOLE_PROMPTS:
                    if new > 0 and new + want > allowed:
                        break
                    part = want
                else:
                    part = min(want, allowed - new)
                before = line(lengths, prompt, float(start)) if start > 0 else prompt[0]
                chunk_s += line(lengths, prompt, float(start + part)) - before
                new += part
                parts += 1
                if part < want:
                    head_done = start + part
                    break
                ended += 1
        repeat = 1
        if new == 0:
            repeat = left[0]
            for k in range(1, live):
                repeat = min(repeat, left[k])
            repeat = min(repeat, RUN if blocked else WAIT)
        # One step, or several equal ones.
        base = decode_gain * (line(tokens, body, float(decodes)) if decodes > 0 else 0.0)
        if decodes > 0:
            mean = context / live + 0.5 * (repeat - 1) + 1.0
            base += decode_gain * (
                plane(counts, contexts, decoding, float(decodes), mean)
                + line(tokens, head, float(decodes))
            )
        spent = base
        if new > 0:
            both = line(tokens, body, float(decodes + new))
            alone = line(tokens, body, float(decodes)) if decodes > 0 else 0.0
            more = both - alone + prompt[0] + chunk_s
            if ended > 0:
                rows = line(tokens, head, float(decodes + ended))
                more += rows - (line(tokens, head, float(decodes)) if decodes > 0 else 0.0)
            spent += prefill_gain * more + prefill_s
        spent += step_s + sequence_s * decodes
        spent = max(spent, front_s * (decodes + ended))
        now += spent * repeat
        # Decoded tokens.
        if decodes > 0:
            context += float(live * repeat)
            k = 0
            while k < live:
                left[k] -= repeat
                if left[k] <= 0:
                    request = running[k]
                    last[request] = now - arrival[request]
                    context -= isl[request] + osl[request] - 1
                    held -= isl[request] + reserved * osl[request]
                    done += 1
                    if arrived < number:
                        arrival[arrived] = now
                        free = max(free, now) + serial_s
                        ready[arrived] = free
                        arrived += 1
                    live -= 1
                    running[k] = running[live]
                    left[k] = left[live]
                else:
                    k += 1
        # Prompts that are whole give their first token.
        for _ in range(ended):
            request = filling[begin]
            begin = (begin + 1) % slots
            queued -= 1
            first[request] = now - arrival[request]
            if osl[request] <= 1:
                last[request] = first[request]
                held -= isl[request] + reserved * osl[request]
                done += 1
                if arrived < number:
                    arrival[arrived] = now
                    free = max(free, now) + serial_s
                    ready[arrived] = free
                    arrived += 1
            else:
                running[live] = request
                left[live] = osl[request] - 1
                context += isl[request]
                live += 1
        if ended > 0 and (queued == 0 or parts <= ended):
            head_done = 0
    return first, last, now
