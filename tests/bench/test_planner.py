"""A budget buys every probe and regime, in a fixed order, and a list says what it does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.bench.engine import footprint
from roofline.bench.forms import form_of, least
from roofline.bench.planner import OVERHEAD_S, ProbePlan, plan, seconds, spread
from roofline.bench.probe import points, probes
from roofline.bench.stopping import Stop
from roofline.cost.kernels.form import Machine
from roofline.records import replace
from tests.bench.probes import Clockwork, probe

MACHINE = Machine(1e11, 1e11, 2.0**25, 0.0, 1.0)
STOP = Stop(budget_s=0.05)
SHIPPED = [entry.probe for entry in probes() if "numpy" in entry.probe.backends]


def planned(budget_s: float, memory_bytes: float = 2.0**31) -> ProbePlan:
    backend = Clockwork(cache_bytes=2.0**25, memory_bytes=memory_bytes, span_s=3e-4)
    return plan(SHIPPED, backend, lambda arithmetic: MACHINE, budget_s, STOP)


def test_every_regime_of_every_probe_is_covered() -> None:
    every = {(p.name, point.regime) for p in SHIPPED for point in points(p)}
    assert {(point.probe.name, point.regime) for point in planned(60.0).points} == every


def test_a_plan_covers_regimes_before_it_repeats_one() -> None:
    found = planned(60.0).points
    kinds = [(point.probe.name, point.regime) for point in found]
    first = len(dict.fromkeys(kinds))
    assert len(set(kinds[:first])) == first


@pytest.mark.parametrize("budget_s", [5.0, 30.0, 180.0])
def test_a_plan_keeps_to_its_budget_and_names_everything_it_drops(budget_s: float) -> None:
    found = planned(budget_s)
    assert found.seconds <= budget_s
    names = [point.name for point in found.points] + [d.point.name for d in found.dropped]
    assert sorted(names) == sorted(point.name for p in SHIPPED for point in points(p))
    assert all(dropped.reason for dropped in found.dropped)


def test_a_plan_is_the_same_every_time() -> None:
    assert planned(20.0) == planned(20.0)


def test_more_time_measures_more() -> None:
    counts = [len(planned(budget).points) for budget in (5.0, 20.0, 60.0, 600.0)]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


def test_what_does_not_fit_into_memory_says_so() -> None:
    found = planned(600.0, memory_bytes=2.0**24)
    reasons = {d.point.name: d.reason for d in found.dropped}
    assert reasons["copy size=1073741824 warm"] == "does not fit into memory"


def test_one_dear_point_does_not_end_the_plan() -> None:
    dear = probe(sizes=(64, 2**26, 128, 256))
    backend = Clockwork(cache_bytes=4096.0, memory_bytes=2.0**31)
    slow = Machine(1e11, 1e7, 4096.0, 0.0, 1.0)
    found = plan([dear], backend, lambda arithmetic: slow, 10.0, STOP)
    assert {d.point.at["size"] for d in found.dropped} == {2**26}
    assert {point.at["size"] for point in found.points} == {64, 128, 256}


def test_a_probe_of_another_backend_is_not_planned() -> None:
    backend = Clockwork()
    other = replace(probe(), backends=("cupy",))
    assert plan([other], backend, lambda arithmetic: MACHINE, 10.0, STOP).points == ()


def test_a_point_is_expected_to_take_longer_on_a_slower_machine() -> None:
    point = max(points(probe()), key=lambda p: p.at["size"])
    slow = Machine(1e11, 1e3, 0.0, 0.0, 1.0)
    assert seconds(point, Clockwork(), slow, STOP) > seconds(point, Clockwork(), MACHINE, STOP)


def test_rounds_over_argument_sets_are_counted_where_all_of_them_run() -> None:
    point = next(p for p in points(probe()) if p.state == "cold")
    slow, stop = Machine(1e11, 1e3, 0.0, 0.0, 1.0), Stop(budget_s=0.0)
    alone, rounds = (Clockwork(whole_rounds=whole) for whole in (False, True))
    footing = footprint(point, 4096.0)
    assert footing.sets > 1
    once = seconds(point, alone, slow, stop, footing) - OVERHEAD_S
    assert seconds(point, rounds, slow, stop, footing) - OVERHEAD_S == pytest.approx(
        footing.sets * once
    )


@given(st.integers(min_value=1, max_value=300))
def test_the_order_of_a_queue_is_a_permutation(count: int) -> None:
    assert sorted(spread(count)) == list(range(count))


def test_any_beginning_of_the_order_is_spread_over_everything() -> None:
    for taken in (8, 16, 40):
        places = sorted(spread(100)[:taken])
        gaps = [b - a for a, b in zip([-1, *places], [*places, 100], strict=True)]
        assert max(gaps) <= 3 * 100 / taken


def test_every_probe_can_be_fitted_before_one_is_fitted_better() -> None:
    found = planned(600.0).points
    names = [point.probe.name for point in found]
    few = {
        probe.name: min(
            least(form_of(probe.kind, probe.arithmetic, "numpy")), names.count(probe.name)
        )
        for probe in SHIPPED
    }
    there = {
        name: [place for place, other in enumerate(names) if other == name][count - 1]
        for name, count in few.items()
    }
    assert max(there.values()) < 1.3 * sum(few.values())


def test_what_leaves_the_cache_is_not_planned_as_near() -> None:
    found = planned(600.0)
    near = [point for point in found.points if point.state == "near"]
    assert near
    assert all(footprint(point, 2.0**25).total_bytes <= 2.0**24 for point in near)
    assert "does not stay in the last-level cache" in {d.reason for d in found.dropped}


def test_a_point_may_take_less_where_others_take_most_of_the_time() -> None:
    backend = Clockwork(cache_bytes=2.0**25, memory_bytes=2.0**31, span_s=3e-4)
    free, beset = (
        plan(SHIPPED, backend, lambda arithmetic: MACHINE, 60.0, STOP, lost) for lost in (0.0, 0.8)
    )
    dear = [{d.point.name for d in p.dropped if "too long" in d.reason} for p in (free, beset)]
    assert dear[0] < dear[1]
    assert beset.seconds <= 60.0


def test_compiling_counts_once_for_the_points_that_share_it() -> None:
    built = replace(probe(sizes=(64, 256, 1024)), states=("warm",), build_s=3.0)
    plans = [
        plan([each], Clockwork(), lambda arithmetic: MACHINE, 60.0, STOP)
        for each in (probe(sizes=(64, 256, 1024)), built)
    ]
    assert [len(found.points) for found in plans] == [6, 3]
    each = replace(built, builds=lambda at: at["size"])
    apart = plan([each], Clockwork(), lambda arithmetic: MACHINE, 60.0, STOP)
    assert len(apart.points) == 3
    assert apart.seconds - plans[1].seconds == pytest.approx(6.0)


def test_compiling_takes_a_part_of_a_budget_at_most() -> None:
    dear = replace(probe(sizes=(64, 256)), build_s=10.0, builds=lambda at: at["size"])
    others = probe("other", sizes=(64, 256))
    for budget_s, kinds in ((30.0, 0), (40.0, 1), (100.0, 2)):
        found = plan([dear, others], Clockwork(), lambda arithmetic: MACHINE, budget_s, STOP)
        mine = {point.build for point in found.points if point.probe.name == "toy"}
        assert len(mine) == kinds
        assert [d.reason for d in found.dropped] == ["the budget is spent"] * (2 * (2 - kinds))
        assert sum(point.probe.name == "other" for point in found.points) == 4
