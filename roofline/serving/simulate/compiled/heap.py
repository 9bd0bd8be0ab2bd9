"""Heaps of rows, the first one on top: the queue, what is to come, who ends next."""

from roofline.serving.requests import Integers
from roofline.serving.simulate.compiled.compiler import compiled
from roofline.serving.simulate.compiled.state import FUTURE, WAITING, Record, Records


@compiled
def before(a: Record, b: Record, which: int) -> bool:
    """Whether a row goes before another in a list."""
    if which == WAITING:
        if a.priority != b.priority:
            return bool(a.priority < b.priority)
        if a.ready != b.ready:
            return bool(a.ready < b.ready)
        return bool(a.rank < b.rank)
    if which == FUTURE:
        if a.ready != b.ready:
            return bool(a.ready < b.ready)
    elif a.ends != b.ends:
        return bool(a.ends < b.ends)
    return bool(a.number < b.number)


@compiled
def push(lists: Integers, which: int, size: int, row: int, rows: Records) -> int:
    """Add a row; the new size."""
    _rise(lists, which, size, row, rows)
    return size + 1


@compiled
def remove(lists: Integers, which: int, size: int, at: int, rows: Records) -> int:
    """Take out the row at a place, 0 for the first; the new size."""
    size -= 1
    if at != size:
        last = lists[which, size]
        _sink(lists, which, size, at, last, rows)
        _rise(lists, which, at, lists[which, at], rows)
    return size


@compiled
def _rise(lists: Integers, which: int, at: int, row: int, rows: Records) -> None:
    while at:
        up = (at - 1) >> 1
        if not before(rows[row], rows[lists[which, up]], which):
            break
        lists[which, at] = lists[which, up]
        at = up
    lists[which, at] = row


@compiled
def _sink(lists: Integers, which: int, size: int, at: int, row: int, rows: Records) -> None:
    while True:
        down = 2 * at + 1
        if down >= size:
            break
        if down + 1 < size and before(
            rows[lists[which, down + 1]], rows[lists[which, down]], which
        ):
            down += 1
        if not before(rows[lists[which, down]], rows[row], which):
            break
        lists[which, at] = lists[which, down]
        at = down
    lists[which, at] = row
