"""A server in the long run, in closed form: what a sweep asks before anything is simulated.

Of a server that batches continuously. Each request is p tokens of prefill and m decode steps; the
closed form says what steps take, how often they carry prompts, how many sequences they hold, and
how long requests wait for them. Prompts of mean length stand for those of a step.
`roofline.serving.simulate.steady.errors` says how far it was off.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofline.cost.work import Array, Number
from roofline.errors import InfeasibleError, InputError
from roofline.serving.simulate.steady.pace import (
    HALVINGS,
    Means,
    SaturatedServer,
    TurnTaking,
    backlog,
    halved,
    most,
    out_s,
    turn,
)
from roofline.serving.simulate.steady.share import RequestMeans


def closed_loop(share: RequestMeans, most: SaturatedServer, clients: Array) -> Means:
    """Means of a closed loop.

    Found is x, prompts for each step, at which those that run, wait for a step with room and are
    with the front end are all clients; beyond ``most`` the others queue. Source: Little's law.

    Args:
        share, most: Work of requests, and the most that is served.
        clients: Of shape (loads,). [1]
    """
    x = halved(
        lambda x: _present(share, x, clients)[0] < clients,
        np.zeros_like(clients),
        np.full_like(clients, most.x),
    )
    there, busy, rate, now = _present(share, x, clients)
    rate = np.minimum(rate, most.requests_per_s)
    steps = now.steps
    rest = _rest(share, now)
    waits = _waits(share, now) * steps.mean_s
    queued = np.maximum(clients - there, 0.0) / rate
    fellows = _fellows(share, now, rate, rest)
    own = out_s(share, now.beside, np.zeros_like(fellows))
    beside = out_s(share, now.beside, fellows).mean(axis=0) - own.mean(axis=0)
    queue = rest + waits + queued
    # Where all are alike, all turns are.
    others = 0.0 if share.uniform else 1.0 - 1.0 / np.maximum(now.running, 1.0)
    varying = others * fellows * steps.each_s**2 * share.square / share.prompt**2
    if share.request_s:
        varying = varying + steps.rest_square - steps.rest_s**2
    varying = varying + others * (waits + queued) * steps.mean_s
    if share.decode_first:
        seen = (1.0 - steps.loaded) * now.running * steps.plain_s
        seen = seen + steps.loaded * now.beside * steps.loaded_s
        decode = seen / now.x
    else:
        first = share.request_s + queue + beside + own.mean(axis=0)
        decode = np.maximum(clients / rate - first, 0.0)
    return Means(
        rate=rate,
        utilisation=busy,
        sequences=rate * decode,
        queue=queue,
        own=own,
        waits=queue + beside,
        varying=varying,
        decode=decode,
        plain=np.zeros_like(rate),
        within=steps.variance * others,
        between=np.zeros_like(rate),
    )


def _present(
    share: RequestMeans, x: Array, clients: Array
) -> tuple[Array, Array, Array, TurnTaking]:
    """Clients there are, share of the time in which some run, requests served [1/s], and steps.

    Where less than one would run, that one is there for so much of the time; and now and then all
    are with the front end.
    """
    now = turn(share, x)
    outside = share.request_s + _leaving(share, now)
    away = now.x / now.steps.mean_s * outside / clients
    busy = x / now.x
    if (busy > 1.0 - np.minimum(away, 1.0) ** clients).any():
        busy = np.minimum(busy, _seldom_away(away, clients))
    served = now.x * busy
    rate = served / now.steps.mean_s
    late = outside + _rest(share, now)
    there = now.running * busy + served * _waits(share, now) + rate * late
    return there, busy, rate, now


def _seldom_away(away: Array, clients: Array) -> Array:
    """Share b of the time in which not all clients are with the front end.

    b + (away·b)^clients = 1. Source: all are there at once as independent clients are.

    Args:
        away: Share of a client's time there, while the server works. [1]
        clients: Each there or not by itself. [1]
    """
    busy = 1.0 / np.maximum(away, 1.0)  # above the root of a convex function
    for _ in range(HALVINGS):
        there = (away * busy) ** clients
        less = (busy + there - 1.0) / (1.0 + clients * there / busy)
        busy = busy - less
        if not (less > NEARLY).any():
            break
    return busy


def _leaving(share: RequestMeans, now: TurnTaking) -> Array:
    """Time that a mean prompt takes to leave a pipeline, beyond its step. [s]"""
    if share.stages == 1:
        return np.zeros_like(now.x)
    chunk = np.minimum(share.prompt, share.at(share.chunk, now.beside))
    return share.late(now.beside, chunk, np.maximum(now.x - 1.0, 0.0))


def _rest(share: RequestMeans, now: TurnTaking) -> Array:
    """Rest of the step that a request finds when it comes from the front end. [s]"""
    if not share.request_s:
        return np.zeros_like(now.x)
    return now.steps.rest_s * (1.0 - 1.0 / np.maximum(now.running, 1.0))


def _waits(share: RequestMeans, now: TurnTaking) -> Array:
    """Steps that a prompt waits for one that has room. [1]"""
    if share.uniform or not share.decode_first:
        return np.zeros_like(now.x)
    batch = now.x * share.steps
    room = share.at(share.full, batch) * share.prompt
    binomial = now.x * (share.square - share.prompt**2 / share.stay(batch))
    used = np.minimum(now.x * share.prompt / room, 1.0)
    return backlog(used, np.maximum(binomial, 0.0), room)


def _fellows(share: RequestMeans, now: TurnTaking, rate: Array, rest: Array) -> Array:
    """Other prompts in the step of one. [1]"""
    if share.uniform:
        together = now.running
        if share.decode_first:
            together = np.floor(np.minimum(share.at(share.full, now.running), together))
        return np.maximum(together - 1.0, 0.0)
    if share.request_s and share.decode_first:
        return 2.0 * rate * rest
    return now.x * (1.0 - 1.0 / np.maximum(now.running, 1.0))


NEARLY: Final = 1e-12
"""Change at which a root is found."""


@dataclass(frozen=True, slots=True)
class Steady:
    """Loads in the long run, each field a number for each of them."""

    stable: NDArray[np.bool_]
    """Whether what comes is served; where not, what is served is the saturation rate, and times
    are infinite."""
    requests_per_s: Array
    saturation_per_s: Array
    """Served, and the most that can be. [1/s]"""
    output_tok_s: Array
    """Output tokens. [token/s]"""
    utilisation: Array
    """Share of the time in which it works. [1]"""
    sequences: Array
    present: Array
    """Sequences that decode, and requests that are there. [1]"""
    queue_s: Array
    ttft_s: Array
    tpot_s: Array
    latency_s: Array
    """Front end and wait before the first step; to the first token; between tokens; to the last
    one: means. [s]"""
    _share: RequestMeans = field(repr=False)
    _means: Means = field(repr=False)

    def ttft_percentile(self, percent: float) -> Array:
        """TTFT that so many percent of the requests have at most. [s]

        Prompts as long as they are, and a gamma distribution of what they wait for.
        """
        means = self._means
        found = mixed(self._share.request_s + means.own, means.waits, means.varying, percent)
        return np.where(self.stable, found, np.inf)

    def tpot_percentile(self, percent: float, *, handed: bool = False) -> Array:
        """Mean time between tokens that so many percent of the requests have at most. [s]

        A gamma distribution beyond steps without prompts for each length of an answer: long ones
        see the mean of many steps.

        Args:
            percent: Which. [1]
            handed: Whether the token before the first step comes with that of the step, as from a
                decode pool.
        """
        means, have = self._means, self._share.answers[self._share.answers > 0]
        if not len(have):
            return self.tpot_s
        varying = means.between + means.within / have[:, None]
        gap = means.decode / self._share.steps
        least = np.minimum(means.plain, gap)
        shift = least - handed * gap / have[:, None]
        found = mixed(shift, gap - least, varying, percent)
        return np.where(self.stable, found, np.inf)


def closed(share: RequestMeans, clients: Number) -> Steady:
    """Long run of so many clients [1], one number or several, that ask again when answered.

    InputError where there are none.
    """
    number = np.atleast_1d(np.asarray(clients, dtype=float))
    if not (number >= 1).all():
        raise InputError(f"{number.min():g} clients", hint="give 1 or more")
    limit = most(share)
    return _steady(
        share, limit, closed_loop(share, limit, number), np.ones(len(number), dtype=np.bool_)
    )


def arriving(share: RequestMeans, rate: Number, limit: SaturatedServer | None = None) -> Steady:
    """Requests that come by themselves at a rate, their gaps exponential.

    The wait for the front end, which takes as long for every request, is that of M/D/1:
    λs²/(2(1 − λs)). Source: Pollaczek and Khinchine; Asmussen 2003, chapter VIII.

    Args:
        share: Work of the requests: `share_of`; when they come is not looked at.
        rate: One rate, or several. [1/s]
        limit: The most that is served, where it is known already.

    Raises:
        InfeasibleError: There is one rate, and more come than can be served: there is no long run.
            Of several, those are not `stable`.
        InputError: A rate is not above 0.
    """
    from roofline.serving.simulate.steady.crowd import open_loop

    rates = np.atleast_1d(np.asarray(rate, dtype=float))
    if not ((rates > 0) & np.isfinite(rates)).all():
        raise InputError("a rate of requests that is not above 0", hint="give 1 a second, or so")
    limit = limit or most(share)
    stable = rates < limit.requests_per_s
    if np.ndim(rate) == 0 and not stable.all():
        raise InfeasibleError(
            f"{rates[0]:.4g} requests per second come and at most {limit.requests_per_s:.4g} are "
            "served: the queue grows without end",
            hint=f"send less than {limit.requests_per_s:.4g} per second to it, or add replicas",
        )
    below = np.where(stable, rates, limit.requests_per_s / 2.0)
    front = below * share.serial_s**2 / (2.0 * (1.0 - below * share.serial_s))
    return _steady(share, limit, open_loop(share, limit, below), stable, front)


def _steady(
    share: RequestMeans,
    limit: SaturatedServer,
    means: Means,
    stable: NDArray[np.bool_],
    front: Number = 0.0,
) -> Steady:
    """Means as they are told, with the wait for the front end; where there is no long run, none."""
    first = share.request_s + front + means.waits + means.own.mean(axis=0)
    latency = first + means.decode
    served = np.where(stable, means.rate, limit.requests_per_s)
    times = {
        "queue_s": share.request_s + front + means.queue,
        "ttft_s": first,
        "tpot_s": means.decode / share.steps if share.steps else np.zeros_like(first),
        "latency_s": latency,
        "present": means.rate * latency,
    }
    return Steady(
        stable=stable,
        requests_per_s=served,
        saturation_per_s=np.full(len(served), limit.requests_per_s),
        output_tok_s=served * share.output,
        utilisation=np.where(stable, means.utilisation, 1.0),
        sequences=np.where(stable, means.sequences, limit.x * share.steps),
        **{name: np.where(stable, value, np.inf) for name, value in times.items()},
        _share=share,
        _means=means,
    )


ROUNDS: Final = 64
NEAR: Final = 2.0**-30
"""Probability, and share of a percentile, that are left where it is found. [1]"""
FAR: Final = 40.0
"""Standard deviations within which every percentile is looked for."""


def mixed(shift: Array, mean: Array, variance: Array, percent: float) -> Array:
    """Percentile over requests, each with a gamma distribution beyond what is certain.

    Where the mean of gamma distributions is that percentage: by Newton's steps, and by halving
    where these do not halve what is missing. Source: definition.

    Args:
        shift, mean, variance: What is certain, mean beyond it, and its variance, of shape
            (requests, loads).
        percent: Which. [1]
    """
    from roofline.special import gammainc, gammaln, ndtri

    shift, mean, variance = np.broadcast_arrays(shift, mean, variance)
    tiny = 2.0**-20 * (shift + mean) + 2.0**-60
    mean = np.maximum(mean, tiny)
    variance = np.maximum(variance, tiny**2)
    shape, scale = mean**2 / variance, variance / mean
    constant = gammaln(shape) + np.log(scale)
    low = shift.min(axis=0)
    high = (shift + mean + FAR * np.sqrt(variance)).max(axis=0)
    # As if all were one normal distribution.
    spread = np.sqrt((shift + mean).var(axis=0) + variance.mean(axis=0))
    found: Array = np.clip((shift + mean).mean(axis=0) + ndtri(percent / 100.0) * spread, low, high)
    before, out, places = np.ones_like(found), found, np.arange(len(found))
    for _ in range(ROUNDS):
        beyond = np.maximum(found - shift, 0.0) / scale
        missing = percent / 100.0 - gammainc(shape, beyond).mean(axis=0)
        low, high = np.where(missing > 0, found, low), np.where(missing > 0, high, found)
        logs = (shape - 1.0) * np.log(np.maximum(beyond, 2.0**-200)) - beyond - constant
        density = np.exp(np.minimum(logs, 300.0)).mean(axis=0, where=beyond > 0.0)
        step = found + missing / np.maximum(density, 2.0**-500)
        fast = (np.abs(missing) <= before / 2.0) & (step > low) & (step < high)
        # A quarter: percentiles of times that are nearly certain keep their order to `NEAR`.
        open_ = (np.abs(missing) > NEAR) & (high - low > NEAR * high / 4.0)
        if not open_.any():
            break
        found = np.where(open_, np.where(fast, step, (low + high) / 2.0), found)
        before = np.abs(missing)
        out[places] = found
        # Two at least: the sum of a single column is taken in another order.
        if max(open_.sum(), 2) < len(places):
            left = np.sort(np.argsort(~open_, kind="stable")[: max(open_.sum(), 2)])
            places = places[left]
            found, before, low, high = (each[left] for each in (found, before, low, high))
            shift, shape, scale, constant = (
                np.take(each, left, axis=1) for each in (shift, shape, scale, constant)
            )
    return out
