"""Simulation of requests at hand, or of a stream that never is in memory as a whole."""

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofline.errors import InputError
from roofline.serving.requests import COLUMNS, Requests, part
from roofline.serving.requests import check as check_columns
from roofline.serving.simulate.compiled.state import PacedDrafts
from roofline.serving.simulate.prices import StepPrices
from roofline.serving.simulate.served import ServedRequests
from roofline.serving.simulate.server import BATCHED, Server

UNPACED: Final = PacedDrafts(
    *(np.zeros(0, np.int64), np.zeros((1, 1)), np.zeros(0, np.uint64)),
    *(np.zeros(0, np.int64),) * 3,
)
"""No requests whose drafts follow the batch."""
PART: Final = 2**14
"""Requests of a part of those at hand: their records fit into a processor's cache."""


def simulate(
    given: Requests,
    prices: StepPrices,
    server: Server,
    *,
    concurrency: int = 0,
    ramp_s: float = 0.0,
    seed: int = 0,
    transferred: bool = False,
    paced: PacedDrafts = UNPACED,
) -> ServedRequests:
    """Serve requests, all of them.

    Args:
        given: Requests.
        prices: Times of steps.
        server: Policy that fills steps and gives out the cache.
        concurrency: Clients that send the next request, in order, when one is finished; 0 where
            requests come when they do. A conversation keeps its client. [1]
        ramp_s: Time over which the clients start, one after the other; 0 for all at once. [s]
        seed: Order of requests of one priority that come at the same time; 0 for the one given.
            Nothing else is random. [1]
        transferred: Whether the cache of each prompt and the first token come with the request, as
            to the decode instances of disaggregated serving. They hand that token out with the
            second one.
        paced: Requests whose drafts follow the batch.

    Raises:
        InputError: The requests make no sense, or one of them can never be served.
    """
    check(given, server, transferred=transferred)
    if not len(given):
        raise InputError("there are no requests", hint="give at least one")
    uniform = bool((given.priority == given.priority[0]).all())
    (served,) = stream(
        _parts(given),
        prices,
        server,
        concurrency=concurrency,
        ramp_s=ramp_s,
        seed=seed,
        transferred=transferred,
        uniform=uniform,
        total=len(given),
        paced=paced,
    )
    return served


def stream(
    given: Iterable[Requests],
    prices: StepPrices,
    server: Server,
    *,
    concurrency: int = 0,
    ramp_s: float = 0.0,
    seed: int = 0,
    transferred: bool = False,
    uniform: bool = False,
    total: int = 0,
    paced: PacedDrafts = UNPACED,
) -> Iterator[ServedRequests]:
    """Serve requests that come in parts; each part of the result are those finished meanwhile.

    Only the requests of a part and those not finished are in memory. Where the parts end makes no
    difference to the result.

    Args:
        given: Parts of a stream of requests; those of a conversation in one part.
        prices, server, concurrency, ramp_s, seed, transferred: As for `simulate`.
        uniform: Whether all priorities are known to be equal.
        total: Requests in all, checked by the caller and given back at the end; 0 where it is not
            known how many come. [1]
        paced: Requests whose drafts follow the batch.
    """
    if len(paced.lengths) and (server.policy in BATCHED or server.kv == "contiguous"):
        raise InputError(
            f"drafts that follow the batch, with {server.policy} batches or contiguous memory",
            hint="give a `draft_length`, or use policy continuous or chunked and pages",
        )
    if concurrency < 0:
        raise InputError(f"concurrency is {concurrency}", hint="give the number of clients")
    if server.max_sequences > prices.batches[-1]:
        raise InputError(
            f"steps are priced up to {prices.batches[-1]:.0f} sequences, the server runs "
            f"{server.max_sequences}",
            hint=f"tabulate them with sequences={server.max_sequences}",
        )
    # Compiling takes a while, so it waits until something runs.
    from roofline.serving.simulate import rows
    from roofline.serving.simulate.compiled import batches, loop, records
    from roofline.serving.simulate.dense import dense, rules

    random = np.random.default_rng(seed) if seed else None
    table = dense(prices, server.max_sequences, server)
    if not 0 <= ramp_s < np.inf:
        raise InputError(f"clients start over {ramp_s:g} s", hint="give 0 s or more")
    g = rules(server, prices, concurrency, ramp_s, uniform=uniform)
    batched = server.policy in BATCHED
    s, first, start_s = rows.empty(g), 0, 0.0
    columns = rows.columns(total)
    parts = iter(given)
    part = next(parts, None)
    while part is not None:
        if not total:
            check(part, server, first, transferred=transferred)
        coming = next(parts, None)
        if len(part) and not first:
            start_s = float(part.arrival[0])
        ranks = np.arange(first, first + len(part), dtype=np.int64)
        if random is not None:
            ranks = random.integers(0, 2**62, len(part))
        s = rows.extended(g, s, part, first, ranks, transferred=transferred)
        first += len(part)
        if batched:
            batches.serve(table, g, s, coming is not None)
        else:
            loop.serve(table, g, s, paced, coming is not None, np.inf)
        if total:
            records.collect(s.rows, *columns, True)
        if not total or coming is None:
            yield rows.served(g, s, *(columns if total else rows.finished(s)), start_s)
        part = coming


def simulate_pooled(
    given: Sequence[Requests],
    prices: StepPrices,
    server: Server,
    *,
    concurrency: Sequence[int],
    ramp_s: float = 0.0,
) -> tuple[ServedRequests, ...]:
    """Serve requests on replicas that share a pool of prefixes.

    Their steps are taken in the order in which they begin, the first replica of equals; what a step
    puts into the pool is there for all that begin after it.

    Args:
        given: Requests of each replica, at least one.
        prices, server: Each replica, whose room for prefixes outside is the pool.
        concurrency: Clients of each; 0 where requests come when they do. [1]
        ramp_s: As for `simulate`.

    Raises:
        InputError: As for `simulate`.
    """
    from roofline.serving.simulate import rows
    from roofline.serving.simulate.compiled import loop, prefix
    from roofline.serving.simulate.dense import dense, rules

    table, states = dense(prices, server.max_sequences, server), []
    chains, blocks = prefix.prefixes(
        min(server.disk_tokens // server.page, sum(len(own.hashes) for own in given) or 1)
    )
    for own, clients in zip(given, concurrency, strict=True):
        check(own, server)
        g = rules(server, prices, clients, ramp_s, uniform=False)
        ranks = np.arange(len(own), dtype=np.int64)
        s = rows.extended(g, rows.empty(g), own, 0, ranks, transferred=False)
        states.append((g, s._replace(disk_chains=chains, disk_blocks=blocks)))
    begins = [(0.0, replica) for replica in range(len(states))]
    while begins:
        _, replica = heappop(begins)
        g, s = states[replica]
        until = begins[0][0] if begins else np.inf
        if loop.serve(table, g, s, UNPACED, False, until):
            heappush(begins, (float(s.counts[0]["now"]), replica))
    return tuple(
        rows.served(g, s, *rows.finished(s), float(own.arrival[0]))
        for own, (g, s) in zip(given, states, strict=True)
    )


def _parts(given: Requests) -> Iterator[Requests]:
    """Requests in parts that stay in the processor's cache; conversations are not torn apart."""
    size = len(given) if (given.after >= 0).any() else PART
    for start in range(0, len(given), max(size, 1)):
        yield part(given, start, start + size)


def check(given: Requests, server: Server, first: int = 0, *, transferred: bool = False) -> None:
    """Refuse columns that do not fit together, and requests that the server can never hold.

    Args:
        given, server: What is to be served, and by what.
        first: Requests of the stream before these. [1]
        transferred: Whether the caches of prompts come with them.

    Raises:
        InputError: A column has another length, a value has no meaning, or a request does not fit.
    """
    for name in COLUMNS:
        if len(getattr(given, name)) != len(given):
            raise InputError(
                f"{name} has {len(getattr(given, name))} entries for {len(given)} requests",
                hint="give every request all of its columns",
            )
    sizes = np.diff(given.prefix)
    known = len(given.prefix) == len(given) + 1 and given.prefix[0] == 0 and (sizes >= 0).all()
    if not known or given.prefix[-1] != len(given.hashes):
        raise InputError(
            "ids of blocks do not fit the requests",
            hint="give offsets from 0 to the number of ids, one more than requests",
        )
    check_columns(given, earlier=first)
    if (at := _first((given.after >= 0) & (given.after < first))) is not None:
        raise InputError(
            f"request {first + at} comes after request {given.after[at]} of an earlier part",
            hint="keep the requests of a conversation in one part of a stream",
        )
    if server.sharing and len(given.hashes) and given.block != server.page:
        raise InputError(
            f"blocks have {given.block} tokens and pages {server.page}",
            hint="prefixes are shared page by page: make them equal",
        )
    _check_room(given, server, first)
    if transferred and server.policy in BATCHED:
        raise InputError(
            f"caches that come from elsewhere, with {server.policy} batches",
            hint="use policy continuous or chunked",
        )
    if transferred and (at := _first(given.output < 2)) is not None:
        raise InputError(
            f"request {first + at} has one token, and that came with it",
            hint="leave requests of one token to the instance that prefills",
        )


def _first(wrong: NDArray[np.bool_]) -> int | None:
    """Place of the first that is wrong; None where none is."""
    return int(np.argmax(wrong)) if wrong.any() else None


def _check_room(given: Requests, server: Server, first: int) -> None:
    """Refuse requests that the cache cannot hold.

    Most is needed by the one that stays longest, or by the one whose prompt is longest.
    """
    if not len(given):
        return
    if server.kv == "contiguous" and server.region == "longest":
        longest = given.prompt + given.output - 1
        if (at := _first(longest > server.longest)) is not None:
            raise InputError(
                f"request {first + at} is {longest[at]} tokens long, its region {server.longest}",
                hint="give a longer longest context, or shorter requests",
            )
    for place in sorted(
        {int(np.argmax(given.prompt + given.output)), int(np.argmax(given.prompt))}
    ):
        prompt, output = int(given.prompt[place]), int(given.output[place])
        if (needed := server.most_tokens(prompt, output)) > server.kv_tokens:
            at = int(np.argmax((given.prompt == prompt) & (given.output == output)))
            raise InputError(
                f"request {first + at} of {prompt} + {output} tokens needs {needed} of "
                f"cache, the server has {server.kv_tokens}",
                hint="give shorter requests, or a deployment with more memory for the cache",
            )
