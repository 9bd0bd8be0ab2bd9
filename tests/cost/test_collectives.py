"""Collectives: what is sent, against messages played one by one; what is chosen; what it takes."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.cost.collectives import (
    Ranks,
    Transfer,
    all_gather,
    all_reduce,
    exchange,
    reduce_scatter,
    ring,
    send,
)
from roofline.hardware.machine import Link
from roofline.records import replace
from tests.cases import examples
from tests.cost.networks import all_to_all, wires
from tests.cost.reference import messages
from tests.cost.reference.messages import Machine, even

SEVERAL = settings(max_examples=examples(60), deadline=None)
HOST = wires(1.0, topology="host")
SWITCH = wires(1.0, topology="switch")
CHEAP = wires(1e9, topology="host")
"""Bytes cost next to nothing."""
BOXES = [(2, 2), (4, 2), (2, 4), (4, 3), (8, 2), (1, 4), (3, 3)]


def one_box(link: Link, n: int) -> Ranks:
    return Ranks(float(n), float(n), link, None, n)


def same(ours: Transfer, played: Machine, payload: float) -> None:
    """The bytes of every rank and the rounds on each level."""
    near, far = (float(np.mean([float(x) for x in sent])) for sent in (played.near, played.far))
    assert ours.work.wire_bytes == pytest.approx(near * payload, rel=1e-14)
    assert ours.work.network_bytes == pytest.approx(far * payload, rel=1e-14)
    assert ours.work.messages == played.near_rounds
    assert ours.work.network_messages == played.far_rounds


def everyone_alike(played: Machine) -> bool:
    return len(set(played.near)) == len(set(played.far)) == 1


@pytest.mark.parametrize("n", range(2, 9))
def test_a_ring_that_is_played_sends_what_ours_sends(n: int) -> None:
    shares = [[(i,)] for i in range(n)]
    around = [(range(n), shares)]
    reduced, scattered, gathered = (Machine(n, n, even(n)) for _ in range(3))
    messages.ring_scatter(reduced, around)
    messages.ring_gather(reduced, around)
    messages.ring_scatter(scattered, around)
    assert reduced.all_know
    assert all(scattered.held[i][i,] == set(range(n)) for i in range(n))
    for device in gathered.held:
        for part in device:
            device[part] = set(range(n)) if device is gathered.held[part[0]] else set()
    messages.ring_gather(gathered, around)
    assert gathered.all_know
    group = one_box(HOST, n)
    same(all_reduce(5.0, group), reduced, 5.0)
    same(reduce_scatter(5.0, group), scattered, 5.0)
    same(all_gather(5.0, group), gathered, 5.0)
    same(ring(5.0, group), gathered, 5.0)


@pytest.mark.parametrize("n", range(2, 9))
def test_sending_everything_to_everybody_takes_one_round(n: int) -> None:
    played = Machine(n, n, even(1))
    messages.direct_scatter(played, range(n), [[(0,)]] * n)
    assert played.all_know
    ours = all_reduce(5.0, one_box(wires(1e6, 1.0), n))
    assert ours.algorithm == "one-shot"
    same(ours, played, 5.0)


@pytest.mark.parametrize("n", range(3, 9))
def test_scattering_and_gathering_directly_takes_two_rounds(n: int) -> None:
    played = Machine(n, n, even(n))
    shares = [[(i,)] for i in range(n)]
    messages.direct_scatter(played, range(n), shares)
    messages.direct_gather(played, range(n), shares)
    assert played.all_know
    ours = all_reduce(5.0, one_box(wires(1.0, 0.25), n))
    assert ours.algorithm == "two-shot"
    same(ours, played, 5.0)


@pytest.mark.parametrize("n", range(2, 18))
def test_two_trees_send_no_more_and_take_no_more_rounds_than_ours(n: int) -> None:
    # A rank inside one tree has two children there and is a leaf of the other: half a tensor up
    # each, two halves down. Roots and odd numbers of ranks have less to do.
    played = messages.two_trees(n)
    assert played.all_know
    assert max(played.near) <= 2
    assert played.near_rounds <= 2 * math.ceil(math.log2(n))
    assert sum(played.near) == 2 * (n - 1)
    if n >= 4:
        ours = all_reduce(5.0, one_box(replace(CHEAP, latency_s=1.0), n))
        assert ours.algorithm == "tree"
        assert ours.work.wire_bytes == 2 * 5.0
        assert ours.work.messages == 2 * math.ceil(math.log2(n))


@pytest.mark.parametrize("n", range(2, 9))
def test_a_port_of_a_summing_switch_carries_the_tensor_and_a_share_of_it(n: int) -> None:
    up, down = messages.through_a_switch(n)
    assert set(up) == set(down) == {1 + Fraction(1, n)}
    work = all_reduce(8.0, one_box(replace(SWITCH, reduces=True), n)).work
    # Between two, who would carry 1.5 of a tensor, it is exchanged at once.
    assert work.wire_bytes == pytest.approx(8.0 * (float(up[0]) if n > 2 else 1.0))


@pytest.mark.parametrize(("inside", "nodes"), BOXES)
def test_an_all_reduce_over_nodes_sends_what_scattering_rails_and_gathering_send(
    inside: int, nodes: int
) -> None:
    played = messages.hierarchical_all_reduce(inside, nodes)
    assert played.all_know
    assert everyone_alike(played)
    ranks = Ranks(float(inside * nodes), float(inside), CHEAP, HOST, inside)
    same(all_reduce(5.0, ranks), played, 5.0)


@pytest.mark.parametrize(("inside", "nodes"), BOXES)
def test_an_all_gather_over_nodes_sends_what_rails_and_then_boxes_send(
    inside: int, nodes: int
) -> None:
    played = messages.hierarchical_all_gather(inside, nodes)
    assert played.all_know
    assert everyone_alike(played)
    ranks = Ranks(float(inside * nodes), float(inside), CHEAP, HOST, inside)
    same(all_gather(5.0, ranks), played, 5.0)
    same(reduce_scatter(5.0, ranks), played, 5.0)


@pytest.mark.parametrize(("inside", "nodes"), [(2, 2), (4, 2), (3, 3), (8, 2)])
def test_a_flat_ring_sends_what_rings_on_every_rail_send(inside: int, nodes: int) -> None:
    played = messages.flat_ring_all_reduce(inside, nodes)
    assert played.all_know
    assert everyone_alike(played)
    # Wires inside as slow as a node's rails: while one ring uses both, levels wait for each other.
    ours = all_reduce(5.0, Ranks(float(inside * nodes), float(inside), HOST, HOST, inside))
    assert ours.algorithm == "flat ring"
    assert ours.work.network_messages == played.far_rounds
    assert ours.work.network_bytes == pytest.approx(float(played.far[0]) * 5.0)
    assert ours.work.wire_bytes == pytest.approx(float(played.near[0]) * 5.0)


@pytest.mark.parametrize("n", [2, 4, 8])
def test_nodes_of_one_device_need_no_link(n: int) -> None:
    lonely, network = Ranks(float(n), 1.0, None, HOST, 1), one_box(HOST, n)
    for collective in (all_reduce, all_gather, reduce_scatter, ring, all_to_all):
        over, inside = collective(8.0, lonely), collective(8.0, network)
        assert over.work.wire_bytes == over.work.messages == 0
        assert over.work.network_bytes == pytest.approx(inside.work.wire_bytes)
        assert over.seconds == pytest.approx(float(inside.seconds))


LINKS = st.builds(
    wires,
    st.floats(0.5, 1000),
    st.floats(0, 2),
    topology=st.sampled_from(["switch", "mesh", "ring", "host"]),
    per_peer_s=st.floats(0, 0.1),
    reduces=st.booleans(),
)
NETWORKS = st.builds(
    wires,
    st.floats(0.5, 100),
    st.floats(0, 2),
    topology=st.just("switch"),
    oversubscription=st.floats(1, 4),
)
GROUPS = st.builds(
    lambda inside, nodes, link, network: Ranks(
        float(inside * nodes), float(inside), link, network, 8
    ),
    st.sampled_from([1, 2, 4, 8]),
    st.integers(1, 5),
    LINKS,
    NETWORKS,
)
Collective = Callable[[Any, Ranks], Transfer]
COLLECTIVES: st.SearchStrategy[Collective] = st.sampled_from(
    [all_reduce, all_gather, reduce_scatter, ring, all_to_all]
)


@SEVERAL
@given(GROUPS, COLLECTIVES, st.floats(1, 1e5), st.floats(1, 8))
def test_better_wires_are_never_slower(
    ranks: Ranks, collective: Collective, payload: float, factor: float
) -> None:
    assert ranks.link is not None
    assert ranks.network is not None

    def seconds(link: Link | None, network: Link | None) -> float:
        return float(collective(payload, replace(ranks, link=link, network=network)).seconds)

    before = seconds(ranks.link, ranks.network) * (1 + 1e-12)
    for level in ("link", "network"):
        wired = getattr(ranks, level)
        for better in (
            replace(wired, bytes_per_s=wired.bytes_per_s * factor),
            replace(wired, latency_s=wired.latency_s / factor),
            replace(wired, per_peer_s=wired.per_peer_s / factor),
            replace(wired, reduces=True),
            replace(wired, oversubscription=1.0),
        ):
            pair = {"link": ranks.link, "network": ranks.network, level: better}
            assert seconds(pair["link"], pair["network"]) <= before, (level, better)
    spread = replace(ranks.network, oversubscription=ranks.network.oversubscription * factor)
    assert seconds(ranks.link, spread) * (1 + 1e-12) >= seconds(ranks.link, ranks.network)


@SEVERAL
@given(GROUPS, COLLECTIVES, st.floats(1, 1e5), st.floats(1, 8))
def test_more_bytes_never_take_less_time(
    ranks: Ranks, collective: Collective, payload: float, factor: float
) -> None:
    more, less = collective(payload * factor, ranks), collective(payload, ranks)
    assert more.seconds >= less.seconds * (1 - 1e-12)


@SEVERAL
@given(GROUPS, st.floats(1, 1e5))
def test_a_sum_for_all_takes_no_longer_than_its_two_halves(ranks: Ranks, payload: float) -> None:
    halves = reduce_scatter(payload, ranks).seconds + all_gather(payload, ranks).seconds
    assert all_reduce(payload, ranks).seconds <= halves * (1 + 1e-12)


@SEVERAL
@given(LINKS, NETWORKS, COLLECTIVES, st.floats(1, 1e5))
def test_nobody_sends_anything_to_itself(
    link: Link, network: Link, collective: Collective, payload: float
) -> None:
    moved = collective(payload, Ranks(1.0, 1.0, link, network, 8))
    assert moved.seconds == 0
    assert moved.work.wire_bytes == moved.work.network_bytes == 0
    assert moved.work.messages == moved.work.network_messages == 0


@SEVERAL
@given(
    LINKS,
    NETWORKS,
    COLLECTIVES,
    st.lists(
        st.tuples(st.sampled_from([1, 2, 4, 8]), st.integers(1, 4), st.floats(1, 1e5)),
        min_size=2,
        max_size=6,
    ),
)
def test_a_column_of_groups_moves_like_its_rows(
    link: Link,
    network: Link,
    collective: Collective,
    rows: list[tuple[int, int, float]],
) -> None:
    inside, nodes, payload = (np.array(column, float) for column in zip(*rows, strict=True))
    together = collective(payload, Ranks(inside * nodes, inside, link, network, 8))
    for row, (few, boxes, load) in enumerate(rows):
        alone = collective(load, Ranks(float(few * boxes), float(few), link, network, 8))
        assert np.asarray(together.seconds)[row] == pytest.approx(alone.seconds, rel=1e-12)
        for part in ("wire_bytes", "messages", "network_bytes", "network_messages"):
            ours = np.broadcast_to(getattr(together.work, part), len(rows))[row]
            assert ours == pytest.approx(getattr(alone.work, part), rel=1e-12), part


def test_a_sum_over_nodes_takes_its_three_parts_by_hand() -> None:
    # 12 bytes over 2 nodes of 3: 8 bytes inside twice, 4 between, each in 2 rounds.
    ranks = Ranks(6.0, 3.0, wires(1.0, 0.25, topology="host"), wires(0.5, 4.0, topology="host"), 3)
    moved = all_reduce(12.0, ranks)
    assert moved.algorithm == "hierarchical, ring between nodes"
    assert moved.seconds == 2 * (8 / 1.0 + 2 * 0.25) + 4 / 0.5 + 2 * 4.0


def test_what_everybody_sends_everybody_by_hand() -> None:
    # 8 bytes each for 8 ranks, 4 in a node: 3 of them for the node, 4 for the other one.
    moved = all_to_all(8.0, Ranks(8.0, 4.0, wires(1.0, 0.5), wires(0.5, 1.0), 4))
    assert (moved.work.wire_bytes, moved.work.network_bytes) == (3.0, 4.0)
    assert moved.seconds == max(3.0 / 1.0 + 0.5, 4.0 / 0.5 + 1.0)


def test_a_message_to_one_other_by_hand() -> None:
    ranks = Ranks(2.0, 2.0, wires(4.0, 0.5), wires(2.0, 1.0), 8)
    assert send(8.0, ranks, 0.0).seconds == 8.0 / 4.0 + 0.5
    assert send(8.0, ranks, 1.0).seconds == 8.0 / 2.0 + 1.0
    # On a mesh of eight, one wire of seven leads there.
    meshed = replace(ranks, link=wires(7.0, 0.5, topology="mesh"))
    assert send(8.0, meshed, 0.0).seconds == pytest.approx(8.0 / 1.0 + 0.5)


def test_two_of_eight_on_a_mesh_have_one_wire_of_seven_between_them() -> None:
    meshed = Ranks(2.0, 2.0, wires(7.0, topology="mesh"), None, 8)
    assert all_reduce(3.0, meshed).seconds == pytest.approx(3.0)
    whole = Ranks(8.0, 8.0, wires(7.0, topology="mesh"), None, 8)
    assert all_reduce(8.0, whole).seconds == pytest.approx(2 * 7 / 8 * 8.0 / 7.0)


@pytest.mark.parametrize("n", range(2, 10))
def test_messages_on_a_ring_of_wires_pass_others_on_their_way(n: int) -> None:
    # Eight: the others are 1, 2, 3, 4, 3, 2 and 1 wires away, whichever way is shorter.
    around = Ranks(float(n), float(n), wires(1.0, topology="ring"), None, n)
    hops = sum(min(i, n - i) for i in range(1, n)) / (n - 1)
    assert exchange(3.0, 0.0, around).work.wire_bytes == pytest.approx(3.0 * hops)


def test_each_further_peer_costs_its_share_of_a_round() -> None:
    slow = wires(1e9, 1.0, per_peer_s=0.25)
    assert all_reduce(1.0, one_box(slow, 4)).seconds == pytest.approx(1.0 + 2 * 0.25)


def test_a_collective_that_is_remembered_is_of_its_own_tensor_and_group() -> None:
    payload = np.array([[1e3, 1e6], [1e7, 1e9]])
    for link, n in ((SWITCH, 2), (SWITCH, 4), (HOST, 4)):
        for each in (payload, 2.0 * payload, payload):
            found, again = (all_reduce(each.copy(), one_box(link, n)) for _ in range(2))
            alone = [all_reduce(float(one), one_box(link, n)).seconds for one in each.ravel()]
            assert found is again
            assert np.ravel(found.seconds).tolist() == alone
