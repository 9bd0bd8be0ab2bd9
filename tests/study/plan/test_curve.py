"""Curves: latencies of one replica under load, and the most that it carries."""

import numpy as np
import pytest

from roofline.records import replace
from roofline.serving.objectives import Objective, kept
from roofline.study.plan.confirm import holds, run
from roofline.study.plan.curve import SHARES, Curve, curve
from roofline.study.plan.option import Option
from roofline.study.plan.search import sized
from roofline.study.plan.tabled import Replica, Tables
from tests.study.plan import cases


def made(*seconds: float) -> Curve:
    loads = np.arange(1.0, len(seconds) + 1.0)
    return Curve(10.0, loads, {"ttft_p99": np.array(seconds)})


def test_what_is_carried_lies_between_the_loads_around_the_limit() -> None:
    limit = Objective("ttft", 2.5, 99.0)
    assert made(1.0, 2.0, 4.0).carries([limit]) == (2.25, "ttft_p99")


def test_a_limit_that_holds_everywhere_leaves_the_rate() -> None:
    assert made(1.0, 2.0, 2.5).carries([Objective("ttft", 2.5, 99.0)]) == (3.0, "rate")
    assert made(1.0, 2.0, 2.5).carries([]) == (3.0, "rate")


def test_a_limit_that_is_passed_when_idle_carries_nothing() -> None:
    assert made(3.0, 4.0).carries([Objective("ttft", 2.5, 99.0)]) == (0.0, "ttft_p99")


@pytest.fixture(scope="module")
def replica() -> Replica:
    candidate = next(c for c in cases.candidates() if c.layout.spelled == "tp1")
    found = cases.tables().replica(candidate, cases.demand())
    assert isinstance(found, Replica)
    return found


def test_latency_never_falls_with_load(replica: Replica) -> None:
    for role in ("all", "prefill", "decode"):
        found = cases.tables().curve(role, replica, replica.servers[0], cases.demand(), 1.0)
        for seconds in found.seconds.values():
            assert (np.diff(seconds) >= 0).all()
        assert np.allclose(found.loads, np.array(SHARES) * found.saturation)


def test_slower_devices_carry_less(replica: Replica) -> None:
    some = [
        cases.tables().curve("all", replica, replica.servers[0], cases.demand(), factor)
        for factor in (0.8, 1.0, 1.25)
    ]
    carried = [each.carries(cases.SLO)[0] for each in some]
    assert carried[0] > carried[1] > carried[2]
    # Without an engine's own costs twice as slow is half as much.
    assert some[0].saturation / some[2].saturation == pytest.approx(1.25 / 0.8, rel=0.01)


def test_each_phase_alone_carries_more_than_both(replica: Replica) -> None:
    both, prefill, decode = (
        cases.tables().curve(role, replica, replica.servers[0], cases.demand(), 1.0).saturation
        for role in ("all", "prefill", "decode")
    )
    assert min(prefill, decode) > both
    # The time that a request takes of a server is that of both of its phases, or less where they
    # share a step.
    assert 1 / both <= 1.02 * (1 / prefill + 1 / decode)


def test_curves_are_made_once(replica: Replica) -> None:
    known = cases.tables()
    tables = Tables(known.probes, replicas=known.replicas)  # which no run has corrected
    first = tables.curve("all", replica, replica.servers[0], cases.demand(), 1.0)
    again = tables.curve("all", replica, replica.servers[0], cases.demand(99.0), 1.0)
    assert again.seconds is first.seconds


def test_ways_to_run_differ_in_one_thing(replica: Replica) -> None:
    usual, *others = replica.servers
    for server in others:
        # A step has a token of each sequence that decodes.
        most = min(usual.max_sequences, server.token_budget or usual.max_sequences)
        differs = [
            server.max_sequences != most,
            server.token_budget != usual.token_budget,
        ]
        assert sum(differs) == 1
    assert all(s.max_sequences == usual.max_sequences for s in replica.ways("prefill"))
    assert all(s.token_budget == usual.token_budget for s in replica.ways("decode"))


def test_a_run_puts_a_curve_where_it_is(replica: Replica) -> None:
    known = cases.tables()
    tables = Tables(known.probes, replicas=known.replicas, curves=known.curves)
    for share in (0.4, 0.7):
        rate = share * 36.0
        question = cases.question(rate)
        option = Option((sized("all", replica, question, tables),), rate)
        alone = replace(option, pools=(replace(option.pools[0], instances=1),))
        held = holds(alone, question, tables, closely=True)
        pool = sized("all", replica, question, tables)
        assert (pool.carries >= rate * (1 - 1e-9)) == held
        done = run(alone, cases.demand(rate), 1.0, tables).done
        for limit, kept_ in zip(cases.SLO, kept(done, cases.SLO), strict=True):
            assert pool.curve.at(limit.name, rate) == pytest.approx(kept_.value_s, rel=0.15)


def test_estimates_of_steps_are_near_their_tables(replica: Replica) -> None:
    server, demand = replica.servers[0], cases.demand()
    near, far = (
        curve("all", demand, replica.fleet(server, demand, closely=closely), cases.tables().probes)
        for closely in (True, False)
    )
    assert far.saturation == pytest.approx(near.saturation, rel=0.03)
    for name, seconds in near.seconds.items():
        assert far.seconds[name] == pytest.approx(seconds, rel=0.06), name
