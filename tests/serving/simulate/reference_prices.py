"""The price of a step read from its tables, one step at a time, as plainly as can be."""

import math

import numpy as np

from roofline.cost.work import Array
from roofline.serving.simulate.prices import StepPrices


def step_s(
    prices: StepPrices,
    decoding: int,
    context: float,
    chunks: list[tuple[int, int]],
    seen: float | None = None,
    places: list[int] | None = None,
) -> float:
    """A step of so many decoding sequences and of chunks (new tokens, tokens before them). [s]

    ``context`` is the sum of what the sequences see, ``seen`` of what a window leaves of it: if
    they are all alike where it is not given. ``places`` are the groups of devices of the chunks: in
    turn, if they are not given.
    """
    engine = prices.engine
    software = engine.step_s + float(engine.sequence_s) * decoding
    total = 0.0
    if decoding:
        mean = context / decoding
        left = min(mean, prices.window) if seen is None else seen / decoding
        own = decode_s(prices, decoding, mean) + window_s(prices, decoding, left)
        total += engine.decode_gain * own
    if chunks:
        groups = round(1 / prices.shares[0])
        loads: list[list[tuple[int, int]]] = [[] for _ in range(groups)]
        for number, chunk in enumerate(chunks):
            loads[places[number] if places else number % groups].append(chunk)
        new = sum(tokens for tokens, _ in chunks)
        decoded, prompts = math.ceil(decoding / groups), math.ceil(len(chunks) / groups)
        busiest = decoded + max(sum(tokens for tokens, _ in load) for load in loads)
        added = others_s(prices, decoding + new, busiest) - alone_s(prices, decoding)
        added += head_s(prices, groups * (decoded + prompts))
        added += max(sum(n * attention_s(prices, n, s) for n, s in load) for load in loads)
        total = max(total + engine.prefill_gain * added, engine.launch_s)
        software += engine.prefill_s
    return total + software


def window_s(prices: StepPrices, decoding: int, left: float) -> float:
    by_batch = np.array([line(prices.windows, row, left) for row in prices.window_s])
    return line(prices.batches, by_batch, decoding)


def line(points: Array, values: Array, x: float) -> float:
    """Straight between the points, and straight on beyond the last of them."""
    if len(points) == 1:
        return float(values[0])
    if x <= points[-1]:
        return float(np.interp(x, points, values))
    slope = (values[-1] - values[-2]) / (points[-1] - points[-2])
    return float(values[-1] + slope * (x - points[-1]))


def decode_s(prices: StepPrices, decoding: int, mean: float) -> float:
    by_batch = np.array([line(prices.contexts, row, mean) for row in prices.decode_s])
    return line(prices.batches, by_batch, decoding)


def alone_s(prices: StepPrices, decoding: int) -> float:
    return line(prices.batches, prices.alone_s, decoding) if decoding else 0.0


def others_s(prices: StepPrices, tokens: int, busiest: int) -> float:
    if not tokens:
        return 0.0
    by_share = np.array([line(prices.tokens, row, tokens) for row in prices.others_s])
    return line(prices.shares, by_share, min(busiest / tokens, 1.0))


def head_s(prices: StepPrices, rows: int) -> float:
    return line(prices.rows, prices.head_s, rows) if rows else 0.0


def attention_s(prices: StepPrices, chunk: int, before: int) -> float:
    by_chunk = np.array([line(prices.cached, row, before) for row in prices.attention_s])
    return line(prices.chunks, by_chunk, chunk)
