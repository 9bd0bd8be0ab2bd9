"""An option in simulation, all of its pools together."""

from dataclasses import dataclass, field

from roofline.serving.objectives import Finished, counted
from roofline.serving.run.result import finished
from roofline.serving.run.serve import saturation, serve
from roofline.serving.simulate import disaggregated as pooled
from roofline.serving.simulate.drafting import in_rounds
from roofline.study.plan.demand import Demand
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
    fleet = pool.replica.fleet(pool.server, demand, factor, pool.instances)
    served = serve(fleet, demand.at(demand.rate))
    return Ran(
        counted(finished(served), demand.warmup),
        demand.rate < saturation(fleet, demand.requests),
        served.totals.busy_s / (served.totals.makespan_s * pool.instances),
    )


def _two(option: Option, demand: Demand, factor: float) -> Ran:
    assert option.wires is not None, "pools without wires"
    first, last = (
        pool.replica.fleet(pool.server, demand, factor, pool.instances) for pool in option.pools
    )
    before, after = (pooled.Pool(each.prices, each.server, each.replicas) for each in (first, last))
    coming = demand.at(demand.rate)
    if last.drafting is not None:
        coming = in_rounds(coming, last.drafting)
    served = pooled.disaggregated(coming, before, after, option.wires)
    answers = demand.answers()
    share = len(answers.requests) / len(demand.requests)
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
        demand.requests.output,
    )
    return Ran(counted(done, demand.warmup), demand.rate < limit, busy / (span * option.gpus))
