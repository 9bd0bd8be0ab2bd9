"""Pools of their own: what their curves promise is what they keep when they are simulated whole."""

import shlex
from functools import cache
from statistics import median
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import yaml

from roofline.bench.calibrations import calibration_of
from roofline.cli import run as cli
from roofline.records import replace
from roofline.serving.disaggregated import UNFITTED
from roofline.serving.kv_transfer import transfer
from roofline.serving.objectives import Objective, kept, parse_slo
from roofline.serving.simulate import disaggregated as pooled
from roofline.serving.simulate.prices import step_prices
from roofline.serving.simulate.server import ServerOptions, server_of
from roofline.serving.traffic.draw import draw
from roofline.serving.traffic.lengths import Lognormal
from roofline.serving.traffic.traffic import Poisson, Traffic
from roofline.study.plan.candidate import DeploymentKind
from roofline.study.plan.confirm import run, uncertainty_of
from roofline.study.plan.demand import Demand, Goal
from roofline.study.plan.option import Option, PlanQuestion
from roofline.study.plan.plan import Plan, probes_of
from roofline.study.plan.result import both_pools
from roofline.study.plan.screen import screen
from roofline.study.plan.search import disaggregated
from roofline.study.plan.tabled import Replica, Tables
from tests.serving.deployments import on
from tests.study.plan import cases

RATES = {"llama-3.1-8b": 10.0, "llama-3.1-70b": 3.0}
LAYOUTS = {"llama-3.1-8b": "tp2", "llama-3.1-70b": "tp8"}
LOOSE = parse_slo("ttft_p99=2s,tpot_p99=100ms")


@cache
def answered(mean: float, rate: float, requests: int = 600, seed: int = 5) -> Demand:
    """Chats with answers of a mean length."""
    lengths = (Lognormal.of_mean(800.0, 1000.0, 4000), Lognormal.of_mean(0.6 * mean, mean, 2000))
    traffic = Traffic(*lengths, arrivals=Poisson(10.0), requests=requests)
    return Demand(draw(traffic, seed), 10.0, rate, name=f"answers of {mean:g}")


@cache
def paired(
    model: str, mean: float, limits: tuple[Objective, ...] = LOOSE, rate: float = 0.0
) -> Option:
    """One layout for both phases, with measured kernels and an engine's own costs."""
    bare = cases.kind(model)
    measured = calibration_of("auto", bare.base.node.gpu, "vllm")
    known = DeploymentKind(
        replace(on(model, tp=8), calibration=measured), 3.0, None, bare.uncertainty
    )
    demand = answered(mean, rate or RATES[model])
    made = screen(known, demand, 16)
    candidate = next(each for each in made if each.layout.spelled == LAYOUTS[model])
    tables = Tables(probes_of(limits))
    replica = tables.replica(candidate, demand)
    assert isinstance(replica, Replica)
    (option,) = disaggregated([replica], PlanQuestion(demand, Goal(limits, 16)), tables)
    return option


def whole(option: Option, demand: Demand, objective: Objective) -> float:
    (found,) = kept(run(option, demand, 1.0, Tables(probes_of(LOOSE))).done, [objective])
    return found.value_s


@pytest.mark.slow
@pytest.mark.parametrize("mean", [45.0, 150.0, 400.0])
@pytest.mark.parametrize("model", list(RATES))
def test_time_between_tokens_by_curve_is_that_of_both_pools_together(
    model: str, mean: float
) -> None:
    option = paired(model, mean)
    # Of short answers about one in a hundred has one step: the 99th percentile is theirs or that of
    # two steps, 37 or 47 ms, by chance even of 20,000.
    many = (answered(mean, RATES[model], 20_000, seed) for seed in range(5, 12))
    together = median(whole(option, each, LOOSE[1]) for each in many)
    # What is left is the hand-over, and that a curve is a closed form.
    assert option.seconds("tpot_p99") == pytest.approx(together, rel=0.1)


@pytest.mark.slow
def test_two_pools_of_a_plan_are_served_as_by_the_simulator_itself() -> None:
    option, demand = paired("llama-3.1-8b", 150.0), answered(150.0, RATES["llama-3.1-8b"])
    deployment = option.pools[0].replica.deployment
    server = server_of(deployment, ServerOptions(), demand.requests, None)
    prices = step_prices(deployment, sequences=server.max_sequences, longest=server.longest)
    before, after = (pooled.InstancePool(prices, server, pool.instances) for pool in option.pools)
    wires = pooled.handover(deployment, deployment, round(demand.prompt), "link")
    served = pooled.disaggregated(demand.at(demand.rate), before, after, wires)
    done = run(option, demand, 1.0, Tables(probes_of(LOOSE))).done
    assert done.first_token.tolist() == served.first_token.tolist()
    assert done.finish.tolist() == served.finish.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("model", list(RATES))
def test_time_to_a_first_token_by_curves_is_that_of_both_pools_together(model: str) -> None:
    option = paired(model, 150.0)
    many = (answered(150.0, RATES[model], 20_000, seed) for seed in range(5, 8))
    together = median(whole(option, each, LOOSE[0]) for each in many)
    # Percentiles of the two are added up, and they seldom come together; closed forms beside.
    assert option.seconds("ttft_p99") == pytest.approx(together, rel=0.1)


def test_a_pool_that_prefills_leaves_time_for_the_software_of_the_handover() -> None:
    """Two instances would prefill in time, if a request were handed over at once."""
    limits = parse_slo("ttft_p99=250ms,tpot_p99=100ms")
    option = paired("llama-3.1-8b", 150.0, limits, 60.0)
    assert option.handover_s > option.pools[0].replica.deployment.engine.handover_s > 0.05
    assert option.seconds("ttft_p99") <= 0.25


def test_the_first_token_comes_with_a_step_of_the_decode_pool() -> None:
    seconds = paired("llama-3.1-8b", 150.0).pools[1].curve.seconds
    assert (seconds["ttft_p99"] > seconds["tpot_mean"]).all()


def test_both_pools_of_a_plan_are_written_for_dynamo_by_one_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The command that is printed runs, and its manifest has as many workers as the plan."""
    option = paired("llama-3.1-8b", 150.0)
    alone = SimpleNamespace(kinds=[option.pools[0].kind])
    line = both_pools(cast(Plan, alone), option, {"engine": "vllm", "model": "llama-3.1-8b"})
    assert line.endswith("--for dynamo")
    assert cli(shlex.split(line)[1:]) == 0
    graph = yaml.safe_load(capsys.readouterr().out)
    replicas = {each["type"]: each["replicas"] for each in graph["spec"]["components"]}
    made = {str(pool.role): pool.instances for pool in option.pools}
    assert replicas == dict(made, frontend=1)
    other = {"engine": "trtllm", "model": "llama-3.1-8b"}
    assert both_pools(cast(Plan, alone), option, other) == ""


def test_the_command_of_a_plan_has_its_share_of_memory_and_its_graphs() -> None:
    """A plan without CUDA graphs on four fifths of the memory is started so."""
    option = paired("llama-3.1-8b", 150.0)
    usual = option.pools[0].kind
    options = replace(usual.base.options, cuda_graphs=False)
    kind = replace(usual, utilization=0.8, base=replace(usual.base, options=options))
    pools = tuple(
        replace(pool, replica=replace(pool.replica, candidate=replace(pool.candidate, kind=kind)))
        for pool in option.pools
    )
    alone = cast(Plan, SimpleNamespace(kinds=[kind]))
    given = {"engine": "vllm", "model": "llama-3.1-8b"}
    line = both_pools(alone, replace(option, pools=pools), given)
    assert "--memory-utilization 0.8 --no-cuda-graphs" in line
    plain = both_pools(alone, option, given)
    assert "--memory-utilization" not in plain
    assert "--no-cuda-graphs" not in plain


def test_the_interval_of_pools_in_a_plan_is_as_wide_as_that_of_pools_by_themselves() -> None:
    """Wider than of one pool, as rows of pools were never fitted to; the hand-over has its own."""
    option = paired("llama-3.1-8b", 150.0)
    demand = answered(150.0, RATES["llama-3.1-8b"])
    alone = replace(option.pools[0], role="all")
    known = uncertainty_of(replace(option, wires=None, pools=(alone, option.pools[1])), demand)
    pools = uncertainty_of(option, demand)
    assert pools.step == pytest.approx(UNFITTED * known.step)
    assert pools.first == pytest.approx(UNFITTED * known.first)
    assert option.wires is not None
    ends = [replace(option.wires, software_s=0.0).latency_s, option.wires.within(1.0).latency_s]
    before, after = (pool.replica.deployment for pool in option.pools)
    moved = transfer(before, after, 800, 1, "link")
    shifted = moved.within(1.0).latency_s - moved.latency_s
    assert ends[1] - ends[0] == pytest.approx(shifted)
    question = PlanQuestion(demand, Goal(LOOSE, 16, confidence=0.9))
    kind = option.pools[0].kind
    one, two = (question.slowness(kind, role) for role in ("all", "prefill"))
    assert np.log(two) == pytest.approx(UNFITTED * np.log(one))
