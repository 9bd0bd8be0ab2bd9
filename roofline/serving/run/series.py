"""A run over time: queue, running requests, cache; latencies; curves over load and clients."""

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofline.cost.work import Array
from roofline.records import replace
from roofline.serving.objectives import FinishedRequests, after_warmup, spread, window
from roofline.serving.requests import part
from roofline.serving.run.serve import levels, repeated, serve
from roofline.serving.simulate.server import UNLIMITED
from roofline.table import Table, table

if TYPE_CHECKING:
    from roofline.serving.run.result import Run

MOST_BINS: Final = 128
"""Most rows of a table over time. [1]"""
SHARES: Final = (*(percent / 100 for percent in range(1, 100)), 0.995, 0.999, 1.0)
"""Quantiles of latency that a distribution is given at. [1]"""
LOADS: Final = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95)
"""Loads of a load curve, as shares of the rate of saturation. [1]"""
SAMPLE: Final = 1000
"""Most requests that are sent at each load. [1]"""
MOST_CLIENTS: Final = 4096
"""Clients up to which the curve of a closed loop goes, if fewer are asked for. [1]"""
FLAT: Final = 0.95
"""Share of the most throughput from which it counts as reached. [1]"""


def over_time(run: "Run") -> Table:
    """Running and waiting requests of all replicas, and the cache of one: mean and peak by bin.

    Bins are those of the cache, a power of two wide. Means and peaks of requests are exact: they
    are counted from arrivals, starts and ends.
    """
    served, room = run.served, run.fleet.kv_tokens
    last, course = float(served.finish.max()), served.course
    while course.bin_s * MOST_BINS <= last:
        course = course.coarser(2.0 * course.bin_s)
    first = int(float(served.arrival.min()) / course.bin_s)
    edges = np.arange(first, int(last / course.bin_s) + 2, dtype=np.float64) * course.bin_s
    columns: dict[str, Array] = {"from_s": edges[:-1], "to_s": edges[1:]}
    for name, start, end in (
        ("running", served.admitted, served.finish),
        ("queue", served.arrival, served.admitted),
    ):
        columns[name], columns[f"{name}_most"] = present(start, end, edges)
    cache = slice(first, first + len(edges) - 1)
    columns["kv_tokens"], columns["kv_tokens_most"] = course.mean[cache], course.most[cache]
    if room < UNLIMITED:
        columns["kv_share"] = columns["kv_tokens"] / room
        columns["kv_share_most"] = columns["kv_tokens_most"] / room
    units = {"from_s": "s", "to_s": "s", "kv_tokens": "token", "kv_tokens_most": "token"}
    named = {name: column.tolist() for name, column in columns.items()}
    rows = [dict(zip(named, row, strict=True)) for row in zip(*named.values(), strict=True)]
    return table(rows, units)


def present(start: Array, end: Array, edges: Array) -> tuple[Array, Array]:
    """Mean and peak number of requests present in each bin. [1]

    Args:
        start, end: Start and end of each request's presence. [s]
        edges: Edges of the bins. [s]

    Examples:
        >>> present(np.array([0.0, 1.0]), np.array([3.0, 2.0]), np.array([0.0, 2.0, 4.0]))
        (array([1.5, 0.5]), array([2., 1.]))
    """
    starts, level = levels(start, end)
    until = np.zeros(len(edges))
    at_edge = np.zeros(len(edges))
    for sign, times in ((1.0, starts), (-1.0, np.sort(end))):
        # Each that came before an edge was there from its start to the edge, less from its end.
        before = np.searchsorted(times, edges, "right")
        total = np.concatenate([[0.0], np.cumsum(times)])[before]
        until += sign * (edges * before - total)
        at_edge += sign * before
    came = np.searchsorted(starts, edges, "right")
    most = [
        max(now, float(level[a:b].max(initial=0)))
        for now, (a, b) in zip(at_edge, pairwise(came), strict=False)
    ]
    return np.diff(until) / np.diff(edges), np.array(most)


def distribution(done: FinishedRequests) -> Table:
    """Quantiles of TTFT, TPOT and latency.

    Each is the latency of a request: the least that so large a share of them kept. Source: the
    inverse of the empirical distribution, Hyndman and Fan 1996, Sample quantiles in statistical
    packages, The American Statistician 50, definition 1.
    """
    columns: dict[str, Array] = {}
    for name in ("ttft", "tpot", "latency"):
        seconds = getattr(done, f"{name}_s")
        have = seconds[~np.isnan(seconds)]
        if len(have):
            columns[f"{name}_s"] = np.quantile(have, SHARES, method="inverted_cdf")
    rows = [
        {"request_share": share, **{name: float(column[at]) for name, column in columns.items()}}
        for at, share in enumerate(SHARES)
    ]
    return table(rows, dict.fromkeys(columns, "s"))


def by_load(run: "Run") -> Table | None:
    """TTFT and TPOT by load: the same requests, sent faster or slower, through the same server.

    None in a closed loop, where the rate changes over the run, and for sessions, whose next turn
    waits for the answer to the last one.
    """
    requests = part(run.requests, 0, min(len(run.requests), SAMPLE))
    came = float(requests.arrival[-1] - requests.arrival[0])
    if not run.load.rate or run.load.peak or (run.requests.after >= 0).any() or not came:
        return None
    rows: list[dict[str, Any]] = []
    for share in LOADS:
        rate = share * run.saturation
        slower = run.load.rate / rate
        served = serve(run.fleet, replace(requests, arrival=requests.arrival * slower))
        ttft, tpot = spread(served.ttft_s), spread(served.tpot_s)
        assert ttft is not None, "a run of nothing"
        row = {"load_share": share, "requests_per_s": rate}
        row |= {"ttft_mean_s": ttft.mean, "ttft_p50_s": ttft.p50, "ttft_p99_s": ttft.p99}
        rows.append(row | ({} if tpot is None else {"tpot_mean_s": tpot.mean}))
    units = {name: "s" for name in rows[0] if name.endswith("_s") and "per" not in name}
    return table(rows, {"requests_per_s": "request/s"} | units)


def by_clients(run: "Run") -> Table | None:
    """Throughput, TTFT and TPOT by clients that ask again, each as often as in the run.

    Clients are powers of two, until twice as many add less than a twentieth, and those of the run,
    whose row is the run itself. None in an open loop, and of sessions.
    """
    asked, clients = run.load.concurrency, run.fleet.replicas
    if not asked or (run.requests.after >= 0).any():
        return None
    rows = {asked: _of_clients(run, asked, run.served)}
    while True:
        if clients not in rows:
            sent = max(round(len(run.requests) * clients / asked), clients)
            made = replace(repeated(run.requests, sent), arrival=np.zeros(sent))
            served = serve(run.fleet, made, concurrency=clients, ramp_s=run.load.ramp_s)
            rows[clients] = _of_clients(run, clients, served)
        half = rows.get(clients // 2)
        flat = half is not None and _is_flat(half, rows[clients])
        if clients > asked and (flat or clients >= MOST_CLIENTS):
            break
        clients *= 2
    units = {name: "s" for name in rows[asked] if name.endswith("_s") and "tok" not in name}
    return table([rows[number] for number in sorted(rows)], {"throughput_tok_s": "token/s"} | units)


def _of_clients(run: "Run", clients: int, served: FinishedRequests) -> dict[str, Any]:
    """Row of a number of clients; its warm-up is as large a share as that of the run."""
    done = after_warmup(served, round(run.load.warmup * len(served) / len(run.requests)))
    ttft, tpot = spread(done.ttft_s), spread(done.tpot_s)
    assert ttft is not None, "a run of nothing"
    row = {"clients": clients, "throughput_tok_s": float(done.output.sum()) / window(done)}
    row |= {"ttft_mean_s": ttft.mean, "ttft_p50_s": ttft.p50, "ttft_p99_s": ttft.p99}
    return row | ({} if tpot is None else {"tpot_mean_s": tpot.mean, "tpot_p99_s": tpot.p99})


def _is_flat(few: Mapping[str, Any], many: Mapping[str, Any]) -> bool:
    return bool(few["throughput_tok_s"] >= FLAT * many["throughput_tok_s"])


def saturated_from(curve: Table) -> int | None:
    """Clients of a curve from which on throughput stays within a twentieth of its most. [1]

    None where it still grows at the end.
    """
    rows = list(curve.rows())
    most = max(rows, key=lambda row: float(row["throughput_tok_s"]))
    below = [place for place, row in enumerate(rows) if not _is_flat(row, most)]
    first = below[-1] + 1 if below else 0
    return int(rows[first]["clients"]) if first < len(rows) - 1 else None
