"""Question of a plan: traffic, goal, speed and price of devices."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Final

from roofline.serving.objectives import Objective
from roofline.study.plan.candidate import Candidate
from roofline.study.plan.curve import Role
from roofline.study.plan.demand import Demand, Goal
from roofline.study.plan.kinds import Kind
from roofline.study.plan.option import UNPRICED, Option

ROUNDING: Final = 2.0**-40
CHEAPER: Final = 0.1
"""Share by which something unusual has to be cheaper to be recommended."""


@dataclass(frozen=True, slots=True)
class Question:
    """Question of a plan."""

    demand: Demand
    goal: Goal
    """Traffic, and the limits that have to be kept."""
    factor: float = 1.0
    """On the time of all devices. [1]"""
    prices: Mapping[str, float] = field(default_factory=dict)
    """Price of a device by kind where it is not that of the kind. [$/h]"""

    def slowness(self, kind: Kind) -> float:
        """Factor on the time of a kind that the confidence asks for. [1]"""
        return self.factor * math.exp(deviations(self.goal.confidence) * kind.uncertainty.step)

    def objectives(self, kind: Kind) -> tuple[Objective, ...]:
        """Limits, of a first token with what the confidence asks for beside slower steps."""
        known = kind.uncertainty
        more = math.exp(deviations(self.goal.confidence) * max(known.first - known.step, 0.0))
        return tuple(
            replace(each, limit_s=each.limit_s / more) if each.metric == "ttft" else each
            for each in self.goal.objectives
        )

    def at(self, rate: float) -> "Question":
        """The question with other traffic.

        Args:
            rate: Requests a second. [1/s]
        """
        return replace(self, demand=replace(self.demand, rate=rate))

    def refusal(self, candidate: Candidate) -> str:
        """Reason why a layout cannot serve at all; empty where it might."""
        kind = candidate.kind
        return candidate.refusal(self.demand, self.objectives(kind), self.slowness(kind))

    def bound(self, candidate: Candidate, role: Role = "all", *, likely: bool = False) -> float:
        """Requests a second that a replica could carry at best; 0 where it cannot at all. [1/s]

        Args:
            candidate, role, likely: Layout of a kind, and the rest as for `Candidate.bound`.
        """
        kind = candidate.kind
        limits, factor = self.objectives(kind), self.slowness(kind)
        return candidate.bound(self.demand, limits, factor, role, likely=likely)

    def enough(self, option: Option) -> bool:
        """Whether an option carries traffic by its curves, on the devices that are allowed."""
        return option.capacity > 0 and option.gpus <= self.goal.gpus

    def cost(self, option: Option) -> float:
        """Dollars for an hour; devices where no kind has a price. [$/h]"""
        return option.cost(self.prices)

    def least_cost(self, candidate: Candidate, replicas: int) -> float:
        """Dollars for an hour of so many replicas of a candidate. [$/h]

        Args:
            candidate, replicas: Layout and kind, and how many. [1]
        """
        kind = candidate.kind
        each = self.prices.get(kind.name, kind.usd_per_hour) or UNPRICED
        return replicas * candidate.devices * each

    def order(self, option: Option) -> tuple[float, int, tuple[bool, ...], float]:
        """Sort key of options: the cheapest, of those the plainest, then what carries most."""
        return self.cost(option), option.gpus, option.plainness, -option.capacity

    def preferred(self, options: Sequence[Option]) -> Option | None:
        """The option to recommend: the cheapest usual one, or one that is so much cheaper."""
        usual = min((each for each in options if each.usual), key=self.order, default=None)
        least = min(options, key=self.order, default=None)
        if usual is None or least is None:
            return least
        return least if self.cheaper(least, usual) else usual

    def cheaper(self, option: Option, usual: Option) -> bool:
        """Whether an option costs so much less than a usual one that it is preferred."""
        return self.cost(option) <= self.cost(usual) * (1.0 - CHEAPER) * (1.0 + ROUNDING)

    def replicas(self, carries: float) -> int:
        """Replicas that are enough, if one carries so much. [1]

        Args:
            carries: Requests of each, above 0. [1/s]
        """
        wanted = self.demand.rate * (1.0 + self.goal.headroom)
        return max(math.ceil(wanted / carries * (1.0 - ROUNDING)), 1) + self.goal.spares


def deviations(confidence: float) -> float:
    """Standard deviations that a confidence asks for; 0 for what is expected. [1]

    Quantile of the normal distribution. Source: definition.

    Args:
        confidence: Probability, below 1. [1]

    Examples:
        >>> round(deviations(0.9), 3), deviations(0.3)
        (1.282, 0.0)
    """
    return max(NormalDist().inv_cdf(confidence), 0.0) if confidence else 0.0
