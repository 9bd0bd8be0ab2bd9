"""A small plan: one network, few devices, datasheet rates, few requests; made once a session."""

from functools import cache

import numpy as np

from roofline.records import replace
from roofline.serving.objectives import Objective, parse_slo
from roofline.serving.requests import requests
from roofline.serving.traffic.draw import draw
from roofline.serving.traffic.lengths import Lognormal
from roofline.serving.traffic.traffic import Poisson, Traffic
from roofline.study.plan.candidate import Candidate, DeploymentKind, PriceUncertainty
from roofline.study.plan.demand import Demand, Goal
from roofline.study.plan.option import PlanQuestion
from roofline.study.plan.plan import probes_of
from roofline.study.plan.screen import screen
from roofline.study.plan.tabled import Tables
from tests.serving.deployments import on

GPUS = 8
SLO = parse_slo("ttft_p99=200ms,tpot_p99=20ms")


@cache
def demand(rate: float = 20.0) -> Demand:
    """Chats, drawn once and sent faster or slower."""
    lengths = (Lognormal.of_mean(800.0, 1000.0, 4000), Lognormal.of_mean(100.0, 150.0, 600))
    traffic = Traffic(*lengths, arrivals=Poisson(10.0), requests=600)
    return Demand(draw(traffic, 5), 10.0, rate, name="chats")


@cache
def kind(model: str = "llama-3.1-8b", device: str = "h100-sxm", usd: float = 3.0) -> DeploymentKind:
    """A network on devices of a node of eight."""
    return DeploymentKind(on(model, device, tp=8), usd, None, PriceUncertainty(0.1, 0.3, "made up"))


@cache
def candidates(model: str = "llama-3.1-8b", device: str = "h100-sxm") -> tuple[Candidate, ...]:
    """Every layout on up to eight devices."""
    return screen(kind(model, device), demand(), GPUS)


@cache
def tables(model: str = "llama-3.1-8b") -> Tables:
    """Curves of any test."""
    return Tables(probes_of(SLO))


def question(
    rate: float = 20.0,
    slo: tuple[Objective, ...] = SLO,
    *,
    gpus: int = GPUS,
    headroom: float = 0.0,
    spares: int = 0,
) -> PlanQuestion:
    """Traffic that is planned for."""
    return PlanQuestion(demand(rate), Goal(slo, gpus, headroom, spares))


def looser(factor: float) -> tuple[Objective, ...]:
    """Limits so many times as high."""
    return tuple(replace(each, limit_s=each.limit_s * factor) for each in SLO)


def even(rate: float, number: int, prompt: int, output: int) -> Demand:
    """Requests of one length at equal gaps."""
    arrival = np.arange(number) / rate
    return Demand(requests(arrival, prompt, output), rate, rate, name=f"even {prompt} {output}")
