"""Experts on groups of devices: against every choice of a token, and against tokens drawn."""

from math import ceil

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from roofline.cost.expert_parallel import balanced, busiest, groups_met, held_experts
from roofline.cost.moe import UNIFORM, Routing, chances, touched
from roofline.model.feedforward import Moe
from tests.cases import examples
from tests.cost.reference.spreading import drawn_busiest, drawn_experts, expected_groups

SEVERAL = settings(max_examples=examples(60), deadline=None)
LOADS = (9.0, 1.0, 1.0, 4.0, 2.0, 2.0, 7.0, 1.0, 3.0, 1.0, 1.0, 1.0, 5.0, 2.0, 8.0, 1.0)


def mixture(experts: int, active: int, groups: int = 1, active_groups: int = 1) -> Moe:
    return Moe(experts, active, 8, groups=groups, active_groups=active_groups)


@pytest.mark.parametrize("experts", [1, 2, 4, 6, 8])
def test_the_groups_a_token_meets_are_the_mean_over_all_it_may_choose(experts: int) -> None:
    for active in range(1, experts + 1):
        for groups in (n for n in range(1, experts + 1) if experts % n == 0):
            exact = expected_groups(experts, active, groups)
            ours = groups_met(mixture(experts, active), groups)
            assert ours == pytest.approx(float(exact), rel=1e-12), (active, groups)


@pytest.mark.parametrize("experts", [3, 4, 5, 7, 10])
def test_a_last_group_that_is_not_full_is_met_less_often(experts: int) -> None:
    for active in range(1, min(experts, 4) + 1):
        for groups in range(1, experts + 1):
            exact = expected_groups(experts, active, groups)
            ours = groups_met(mixture(experts, active), groups)
            assert ours == pytest.approx(float(exact), rel=1e-12), (active, groups)
            assert ours <= active * (1 + 1e-12)


@pytest.mark.parametrize(
    ("experts", "limits", "chosen"), [(8, 4, 2), (8, 2, 1), (12, 4, 2), (12, 4, 3), (12, 6, 2)]
)
def test_routing_limited_to_some_nodes_is_the_mean_over_all_of_those(
    experts: int, limits: int, chosen: int
) -> None:
    each = experts // limits
    for active in range(1, min(chosen * each, 4) + 1):
        # Devices' groups that are parts of routing's groups, or several whole ones.
        for groups in (n for n in range(1, experts + 1) if n % limits == 0 or limits % n == 0):
            if experts % groups:
                continue
            exact = expected_groups(experts, active, groups, limits, chosen)
            ours = groups_met(mixture(experts, active, limits, chosen), groups)
            assert ours == pytest.approx(float(exact), rel=1e-12), (active, groups)


@pytest.mark.parametrize(("limits", "groups"), [(4, 3), (3, 4), (4, 6), (2, 3), (6, 4)])
def test_groups_of_devices_that_cut_through_those_of_routing_are_counted_too(
    limits: int, groups: int
) -> None:
    for active, chosen in ((1, 1), (2, 1), (2, 2), (3, 2)):
        exact = expected_groups(12, active, groups, limits, chosen)
        ours = groups_met(mixture(12, active, limits, chosen), groups)
        assert ours == pytest.approx(float(exact), rel=1e-12), (active, chosen)


def test_limited_routing_reaches_no_more_nodes_than_its_limit() -> None:
    # 256 experts in 8 parts, one for each node, of which a token may use 4.
    limited, free = mixture(256, 8, 8, 4), mixture(256, 8)
    assert groups_met(limited, 8) <= 4 < groups_met(free, 8)
    assert groups_met(limited, 64) < groups_met(free, 64) < 8


def test_an_axis_of_groups_meets_like_its_rows() -> None:
    part, degrees = mixture(16, 3), np.array([[1.0, 4.0], [4.0, 16.0]])
    rows = [[groups_met(part, n) for n in row] for row in degrees.tolist()]
    assert np.asarray(groups_met(part, degrees)).tolist() == rows


CASES = [
    (experts, active, groups, tokens)
    for experts, active, groups in ((16, 2, 2), (16, 2, 4), (16, 4, 8), (32, 4, 16), (12, 2, 5))
    for tokens in (groups / active, 4 * groups / active, 32 * groups / active)
]


@pytest.mark.parametrize(("experts", "active", "groups", "tokens"), CASES)
def test_the_busiest_group_has_what_it_has_when_tokens_are_drawn(
    experts: int, active: int, groups: int, tokens: float
) -> None:
    # A normal distribution for each group's rows: where groups get a row each on average, what
    # is drawn is neither normal nor independent, and the largest is up to 12 % off.
    count = round(tokens)
    probable = chances(experts, active).tolist()
    drawn = drawn_busiest(probable, count, groups, batches=500, shuffled=False)
    ours, _ = busiest(float(count), mixture(experts, active), groups)
    crowded = count * active / groups >= 16
    assert ours == pytest.approx(drawn, rel=0.05 if crowded else 0.12)


@pytest.mark.parametrize("skew", [0.5, 1.0])
@pytest.mark.parametrize(("groups", "tokens"), [(2, 4), (4, 16), (8, 64), (16, 64)])
def test_popular_experts_placed_at_random_are_as_busy_as_when_drawn(
    skew: float, groups: int, tokens: int
) -> None:
    # Sixteen placements stand for all of them: their own mean scatters by several per cent.
    routing = Routing(skew=skew)
    probable = chances(32, 4, routing).tolist()
    drawn = drawn_busiest(probable, tokens, groups, batches=600, shuffled=True)
    ours, _ = busiest(float(tokens), mixture(32, 4), groups, routing)
    assert ours == pytest.approx(drawn, rel=0.12)


@pytest.mark.parametrize("groups", [2, 4, 8])
@pytest.mark.parametrize("tokens", [4, 16, 64])
def test_given_loads_are_of_experts_in_order(groups: int, tokens: int) -> None:
    routing = Routing(loads=LOADS)
    probable = np.empty(16)
    probable[np.argsort(-np.array(LOADS), kind="stable")] = chances(16, 2, routing)
    drawn = drawn_busiest(probable.tolist(), tokens, groups, batches=500, shuffled=False)
    ours, _ = busiest(float(tokens), mixture(16, 2), groups, routing)
    assert ours == pytest.approx(drawn, rel=0.08)


@st.composite
def routed(draw: st.DrawFn) -> tuple[Moe, Routing]:
    experts = draw(st.sampled_from([1, 4, 6, 16]))
    active = draw(st.integers(1, min(experts, 4)))
    loads = st.lists(st.integers(1, 9), min_size=experts, max_size=experts)
    routing = draw(
        st.just(UNIFORM)
        | st.floats(0.1, 2).map(lambda skew: Routing(skew=skew))
        | loads.map(lambda some: Routing(loads=tuple(map(float, some))))
    )
    return mixture(experts, active), routing


@SEVERAL
@given(routed(), st.integers(0, 500))
def test_with_one_group_all_rows_are_its_own(case: tuple[Moe, Routing], tokens: int) -> None:
    part, routing = case
    rows, met = busiest(float(tokens), part, 1, routing)
    assert rows == tokens * part.active
    assert met == touched(float(tokens), part.experts, part.active, routing)


@pytest.mark.slow
@SEVERAL
@given(routed(), st.integers(1, 16), st.integers(1, 500), st.integers(1, 500))
def test_the_busiest_is_between_the_mean_and_everything_and_more_tokens_are_more_rows(
    case: tuple[Moe, Routing], groups: int, tokens: int, more: int
) -> None:
    part, routing = case
    assume(groups <= part.experts)
    few, met_by_few = busiest(float(tokens), part, groups, routing)
    many, met_by_many = busiest(float(tokens + more), part, groups, routing)
    each = -(-part.experts // groups)
    assert few >= tokens * part.active / groups * (1 - 1e-12)
    assert few <= tokens * min(part.active, each) * (1 + 1e-12)
    assert few <= many * (1 + 1e-9)
    assert 0 < met_by_few <= met_by_many <= each * (1 + 1e-12)


@SEVERAL
@given(
    routed(),
    st.lists(st.tuples(st.integers(1, 300), st.integers(1, 4)), min_size=1, max_size=5),
)
def test_an_axis_of_tokens_and_groups_is_as_busy_as_its_rows(
    case: tuple[Moe, Routing], rows: list[tuple[int, int]]
) -> None:
    part, routing = case
    assume(part.experts >= 4)
    tokens, groups = (np.array(column, float) for column in zip(*rows, strict=True))
    ours, met = busiest(tokens, part, groups, routing)
    alone = [busiest(t, part, int(e), routing) for t, e in zip(tokens, groups, strict=True)]
    assert np.asarray(ours) == pytest.approx([float(one) for one, _ in alone], rel=1e-12)
    assert np.asarray(met) == pytest.approx([float(one) for _, one in alone], rel=1e-12)


def counted_busiest(
    probable: list[float], groups: int, redundant: int, tokens: int, batches: int
) -> float:
    """Mean rows of the fullest group of copies placed by a list, tokens drawn one by one."""
    copies = [1] * len(probable)
    for _ in range(redundant):
        each = [p / n if n < groups else -1.0 for p, n in zip(probable, copies, strict=True)]
        copies[each.index(max(each))] += 1
    every = [(p / n, e, n) for e, (p, n) in enumerate(zip(probable, copies, strict=True))]
    loads = sorted(((load, e) for load, e, n in every for _ in range(n)), key=lambda load: -load[0])
    slots = ceil(len(loads) / groups)
    held: list[list[int]] = [[] for _ in range(groups)]
    total = [0.0] * groups
    for load, expert in loads:
        able = [g for g in range(groups) if len(held[g]) < slots]
        able = [g for g in able if expert not in held[g]] or able
        group = min(able, key=lambda g: total[g])
        held[group].append(expert)
        total[group] += load
    where = {
        e: [g for g in range(groups) for one in held[g] if one == e] for e in range(len(copies))
    }
    draw = np.random.default_rng(1)
    most = []
    for _ in range(batches):
        rows = [0] * groups
        for chosen in drawn_experts(np.array(probable), tokens, draw):
            for expert in chosen:
                rows[where[expert][draw.integers(len(where[expert]))]] += 1
        most.append(max(rows))
    return float(np.mean(most))


@pytest.mark.parametrize("skew", [0.0, 0.6, 1.0])
@pytest.mark.parametrize(("groups", "redundant", "tokens"), [(8, 8, 64), (8, 24, 64), (4, 4, 32)])
def test_groups_with_redundant_experts_are_as_busy_as_when_tokens_are_drawn(
    skew: float, groups: int, redundant: int, tokens: int
) -> None:
    routing = Routing(skew=skew, redundant=redundant)
    probable = chances(32, 4, routing).tolist()
    drawn = counted_busiest(probable, groups, redundant, tokens, batches=150)
    ours, _ = busiest(float(tokens), mixture(32, 4), groups, routing)
    assert ours == pytest.approx(drawn, rel=0.05)


@pytest.mark.parametrize("skew", [0.5, 1.0, 1.5])
def test_more_copies_never_make_the_fullest_group_busier(skew: float) -> None:
    last = np.inf
    for redundant in (1, 8, 16, 32, 96):
        held = balanced(chances(32, 4, Routing(skew=skew)), 8, redundant)
        assert held.sum() == pytest.approx(4.0)
        most = held.sum(axis=1).max()
        assert most <= last * 1.01  # greedy, so that an unlucky place may cost a little
        last = most
    # Every expert everywhere: all groups alike.
    whole = balanced(chances(32, 4, Routing(skew=skew)), 8, 32 * 7)
    assert whole.sum(axis=1) == pytest.approx(np.full(8, 0.5))
    assert whole.shape == (8, 32)
    random, _ = busiest(256.0, mixture(32, 4), 8, Routing(skew=skew))
    spread, _ = busiest(256.0, mixture(32, 4), 8, Routing(skew=skew, redundant=16))
    assert spread < random


def test_redundant_experts_take_memory_where_there_are_groups() -> None:
    part, more = 256, Routing(redundant=32)
    assert held_experts(part, 32) == 8
    assert held_experts(part, 32, more) == 9
    assert held_experts(part, 1, more) == 256
    assert np.array_equal(held_experts(part, np.array([1.0, 64.0]), more), [256.0, 5.0])
