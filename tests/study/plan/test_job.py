"""A job whose requests all wait: its time against a run, its price against every layout."""

from typing import Any

import numpy as np
import pytest

import roofline
from roofline.errors import InputError
from roofline.records import replace
from roofline.serving.run.serve import repeated, serve
from roofline.study.plan.demand import Goal
from roofline.study.plan.job import BUSY, Job, tabulated
from roofline.study.plan.plan import Plan, plan
from tests.study.plan import cases

JOB = Job(tokens=20e6, within_s=600.0)


def planned() -> tuple[Job, Plan]:
    made = cases.demand().requests
    demand = replace(cases.demand(), rate=JOB.rate(made))
    return JOB, plan((cases.kind(),), demand, Goal((), 8, returned=True), pools=False)


def test_requests_and_their_rate_are_those_of_the_tokens() -> None:
    made = cases.demand().requests
    number = JOB.number(made)
    assert number * float((made.prompt + made.output).mean()) == pytest.approx(20e6)
    assert JOB.rate(made) * BUSY * 600.0 == pytest.approx(number)


@pytest.mark.slow
def test_its_time_is_that_of_a_run_in_which_all_requests_wait_at_the_start() -> None:
    job, found = planned()
    assert found.best is not None
    option = found.best.option
    (pool,) = option.pools
    made = cases.demand().requests
    own = repeated(made, round(job.number(made) / pool.instances))
    own = replace(own, arrival=np.zeros(len(own)))
    served = serve(pool.replica.fleet(pool.server, found.demand), own)
    (row, *_) = (row for row in tabulated(job, found, ()).rows() if row["chosen"])
    # The run ends with sequences that are alone, which the rate leaves out.
    assert served.totals.makespan_s / 3600.0 == pytest.approx(row["hours"], rel=0.05)
    assert row["hours"] <= job.within_s / 3600.0
    assert row["job_usd"] == pytest.approx(row["hours"] * row["gpus"] * 3.0)


@pytest.mark.slow
def test_more_replicas_end_sooner_at_the_same_price_and_no_layout_is_cheaper() -> None:
    job, found = planned()
    assert found.best is not None
    larger = found.best.option.larger()
    rows = list(tabulated(job, found, (larger, *found.found.options)).rows())
    best = next(row for row in rows if row["chosen"])
    more = next(row for row in rows if row["gpus"] == larger.gpus and row["shape"] != best["shape"])
    assert more["hours"] < best["hours"]
    usual = [row["job_usd"] for row in rows]
    assert best["job_usd"] <= min(usual) * 1.02  # curves are closed forms


@pytest.mark.slow
def test_the_cost_of_a_job_is_the_same_on_any_number_of_replicas() -> None:
    _, found = planned()
    assert found.best is not None
    several = [found.best.option]
    for _ in range(20):
        several.append(several[-1].larger())
    assert len({found.question.cost(option) for option in several}) == 1


@pytest.mark.slow
def test_the_fewest_replicas_of_a_job_lead_the_frontier_and_fewer_do_for_lower_rates() -> None:
    result = roofline.plan(
        "llama-3.1-8b", "h100-sxm", weights="fp8", job="2G", within="12h", gpus=8
    )
    frontier = list(result.tables["frontier"].rows())
    assert frontier[0]["chosen"]
    assert frontier[0]["gpus"] == result.gpus.value
    assert len({row["gpus"] for row in frontier}) == len(frontier)
    by_rate = list(result.tables["gpus_by_rate"].rows())
    asked = next(place for place, row in enumerate(by_rate) if row["asked"])
    assert [row["gpus"] for row in by_rate[: asked + 1]] == [*range(1, result.gpus.value + 1)]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"job": 1e9}, "without a time"),
        ({"within": "24h"}, "traffic that goes on does not take"),
        ({"job": 1e9, "within": "24h", "rate": 5.0}, "does not take `rate`"),
        ({"job": 1e9, "within": "soon"}, "within"),
        ({"job": -1.0, "within": "24h"}, "a job of"),
        ({"job": "ten", "within": "24h"}, "`job` 'ten' is no number of tokens"),
        ({"rate": 1.0, "training_tokens": "many"}, "`training_tokens` 'many' is no number"),
    ],
)
def test_what_has_no_meaning_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        roofline.plan("llama-3.1-8b", **given)
