"""Sessions of a run: figures by place in a session, and the longest path through its branches."""

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct

from roofline.cost.work import Array
from roofline.errors import InputError
from roofline.records import replace
from roofline.serving.objectives import spread
from roofline.serving.requests import Integers, Requests, first_rows
from roofline.serving.run.routing import turn
from roofline.serving.run.serve import serve
from roofline.serving.simulate.served import ServedRequests
from roofline.serving.simulate.server import UNLIMITED
from roofline.table import Table, table
from roofline.units import show, significant

if TYPE_CHECKING:
    from roofline.serving.run.result import Run

PLACES: Final = (1, 2, 3, 5, 9, 17, 33)
"""Places in a session from which rows of the table are."""
ROOMS: Final = (0.25, 0.5, 1.0, 2.0, 4.0)
HOSTS: Final = (1.0, 4.0, 16.0)
"""Room on the devices and on the host, over what the devices have. [1]"""
MOST: Final = 8192
"""Requests that a curve is served with. [1]"""


class Paths(Struct, frozen=True):
    """Time of each session, and its parts on the longest path: what each request waited for last.

    Attributes:
        requests: Requests of each session. [1]
        session_s: First arrival to last token. [s]
        away_s, queue_s, prefill_s, decode_s: Tools and people, before a first step, until a first
            token and until a last one: they add up to the time of the session. [s]
    """

    requests: Integers
    session_s: Array
    away_s: Array
    queue_s: Array
    prefill_s: Array
    decode_s: Array


def places(requests: Requests) -> Integers:
    """Place of each request in its session: one more than that of what it follows. [1]

    Examples:
        >>> from roofline.serving.requests import requests
        >>> places(requests([0.0, 0.0, 0.0], 5, 5, after=[-1, 0, 1])).tolist()
        [1, 2, 3]
    """
    out = np.ones(len(requests), np.int64)
    for row in np.flatnonzero(requests.after >= 0):
        out[row] = out[requests.after[row]] + 1
    return out


def paths(requests: Requests, served: ServedRequests) -> Paths:
    """Longest paths of the sessions of a run, from the last token back to the first arrival.

    Source: the critical path of a graph of activities, Kelley and Walker 1959, Critical-Path
    Planning and Scheduling (Eastern Joint Computer Conference).

    Args:
        requests: As they were asked.
        served: All of them, as they were served, in the same order.
    """
    session, finish = turn(requests), served.finish
    before = requests.after.copy()
    ends = np.flatnonzero(requests.joins >= 0)
    for end in ends[np.argsort(finish[ends], kind="stable")]:
        if finish[end] > finish[before[requests.joins[end]]]:
            before[requests.joins[end]] = end
    order = np.lexsort((finish, session))
    counts = np.bincount(session)
    last = order[np.cumsum(counts) - 1]
    first = np.flatnonzero(requests.after < 0)
    parts = np.zeros((4, len(counts)))
    at, row = np.arange(len(counts)), last
    while len(at):
        came = before[row] >= 0
        left = np.where(came, finish[before[row]], served.arrival[row])
        for part, start, end in (
            (0, left, served.arrival[row]),
            (1, served.arrival[row], served.admitted[row]),
            (2, served.admitted[row], served.first_token[row]),
            (3, served.first_token[row], finish[row]),
        ):
            parts[part, at] += end - start
        at, row = at[came], before[row][came]
    return Paths(counts, finish[last] - served.arrival[first], *parts)


def by_place(requests: Requests, served: ServedRequests) -> Table:
    """Prompts, what of them was found in the cache, and TTFT, by place in the session."""
    place, rows = places(requests), []
    ttft = served.ttft_s
    for start, stop in zip(PLACES, (*PLACES[1:], 2**62), strict=True):
        these = (place >= start) & (place < stop)
        made = spread(ttft[these])
        if made is None:
            continue
        prompt, found = float(served.prompt[these].sum()), float(served.cached[these].sum())
        end = f"{start} and later" if stop == 2**62 else f"{start} to {stop - 1}"
        rows.append(
            {
                "place": str(start) if stop == start + 1 else end,
                "requests": int(these.sum()),
                "prompt": prompt / made.requests,
                "computed": (prompt - found) / made.requests,
                "prefix_hits": found / prompt,
                "ttft_s": made.mean,
                "p50": made.p50,
                "p99": made.p99,
            }
        )
    units = dict.fromkeys(("prompt", "computed"), "token")
    return table(rows, units | dict.fromkeys(("ttft_s", "p50", "p99"), "s"))


def session_times(found: Paths) -> Table:
    """Time of the sessions and its parts on the longest path."""
    rows: list[dict[str, Any]] = []
    whole = float(found.session_s.sum())
    for part, seconds, meaning in (
        ("session", found.session_s, "first arrival to last token"),
        ("away", found.away_s, "of it: tools run, people read and write"),
        ("queueing", found.queue_s, "of it: before first steps"),
        ("prefill", found.prefill_s, "of it: from there to first tokens"),
        ("decode", found.decode_s, "of it: from there to last tokens"),
    ):
        made = spread(seconds)
        assert made is not None, "a run without requests"
        figures = {name: getattr(made, name) for name in ("mean", "p50", "p90", "p99")}
        share = float(seconds.sum()) / whole
        rows.append({"part": part, **figures, "share": share, "meaning": meaning})
    return table(rows, dict.fromkeys(("mean", "p50", "p90", "p99"), "s"))


def sentence(found: Paths) -> str:
    """Summary of the sessions of a run."""
    number = len(found.requests)
    away = float(found.away_s.sum()) / float(found.session_s.sum())
    return (
        f"{number:,} sessions of {significant(float(found.requests.mean()))} requests each: half "
        f"are over in {show(float(np.median(found.session_s)), 's')}, of which {away:.0%} is time "
        "of tools and people."
    )


def cache_curve(run: "Run", bytes_per_token: float) -> Table:
    """Hits and TTFT with less and more room for the cache, the same requests each time.

    The first requests of whole sessions are served again, with so much room on the devices, and
    with room on the host too where there is a link to it. Rooms that do not hold the longest
    request are left out.

    Args:
        run: The run, of which `serve` is asked again.
        bytes_per_token: Cache of a token on all devices of a replica. [B]

    Raises:
        InputError: Nothing is shared.
    """
    fleet, server, load = run.fleet, run.fleet.server, run.load
    if not server.sharing or not len(run.requests.hashes):
        raise InputError(
            "a curve of the cache for requests that share no prefix",
            hint="leave out `cache_curve`, or give a workload of sessions or shared prefixes",
        )
    requests = run.requests
    if len(requests) > MOST:
        starts = np.flatnonzero(requests.after < 0)
        requests = first_rows(requests, int(starts[starts <= MOST].max()) or MOST)
    most = max(
        server.most_tokens(int(prompt), int(output))
        for prompt, output in zip(requests.prompt, requests.output, strict=True)
    )
    rooms = [(factor, 0.0) for factor in ROOMS] + [(float("inf"), 0.0)]
    if server.swap_s_per_token:
        rooms += [(1.0, factor) for factor in HOSTS]
    rows: list[dict[str, Any]] = []
    for device, host in rooms:
        tokens = UNLIMITED if device == float("inf") else int(server.kv_tokens * device)
        tier = int(server.kv_tokens * host)
        if tokens < most:
            continue
        room = replace(server, kv_tokens=tokens, tier_tokens=tier, disk_tokens=0, pooled=False)
        tried = replace(fleet, server=room)
        served = serve(tried, requests, concurrency=load.concurrency, ramp_s=load.ramp_s)
        made = spread(served.ttft_s)
        assert made is not None, "a run without requests"
        endless = tokens == UNLIMITED
        name = "endless" if endless else f"GPU × {device:g}"
        name += f", host × {host:g}" if host else ""
        rows.append(
            {
                "room": name,
                "tokens": None if endless else tokens + tier,
                "room_bytes": None if endless else (tokens + tier) * bytes_per_token,
                "prefix_hits": float(served.cached.sum()) / float(served.prompt.sum()),
                "ttft_s": made.mean,
                "p50": made.p50,
                "p99": made.p99,
                "session_s": float(paths(requests, served).session_s.mean()),
                "preemptions": served.totals.preemptions,
            }
        )
    units = {"tokens": "token", "room_bytes": "B"}
    return table(rows, units | dict.fromkeys(("ttft_s", "p50", "p99", "session_s"), "s"))
