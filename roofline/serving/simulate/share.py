"""What requests ask of a server on average, at every number of sequences that decode."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from roofline.cost.work import Array
from roofline.errors import InputError
from roofline.serving.requests import Requests
from roofline.serving.simulate.prices import StepPrices
from roofline.serving.simulate.server import BATCHED, UNLIMITED, Server

SAMPLE: Final = 256
"""Prompts that are priced; their lengths are spread evenly over those of all requests."""


@dataclass(frozen=True, slots=True)
class Share:
    """Means over requests.

    Attributes
    ----------
    steps, output
        Decode steps, and tokens of an answer. [1] [token]
    chunks
        Steps of decode that go by while a prompt is prefilled; 0 where prefill goes first. [1]
    most
        Sequences that run at once, as far as they are allowed and have memory. [1]
    decode_s
        Decode step of 0, 1, … sequences. [s]
    prompt_s
        What a prompt adds to the steps of so many. [s]
    prompt_square
        Mean of its square over the square of its mean. [1]
    """

    steps: float
    output: float
    chunks: float
    most: int
    decode_s: Array
    prompt_s: Array
    prompt_square: float

    def decode(self, batch: float) -> float:
        """Decode step, between two whole numbers of sequences. [s]"""
        return float(np.interp(batch, np.arange(self.most + 1), self.decode_s))

    def prompt(self, batch: float) -> float:
        """What a prompt adds there. [s]"""
        return float(np.interp(batch, np.arange(self.most + 1), self.prompt_s))

    @property
    def saturation(self) -> float:
        """Requests that are served with all the sequences that run. [1/s]"""
        each = self.steps * float(self.decode_s[-1]) / self.most + float(self.prompt_s[-1])
        return 1.0 / each


def share_of(given: Requests, prices: StepPrices, server: Server) -> Share:
    """Mean work of requests.

    Parameters
    ----------
    given
        Their lengths.
    prices, server
        Who serves them.

    Raises
    ------
    InputError
        There are no requests, or the policy has no closed form.
    """
    if server.policy in BATCHED or server.sharing:
        what = "shared prefixes" if server.sharing else f"{server.policy} batches"
        raise InputError(f"there is no closed form for {what}", hint="simulate it")
    if not len(given):
        raise InputError("there are no requests", hint="give at least one")
    prompt, steps = given.prompt.astype(float), given.output - 1.0
    # Keys that the decode steps of all sequences see, over those steps.
    seen = float((steps * (prompt + 1.0) + steps * (steps - 1.0) / 2.0).sum())
    context = seen / float(steps.sum()) if steps.sum() else 1.0
    # The same with no more of each than a window leaves.
    window = prices.window
    filling = np.clip(window - prompt, 0.0, steps)
    inside = filling * prompt + filling * (filling + 1.0) / 2.0 + (steps - filling) * window
    left = float(inside.sum()) / float(steps.sum()) if steps.sum() else 0.0
    most = _most(given, server, context)
    lengths = np.quantile(given.prompt, (np.arange(SAMPLE) + 0.5) / SAMPLE, method="nearest")
    decode_s, prompts_s, chunks = _prices(prices, server, most, (context, left), lengths)
    return Share(
        steps=float(steps.mean()),
        output=float(given.output.mean()),
        chunks=chunks if server.first == "decode" else 0.0,
        most=most,
        decode_s=decode_s,
        prompt_s=prompts_s.mean(axis=1),
        prompt_square=float((prompts_s[-1] ** 2).mean() / prompts_s[-1].mean() ** 2),
    )


def _most(given: Requests, server: Server, context: float) -> int:
    """Sequences that run at once. [1]"""
    if server.kv == "contiguous" or server.reservation == 1.0:
        pairs = zip(given.prompt.tolist(), given.output.tolist(), strict=True)
        held = float(np.mean([server.most_tokens(*pair) for pair in pairs]))
    else:
        whole = float((given.prompt + server.reservation * (given.output - 1.0)).mean())
        held = max(context, whole) + server.page / 2.0
    limit = min(server.max_sequences, server.token_budget or UNLIMITED)
    return max(min(limit, int(server.kv_tokens / held)), 1)


def _prices(
    prices: StepPrices, server: Server, most: int, keys: tuple[float, float], lengths: Array
) -> tuple[Array, Array, float]:
    """Decode steps, what each prompt adds to them by batch [s], and the mean number of chunks."""
    from roofline.serving.simulate.compiled.lookup import chunk_s, line, step_s
    from roofline.serving.simulate.dense import dense

    table = dense(prices, most + 1)
    context, left = keys
    decode_s = np.array(
        [
            line(table.contexts, row, context) + line(table.windows, seen, left)
            for row, seen in zip(table.alone[: most + 1], table.seen, strict=False)
        ]
    )
    decode_s = np.maximum(decode_s, table.front_end_s * np.arange(most + 1))
    decode_s[0] = 0.0
    batches = np.unique(np.rint(np.geomspace(1, most + 1, 24))).astype(int) - 1
    added = np.zeros((len(batches), len(lengths)))
    counts = np.zeros(len(lengths))
    for row, batch in enumerate(batches):
        beside = int(batch) if server.first == "decode" else 0
        free = server.token_budget - beside if server.policy == "chunked" else 0
        for column, length in enumerate(lengths.astype(int)):
            size = min(free, length) if free > 0 else length
            starts = range(0, length, max(size, 1))
            for start in starts:
                new = min(size, length - start)
                attention_s = chunk_s(table, new, start)
                whole = step_s(table, beside, beside * context, beside * left, new, 1, attention_s)
                added[row, column] += whole - decode_s[beside]
            counts[column] = len(starts)
    every = np.arange(most + 1)
    columns = [np.interp(every, batches, column) for column in added.T]
    return decode_s, np.stack(columns, axis=1), float(counts.mean())
