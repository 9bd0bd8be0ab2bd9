"""What follows from a plan: frontier, steps of the rate, what it hangs on, break-even."""

from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest

from roofline.model.catalog import architecture
from roofline.model.parameters import active
from roofline.study.plan.break_even import MFU, break_even
from roofline.study.plan.choose import chosen
from roofline.study.plan.confirm import Confirmed
from roofline.study.plan.figures import named, usd_per_mtok
from roofline.study.plan.frontier import frontier
from roofline.study.plan.option import Option
from roofline.study.plan.plan import Plan
from roofline.study.plan.pools import disaggregated
from roofline.study.plan.rates import steps
from roofline.study.plan.replan import at_rate, replanned
from roofline.study.plan.runners_up import runners_up
from roofline.study.plan.search import Found, search
from roofline.study.plan.sensitivity import Bar, tornado
from roofline.study.plan.summary import summary
from roofline.units import SECONDS_PER_HOUR
from tests.study.plan import cases

NAMES = named(cases.SLO)


@cache
def found() -> Found:
    return search(cases.candidates(), cases.question(37.0), cases.tables())


@cache
def options() -> tuple[Option, ...]:
    pairs = disaggregated(cases.tables().made, cases.question(37.0), cases.tables())
    return (*found().options, *pairs)


@cache
def recommended() -> tuple[Confirmed, tuple[Option, ...]]:
    best, others, _ = chosen(options(), cases.question(37.0), cases.demand(37.0), cases.tables())
    assert best is not None
    return best, others


def test_nothing_on_the_frontier_is_beaten_by_what_costs_no_more() -> None:
    points = frontier(options(), cases.question(37.0), NAMES)

    def value(option: Option, aim: str) -> float:
        if aim == "headroom":
            return -option.capacity
        return option.seconds(NAMES.ttft if aim == "ttft" else NAMES.tpot)

    for point in points:
        assert point.best_in
        for aim in point.best_in:
            for option in options():
                if option.usd_per_hour <= point.option.usd_per_hour:
                    assert value(option, aim) >= value(point.option, aim)


def test_the_frontier_starts_with_the_cheapest() -> None:
    points = frontier(options(), cases.question(37.0), NAMES)
    assert points[0].option.usd_per_hour == min(each.usd_per_hour for each in options())


def test_steps_of_the_rate_join_and_only_rise() -> None:
    every = steps(options(), cases.question(37.0), cases.tables(), pools=True)
    assert every[0].low == 0.0
    for one, other in pairwise(every):
        assert one.high == other.low
        assert one.option.usd_per_hour <= other.option.usd_per_hour
    for step in every:
        assert step.option.gpus <= cases.GPUS
        assert step.option.capacity >= step.high * (1 - 1e-9)


def test_inside_a_step_its_deployment_is_the_cheapest() -> None:
    for step in steps(options(), cases.question(37.0), cases.tables(), pools=False):
        middle = at_rate(cases.question(37.0), (step.low + step.high) / 2)
        best = replanned(cases.tables().made, middle, cases.tables(), pools=False)
        assert best is not None
        assert best.usd_per_hour == step.option.usd_per_hour


@cache
def bars() -> dict[str, Bar]:
    best, others = recommended()
    sure = replace(best, step_sd=0.1)
    every = tornado(sure, others, cases.question(37.0), cases.tables(), pools=True)
    return {bar.what: bar for bar in every}


def test_what_it_hangs_on_is_planned_again() -> None:
    for share, option in ((0.8, bars()["traffic"].low), (1.2, bars()["traffic"].high)):
        asked = at_rate(cases.question(37.0), 37.0 * share)
        again = replanned(cases.tables().made, asked, cases.tables())
        assert option is not None
        assert again is not None
        assert again.usd_per_hour == option.usd_per_hour


def test_more_of_what_costs_never_costs_less() -> None:
    for what in ("traffic", "prompts", "answers", "time of steps, 1 σ"):
        low, high = bars()[what].low, bars()[what].high
        assert low is not None
        assert high is None or low.usd_per_hour <= high.usd_per_hour, what
    loose = bars()["limits promised"].high
    tight = bars()["limits promised"].low
    assert loose is not None
    assert tight is None or loose.usd_per_hour <= tight.usd_per_hour


def test_a_price_moves_the_cost_by_as_much() -> None:
    bar = bars()["price of h100-sxm"]
    assert bar.low is not None
    assert bar.low.same(bar.base)
    assert bar.low.cost(bar.prices[0]) == pytest.approx(0.8 * bar.base.usd_per_hour)


def test_others_say_what_they_give_up() -> None:
    best, others = recommended()
    every = runners_up(
        best.option, others, cases.question(37.0), cases.demand(37.0), cases.tables()
    )
    assert every
    assert every[0].why.startswith("next cheapest")
    for each in every:
        assert each.done.met
        assert each.done.option.usd_per_hour >= best.option.usd_per_hour
    assert len({id(each.done.option) for each in every}) == len(every)


def test_the_price_of_a_token_is_that_of_the_hour() -> None:
    best, _ = recommended()
    tokens = 37.0 * cases.demand().output * SECONDS_PER_HOUR
    found = usd_per_mtok(best.option, cases.demand().output)
    assert found == pytest.approx(best.option.usd_per_hour / tokens * 1e6)


def test_training_and_inference_break_even_where_their_sums_are_equal() -> None:
    best, _ = recommended()
    trained = 15e12
    rows = {row["what"]: row for row in break_even(best, cases.demand(37.0), trained)}
    assert set(rows) == {"arithmetic", "energy", "money"}
    for row in rows.values():
        assert row["tokens"] * row["inference_per_token"] == pytest.approx(row["training"])
        days = row["tokens"] / (37.0 * cases.demand().output) / 86_400
        assert row["days"] == pytest.approx(days)
    size = active(architecture("llama-3.1-8b"))["all"]
    assert rows["arithmetic"]["training"] == 6.0 * size * trained
    # Three tokens are computed in inference for one in training; prompts are most of them.
    given = cases.demand(37.0)
    each = float(given.new_tokens.mean()) + given.output - 1.0
    assert rows["arithmetic"]["tokens"] == pytest.approx(3.0 * trained * given.output / each)
    gpu = cases.kind().base.node.gpu
    hours = 6.0 * size * trained / (gpu.rate("bf16") * MFU) / SECONDS_PER_HOUR
    assert rows["money"]["training"] == pytest.approx(hours * 3.0)


def test_what_breaks_a_promise_when_it_is_simulated_whole_is_told() -> None:
    few = min(options(), key=lambda option: option.usd_per_hour)
    busier = cases.demand(1.2 * few.capacity)
    best, others, refused = chosen((few,), cases.question(37.0), busier, cases.tables())
    assert best is not None
    assert best.option.gpus > few.gpus
    assert others == ()
    assert refused[0].option == few
    assert not refused[0].met


def test_what_simulation_refuted_is_on_no_frontier() -> None:
    few = min(options(), key=cases.question(37.0).order)
    before = frontier(options(), cases.question(37.0), NAMES)
    after = frontier(options(), cases.question(37.0), NAMES, [few])
    assert any(point.option.same(few) for point in before)
    assert after
    assert not any(point.option.same(few) for point in after)


def test_what_simulation_refuted_is_the_cheapest_at_no_rate_from_there_on() -> None:
    asked = cases.question(37.0)
    few = replanned(cases.tables().made, asked, cases.tables())
    assert few is not None
    again = replanned(cases.tables().made, asked, cases.tables(), refuted=[few])
    assert again is not None
    assert not again.same(few)
    every = steps(options(), asked, cases.tables(), pools=True, refuted=[few])
    assert every[0].low == 0.0
    for one, other in pairwise(every):
        assert one.high == other.low
        assert one.option.usd_per_hour <= other.option.usd_per_hour
    assert not any(step.option.same(few) for step in every if step.high >= 37.0)


def test_rates_below_what_is_asked_know_pools_of_their_own() -> None:
    far = cases.question(1e5)
    singles = tuple(each for each in options() if not each.wires)
    assert not disaggregated(cases.tables().made, far, cases.tables())
    every = steps(singles, far, cases.tables(), pools=True)
    for step in every:
        middle = at_rate(far, (step.low + step.high) / 2)
        best = replanned(cases.tables().made, middle, cases.tables())
        assert best is not None
        assert best.usd_per_hour == step.option.usd_per_hour
    assert any(step.option.wires for step in every)


def test_where_all_is_refuted_the_promise_that_broke_is_named() -> None:
    few = min(options(), key=lambda option: option.usd_per_hour)
    busier = cases.demand(1.2 * few.capacity)
    tight = replace(cases.question(37.0), goal=replace(cases.question(37.0).goal, gpus=few.gpus))
    best, _, refused = chosen((few,), tight, busier, cases.tables())
    assert best is None
    made = Plan((cases.kind(),), busier, tight, (), found(), (), best, (), cases.tables(), refused)
    broken = [each.kept for each in refused[0].promises if not each.kept.met]
    assert broken
    said = summary(made, ())[0]
    assert all(each.objective.name in said for each in broken)
    assert made.refuted == (few,)
