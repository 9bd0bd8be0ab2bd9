"""A run as events that trace viewers draw: a row for each place that a request takes.

The format is that of Chrome's trace viewer, which Perfetto reads too: complete events with a start
and a duration, and counters, in microseconds.
"""

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any, Final

import numpy as np

from roofline.cost.work import Array
from roofline.table import Table
from roofline.units import PREFIX

MICROSECONDS: Final = PREFIX["µ"]
_SERVER: Final = 1
_QUEUE: Final = 2
_TOLD: Final = ("request", "prompt", "cached", "output", "preemptions")


def events(requests: Table) -> Iterator[dict[str, Any]]:
    """Events of a run from its table of requests: wait, prefill and decode of each; counters."""
    yield _named(_SERVER, "requests that run")
    yield _named(_QUEUE, "requests that wait")
    arrival, admitted, first, finish = (
        np.array(requests[f"{name}_s"], np.float64)
        for name in ("arrival", "admitted", "first_token", "finish")
    )
    waits, places = lanes(arrival, admitted), lanes(admitted, finish)
    for at, row in enumerate(requests.rows()):
        told = {name: row[name] for name in _TOLD}
        spans = (
            (_QUEUE, waits[at], "wait", arrival[at], admitted[at]),
            (_SERVER, places[at], "prefill", admitted[at], first[at]),
            (_SERVER, places[at], "decode", first[at], finish[at]),
        )
        for process, lane, name, start, end in spans:
            if end > start:
                yield {
                    "ph": "X",
                    "pid": process,
                    "tid": lane,
                    "name": name,
                    "ts": float(start) / MICROSECONDS,
                    "dur": float(end - start) / MICROSECONDS,
                    "args": told,
                }
    yield from _counter("running", admitted, finish)
    yield from _counter("waiting", arrival, admitted)


def lanes(start: Array, end: Array) -> list[int]:
    """Row for each span [s], so that no two in a row overlap: the lowest one that is free. [1]

    Examples:
        >>> lanes(np.array([0.0, 1.0, 2.0]), np.array([2.0, 3.0, 4.0]))
        [0, 1, 0]
    """
    out = [0] * len(start)
    free: list[int] = []
    ending: list[tuple[float, int]] = []
    used = 0
    for at in np.argsort(start, kind="stable").tolist():
        while ending and ending[0][0] <= start[at]:
            heappush(free, heappop(ending)[1])
        if free:
            row = heappop(free)
        else:
            row, used = used, used + 1
        out[at] = row
        heappush(ending, (float(end[at]), row))
    return out


def _counter(name: str, start: Array, end: Array) -> Iterator[dict[str, Any]]:
    """Number of spans that are open, wherever it changes."""
    times = np.concatenate([start, end])
    change = np.concatenate([np.ones(len(start)), -np.ones(len(end))])
    moments, place = np.unique(times, return_inverse=True)
    level = np.cumsum(np.bincount(place, weights=change))
    for moment, there in zip(moments.tolist(), level.tolist(), strict=True):
        yield {
            "ph": "C",
            "pid": _SERVER,
            "name": name,
            "ts": moment / MICROSECONDS,
            "args": {"requests": round(there)},
        }


def _named(process: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": process, "name": "process_name", "args": {"name": name}}
