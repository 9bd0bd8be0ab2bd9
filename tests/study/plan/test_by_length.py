"""Pools by the length of prompts: what each is sent, and what both keep together."""

import numpy as np
import pytest

from roofline.errors import InputError
from roofline.records import replace
from roofline.serving.run.serve import serve
from roofline.study.plan.by_length import by_length, parted, said, tabulated, thresholds
from roofline.study.plan.demand import Demand, Goal
from roofline.study.plan.plan import plan
from tests.study.plan import cases

GOAL = Goal(cases.SLO, 8)


@pytest.mark.parametrize("threshold", [300, 800, 1500])
def test_every_request_goes_where_a_router_sends_it(threshold: int) -> None:
    whole = cases.demand()
    short, long = parted(whole, threshold)
    sent: list[list[tuple[float, int, int]]] = [[], []]
    made = whole.requests
    for arrival, prompt, output in zip(made.arrival, made.prompt, made.output, strict=True):
        sent[int(prompt > threshold)].append((float(arrival), int(prompt), int(output)))
    for demand, wanted in zip((short, long), sent, strict=True):
        rows = zip(
            *(getattr(demand.requests, name).tolist() for name in ("arrival", "prompt", "output")),
            strict=True,
        )
        assert list(rows) == wanted
        assert demand.rate / whole.rate == pytest.approx(len(wanted) / len(made))
        assert demand.rate / demand.drawn_per_s == pytest.approx(whole.rate / whole.drawn_per_s)
    assert short.name != long.name


def test_thresholds_leave_enough_on_both_sides() -> None:
    prompts = cases.demand().requests.prompt
    found = thresholds(cases.demand())
    assert found == sorted(found)
    for each in found:
        assert min((prompts <= each).sum(), (prompts > each).sum()) >= 100
    alike = cases.even(10.0, 600, 500, 50)
    with pytest.raises(InputError, match="nearly all of one length"):
        by_length((cases.kind(),), alike, GOAL)
    made = alike.requests
    after = np.full(len(made), -1)
    after[1::2] = np.arange(0, len(made) - 1, 2)
    chats = replace(alike, requests=replace(made, after=after))
    with pytest.raises(InputError, match="for sessions"):
        by_length((cases.kind(),), chats, GOAL)


@pytest.mark.slow
def test_both_pools_together_keep_the_limits_and_the_cheapest_is_first() -> None:
    whole: Demand = cases.demand(60.0)
    splits = by_length((cases.kind(),), whole, GOAL)
    costs = [each.cost() for each in splits]
    assert costs == sorted(costs)
    best = splits[0]
    assert 0 < best.gpus <= 8
    # Served side by side and counted together, as a user meets them.
    late, gaps = [], []
    for part in best.plans:
        assert part.best is not None
        (pool,) = part.best.option.pools
        fleet = pool.replica.fleet(pool.server, part.demand, 1.0, pool.instances)
        served = serve(fleet, part.demand.at(part.demand.rate))
        late += (served.first_token - served.arrival).tolist()
        many = served.output > 1
        gaps += ((served.finish - served.first_token)[many] / (served.output[many] - 1)).tolist()
    assert len(late) == len(whole.requests)
    assert np.percentile(late, 99) <= 0.2
    assert np.percentile(gaps, 99) <= 0.02
    alone = plan((cases.kind(),), whole, GOAL)
    rows = list(tabulated(splits, alone).rows())
    assert rows[-1]["threshold"] is None
    assert alone.best is not None
    assert rows[-1]["gpus"] == alone.best.option.gpus
    assert rows[0]["gpus"] == best.gpus
    told = said(splits, alone)
    cheaper = best.cost() < alone.question.cost(alone.best.option)
    assert ("cost" if cheaper else "do not pay") in told
