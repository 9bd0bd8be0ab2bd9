"""An option in simulation, all of its pools together."""

from dataclasses import dataclass, field

from roofline.serving.objectives import Finished, counted
from roofline.serving.run.result import finished
from roofline.serving.run.serve import Fleet, saturation, serve
from roofline.serving.simulate import disaggregated as pooled
from roofline.study.plan.demand import Demand
from roofline.study.plan.kinds import paced
from roofline.study.plan.option import Option


@dataclass(frozen=True, slots=True)
class Ran:
    """A run.

    Attributes
    ----------
    done
        Requests that count.
    stable
        Whether all pools serve more than comes.
    busy
        Share of the time in which devices work, mean of all. [1]
    """

    done: Finished = field(repr=False)
    stable: bool
    busy: float


def run(option: Option, demand: Demand, factor: float) -> Ran:
    """Serve a demand at its rate.

    Parameters
    ----------
    option
        Who serves.
    demand
        What comes.
    factor
        On the time of all devices. [1]
    """
    return _one(option, demand, factor) if option.wires is None else _two(option, demand, factor)


def _one(option: Option, demand: Demand, factor: float) -> Ran:
    (pool,) = option.pools
    fleet = Fleet(paced(pool.replica.prices, factor), pool.server, pool.instances)
    served = serve(fleet, demand.at(demand.rate))
    return Ran(
        counted(finished(served), demand.warmup),
        demand.rate < saturation(fleet, demand.requests),
        served.totals.busy_s / (served.totals.makespan_s * pool.instances),
    )


def _two(option: Option, demand: Demand, factor: float) -> Ran:
    assert option.wires is not None, "pools without wires"
    before, after = (
        pooled.Pool(paced(pool.replica.prices, factor), pool.server, pool.instances)
        for pool in option.pools
    )
    served = pooled.disaggregated(demand.at(demand.rate), before, after, option.wires)
    answers = demand.answers()
    share = len(answers.requests) / len(demand.requests)
    first = Fleet(before.prices, before.server, before.instances)
    last = Fleet(after.prices, after.server, after.instances)
    limit = min(
        saturation(first, demand.prompts().requests),
        saturation(last, answers.requests, transferred=True) / share,
    )
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
        served.output,
    )
    return Ran(counted(done, demand.warmup), demand.rate < limit, busy / (span * option.gpus))
