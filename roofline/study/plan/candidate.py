"""A layout of a kind of device, and what it could do at best.

What is said here is optimistic: every step is the mean one. While b sequences decode for m steps,
b/m prompts go into each step, and the time of a step is taken as convex in what it has: steps that
differ take longer. (Not so with experts, of which few tokens need as many as many do: there a step
takes at least what its sequences take, and what its prompts do.) So a layout that cannot do it here
cannot do it at all, and the others are looked at in the order of what they promise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from roofline.cost.layout import Layout
from roofline.cost.work import Array
from roofline.serving.objectives import Objective
from roofline.study.plan.curve import SHARES, Role
from roofline.study.plan.demand import Demand
from roofline.study.plan.kinds import UNDRAFTED, Kind
from roofline.units import show, show_binary

SLACK: Final = 0.95
"""Bounds are taken as so much lower in time: kernels are not quite convex. Assumed."""
BETWEEN: Final = 0.75
"""The same of times between tokens that are promised: near a limit tiles, experts and windows make
steps of some batches cheaper than those around them. Assumed; no layout of the tests needs more."""
MEDIAN: Final = 50.0
"""Percentile from which a promise about the time between tokens holds for the mean too."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A layout of a kind and its bounds.

    Attributes
    ----------
    kind, layout
        What it is.
    free
        Memory of a device that is left for the cache; negative where weights do not fit. [B]
    sequences
        Of typical length that its memory holds at once. [1]
    tokens
        Room of the cache. [token]
    batches, step_s, mixed_s
        Sequences of the replica; a decode step of so many, or one that verifies drafts; the same
        with as many prompts as go with it. [1] [s]
    prompt_s
        A prompt where nothing decodes, at least. [s]
    first_s
        By name of a promise about it, the time to a first token in an idle replica. [s]
    """

    kind: Kind
    layout: Layout
    free: float
    sequences: float
    tokens: float
    batches: Array
    step_s: Array
    mixed_s: Array
    prompt_s: float
    first_s: dict[str, float]

    @property
    def devices(self) -> int:
        """Of a replica. [1]"""
        return int(self.layout.devices)

    @property
    def usd_per_hour(self) -> float:
        """Of a replica; its devices where no price is known. [$/h]"""
        return self.devices * (self.kind.usd_per_hour or 1.0)

    def floor_s(self, demand: Demand) -> float:
        """The least time between tokens: that of a single sequence. [s]

        Parameters
        ----------
        demand
            Whose answers are decoded.
        """
        return float(self.step_s[0]) / self.kind.round_tokens(demand)

    def bound(
        self,
        demand: Demand,
        promises: Sequence[Objective],
        factor: float = 1.0,
        role: Role = "all",
    ) -> float:
        """Requests a second that a replica could carry at best; 0 where it cannot at all.

        Parameters
        ----------
        demand
            Whose answers are decoded.
        promises
            What has to be kept.
        factor
            On the time of the device. [1]
        role
            Whether it does both phases, or one of them.
        """
        for promise in promises:
            late = promise.metric == "ttft" and role != "decode"
            if late and self.first_s[promise.name] * SLACK * factor > promise.limit_s:
                return 0.0
        if role == "prefill" or not demand.steps:
            return SHARES[-1] / (self.prompt_s * factor * SLACK)
        each = self.kind.round_tokens(demand)
        steps = self.step_s if role == "decode" else self.mixed_s
        batches = np.concatenate([[0.0], self.batches])
        between = np.concatenate([self.step_s[:1], steps]) * factor
        most = full = min(self.sequences, float(batches[-1]))
        for promise in promises:
            if _lasting(promise):
                limit = promise.limit_s * each / BETWEEN
                if between[0] > limit:
                    return 0.0
                most = min(most, float(np.interp(limit, np.maximum.accumulate(between), batches)))
        if full < 1.0 or not most:
            return 0.0
        between, number = between * SLACK, demand.steps / each
        return min(
            _served(most, batches, between, number),
            SHARES[-1] * _served(full, batches, between, number),
        )

    def refusal(self, demand: Demand, promises: Sequence[Objective], factor: float = 1.0) -> str:
        """Why it cannot do it at all, in words; empty where it might."""
        if self.kind.speculation is not None and (self.layout.pp != 1 or self.layout.cp != 1):
            return f"layout: {UNDRAFTED}"
        if self.free <= 0:
            return f"memory: weights want {show_binary(-self.free)} more than a device has"
        if self.tokens < demand.longest:
            return (
                f"memory: room for {self.tokens:,.0f} tokens, the longest request has "
                f"{demand.longest:,}"
            )
        for promise in promises:
            limit = show(promise.limit_s, "s")
            if promise.metric == "ttft":
                least = self.first_s[promise.name] * factor
                if least * SLACK > promise.limit_s:
                    return f"{promise.name}: {show(least, 's')} when idle, promised {limit}"
            elif _lasting(promise):
                least = self.floor_s(demand) * factor
                if least * BETWEEN > promise.limit_s:
                    return f"{promise.name}: {show(least, 's')} at batch 1, promised {limit}"
        return ""


def _served(most: float, batches: Array, between: Array, steps: float) -> float:
    """Requests a second with up to so many sequences, steps of an answer and their times. [1/s]"""
    points = np.append(batches[batches < most], most)
    each = points / np.interp(points, batches, between) / steps
    return float(each.max())


def _lasting(promise: Objective) -> bool:
    """Whether a promise holds for the mean time between tokens too, or for more."""
    return promise.metric == "tpot" and (promise.percentile or MEDIAN) >= MEDIAN
