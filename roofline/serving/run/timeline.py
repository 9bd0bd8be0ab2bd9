"""A run as events that trace viewers draw: a row for each place that a request takes.

The format is that of Chrome's trace viewer, which Perfetto reads too: complete events with a start
and a duration, and counters, in microseconds.
"""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Any, Final

import numpy as np

from roofline.cost.work import Array
from roofline.serving.simulate.served import Served
from roofline.units import PREFIX

MICROSECONDS: Final = PREFIX["µ"]
_SERVER: Final = 1
_QUEUE: Final = 2


def events(served: Served) -> Iterator[dict[str, Any]]:
    """Events of a run: for each request its wait, its prefill and its decode; counters.

    Parameters
    ----------
    served
        Requests.
    """
    yield from _named(_SERVER, "requests that run")
    yield from _named(_QUEUE, "requests that wait")
    for process, start, end in (
        (_QUEUE, served.arrival, served.admitted),
        (_SERVER, served.admitted, served.finish),
    ):
        rows = lanes(start, end)
        for at in range(len(served)):
            if process == _QUEUE:
                if end[at] > start[at]:
                    yield _span(process, rows[at], "wait", start[at], end[at], served, at)
            else:
                first = float(served.first_token[at])
                yield _span(process, rows[at], "prefill", start[at], first, served, at)
                if end[at] > first:
                    yield _span(process, rows[at], "decode", first, end[at], served, at)
    yield from _counter("running", served.admitted, served.finish)
    yield from _counter("waiting", served.arrival, served.admitted)


def lanes(start: Array, end: Array) -> list[int]:
    """Row for each span, so that no two in a row overlap: the lowest one that is free. [1]

    Parameters
    ----------
    start, end
        Of each span. [s]

    Examples
    --------
    >>> lanes(np.array([0.0, 1.0, 2.0]), np.array([2.0, 3.0, 4.0]))
    [0, 1, 0]
    """
    out = [0] * len(start)
    free: list[int] = []
    ending: list[tuple[float, int]] = []
    used = 0
    heapify(free)
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


def _span(
    process: int, row: int, name: str, start: float, end: float, served: Served, at: int
) -> dict[str, Any]:
    return {
        "ph": "X",
        "pid": process,
        "tid": row,
        "name": name,
        "ts": float(start) / MICROSECONDS,
        "dur": float(end - start) / MICROSECONDS,
        "args": {
            "request": int(served.number[at]),
            "prompt": int(served.prompt[at]),
            "cached": int(served.cached[at]),
            "output": int(served.output[at]),
            "preemptions": int(served.preemptions[at]),
        },
    }


def _counter(name: str, start: Array, end: Array) -> Iterator[dict[str, Any]]:
    """How many there are, wherever that changes."""
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


def _named(process: int, name: str) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "pid": process, "name": "process_name", "args": {"name": name}}
