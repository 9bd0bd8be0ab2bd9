"""Prices of steps read from dense tables, and of many decode steps at once."""

from typing import NamedTuple

import numpy as np

from roofline.cost.work import Array
from roofline.serving.simulate.compiled.compiler import compiled


class Prices(NamedTuple):
    """Tables of `StepPrices` with an engine's costs in them, a row or entry for every integer.

    Attributes
    ----------
    contexts
        Points of the rows below. [token]
    alone, mixed
        By sequences that decode: a step that does nothing else; and their part of one that
        prefills too. [s]
    others, others_slope
        By tokens of a step with prompts; beyond the last entry, for each token. [s]
    head
        By rows of logits. [s]
    chunks, cached, attention
        Attention of a chunk for each of its tokens. [token] [s]
    prefill_s
        Added to a step that prefills. [s]
    front_end_s
        Least time of a step for each sequence that decodes. [s]
    """

    contexts: Array
    alone: Array
    mixed: Array
    others: Array
    others_slope: float
    head: Array
    chunks: Array
    cached: Array
    attention: Array
    prefill_s: float
    front_end_s: float


@compiled
def interval(points: Array, x: float) -> int:
    """Interval of points that a value lies in; the last one for what is beyond."""
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
    """Straight between points, and straight on beyond the last."""
    i = interval(points, x)
    share = (x - points[i]) / (points[i + 1] - points[i])
    return float(values[i] + share * (values[i + 1] - values[i]))


@compiled
def chunk_s(p: Prices, new: int, before: int) -> float:
    """Attention of a chunk. [s]"""
    i, j = interval(p.chunks, new), interval(p.cached, before)
    x = (new - p.chunks[i]) / (p.chunks[i + 1] - p.chunks[i])
    y = (before - p.cached[j]) / (p.cached[j + 1] - p.cached[j])
    a, table = 1.0 - x, p.attention
    low = a * table[i, j] + x * table[i + 1, j]
    high = a * table[i, j + 1] + x * table[i + 1, j + 1]
    return float(new * (low + y * (high - low)))


@compiled
def step_s(
    p: Prices, decoding: int, context: float, new: int, chunks: int, attention_s: float
) -> float:
    """Time of one step; ``context`` is the sum over the sequences that decode. [s]"""
    mean = context / decoding if decoding else p.contexts[0]
    if new == 0:
        return float(line(p.contexts, p.alone[decoding], mean))
    last = len(p.others) - 1
    tokens = decoding + new
    others = p.others[min(tokens, last)] + p.others_slope * max(tokens - last, 0)
    added = others + p.head[decoding + chunks] + attention_s
    total = line(p.contexts, p.mixed[decoding], mean) + added + p.prefill_s
    return float(max(total, p.front_end_s * decoding))


@compiled
def decode_run(
    contexts: Array, row: Array, mean: float, most: int, limit: float
) -> tuple[int, float]:
    """Decode steps of a batch that stays as it is, until a time has passed: how many, how long.

    Each step finds the mean context one longer. The times are a straight line in every interval,
    so their sum there is n·a + b·n(n − 1)/2, and solved for n where the limit is reached.
    """
    steps, total = 0, 0.0
    i = interval(contexts, mean)
    last = len(contexts) - 2
    while steps < most:
        x = mean + steps
        while i < last and x >= contexts[i + 1]:
            i += 1
        slope = (row[i + 1] - row[i]) / (contexts[i + 1] - contexts[i])
        first = row[i] + slope * (x - contexts[i])
        n = most - steps
        if i < last:
            n = min(n, int(np.ceil(contexts[i + 1] - x)))
        taken = n * first + slope * (0.5 * n * (n - 1))
        if total + taken >= limit:
            n = _reached(first, slope, n, limit - total)
            return steps + n, total + n * first + slope * (0.5 * n * (n - 1))
        steps += n
        total += taken
    return steps, total


@compiled
def _reached(first: float, slope: float, most: int, limit: float) -> int:
    """Fewest steps, at least 1, that take so long; it is known that ``most`` do."""
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
