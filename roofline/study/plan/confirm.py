"""An option simulated whole: latencies, their intervals, and whether all limits hold."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import erf, sqrt
from typing import Final

import numpy as np
from msgspec import Struct

from roofline.cost.step import SequenceGroup
from roofline.cost.work import Array
from roofline.records import replace
from roofline.serving.objectives import Attainment, FinishedRequests, after_warmup, kept
from roofline.serving.rounds import verification
from roofline.serving.run.serve import Fleet, serve
from roofline.serving.simulate import disaggregated as pooled
from roofline.serving.stages import PricedStage, price_step, slowest
from roofline.serving.static import CENTRAL
from roofline.study.plan.candidate import PriceUncertainty
from roofline.study.plan.curve import Curve
from roofline.study.plan.demand import Demand, Goal
from roofline.study.plan.option import Option, PlanQuestion, Pool, deviations
from roofline.study.plan.tabled import Replica, Tables, key_of

NODES: Final = (-CENTRAL, 0.0, 0.6, CENTRAL, 2.4)
"""Standard deviations of the common error at which runs are simulated. [1]"""
FINE: Final = np.linspace(-4.0, 4.0, 801)
"""Standard deviations over which a probability is summed; logarithms of latencies are straight
lines between runs, and hold beyond the last. [1]"""
NEAR: Final = 1.06
"""Latency over its limit up to which an estimate of steps does not decide. [1]"""
LEAST: Final = 0.1
"""Factor on what load adds to a latency by which a run corrects a curve at least. [1]"""
NEXT: Final = 0.99
"""Share of a load that was not carried to which a curve is moved. [1]"""
SHORTEST: Final = 2.0**-40
"""Substitute for a latency that no request has, of which there is no logarithm. [s]"""
MEAN: Final = "tpot_mean"
"""Name of the latency by which the sequences that decode are counted."""


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """One simulation."""

    done: FinishedRequests = field(repr=False)
    """Requests that count."""
    stable: bool
    """True if all pools serve more than comes."""
    busy: float
    """Share of the time in which devices work, mean of all. [1]"""


def run(
    option: Option,
    demand: Demand,
    factor: float,
    tables: Tables,
    *,
    at: float = 0.0,
    closely: bool = True,
) -> SimulatedRun:
    """Serve a demand at its rate on devices slower by a factor, handed over at a deviation. [1] [1]

    Steps are tabulated closely, or taken from the estimate of the layout.
    """
    tables.budget.used += 1
    fleets = [
        pool.replica.fleet(pool.server, demand, factor, pool.instances, closely=closely)
        for pool in option.pools
    ]
    stable = demand.rate < option.saturation / factor
    wires = option.wires and option.wires.within(at)
    done, busy = _two(option, demand, fleets, wires) if wires else _one(demand, fleets[0])
    return SimulatedRun(after_warmup(done, demand.warmup), stable, busy)


def _one(demand: Demand, fleet: Fleet) -> tuple[FinishedRequests, float]:
    served = serve(fleet, demand.at(demand.rate))
    return served, served.totals.busy_s / (served.totals.makespan_s * fleet.replicas)


def _two(
    option: Option, demand: Demand, fleets: list[Fleet], wires: pooled.Handover
) -> tuple[FinishedRequests, float]:
    before, after = (
        pooled.InstancePool(each.prices, each.server, each.replicas) for each in fleets
    )
    coming, drafting = demand.at(demand.rate), fleets[-1].drafting
    if drafting is not None:
        coming = drafting.in_rounds(coming)
    served = pooled.disaggregated(coming, before, after, wires)
    span = float(served.finish.max() - served.arrival.min())
    busy = sum(
        each.totals.busy_s * pool.candidate.devices
        for pool, every in zip(option.pools, (served.prefill, served.decode), strict=True)
        for each in every
    )
    done = FinishedRequests(
        served.arrival,
        served.arrival,
        served.first_token,
        served.finish,
        served.prompt,
        demand.requests.output,
    )
    return done, busy / (span * option.gpus)


class ObjectiveResult(Struct, frozen=True):
    """An objective in a run."""

    kept: Attainment
    """Value, share of the requests within the limit, whether it holds."""
    low_s: float
    high_s: float
    """Central 80 % of the value; the value itself where nothing is known of errors. [s]"""
    probability: float | None
    """Probability that it holds; None where nothing is known of errors. [1]"""


@dataclass(frozen=True, slots=True)
class SimulatedOption:
    """An option under the traffic that is asked for, simulated."""

    option: Option
    """Pools that were simulated."""
    objectives: tuple[ObjectiveResult, ...] = field(repr=False)
    """Objectives of the goal, and other latencies without a limit, in the order of the probes."""
    met: bool
    """True if all limits hold at the traffic that is asked for."""
    enough: bool
    """True if they do with the headroom, without the spares, and with the confidence."""
    probability: float | None
    """Probability that all hold; None where nothing is known of errors. [1]"""
    utilisation: float
    """Share of the time in which devices work. [1]"""
    step_sd: float
    """Log standard deviation of times between tokens; 0 where no interval was asked for. [1]"""

    def seconds(self, name: str) -> ObjectiveResult:
        """Latency of the run, by name."""
        return next(each for each in self.objectives if each.kept.objective.name == name)


def uncertainty_of(option: Option, demand: Demand) -> PriceUncertainty:
    """Errors of an option's times: the larger of what kernels and what the engine leave open."""
    first, last = option.pools[0], option.pools[-1]
    known = first.kind.uncertainty
    if any(pool.replica.deployment.calibration is None for pool in option.pools):
        return PriceUncertainty()
    new = float(demand.new_tokens.mean())
    prefill = slowest(price_step(first.replica.deployment, SequenceGroup(1.0, new, demand.prompt)))
    busy = option.rate / last.instances * option.seconds(MEAN) * demand.steps
    batch = float(np.clip(busy, 1.0, last.server.max_sequences))
    decode = _step(last.replica, batch, demand)
    step = max(float(decode.parts.log_sd), known.step)
    first_sd = max(float(prefill.parts.log_sd), known.first, step)
    return PriceUncertainty(step, first_sd, known.source).of(first.role)


def _step(replica: Replica, batch: float, demand: Demand) -> PricedStage:
    """Step that decodes, or one that verifies what was drafted."""
    deployment, speculation = replica.deployment, replica.candidate.kind.speculation
    if speculation is None:
        return slowest(price_step(deployment, SequenceGroup(batch, 1.0, demand.mean_context)))
    return verification(deployment, speculation.tree(demand), batch, demand.mean_context - 1.0)


def confirm(
    option: Option, question: PlanQuestion, tables: Tables, *, interval: bool = True
) -> SimulatedOption:
    """Simulate an option: with some more runs for intervals, or without."""
    demand, goal = question.demand, question.goal
    known = uncertainty_of(option, demand) if interval else PriceUncertainty()
    limited = {each.name for each in goal.objectives}
    # The other probes hold whatever they are.
    others = (each for each in tables.probes if each.name not in limited)
    limits = (*goal.objectives, *(replace(each, limit_s=float("inf")) for each in others))
    nodes = NODES if known.step else (0.0,)
    factors = [float(np.exp(at * known.step)) for at in nodes]
    runs = [
        run(option, demand, factor, tables, at=at)
        for at, factor in zip(nodes, factors, strict=True)
    ]
    found = [kept(each.done, limits) for each in runs]
    middle, number = nodes.index(0.0), len(goal.objectives)
    probability = None
    if len(runs) > 1:
        stable = [each.stable for each in runs]
        results, probability = probabilities(found, stable, known, number)
    else:
        results = tuple(
            ObjectiveResult(each, each.value_s, each.value_s, None) for each in found[0]
        )
    met = runs[middle].stable and all(each.met for each in found[middle][:number])
    sure = probability is None or probability >= goal.confidence
    return SimulatedOption(
        option=option,
        objectives=results,
        met=met,
        enough=met and sure and _enough(option, demand, goal, tables),
        probability=probability,
        utilisation=runs[middle].busy,
        step_sd=known.step,
    )


def holds(option: Option, question: PlanQuestion, tables: Tables, *, closely: bool = False) -> bool:
    """True if all limits hold in one run: with the headroom, the confidence, without the spares.

    Curves of the pools are corrected by it. Unless asked otherwise, steps are those of the layout's
    estimate, and tabulated closely only where a limit is near.
    """
    goal, kind = question.goal, option.kind
    more = replace(question.demand, rate=question.demand.rate * (1.0 + goal.headroom))
    worst, role = option.without(goal.spares), option.pools[0].role
    limits, slowness = question.objectives(kind, role), question.slowness(kind, role)
    at = deviations(goal.confidence)
    if not all(pool.instances > 0 for pool in worst.pools):
        return False

    def strain(closely: bool) -> float:
        """Largest latency over its limit. [1]"""
        done = run(worst, more, slowness, tables, at=at, closely=closely)
        found = kept(done.done, limits)
        held = done.stable and all(each.met for each in found)
        _correct(worst, question, more.rate, found, tables, held=held)
        if not done.stable:
            return np.inf
        return max((each.value_s / each.objective.limit_s for each in found), default=0.0)

    known = closely or all(pool.replica.tabulated for pool in option.pools)
    found = strain(known)
    if not known and 1.0 < found <= NEAR and tables.budget.left:
        found = strain(True)
    return found <= 1.0


def _correct(
    option: Option,
    question: PlanQuestion,
    rate: float,
    found: Sequence[Attainment],
    tables: Tables,
    *,
    held: bool,
) -> None:
    """Correct curves by a run of an option at a rate: what load adds, else the load itself."""
    tight = option.tightest
    for pool in option.pools:
        place = (key_of(pool.candidate), pool.role, pool.server)
        load = rate / pool.instances
        factors = tables.factors.setdefault(place, {})

        def now(pool: Pool = pool) -> Curve:
            factor = question.slowness(pool.kind, pool.role)
            demand = question.demand
            return tables.curve(pool.role, pool.replica, pool.server, demand, factor)

        curve, elsewhere = now(), option.elsewhere(pool)
        for each in found:
            name = each.objective.name
            if (each.objective.metric == "ttft") != (pool.role == "prefill") and option.wires:
                continue
            added = curve.at(name, load) - float(curve.seconds[name][0])
            if added > 0.0:
                own = each.value_s - elsewhere.get(name, 0.0)
                real = max(own - float(curve.seconds[name][0]), 0.0)
                factor = factors.get(name, 1.0) * min(max(real / added, LEAST), 1.0 / LEAST)
                factors[name] = factor
        if pool is not tight:
            continue
        carries, _ = now().carries(question.beside(elsewhere).objectives(pool.kind, pool.role))
        share = tables.shares.get(place, 1.0)
        if held and carries < load:
            tables.shares[place] = share * (load / carries if carries else 1.0)
        elif not held and carries >= load:
            tables.shares[place] = share * NEXT * load / carries


def _enough(option: Option, demand: Demand, goal: Goal, tables: Tables) -> bool:
    """True if limits hold with the headroom, and without the spares."""
    if not (goal.headroom or goal.spares):
        return True
    more = replace(demand, rate=demand.rate * (1.0 + goal.headroom))
    worst = run(option.without(goal.spares), more, 1.0, tables)
    return worst.stable and all(each.met for each in kept(worst.done, goal.objectives))


def probabilities(
    runs: Sequence[tuple[Attainment, ...]],
    stable: Sequence[bool],
    known: PriceUncertainty,
    limited: int,
) -> tuple[tuple[ObjectiveResult, ...], float]:
    """Intervals and probabilities of objectives, and the probability of all of them together. [1]

    One error is common to all steps; what the time to a first token is off by beyond that is
    another, independent one. Both are normal in the logarithm. Source: the sum of the conditional
    probability over the common error.

    Args:
        runs, stable: Objectives and whether queues were stable, at each of `NODES`.
        limited: Objectives that have limits: the first ones. [1]
    """
    own = sqrt(max(known.first**2 - known.step**2, 0.0))
    nodes, weights = np.array(NODES), np.exp(-(FINE**2) / 2.0)
    weights = weights / weights.sum()
    holds = np.interp(FINE, nodes, np.asarray(stable, float)) >= 1.0
    together: Array = np.ones_like(FINE)
    first: Array = np.ones_like(FINE)
    out: list[ObjectiveResult] = []
    for place, middle in enumerate(runs[NODES.index(0.0)]):
        objective = middle.objective
        logs = np.log([max(run[place].value_s, SHORTEST) for run in runs])
        low, center, high = (logs[NODES.index(z)] for z in (-CENTRAL, 0.0, CENTRAL))
        beside = CENTRAL * own if objective.metric == "ttft" else 0.0
        ends = (-sqrt((center - low) ** 2 + beside**2), sqrt((high - center) ** 2 + beside**2))
        probability = None
        if place < limited:
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
            ObjectiveResult(
                middle, value * float(np.exp(ends[0])), value * float(np.exp(ends[1])), probability
            )
        )
    return tuple(out), float(weights @ (together * first * holds))
