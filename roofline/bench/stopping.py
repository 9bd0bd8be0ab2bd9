"""Rule of when a measurement has been repeated often enough, and how well its median is known."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from msgspec import Struct

CONFIDENCE: Final = 0.95
CONVERGED: Final = "converged"
OUT_OF_TIME: Final = "time"
OUT_OF_SAMPLES: Final = "samples"
SLOWED: Final = "slowed"


class Stop(Struct, frozen=True):
    """Rule of when to stop."""

    relative: float = 0.01
    """Half of the interval of the median, as a share of it, that is good enough. [1]"""
    least: int = 10
    most: int = 500
    """Samples. [1]"""
    budget_s: float = 0.15
    """Time for the samples of one point; `least` are taken in any case. [s]"""
    patience: int = 2
    """Samples put aside for each one wanted at least, before slowed ones are taken after all.
    [1]"""


class Median(Struct, frozen=True):
    """Middle of some samples, and the interval that holds the true median with `CONFIDENCE`."""

    value: float
    low: float
    high: float

    @property
    def half(self) -> float:
        """Half of the interval, as a share of the median. [1]"""
        return (self.high - self.low) / (2.0 * self.value)


def median(samples: Sequence[float]) -> Median:
    """Median, with an interval between two of the samples themselves.

    The number of samples below the true median is binomial with p = 1/2. With the r-th smallest
    and the r-th largest sample as ends, the interval misses it with 2·P(Bin(n, 1/2) < r); r is the
    largest rank for which that is at most 5 %. Below 6 samples there is none, and the ends are the
    extremes. Source: David and Nagaraja 2003, Order Statistics, section 7.1.

    Args:
        samples: Independent, of one distribution that need not be known; at least one.

    Examples:
        Of ten samples the second and the ninth: 2·(1 + 10)/1024 = 2.1 %.

        >>> median([float(i) for i in range(1, 11)])
        Median(value=5.5, low=2.0, high=9.0)
    """
    ordered = sorted(samples)
    count = len(ordered)
    middle = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2.0
    rank = rank_of_interval(count)
    return Median(middle, ordered[rank - 1], ordered[count - rank])


@cache
def rank_of_interval(count: int) -> int:
    """Largest rank r for which 2·P(Bin(n, 1/2) < r) ≤ 5 %, at least 1.

    >>> rank_of_interval(10), rank_of_interval(100)
    (2, 40)
    """
    # In whole numbers, since 2**count soon exceeds what a float holds: 2.5 % is 1 in 40.
    rank, below, tails = 0, 0, round(2.0 / (1.0 - CONFIDENCE))
    while tails * (below + math.comb(count, rank)) <= 2**count:
        below += math.comb(count, rank)
        rank += 1
    return max(1, rank)


def reason(samples: Sequence[float], elapsed_s: float, stop: Stop) -> str:
    """Reason to stop now: `CONVERGED`, `OUT_OF_TIME` or `OUT_OF_SAMPLES`; empty to go on.

    Args:
        samples: Samples so far.
        elapsed_s: Time since the first one. [s]
        stop: Rule of when to stop.

    Examples:
        >>> reason([1.0] * 10, 0.0, Stop())
        'converged'
        >>> reason([1.0, 2.0] * 5, 0.0, Stop())
        ''
    """
    if len(samples) < stop.least:
        return ""
    if median(samples).half <= stop.relative:
        return CONVERGED
    if elapsed_s >= stop.budget_s:
        return OUT_OF_TIME
    return OUT_OF_SAMPLES if len(samples) >= stop.most else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledTimes:
    """Times of a point, as the engine measured them or as a record tells them."""

    reuse: float
    """Bytes touched between two uses of the streamed arguments. [B]"""
    samples: tuple[float, ...]
    """Each the mean time of some runs. [s]"""
    stopped: str
    """Why there are no more: ``"converged"``, ``"time"``, ``"samples"``, or ``"slowed"`` where the
    device was held down all the time."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Samples that do not count, by the reason for which the device was held down. [1]"""
    clocks: Mapping[str, float] = field(default_factory=dict)
    """Clocks, power and temperature after the last sample, where the device tells them."""
    replayed: bool = False
    """True where runs were replayed as a graph; else the host launched each of them."""

    @property
    def median(self) -> Median:
        """Middle of the samples. [s]"""
        return median(self.samples)


class Samples(Struct, frozen=True):
    """Samples of one measurement."""

    values: tuple[float, ...]
    """Times. [s]"""
    stopped: str
    """Why there are no more: as `reason`, or `SLOWED` where the clock was held down so often
    that only its samples are left."""
    dropped: dict[str, int]
    """Samples that do not count, by the reason for which the clock was held down. [1]"""


def sample(
    once: Callable[[], float],
    slowed: Callable[[], tuple[str, ...]],
    stop: Stop,
    now: Callable[[], float] = time.perf_counter,
) -> Samples:
    """Take samples until they are enough.

    A sample is put aside for one reason alone: something else says that the device was held down,
    its driver or another piece of work. A slow sample of a free device is part of the distribution.
    Where it stays held down, as large products keep a clock at the power limit, its samples are
    what the device gives: they count then, and `Samples.stopped` says so.

    Args:
        once: Function that takes a sample. [s]
        slowed: Reasons for which the clock is held down right after it.
        stop: Rule of when the samples are enough.
        now: Clock for the budget. [s]
    """
    taken: list[float] = []
    aside: list[float] = []
    dropped: dict[str, int] = {}
    began = now()
    while True:
        value = once()
        why = ", ".join(slowed())
        if why:
            aside.append(value)
            dropped[why] = dropped.get(why, 0) + 1
        else:
            taken.append(value)
        if done := reason(taken, now() - began, stop):
            return Samples(tuple(taken), done, dropped)
        if len(aside) >= stop.patience * stop.least and (
            reason(aside, 0.0, stop) or now() - began >= stop.budget_s
        ):
            return Samples(tuple(aside), SLOWED, dropped)
