"""A server in the long run, in closed form: what a sweep asks before anything is simulated.

Of a server that batches continuously. Each request is p tokens of prefill and m decode steps; the
closed form says what steps take, how often they carry prompts, how many sequences they hold, and
how long requests wait for them. Prompts of mean length stand for those of a step.
`roofline.serving.simulate.steady.errors` says how far it was off.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from roofline.cost.work import Array, Number
from roofline.errors import InfeasibleError, InputError
from roofline.serving.simulate.steady.clients import closed_loop
from roofline.serving.simulate.steady.crowd import open_loop
from roofline.serving.simulate.steady.means import Means
from roofline.serving.simulate.steady.percentiles import mixed
from roofline.serving.simulate.steady.saturation import Most, most
from roofline.serving.simulate.steady.share import Share


@dataclass(frozen=True, slots=True)
class Steady:
    """Loads in the long run, each field a number for each of them.

    Attributes
    ----------
    stable
        Whether what comes is served; where not, what is served is the saturation rate, and times
        are infinite.
    requests_per_s, saturation_per_s
        Served, and the most that can be. [1/s]
    output_tok_s
        Output tokens. [token/s]
    utilisation
        Share of the time in which it works. [1]
    sequences, present
        That decode, and requests that are there. [1]
    queue_s, ttft_s, tpot_s, latency_s
        Front end and wait before the first step; to the first token; between tokens; to the last
        one: means. [s]
    """

    stable: NDArray[np.bool_]
    requests_per_s: Array
    saturation_per_s: Array
    output_tok_s: Array
    utilisation: Array
    sequences: Array
    present: Array
    queue_s: Array
    ttft_s: Array
    tpot_s: Array
    latency_s: Array
    _share: Share = field(repr=False)
    _means: Means = field(repr=False)

    def ttft_percentile(self, percent: float) -> Array:
        """TTFT that so many percent of the requests have at most. [s]

        Parameters
        ----------
        percent
            Which. [1]

        Notes
        -----
        Prompts as long as they are, and a gamma distribution of what they wait for.
        """
        means = self._means
        found = mixed(self._share.request_s + means.own, means.waits, means.varying, percent)
        return np.where(self.stable, found, np.inf)

    def tpot_percentile(self, percent: float, late: Array | None = None) -> Array:
        """Mean time between tokens that so many percent of the requests have at most. [s]

        Parameters
        ----------
        percent
            Which. [1]
        late
            What answers wait for before their first step, each value as often as the others, of
            shape (values, loads); None where that is no time between tokens. [s]

        Notes
        -----
        A gamma distribution beyond steps without prompts for each length of an answer: long ones
        see the mean of many steps.
        """
        means, have = self._means, self._share.answers[self._share.answers > 0]
        if not len(have):
            return self.tpot_s
        varying = means.between + means.within / have[:, None]
        gap = means.decode / self._share.steps
        least = np.minimum(means.plain, gap)
        shift = np.broadcast_to(least, varying.shape)
        if late is not None:
            shift = (least + late[:, None, :] / have[:, None]).reshape(-1, len(least))
            varying = np.tile(varying, (len(late), 1))
        found = mixed(shift, gap - least, varying, percent)
        return np.where(self.stable, found, np.inf)


def closed(share: Share, clients: Number) -> Steady:
    """Clients that send the next request when one is finished.

    Parameters
    ----------
    share
        Work of their requests: `share_of`.
    clients
        One number of them, or several. [1]

    Raises
    ------
    InputError
        No clients.
    """
    number = np.atleast_1d(np.asarray(clients, dtype=float))
    if not (number >= 1).all():
        raise InputError(f"{number.min():g} clients", hint="give 1 or more")
    limit = most(share)
    return _steady(
        share, limit, closed_loop(share, limit, number), np.ones(len(number), dtype=np.bool_)
    )


def arriving(share: Share, rate: Number, limit: Most | None = None) -> Steady:
    """Requests that come by themselves at a rate, their gaps exponential.

    Parameters
    ----------
    share
        Work of the requests: `share_of`; when they come is not looked at.
    rate
        One rate, or several. [1/s]
    limit
        The most that is served, where it is known already.

    Raises
    ------
    InfeasibleError
        There is one rate, and more come than can be served: there is no long run. Of several,
        those are not `stable`.
    InputError
        A rate is not above 0.

    Notes
    -----
    The wait for the front end, which takes as long for every request, is that of M/D/1:
    λs²/(2(1 − λs)). Source: Pollaczek and Khinchine; Asmussen 2003, chapter VIII.
    """
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
    share: Share, limit: Most, means: Means, stable: NDArray[np.bool_], front: Number = 0.0
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
