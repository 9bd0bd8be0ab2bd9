"""When requests come: at a rate, evenly or in bursts; as recorded; or as clients get answers."""

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from roofline.cost.work import Array
from roofline.errors import InputError


@dataclass(frozen=True, slots=True)
class Poisson:
    """Many users who know nothing of each other."""

    rate: float
    """Requests a second. [1/s]"""

    def __post_init__(self) -> None:
        """Refuse a rate that has no meaning."""
        _check(self.rate)


@dataclass(frozen=True, slots=True)
class Bursty:
    """Gaps between arrivals spread as a gamma distribution."""

    rate: float
    """Requests a second. [1/s]"""
    cv: float
    """Standard deviation of the gaps over their mean: 1 is Poisson, more comes in bursts. [1]"""

    def __post_init__(self) -> None:
        """Refuse a rate or a spread that has no meaning."""
        _check(self.rate)
        if not 0.05 <= self.cv <= 20:
            raise InputError(
                f"coefficient of variation is {self.cv:g}", hint="give a number from 0.05 to 20"
            )


@dataclass(frozen=True, slots=True)
class Even:
    """One request after the other at equal gaps."""

    rate: float
    """Requests a second. [1/s]"""

    def __post_init__(self) -> None:
        """Refuse a rate that has no meaning."""
        _check(self.rate)


@dataclass(frozen=True, slots=True)
class Recorded:
    """Arrivals as they were seen, again and again from the start."""

    times: tuple[float, ...]
    """Seconds since the start, ascending. [s]"""

    def __post_init__(self) -> None:
        """Refuse times that are not of a recording."""
        if len(self.times) < 2 or not all(math.isfinite(time) for time in self.times):
            raise InputError("a recording of fewer than two arrivals", hint="give two or more")
        if list(self.times) != sorted(self.times) or self.times[0] == self.times[-1]:
            raise InputError(
                "recorded arrivals are out of order, or all at once", hint="sort the times"
            )

    @property
    def rate(self) -> float:
        """Requests a second. [1/s]"""
        return (len(self.times) - 1) / (self.times[-1] - self.times[0])


@dataclass(frozen=True, slots=True)
class Closed:
    """Clients that ask again as soon as they have an answer.

    Where all start at once the first requests are a burst, and where all lengths are equal, too, it
    repeats: requests come in waves.
    """

    concurrency: int
    """Clients. [1]"""
    ramp_s: float = 0.0
    """Time over which they start, one after the other; 0 for all at once. [s]"""

    def __post_init__(self) -> None:
        """Refuse a number of clients that has no meaning."""
        if isinstance(self.concurrency, bool) or not isinstance(self.concurrency, int):
            raise InputError(f"concurrency is {self.concurrency!r:.40}", hint="give a whole number")
        if not 1 <= self.concurrency <= 2**24:
            raise InputError(
                f"concurrency is {self.concurrency}", hint=f"give a number from 1 to {2**24:,}"
            )
        if not (math.isfinite(self.ramp_s) and self.ramp_s >= 0):
            raise InputError(f"clients start over {self.ramp_s:g} s", hint="give 0 s or more")


Arrivals: TypeAlias = Poisson | Bursty | Even | Recorded | Closed


def _check(rate: float) -> None:
    if not (math.isfinite(rate) and rate > 0):
        raise InputError(f"rate is {rate:g} requests a second", hint="give a rate above 0")


def gaps(arrivals: Arrivals, uniform: Array, first: int) -> Array:
    """Seconds from one arrival to the next, of which the first is after the start. [s]

    Inverse distributions: −ln(1 − u)/λ; gamma of shape 1/cv² and scale cv²/λ. Source: a renewal
    process, Cox 1962, chapter 1.

    Args:
        arrivals: Process.
        uniform: From 0 up to but not including 1, one for each gap. [1]
        first: Gaps before these. [1]

    Examples:
        >>> gaps(Even(4.0), np.zeros(2), 0).tolist()
        [0.25, 0.25]
    """
    match arrivals:
        case Poisson(rate):
            return -np.log1p(-uniform) / rate
        case Bursty(rate, cv):
            from roofline.special import gammaincinv

            inverse: Array = gammaincinv(1 / cv**2, uniform)
            return inverse * (cv**2 / rate)
        case Even(rate):
            return np.full(uniform.shape, 1 / rate)
        case Recorded(times):
            # Between the last of one round and the first of the next lies a mean gap.
            round_ = np.diff(times, prepend=times[0] - 1 / arrivals.rate)
            rows = np.arange(first, first + len(uniform))
            between: Array = round_[rows % len(round_)]
            between[rows == 0] = 0.0
            return between
        case Closed():
            return np.zeros(uniform.shape)
