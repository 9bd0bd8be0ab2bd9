"""The most that a server serves: what is full first, steps or sequences."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from roofline.cost.work import Array
from roofline.serving.simulate.steady.pace import LEAST, Pace, pace, turning
from roofline.serving.simulate.steady.share import Share

HALVINGS: Final = 64


@dataclass(frozen=True, slots=True)
class Most:
    """A server that never waits for requests.

    Attributes
    ----------
    x
        Prompts for each step. [1]
    by_steps
        Whether steps are full before all sequences run: it is bound by prefill.
    requests_per_s
        That it serves. [1/s]
    """

    x: float
    by_steps: bool
    requests_per_s: float


def most(share: Share) -> Most:
    """What a server serves when it never waits.

    Notes
    -----
    Of x prompts in each step, m·x sequences decode and (m + c)·x run. Steps are full at x = κ(m·x),
    sequences at (m + c)·x = those that run at once; the smaller x holds. Where prompts have steps
    of their own, only sequences limit it. Source: Little's law, in steps.
    """
    slots = _last(lambda x: share.most - x * share.stay(x * share.steps), share)
    full = np.inf
    if share.decode_first:
        full = _last(lambda x: share.at(share.full, x * share.steps) - x, share)
    x = min(slots, full)
    rate = float(x / turn(share, np.array(x)).steps.mean_s)
    # The front end lets one request after the other through.
    return Most(x, full < slots, min(rate, 1.0 / share.serial_s) if share.serial_s else rate)


def _last(left: Callable[[Array], Array], share: Share) -> float:
    """Most prompts for each step of which something is left. [1]"""
    low, high = 0.0, 2.0 * share.most / max(min(share.steps, 1.0), 2.0**-20)
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if left(np.array(middle)) > 0 else (low, middle)
    return low


@dataclass(frozen=True, slots=True)
class Turn:
    """Steps while so many sequences take turns.

    Attributes
    ----------
    x, running, beside
        Prompts for each step; sequences that run, and those that decode beside prompts. [1]
    steps
        What they take.
    """

    x: Array
    running: Array
    beside: Array
    steps: Pace


def turn(share: Share, x: Array) -> Turn:
    """Steps where each request that ends is followed by the next one.

    Parameters
    ----------
    share
        Work of requests.
    x
        Prompts for each step; where fewer than one sequence would run, as of one. [1]
    """
    x = np.maximum(x, 1.0 / np.maximum(share.stay(x * share.steps), LEAST))
    batch = x * share.steps
    running = x * share.stay(batch)
    loaded = turning(share, batch, x, running)
    beside = running
    if share.decode_first:
        beside = np.maximum(running - x * share.chunks(batch) / loaded, 0.0)
    return Turn(x, running, beside, pace(share, running, beside, x, loaded))
