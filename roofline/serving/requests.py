"""Requests as columns: when they arrive, how long they are, what they wait for and share."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import ArrayLike, NDArray

from roofline.cost.work import Array
from roofline.errors import InputError
from roofline.records import replace

Integers: TypeAlias = NDArray[np.int64]
MOST_TOKENS: Final = 2**31
COLUMNS: Final = ("arrival", "prompt", "output", "priority", "after", "think", "joins")
"""Columns with an entry for each request."""


class Requests(Struct, frozen=True):
    """Requests in order of arrival, one row each.

    A column that repeats one value may store it once, read-only: millions of requests stay small.
    """

    arrival: Array
    """Time since the start, never less than the one before; 0 where a client of a closed loop
    releases it, and that of the first turn where it follows another. [s]"""
    prompt: NDArray[np.int64]
    output: NDArray[np.int64]
    """Tokens of the prompt and of the answer, 1 or more. [token]"""
    priority: NDArray[np.int64]
    """Class: 0 goes first. [1]"""
    after: NDArray[np.int64]
    """Row of the request that must have finished before, counted from the start of the stream;
    −1 for none. [1]"""
    think: Array
    """Time between the finish of all that it waits for and this arrival. [s]"""
    joins: NDArray[np.int64]
    """Row of a later request that waits for this one too, beside the one that it follows: where
    branches meet; −1 for none. [1]"""
    prefix: NDArray[np.int64]
    """Start of each row's hashes, and in one entry more the end of the last one's. [1]"""
    hashes: NDArray[np.int64]
    """Ids of whole blocks at the start of a prompt: equal ids are equal tokens after equal
    tokens. Blocks that are not listed nobody shares."""
    block: int
    """Tokens of a hashed block; 0 where there are none. [token]"""

    def __len__(self) -> int:
        """Requests."""
        return len(self.arrival)


def requests(
    arrival: ArrayLike,
    prompt: ArrayLike,
    output: ArrayLike,
    *,
    priority: ArrayLike = 0,
    after: ArrayLike = -1,
    think: ArrayLike = 0.0,
    joins: ArrayLike = -1,
    blocks: Sequence[Sequence[int]] = (),
    block: int = 0,
) -> Requests:
    """Requests from columns; one number stands for a whole column.

    Args:
        arrival, prompt, output, priority, after, think, joins, block: As in `Requests`.
        blocks: Ids of the whole prompt blocks of each request; nothing where unknown.

    Raises:
        InputError: A row is impossible: see `check`.

    Examples:
        >>> made = requests([0.0, 0.5], 100, [10, 20])
        >>> len(made), made.prompt.tolist()
        (2, [100, 100])
    """
    start = np.atleast_1d(np.asarray(arrival, np.float64))

    def column(values: ArrayLike, kind: type = np.int64) -> Any:
        whole: Any = np.broadcast_to(np.asarray(values, kind), start.shape)
        return whole if np.ndim(values) == 0 else whole.copy()

    prefix = _no_hashes(len(start))
    if blocks:
        prefix = np.concatenate([[0], np.cumsum([len(ids) for ids in blocks], dtype=np.int64)])
    made = Requests(
        arrival=start,
        prompt=column(prompt),
        output=column(output),
        priority=column(priority),
        after=column(after),
        think=column(think, np.float64),
        joins=column(joins),
        prefix=prefix,
        hashes=np.fromiter(chain.from_iterable(blocks), np.int64),
        block=block,
    )
    check(made)
    return made


def _no_hashes(count: int) -> Integers:
    """Starts of the hashes of so many requests that have none. [1]"""
    return np.broadcast_to(np.int64(0), count + 1)


def check(made: Requests, *, earlier: int = 0) -> None:
    """Refuse impossible requests: InputError with the number of the first.

    Numbers go on from those of the earlier requests of the stream. [1]
    """
    rows = np.arange(earlier, earlier + len(made))
    listed = np.diff(made.prefix) if len(made.hashes) else np.int64(0)

    def no_length(tokens: Integers) -> NDArray[np.bool_]:
        return (tokens < 1) | (tokens > MOST_TOKENS)

    faults = (
        (~np.isfinite(made.arrival) | (made.arrival < 0), "arrives at no time", "0 s or later"),
        (
            np.append(False, made.arrival[1:] < made.arrival[:-1])[: len(made)],
            "arrives before the one above it",
            "requests in order of arrival",
        ),
        (no_length(made.prompt), "has no prompt that can be", f"1 to {MOST_TOKENS:,} tokens"),
        (no_length(made.output), "has no answer that can be", f"1 to {MOST_TOKENS:,} tokens"),
        (made.priority < 0, "has a negative priority", "0 or more; 0 goes first"),
        (
            (made.after < -1) | (made.after >= rows),
            "follows one that is not before it",
            "the row of an earlier request, or -1",
        ),
        (~np.isfinite(made.think) | (made.think < 0), "has no thinking time that can be", "0 s on"),
        (
            ~_joins_later(made, rows),
            "joins one that is not after it, or that follows none",
            "the row of a later request of its session, or -1",
        ),
        (
            listed * made.block > made.prompt,
            "has more hashed blocks than its prompt is long",
            "ids of whole blocks only",
        ),
    )
    for wrong, message, hint in faults:
        if wrong.any():
            raise InputError(
                f"request {rows[int(np.argmax(wrong))]} {message}", hint=f"give {hint}"
            )
    if len(made.hashes) and made.block < 1:
        raise InputError(
            "blocks are hashed, but their size is not said", hint="give the tokens of a block"
        )


def _joins_later(made: Requests, rows: Integers) -> NDArray[np.bool_]:
    """Whether each row joins none, or a later one that follows another."""
    if (made.joins == -1).all():
        return np.ones(len(rows), np.bool_)
    target = made.joins - rows[0] if len(rows) else made.joins
    inside = (made.joins > rows) & (target < len(rows))
    met: NDArray[np.bool_] = made.after[np.where(inside, target, 0)] >= 0
    fine: NDArray[np.bool_] = (made.joins == -1) | (inside & met)
    return fine


def first_rows(made: Requests, count: int) -> Requests:
    """Up to so many first requests of a whole stream [1]: nothing joins what was cut off.

    Examples:
        >>> three = requests([0, 0, 0], 5, 5, after=[-1, 0, 0], joins=[-1, 2, -1])
        >>> first_rows(three, 2).joins.tolist()
        [-1, -1]
    """
    cut = part(made, 0, count)
    return replace(cut, joins=np.where(cut.joins < count, cut.joins, -1))


def part(made: Requests, start: int, stop: int) -> Requests:
    """Rows from one up to another; what they follow stays counted from the start of the stream.

    Examples:
        >>> part(requests([0.0, 1.0, 2.0], 5, 5), 1, 3).arrival.tolist()
        [1.0, 2.0]
    """
    first, last = made.prefix[start], made.prefix[min(stop, len(made))]
    prefix = made.prefix[start : min(stop, len(made)) + 1]
    return replace(
        made,
        **{name: getattr(made, name)[start:stop] for name in COLUMNS},
        prefix=prefix - first if first else prefix,
        hashes=made.hashes[first:last],
    )


def joined(parts: Iterable[Requests]) -> Requests:
    """Parts of one stream, one after the other.

    Examples:
        >>> whole = requests([0.0, 1.0, 2.0], 5, 5)
        >>> len(joined([part(whole, 0, 1), part(whole, 1, 3)]))
        3
    """
    every = list(parts)
    if not every:
        return requests(np.empty(0), 1, 1)
    ends = np.cumsum([0, *(len(made.hashes) for made in every)])
    prefix = _no_hashes(sum(map(len, every)))
    if ends[-1]:
        starts = [made.prefix[:-1] + end for made, end in zip(every, ends[:-1], strict=True)]
        prefix = np.concatenate([*starts, ends[-1:]]).astype(np.int64)
    columns = {
        name: _end_to_end([getattr(made, name) for made in every]) for name in (*COLUMNS, "hashes")
    }
    return Requests(**columns, prefix=prefix, block=max(made.block for made in every))


def _end_to_end(columns: Sequence[Array | Integers]) -> Any:
    """Columns, one after the other; where all store the same value once, so does the whole."""
    some = [each for each in columns if len(each)]
    if some and all(each.strides == (0,) and each[0] == some[0][0] for each in some):
        return np.broadcast_to(some[0][:1], sum(map(len, some)))
    return np.concatenate(columns)


def picked_rows(made: Requests, rows: Integers) -> Requests:
    """Some of the requests, with whole sessions: what they follow is counted among them.

    Rows are the places of those that are kept, ascending. [1]

    Examples:
        >>> three = requests([0, 1, 2], 5, 5, after=[-1, -1, 1])
        >>> picked_rows(three, np.array([1, 2])).after.tolist()
        [-1, 0]
    """
    columns = {name: _rows_of(getattr(made, name), rows) for name in COLUMNS}
    if made.after.strides != (0,):
        place = np.full(len(made) + 1, -1, np.int64)
        place[rows] = np.arange(len(rows))
        columns["after"], columns["joins"] = place[columns["after"]], place[columns["joins"]]
        # A request that follows none any more is joined by none.
        columns["joins"][columns["after"][columns["joins"]] < 0] = -1
    if not len(made.hashes):
        return replace(made, **columns, prefix=_no_hashes(len(rows)))
    sizes = np.diff(made.prefix)[rows]
    ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    inside = np.arange(ends[-1]) - np.repeat(ends[:-1], sizes)
    hashes = made.hashes[np.repeat(made.prefix[:-1][rows], sizes) + inside]
    return replace(made, **columns, prefix=ends, hashes=hashes)


def _rows_of(column: Array | Integers, rows: Integers) -> Any:
    """Rows of a column; one that stores a single value once still does."""
    return np.broadcast_to(column[:1], rows.shape) if column.strides == (0,) else column[rows]


def clipped(made: Requests, limit: int) -> Requests:
    """Requests of up to so many tokens: the end of a prompt is cut first, then the answer. [token]

    Examples:
        >>> short = clipped(requests([0, 0, 0], [5, 9, 2], [5, 4, 20]), 10)
        >>> short.prompt.tolist(), short.output.tolist()
        ([5, 6, 1], [5, 4, 9])
    """
    output = np.minimum(made.output, limit - 1)
    prompt = np.minimum(made.prompt, limit - output)
    if not made.block:
        return replace(made, prompt=prompt, output=output)
    had = np.diff(made.prefix)
    sizes = np.minimum(had, prompt // made.block)
    place = np.arange(len(made.hashes)) - np.repeat(made.prefix[:-1], had)
    return replace(
        made,
        prompt=prompt,
        output=output,
        prefix=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        hashes=made.hashes[place < np.repeat(sizes, had)],
    )


def numbered(hashes: Integers) -> Integers:
    """Ids from 0 on, equal where those given are: any 64 bits may come in a trace."""
    _, numbers = np.unique(hashes, return_inverse=True)
    return np.asarray(numbers, np.int64).reshape(-1)


def in_blocks(made: Requests, block: int) -> Requests:
    """The same requests with ids of smaller blocks, of which each old one has as many.

    InputError where tokens of a new block are no divisor of those of an old one. [token]

    Examples:
        >>> fine = in_blocks(requests([0.0], 9, 1, blocks=[(3, 5)], block=4), 2)
        >>> fine.hashes.tolist(), fine.block
        ([0, 1, 2, 3], 2)
    """
    if not made.block or made.block == block:
        return made
    if block < 1 or made.block % block:
        raise InputError(
            f"blocks of {made.block} tokens cannot be divided into pages of {block}",
            hint="give an engine whose pages fit into them",
        )
    each = made.block // block
    fine = (numbered(made.hashes)[:, None] * each + np.arange(each)).ravel()
    return replace(made, prefix=made.prefix * each, hashes=fine, block=block)


def mean_rate(made: Requests) -> float:
    """Requests a second between the first and the last arrival; 0 where all arrive at once. [1/s]

    Examples:
        >>> mean_rate(requests([0.0, 1.0, 2.0], 5, 5))
        1.0
    """
    span = float(made.arrival[-1] - made.arrival[0]) if len(made) else 0.0
    return (len(made) - 1) / span if span else 0.0


def check_rate(made: Requests) -> None:
    """Refuse requests that have no rate: one alone, or all at once."""
    if not mean_rate(made):
        raise InputError(
            f"{_without_rate(made)} no rate",
            hint="a rate wants two requests, one after the other: give a longer trace, or `rate` "
            "with `prompt` and `output` in its place",
        )


def _without_rate(made: Requests) -> str:
    return (
        "a trace of one request has" if len(made) == 1 else "requests that all arrive at once have"
    )


def at_rate(made: Requests, rate: float) -> Requests:
    """The same requests with all gaps longer or shorter by one factor, at a mean rate. [1/s]

    InputError where the rate is not above 0, or the trace has none that could be changed.

    Examples:
        >>> at_rate(requests([0.0, 1.0, 2.0], 5, 5), 2.0).arrival.tolist()
        [0.0, 0.5, 1.0]
    """
    if not 0 < rate < np.inf:
        raise InputError(f"requests cannot come at {rate:g} a second", hint="give a rate above 0")
    if not (had := mean_rate(made)):
        raise InputError(
            f"{_without_rate(made)} no rate that could be changed",
            hint="give a trace of requests that arrive one after the other, or none with `rate`",
        )
    first = made.arrival[0]
    return replace(made, arrival=first + (made.arrival - first) * (had / rate))
