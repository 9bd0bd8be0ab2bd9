"""Laws of a search: what costs more, what never does, and that nothing cheaper was left out."""

import math

import pytest

from roofline.records import replace
from roofline.study.plan.confirm import holds
from roofline.study.plan.option import Option, PlanQuestion
from roofline.study.plan.plan import plan, probes_of
from roofline.study.plan.screen import screen
from roofline.study.plan.search import SearchResult, search, sized
from roofline.study.plan.tabled import RUNS, Replica, Tables
from tests.study.plan import cases

RATES = (2.0, 10.0, 23.0, 37.0, 52.0, 80.0)


def found(question: PlanQuestion) -> SearchResult:
    return search(cases.candidates(), question, cases.tables())


def best(question: PlanQuestion) -> Option:
    return found(question).options[0]


def test_more_traffic_never_needs_fewer_gpus() -> None:
    gpus = [best(cases.question(rate)).gpus for rate in RATES]
    assert gpus == sorted(gpus)
    assert gpus[-1] > gpus[0]


@pytest.mark.parametrize("rate", [30.0, 52.0])
def test_looser_objectives_never_cost_more(rate: float) -> None:
    costs = [
        best(cases.question(rate, cases.looser(factor))).usd_per_hour
        for factor in (0.45, 0.6, 0.8, 1.0, 1.5, 3.0, 10.0)
    ]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] < costs[0]


def test_headroom_and_spares_never_cost_less() -> None:
    asked = [cases.question(40.0, headroom=share) for share in (0.0, 0.1, 0.3, 1.0)]
    gpus = [best(each).gpus for each in asked]
    assert gpus == sorted(gpus)
    assert gpus[-1] > gpus[0]
    spared = [best(cases.question(10.0, spares=number)).gpus for number in (0, 1, 2)]
    assert spared[0] < spared[1] < spared[2]


def test_headroom_is_the_same_as_more_traffic() -> None:
    grown = best(cases.question(26.0))
    asked = best(cases.question(20.0, headroom=0.3))
    assert [pool.instances for pool in asked.pools] == [pool.instances for pool in grown.pools]
    assert asked.layout == grown.layout
    assert asked.headroom >= 0.3


def simulated(question: PlanQuestion) -> float:
    """Least cost of all layouts, settings and numbers of replicas, every one simulated whole."""
    tables, goal = cases.tables(), question.goal
    replicas = [tables.replica(each, question.demand) for each in cases.candidates()]
    pools = [
        sized("all", each, question, tables, server)
        for each in replicas
        if isinstance(each, Replica)
        for server in each.servers
    ]
    for gpus in range(1, goal.gpus + 1):
        for pool in pools:
            number, rest = divmod(gpus, pool.candidate.devices)
            if rest or number < 1:
                continue
            option = Option((replace(pool, instances=number),), question.demand.rate)
            if holds(option, question, tables, closely=True):
                return question.cost(option)
    return math.inf


@pytest.mark.slow
@pytest.mark.parametrize("factor", [0.5, 0.8, 1.0, 2.0])
@pytest.mark.parametrize("rate", [2.0, 23.0, 52.0])
def test_nothing_cheaper_was_left_out(factor: float, rate: float) -> None:
    question = cases.question(rate, cases.looser(factor))
    made = plan([cases.kind()], cases.demand(rate), question.goal, pools=False)
    cost = math.inf if made.best is None else made.best.option.usd_per_hour
    assert cost == simulated(question)
    assert made.tables.budget.used <= RUNS


@pytest.mark.slow
def test_a_bound_is_never_less_than_what_is_carried() -> None:
    for factor in (0.8, 1.0, 3.0, 100.0):
        asked = cases.question(20.0, cases.looser(factor))
        for candidate in cases.candidates():
            replica = cases.tables().replica(candidate, asked.demand)
            if isinstance(replica, str):
                continue
            bound = replica.candidate.bound(asked.demand, asked.goal.objectives)
            for server in replica.servers:
                curve = cases.tables().curve("all", replica, server, asked.demand, 1.0)
                carries, _ = curve.carries(asked.goal.objectives)
                assert carries <= bound, (replica.candidate.layout, factor)


@pytest.mark.parametrize("model", ["qwen3-30b-a3b", "gemma-3-12b"])
def test_bounds_hold_for_experts_and_for_windows(model: str) -> None:
    some = [c for c in cases.candidates(model) if c.layout.spelled in ("tp2", "pp2", "tp4-ep4")]
    assert len(some) >= 2
    for candidate in some:
        tables = cases.tables(model)
        replica = tables.replica(candidate, cases.demand())
        assert isinstance(replica, Replica)
        for factor in (0.5, 2.0, 100.0):
            objectives = cases.looser(factor)
            bound = candidate.bound(cases.demand(), objectives)
            curve = tables.curve("all", replica, replica.servers[0], cases.demand(), 1.0)
            assert curve.carries(objectives)[0] <= bound


def test_every_layout_has_an_option_or_a_reason() -> None:
    result = found(cases.question(20.0))
    sized = [option.layout for option in (*result.options, *result.short)]
    dropped = [layout for _, layout in result.dropped]
    assert sorted(sized + dropped) == sorted(each.layout.spelled for each in cases.candidates())
    assert all(result.dropped.values())


def test_a_dearer_device_is_left_for_a_cheaper_one() -> None:
    every = (*cases.candidates(), *cases.candidates(device="l40s"))
    prices = {cases.kind().name: 3.0, cases.kind(device="l40s").name: 3.0}
    asked = replace(cases.question(5.0, cases.looser(3.0)), prices=prices)
    dear = search(every, asked, cases.tables()).options
    assert dear[0].kind.gpu == "h100-sxm"
    cheap = {**prices, cases.kind(device="l40s").name: 0.01}
    found = search(every, replace(asked, prices=cheap), cases.tables()).options
    assert found[0].kind.gpu == "l40s"


def test_a_device_without_a_price_ranks_behind_every_price_and_by_number_alone() -> None:
    free, paid = cases.kind(device="l40s"), cases.kind()
    every = (*cases.candidates(), *cases.candidates(device="l40s"))
    asked = replace(cases.question(5.0, cases.looser(3.0)), prices={paid.name: 500.0, free.name: 0})
    every = tuple(
        replace(each, kind=replace(each.kind, usd_per_hour=0.0)) if each.kind == free else each
        for each in every
    )
    found = [option.kind.gpu for option in search(every, asked, cases.tables()).options]
    assert found == sorted(found)  # every h100-sxm before the first l40s
    assert set(found) == {"h100-sxm", "l40s"}
    alone = replace(asked, prices={paid.name: 0, free.name: 0})
    sizes = [option.gpus for option in search(every, alone, cases.tables()).options]
    assert sizes == sorted(sizes)


def test_fewer_gpus_than_needed_are_refused_with_the_number() -> None:
    result = found(cases.question(500.0))
    assert not result.options
    assert all(
        reason.startswith(("rate: ", "memory: ", "ttft_p99: ", "tpot_p99: "))
        for reason in result.dropped.values()
    )


@pytest.mark.slow
def test_what_is_planned_keeps_its_limits_in_simulation() -> None:
    for rate in (10.0, 37.0):
        asked = cases.question(rate)
        done = plan([cases.kind()], cases.demand(rate), asked.goal, pools=False).best
        assert done is not None
        assert done.met
        for each in done.objectives[: len(cases.SLO)]:
            assert each.kept.value_s <= each.kept.objective.limit_s


def test_replicas_have_the_tiers_of_their_cache_that_were_asked_for() -> None:
    kind = replace(cases.kind(), tier_bytes=64e9, disk_bytes=1e12)
    candidate = next(each for each in screen(kind, cases.demand(), 1) if each.estimate)
    made = Tables(probes_of(cases.SLO)).replica(candidate, cases.demand())
    assert isinstance(made, Replica)
    for server in made.servers:
        assert server.tier_tokens == int(64e9 / 131_072)  # 32 layers of 8 · 128 keys and values
        assert server.disk_tokens == int(1e12 / 131_072)
        assert 0 < server.swap_s_per_token < server.disk_s_per_token == 131_072 / 7e9
