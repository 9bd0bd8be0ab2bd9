"""Contiguous memory: regions side by side, each new one in the first hole that holds it."""

from roofline.serving.simulate.compiled.compiler import compiled
from roofline.serving.simulate.compiled.state import ORDER, State


@compiled
def first_fit(s: State, count: int, wanted: int, end: int) -> int:
    """Place among the regions, in order of their start, before which there is room.

    −1 where no hole is large enough.
    """
    free = 0
    for place in range(count):
        row = s.rows[s.lists[ORDER, place]]
        if row.start - free >= wanted:
            return place
        free = row.start + row.size
    return count if end - free >= wanted else -1


@compiled
def put(s: State, count: int, i: int, place: int) -> None:
    """Lay the region of a row there; its size is known."""
    for at in range(count, place, -1):
        s.lists[ORDER, at] = s.lists[ORDER, at - 1]
    s.lists[ORDER, place] = i
    s.rows[i].start = 0
    if place:
        left = s.rows[s.lists[ORDER, place - 1]]
        s.rows[i].start = left.start + left.size


@compiled
def drop(s: State, count: int, i: int) -> None:
    """Give back the region of a row."""
    place = 0
    while s.lists[ORDER, place] != i:
        place += 1
    for at in range(place, count - 1):
        s.lists[ORDER, at] = s.lists[ORDER, at + 1]
