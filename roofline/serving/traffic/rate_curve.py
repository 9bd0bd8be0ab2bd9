"""Rates of requests that change over a day or a week, as an inhomogeneous Poisson process."""

import math
import re
from itertools import pairwise
from typing import Final

import numpy as np
from msgspec import Struct

from roofline.cost.work import Array
from roofline.errors import InputError
from roofline.records import replace
from roofline.units import SECONDS_PER_HOUR, duration

DAY: Final = 24.0 * SECONDS_PER_HOUR
WEEK: Final = 7.0 * DAY
"""Periods after which a curve begins again. [s]"""
HOURS: Final = (24, 168)
"""Hourly rates that make a day, and a week. [1]"""
HINT: Final = (
    "write when each rate begins, '0h 5, 9h 40, 18h 20'; 24 rates of a day or 168 of a week; "
    "or name a trace, or a workload with such arrivals"
)
_SPELLED: Final = re.compile(r"\s*-?\d[\d.:]*\s*(?:s|min|h|d)?(?:[\s,;]|$)")


class RateCurve(Struct, frozen=True):
    """Rates of requests by the time of a day or a week, again and again.

    Examples:
        >>> day = RateCurve((0.0, 0.75 * DAY), (1.0, 5.0))
        >>> day.rate, day.peak
        (2.0, 5.0)
    """

    starts_s: tuple[float, ...]
    """Time from which each rate holds until the next; the first is 0. [s]"""
    rates: tuple[float, ...]
    """Requests a second. [1/s]"""
    period_s: float = DAY
    """Time after which it begins again. [s]"""

    def __post_init__(self) -> None:
        """Refuse what is no curve."""
        if not self.starts_s or len(self.starts_s) != len(self.rates) or self.starts_s[0] != 0:
            raise InputError("a rate curve without a rate at its start", hint=HINT)
        if any(not (math.isfinite(rate) and rate >= 0) for rate in self.rates):
            raise InputError("a rate curve with rates below 0", hint="give requests a second")
        if not any(self.rates):
            raise InputError("a rate curve on which nobody asks", hint="give a rate above 0")
        for first, second in pairwise((*self.starts_s, self.period_s)):
            if not first < second:
                raise InputError(
                    f"a rate curve goes back, from {first / SECONDS_PER_HOUR:g} h to "
                    f"{second / SECONDS_PER_HOUR:g} h",
                    hint="give times in order, each once, within a day or a week",
                )

    @property
    def lasting_s(self) -> Array:
        """Time for which each rate holds. [s]"""
        return np.diff([*self.starts_s, self.period_s])

    @property
    def rate(self) -> float:
        """Mean requests a second. [1/s]"""
        return float(self.lasting_s @ np.array(self.rates)) / self.period_s

    @property
    def peak(self) -> float:
        """Largest rate. [1/s]"""
        return max(self.rates)

    @property
    def period(self) -> str:
        """``"day"`` or ``"week"``."""
        return "day" if self.period_s == DAY else "week"

    def paced(self, rate: float) -> "RateCurve":
        """The curve at another mean rate. [1/s]"""
        return replace(self, rates=tuple(each * (rate / self.rate) for each in self.rates))

    def at(self, time: Array) -> Array:
        """Rates at times, before the first period and after it, too. [1/s]"""
        place = np.searchsorted(self.starts_s, time % self.period_s, side="right") - 1
        return np.array(self.rates)[place]

    def times(self, even: Array) -> Array:
        """Times at which requests come that would come at ``even`` times at the mean rate. [s]

        t = Λ⁻¹(rate · even), Λ the requests that are expected until t. Source: Klein and Roberts
        1984, A time-varying Poisson arrival process generator, Simulation 43.

        Args:
            even: Times, of a Poisson process at the mean rate for one of this curve. [s]
        """
        expected = np.concatenate([[0.0], np.cumsum(self.lasting_s * self.rates)])
        round_, rest = np.divmod(even * self.rate, expected[-1])
        # Of a stretch without requests the end is taken, which has the next rate.
        place = np.searchsorted(expected[1:], rest, side="right").clip(max=len(self.rates) - 1)
        rate = np.array(self.rates)[place]
        inside = np.divide(rest - expected[place], rate, where=rate > 0, out=np.zeros_like(rest))
        found: Array = round_ * self.period_s + np.array(self.starts_s)[place] + inside
        return found


def is_spelled(text: str) -> bool:
    """True for a curve written out, rather than the name of a file or a workload.

    Examples:
        >>> is_spelled("0h 5, 9h 40"), is_spelled("day.csv"), is_spelled("2025.csv")
        (True, False, False)
    """
    return bool(_SPELLED.match(text))


def spelled_curve(text: str) -> RateCurve:
    """Curve from text: rates with the time from which each holds, or hourly rates.

    Before the first time the last rate holds, as the curve repeats. Times beyond 24 h make a week.

    Raises:
        InputError: It is neither.

    Examples:
        >>> spelled_curve("6h 5, 18:30 20").rates
        (20.0, 5.0, 20.0)
        >>> spelled_curve("0h 1, 100h 2").period
        'week'
    """
    parts = [part.split() for part in re.split(r"[,;\n]", text) if part.strip()]
    if parts and all(len(part) == 1 for part in parts):
        rates = tuple(_rate(part[0]) for part in parts)
        if len(rates) not in HOURS:
            raise InputError(f"a rate curve of {len(rates)} hourly rates", hint=HINT)
        return hourly(rates)
    wrong = next((part for part in parts if len(part) != 2), None)
    if wrong or not parts:
        raise InputError(f"a rate curve with {' '.join(wrong or [])!r:.40}", hint=HINT)
    starts = tuple(duration(start) for start, _ in parts)
    rates = tuple(_rate(rate) for _, rate in parts)
    if max(starts) == DAY:
        raise InputError(
            "a rate curve with a rate from 24 h on",
            hint="a day ends there: leave it out; times beyond it make a week",
        )
    if starts[0] > 0:
        starts, rates = (0.0, *starts), (rates[-1], *rates)
    return RateCurve(starts, rates, DAY if max(starts) < DAY else WEEK)


def hourly(rates: tuple[float, ...]) -> RateCurve:
    """Curve of 24 rates of a day or 168 of a week. [1/s]"""
    starts = tuple(hour * SECONDS_PER_HOUR for hour in range(len(rates)))
    return RateCurve(starts, rates, len(rates) * SECONDS_PER_HOUR)


def recorded_curve(times: Array, source: str) -> RateCurve:
    """Hourly curve of a recording: of a week where it lasts one, else of its mean day.

    Each rate is the requests of that hour over the time for which the hour was recorded; what comes
    after the last hour of which half was recorded is left out.

    Args:
        times: Arrivals since the start of the recording, ascending. [s]
        source: Name of the recording.

    Raises:
        InputError: It is shorter than a day.
    """
    last = float(times[-1]) if len(times) else 0.0
    hours = round(last / SECONDS_PER_HOUR)
    if hours < HOURS[0]:
        raise InputError(
            f"{source} lasts {last / SECONDS_PER_HOUR:.3g} h, and a rate curve is of a day",
            hint="give a recording of a day or more, or the rates by hour",
        )
    period = HOURS[-1] if hours >= HOURS[-1] else HOURS[0]
    place = (times // SECONDS_PER_HOUR).astype(np.int64)
    counts = np.bincount(place, minlength=hours)[:hours]
    seconds = np.full(hours, SECONDS_PER_HOUR)
    seconds[-1] = min(last - (hours - 1) * SECONDS_PER_HOUR, SECONDS_PER_HOUR)
    of = np.arange(hours) % period
    rates = np.bincount(of, weights=counts) / np.bincount(of, weights=seconds)
    return hourly(tuple(rates.tolist()))


def _rate(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"a rate curve with a rate of {text!r:.40}", hint=HINT) from None
