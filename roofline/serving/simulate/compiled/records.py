"""Columns of requests into records of the loop, and those of finished ones back, in one pass."""

import numpy as np

from roofline.cost.work import Array
from roofline.serving.requests import Integers
from roofline.serving.simulate.compiled.compiler import entry
from roofline.serving.simulate.compiled.state import Records


@entry
def fill(
    rows: Records,
    times: tuple[Array, Array],
    lengths: tuple[Integers, Integers],
    order: tuple[Integers, Integers, Integers, Integers],
    prefix: Integers,
    first: int,
    blocks: int,
    transferred: bool,
) -> None:
    """Requests that nothing has happened to yet, as the last of rows that are zero.

    Arrival and think time; prompt and output; priority, rank, what each one follows and joins.
    ``first`` requests of the stream and ``blocks`` ids come before them.
    """
    left, (arrival, think), (prompt, output) = len(rows) - len(prefix) + 1, times, lengths
    priority, rank, after, joins = order
    for k in range(len(arrival)):
        row = rows[left + k]
        row.arrival, row.think = arrival[k], think[k]
        row.prompt, row.output = prompt[k], output[k]
        row.priority, row.rank, row.number = priority[k], rank[k], first + k
        row.blocks, row.blocks_end = blocks + prefix[k], blocks + prefix[k + 1]
        row.ready = row.admitted = row.first = row.finish = np.nan
        row.made = row.swapped = transferred
        row.child = row.sibling = row.joins = -1
    for k in range(len(arrival) - 1, -1, -1):
        if after[k] >= 0:
            parent = left + after[k] - first
            rows[left + k].sibling, rows[parent].child = rows[parent].child, left + k
            rows[left + k].awaits += 1
        if joins[k] >= 0:
            rows[left + k].joins = left + joins[k] - first
            rows[left + joins[k] - first].awaits += 1


@entry
def collect(rows: Records, times: Array, whole: Integers, numbered: bool) -> None:
    """Columns of finished requests, each at its number in the stream or one after the other.

    Arrival, admission, first token and finish; number, prompt, output, cached tokens, preemptions.
    """
    at = 0
    for i in range(len(rows)):
        row = rows[i]
        if np.isnan(row.finish):
            continue
        if numbered:
            at = row.number
        times[0, at], times[1, at], times[2, at] = row.arrival, row.admitted, row.first
        times[3, at] = row.finish
        whole[0, at], whole[1, at], whole[2, at] = row.number, row.prompt, row.output
        whole[3, at], whole[4, at] = row.found, row.preempted
        at += 1
