"""The most that a server serves: what is full first, steps or sequences."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from roofline.cost.work import Array
from roofline.serving.simulate.steady.pace import LEAST, Pace, pace, turning
from roofline.serving.simulate.steady.share import Share

HALVINGS: Final = 64
SECTIONS: Final = 64
"""Parts that a range is cut into at once, in place of six halvings. [1]"""
ROUNDS: Final = 9


@dataclass(frozen=True, slots=True)
class Most:
    """A server that never waits for requests."""

    x: float
    """Prompts for each step. [1]"""
    by_steps: bool
    """Whether steps are full before all sequences run: it is bound by prefill."""
    requests_per_s: float
    """That it serves. [1/s]"""


def most(share: Share) -> Most:
    """What a server serves when it never waits.

    Of x prompts in each step, m·x sequences decode and (m + c)·x run. Steps are full at x = κ(m·x),
    sequences at (m + c)·x = those that run at once; the smaller x holds. Where prompts have steps
    of their own, only sequences limit it. Source: Little's law, in steps.
    """
    slots = _last(lambda x: share.most - x * share.stay(x * share.steps), share)
    full = np.inf
    if share.decode_first:
        full = _last(lambda x: share.at(share.full, x * share.steps) - x, share)
    x = min(slots, full)

    def rate(x: Array) -> Array:
        return np.asarray(x / turn(share, x).steps.mean_s)

    # The front end lets one request after the other in, and one token after the other out.
    passes = max(share.serial_s, share.token_s * share.output)
    if passes and rate(np.array(x)) * passes > 1.0:
        x = float(last(lambda x: 1.0 / passes - rate(x), np.zeros(1), np.full(1, x))[0])
        return Most(x, full < slots, 1.0 / passes)
    return Most(x, full < slots, float(rate(np.array(x))))


def _last(left: Callable[[Array], Array], share: Share) -> float:
    """Most prompts for each step of which something is left. [1]"""
    high = 2.0 * share.most / max(min(share.steps, 1.0), 2.0**-20)
    return float(last(left, np.zeros(1), np.full(1, high))[0])


def last(left: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Numbers up to which something is left, of a shape like theirs.

    Args:
        left: What is left at numbers of shape (sections, *that shape).
        low, high: Between which they are looked for.
    """
    for _ in range(ROUNDS):
        ends = np.linspace(low, high, SECTIONS + 1)
        # The first part at whose end nothing is left.
        part = np.argmax(np.concatenate([left(ends[1:-1]) <= 0, np.ones((1, *low.shape))]), axis=0)
        low, high = (np.take_along_axis(ends, part[None] + end, axis=0)[0] for end in (0, 1))
    return low


@dataclass(frozen=True, slots=True)
class Turn:
    """Steps while so many sequences take turns."""

    x: Array
    running: Array
    beside: Array
    """Prompts for each step; sequences that run, and those that decode beside prompts. [1]"""
    steps: Pace
    """What they take."""


def turn(share: Share, x: Array) -> Turn:
    """Steps where each request that ends is followed by the next one.

    Args:
        share: Work of requests.
        x: Prompts for each step; where fewer than one sequence would run, as of one. [1]
    """
    x = np.maximum(x, 1.0 / np.maximum(share.stay(x * share.steps), LEAST))
    batch = x * share.steps
    running = x * share.stay(batch)
    loaded = turning(share, batch, x, running)
    beside = running
    if share.decode_first:
        beside = np.maximum(running - x * share.chunks(batch) / loaded, 0.0)
    return Turn(x, running, beside, pace(share, running, beside, x, loaded))
