"""An option in simulation, all of its pools together."""

from dataclasses import dataclass, field

from roofline.serving.objectives import Finished, counted
from roofline.serving.run.result import finished
from roofline.serving.run.serve import Fleet, serve
from roofline.serving.simulate import disaggregated as pooled
from roofline.serving.simulate.drafting import in_rounds
from roofline.study.plan.demand import Demand
from roofline.study.plan.option import Option
from roofline.study.plan.tabled import Tables


@dataclass(frozen=True, slots=True)
class Run:
    """One simulation."""

    done: Finished = field(repr=False)
    """Requests that count."""
    stable: bool
    """Whether all pools serve more than comes."""
    busy: float
    """Share of the time in which devices work, mean of all. [1]"""


def run(
    option: Option, demand: Demand, factor: float, tables: Tables, *, closely: bool = True
) -> Run:
    """Serve a demand at its rate.

    Args:
        factor: On the time of all devices. [1]
        closely: Whether steps are tabulated closely; else by the estimate of the layout.
    """
    tables.budget.used += 1
    fleets = [
        pool.replica.fleet(pool.server, demand, factor, pool.instances, closely=closely)
        for pool in option.pools
    ]
    stable = demand.rate < option.saturation / factor
    done, busy = _two(option, demand, fleets) if option.wires else _one(demand, fleets[0])
    return Run(counted(done, demand.warmup), stable, busy)


def _one(demand: Demand, fleet: Fleet) -> tuple[Finished, float]:
    served = serve(fleet, demand.at(demand.rate))
    return finished(served), served.totals.busy_s / (served.totals.makespan_s * fleet.replicas)


def _two(option: Option, demand: Demand, fleets: list[Fleet]) -> tuple[Finished, float]:
    assert option.wires is not None, "pools without an interconnect"
    before, after = (pooled.Pool(each.prices, each.server, each.replicas) for each in fleets)
    coming, drafting = demand.at(demand.rate), fleets[-1].drafting
    if drafting is not None:
        coming = in_rounds(coming, drafting)
    served = pooled.disaggregated(coming, before, after, option.wires)
    span = float(served.finish.max() - served.arrival.min())
    busy = sum(
        each.totals.busy_s * pool.candidate.devices
        for pool, every in zip(option.pools, (served.prefill, served.decode), strict=True)
        for each in every
    )
    done = Finished(
        served.arrival,
        served.arrival,
        served.first_token,
        served.finish,
        served.prompt,
        demand.requests.output,
    )
    return done, busy / (span * option.gpus)
