"""Latencies of one replica as its load grows, in closed form, and the most that it carries."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import numpy as np
from msgspec import Struct

from roofline.cost.work import Array
from roofline.records import replace
from roofline.serving.objectives import Objective
from roofline.serving.requests import Requests
from roofline.serving.run.serve import Fleet
from roofline.serving.simulate.steady import Steady, arriving, share_of
from roofline.serving.simulate.steady.pace import most
from roofline.serving.simulate.steady.share import RequestMeans
from roofline.study.plan.demand import Demand

SHARES: Final = (0.02, 0.2, 0.4, 0.6, 0.75, 0.9)
"""Loads of a curve, over the rate at which the queue grows without end. None is beyond the last: so
close to saturation queues are long and depend on chance."""
WAITS: Final = 4
"""Waits for a step that stand for all. [1]"""
Role = Literal["all", "prefill", "decode"]
"""Phases that a replica serves: all of a request, or one of them."""
SATURATION: Final = "rate"
"""Reason where no objective binds."""


class Curve(Struct, frozen=True):
    """One replica under growing load. Arrays have an entry for each load."""

    saturation: float
    """Rate beyond which the queue grows without end. [1/s]"""
    loads: Array
    """Requests that come, ascending. [1/s]"""
    seconds: Mapping[str, Array]
    """Largest latency at this load and those below, by name of an objective. [s]"""
    sequences: float = 0.0
    """Sequences that decode at the highest load, mean. [1]"""

    def at(self, name: str, load: float) -> float:
        """Latency at a load [1/s] of requests. [s]"""
        return float(np.interp(load, self.loads, self.seconds[name]))

    def carries(self, objectives: Sequence[Objective]) -> tuple[float, str]:
        """Most requests a second within all limits, and what is in the way of more. [1/s]

        Limits that do not hold at the least load are not kept by more replicas: 0.
        """
        most_, binds = float(self.loads[-1]), SATURATION
        for each in objectives:
            here = self._within(each)
            if here < most_:
                most_, binds = here, each.name
        return most_, binds

    def slower(self, factor: float) -> "Curve":
        """The curve of a device on which everything takes so much longer.

        L(λ) becomes f·L(f·λ). Source: change of the unit of time.
        """
        if factor == 1.0:
            return self
        seconds = {name: each * factor for name, each in self.seconds.items()}
        return Curve(self.saturation / factor, self.loads / factor, seconds, self.sequences)

    def corrected(self, factors: Mapping[str, float], share: float) -> "Curve":
        """The curve as simulation puts it.

        Factors are on what load adds to each latency, by name; the share is on all loads. [1]
        """
        seconds = {
            name: each[0] + (each - each[0]) * factors.get(name, 1.0)
            for name, each in self.seconds.items()
        }
        return replace(
            self, saturation=self.saturation * share, loads=self.loads * share, seconds=seconds
        )

    def _within(self, objective: Objective) -> float:
        """Largest load at which a limit holds; 0 for none. [1/s]"""
        seconds = self.seconds[objective.name]
        late = np.flatnonzero(seconds > objective.limit_s)
        if not len(late):
            return float(self.loads[-1])
        i = int(late[0])
        if not i:
            return 0.0
        share = (objective.limit_s - seconds[i - 1]) / (seconds[i] - seconds[i - 1])
        return float(self.loads[i - 1] + share * (self.loads[i] - self.loads[i - 1]))


def curve(role: Role, demand: Demand, fleet: Fleet, probes: Sequence[Objective]) -> Curve:
    """Latencies of a replica at growing loads.

    `roofline.serving.simulate.steady` says how far its closed form is off. Of what prompts share
    nothing is computed or held again.

    Args:
        role: ``"all"``; ``"prefill"`` for prompts alone; ``"decode"`` for answers to prompts whose
            cache comes with them.
        probes: Latencies that are looked at; their limits are not.
    """
    mine = {"prefill": demand.prompts, "decode": demand.answers}.get(role, lambda: demand)()
    coming, server = alone(mine.requests), replace(fleet.server, sharing=False)
    if demand.shares:
        room = server.kv_tokens * demand.mean_context / demand.own_context
        server = replace(server, kv_tokens=int(room))
    if fleet.drafting is not None:
        coming = fleet.drafting.in_rounds(coming)
    share = share_of(coming, fleet.prices, server)
    if role == "decode":
        share = _handed(share)
    elif demand.shares:
        share = _known(share, mine)
    full = most(share)
    limit = full.requests_per_s
    found = arriving(share, np.array(SHARES) * limit, full)
    rounds = 1.0
    if fleet.drafting is not None and mine.steps:
        rounds = share.steps / mine.steps
    seconds = {
        each.name: np.maximum.accumulate(_latency(found, each, mine, role, share, rounds))
        for each in probes
    }
    part = len(mine.requests) / len(demand.requests)
    return Curve(limit / part, np.array(SHARES) * limit / part, seconds, float(found.sequences[-1]))


def alone(requests: Requests) -> Requests:
    """The requests with nothing that they share, each by itself."""
    none = np.zeros(0, requests.hashes.dtype)
    return replace(
        requests,
        hashes=none,
        prefix=np.zeros_like(requests.prefix),
        after=np.full_like(requests.after, -1),
    )


def _known(share: RequestMeans, mine: Demand) -> RequestMeans:
    """Work of requests of whose prompts a cache has what was there before."""
    evenly = (np.arange(len(share.lengths)) + 0.5) / len(share.lengths)
    lengths = np.quantile(mine.new_tokens, evenly, method="nearest").astype(float)
    full = np.minimum(share.full * share.prompt / mine.mean_new_tokens, float(share.most))
    return replace(
        share,
        prompt=mine.mean_new_tokens,
        square=float((lengths**2).mean()),
        lengths=lengths,
        full=full,
    )


def _handed(share: RequestMeans) -> RequestMeans:
    """Work of requests whose prompts were computed elsewhere: a token to begin with.

    It comes beside a step of those that decode, which takes no longer for it.
    """
    return replace(
        share,
        prompt=1.0,
        square=1.0,
        lengths=np.ones_like(share.lengths),
        attention_s=np.zeros_like(share.attention_s),
        others_s=np.zeros_like(share.others_s),
        slope_s=np.zeros_like(share.slope_s),
        head_s=np.zeros_like(share.head_s),
        software_s=0.0,
        sequence_s=0.0,
        launch_s=0.0,
        beside_s=np.maximum(share.decode_s, share.decode_s[1]),
        chunk=np.maximum(share.chunk, 1.0),
        full=np.full_like(share.full, float(share.most)),
    )


def _latency(
    found: Steady,
    objective: Objective,
    mine: Demand,
    role: Role,
    share: RequestMeans,
    rounds: float,
) -> Array:
    """Latency of an objective at every load. [s]"""
    percent = objective.percentile
    if objective.metric == "ttft":
        if role == "decode":
            late = _late(found, share)
            wait = late.mean(axis=0) if percent is None else np.percentile(late, percent, axis=0)
            return found.tpot_s + wait
        return found.ttft_s if percent is None else found.ttft_percentile(percent)
    if not share.steps:
        return np.zeros(len(SHARES))
    if objective.metric == "e2e":
        if percent is None:
            return found.latency_s
        steps = float(np.percentile(mine.requests.output, percent)) - 1.0
        return found.ttft_s + found.tpot_s * rounds * steps
    handed = role == "decode"
    if percent is not None:
        return found.tpot_percentile(percent, handed=handed) * rounds
    between = found.tpot_s * rounds
    if handed:
        between = between * (1.0 - 1.0 / share.answers[share.answers > 0]).mean()
    return between


def _late(found: Steady, share: RequestMeans) -> Array:
    """Waits for the first step of the decode pool, even over twice their mean. [s]

    A cache that comes while others decode is taken in beside their next step and is in the one
    after.
    """
    waits = np.maximum(found.queue_s - share.request_s, found.tpot_s / 2.0)
    even = (np.arange(WAITS) + 0.5) / WAITS * 2.0
    beside = found.utilisation * found.tpot_s
    late: Array = share.request_s + beside + waits * even[:, None]
    return late
