"""An unmeasured figure is a bound: planned apart, and never recommended over a forecast."""

from functools import cache

import pytest

from roofline.bench.calibrations import calibration_of
from roofline.records import replace
from roofline.serving.objectives import parse_slo
from roofline.study.plan.candidate import DeploymentKind
from roofline.study.plan.demand import Goal
from roofline.study.plan.plan import Plan, plan
from roofline.study.plan.relaxations import relaxations
from roofline.study.plan.result import result_of
from roofline.table import Result
from tests.study.plan import cases

TIGHT = parse_slo("tpot_mean=4ms")
"""Between what an H100 was measured to need alone and what published rates of a B200 allow."""


def measured() -> DeploymentKind:
    """The usual kind, priced by measured kernels."""
    bare = cases.kind()
    gpu = bare.base.node.gpu
    return replace(bare, base=replace(bare.base, calibration=calibration_of("auto", gpu, "vllm")))


@cache
def planned(*kinds: str, slo: str = "usual", rate: float = 20.0) -> Plan:
    some = {"measured": measured(), "bare": cases.kind(device="b200-sxm", usd=0.01)}
    goal = Goal(TIGHT, 1) if slo == "tight" else Goal(cases.SLO, 2)
    return plan([some[name] for name in kinds], cases.demand(rate), goal, pools=False)


def told(made: Plan) -> Result:
    given = {"engine": "ideal"}
    return result_of(made, lambda gpus, weights: made.compared, given=given, pools=False)


@pytest.mark.slow
def test_a_cheaper_bound_is_not_recommended() -> None:
    made, alone = planned("measured", "bare"), planned("measured")
    assert made.best is not None
    assert alone.best is not None
    assert made.best.option.layout == alone.best.option.layout
    assert made.best.option.gpus == alone.best.option.gpus
    assert made.best.option.kind.gpu == "h100-sxm"
    assert made.bounds is not None
    assert made.bounds.best is not None
    assert made.bounds.best.option.usd_per_hour < made.best.option.usd_per_hour


@pytest.mark.slow
def test_no_table_ranks_a_bound_among_forecasts() -> None:
    result = told(planned("measured", "bare"))
    for name in ("verdict", "runners_up", "frontier", "gpus_by_rate"):
        assert {row["gpu"] for row in result.tables[name].rows()} <= {"h100-sxm"}, name
    assert set(result.tables["verdict"]["gpu"]) == {"h100-sxm"}
    for end in ("low", "high"):
        assert set(result.tables["sensitivity"][f"gpu_{end}"]) <= {"h100-sxm", ""}
    assert set(result.tables["bounds"]["gpu"]) == {"b200-sxm"}
    statuses = {(row["gpu"], row["status"]) for row in result.tables["candidates"].rows()}
    assert ("b200-sxm", "bound") in statuses
    assert ("b200-sxm", "chosen") not in statuses
    assert result.metadata["basis"] == "interpolated"
    assert any(line.startswith("Not ranked: NVIDIA B200") for line in result.metadata["summary"])


@pytest.mark.slow
def test_where_all_are_bounds_the_cheapest_of_them_is_recommended() -> None:
    made = planned("bare")
    assert made.best is not None
    assert made.bounds is None
    result = told(made)
    assert "bounds" not in result.tables
    assert result.metadata["basis"] == "datasheet"


def test_where_nothing_measured_is_enough_a_bound_is_told_as_one() -> None:
    assert planned("measured", slo="tight", rate=1.0).best is None
    made = planned("measured", "bare", slo="tight", rate=1.0)
    assert made.best is not None
    assert made.best.option.kind.gpu == "b200-sxm"
    assert any("is a bound" in line for line in told(made).metadata["summary"])
    # And of what was measured it says why it is not enough.
    assert {name for name, _ in made.found.dropped} | {
        option.kind.name for option in made.found.short
    } >= {cases.kind().name}


@pytest.mark.slow
def test_relaxations_are_of_what_was_measured_where_there_are_any() -> None:
    goal = Goal(cases.SLO, 1)
    bare = cases.kind(device="b200-sxm", usd=0.01)
    made = plan([measured(), bare], cases.demand(400.0), goal, pools=False)
    assert made.best is None
    found = relaxations(made, lambda gpus, weights: made.compared if weights is None else ())
    assert found
    assert {each.option.kind.gpu for each in found} == {"h100-sxm"}


@pytest.mark.slow
def test_who_asks_for_confidence_is_recommended_no_bound() -> None:
    bare = cases.kind(device="b200-sxm", usd=0.01)
    for limits, number in ((cases.SLO, 2), (TIGHT, 1)):
        goal = Goal(limits, number, confidence=0.6)
        made = plan([measured(), bare], cases.demand(1.0), goal, pools=False)
        assert made.bounds is not None
        assert made.bounds.best is not None
        if limits is TIGHT:
            assert made.best is None
            continue
        assert made.best is not None
        assert made.best.option.kind.gpu == "h100-sxm"
        assert made.best.probability is not None
        assert made.best.probability >= 0.6
