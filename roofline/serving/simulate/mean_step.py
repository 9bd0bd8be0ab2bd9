"""Mean step of a server that decodes steadily while prompts come at a pace, read from its tables.

    decode(B, context) + chunks for each decode step · what a chunk takes

where sequences decode beside prompts a chunk takes what it adds to their step, else a step of its
own. The steps are those that the simulator runs, one by one (`roofline.serving.simulate`).
"""

import numpy as np
from msgspec import Struct

from roofline.cost.work import Array
from roofline.serving.simulate.compiled.state import PriceTables


class SteadyLoad(Struct, frozen=True):
    """Average content of the steps of a replica."""

    batch: float
    """Sequences that decode, of all groups. [1]"""
    context: float
    """Keys that each of them sees. [token]"""
    prompt_tokens: float
    """Tokens of prompts for each decode step, of a group. [token]"""
    chunk: float
    """Tokens of prompts in a step that has any, of a group. [token]"""
    prompts: float = 1.0
    """Prompts that share it. [1]"""
    cached: float = 0.0
    """Tokens of a prompt before such a chunk, on average. [token]"""


def mean_step_s(
    table: PriceTables, load: SteadyLoad, *, window: int, groups: int, decode_first: bool
) -> tuple[float, float]:
    """Mean time from one decode step to the next, and what of it prompts take. [s]

    Args:
        table: Prices of the steps.
        load: What is in them.
        window: Tokens that most of the layers with a window see. [token]
        groups: Groups of devices that have sequences of their own. [1]
        decode_first: Whether all sequences decode in a step with prompts.
    """
    left = min(load.context, float(max(window, 1)))
    alone = _by_batch(table.contexts, table.alone, load.batch, load.context)
    alone += _by_batch(table.windows, table.seen, load.batch, left)
    if not load.prompt_tokens:
        return alone, 0.0
    # Where every step has prompts they are as many as come in its time.
    chunk = max(load.chunk, load.prompt_tokens if decode_first else 1.0)
    beside = load.batch if decode_first else 0.0
    # Every group has as many: the first row of the table.
    kernels = _entry(table.others[0], beside + groups * chunk, float(table.others_slope[0]))
    kernels += _entry(table.head, beside + groups * load.prompts)
    kernels += chunk * _attention(table, chunk / load.prompts, load.cached)
    if decode_first:
        kernels += _by_batch(table.contexts, table.mixed, load.batch, load.context)
        kernels += _by_batch(table.windows, table.seen, load.batch, left)
    whole = max(kernels, table.launch_s) + table.step_s + table.prefill_s
    whole += table.sequence_s * beside
    each = whole - alone if decode_first else whole
    prompts = load.prompt_tokens / chunk * each
    return alone + prompts, prompts


def _entry(column: Array, x: float, slope: float = 0.0) -> float:
    """Entry of a column with one for every integer, straight between them and beyond. [s]"""
    last = len(column) - 1
    low = min(int(x), last - 1)
    inside = min(x, float(last)) - low
    found = column[low] * (1.0 - inside) + column[low + 1] * inside
    return float(found + slope * max(x - last, 0.0))


def _by_batch(points: Array, rows: Array, batch: float, x: float) -> float:
    """Entry of a table with a row for every number of sequences. [s]"""
    low = min(int(batch), len(rows) - 2)
    ends = [np.interp(x, points, row) for row in rows[low : low + 2]]
    return float(ends[0] + (batch - low) * (ends[1] - ends[0]))


def _attention(table: PriceTables, chunk: float, cached: float) -> float:
    """Attention of a chunk for each of its tokens. [s]"""
    above = int(np.searchsorted(table.chunks, chunk, side="right"))
    low = min(max(above - 1, 0), len(table.chunks) - 2)
    beside = slice(low, low + 2)
    each = [np.interp(cached, table.cached, row) for row in table.attention[beside]]
    return float(np.interp(chunk, table.chunks[beside], each))
