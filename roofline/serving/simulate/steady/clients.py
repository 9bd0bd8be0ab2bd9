"""A closed loop in the long run: clients that ask again when they are answered."""

import numpy as np

from roofline.cost.work import Array
from roofline.serving.simulate.steady.means import Means
from roofline.serving.simulate.steady.saturation import HALVINGS, Most, Turn, turn
from roofline.serving.simulate.steady.share import Share
from roofline.serving.simulate.steady.waits import backlog, first_s


def closed_loop(share: Share, most: Most, clients: Array) -> Means:
    """Means of a closed loop.

    Parameters
    ----------
    share, most
        Work of requests, and the most that is served.
    clients
        Of shape (loads,). [1]

    Notes
    -----
    Found is x, prompts for each step, at which those that run, wait for a step with room and are
    with the front end are all clients; beyond ``most`` the others queue. Source: Little's law.
    """
    low, high = np.zeros_like(clients), np.full_like(clients, most.x)
    for _ in range(HALVINGS):
        x = (low + high) / 2.0
        less = _present(share, x)[0] < clients
        low, high = np.where(less, x, low), np.where(less, high, x)
    x = (low + high) / 2.0
    there, part, rate, now = _present(share, x)
    # Now and then all are with the front end.
    away = np.clip(rate * share.request_s / clients, 0.0, 1.0)
    busy = np.minimum(part, 1.0 - away**clients)
    rate = rate * busy / part
    steps = now.steps
    rest = _rest(share, now)
    waits = _waits(share, now) * steps.mean_s
    queued = np.maximum(clients - there, 0.0) / rate
    fellows = _fellows(share, now, rate, rest)
    own = first_s(share, now.beside, np.zeros_like(fellows))
    beside = first_s(share, now.beside, fellows).mean(axis=0) - own.mean(axis=0)
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


def _present(share: Share, x: Array) -> tuple[Array, Array, Array, Turn]:
    """Clients there are, those that run, requests served [1/s], and steps.

    Where less than one would run, that one is there for so much of the time.
    """
    now = turn(share, x)
    part = x / now.x
    rate = x / now.steps.mean_s
    late = share.request_s + _rest(share, now)
    there = now.running * part + x * _waits(share, now) + rate * late
    return there, part, rate, now


def _rest(share: Share, now: Turn) -> Array:
    """What is left of a step that a request finds that comes from the front end. [s]"""
    if not share.request_s:
        return np.zeros_like(now.x)
    return now.steps.rest_s * (1.0 - 1.0 / np.maximum(now.running, 1.0))


def _waits(share: Share, now: Turn) -> Array:
    """Steps that a prompt waits for one that has room. [1]"""
    if share.uniform or not share.decode_first:
        return np.zeros_like(now.x)
    batch = now.x * share.steps
    room = share.at(share.full, batch) * share.prompt
    binomial = now.x * (share.square - share.prompt**2 / share.stay(batch))
    used = np.minimum(now.x * share.prompt / room, 1.0)
    return backlog(used, np.maximum(binomial, 0.0), room)


def _fellows(share: Share, now: Turn, rate: Array, rest: Array) -> Array:
    """Other prompts in the step of one. [1]"""
    if share.uniform:
        together = now.running
        if share.decode_first:
            together = np.floor(np.minimum(share.at(share.full, now.running), together))
        return np.maximum(together - 1.0, 0.0)
    if share.request_s and share.decode_first:
        return 2.0 * rate * rest
    return now.x * (1.0 - 1.0 / np.maximum(now.running, 1.0))
