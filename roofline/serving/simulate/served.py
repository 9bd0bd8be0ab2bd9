"""Requests as a simulated server served them, and totals of what it did."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from roofline.cost.work import Array
from roofline.serving.objectives import FinishedRequests
from roofline.serving.requests import Integers


class Totals(Struct, frozen=True):
    """Work of a server from its first request to its last."""

    steps: int
    """Forward steps; a step of a pipeline is a round of its micro-batches. [1]"""
    busy_s: float
    """Time of all of them, and of moving caches to the host and back. [s]"""
    makespan_s: float
    """First arrival to last finish. [s]"""
    preemptions: int
    """Times that a sequence lost its place for want of pages. [1]"""
    prefilled_tokens: int
    decoded_tokens: int
    """New tokens that were computed, those of padding and recomputation included. [token]"""
    recomputed_tokens: int
    swapped_tokens: int
    """Cache that was dropped, and that went to the host. [token]"""
    loaded_tokens: int
    """Tokens of prompts that came back from the host in place of recomputation, from its drives
    as well. [token]"""
    copied_pages: int
    """Shared pages of which a sequence took a copy to write to. [1]"""
    kv_peak_tokens: int
    """Most cache in use, as it is given out. [token]"""
    kv_held_tokens: float
    kv_stored_tokens: float
    """Cache in use, and tokens in it, each shared one once: mean over the ends of steps. [token]"""
    kv_reserved_tokens: float
    kv_internal_tokens: float
    """Parts of the cache in use that are for tokens still to come, and that no token will fill.
    [token]"""
    kv_external_tokens: float
    """Free cache, but in no piece that holds the request which waits for it. [token]"""
    read_tokens: int = 0
    """Part of them that came from its drives. [token]"""
    adapter_loads: int = 0
    """LoRA adapters that were loaded from the host. [1]"""


class Course(Struct, frozen=True):
    """Cache in use over time, as it is given out, in bins of equal width from time 0 on."""

    bin_s: float
    """Width of a bin. [s]"""
    mean: Array
    most: Array
    """Mean and most of each bin. [token]"""

    def coarser(self, bin_s: float) -> "Course":
        """The same in bins that are wider by a power of two. [s]"""
        course = self
        while course.bin_s < bin_s:
            mean, most = (_pairs(each) for each in (course.mean, course.most))
            course = Course(2.0 * course.bin_s, mean.mean(axis=1), most.max(axis=1))
        return course


def _pairs(bins: Array) -> Array:
    """Bins two by two, the last with an empty one where they are odd."""
    return np.append(bins, np.zeros(len(bins) % 2)).reshape(-1, 2)


class ServedRequests(FinishedRequests, frozen=True):
    """Columns of requests, and totals of the run until the last of them.

    Arrivals are as given, or when a client released the request.
    """

    number: Integers
    """Place in the stream of requests. [1]"""
    cached: Integers
    """Tokens of the prompt that the cache had when it was admitted first. [token]"""
    preemptions: Integers
    """Times that it lost its place. [1]"""
    totals: Totals
    """Totals of the server; of a part of a stream, up to its end."""
    course: Course
    """Cache in use over time, likewise; of several replicas their mean, and the most of one."""


def joined(parts: Sequence[ServedRequests]) -> ServedRequests:
    """Parts of a stream, at least one, as one in the order of the stream."""
    columns = [
        name for name in ServedRequests.__struct_fields__ if name not in ("totals", "course")
    ]
    order = np.argsort(np.concatenate([part.number for part in parts]))
    whole = {
        name: np.concatenate([getattr(part, name) for part in parts])[order] for name in columns
    }
    return ServedRequests(**whole, totals=parts[-1].totals, course=parts[-1].course)


def averaged(courses: Sequence[Course]) -> Course:
    """Mean of the caches of several replicas, and the most that one of them has in use."""
    width = max(course.bin_s for course in courses)
    same = [course.coarser(width) for course in courses]
    bins = max(len(course.mean) for course in same)
    mean, most = (
        np.array([np.pad(each, (0, bins - len(each))) for each in column])
        for column in ([one.mean for one in same], [one.most for one in same])
    )
    return Course(width, mean.mean(axis=0), most.max(axis=0))
