"""Instances that decode with a pool of feed-forward parts, as candidates of a plan."""

from functools import cache
from typing import Any

import numpy as np
import pytest

import roofline
from roofline.errors import InputError
from roofline.serving.static import static_batch
from roofline.serving.workload import Workload
from roofline.study.plan.by_length import by_length
from roofline.study.plan.candidate import Candidate
from roofline.study.plan.demand import Goal
from roofline.study.plan.ffn_pools import KEPT, fed_candidates
from roofline.study.plan.hall import Ceiling, filled
from roofline.study.plan.option import PlanQuestion
from roofline.study.plan.plan import plan, probes_of
from roofline.study.plan.search import disaggregated
from roofline.study.plan.tabled import Replica, Tables
from tests.study.plan import cases

MODEL = "qwen3-30b-a3b"


@cache
def fed() -> tuple[Candidate, ...]:
    return fed_candidates(cases.kind(MODEL), cases.demand(), 8, 0.05)


@pytest.mark.slow
def test_candidates_have_both_pools_within_the_devices() -> None:
    assert 0 < len(fed()) <= KEPT
    for each in fed():
        assert each.ffn is not None
        assert each.devices == int(each.layout.devices + each.ffn.layout.devices) <= 8
        assert each.spelled == f"{each.layout.spelled} + {each.ffn.layout.spelled}"
        assert not each.usual
        assert each.tokens >= cases.demand().longest


def test_estimates_are_the_price_of_a_static_batch() -> None:
    for each in fed():
        prices, batch = each.estimate, 4 * int(each.layout.dp)
        assert prices is not None
        one = static_batch(each.deployed(), Workload(batch, 1023, 2))
        row = prices.decode_s[np.searchsorted(prices.batches, batch)]
        assert abs(np.interp(1024.0, prices.contexts, row) / one.tpot_s - 1.0) < 0.005


def test_they_decode_beside_replicas_that_prefill() -> None:
    question = PlanQuestion(cases.demand(), Goal(cases.SLO, 16))
    tables = Tables(probes_of(cases.SLO))
    whole = [each for each in cases.candidates(MODEL) if each.spelled == "tp2"]
    made = [tables.replica(each, question.demand) for each in (*whole, *fed())]
    able = [each for each in made if isinstance(each, Replica)]
    (option,) = disaggregated(able[:1], question, tables, able[1:])
    before, after = option.pools
    assert (before.role, before.candidate.spelled) == ("prefill", "tp2")
    assert after.candidate.ffn is not None
    assert option.gpus == before.instances * 2 + after.instances * after.candidate.devices


@pytest.mark.slow
def test_a_plan_tries_them_only_where_it_is_asked_to() -> None:
    goal = Goal(cases.SLO, 16)
    plain = plan((cases.kind(MODEL),), cases.demand(), goal)
    asked = plan((cases.kind(MODEL),), cases.demand(), goal, ffn=True)
    assert not any(each.ffn for each in plain.candidates)
    assert any(each.ffn for each in asked.candidates)
    assert len(asked.pooled) > len(plain.pooled)
    assert asked.best is not None
    assert plain.best is not None
    # What else is tried never makes a plan dearer.
    question = asked.question
    assert question.cost(asked.best.option) <= question.cost(plain.best.option)


@pytest.mark.slow
def test_halls_and_pools_by_length_try_them_too() -> None:
    kinds, goal = (cases.kind(MODEL),), Goal(cases.SLO, 16)
    hall = filled(kinds, cases.demand(), goal, Ceiling(16, "gpus", "16 allow"), ffn=True)
    splits = by_length(kinds, cases.demand(), goal, ffn=True)
    for each in (hall.plan, *(one for split in splits for one in split.plans)):
        assert any(candidate.ffn for candidate in each.candidates)


@pytest.mark.parametrize(
    "given", [{"disaggregated": False}, {"draft": "mtp", "acceptance": 0.7}], ids=str
)
def test_what_leaves_no_room_for_them_is_refused_beside_them(given: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="pools of feed-forward parts does not take"):
        roofline.plan("deepseek-v3", gpus=8, rate=1.0, ffn_pools=True, **given)
