"""Advice of a plan: what it recommends to a buyer, what it shows beside, what lifts a refusal."""

from functools import cache

import pytest

import roofline
from roofline.bench.calibrations import calibration_of
from roofline.records import replace
from roofline.serving.objectives import parse_slo
from roofline.study.plan.candidate import DeploymentKind
from roofline.study.plan.choose import PLAIN
from roofline.study.plan.demand import Goal
from roofline.study.plan.option import CHEAPER
from roofline.study.plan.plan import Plan, plan
from roofline.study.plan.relaxations import relaxations
from roofline.study.plan.result import result_of
from roofline.study.plan.tabled import RUNS
from roofline.table import Result
from tests.study.plan import cases

IMPOSSIBLE = parse_slo("ttft_p99=2ms,tpot_p99=0.1ms")


def measured() -> DeploymentKind:
    bare = cases.kind()
    gpu = bare.base.node.gpu
    return replace(bare, base=replace(bare.base, calibration=calibration_of("auto", gpu, "vllm")))


@cache
def planned(rate: float = 40.0, confidence: float = 0.9) -> Plan:
    goal = Goal(cases.looser(2.0), cases.GPUS, confidence=confidence)
    return plan([measured()], cases.demand(rate), goal)


@cache
def told(rate: float = 40.0) -> Result:
    made = planned(rate)
    return result_of(made, lambda gpus, weights: (), given={"engine": "vllm", "model": "any"})


@pytest.mark.slow
def test_what_is_recommended_keeps_the_confidence_asked_for() -> None:
    made = planned()
    assert made.best is not None
    assert made.best.probability is not None
    assert made.best.probability >= 0.9
    loose = planned(confidence=0.0)
    assert loose.best is not None
    assert loose.best.option.usd_per_hour <= made.best.option.usd_per_hour


@pytest.mark.slow
def test_a_plan_runs_few_simulations() -> None:
    assert 0 < told().metadata["simulated"] <= RUNS


@pytest.mark.slow
def test_one_deployment_has_the_same_figures_wherever_it_is_shown() -> None:
    result = told()
    (verdict,) = result.tables["verdict"].rows()
    every = [verdict, *result.tables["runners_up"].rows()]
    frontier = list(result.tables["frontier"].rows())
    names = ("gpus", "usd_per_hour", "ttft_s", "tpot_s", "capacity_per_s")
    for row in frontier:
        for other in every:
            if (row["shape"], row["max_sequences"]) == (other["shape"], other["max_sequences"]):
                assert all(row[name] == other[name] for name in names)
    (asked,) = (row for row in result.tables["gpus_by_rate"].rows() if row["asked"])
    assert asked["shape"] == verdict["shape"]
    if asked["rate_to_per_s"] > verdict["rate_per_s"]:
        assert asked["rate_to_per_s"] <= verdict["capacity_per_s"]
    (level,) = (row for row in result.tables["confidences"].rows() if row["asked"])
    assert (level["shape"], level["confidence"]) == (verdict["shape"], 0.9)


@pytest.mark.slow
def test_anything_unusual_is_so_much_cheaper_or_not_recommended() -> None:
    for rate in (10.0, 40.0, 80.0):
        made = planned(rate)
        if made.best is None or made.choice.plain is None:
            continue
        plain, best = made.choice.plain, made.best.option
        assert plain.usual
        if not best.usual:
            assert best.usd_per_hour <= plain.usd_per_hour * (1.0 - CHEAPER)
            result = told(rate)
            assert any("one pool inside nodes" in why for why in result.tables["runners_up"]["why"])
            assert any(line.startswith("One pool inside") for line in result.metadata["summary"])


@pytest.mark.slow
def test_the_plain_deployment_is_of_one_size_in_the_summary_and_in_its_table() -> None:
    """One across nodes is recommended here; the plain one grew when it was simulated whole."""
    result = roofline.plan(
        "llama-3.1-70b", gpu="h100-sxm", gpus=32, rate=20.0, slo="ttft=500ms,tpot=40ms"
    )
    (row,) = (each for each in result.tables["runners_up"].rows() if PLAIN in each["why"])
    (line,) = (each for each in result.metadata["summary"] if each.startswith("One pool inside"))
    assert f", {row['shape']}, takes {row['gpus']} GPUs" in line


@pytest.mark.slow
def test_confidence_costs_more_and_more() -> None:
    rows = list(told().tables["confidences"].rows())
    assert [row["confidence"] for row in rows] == [0.5, 0.75, 0.9, 0.95, 0.99]
    prices = [row["usd_per_hour"] for row in rows if row["usd_per_hour"] is not None]
    assert prices == sorted(prices)


def test_an_impossible_slo_is_refused_by_bounds_alone() -> None:
    made = plan([measured()], cases.demand(5.0), Goal(IMPOSSIBLE, cases.GPUS, confidence=0.9))
    assert made.best is None
    assert not made.tables.curves
    assert made.tables.budget.used == 0
    assert all("limit is" in reason for reason in made.found.dropped.values())


@pytest.mark.slow
def test_an_impossible_slo_comes_with_one_that_is_kept() -> None:
    goal = Goal(IMPOSSIBLE, cases.GPUS, confidence=0.9)
    made = plan([measured()], cases.demand(5.0), goal)
    found = relaxations(made, lambda gpus, weights: ())
    (looser,) = (each for each in found if each.asked.startswith("`slo="))
    asked = replace(goal, objectives=parse_slo(looser.asked[len("`slo=") : -1]))
    again = plan([measured()], cases.demand(5.0), asked, pools=False)
    assert again.best is not None
