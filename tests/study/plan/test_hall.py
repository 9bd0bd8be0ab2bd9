"""A hall that is filled: its GPUs, its blocks, and ceilings of several GPUs."""

import pytest

from roofline.hardware.carbon import carbon_intensity
from roofline.hardware.catalog import node
from roofline.records import replace
from roofline.serving.facility import Consumption, Facility, consumption
from roofline.serving.running_cost import FigureRange
from roofline.study.plan.demand import Goal
from roofline.study.plan.hall import (
    Ceiling,
    Hall,
    consumers,
    filled,
    halls_table,
    owned_table,
    sentences,
)
from roofline.study.plan.option import Option, PlanQuestion
from roofline.study.plan.search import sized
from tests.study.plan import cases


def hall(gpus: int = 72) -> Hall:
    """A hall of H100 at datasheet rates."""
    ceiling = Ceiling(gpus, "power", "0.1 MW hold")
    return filled([cases.kind()], cases.demand(), Goal(cases.SLO, gpus), ceiling, pools=False)


@pytest.fixture(scope="module")
def full() -> Hall:
    return hall()


@pytest.mark.slow
def test_a_hall_carries_as_many_blocks_as_it_holds(full: Hall) -> None:
    assert full.best is not None
    assert full.best.met
    assert full.blocks == 72 // full.best.option.gpus
    assert full.requests_per_s == full.blocks * full.best.option.rate
    assert full.tokens_per_s == pytest.approx(
        full.requests_per_s * float(cases.demand().requests.output.mean())
    )


@pytest.mark.slow
def test_a_block_is_planned_for_nearly_all_that_it_carries(full: Hall) -> None:
    assert full.best is not None
    option = full.best.option
    each = option.pools[0]
    assert option.rate == pytest.approx(each.carries * each.instances, rel=0.35)
    assert option.rate <= option.saturation


@pytest.mark.slow
def test_the_power_of_a_hall_is_that_of_its_blocks(full: Hall) -> None:
    assert full.best is not None
    facility = Facility(1.25, 0.1, carbon_intensity("fr"))
    one, all_ = (
        {
            row["metric"]: row["value"]
            for row in consumption(consumers(full.best, full.plan.demand, facility, blocks)).rows()
        }
        for blocks in (1, full.blocks)
    )
    assert all_["facility_w"] == pytest.approx(full.blocks * one["facility_w"])
    assert all_["wh_per_mtok"] == pytest.approx(one["wh_per_mtok"])
    assert one["facility_w"] < one["provisioned_w"]
    (row,) = halls_table({"h100-sxm": full}, facility, full).rows()
    assert row["tokens_per_day"] == pytest.approx(full.tokens_per_s * 86_400)
    assert row["provisioned_w"] == pytest.approx(all_["provisioned_w"])
    said = " ".join(sentences(full, facility))
    assert said.startswith("0.1 MW hold 72 GPUs, NVIDIA H100 SXM5 80GB: power binds.")


@pytest.mark.slow
def test_a_hall_in_which_nothing_keeps_the_limits_says_so() -> None:
    tight = tuple(replace(each, limit_s=1e-6) for each in cases.SLO)
    ceiling = Ceiling(4, "budget", "$12.00/h pay for")
    found = filled([cases.kind()], cases.demand(), Goal(tight, 4), ceiling, pools=False)
    assert (found.best, found.blocks, found.tokens_per_s) == (None, 0, 0.0)
    assert "no block of up to 4 of them" in sentences(found, None)[0]


def test_gpus_with_ceilings_of_their_own_share_them() -> None:
    held = {"h100-sxm": 4, "l40s": 40}
    goal = Goal(cases.SLO, 40, held=held)
    assert (goal.most("h100-sxm"), goal.most("l40s"), goal.most("a100-sxm")) == (4, 40, 40)
    asked = PlanQuestion(cases.demand(), goal)
    candidate = next(each for each in cases.candidates() if each.devices == 1)
    replica = cases.tables().replica(candidate, cases.demand())
    assert not isinstance(replica, str)
    pool = sized("all", replica, asked, cases.tables())
    for instances, allowed in ((4, True), (5, False)):
        option = Option((replace(pool, instances=instances),), 1.0)
        assert asked.allowed(option) is allowed
    two = Option((replace(pool, instances=2), replace(pool, instances=3)), 1.0)
    assert not asked.allowed(two)


def test_a_gpu_of_ones_own_by_hand() -> None:
    # 280,512 $ over 4 years of 8 GPUs are 1 $/h; 822.5 W × 1.25 at 0.1 $/kWh are 0.1028 $/h.
    facility = Facility(1.25, 0.1)
    boards = FigureRange(500.0, 400.0, 600.0)
    part = Consumption(facility, node("hgx-h100-8"), boards, 24, 2.0, 100.0)
    # Of two pools of one GPU, 300 W and 633.3 W on a third and two thirds of them are 500 W.
    waits = FigureRange(300.0, 250.0, 350.0)
    works = FigureRange(600.0, 500.0, 700.0)
    other = Consumption(facility, node("hgx-h100-8"), waits, 24, 2.0, 100.0)
    third = Consumption(facility, node("hgx-h100-8"), works, 48, 2.0, 100.0)
    mixed, alone = (owned_table(each, 280_512.0, 4.0).rows() for each in ([other, third], [part]))
    assert next(iter(mixed))["electricity_usd_per_hour"] == pytest.approx(
        next(iter(alone))["electricity_usd_per_hour"], rel=1e-12
    )
    (row,) = owned_table([part, part], 280_512.0, 4.0).rows()
    assert row["depreciation_usd_per_hour"] == pytest.approx(1.0)
    assert row["electricity_usd_per_hour"] == pytest.approx(0.1028125)
    assert row["break_even_share"] == pytest.approx(1.1028125 / 2.99)
