"""Traffic through one or several replicas, and the rate beyond which no queue is stable.

Requests whose LoRA adapter is not on the device wait for it.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.cost.adapters import Lora, popularity
from roofline.cost.deployment import Deployment
from roofline.cost.work import Array
from roofline.records import replace
from roofline.serving.requests import (
    Integers,
    Requests,
    first_rows,
    joined,
    numbered,
    part,
    picked_rows,
)
from roofline.serving.run.routing import (
    ReplicaSchedule,
    ReplicaWork,
    Router,
    routed,
    scheduled,
    turn,
    work_of,
)
from roofline.serving.simulate.compiled.state import PacedDrafts
from roofline.serving.simulate.denoising import BlockDiffusion
from roofline.serving.simulate.drafting import RoundDraft, reached, rounds_of
from roofline.serving.simulate.prices import StepPrices
from roofline.serving.simulate.run import UNPACED, simulate, simulate_pooled, stream
from roofline.serving.simulate.served import Course, ServedRequests, Totals, averaged
from roofline.serving.simulate.served import joined as served_joined
from roofline.serving.simulate.server import Server

WARM: Final = 8
"""Times as many requests as there are adapters, after which the device has those that it usually
has. [1]"""
SEED: Final = 0


def chosen(lora: Lora, sequences: int, *, before: bool = False) -> Integers:
    """Adapters that so many sequences choose, in order; the same ones in every run. [1]

    Args:
        lora, sequences: Adapters, and how many choose one.
        before: Whether these are sequences of before the run.
    """
    random = np.random.default_rng((SEED, int(before)))
    ends = np.cumsum(popularity(lora.adapters, lora.adapter_skew))
    out: Integers = np.searchsorted(ends, random.random(sequences) * ends[-1], side="right")
    return out


def missed(lora: Lora, asked: Integers) -> NDArray[np.bool_]:
    """Whether each request finds its adapter away, the last ones used being kept: LRU.

    The device has been in use before the first of them.

    Args:
        lora: Adapters, of which some are kept.
        asked: Adapter of each request, in order of arrival. [1]
    """
    there: OrderedDict[int, None] = OrderedDict()
    before = chosen(lora, WARM * lora.adapters, before=True)
    out = np.zeros(len(asked), np.bool_)
    for place, adapter in enumerate([*before.tolist(), *asked.tolist()], -len(before)):
        if adapter in there:
            there.move_to_end(adapter)
            continue
        there[adapter] = None
        if len(there) > lora.kept:
            there.popitem(last=False)
        if place >= 0:
            out[place] = True
    return out


def waited(served: ServedRequests, lora: Lora, load_s: float, sessions: Integers) -> ServedRequests:
    """Requests of one replica, those later whose adapter had to be loaded.

    Loading goes on beside the steps of others, and shifts the request as a whole: its place in the
    steps is taken to be the same.

    Args:
        served: Requests as served with all adapters there.
        lora, load_s: Adapters, and the time to load one. [s]
        sessions: Session of each, all of whose requests have one adapter. [1]
    """
    adapters = chosen(lora, int(sessions.max()) + 1)[sessions]
    order = np.argsort(served.arrival, kind="stable")
    away = np.zeros(len(served), np.bool_)
    away[order] = missed(lora, adapters[order])
    times = ("admitted", "first_token", "finish")
    totals = replace(served.totals, adapter_loads=int(away.sum()))
    later = {name: getattr(served, name) + load_s * away for name in times}
    return replace(served, **later, totals=totals)


Progress = Callable[[int, int], None]
PART: Final = 4096
FULL: Final = 12
"""Times that a server is filled to find its rate: the first and last of them do not count."""
SERVED: Final = tuple(
    name for name in ServedRequests.__struct_fields__ if name not in ("totals", "course")
)
"""Columns of requests that were served."""
SAMPLE: Final = 8192
"""Requests whose lengths are taken for those of all."""


class OtherReplicas(Struct, frozen=True):
    """Replicas on other GPUs or in another layout, behind the same router."""

    deployment: Deployment
    prices: StepPrices
    server: Server
    """Deployment, prices and policy of each."""
    number: int
    """Number of them. [1]"""


class Fleet(Struct, frozen=True):
    """Replicas that share traffic."""

    prices: StepPrices
    server: Server
    """Prices and policy of each replica."""
    replicas: int = 1
    """Replicas, `others` included; those of a session go to the same. [1]"""
    drafting: RoundDraft | BlockDiffusion | None = None
    """Speculative decoding, or denoising by blocks, in which prices are of rounds or of denoising
    steps; None where decoding is plain."""
    router: Router = "turns"
    """Choice of the replica: in turn, by load, or by prefix and load."""
    schedule: ReplicaSchedule | None = None
    """Replicas that serve over time, at most as many as there are; None for all of them always."""
    workers: int = 1
    """Threads that serve replicas side by side. [1]"""
    others: tuple[OtherReplicas, ...] = ()
    """Replicas unlike the first ones, which are the last of them all."""

    @property
    def alike(self) -> int:
        """Replicas of the first kind. [1]"""
        return self.replicas - sum(each.number for each in self.others)

    @property
    def kinds(self) -> tuple[tuple[StepPrices, Server, int], ...]:
        """Prices, policy and number of the replicas of each kind. [1]"""
        others = ((kind.prices, kind.server, kind.number) for kind in self.others)
        return (self.prices, self.server, self.alike), *others

    @property
    def kv_tokens(self) -> int:
        """Room of the cache of a replica, mean of all. [token]"""
        return sum(number * server.kv_tokens for _, server, number in self.kinds) // self.replicas


def drafting_fleet(
    fleet: Fleet, deployment: Deployment, requests: Requests, drafting: RoundDraft, **driven: Any
) -> Fleet:
    """The fleet with speculative decoding in place of plain steps.

    Sequences are counted by the lengths of the requests. Where drafts follow the batch, the run
    is driven as `serve` drives it.
    """
    longest = int((requests.prompt + requests.output).max())
    prices = reached(fleet.prices, fleet.server.max_sequences, longest)

    def rounding(known: Requests | None = None) -> Fleet:
        rounds = rounds_of(drafting, deployment, prices, requests, known)
        server = rounds.server(fleet.server)
        return replace(fleet, prices=rounds.prices, server=server, drafting=drafting)

    if drafting.lengths is None:
        return rounding()
    # How long sequences are depends on how fast they grow: as in a run that leaves that out.
    first = _run(rounding(), requests, **driven)
    made = np.empty(len(requests), np.int64)
    made[first.number] = first.output
    return rounding(replace(requests, output=made))


def serve(
    fleet: Fleet,
    requests: Requests,
    *,
    concurrency: int = 0,
    ramp_s: float = 0.0,
    progress: Progress | None = None,
) -> ServedRequests:
    """Serve requests on all replicas.

    Args:
        fleet: What serves.
        requests: What comes.
        concurrency: Clients that send the next request when one is finished, of all replicas; 0 for
            an open loop. [1]
        ramp_s: Time over which those of each replica start. [s]
        progress: Told how many requests are done, of how many.
    """
    whole = _run(fleet, requests, concurrency=concurrency, ramp_s=ramp_s, progress=progress)
    return whole if fleet.drafting is None else fleet.drafting.in_tokens(whole, requests)


def _run(
    fleet: Fleet,
    requests: Requests,
    *,
    concurrency: int = 0,
    ramp_s: float = 0.0,
    progress: Progress | None = None,
) -> ServedRequests:
    """Requests as served, those of a fleet that drafts in rounds."""
    pace = UNPACED
    if fleet.drafting is not None:
        pace = fleet.drafting.paced(requests)
        requests = fleet.drafting.in_rounds(requests)
    where = sent(fleet, requests)
    replicas = [(prices, server) for prices, server, number in fleet.kinds for _ in range(number)]
    order = np.argsort(where, kind="stable")
    ends = np.cumsum(np.bincount(where, minlength=fleet.replicas))
    told, finished = Lock(), [0]

    def rows_of(replica: int) -> Integers:
        return order[ends[replica - 1] if replica else 0 : ends[replica]]

    if fleet.server.pooled and fleet.replicas > 1:
        busy = [replica for replica in range(fleet.replicas) if len(rows_of(replica))]
        every = simulate_pooled(
            [picked_rows(requests, rows_of(replica)) for replica in busy],
            fleet.prices,
            fleet.server,
            concurrency=[_share(concurrency, replica, fleet.replicas) for replica in busy],
            ramp_s=ramp_s,
        )
        whole = (
            replace(served, number=rows_of(replica)[served.number])
            for replica, served in zip(busy, every, strict=True)
        )
        return _together(whole, len(requests))

    def one(replica: int) -> ServedRequests | None:
        rows = rows_of(replica)
        if not len(rows):
            return None
        own = picked_rows(requests, rows) if fleet.replicas > 1 else requests
        clients = _share(concurrency, replica, fleet.replicas)
        prices, server = replicas[replica]
        parts = []
        for served in stream(
            _parts(own),
            prices,
            server,
            concurrency=clients,
            ramp_s=ramp_s,
            paced=picked(pace, rows),
        ):
            parts.append(served)
            if progress is not None:
                with told:
                    finished[0] += len(served)
                    progress(finished[0], len(requests))
        whole = served_joined(parts)
        if fleet.server.adapter_load_s:
            sessions = turn(requests)[rows[whole.number]]
            whole = waited(whole, fleet.server.lora, fleet.server.adapter_load_s, sessions)
        return replace(whole, number=rows[whole.number])

    return _together(_each(one, fleet), len(requests))


def sent(fleet: Fleet, requests: Requests) -> Integers:
    """Replica that each request is sent to, those of the first kind first. [1]"""
    if fleet.schedule is not None:
        return scheduled(requests, fleet.schedule)
    if fleet.replicas == 1:
        return np.zeros(len(requests), np.int64)
    works: list[ReplicaWork] = []
    for prices, server, number in fleet.kinds:
        works += [work_of(prices, server, requests)] * number
    return routed(requests, works, fleet.router)


def _each(one: Callable[[int], ServedRequests | None], fleet: Fleet) -> Iterator[ServedRequests]:
    """Replicas that had requests, one after the other or side by side, in order."""
    numbers = range(fleet.replicas)
    if min(fleet.workers, fleet.replicas) < 2:
        yield from filter(None, map(one, numbers))
        return
    with ThreadPoolExecutor(fleet.workers) as threads:
        yield from filter(None, threads.map(one, numbers))


def picked(pace: PacedDrafts, rows: Integers) -> PacedDrafts:
    """Some of the requests whose drafts follow the batch."""
    if not len(pace.lengths):
        return pace
    return pace._replace(
        rates=pace.rates[rows] if len(pace.rates) > 1 else pace.rates,
        keys=pace.keys[rows],
        tokens=pace.tokens[rows],
        made=pace.made[rows],
        since=pace.since[rows],
    )


def saturation(fleet: Fleet, requests: Requests, *, transferred: bool = False) -> float:
    """Requests a second that all replicas serve where the queue is never empty. [1/s]

    Twice as many clients as it runs sequences ask again at once, so that it never waits. Counted
    are the requests finished between a quarter and three quarters of them: neither the first,
    which start together, nor the last, which leave the server empty. Sessions go on at once. Twice
    as many of them as run at once may be more than the cache has room for, so that each finds its
    pages evicted by the others: as many as have room are tried too, and the higher rate is that
    which can last. Unlike replicas that requests go to in turn are full when the slowest is, by
    load when all are. Source: a queue is stable below the rate at which its server works when
    it never waits, Asmussen 2003, Applied Probability and Queues, chapter III.

    Args:
        fleet: What serves.
        requests: What comes, of which the lengths and what is shared count; they are repeated until
            the server was filled often enough.
        transferred: Whether the cache of each prompt and the first token come with the request.
    """
    if fleet.others:
        alone = replace(fleet, replicas=1, others=())
        rates = [
            (number, saturation(replace(alone, prices=prices, server=server), requests))
            for prices, server, number in fleet.kinds
        ]
        if fleet.router == "turns":
            return fleet.replicas * min(rate for _, rate in rates)
        return sum(number * rate for number, rate in rates)
    single = first_rows(requests, min(len(requests), SAMPLE))
    copies = -(-FULL * fleet.server.max_sequences // len(single))
    ready = repeated(single, copies * len(single))
    ready = replace(ready, arrival=np.zeros(len(ready)), think=np.zeros(len(ready)))
    pace = UNPACED
    if fleet.drafting is not None:
        pace = fleet.drafting.paced(ready)
        ready = fleet.drafting.in_rounds(ready)
    most = 2 * fleet.server.max_sequences
    tried = {most}
    if fleet.server.sharing and (ready.after >= 0).any():
        context = float((ready.prompt + ready.output).mean())
        tried.add(max(min(int(fleet.server.kv_tokens / context), most), 1))
    return fleet.replicas * max(
        _rate_of(
            simulate(
                ready,
                fleet.prices,
                fleet.server,
                concurrency=clients,
                transferred=transferred,
                paced=pace,
            )
        )
        for clients in tried
    )


def _rate_of(served: ServedRequests) -> float:
    """Requests a second between a quarter and three quarters of the answers. [1/s]"""
    finish = np.sort(served.finish)
    low, high = len(finish) // 4, (3 * len(finish)) // 4
    span = float(finish[high] - finish[low])
    # All may be in one batch.
    return (high - low) / span if span > 0 else len(finish) / float(finish[-1])


def waiting(served: ServedRequests) -> tuple[float, int]:
    """Requests that wait for their first step: mean over the run, and most at once. [1]"""
    return _present(served.arrival, served.admitted)


def running(served: ServedRequests) -> tuple[float, int]:
    """Requests that were begun and are not finished: mean over the run, and most at once. [1]"""
    return _present(served.admitted, served.finish)


def _present(start: Array, end: Array) -> tuple[float, int]:
    """Mean and most of what is there between two times; what ends as another starts is gone."""
    span = float(max(start.max(), end.max()) - min(start.min(), end.min()))
    _, level = levels(start, end)
    return (float((end - start).sum()) / span if span else 0.0), int(level.max())


def levels(start: Array, end: Array) -> tuple[Array, Integers]:
    """Starts in order of time [s], and what is there right after each of them. [1]

    What ends as another starts is gone.
    """
    starts = np.sort(start)
    level = np.arange(1, len(starts) + 1, dtype=np.int64)
    level -= np.searchsorted(np.sort(end), starts, "right")
    return starts, level


def _parts(requests: Requests) -> Iterator[Requests]:
    """Parts that end with a session, so that it is known how far a run is."""
    first = np.flatnonzero(requests.after < 0)
    cuts = [0]
    while (at := int(np.searchsorted(first, cuts[-1] + PART))) < len(first):
        cuts.append(int(first[at]))
    for start, stop in zip(cuts, [*cuts[1:], len(requests)], strict=True):
        yield part(requests, start, stop)


def _share(concurrency: int, replica: int, replicas: int) -> int:
    """Clients of a replica; one where there are fewer than replicas."""
    if not concurrency:
        return 0
    return max(concurrency // replicas + (replica < concurrency % replicas), 1)


def repeated(requests: Requests, number: int) -> Requests:
    """So many requests [1]: these several times over, each time with blocks of its own."""
    ids, copies = numbered(requests.hashes), -(-number // len(requests))
    every = joined(
        replace(
            requests,
            after=np.where(requests.after < 0, -1, requests.after + copy * len(requests)),
            joins=np.where(requests.joins < 0, -1, requests.joins + copy * len(requests)),
            hashes=ids + copy * (len(ids) + 1),
        )
        for copy in range(copies)
    )
    return first_rows(every, number)


def _together(replicas: Iterator[ServedRequests], number: int) -> ServedRequests:
    """So many requests [1] as all replicas served them, each of which is forgotten then."""
    columns: dict[str, Any] = {}
    totals, courses = list[Totals](), list[Course]()
    for served in replicas:
        totals.append(served.totals)
        courses.append(served.course)
        if len(served) == number:
            return served
        for name in SERVED:
            column = getattr(served, name)
            columns.setdefault(name, np.empty(number, column.dtype))[served.number] = column
    last, first = float(columns["finish"].max()), float(columns["arrival"].min())
    values = {}
    for name in Totals.__struct_fields__:
        column = [getattr(each, name) for each in totals]
        if name == "kv_peak_tokens":
            values[name] = max(column)
        else:
            values[name] = sum(column) / len(column) if name.startswith("kv_") else sum(column)
    whole = Totals(**{**values, "makespan_s": last - first})
    return ServedRequests(**columns, totals=whole, course=averaged(courses))
