"""A server in the long run, in closed form: what a sweep asks before anything is simulated.

Of a server that batches continuously. With D(b) the time of a decode step of b sequences at their
mean context, m decode steps of an answer, c steps that its prompt is spread over, and P(b) what a
prompt adds to the steps of b sequences, all of them means, the server spends m·D(b)/b + P(b) on
each request while b decode.

Requests that come by themselves (Poisson) share it: it is a queue with processor sharing whose
speed depends on how many there are, and of which only the mean of the work counts.

Source: Kelly 1979, Reversibility and Stochastic Networks, chapter 3 (processor sharing that depends
on the state does not see the distribution of the work); Little 1961.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from roofline.cost.work import Array
from roofline.errors import InfeasibleError, InputError
from roofline.serving.requests import Requests
from roofline.serving.simulate.prices import StepPrices
from roofline.serving.simulate.server import Server
from roofline.serving.simulate.share import Share, share_of

ROUNDS: Final = 60
"""Halvings of how far the number of requests that a server has is from where it settles."""


@dataclass(frozen=True, slots=True)
class Steady:
    """Means in the long run.

    Attributes
    ----------
    requests_per_s
        Served. [1/s]
    saturation_per_s
        Most that the server can serve. [1/s]
    output_tok_s
        Output tokens. [token/s]
    utilisation
        Share of the time in which it works. [1]
    sequences
        That decode, on average. [1]
    queue_s, ttft_s, tpot_s, latency_s
        Front end and wait before the first step; to the first token; between tokens; to the last
        one. [s]
    """

    requests_per_s: float
    saturation_per_s: float
    output_tok_s: float
    utilisation: float
    sequences: float
    queue_s: float
    ttft_s: float
    tpot_s: float
    latency_s: float


def closed(given: Requests, prices: StepPrices, server: Server, concurrency: int) -> Steady:
    """Clients that send the next request when one is finished.

    Parameters
    ----------
    given
        Lengths of their requests.
    prices, server
        Who serves them.
    concurrency
        Clients. [1]

    Raises
    ------
    InputError
        No clients, or a policy that has no closed form.

    Notes
    -----
    b requests are served at once, at most as many as the server runs; the others wait. A turn of
    all b takes (m + c)·D(b·m/(m + c)) + b·P: in each of its steps those decode that do not prefill.
    Within 3 % of the simulator in latency and 15 % in TTFT where nothing is preempted.
    Source: as above, and Little's law for the wait.
    """
    if concurrency < 1:
        raise InputError(f"{concurrency} clients", hint="give 1 or more")
    share, late = share_of(given, prices, server), prices.engine.request_s
    running = float(min(concurrency, share.most))
    turn, first = _turn(share, running)
    for _ in range(ROUNDS if late else 0):
        # Some are with the front end, or wait for the end of a step that others are in.
        rest = turn / (2.0 * (share.steps + 1.0)) * (1.0 - 1.0 / max(running, 1.0))
        late = prices.engine.request_s + rest
        there = min(concurrency - late * running / turn, float(share.most))
        running = (running + max(there, 2.0**-20)) / 2.0
        turn, first = _turn(share, running)
    rate = running / turn
    queued = (concurrency - running) / rate - late
    return Steady(
        requests_per_s=rate,
        saturation_per_s=share.saturation,
        output_tok_s=rate * share.output,
        utilisation=min(running, 1.0),
        sequences=rate * (turn - first),
        queue_s=late + queued,
        ttft_s=late + queued + first,
        tpot_s=(turn - first) / share.steps if share.steps else 0.0,
        latency_s=late + queued + turn,
    )


def _turn(share: Share, running: float) -> tuple[float, float]:
    """Time that so many requests take together, one of each, and that to a first token. [s]"""
    running = max(running, 1.0)
    turns = share.steps + share.chunks
    decoding = running * share.steps / turns if turns else 0.0
    step, prompt = share.decode(decoding), share.prompt(decoding)
    together = 1.0 + (running - 1.0) / turns if turns else running
    return turns * step + running * prompt, share.chunks * step + together * prompt


def arriving(given: Requests, prices: StepPrices, server: Server, rate: float) -> Steady:
    """Requests that come by themselves at a rate, their gaps exponential.

    Parameters
    ----------
    given
        Their lengths; when they come is not looked at.
    prices, server
        Who serves them.
    rate
        Requests that come. [1/s]

    Raises
    ------
    InfeasibleError
        More come than can be served: there is no long run.
    InputError
        The rate is not above 0, or the policy has no closed form.

    Notes
    -----
    π(k) ∝ Π_{j ≤ k} λ·m·D(j) / (j·(1 − λ·P(j))), which goes on as a geometric row beyond the most
    sequences that run. Those that come in one step are prefilled together in the next; twice the
    rest of a step is how long the one is that a request comes in. Left out: preemption, and token
    budgets that several prompts fill. Up to 70 % of saturation within 3 % of the simulator in
    latency and 15 % in TTFT; closer to it waits grow faster than this says. Source: as above.
    """
    if not 0 < rate < np.inf:
        raise InputError(f"{rate:g} requests per second", hint="give a rate above 0")
    share = share_of(given, prices, server)
    if rate >= share.saturation:
        raise InfeasibleError(
            f"{rate:.4g} requests per second come and at most {share.saturation:.4g} are served: "
            "the queue grows without end",
            hint=f"send less than {share.saturation:.4g} per second to it, or add replicas",
        )
    states, waiting = _distribution(share, rate)
    counts = np.arange(len(states), dtype=float)
    sequences = float(states @ counts)
    rest = _rest(share, rate)
    together = 1.0 + 2.0 * rate * rest
    queued = prices.engine.request_s + waiting / rate + float(states @ rest)
    first = queued + float(states @ (share.chunks * share.decode_s + together * share.prompt_s))
    decoding = sequences / rate
    return Steady(
        requests_per_s=rate,
        saturation_per_s=share.saturation,
        output_tok_s=rate * share.output,
        utilisation=1.0 - float(states[0]) * (1.0 - rate * float(share.prompt_s[0])),
        sequences=sequences,
        queue_s=queued,
        ttft_s=first,
        tpot_s=decoding / share.steps if share.steps else 0.0,
        latency_s=first + decoding,
    )


def _rest(share: Share, rate: float) -> Array:
    """What is left of the step that a request finds, by how many decode. [s]

    Of a step S = D + N·P, N Poisson with the mean λ·E[S]; where prefill has steps of its own, of D
    or of those who came during D. Source: mean residual E[S²] / 2·E[S].
    """
    step, prompt = share.decode_s, share.prompt_s
    if not share.chunks:
        busy = np.minimum(rate * prompt, 1.0)
        batch = prompt * (share.prompt_square + rate * step)
        return (1.0 - busy) * step / 2.0 + busy * batch / 2.0
    mean = step / np.maximum(1.0 - rate * prompt, 2.0**-40)
    square = prompt**2 * (share.prompt_square * rate * mean + (rate * mean) ** 2)
    square = step**2 + 2.0 * step * rate * mean * prompt + square
    nobody = rate * share.prompt_square * prompt**2 / 2.0
    return np.where(mean > 0, square / (2.0 * np.maximum(mean, 2.0**-900)), nobody)


def _distribution(share: Share, rate: float) -> tuple[Array, float]:
    """Probabilities of so many sequences that decode, and how many requests wait besides. [1]"""
    batch = np.arange(1.0, share.most + 1.0)
    free = np.maximum(1.0 - rate * share.prompt_s[1:], 2.0**-40)
    ratio = rate * share.steps * share.decode_s[1:] / (batch * free)
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.maximum(ratio, 2.0**-900)))])
    weights = np.exp(logs - logs.max())
    last = min(float(ratio[-1]), 1.0 - 2.0**-40)
    # Beyond the last batch the weights are a geometric row, in all of which that batch runs.
    beyond = weights[-1] * last / (1.0 - last)
    waiting = weights[-1] * last / (1.0 - last) ** 2
    weights[-1] += beyond
    total = float(weights.sum())
    return weights / total, float(waiting / total)
