"""Laws of what follows from a plan: frontier, steps of the rate, sensitivity, break-even."""

import math
from functools import cache
from itertools import pairwise

import pytest

from roofline.model.catalog import architecture
from roofline.model.parameters import active
from roofline.records import replace
from roofline.study.plan.choose import PlanChoice, chosen, replanned, runners_up
from roofline.study.plan.confirm import SimulatedOption, confirm
from roofline.study.plan.explain import MFU, break_even
from roofline.study.plan.figures import named, usd_per_mtok
from roofline.study.plan.option import Option
from roofline.study.plan.search import SearchResult, disaggregated, search
from roofline.study.plan.sensitivity import (
    LEVELS,
    InputSensitivity,
    frontier,
    levels,
    steps,
    tornado,
)
from roofline.study.plan.tabled import Tables
from roofline.units import SECONDS_PER_HOUR
from tests.study.plan import cases

NAMES = named(cases.SLO)


@cache
def found() -> SearchResult:
    return search(cases.candidates(), cases.question(37.0), cases.tables())


@cache
def options() -> tuple[Option, ...]:
    single = found().options  # tabulates what pairs are made of
    pairs = disaggregated(cases.tables().made, cases.question(37.0), cases.tables())
    return (*single, *pairs)


@cache
def choice() -> PlanChoice:
    return chosen(options(), cases.question(37.0), fresh())


def fresh() -> Tables:
    """The curves of all tests, and no runs so far."""
    known = cases.tables()
    return Tables(known.probes, replicas=known.replicas, curves=known.curves)


@cache
def recommended() -> SimulatedOption:
    best = choice().best
    assert best is not None
    return best


@cache
def simulated() -> tuple[SimulatedOption, ...]:
    return tuple(
        confirm(option, cases.question(37.0), fresh(), interval=False)
        for option in (recommended().option, *choice().others[:5])
    )


def test_nothing_on_the_frontier_is_beaten_by_what_costs_no_more() -> None:
    points = frontier(simulated(), cases.question(37.0), NAMES)

    def value(done: SimulatedOption, aim: str) -> float:
        if aim == "headroom":
            return -done.option.capacity
        return done.seconds(NAMES.ttft if aim == "ttft" else NAMES.tpot).kept.value_s

    for point, aims in points:
        assert aims
        for aim in aims:
            for done in simulated():
                if done.option.usd_per_hour <= point.option.usd_per_hour:
                    assert value(done, aim) >= value(point, aim)


def test_the_frontier_starts_with_the_cheapest() -> None:
    points = frontier(simulated(), cases.question(37.0), NAMES)
    least = min(each.option.usd_per_hour for each in simulated())
    assert points[0][0].option.usd_per_hour == least


def test_steps_of_the_rate_join_and_only_rise() -> None:
    every = steps(options(), cases.question(37.0), cases.tables())
    assert every[0].low == 0.0
    for one, other in pairwise(every):
        assert one.high == other.low
        assert one.option.usd_per_hour <= other.option.usd_per_hour
    for step in every:
        assert step.option.gpus <= cases.GPUS
        assert step.option.capacity >= step.high * (1 - 1e-9)


def test_inside_a_step_its_deployment_is_the_preferred() -> None:
    for step in steps(options(), cases.question(37.0), cases.tables()):
        middle = cases.question(37.0).at((step.low + step.high) / 2)
        best = replanned(options(), middle, cases.tables())
        assert best is not None
        assert best.usd_per_hour <= step.option.usd_per_hour


@cache
def bars() -> dict[str, InputSensitivity]:
    known = replace(recommended(), step_sd=0.1)
    every = tornado(known, options(), cases.question(37.0), cases.tables())
    return {bar.what: bar for bar in every}


def test_what_a_plan_is_sensitive_to_is_planned_again() -> None:
    for share, option in ((0.8, bars()["traffic"].low), (1.2, bars()["traffic"].high)):
        asked = cases.question(37.0).at(37.0 * share)
        again = replanned((*options(), recommended().option), asked, cases.tables())
        assert option is not None
        assert again is not None
        assert again.usd_per_hour == option.usd_per_hour


def test_more_of_what_costs_never_costs_less() -> None:
    for what in ("traffic", "prompts", "answers", "time of steps, 1 σ"):
        low, high = bars()[what].low, bars()[what].high
        assert low is not None
        assert high is None or low.usd_per_hour <= high.usd_per_hour, what
    loose = bars()["limits of the SLO"].high
    tight = bars()["limits of the SLO"].low
    assert loose is not None
    assert tight is None or loose.usd_per_hour <= tight.usd_per_hour


def test_a_price_moves_the_cost_by_as_much() -> None:
    bar = bars()["price of h100-sxm"]
    assert bar.low is not None
    assert bar.low.gpus == bar.base.gpus
    assert bar.low.cost(bar.prices[0]) == pytest.approx(0.8 * bar.base.usd_per_hour)


def test_others_say_what_they_give_up() -> None:
    every = runners_up(choice(), cases.question(37.0), fresh())
    assert every
    for each in every:
        assert each.done.met
        assert not each.done.option.same(recommended().option)
    assert len({id(each.done.option) for each in every}) == len(every)


def test_the_price_of_a_token_is_that_of_the_hour() -> None:
    best = recommended()
    tokens = 37.0 * cases.demand().output * SECONDS_PER_HOUR
    found = usd_per_mtok(best.option, cases.demand().output)
    assert found == pytest.approx(best.option.usd_per_hour / tokens * 1e6)


def test_training_and_inference_break_even_where_their_sums_are_equal() -> None:
    best = recommended()
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


def test_what_simulation_refuses_is_not_chosen() -> None:
    few = min(options(), key=lambda option: option.usd_per_hour)
    busier = 1.4 * few.capacity
    asked = cases.question(37.0).at(busier)
    made = chosen((replace(few, rate=busier),), asked, fresh())
    assert made.best is not None
    assert made.best.option.gpus > few.gpus
    assert made.others == ()


def test_what_simulation_refused_is_the_preferred_at_no_rate_from_there_on() -> None:
    asked = cases.question(37.0)
    few = replanned(options(), asked, cases.tables())
    assert few is not None
    again = replanned(options(), asked, cases.tables(), refused=[few])
    assert again is not None
    assert not again.same(few)
    every = steps(options(), asked, cases.tables(), refused=[few])
    assert every[0].low == 0.0
    for one, other in pairwise(every):
        assert one.high == other.low
    assert not any(step.option.same(few) for step in every if step.high >= 37.0)


def test_what_is_recommended_is_what_is_told_for_the_rate_asked_for() -> None:
    best = recommended().option
    every = steps(options(), cases.question(37.0), cases.tables(), best=best)
    (asked,) = (step for step in every if step.low < 37.0 <= step.high)
    assert asked.option.same(best)
    for step in every:
        if step.high < 37.0:
            assert step.option.usd_per_hour <= best.usd_per_hour
        if step.low >= 37.0:
            assert step.option.usd_per_hour >= best.usd_per_hour


def test_one_pool_inside_nodes_is_preferred_to_what_is_hardly_cheaper() -> None:
    question = cases.question(37.0)
    plain = next(each for each in options() if each.usual)
    kind = plain.kind
    (apart,) = (each for each in options() if each.wires)

    def cost(share: float) -> Option | None:
        """The preferred of both, with the pair at that share of the price."""
        pools = tuple(
            replace(
                pool,
                replica=replace(
                    pool.replica,
                    candidate=replace(
                        pool.candidate, kind=replace(kind, usd_per_hour=share * plain_usd)
                    ),
                ),
            )
            for pool in apart.pools
        )
        return question.preferred([plain, replace(apart, pools=pools)])

    plain_usd = plain.usd_per_hour / apart.gpus
    assert cost(0.95) is plain
    found_ = cost(0.85)
    assert found_ is not None
    assert found_.wires is not None


def test_more_confidence_never_costs_less() -> None:
    question = cases.question(60.0)
    goal = replace(question.goal, confidence=0.9)
    known = fresh()
    best, every = replace(recommended(), step_sd=0.1), replace(question, goal=goal)
    found_ = levels(best, options(), every, known, spare=0)
    assert list(found_) == list(LEVELS)
    costs = [math.inf if o is None else o.usd_per_hour for o in list(found_.values())[:2]]
    assert costs == sorted(costs)
    assert levels(recommended(), options(), every, known, spare=0) == {}
