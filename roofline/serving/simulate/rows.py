"""Requests as records of the compiled loop, and records back as requests that were served."""

import numpy as np

from roofline.serving.requests import Requests
from roofline.serving.simulate.compiled import prefix
from roofline.serving.simulate.compiled.state import (
    COUNTS,
    DECODING,
    FUTURE,
    LISTS,
    ORDER,
    ROW,
    WAITING,
    Records,
    Rules,
    State,
)
from roofline.serving.simulate.integers import Integers
from roofline.serving.simulate.served import Served, Totals


def empty(g: Rules) -> State:
    """A server at rest, and no requests."""
    counts = np.zeros(1, dtype=COUNTS)
    counts["partial"] = -1
    none = np.zeros(0, dtype=np.int64)
    table, blocks = prefix.prefixes(0)
    tier_table, tier_blocks = prefix.prefixes(0)
    return State(
        rows=np.zeros(0, dtype=ROW),
        counts=counts,
        lists=np.zeros((LISTS, 1), dtype=np.int64),
        roots=none,
        phases=np.zeros(g.page, dtype=np.int64),
        fills=np.zeros(max(g.window, 1), dtype=np.int64),
        hashes=none,
        table=table,
        blocks=blocks,
        tier_table=tier_table,
        tier_blocks=tier_blocks,
    )


def extended(
    g: Rules, s: State, given: Requests, first: int, ranks: Integers, *, transferred: bool
) -> State:
    """The state without finished requests, and with others after those that are left.

    Parameters
    ----------
    g, s
        The run.
    given
        The requests that are new.
    first
        Requests of the stream before them. [1]
    ranks
        Order among those that come at the same time. [1]
    transferred
        Whether the caches of their prompts come with them, and the first token.
    """
    stay = np.flatnonzero(np.isnan(s.rows["finish"]))
    place = np.full(len(s.rows) + 1, -1, dtype=np.int64)  # the last one for "none": −1
    place[stay] = np.arange(len(stay))
    old, hashes = _kept(s, stay, place)
    new = _records(given, first, ranks, transferred)
    for name in ("child", "sibling"):
        new[name] += np.where(new[name] >= 0, len(old), 0)
    for name in ("blocks", "blocks_end"):
        new[name] += len(hashes)
    rows = np.concatenate([old, new])
    counts, lists = s.counts, np.zeros((LISTS, len(rows) + 1), dtype=np.int64)
    for which, name in (
        (WAITING, "waiting"),
        (FUTURE, "future"),
        (DECODING, "decoding"),
        (ORDER, "running"),
    ):
        size = int(counts[0][name])
        lists[which, :size] = place[s.lists[which, :size]]
    counts["partial"] = place[counts["partial"]]
    roots = np.concatenate(
        [place[s.roots[counts[0]["root"] :]], np.flatnonzero(given.after < 0) + len(old)]
    )
    counts["root"] = 0
    hashes = np.concatenate([hashes, given.hashes.astype(np.int64)])
    # Those that are left may not have put their blocks there yet: all count.
    more = len(hashes)
    # What is on the device, or will be, may all have to leave it.
    leaving = len(s.blocks) - 1 - int(s.blocks[-1]["users"]) + more
    table, blocks = _room(g.pages * g.sharing, s.table, s.blocks, more)
    tier_table, tier_blocks = _room(g.tier_pages, s.tier_table, s.tier_blocks, leaving)
    return State(
        rows,
        counts,
        lists,
        roots,
        s.phases,
        s.fills,
        hashes,
        table,
        blocks,
        tier_table,
        tier_blocks,
    )


def _records(given: Requests, first: int, ranks: Integers, transferred: bool) -> Records:
    """Requests that nothing has happened to yet."""
    out = np.zeros(len(given), dtype=ROW)
    for name in ("arrival", "prompt", "output", "priority", "think"):
        out[name] = getattr(given, name)
    out["rank"], out["number"] = ranks, np.arange(first, first + len(given))
    out["blocks"], out["blocks_end"] = given.prefix[:-1], given.prefix[1:]
    for name in ("ready", "admitted", "first", "finish"):
        out[name] = np.nan
    out["made"] = out["swapped"] = transferred
    out["child"] = out["sibling"] = -1
    for i in np.flatnonzero(given.after >= 0)[::-1]:
        parent = given.after[i] - first
        out["sibling"][i] = out["child"][parent]
        out["child"][parent] = i
    return out


def _kept(s: State, stay: Integers, place: Integers) -> tuple[Records, Integers]:
    """Records that stay, and the ids of their blocks, in their new places."""
    old = s.rows[stay]
    ids = [s.hashes[row["blocks"] : row["blocks_end"]] for row in old]
    ends = np.cumsum(old["blocks_end"] - old["blocks"])
    old["blocks"], old["blocks_end"] = np.concatenate([[0], ends])[: len(old)], ends
    for name in ("child", "sibling"):
        old[name] = place[old[name]]
    return old, np.concatenate([*ids, s.hashes[:0]])


def _room(pages: int, table: Integers, blocks: Records, more: int) -> tuple[Integers, Records]:
    """A table of prefixes that has room for so many more blocks, or for all pages."""
    most = len(blocks) - 1
    wanted = min(pages, most - int(blocks[most]["users"]) + more)
    if wanted <= most:
        return table, blocks
    larger, kept = prefix.prefixes(min(pages, 2 * wanted))
    prefix.moved(blocks, larger, kept)
    return larger, kept


def finished(g: Rules, s: State, start_s: float) -> Served:
    """Requests that are finished, in the order of the stream.

    Parameters
    ----------
    g, s
        The run.
    start_s
        First arrival. [s]
    """
    done = s.rows[~np.isnan(s.rows["finish"])]
    columns = {
        "number": "number",
        "arrival": "arrival",
        "admitted": "admitted",
        "first_token": "first",
        "finish": "finish",
        "prompt": "prompt",
        "output": "output",
        "cached": "found",
        "preemptions": "preempted",
    }
    copied = {name: done[field].copy() for name, field in columns.items()}
    return Served(**copied, totals=_totals(g, s, start_s))


def _totals(g: Rules, s: State, start_s: float) -> Totals:
    n = s.counts[0]
    steps = int(n["steps"])

    def mean(total: int) -> float:
        return float(total) / steps if steps else 0.0

    final = n["final_steps"] if g.contiguous or g.batched else n["stored_steps"]
    return Totals(
        steps=steps,
        busy_s=float(n["busy"]),
        makespan_s=float(n["now"]) - start_s,
        preemptions=int(n["preemptions"]),
        prefilled_tokens=int(n["prefilled_tokens"]),
        decoded_tokens=int(n["decoded_tokens"]),
        recomputed_tokens=int(n["recomputed_tokens"]),
        swapped_tokens=int(n["swapped_tokens"]),
        loaded_tokens=int(n["loaded_tokens"]),
        copied_pages=int(n["copied"]),
        kv_peak_tokens=int(n["peak"]) * (1 if g.batched else g.page),
        kv_held_tokens=mean(n["held_steps"]),
        kv_stored_tokens=mean(n["stored_steps"]),
        kv_reserved_tokens=mean(final - n["stored_steps"]),
        kv_internal_tokens=mean(n["held_steps"] - final),
        kv_external_tokens=mean(n["blocked_steps"]),
    )
