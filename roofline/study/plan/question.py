"""What is planned for: traffic, goals, and how fast and dear devices are taken to be."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from roofline.study.plan.candidate import Candidate
from roofline.study.plan.demand import Demand, Goal
from roofline.study.plan.option import UNPRICED, Option

ROUNDING: Final = 2.0**-40


@dataclass(frozen=True)
class Question:
    """What is planned for.

    Attributes
    ----------
    demand, goal
        Traffic, and what has to be kept.
    factor
        On the time of all devices. [1]
    prices
        Price of a device by kind where it is not that of the kind. [$/h]
    """

    demand: Demand
    goal: Goal
    factor: float = 1.0
    prices: Mapping[str, float] = field(default_factory=dict)

    def cost(self, option: Option) -> float:
        """Dollars for an hour; devices where no kind has a price. [$/h]"""
        return option.cost(self.prices)

    def least_cost(self, candidate: Candidate, replicas: int) -> float:
        """That of a candidate before it is tabulated. [$/h]

        Parameters
        ----------
        candidate, replicas
            What runs, and how often. [1]
        """
        kind = candidate.kind
        each = self.prices.get(kind.name, kind.usd_per_hour) or UNPRICED
        return replicas * candidate.devices * each

    def needs(self, candidate: Candidate, cost: float) -> float:
        """Requests that a replica of a candidate must carry to cost no more. [1/s]

        Parameters
        ----------
        candidate
            What runs.
        cost
            Dollars for an hour. [$/h]
        """
        replicas = math.floor(cost / self.least_cost(candidate, 1) * (1.0 + ROUNDING))
        replicas = min(replicas, self.goal.gpus // candidate.devices) - self.goal.spares
        wanted = self.demand.rate * (1.0 + self.goal.headroom) * (1.0 - ROUNDING)
        return wanted / replicas if replicas > 0 else math.inf

    def order(self, option: Option) -> tuple[float, int, float]:
        """By what options are sorted: the cheapest, of those the one that carries most."""
        return self.cost(option), option.gpus, -option.capacity

    def replicas(self, carries: float) -> int:
        """Replicas that are enough, if one carries so much. [1]

        Parameters
        ----------
        carries
            Requests of each, above 0. [1/s]
        """
        wanted = self.demand.rate * (1.0 + self.goal.headroom)
        return max(math.ceil(wanted / carries * (1.0 - ROUNDING)), 1) + self.goal.spares
