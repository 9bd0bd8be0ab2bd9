"""Cache in use over time: its mean and its most by bin; bins double where a run outgrows them."""

from roofline.serving.simulate.compiled.compiler import compiled
from roofline.serving.simulate.compiled.state import State


@compiled
def record(s: State, start: float, end: float, before: int, after: int) -> None:
    """Add a span of time [s] in which the tokens in use grow evenly from one number to another.

    In a run of decode steps they grow by pages, so many sequences at a time; the line through them
    is taken.
    """
    n, course = s.counts[0], s.course
    bins = len(course)
    while end * n.bins_per_s >= bins:
        for k in range(bins // 2):
            course[k, 0] = course[2 * k, 0] + course[2 * k + 1, 0]
            course[k, 1] = max(course[2 * k, 1], course[2 * k + 1, 1])
        course[bins // 2 :, :] = 0.0
        n.bins_per_s /= 2.0
    here, there = int(start * n.bins_per_s), int(end * n.bins_per_s)
    if here == there:
        course[here, 0] += (end - start) * (before + after) / 2.0
        course[here, 1] = max(course[here, 1], before, after)
        return
    slope = (after - before) / (end - start)
    for k in range(here, there + 1):
        low, high = max(start, k / n.bins_per_s), min(end, (k + 1) / n.bins_per_s)
        first, last = before + slope * (low - start), before + slope * (high - start)
        course[k, 0] += (high - low) * (first + last) / 2.0
        course[k, 1] = max(course[k, 1], first, last)
