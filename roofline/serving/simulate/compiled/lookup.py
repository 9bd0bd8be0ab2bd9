"""Step times interpolated in tables, for one step and for a run of decode steps."""

import numpy as np

from roofline.cost.work import Array
from roofline.serving.simulate.compiled.compiler import compiled
from roofline.serving.simulate.compiled.state import PriceTables


@compiled
def interval(points: Array, x: float) -> int:
    """Index of the interval of sorted points that holds x; the last one beyond them."""
    low, high = 0, len(points) - 1
    while high - low > 1:
        middle = (low + high) >> 1
        if points[middle] <= x:
            low = middle
        else:
            high = middle
    return low


@compiled
def line(points: Array, values: Array, x: float) -> float:
    """Linear interpolation between points, extrapolated beyond the last."""
    i = interval(points, x)
    share = (x - points[i]) / (points[i + 1] - points[i])
    return float(values[i] + share * (values[i + 1] - values[i]))


@compiled
def chunk_s(p: PriceTables, new: int, before: int) -> float:
    """Time of the attention of a chunk of new tokens after cached ones. [s]"""
    i, j = interval(p.chunks, new), interval(p.cached, before)
    x = (new - p.chunks[i]) / (p.chunks[i + 1] - p.chunks[i])
    y = (before - p.cached[j]) / (p.cached[j + 1] - p.cached[j])
    a, table = 1.0 - x, p.attention
    low = a * table[i, j] + x * table[i + 1, j]
    high = a * table[i, j + 1] + x * table[i + 1, j + 1]
    return float(new * (low + y * (high - low)))


@compiled
def step_s(
    p: PriceTables,
    decoding: int,
    context: float,
    seen: float,
    new: int,
    chunks: int,
    busiest: int,
    attention_s: float,
) -> float:
    """Time of a step with chunks. [s]

    ``context`` and ``seen`` are sums over the decoding sequences: of all their keys, and of those
    inside their window. ``busiest`` are the new tokens of the group that has most of them.
    """
    groups = round(1.0 / p.shares[0])
    beside = (decoding + groups - 1) // groups
    rows = groups * (beside + (chunks + groups - 1) // groups)
    total = _others_s(p, decoding + new, beside + busiest)
    total += p.head[rows] + attention_s
    if decoding:
        total += line(p.contexts, p.mixed[decoding], context / decoding)
        total += line(p.windows, p.seen[decoding], seen / decoding)
    return float(max(total, p.launch_s) + p.step_s + p.sequence_s * decoding + p.prefill_s)


@compiled
def late_s(
    p: PriceTables,
    decoding: int,
    new: int,
    busiest: int,
    attention_s: float,
    longest: int,
    longest_s: float,
) -> float:
    """Time from the end of a pipeline's step to that of its longest chunk. [s]

    A step is a round of micro-batches, over which its tokens are spread. A chunk is in one of them
    and passes all stages: where there are fewer chunks than stages that takes longer than a round,
    though the next one begins meanwhile.
    """
    groups = round(1.0 / p.shares[0])
    beside = (decoding + groups - 1) // groups
    last = len(p.passing) - 1
    tokens = beside // p.stages + longest
    through = p.passing[min(tokens, last)] + p.passing_slope * max(tokens - last, 0)
    through += p.stages * longest_s
    return float(max(through - _others_s(p, decoding + new, beside + busiest) - attention_s, 0.0))


@compiled
def _others_s(p: PriceTables, tokens: int, busiest: int) -> float:
    """Kernels of a step but attention, by its tokens and those of its busiest group. [s]"""
    last = p.others.shape[1] - 1
    at, beyond = min(tokens, last), max(tokens - last, 0)
    if len(p.shares) == 1:
        return float(p.others[0, at] + p.others_slope[0] * beyond)
    share = min(max(busiest / tokens, p.shares[0]), 1.0)
    i = interval(p.shares, share)
    y = (share - p.shares[i]) / (p.shares[i + 1] - p.shares[i])
    low = p.others[i, at] + p.others_slope[i] * beyond
    high = p.others[i + 1, at] + p.others_slope[i + 1] * beyond
    return float(low + y * (high - low))


@compiled
def decode_run(
    p: PriceTables,
    decoding: int,
    context: int,
    seen: int,
    growing: int,
    most: int,
    limit: float,
    passing: float,
    behind: float,
) -> tuple[int, float, float]:
    """Steps of an unchanged decoding batch up to a limit, their time, and the front end's backlog.

    Every step adds a key to each context, and one inside the window to ``growing`` of them. Step
    time is linear in each interval of the tables, so n steps take n·a + b·n(n − 1)/2, which is
    solved for n where the limit is reached.

    Args:
        p: Tables of step times.
        decoding: Sequences that decode. [1]
        context, seen: Sums of their keys, and of their keys inside a window. [token]
        growing: Sequences whose window is not full. [1]
        most: Steps at most. [1]
        limit: Time after which no step begins. [s]
        passing, behind: Front-end time for the tokens of a step, and its backlog at first. [s]

    Returns:
        tuple: Steps [1], their time [s], and the backlog after them [s].
    """
    row, window = p.alone[decoding], p.seen[decoding]
    mean, left, grows = context / decoding, seen / decoding, growing / decoding
    steps, total = 0, 0.0
    i, j = interval(p.contexts, mean), interval(p.windows, left)
    last_i, last_j = len(p.contexts) - 2, len(p.windows) - 2
    while steps < most:
        x, y = mean + steps, left + grows * steps
        while i < last_i and x >= p.contexts[i + 1]:
            i += 1
        while j < last_j and y >= p.windows[j + 1]:
            j += 1
        by_x = (row[i + 1] - row[i]) / (p.contexts[i + 1] - p.contexts[i])
        by_y = (window[j + 1] - window[j]) / (p.windows[j + 1] - p.windows[j])
        first = row[i] + by_x * (x - p.contexts[i]) + window[j] + by_y * (y - p.windows[j])
        slope = by_x + by_y * grows
        n = most - steps
        if i < last_i:
            n = min(n, int(np.ceil(p.contexts[i + 1] - x)))
        if j < last_j and grows > 0.0:
            n = min(n, max(int(np.ceil((p.windows[j + 1] - y) / grows)), 1))
        taken = n * first + slope * (0.5 * n * (n - 1))
        last = total + taken >= limit
        if last:
            n = _reached(first, slope, n, limit - total)
            taken = n * first + slope * (0.5 * n * (n - 1))
        steps += n
        total += taken
        if passing > 0.0 or behind != 0.0:
            behind = _behind(first, slope, n, passing, behind)
        if last:
            break
    return steps, total, behind


@compiled
def _behind(first: float, slope: float, n: int, passing: float, behind: float) -> float:
    """Backlog of the front end after n steps: max(0, behind + passing − step) for each. [s]

    It was last idle before all of them, after all of them or, where steps become shorter, after
    the last one that is not shorter than ``passing``.
    """
    ahead = n * (first - passing) + slope * (0.5 * n * (n - 1))
    most = max(behind - ahead, 0.0)
    if slope < 0.0 and first >= passing:
        k = min(np.floor((passing - first) / slope) + 1.0, float(n))
        most = max(most, k * (first - passing) + slope * (0.5 * k * (k - 1.0)) - ahead)
    return float(most)


@compiled
def _reached(first: float, slope: float, most: int, limit: float) -> int:
    """Fewest steps, at least 1, that reach a time that ``most`` steps reach. [1]"""
    half = 0.5 * slope
    along = first - half
    root = np.sqrt(max(along * along + 4.0 * half * limit, 0.0))
    n = 1
    if along + root > 0.0:
        n = int(min(max(np.ceil(2.0 * limit / (along + root)), 1.0), float(most)))
    while n > 1 and (n - 1) * first + half * (n - 1) * (n - 2) >= limit:
        n -= 1
    while n < most and n * first + half * n * (n - 1) < limit:
        n += 1
    return n
