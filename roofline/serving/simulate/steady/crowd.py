"""An open loop in the long run: requests that come by themselves, and how many are there."""

from typing import Final

import numpy as np
from msgspec import Struct

from roofline.cost.work import Array, distinct
from roofline.serving.quadrature import between
from roofline.serving.simulate.steady.pace import (
    LEAST,
    Means,
    Pace,
    SaturatedServer,
    ahead,
    backlog,
    coming,
    first_s,
    last,
    out_s,
    pace,
)
from roofline.serving.simulate.steady.share import RequestMeans

LOADS: Final = 64
"""Numbers of prompts for a step at which its time is looked up."""
NEARLY: Final = 1.0 - 2.0**-6


class IdleServer(Struct, frozen=True):
    """A server of which nobody decodes, of shape (loads,)."""

    together: Array
    """Prompts in a step. [1]"""
    busy: Array
    """Share of that time in which there is a prompt. [1]"""
    step_s: Array
    each_s: Array
    """A step, and what each of its prompts takes of it. [s]"""


class Waits(Struct, frozen=True):
    """Waits by load and by sequences that decode. [s]"""

    rest: Array
    line: Array
    """Rest of a step that a prompt finds, and its wait for others."""
    square: Array
    """Mean square of both. [s²]"""
    fellows: Array
    """Prompts that are in its step. [1]"""
    used: Array
    """Share of the room for prompts that is used. [1]"""


def open_loop(share: RequestMeans, most: SaturatedServer, rate: Array) -> Means:
    """Means of an open loop.

    The number that decode is a queue with processor sharing, whose speed depends on how many there
    are: π(k) ∝ Π λ·m·S(j) / j, with S(j) the mean step of j. Prompts come and go much faster than
    sequences, so that at each j they are in the long run; but a sequence begins to decode when
    prompts have come during its own, and those are prefilled first. Beyond the most sequences
    requests wait in a geometric row, longer by half of 1 + cv² of answers. Where sequences hold
    more and less of a memory that is short, it is as if there were fewer and larger ones
    (Hayward). Sources: Kelly 1979, Reversibility and Stochastic Networks, chapter 3; Allen 1990,
    Probability, Statistics and Queueing Theory, section 5.4; Fredericks 1980, Bell System
    Technical Journal 59(6).

    Args:
        share, most: Work of requests, and the most that is served.
        rate: Requests that come, below that, of shape (loads,). [1/s]
    """
    batches = _batches(share, most)
    lam, grid = rate[:, None], np.broadcast_to(batches, (len(rate), len(batches)))
    x = _prompts(share, batches, rate)
    steps = pace(share, grid, grid, x, coming(share, grid, x))
    alone = _alone(share, rate)
    waits = _waiting(share, most, lam, grid, steps, alone)
    extra = _behind(share, lam, grid, x, steps, waits)
    step = steps.mean_s + (extra / share.steps if share.steps else 0.0)
    states, queued = _states(share, most, rate, batches, step)

    def mean(column: Array) -> Array:
        found: Array = (states * column).sum(axis=1)
        return found

    sequences = mean(grid)
    line = queued / rate
    rest, wait = mean(waits.rest), mean(waits.line)
    plain = np.maximum(steps.plain_s, LEAST)
    fellows = mean(waits.fellows)
    own = out_s(share, sequences, np.zeros_like(fellows))
    beside = out_s(share, sequences, fellows).mean(axis=0) - own.mean(axis=0)
    each = mean(steps.each_s)
    full = np.maximum(states[:, -1], LEAST)
    varying = mean(waits.square) - (rest + wait) ** 2 + line**2 * np.maximum(2.0 / full - 1.0, 1.0)
    varying = varying + fellows * each**2 * share.square / share.prompt**2

    def seen(column: Array) -> Array:
        return mean(grid * column) / np.maximum(sequences, LEAST)

    # A longer step brings more prompts to the next ones: Var / (1 − ρ)², as of a busy period.
    within = seen(steps.variance * (steps.mean_s / plain) ** 2)
    within = within + seen(extra**2) / max(share.steps, 1.0)
    return Means(
        rate=rate,
        utilisation=mean(_works(share, lam, x, steps, step, alone)),
        sequences=sequences,
        queue=line + rest + wait,
        own=own,
        waits=line + rest + wait + beside,
        varying=np.maximum(varying, 0.0),
        decode=sequences / rate,
        plain=seen(steps.plain_s),
        within=within,
        between=np.maximum(seen(step**2) - seen(step) ** 2, 0.0),
    )


def _batches(share: RequestMeans, most: SaturatedServer) -> Array:
    """Numbers that decode: all up to as many as can, or some of them."""
    if not share.steps:
        return np.zeros(1)
    beside = share.stay(np.array(most.x * share.steps)) - share.steps if share.decode_first else 0.0
    last = round(float(share.most * share.steps / (share.steps + beside)))
    return distinct(np.minimum(share.batches, max(last, 1)))


def _prompts(share: RequestMeans, batches: Array, rate: Array) -> Array:
    """Prompts for each step at rates and batches, no more than it has room for. [1]"""
    evenly = np.linspace(0.0, 1.0, LOADS)[:, None]
    if share.decode_first:
        some = evenly**2 * share.at(share.full, batches)
    else:  # few at most loads, and any number where prompts take nearly all of the time
        some = evenly**8 * (4.0 * share.most)
    some = np.maximum(some, 2.0**-30)
    grid = np.broadcast_to(batches, np.broadcast_shapes(some.shape, batches.shape))
    some = np.broadcast_to(some, grid.shape)
    steps = pace(share, grid, grid, some, coming(share, grid, some))
    at = np.maximum.accumulate(some / np.maximum(steps.mean_s, LEAST), axis=0)
    columns = zip(at.T, some.T, strict=True)
    return np.stack([np.interp(rate, here, there) for here, there in columns], axis=1)


def _alone(share: RequestMeans, rate: Array) -> IdleServer:
    """Prompts while nobody decodes: those that came during a step go together in the next.

    With y that come in a step, y + exp(−y) go together, and it works y / (y + exp(−y)) of the time.
    """
    none = np.zeros_like(rate)
    cut, most = share.chunks(none), np.maximum(share.at(share.full, none), 1.0)

    def step(together: Array) -> Array:
        return share.prefill(none, together * share.prompt / cut, together)

    def more(together: Array) -> Array:
        come = rate * cut * step(together)
        found: Array = come + np.exp(-come) - together
        return found

    together = last(more, np.ones_like(rate), np.broadcast_to(most, rate.shape))
    step_s = step(together)
    come = rate * cut * step_s
    return IdleServer(together, come / (come + np.exp(-come)), step_s, cut * step_s / together)


def _waiting(
    share: RequestMeans,
    most: SaturatedServer,
    lam: Array,
    grid: Array,
    steps: Pace,
    alone: IdleServer,
) -> Waits:
    none = grid == 0.0
    full = share.at(share.full, grid)
    if share.decode_first:
        rest = np.where(none, (alone.busy * alone.step_s)[:, None] / 2.0, steps.rest_s)
        room = full * share.prompt
        full_s = share.prefill(grid, room, full)
        used = np.minimum(lam * full_s / full, NEARLY)
        if most.by_steps:  # a queue lasts as long as it takes for the batch to follow it
            used = np.broadcast_to(lam / most.requests_per_s, grid.shape)
        line = backlog(used, used * room * share.square / share.prompt, room) * full_s
        square = np.where(none, (alone.busy * alone.step_s**2)[:, None] / 3.0, steps.rest_square)
        # A longer step, of which there is more left, brings more prompts into the next one.
        brought = np.minimum(lam * steps.each_s, NEARLY)
        longer = np.maximum(3.0 * square - 4.0 * rest**2, 0.0) / (1.0 - brought**2)
        square = square + brought * (1.0 + brought) * longer
        square = square + 2.0 * rest * line + 2.0 * line**2 / np.maximum(used, 2.0**-10)
        return Waits(rest, line, square, 2.0 * lam * rest, used)
    rest, line = ahead(share, lam, steps, full)
    zero = np.zeros_like(lam)
    first = pace(share, zero, zero, alone.together[:, None], np.ones_like(lam))
    rest_0, line_0 = ahead(share, lam, first, full[:, :1])
    rest_0 = rest_0 - first.fixed_s / 2.0 * (1.0 - alone.busy[:, None])
    rest, line = np.where(none, rest_0, rest), np.where(none, line_0, line)
    return Waits(rest, line, 2.0 * (rest + line) ** 2, np.zeros_like(rest), np.zeros_like(rest))


def _behind(
    share: RequestMeans, lam: Array, grid: Array, x: Array, steps: Pace, waits: Waits
) -> Array:
    """Time that decode takes longer for the prompts that came during a sequence's own. [s]

    As many as came while it waited and was prefilled. In steps of their own they go first, with
    those that come meanwhile. Beside decode they make a row of full steps, of which those count
    that fall into the answer.
    """
    if not share.steps:
        return np.zeros_like(x)
    own = first_s(share, grid.ravel(), waits.fellows.ravel()).mean(axis=0)
    behind = lam * (waits.line + own.reshape(grid.shape))
    if not share.decode_first:
        behind = behind + lam * waits.rest
        each = (steps.mean_s - steps.plain_s) / x
        found: Array = behind * each * steps.mean_s / np.maximum(steps.plain_s, LEAST) * (grid > 0)
        return found
    full = share.at(share.full, grid)
    row = np.maximum(
        np.expm1(np.minimum(lam * steps.loaded_s, 30.0)),
        behind / full / np.maximum(1.0 - waits.used, 2.0**-10),
    )
    goes_on = row / (1.0 + row)
    inside = 1.0 - np.mean(goes_on[..., None] ** share.answers, axis=-1)
    longer: Array = (1.0 - steps.loaded) * (steps.loaded_s - steps.plain_s) * row * inside
    return longer


def _states(
    share: RequestMeans, most: SaturatedServer, rate: Array, batches: Array, step: Array
) -> tuple[Array, Array]:
    """Probabilities of the batches, each for those around it, and how many requests queue. [1]"""
    load = rate / most.requests_per_s
    last = np.minimum(load, 1.0 - 2.0**-40)
    if not share.steps:
        return np.ones((len(rate), 1)), np.zeros_like(rate)
    # Where memory is short and sequences take more or less of it, as of so many fewer.
    every = np.linspace(0.0, batches[-1], max(round(batches[-1] / share.lump), 1) + 1)
    steps = np.stack([np.interp(every, batches, row) for row in step])
    ratio = rate[:, None] * share.steps * steps[:, 1:] / every[1:]
    ratio[:, -1] = last  # with all sequences, as it saturates
    logs = np.cumsum(np.log(np.maximum(ratio, LEAST)), axis=1)
    logs = np.concatenate([np.zeros((len(rate), 1)), logs], axis=1)
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    beyond = weights[:, -1] * last / (1.0 - last)
    queued = beyond / (1.0 - last) * (1.0 + share.varying) / 2.0
    weights[:, -1] += beyond
    whole = weights.sum(axis=1)
    # Columns are straight lines between the batches: what is between goes to both ends.
    place, share_ = between(batches, every)
    ends = np.zeros((len(every), len(batches)))
    rows = np.arange(len(every))
    ends[rows, place] += 1.0 - share_
    ends[rows, place + 1] += share_
    return weights @ ends / whole[:, None], queued / whole


def _works(
    share: RequestMeans, lam: Array, x: Array, steps: Pace, step: Array, alone: IdleServer
) -> Array:
    """Share of the time in which it works, by batch: prefill of all, and steps that only decode."""
    only = steps.plain_s * (1.0 - steps.loaded if share.decode_first else 1.0)
    works = lam * (steps.mean_s - only) / x
    if share.steps:
        works = works + only / step
    works[:, 0] = lam[:, 0] * alone.each_s
    found: Array = np.minimum(works, 1.0)
    return found
