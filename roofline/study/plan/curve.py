"""What users of one replica feel as its load grows, and the most that it carries in time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from roofline.cost.work import Array
from roofline.serving.objectives import Finished, Objective, counted, kept
from roofline.serving.requests import Requests
from roofline.serving.run.result import finished
from roofline.serving.run.serve import Fleet, running, saturation
from roofline.serving.simulate.drafting import in_rounds, in_tokens
from roofline.serving.simulate.run import simulate
from roofline.serving.simulate.served import Served
from roofline.study.plan.demand import Demand

SHARES: Final = (0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Loads that are simulated, over the rate at which the queue grows without end. None is beyond the
last: so close to saturation queues are long and depend on chance."""
Role = Literal["all", "prefill", "decode"]
"""What a replica does: all of a request, or one phase of it."""
SATURATION: Final = "rate"
"""What binds where no promise does."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One replica under growing load. Arrays have an entry for each load.

    Attributes
    ----------
    saturation
        Rate beyond which the queue grows without end. [1/s]
    loads
        Requests that come, ascending. [1/s]
    seconds
        By name of an objective, the largest of its latency at this load and those below. [s]
    running
        Most requests that were begun and not finished. [1]
    """

    saturation: float
    loads: Array
    seconds: Mapping[str, Array]
    running: int

    def at(self, name: str, load: float) -> float:
        """Latency at a load, between two that were simulated. [s]

        Parameters
        ----------
        name
            Of the objective.
        load
            Requests that come. [1/s]
        """
        return float(np.interp(load, self.loads, self.seconds[name]))

    def carries(self, promises: Sequence[Objective]) -> tuple[float, str]:
        """Most requests a second for which all promises hold, and what is in the way of more.

        Parameters
        ----------
        promises
            Limits. Those that do not hold at the least load are not kept by more replicas: 0.
        """
        most, binds = float(self.loads[-1]), SATURATION
        for promise in promises:
            here = self._within(promise)
            if here < most:
                most, binds = here, promise.name
        return most, binds

    def _within(self, promise: Objective) -> float:
        """Largest load at which a promise holds; 0 for none. [1/s]"""
        seconds = self.seconds[promise.name]
        late = np.flatnonzero(seconds > promise.limit_s)
        if not len(late):
            return float(self.loads[-1])
        i = int(late[0])
        if not i:
            return 0.0
        share = (promise.limit_s - seconds[i - 1]) / (seconds[i] - seconds[i - 1])
        return float(self.loads[i - 1] + share * (self.loads[i] - self.loads[i - 1]))


def curve(role: Role, demand: Demand, fleet: Fleet, probes: Sequence[Objective]) -> Curve:
    """Simulate one replica at growing loads, always with the same requests.

    Parameters
    ----------
    role
        ``"all"``; ``"prefill"`` for prompts alone; ``"decode"`` for answers to prompts whose cache
        comes with them.
    demand
        Requests.
    fleet
        The replica.
    probes
        Latencies that are looked at; their limits are not.

    Notes
    -----
    The closed form of the long run is no faster over ten loads, and would size a replica by 0.8 to
    1.7 times what it carries in simulation, most where percentiles are promised.
    """
    handed, mine = role == "decode", _part(role, demand)
    limit = _limit(role, demand, fleet)
    loads = np.array(SHARES) * limit
    rows, most = [], 0
    for served in _served(mine, fleet, loads, transferred=handed):
        done = finished(served)
        if handed:
            # The prefill has made the first token: what passes until the cache is in a step is
            # part of the time between tokens.
            done = replace(done, first_token=done.arrival)
        rows.append(latencies(done, demand.warmup, probes))
        most = max(most, running(served)[1])
    seconds = {
        probe.name: np.maximum.accumulate([row[probe.name] for row in rows]) for probe in probes
    }
    return Curve(limit, loads, seconds, most)


def reaches(
    demand: Demand,
    fleet: Fleet,
    promises: Sequence[Objective],
    need: float,
) -> bool:
    """Whether a replica might carry so much, by a single run: if not, neither does its curve.

    Parameters
    ----------
    demand, fleet
        As for `curve`.
    promises
        That have to hold.
    need
        Requests that come. [1/s]
    """
    limit = _limit("all", demand, fleet)
    if need > SHARES[-1] * limit:
        return False
    load = max((x * limit for x in SHARES if x * limit <= need), default=SHARES[0] * limit)
    (served,) = _served(demand, fleet, [load])
    found = latencies(finished(served), demand.warmup, promises)
    return all(found[each.name] <= each.limit_s for each in promises)


def _part(role: Role, demand: Demand) -> Demand:
    """What of the demand comes to a replica in a role."""
    if role == "prefill":
        return demand.prompts()
    return demand.answers() if role == "decode" else demand


def _served(
    demand: Demand, fleet: Fleet, loads: Iterable[float], *, transferred: bool = False
) -> Iterator[Served]:
    """The requests served at one load after the other."""
    asked, drafting = demand.requests, fleet.drafting
    # How much of each draft is accepted has nothing to do with the load.
    coming: Requests = asked if drafting is None else in_rounds(asked, drafting)
    steps = replace(demand, requests=coming)
    for load in loads:
        served = simulate(
            steps.at(float(load)), fleet.prices, fleet.server, transferred=transferred
        )
        yield served if drafting is None else in_tokens(served, asked)


def _limit(role: Role, demand: Demand, fleet: Fleet) -> float:
    """Rate of all requests beyond which the queue of the part that comes grows. [1/s]"""
    mine = _part(role, demand)
    share = len(mine.requests) / len(demand.requests)
    return saturation(fleet, mine.requests, transferred=role == "decode") / share


def latencies(done: Finished, warmup: int, probes: Sequence[Objective]) -> dict[str, float]:
    """Latency of each objective in a run, by its name. [s]

    Parameters
    ----------
    done
        Requests of the run.
    warmup
        How many of the first do not count. [1]
    probes
        Objectives; their limits are not looked at.
    """
    return {each.objective.name: each.value_s for each in kept(counted(done, warmup), probes)}
