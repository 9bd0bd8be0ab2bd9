"""Waits of a prompt for others, its own time, and the means of a load."""

from dataclasses import dataclass

import numpy as np

from roofline.cost.work import Array
from roofline.serving.simulate.steady.pace import LEAST, Pace
from roofline.serving.simulate.steady.share import Share


def backlog(used: Array, variance: Array, room: Array) -> Array:
    """Steps that a prompt waits for those before it, beside decode. [1]

    V / 2(T − E) tokens of a queue that is served regularly, times exp(−2(1 − ρ) / 3ρ·c²) with
    c² = V / E². Source: Krämer and Langenbach-Belz 1976, 8th International Teletraffic Congress.

    Args:
        used: Tokens that come in a full step, over its room. [1]
        variance: Of the tokens that come. [token²]
        room: Tokens of prompts in a step. [token]
    """
    mean = np.maximum(used * room, LEAST)
    spread = np.maximum(variance, LEAST)
    rare = np.exp(-2.0 * (1.0 - used) * mean**2 / (3.0 * np.maximum(used, LEAST) * spread))
    waits: Array = rare * spread / (2.0 * np.maximum(room - mean, LEAST * room) * room)
    return waits


def ahead(share: Share, rate: Array, steps: Pace, full: Array) -> tuple[Array, Array]:
    """Wait for work before a prompt, and for those that end with it, in steps of their own. [s]

    A queue whose server is away for a decode step, or for what a step takes whatever is in it:
    W = λ·E[P²] / 2(1 − ρ) + E[V²] / 2·E[V]. What is in one step ends together: behind a prompt
    come those of the step that it found running, ρ·W / (1 + ρ). Source: Fuhrmann and Cooper 1985,
    Operations Research 33(5), for the server that is away.

    Args:
        share, steps: Work of requests, and steps while they come.
        rate: Prompts that come. [1/s]
        full: κ. [1]
    """
    used = np.minimum(rate * steps.each_s, 1.0 - 2.0**-10)
    away = steps.plain_s + steps.loaded * steps.fixed_s
    squares = steps.plain_s**2 + steps.loaded * steps.fixed_s**2
    spread = share.square / share.prompt**2
    work = used * steps.each_s * spread / (2.0 * (1.0 - used))
    work = work + squares / np.maximum(2.0 * away, LEAST)
    behind = np.minimum(
        work * used / (1.0 + used), np.maximum(full - 1.0, 0.0) / 2.0 * steps.each_s
    )
    return work, behind


def first_s(share: Share, batch: Array, fellows: Array) -> Array:
    """Time from the first step to the first token, by length of the prompt. [s]

    Args:
        share: Work of requests.
        batch: Sequences that decode, of shape (loads,). [1]
        fellows: Other prompts in its last step, of the same shape. [1]
    """
    length = share.lengths[:, None]
    chunk, full = share.at(share.chunk, batch), share.at(share.full, batch)
    cut, room = np.ceil(length / chunk), full * share.prompt
    last = length - (cut - 1.0) * chunk
    beside = fellows * share.prompt
    tokens = last + np.minimum(beside, np.maximum(room - last, 0.0))
    whole = (cut - 1.0) * share.prefill(batch, chunk, np.ones_like(batch))
    whole = whole + share.prefill(batch, tokens, 1.0 + fellows)
    if not share.decode_first:
        # Steps with prompts follow each other: half of them before its own.
        rows = np.maximum((last + beside) / room - 1.0, 0.0) / 2.0
        whole = whole + rows * share.prefill(batch, room, full)
    found: Array = whole
    return found


@dataclass(frozen=True, slots=True)
class Means:
    """Means of a load, of shape (loads,) where nothing else is said."""

    rate: Array
    """Requests served. [1/s]"""
    utilisation: Array
    """Share of the time in which it works. [1]"""
    sequences: Array
    """Sequences that decode. [1]"""
    queue: Array
    """Between the front end and the first step. [s]"""
    own: Array
    """Time from the first step to the first token of a prompt alone, by its length, of shape
    (requests, loads). [s]"""
    waits: Array
    varying: Array
    """Time to the first token beyond that and the front end, and its variance. [s] [s²]"""
    decode: Array
    plain: Array
    """Time from the first token to the last; of a step without prompts, as decode meets it. [s]"""
    within: Array
    between: Array
    """Variance of a step, from one to the next, and of its mean from time to time. [s²]"""
