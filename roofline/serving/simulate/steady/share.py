"""Mean work of requests, and times of a server's steps at every load of them."""

from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from roofline.cost.work import Array, distinct
from roofline.errors import InputError
from roofline.serving.quadrature import between
from roofline.serving.requests import Requests
from roofline.serving.simulate.prices import StepPrices
from roofline.serving.simulate.server import BATCHED, UNLIMITED, Server

if TYPE_CHECKING:
    from roofline.serving.simulate.compiled.state import PriceTables

SAMPLE: Final = 128
"""Requests whose lengths stand for those of all, spread evenly over them."""
POINTS: Final = 32
"""Batches at which steps are priced; between them they are straight lines."""
NEARLY: Final = 2.0**-20
"""Chunks that a whole number of them may lack. [1]"""
CUTS: Final = 64
"""Least share of the token budget that is left for a chunk, beside the sequences that decode."""


class RequestMeans(Struct, frozen=True):
    """Means over requests, and prices of steps at the context that they decode at on average."""

    steps: float
    prompt: float
    output: float
    """Decode steps; tokens of a prompt and of an answer. [1] [token]"""
    lengths: Array
    answers: Array
    """Prompts and decode steps of some requests. [token] [1]"""
    square: float
    varying: float
    """Mean square of prompts, and the squared coefficient of variation of decode steps.
    [token²] [1]"""
    uniform: bool
    """Whether all requests are equally long."""
    decode_first: bool
    """Whether prompts go beside decode; else they have steps of their own."""
    most: int
    lump: float
    """Sequences that run at once, as far as they are allowed and have memory; where that is
    memory, how many of them one that takes as much as they do at random is like. [1]"""
    batches: Array
    """Points of the columns below, from 0 to ``most``. [1]"""
    decode_s: Array
    """A step that only decodes. [s]"""
    beside_s: Array
    """Time that decode adds to a step that prefills, without work per token. [s]"""
    chunk: Array
    """Tokens of the longest chunk of a prompt; those of the longest prompt where none is cut.
    [token]"""
    cuts: Array
    """Chunks of a prompt, mean of all. [1]"""
    full: Array
    """Prompts for which a step has room. [1]"""
    attention_s: Array
    """Attention of prompts for each of their tokens in one group. [s]"""
    shares: Array
    others_s: Array
    slope_s: Array
    """Kernels but attention by the share of the new tokens that the busiest group of devices has,
    and by new tokens; beyond the last, for each. [1] [s]"""
    stages: int
    passing_s: Array
    """Stages of a pipeline, and kernels but attention of a micro-batch through all of them, by its
    tokens. [1] [s]"""
    head_s: Array
    """LM head by rows of logits. [s]"""
    software_s: float
    sequence_s: float
    launch_s: float
    token_s: float
    """Costs of the engine: of a step with prompts, and of each sequence that decodes in one; the
    least time of such a step's kernels; of the front end for a token. [s]"""
    request_s: float
    serial_s: float
    """Arrival of a request to the queue of an idle server; of it, the front end's time for
    one request after the other. [s]"""

    def at(self, column: Array, batch: Array) -> Array:
        """A column between two of its points."""
        found: Array = np.interp(batch, self.batches, column)
        return found

    def prefill(
        self, batch: Array, tokens: Array, prompts: Array, chunks: Array | None = None
    ) -> Array:
        """A step of so many sequences that decode, with tokens of so many prompts. [s]

        They are in as many chunks, if no other number is given.
        """
        kernels = self.kernels(batch, tokens, prompts, prompts if chunks is None else chunks)
        found: Array = np.maximum(kernels, self.launch_s)
        return found + self.software(batch)

    def software(self, batch: Array) -> Array:
        """Time of the engine's software in a step with prompts beside so many sequences. [s]"""
        beside = batch if self.decode_first else np.zeros_like(batch)
        found: Array = self.software_s + self.sequence_s * beside
        return found

    def kernels(self, batch: Array, tokens: Array, prompts: Array, chunks: Array) -> Array:
        """Kernels of such a step in so many chunks, however long their launches take. [s]"""
        beside = batch if self.decode_first else np.zeros_like(batch)
        busiest = self._busiest(batch, tokens, chunks)
        total = self._others(beside + tokens, beside * self.shares[0] + busiest)
        total = total + _between(self.head_s, beside + np.minimum(prompts, self.most))
        total = total + busiest * self.at(self.attention_s, batch)
        return total + self.at(self.beside_s, beside)

    def late(self, batch: Array, chunk: Array, fellows: Array) -> Array:
        """Time from the end of a pipeline's step to that of a chunk in it, beside others. [s]

        A step is a round of micro-batches, over which its tokens are spread; a chunk is in one of
        them, and passes all stages.
        """
        beside = batch if self.decode_first else np.zeros_like(batch)
        each, chunks = self.at(self.attention_s, batch), 1.0 + fellows
        through = _between(self.passing_s, beside / self.stages + chunk)
        through = through + self.stages * chunk * each
        busiest = self._busiest(batch, chunk * chunks, chunks)
        step = self._others(beside + chunk * chunks, beside * self.shares[0] + busiest)
        found: Array = np.maximum(through - step - busiest * each, 0.0)
        return found

    def _busiest(self, batch: Array, tokens: Array, chunks: Array) -> Array:
        """New tokens of the group that has most of a step's chunks, which are about alike. [token]

        Of k chunks that come by chance g groups have k/g each, and the busiest about (g − 1) / 2g
        more, the mean of what is missing to the next whole number; no more than it has room for.
        """
        least = float(self.shares[0])
        if least == 1.0:
            return tokens
        if self.uniform:
            most = np.ceil(chunks * least - NEARLY)
        else:
            most = chunks * least + (1.0 - least) / 2.0
        each = np.minimum(tokens / np.maximum(chunks, 1.0), self.at(self.chunk, batch))
        room = np.maximum(self.at(self.full, batch) * self.prompt, tokens) * least
        busiest = np.maximum(each * np.maximum(most, 1.0), tokens * least)
        return np.asarray(np.minimum(busiest, np.maximum(room, each)))

    def _others(self, new: Array, busiest: Array) -> Array:
        """Kernels but attention, of so many tokens, and of those of the busiest group. [s]"""
        beyond = np.maximum(new - (self.others_s.shape[1] - 1.0), 0.0)
        rows = [
            _between(row, new) + slope * beyond
            for row, slope in zip(self.others_s, self.slope_s, strict=True)
        ]
        if len(rows) == 1:
            return np.asarray(rows[0])
        share = np.clip(busiest / np.maximum(new, 1.0), self.shares[0], 1.0)
        i, x = between(self.shares, share)
        every = np.stack(np.broadcast_arrays(*rows))
        low, high = (np.take_along_axis(every, (i + end)[None], axis=0)[0] for end in (0, 1))
        return np.asarray(low + x * (high - low))

    def stay(self, batch: Array) -> Array:
        """Steps that a sequence runs, those of its prompt included where they decode too. [1]"""
        return self.steps + self.chunks(batch) * self.decode_first

    def chunks(self, batch: Array) -> Array:
        """Steps that a prompt is spread over where it is alone, mean of all. [1]"""
        return self.at(self.cuts, batch)


def lacking(given: Requests, server: Server) -> str:
    """Reason that a server has no closed form for requests, as a noun; empty where it has one."""
    if server.hold_steps:
        return "prompts that wait for others"
    if server.recv_interval > 1:
        return f"a look at arrivals every {server.recv_interval} steps"
    if server.sharing and len(given.hashes) > 0:
        return "shared prefixes"
    return f"{server.policy} batches" if server.policy in BATCHED else ""


def share_of(given: Requests, prices: StepPrices, server: Server) -> RequestMeans:
    """Mean work of requests on a server, by their lengths.

    InputError where there are no requests, or there is no closed form.
    """
    if what := lacking(given, server):
        raise InputError(f"there is no closed form for {what}", hint="simulate it")
    if not len(given):
        raise InputError("there are no requests", hint="give at least one")
    from roofline.serving.simulate.dense import dense

    prompt, steps = given.prompt.astype(np.float64), given.output.astype(np.float64) - 1.0
    context, left = _contexts(prompt, steps, prices.window)
    most, lump = sequences_at_once(given, server, context)
    table = dense(prices, most + 1, server)
    batches = distinct(np.rint(np.geomspace(1, most + 1, POINTS))) - 1.0
    rows = batches.astype(int)
    seen = _row(table.windows, table.seen[rows], left)
    decode_s = _row(table.contexts, table.alone[rows], context) + seen
    decode_s[0] = 0.0
    evenly = (np.arange(SAMPLE) + 0.5) / SAMPLE
    lengths = np.quantile(prompt, evenly, method="nearest")
    chunk, full = _room(server, prices.groups, batches, lengths, most)
    return RequestMeans(
        steps=float(steps.mean()),
        prompt=float(prompt.mean()),
        output=float(given.output.mean()),
        lengths=lengths,
        answers=np.quantile(steps, evenly, method="nearest"),
        square=float((lengths**2).mean()),
        varying=float(steps.var() / max(steps.mean(), 1.0) ** 2),
        uniform=bool(np.ptp(prompt) == 0 and np.ptp(steps) == 0),
        # Without decode both are the same.
        decode_first=server.first == "decode" or not steps.any(),
        most=most,
        lump=lump,
        batches=batches,
        decode_s=decode_s,
        beside_s=_row(table.contexts, table.mixed[rows], context) + seen,
        chunk=chunk,
        cuts=np.ceil(lengths[:, None] / chunk).mean(axis=0),
        full=full,
        attention_s=_attention_s(table, lengths, chunk),
        shares=table.shares,
        others_s=table.others,
        slope_s=table.others_slope,
        stages=table.stages,
        passing_s=table.passing,
        head_s=table.head,
        software_s=table.step_s + table.prefill_s,
        sequence_s=table.sequence_s,
        launch_s=table.launch_s,
        token_s=table.token_s,
        request_s=prices.engine.arrival_s,
        serial_s=prices.engine.serial_s,
    )


def _contexts(prompt: Array, steps: Array, window: int) -> tuple[float, float]:
    """Keys that a sequence sees in decode on average, and what a window leaves of them. [token]"""
    whole = float(steps.sum())
    if not whole:
        return 1.0, 0.0
    seen = steps * (prompt + 1.0) + steps * (steps - 1.0) / 2.0
    filling = np.clip(window - prompt, 0.0, steps)
    inside = filling * prompt + filling * (filling + 1.0) / 2.0 + (steps - filling) * window
    return float(seen.sum()) / whole, float(inside.sum()) / whole


def sequences_at_once(given: Requests, server: Server, context: float) -> tuple[int, float]:
    """Sequences that run at once, and how uneven what they hold is: E[h²] / E[h]² in time. [1]

    A sequence holds memory for as long as it runs, so that those with long answers count more. The
    one that waits for memory leaves some free: half of what it needs, and what needs much waits
    more often.

    Args:
        given, server: Lengths, and who serves them.
        context: Keys that a sequence sees in decode on average. [token]
    """
    limit = min(server.max_sequences, (server.token_budget or UNLIMITED) // (1 + server.drafted))
    stays = given.output.astype(float)
    if server.kv == "contiguous" or server.reservation == 1.0:
        pairs = zip(given.prompt.tolist(), given.output.tolist(), strict=True)
        needs = np.array([server.most_tokens(*pair) for pair in pairs], dtype=float)
        held = float((needs * stays).sum() / stays.sum())
    else:
        beside = server.drafted + server.page / 2.0
        needs = given.prompt + server.reservation * (given.output - 1.0) + beside
        held = max(context + beside, float((needs * stays).sum() / stays.sum()))
    free = float((needs**2).sum() / needs.sum()) / 2.0
    room = max(int((server.kv_tokens - free) / held), 1)
    uneven = float((needs**2 * stays).sum() / stays.sum()) / held**2
    return min(limit, room), max(uneven, 1.0) if room < limit else 1.0


def _room(
    server: Server, groups: int, batches: Array, lengths: Array, most: int
) -> tuple[Array, Array]:
    """Tokens of the longest chunk, and prompts for which a step has room, by batch.

    Every group has its part of the step, and a prompt is in one of them.
    """
    longest = np.full(len(batches), lengths[-1])
    if not server.token_budget:
        return longest, np.full(len(batches), float(most))
    beside = (
        batches * (1.0 + server.drafted) if server.first == "decode" else np.zeros_like(batches)
    )
    left = np.maximum(server.token_budget - beside, server.token_budget / CUTS) / groups
    if server.policy == "chunked":
        return left, np.minimum(groups * left / lengths.mean(), most)
    # Prompts that come in any order, each in the step of the one before if it has room there.
    order = np.random.default_rng(0).permutation(lengths)
    return longest, np.array([min(groups * _packed(order, room), most) for room in left])


def _packed(lengths: Array, room: float) -> float:
    """Prompts of a step that are not cut: the first, and others that fit beside it. [1]"""
    steps, used = 0, np.inf
    for length in lengths.tolist():
        if used + length > room:
            steps, used = steps + 1, 0.0
        used += length
    return len(lengths) / steps


def _between(column: Array, at: Array) -> Array:
    """A column with an entry for every number from 0, between two of them, and its ends beyond."""
    inside = np.clip(at, 0.0, len(column) - 1.0)
    low = np.minimum(inside.astype(np.intp), len(column) - 2)
    first = column[low]
    found: Array = first + (inside - low) * (column[low + 1] - first)
    return found


def _row(points: Array, rows: Array, x: float) -> Array:
    """Rows of a table at a point, straight on beyond the last."""
    i, share = between(points, x)
    found: Array = rows[:, i] + share * (rows[:, i + 1] - rows[:, i])
    return found


def _attention_s(table: "PriceTables", lengths: Array, sizes: Array) -> Array:
    """Attention of prompts in chunks of each of the sizes, for each of their tokens. [s]"""
    size = np.repeat(sizes, len(lengths))
    whole = np.tile(lengths, len(sizes))
    counts = np.ceil(whole / size).astype(int)
    ends = np.cumsum(counts)
    chunk = np.repeat(size, counts)
    before = (np.arange(ends[-1]) - np.repeat(ends - counts, counts)) * chunk
    new = np.minimum(np.repeat(whole, counts) - before, chunk)
    i, x = between(table.chunks, new)
    j, y = between(table.cached, before)
    low = (1.0 - x) * table.attention[i, j] + x * table.attention[i + 1, j]
    high = (1.0 - x) * table.attention[i, j + 1] + x * table.attention[i + 1, j + 1]
    first = (ends - counts)[:: len(lengths)]
    found: Array = np.add.reduceat(new * (low + y * (high - low)), first) / lengths.sum()
    return found
