"""State of the loop: rules of the server, a record for each request, and running counts.

Records, so that little is handed from function to function: the compiler counts references to
every array of an argument.
"""

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.cost.work import Array
from roofline.serving.requests import Integers

Records: TypeAlias = NDArray[np.void]
Places: TypeAlias = NDArray[np.int32]
Record: TypeAlias = Any
"""An element of `Records`; its fields are attributes where the loop is compiled."""


class Rules(NamedTuple):
    """A `Server` in numbers, and how this run is driven."""

    batched: bool
    padded: bool
    waits: bool
    timeout_s: float
    chunked: bool
    grown: bool
    fits: bool
    decode_first: bool
    max_sequences: int
    budget: int
    groups: int
    drafted: int
    pages: int
    page: int
    contiguous: bool
    region: int
    longest: int
    reservation: float
    swap: bool
    host_tokens: int
    swap_s: float
    sharing: bool
    tier_pages: int
    disk_pages: int
    disk_s: float
    pooled: bool
    request_s: float
    serial_s: float
    look: int
    hold: int
    together: int
    concurrency: int
    ramp_s: float
    uniform: bool
    window: int


ROW: Final = np.dtype(
    [
        # What is asked. Blocks of the prompt are hashes[blocks:blocks_end].
        ("arrival", "f8"),
        ("prompt", "i8"),
        ("output", "i8"),
        ("priority", "i8"),
        ("rank", "i8"),
        ("number", "i8"),
        ("think", "f8"),
        ("child", "i8"),
        ("sibling", "i8"),
        # Row that waits for this one too, −1 for none; requests that it still waits for itself.
        ("joins", "i8"),
        ("awaits", "i8"),
        ("blocks", "i8"),
        ("blocks_end", "i8"),
        # What has happened.
        ("ready", "f8"),
        ("inside", "i8"),  # whether the front end is done with it at that time, or begins
        ("admitted", "f8"),
        ("first", "f8"),
        ("finish", "f8"),
        ("late", "f8"),  # time that its tokens take to leave a pipeline, beyond their step
        ("found", "i8"),
        ("preempted", "i8"),
        # Tokens made before it last joined those that decode, at the step it joined; the step at
        # which it ends.
        ("made", "i8"),
        ("joined", "i8"),
        ("ends", "i8"),
        # Tokens to prefill, and those prefilled; whether its cache comes from elsewhere.
        ("goal", "i8"),
        ("done", "i8"),
        ("group", "i8"),  # group of devices in which it is prefilled
        ("swapped", "i8"),
        # Pages at its start that others may use, and pages that are promised to it.
        ("shared", "i8"),
        ("pledged", "i8"),
        # Region of contiguous memory.
        ("start", "i8"),
        ("size", "i8"),
    ]
)

COUNTS: Final = np.dtype(
    [
        ("now", "f8"),
        ("busy", "f8"),
        ("swapping", "f8"),  # time of the step that is being planned
        ("front", "f8"),  # when the front end is done with all requests that it has
        ("behind", "f8"),  # time that it still takes for the tokens of the steps so far
        ("warm", "i8"),  # whether a step with prompts has run
        ("held", "i8"),  # steps since prompts might start
        ("unseen", "i8"),  # decode steps since the last look at what has come
        # Tokens of the longest chunk of the step, its attention, and the time that it takes to
        # leave a pipeline; requests that ended and whose clients did not ask again yet, and the
        # times that they take to leave it together.
        ("longest", "i8"),
        ("longest_s", "f8"),
        ("late", "f8"),
        ("left", "i8"),
        ("leaving_s", "f8"),
        # Requests that follow none, of which the next is to come; entries of the lists.
        ("root", "i8"),
        ("waiting", "i8"),
        ("future", "i8"),
        ("decoding", "i8"),
        ("prefilled", "i8"),
        ("joining", "i8"),
        ("fresh", "i8"),  # whether some that decode have no first token yet
        ("partial", "i8"),  # prompts that are partly prefilled, one in a group at most
        ("running", "i8"),  # sequences that have memory
        ("open", "i8"),  # requests of clients that are not finished
        ("started", "i8"),  # clients, while they ramp up
        ("clock", "i8"),  # decode steps so far
        ("length", "i8"),  # tokens that each sequence drafts, where that follows the batch
        # Keys that the sequences of the next decode step see together, and those that a window
        # leaves of them; sequences that do not fill the window yet.
        ("context", "i8"),
        ("seen", "i8"),
        ("growing", "i8"),
        # Pages of one sequence; of the table of prefixes, used and not; promised ones.
        ("own", "i8"),
        ("used", "i8"),
        ("idle", "i8"),
        ("pledged", "i8"),
        ("begun", "i8"),  # pages for the tokens that the step that is being planned decodes
        ("host", "i8"),  # tokens there
        # Tokens in memory that is in use, and those that regions will have in the end.
        ("stored", "i8"),
        ("final", "i8"),
        # Totals; those of steps are sums over the ends of steps.
        ("steps", "i8"),
        ("preemptions", "i8"),
        ("swapped_tokens", "i8"),
        ("loaded_tokens", "i8"),
        ("read_tokens", "i8"),
        ("recomputed_tokens", "i8"),
        ("prefilled_tokens", "i8"),
        ("decoded_tokens", "i8"),
        ("copied", "i8"),
        ("peak", "i8"),
        ("stored_steps", "i8"),
        ("held_steps", "i8"),
        ("final_steps", "i8"),
        ("blocked_steps", "i8"),
        ("bins_per_s", "f8"),  # of the course of the cache
    ]
)

BINS: Final = 256
BINS_PER_S: Final = 2.0**10
"""Bins of the course of the cache, an even number, and how many a second has at first. [1] [1/s]"""

WAITING: Final = 0
"""The queue, a heap."""
FUTURE: Final = 1
"""Requests whose time is known, a heap."""
DECODING: Final = 2
"""Sequences that decode, a heap: who ends first."""
PREFILLED: Final = 3
"""Sequences whose prompt ends with the step that is being planned."""
JOINING: Final = 4
"""Sequences whose cache comes from elsewhere."""
ORDER: Final = 5
"""Sequences that have regions, in order of their start."""
PARTIAL: Final = 6
"""Sequences whose prompt is partly prefilled, the oldest first."""
LISTS: Final = 7


class State(NamedTuple):
    """Arrays that change from step to step."""

    rows: Records
    """Requests. `ROW`"""
    counts: Records
    """One record. `COUNTS`"""
    lists: Integers
    """Rows by list and place."""
    roots: Integers
    """Rows that follow none, in order."""
    phases: Integers
    """Sequences that decode by where in a page their next token lies."""
    fills: Integers
    """Sequences by when they fill the window."""
    loads: Integers
    attending: Array
    """Tokens of prompts of each group in the step that is being planned, and their attention.
    [token] [s]"""
    hashes: Integers
    places: Places
    """Ids of blocks, and where those are kept that the sequence uses."""
    chains: Places
    blocks: Records
    """Tables of prefixes: see `prefix`."""
    tier_chains: Places
    tier_blocks: Records
    """Tables of prefixes on the host, which nobody uses."""
    disk_chains: Places
    disk_blocks: Records
    """The same of its drives, or of a pool, whose tables are those of every replica."""
    course: Array
    """Cache in use by bin of time, from 0 on: its integral, and its most. [token·s] [token]"""


class PacedDrafts(NamedTuple):
    """Requests whose drafts follow the batch, by number; no lengths where none do."""

    lengths: Integers
    """Tokens drafted, by sequences that decode. [token]"""
    rates: Array
    """Acceptance, requests × positions; one row for all that are alike. [1]"""
    keys: NDArray[np.uint64]
    """Keys of the draws of each request."""
    tokens: Integers
    """Tokens of the answer. [token]"""
    made: Integers
    since: Integers
    """Tokens of it so far, and the decode step at which they were counted. [token] [1]"""


class PriceTables(NamedTuple):
    """Tables of `StepPrices` with an engine's costs in them, a row or entry for every integer."""

    contexts: Array
    windows: Array
    """Points of the rows below. [token]"""
    alone: Array
    mixed: Array
    """Times by sequences that decode: a step that does nothing else; and kernels that they add to
    one that prefills; both without layers that have a window. [s]"""
    seen: Array
    """Layers with a window, by sequences that decode. [s]"""
    shares: Array
    others: Array
    others_slope: Array
    """Kernels of a step with prompts by the share of its tokens that the busiest group has, and by
    tokens; beyond the last entry, for each token. [1] [s]"""
    stages: int
    passing: Array
    passing_slope: float
    """Stages of a pipeline, and kernels but attention of one micro-batch through all of them, by
    its tokens; likewise. [1] [s]"""
    head: Array
    """LM head by rows of logits. [s]"""
    chunks: Array
    cached: Array
    attention: Array
    """Attention of a chunk for each of its tokens. [token] [s]"""
    step_s: float
    sequence_s: float
    prefill_s: float
    launch_s: float
    """Software of a step that prefills, for each sequence that decodes, added because it prefills,
    and the least time of its kernels. [s]"""
    token_s: float
    """Time of the front end for a token. [s]"""
    cold_s: float
    """Added to the first step that prefills. [s]"""
