"""Plans that decode speculatively: laws of the acceptance, bounds, pools, and what is said."""

from functools import cache

import numpy as np
import pytest

from roofline.cost.deployment import Deployment
from roofline.records import replace
from roofline.serving import drafts
from roofline.serving.acceptance import PUBLISHED, Acceptance, parse
from roofline.serving.drafts import Draft
from roofline.study.plan.candidate import Candidate, DeploymentKind, PlannedDrafts
from roofline.study.plan.confirm import confirm
from roofline.study.plan.demand import Demand, Goal
from roofline.study.plan.option import PlanQuestion
from roofline.study.plan.plan import plan, probes_of, without_drafts
from roofline.study.plan.result import result_of
from roofline.study.plan.screen import screen
from roofline.study.plan.search import disaggregated, search, sized
from roofline.study.plan.sensitivity import REFUSED, tornado
from roofline.study.plan.tabled import Replica, Tables
from tests.study.plan import cases

LENGTH = 3


def eagle(target: Deployment) -> Draft:
    return drafts.named("eagle", target)


@cache
def kind() -> DeploymentKind:
    return replace(cases.kind(), speculation=PlannedDrafts(eagle, LENGTH))


def demand(acceptance: float = 0.7, rate: float = 20.0) -> Demand:
    return replace(
        cases.demand(rate), acceptance=Acceptance(((acceptance,),)), name=f"chats {acceptance:g}"
    )


@cache
def candidates(acceptance: float = 0.7) -> tuple[Candidate, ...]:
    return screen(kind(), demand(acceptance), cases.GPUS)


@cache
def tables() -> Tables:
    return Tables(probes_of(cases.SLO))


def replica(layout: str = "tp1") -> Replica:
    candidate = next(c for c in candidates() if c.layout.spelled == layout)
    found = tables().replica(candidate, demand())
    assert isinstance(found, Replica)
    return found


def question(acceptance: float = 0.7, rate: float = 20.0) -> PlanQuestion:
    return PlanQuestion(demand(acceptance, rate), Goal(cases.SLO, cases.GPUS))


def carries(acceptance: float, layout: str = "tp1") -> float:
    return sized("all", replica(layout), question(acceptance), tables()).carries


def test_what_is_accepted_more_often_serves_more() -> None:
    """As long as queues are stable; percentiles of few rounds vary more than those of many."""
    sized_ = [
        sized("all", replica(), question(acceptance), tables())
        for acceptance in (0.1, 0.4, 0.7, 0.95)
    ]
    every = [pool.curve.saturation for pool in sized_]
    assert every == sorted(every)
    assert every[-1] > 1.1 * every[0]
    assert sized_[-1].carries > 1.1 * sized_[0].carries


def test_drafts_that_are_never_accepted_only_cost() -> None:
    (plain,) = (c for c in cases.candidates() if c.layout.spelled == "tp1")
    without = cases.tables().replica(plain, cases.demand())
    assert isinstance(without, Replica)
    asked = cases.question(20.0)
    assert carries(0.0) < sized("all", without, asked, cases.tables()).carries


def test_rounds_take_what_the_tokens_of_a_round_say() -> None:
    # One sequence alone: its time between tokens is that of a round over the tokens of it.
    made, server = replica(), replica().servers[0]
    curve = tables().curve("all", made, server, demand(), 1.0)
    fleet = made.fleet(server, demand(), 1.0)
    prices = fleet.prices
    context = demand().mean_context
    round_s = float(np.interp(context, prices.contexts, prices.decode_s[0])) + prices.engine.step_s
    alone = curve.at("tpot_mean", float(curve.loads[0]))
    # Its last round is cut where the answer ends, so that rounds yield a little less.
    assert round_s / made.candidate.kind.round_tokens(demand()) < alone
    assert alone < 1.15 * round_s / made.candidate.kind.round_tokens(demand())


@pytest.mark.parametrize("acceptance", [0.0, 0.5, 0.9])
def test_a_bound_is_never_less_than_what_is_carried(acceptance: float) -> None:
    for candidate in candidates(acceptance):
        layout = candidate.layout.spelled
        if layout not in ("tp1", "tp2", "tp4"):
            continue
        made = replica(layout)
        for factor in (0.5, 1.0, 100.0):
            limits = cases.looser(factor)
            bound = candidate.bound(demand(acceptance), limits)
            curve = tables().curve("all", made, made.servers[0], demand(acceptance), 1.0)
            assert curve.carries(limits)[0] <= bound, (layout, factor)


def test_pipelines_are_left_out_with_the_reason() -> None:
    found = search(candidates(), question(), tables())
    reasons = {layout: reason for (_, layout), reason in found.dropped.items()}
    assert reasons["pp2"].startswith("layout: speculative decoding")
    assert all(pool.candidate.layout.pp == 1 for o in found.options for pool in o.pools)


def test_two_pools_decode_in_rounds() -> None:
    some = [replica(layout) for layout in ("tp1", "tp2")]
    (option,) = disaggregated(some, question(0.7, 30.0), tables())
    done = confirm(option.larger(), question(0.7, 30.0), tables())
    assert done.met
    # Answers have all their tokens, in fewer steps than tokens.
    plain = [cases.tables().replica(c, cases.demand()) for c in cases.candidates()[:1]]
    assert isinstance(plain[0], Replica)
    curve = tables().curve("decode", some[0], some[0].servers[0], demand(), 1.0)
    without = cases.tables().curve("decode", plain[0], plain[0].servers[0], cases.demand(), 1.0)
    assert curve.seconds["tpot_mean"][0] < without.seconds["tpot_mean"][0]


def test_the_cache_of_what_drafts_goes_over_the_wires() -> None:
    some = [replica("tp1")]
    plain = cases.tables().replica(cases.candidates()[0], cases.demand())
    assert isinstance(plain, Replica)
    (drafted,) = disaggregated(some, question(), tables())
    (without,) = disaggregated([plain], cases.question(20.0), cases.tables())
    assert drafted.wires is not None
    assert without.wires is not None
    # One layer in addition to 32, of the same width.
    ratio = drafted.wires.send_s_per_token / without.wires.send_s_per_token
    assert ratio == pytest.approx(33 / 32)


def test_acceptance_is_moved_as_far_as_one_drafter_was_published() -> None:
    ends = [p.acceptance.positions[0][0] for p in PUBLISHED if p.source == "arXiv 2412.19437"]
    middle = Acceptance(((sum(ends) / 2,),))
    moved = [middle.refused(1.0 + x * REFUSED).positions[0][0] for x in (1.0, -1.0)]
    assert moved == pytest.approx(sorted(ends))


@pytest.mark.slow
def test_a_plan_is_sensitive_to_the_acceptance() -> None:
    asked = question(0.5, 60.0)  # limited by memory at all three
    found = search(candidates(), asked, tables())
    assert found.options
    done = confirm(found.options[0], asked, tables())
    bars = tornado(done, found.options, asked, tables())
    bar = next(bar for bar in bars if bar.what == "acceptance")
    assert bar.said == ("0.4", "0.6")
    assert bar.low is not None
    assert bar.high is not None
    assert bar.low.cost({}) >= bar.high.cost({})
    assert bar.low.pools[0].carries / bar.low.pools[0].candidate.devices < (
        bar.high.pools[0].carries / bar.high.pools[0].candidate.devices
    )


@pytest.mark.slow
def test_plain_decoding_is_planned_beside_it() -> None:
    goal = Goal(cases.SLO, 4)
    made = plan([kind()], demand(), goal, pools=False)
    assert made.best is not None
    alone = plan([cases.kind()], cases.demand(), goal, pools=False, least=1)
    without = without_drafts(made, pools=False)
    assert alone.best is not None
    assert without.best is not None
    assert without.best.option.layout == alone.best.option.layout
    assert without.best.option.gpus == alone.best.option.gpus
    result = result_of(made, lambda gpus, weights: (), given={"engine": "ideal"}, pools=False)
    assert "plain decoding" in result.tables["runners_up"]["why"]
    assert result.metadata["tokens_per_round"] == pytest.approx(1 + 0.7 + 0.7**2 + 0.7**3)
    assert result.metadata["acceptance"] == "0.7"


def test_alternatives_are_refused_in_proportion() -> None:
    assert str(parse("0.6+0.2").refused(2.0)) == "0.45+0.15"
    assert str(parse("0.1").refused(1.2)) == "0"
    assert str(parse("0").refused(0.5)) == "0"
    assert str(parse("1").refused(1.5)) == "1"
