"""An option simulated whole: what users feel, how sure that is, and whether promises hold."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import erf, sqrt
from typing import Final

import numpy as np

from roofline.cost.step import Group
from roofline.cost.work import Array
from roofline.serving.objectives import Kept, Objective, kept
from roofline.serving.rounds import verification
from roofline.serving.stages import Priced, slowest, through
from roofline.serving.static import CENTRAL
from roofline.study.plan.demand import Demand, Goal
from roofline.study.plan.kinds import Doubt
from roofline.study.plan.option import Option
from roofline.study.plan.running import run
from roofline.study.plan.tabled import Replica

NODES: Final = (-2.4, -CENTRAL, -0.6, 0.0, 0.6, CENTRAL, 2.4)
"""Standard deviations of the common error at which runs are simulated."""
FINE: Final = np.linspace(-4.0, 4.0, 801)
"""Those over which a probability is summed; latencies are straight lines between runs, and hold
beyond the last."""


SHORTEST: Final = 2.0**-40
"""In place of a latency that no request has, of which there is no logarithm. [s]"""
MEAN: Final = "tpot_mean"
"""Latency by which the sequences that decode are counted."""


@dataclass(frozen=True, slots=True)
class Promise:
    """A promise in a run.

    Attributes
    ----------
    kept
        Value, share of the requests within the limit, whether it holds.
    low_s, high_s
        Central 80 % of the value; the value itself where nothing is known of errors. [s]
    probability
        That it holds; None where nothing is known of errors. [1]
    """

    kept: Kept
    low_s: float
    high_s: float
    probability: float | None


@dataclass(frozen=True, slots=True)
class Confirmed:
    """An option under the traffic that is asked for, simulated.

    Attributes
    ----------
    option
        What was simulated.
    promises
        Of the goal, and other latencies with no limit, in the order of the probes.
    met
        Whether all promises hold at the traffic that is asked for.
    enough
        Whether they do with the headroom, and without the spares.
    probability
        That all hold; None where nothing is known of errors. [1]
    utilisation
        Share of the time in which devices work. [1]
    step_sd, first_sd
        Log standard deviations of times between tokens, and of that to a first token. [1]
    """

    option: Option
    promises: tuple[Promise, ...] = field(repr=False)
    met: bool
    enough: bool
    probability: float | None
    utilisation: float
    step_sd: float
    first_sd: float

    def seconds(self, name: str) -> Promise:
        """A latency of the run, by name."""
        return next(each for each in self.promises if each.kept.objective.name == name)


def doubt_of(option: Option, demand: Demand) -> Doubt:
    """Errors of an option's times: the larger of what kernels and what the engine leave open.

    Parameters
    ----------
    option, demand
        What runs, and the requests whose means are priced.
    """
    first, last = option.pools[0], option.pools[-1]
    known = first.kind.doubt
    if any(pool.replica.deployment.calibration is None for pool in option.pools):
        return Doubt()
    new = float(demand.new_tokens.mean())
    prefill = slowest(through(first.replica.deployment, Group(1.0, new, demand.prompt)))
    busy = option.rate / last.instances * option.seconds(MEAN) * demand.steps
    batch = float(np.clip(busy, 1.0, last.server.max_sequences))
    decode = _step(last.replica, batch, demand)
    step = max(float(decode.parts.log_sd), known.step)
    return Doubt(step, max(float(prefill.parts.log_sd), known.first, step), known.source)


def _step(replica: Replica, batch: float, demand: Demand) -> Priced:
    """A step that decodes, or one that verifies what was drafted."""
    deployment, speculation = replica.deployment, replica.candidate.kind.speculation
    if speculation is None:
        return slowest(through(deployment, Group(batch, 1.0, demand.context())))
    return verification(deployment, speculation.tree(demand), batch, demand.context() - 1.0)


def confirm(
    option: Option, demand: Demand, goal: Goal, probes: Sequence[Objective], *, sure: bool = True
) -> Confirmed:
    """Simulate an option.

    Parameters
    ----------
    option
        What is to carry the traffic.
    demand
        The traffic, with requests enough for the percentiles of all replicas together.
    goal
        What has to be kept.
    probes
        Latencies to look at.
    sure
        Whether to say how sure it is, which takes some more runs.
    """
    doubt = doubt_of(option, demand)
    zero, probes = NODES.index(0.0), _limits(goal, probes)
    factors = np.exp(np.array(NODES) * doubt.step) if sure and doubt.step else np.ones(1)
    runs = [run(option, demand, float(factor)) for factor in factors]
    found = [kept(each.done, probes) for each in runs]
    middle = zero if len(runs) > 1 else 0
    if len(runs) > 1:
        stable = [each.stable for each in runs]
        promises, probability = _sure(found, stable, doubt, len(goal.promises))
    else:
        promises = tuple(Promise(each, each.value_s, each.value_s, None) for each in found[0])
        probability = None
    met = runs[middle].stable and all(each.met for each in found[middle][: len(goal.promises)])
    return Confirmed(
        option=option,
        promises=promises,
        met=met,
        enough=met and _enough(option, demand, goal),
        probability=probability,
        utilisation=runs[middle].busy,
        step_sd=doubt.step,
        first_sd=doubt.first,
    )


def _limits(goal: Goal, probes: Sequence[Objective]) -> tuple[Objective, ...]:
    """Promises first, then the other probes, which hold whatever they are."""
    promised = {each.name for each in goal.promises}
    others = [replace(each, limit_s=float("inf")) for each in probes if each.name not in promised]
    return (*goal.promises, *others)


def _enough(option: Option, demand: Demand, goal: Goal) -> bool:
    """Whether promises hold with the headroom, and without the spares."""
    if not (goal.headroom or goal.spares):
        return True
    more = replace(demand, rate=demand.rate * (1.0 + goal.headroom))
    worst = run(option.without(goal.spares), more, 1.0)
    return worst.stable and all(each.met for each in kept(worst.done, goal.promises))


def _sure(
    runs: Sequence[tuple[Kept, ...]], stable: Sequence[bool], doubt: Doubt, promised: int
) -> tuple[tuple[Promise, ...], float]:
    """Intervals and probabilities of promises, and that of all of them together.

    One error is common to all steps; what the time to a first token is off by beyond that is
    another, independent one. Both are normal in the logarithm. Source: the sum of the conditional
    probability over the common error.
    """
    own = sqrt(max(doubt.first**2 - doubt.step**2, 0.0))
    nodes, weights = np.array(NODES), np.exp(-(FINE**2) / 2.0)
    weights = weights / weights.sum()
    holds = np.interp(FINE, nodes, np.asarray(stable, float)) >= 1.0
    together: Array = np.ones_like(FINE)
    first: Array = np.ones_like(FINE)
    out = []
    for place, middle in enumerate(runs[NODES.index(0.0)]):
        objective = middle.objective
        logs = np.log([max(run[place].value_s, SHORTEST) for run in runs])
        low, center, high = (logs[NODES.index(z)] for z in (-CENTRAL, 0.0, CENTRAL))
        beside = CENTRAL * own if objective.metric == "ttft" else 0.0
        ends = (-sqrt((center - low) ** 2 + beside**2), sqrt((high - center) ** 2 + beside**2))
        probability = None
        if place < promised:
            margin = np.log(objective.limit_s) - np.interp(FINE, nodes, logs)
            if objective.metric == "ttft" and own:
                chance = np.array([0.5 + erf(x / own / sqrt(2.0)) / 2.0 for x in margin])
                first = np.minimum(first, chance)
            else:
                chance = (margin >= 0.0).astype(float)
                together = together * chance
            probability = float(weights @ (chance * holds))
        value = middle.value_s
        out.append(
            Promise(
                middle, value * float(np.exp(ends[0])), value * float(np.exp(ends[1])), probability
            )
        )
    return tuple(out), float(weights @ (together * first * holds))
