"""Batches through stages, event by event: a stage takes who came first, one at a time."""

import heapq
from collections import deque
from collections.abc import Sequence
from fractions import Fraction

Seconds = int | Fraction


def completions(times: Sequence[Sequence[Seconds]], rounds: int = 1) -> list[list[Seconds]]:
    """Times at which each job has passed all stages, for each of some rounds.

    Args:
        times: Of each job on each stage. All jobs are there at the start, in order.
        rounds: How often a job starts over as soon as it has passed the last stage.
    """
    stages = len(times[0])
    waiting: list[deque[int]] = [deque() for _ in range(stages)]
    waiting[0].extend(range(len(times)))
    busy = [False] * stages
    events: list[tuple[Seconds, int, int]] = []
    out: list[list[Seconds]] = [[] for _ in range(rounds)]
    done = [0] * len(times)

    def start(stage: int, now: Seconds) -> None:
        if not busy[stage] and waiting[stage]:
            job = waiting[stage].popleft()
            busy[stage] = True
            heapq.heappush(events, (now + times[job][stage], stage, job))

    start(0, 0)
    while events:
        now, stage, job = heapq.heappop(events)
        busy[stage] = False
        if stage + 1 < stages:
            waiting[stage + 1].append(job)
        else:
            out[done[job]].append(now)
            done[job] += 1
            if done[job] < rounds:
                waiting[0].append(job)
        for each in range(stages):
            start(each, now)
    return out
