"""Requests as records of the compiled loop, and records back as requests that were served."""

from typing import Final

import numpy as np

from roofline.cost.work import Array
from roofline.serving.requests import Integers, Requests
from roofline.serving.simulate.compiled import prefix, records
from roofline.serving.simulate.compiled.state import (
    BINS,
    BINS_PER_S,
    COUNTS,
    DECODING,
    FUTURE,
    LISTS,
    ORDER,
    PARTIAL,
    ROW,
    WAITING,
    Places,
    Records,
    Rules,
    State,
)
from roofline.serving.simulate.served import Course, ServedRequests, Totals

TIMES: Final = ("arrival", "admitted", "first_token", "finish")
WHOLE: Final = ("number", "prompt", "output", "cached", "preemptions")
"""Columns of requests that were served, as `records.collect` orders them."""


def empty(g: Rules) -> State:
    """A server at rest, and no requests."""
    counts = np.zeros(1, dtype=COUNTS)
    counts["bins_per_s"] = BINS_PER_S
    none = np.zeros(0, dtype=np.int64)
    chains, blocks = prefix.prefixes(0)
    tier_chains, tier_blocks = prefix.prefixes(0)
    disk_chains, disk_blocks = prefix.prefixes(0)
    return State(
        rows=np.zeros(0, dtype=ROW),
        counts=counts,
        lists=np.zeros((LISTS, 1), dtype=np.int64),
        roots=none,
        phases=np.zeros(g.page, dtype=np.int64),
        fills=np.zeros(max(g.window, 1), dtype=np.int64),
        loads=np.zeros(g.groups, dtype=np.int64),
        attending=np.zeros(g.groups),
        hashes=none,
        places=chains[:0],
        chains=chains,
        blocks=blocks,
        tier_chains=tier_chains,
        tier_blocks=tier_blocks,
        disk_chains=disk_chains,
        disk_blocks=disk_blocks,
        course=np.zeros((BINS, 2)),
    )


def extended(
    g: Rules, s: State, given: Requests, first: int, ranks: Integers, *, transferred: bool
) -> State:
    """The state without finished requests, and with others after those that are left.

    Args:
        g, s: The run.
        given: The requests that are new.
        first: Requests of the stream before them. [1]
        ranks: Order among those that come at the same time. [1]
        transferred: Whether the caches of their prompts come with them, and the first token.
    """
    stay = np.flatnonzero(np.isnan(s.rows["finish"]))
    left = len(stay)
    place = np.full(len(s.rows) + 1, -1, dtype=np.int64)  # the last one for "none": −1
    place[stay] = np.arange(left)
    rows = np.zeros(left + len(given), dtype=ROW)
    rows[:left] = s.rows[stay]
    kept = _compact(rows[:left], place)
    # Those that are left may not have put their blocks there yet: all count.
    hashes = np.concatenate([s.hashes[kept], np.asarray(given.hashes, np.int64)])
    places = np.zeros(len(hashes), dtype=s.places.dtype)
    places[: len(kept)] = s.places[kept]
    # Columns that hold one value once are written out: the loop is compiled for one kind of column.
    arrival, think, prompt, output, priority, after, joins, prefixed = (
        np.require(getattr(given, name), requirements=("C", "W"))
        for name in ("arrival", "think", "prompt", "output", "priority", "after", "joins", "prefix")
    )
    records.fill(
        rows,
        (arrival, think),
        (prompt, output),
        (priority, ranks, after, joins),
        prefixed,
        first,
        len(kept),
        transferred,
    )
    counts, lists = s.counts, np.zeros((LISTS, len(rows) + 1), dtype=np.int64)
    for which, name in (
        (WAITING, "waiting"),
        (FUTURE, "future"),
        (DECODING, "decoding"),
        (ORDER, "running"),
        (PARTIAL, "partial"),
    ):
        size = int(counts[0][name])
        lists[which, :size] = place[s.lists[which, :size]]
    roots = np.concatenate(
        [place[s.roots[counts[0]["root"] :]], np.flatnonzero(given.after < 0) + left]
    )
    counts["root"] = 0
    more = len(hashes)
    # What is on the device, or will be, may all have to leave it.
    leaving = _filled(s.blocks) + more
    sinking = _filled(s.tier_blocks) + leaving
    chains, blocks = _room(g.pages * g.sharing, s.chains, s.blocks, more)
    tier_chains, tier_blocks = _room(g.tier_pages, s.tier_chains, s.tier_blocks, leaving)
    disk_chains, disk_blocks = _room(g.disk_pages, s.disk_chains, s.disk_blocks, sinking)
    return s._replace(
        rows=rows,
        lists=lists,
        roots=roots,
        hashes=hashes,
        places=places,
        chains=chains,
        blocks=blocks,
        tier_chains=tier_chains,
        tier_blocks=tier_blocks,
        disk_chains=disk_chains,
        disk_blocks=disk_blocks,
    )


def _filled(blocks: Records) -> int:
    """Blocks that a table of prefixes has. [1]"""
    return len(blocks) - 1 - int(blocks[-1]["users"])


def _compact(rows: Records, place: Integers) -> Integers:
    """Places of the ids of the rows' blocks, which move together as the rows have."""
    sizes = rows["blocks_end"] - rows["blocks"]
    ends = np.cumsum(sizes)
    kept: Integers = np.repeat(rows["blocks_end"] - ends, sizes) + np.arange(sizes.sum())
    rows["blocks"], rows["blocks_end"] = ends - sizes, ends
    for name in ("child", "sibling", "joins"):
        rows[name] = place[rows[name]]
    return kept


def _room(pages: int, chains: Places, blocks: Records, more: int) -> tuple[Places, Records]:
    """Chains of prefixes with room for so many more blocks, or for all pages."""
    most = len(blocks) - 1
    wanted = min(pages, most - int(blocks[most]["users"]) + more)
    if wanted <= most:
        return chains, blocks
    larger, kept = prefix.prefixes(min(pages, 2 * wanted))
    prefix.move(chains, blocks, larger, kept)
    return larger, kept


def columns(count: int) -> tuple[Array, Integers]:
    """Room for the times and the whole numbers of so many finished requests. [1]"""
    return np.empty((len(TIMES), count)), np.empty((len(WHOLE), count), dtype=np.int64)


def finished(s: State) -> tuple[Array, Integers]:
    """Times and whole numbers of the finished requests, in the order of the stream."""
    times, whole = columns(len(s.rows) - int(np.isnan(s.rows["finish"]).sum()))
    records.collect(s.rows, times, whole, False)
    return times, whole


def served(g: Rules, s: State, times: Array, whole: Integers, start_s: float) -> ServedRequests:
    """Requests by their columns, with what the server did since the first arrival. [s]"""
    named = dict(zip(TIMES, times, strict=True)), dict(zip(WHOLE, whole, strict=True))
    per_s = float(s.counts[0]["bins_per_s"])
    course = Course(1.0 / per_s, s.course[:, 0] * per_s, s.course[:, 1].copy())
    return ServedRequests(**named[0], **named[1], totals=_totals(g, s, start_s), course=course)


def _totals(g: Rules, s: State, start_s: float) -> Totals:
    n = s.counts[0]
    steps = int(n["steps"])

    def mean(total: int) -> float:
        return float(total) / steps if steps else 0.0

    final = n["final_steps"] if g.contiguous or g.batched else n["stored_steps"]
    return Totals(
        steps=steps,
        busy_s=float(n["busy"]),
        makespan_s=float(n["now"] + n["behind"]) - start_s,
        preemptions=int(n["preemptions"]),
        prefilled_tokens=int(n["prefilled_tokens"]),
        decoded_tokens=int(n["decoded_tokens"]),
        recomputed_tokens=int(n["recomputed_tokens"]),
        swapped_tokens=int(n["swapped_tokens"]),
        loaded_tokens=int(n["loaded_tokens"]),
        read_tokens=int(n["read_tokens"]),
        copied_pages=int(n["copied"]),
        kv_peak_tokens=int(n["peak"]) * (1 if g.batched else g.page),
        kv_held_tokens=mean(n["held_steps"]),
        kv_stored_tokens=mean(n["stored_steps"]),
        kv_reserved_tokens=mean(final - n["stored_steps"]),
        kv_internal_tokens=mean(n["held_steps"] - final),
        kv_external_tokens=mean(n["blocked_steps"]),
    )
