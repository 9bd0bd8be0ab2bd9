"""Workload of a service: arrivals, lengths, prefixes, and how a benchmark of it counts."""

import math
from typing import Final, Literal, TypeAlias

import numpy as np
from msgspec import Struct

from roofline.cost.work import Array
from roofline.errors import InputError
from roofline.serving.traffic.lengths import ConstantLength, Lengths, mean
from roofline.serving.traffic.rate_curve import RateCurve

Statistic = Literal["mean", "median"]
MOST_REQUESTS: Final = 10**9


class _AtRate(Struct, frozen=True):
    rate: float
    """Requests a second. [1/s]"""

    def __post_init__(self) -> None:
        """Refuse a rate that has no meaning."""
        if not (math.isfinite(self.rate) and self.rate > 0):
            raise InputError(f"rate is {self.rate:g} requests a second", hint="give a rate above 0")


class Poisson(_AtRate, frozen=True):
    """Independent arrivals of many users."""


class Even(_AtRate, frozen=True):
    """Arrivals at equal gaps."""


class Bursty(_AtRate, frozen=True):
    """Arrivals whose gaps have a gamma distribution."""

    cv: float
    """Standard deviation of the gaps over their mean: 1 is Poisson, more comes in bursts. [1]"""

    def __post_init__(self) -> None:
        """Refuse a rate or a spread that has no meaning."""
        _AtRate.__post_init__(self)
        if not 0.05 <= self.cv <= 20:
            raise InputError(
                f"coefficient of variation is {self.cv:g}", hint="give a number from 0.05 to 20"
            )


class RecordedArrivals(Struct, frozen=True):
    """Recorded arrivals, again and again from the start."""

    times: tuple[float, ...]
    """Time since the start, ascending. [s]"""

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


class Closed(Struct, frozen=True):
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


Arrivals: TypeAlias = Poisson | Bursty | Even | RecordedArrivals | Closed | RateCurve


USUAL_PROMPT: Final = ConstantLength(2048)
USUAL_OUTPUT: Final = ConstantLength(256)
USUAL_ARRIVALS: Final = Poisson(1.0)


class SharedPrefixes(Struct, frozen=True):
    """Tokens that many prompts start with: a system prompt, a document."""

    tokens: int
    """Length of each, which comes before the prompt's own. [token]"""
    number: int = 1
    """Different prefixes. [1]"""
    skew: float = 0.0
    """Exponent of the power law by which some are asked for more often; 0 for equally often. [1]"""

    def __post_init__(self) -> None:
        """Refuse figures that have no meaning."""
        if not (1 <= self.tokens <= 2**24 and 1 <= self.number <= 2**20):
            raise InputError(
                f"{self.number} shared prefixes of {self.tokens} tokens",
                hint="give one or more of at least a token",
            )
        if not 0 <= self.skew <= 10:
            raise InputError(f"skew is {self.skew:g}", hint="give a number from 0 to 10")


class SubAgents(Struct, frozen=True):
    """Tool calls that are agents: they run side by side, and the next step joins them.

    Each starts with the shared prefix and a task of its own; its last answer is a part of the
    result.
    """

    share: float
    """Share of the tool calls. [1]"""
    number: Lengths
    """Agents that run side by side. [1]"""
    steps: Lengths
    """Steps of each. [1]"""
    task: Lengths
    """Tokens of the task that each is given. [token]"""

    def __post_init__(self) -> None:
        """Refuse a share that has no meaning."""
        if not 0 <= self.share <= 1:
            raise InputError(
                f"{self.share:g} of the tool calls are agents", hint="give a share from 0 to 1"
            )


class Tools(Struct, frozen=True):
    """Steps of a turn: the network calls a tool, and goes on with its result."""

    steps: Lengths
    """Steps of a turn, each a request, of which the first reads the user's message. [1]"""
    result: Lengths
    """Tokens of a tool's result. [token]"""
    wait: Lengths
    """Time from an answer that calls a tool to the request with its result. [ms]"""
    branches: SubAgents | None = None
    """Tool calls that are agents; None where there are none."""


class Turns(Struct, frozen=True):
    """Sessions: each prompt is all that came before, and a new message of the prompt's length."""

    number: Lengths
    """Turns of a session. [1]"""
    think_s: float = 0.0
    """Mean of the exponential time from an answer to the next message. [s]"""
    longest: int = 2**31
    """A session ends before a prompt and its answer would be longer. [token]"""
    pause: Lengths | None = None
    """Time from an answer to the next message in place of the exponential one. [ms]"""
    tools: Tools | None = None
    """Steps of a turn; None where each is one request."""

    def __post_init__(self) -> None:
        """Refuse a time that has no meaning."""
        if not (math.isfinite(self.think_s) and self.think_s >= 0):
            raise InputError(f"thinking takes {self.think_s:g} s", hint="give 0 s or more")
        if self.longest < 2:
            raise InputError(f"longest context is {self.longest}", hint="give 2 tokens or more")


class Traffic(Struct, frozen=True):
    """Workload of a service, and how a benchmark of it counts."""

    prompt: Lengths = USUAL_PROMPT
    output: Lengths = USUAL_OUTPUT
    """Tokens of the prompts, or of each new message of a session, and of the answers. [token]"""
    arrivals: Arrivals = USUAL_ARRIVALS
    """Arrivals of requests; of sessions, or prompts with several answers, as many times more
    rarely."""
    requests: int = 0
    """Requests sent; 0 for ten for each client of a closed loop, as many as a rate curve has in its
    period, else a thousand. [1]"""
    shared: SharedPrefixes | None = None
    turns: Turns | None = None
    """Tokens that prompts start with; sessions."""
    pool: int = 0
    """Different prompts that are sent in turn, again and again; 0 where each is its own. [1]"""
    samples: int = 1
    """Answers to each prompt, asked for together. [1]"""
    media: int = 0
    """Tokens of the pictures and recordings in each prompt, or in the first message of a session,
    which come on top of its text. [token]"""
    priorities: tuple[float, ...] = ()
    """Share of the requests in each class, of which the first goes first; empty for one class.
    [1]"""
    warmup: int = 0
    """First requests that are left out of statistics. [1]"""
    statistic: Statistic = "mean"
    """Statistic that is reported of many requests."""
    slo: str = ""
    """SLO, as for `roofline.serving.objectives`: ``"ttft=450ms,tpot=40ms"``."""
    name: str = ""
    title: str = ""
    """Name on the command line, and the one shown."""

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        for name, value, least, most in (
            ("requests", self.requests, 0, MOST_REQUESTS),
            ("samples", self.samples, 1, 2**16),
            ("warmup", self.warmup, 0, MOST_REQUESTS),
            ("pool", self.pool, 0, MOST_REQUESTS),
        ):
            if isinstance(value, bool) or not isinstance(value, int):
                raise InputError(f"{name} is {value!r:.40}", hint="give a whole number")
            if not least <= value <= most:
                raise InputError(
                    f"{name} is {value}", hint=f"give a number from {least} to {most:,}"
                )
        if self.turns is not None and self.samples > 1:
            raise InputError(
                f"sessions with {self.samples} answers to each prompt",
                hint="leave out the turns, or ask for one answer",
            )
        if self.pool and (self.turns is not None or self.shared is not None or self.samples > 1):
            raise InputError(
                f"a pool of {self.pool} prompts beside sessions, shared prefixes or samples",
                hint="leave out one of them",
            )
        if any(not share >= 0 for share in self.priorities) or (
            self.priorities and not 0 < sum(self.priorities) < math.inf
        ):
            raise InputError("priorities are not shares", hint="give 0 or more, not all 0")
        if self.warmup >= number(self):
            raise InputError(
                f"warm-up takes {self.warmup} of {number(self)} requests",
                hint="send more requests, or leave out fewer",
            )

    @property
    def concurrency(self) -> int:
        """Clients of a closed loop; 0 where requests come by themselves. [1]"""
        return self.arrivals.concurrency if isinstance(self.arrivals, Closed) else 0

    @property
    def ramp_s(self) -> float:
        """Time over which clients of a closed loop start. [s]"""
        return self.arrivals.ramp_s if isinstance(self.arrivals, Closed) else 0.0

    @property
    def waves(self) -> bool:
        """Whether clients go in step: equal lengths from a start of all at once."""
        alike = isinstance(self.prompt, ConstantLength) and isinstance(self.output, ConstantLength)
        plain = self.turns is None and not self.ramp_s
        return self.concurrency > 1 and alike and plain


def number(traffic: Traffic) -> int:
    """Requests that are sent. [1]

    Examples:
        >>> number(Traffic(arrivals=Closed(64)))
        640
    """
    had = traffic.arrivals
    whole = max(round(had.rate * had.period_s), 1) if isinstance(had, RateCurve) else 0
    return traffic.requests or 10 * traffic.concurrency or whole or 1000


def requests_within_context(traffic: Traffic) -> float:
    """Mean requests of a session or prompt, as far as no context grows too long. [1]"""
    if traffic.turns is None:
        return float(traffic.samples)
    turns, tools = mean(traffic.turns.number), traffic.turns.tools
    if tools is None:
        return turns
    steps = mean(tools.steps)
    if (apart := tools.branches) is not None:
        steps += (steps - 1.0) * apart.share * mean(apart.number) * mean(apart.steps)
    return turns * steps


def offered_rate(traffic: Traffic) -> float:
    """Requests a second that come by themselves; 0 in a closed loop. [1/s]"""
    return 0.0 if isinstance(traffic.arrivals, Closed) else traffic.arrivals.rate


def gaps(arrivals: Arrivals, uniform: Array, first: int) -> Array:
    """Seconds from one arrival to the next, of which the first is after the start. [s]

    Inverse distributions: −ln(1 − u)/λ; gamma of shape 1/cv² and scale cv²/λ. Source: a renewal
    process, Cox 1962, chapter 1. Those of a rate curve are at its mean rate: `RateCurve.times` says
    when requests come.

    Args:
        arrivals: Process.
        uniform: From 0 up to but not including 1, one for each gap. [1]
        first: Gaps before these. [1]

    Examples:
        >>> gaps(Even(4.0), np.zeros(2), 0).tolist()
        [0.25, 0.25]
    """
    match arrivals:
        case Poisson() | RateCurve():
            return -np.log1p(-uniform) / arrivals.rate
        case Bursty(rate, cv):
            from roofline.special import gammaincinv

            inverse: Array = gammaincinv(1 / cv**2, uniform)
            return inverse * (cv**2 / rate)
        case Even(rate):
            return np.full(uniform.shape, 1 / rate)
        case RecordedArrivals(times):
            # Between the last of one round and the first of the next lies a mean gap.
            round_ = np.diff(times, prepend=times[0] - 1 / arrivals.rate)
            rows = np.arange(first, first + len(uniform))
            between: Array = round_[rows % len(round_)]
            between[rows == 0] = 0.0
            return between
        case Closed():
            return np.zeros(uniform.shape)
