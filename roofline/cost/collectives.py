"""Moving data between devices: what each algorithm sends, how long it takes, which is cheapest.

Symbols: M bytes of the whole tensor, n devices, g of them in each of N = n / g nodes, W the rate of
a device's wires in one direction, α the latency of a round of messages, s the cost of each further
peer that is addressed in a round. A round of a group on one link takes α + s·(peers − 1), and
what it sends takes bytes / W.
"""

from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import wraps
from typing import Final, TypeAlias

import numpy as np

from roofline.cost.algorithms import (
    LINK,
    NETWORK,
    PASSED,
    Ranks,
    Transfer,
    Way,
    around,
    cheapest,
    cheapest_placed,
    flat,
    on_link,
    on_network,
    passing,
    reducing,
    several,
    topology,
)
from roofline.cost.work import Formula, Number, by

Collective: TypeAlias = Callable[[Number, Ranks], Transfer]
REMEMBERED: Final = 16
"""Tensors that each collective is known of: parts of a network, and deployments that differ in
formats, move the same ones."""


def remembered(price: Collective) -> Collective:
    """The collective, priced once for each of the last tensors and groups."""
    known: dict[Hashable, Transfer] = {}

    @wraps(price)
    def found(payload: Number, ranks: Ranks) -> Transfer:
        several_groups = any(isinstance(n, np.ndarray) for n in (ranks.size, ranks.inside))
        if several_groups or not isinstance(payload, np.ndarray):
            return price(payload, ranks)
        key = payload.shape, payload.tobytes(), ranks
        if key not in known:
            if len(known) == REMEMBERED:
                known.clear()
            known[key] = price(payload, ranks)
        return known[key]

    return found


@remembered
def all_reduce(payload: Number, ranks: Ranks) -> Transfer:
    """Sum a tensor over all ranks.

    In one node the cheapest: a ring (reduce-scatter, then all-gather), two trees,
    every rank sending to all, or a switch that sums. Across nodes: a reduce-scatter inside each
    node, an all-reduce of M/g over the nodes on each rail, an all-gather inside; or one flat ring.
    Source: Patarasuk and Yuan 2009 (ring); Sanders, Speck and Träff 2009 (two trees); Thakur,
    Rabenseifner and Gropp 2005 (α–β costs); NVIDIA NVLink SHARP for the sum in the switch.

    Args:
        payload: Tensor on each rank, M. [B]
        ranks: Devices.

    Examples:
        >>> from roofline.hardware.machine import Link
        >>> link = Link("pcie", 1.0, topology="host")
        >>> all_reduce(8.0, Ranks(4, 4, link)).work.wire_bytes
        12.0
    """
    inside, nodes = ranks.inside, ranks.nodes
    alone: list[Transfer] = []
    if np.any(nodes == 1):
        alone = [on_link(way, ranks) for way in reducing(payload, ranks.size, ranks.link)]
    if np.all(nodes == 1):
        return cheapest(alone)
    scattered = cheapest(
        [on_link(w, ranks) for w in passing(payload, inside, ranks.link)], named=True
    )
    summed = cheapest(
        [on_network(w, ranks) for w in reducing(payload / inside, nodes, ranks.network)], named=True
    )
    levels = Transfer(
        scattered.work * 2.0 + summed.work,
        2.0 * scattered.seconds + summed.seconds,
        f"hierarchical, {summed.algorithm} between nodes",
    )
    return cheapest_placed(alone, [levels, flat(payload, ranks, 2)], nodes)


@remembered
def all_gather(payload: Number, ranks: Ranks) -> Transfer:
    """Give every rank the whole tensor, of which each holds 1/n.

    (n − 1)/n of the tensor arrives at each rank: around a ring or directly. Across nodes first
    M/g over the nodes on each rail, then M inside each node. Source: as `all_reduce`.

    Args:
        payload: Whole tensor, M. [B]
        ranks: Devices.

    Examples:
        >>> from roofline.hardware.machine import Link
        >>> all_gather(8.0, Ranks(4, 4, Link("pcie", 1.0, topology="host"))).work.wire_bytes
        6.0
    """
    alone: list[Transfer] = []
    if np.any(ranks.nodes == 1):
        alone = [on_link(way, ranks) for way in passing(payload, ranks.size, ranks.link)]
    if np.all(ranks.nodes == 1):
        return cheapest(alone)
    near = cheapest(
        [on_link(w, ranks) for w in passing(payload, ranks.inside, ranks.link)], named=True
    )
    shard = payload / ranks.inside
    far = cheapest(
        [on_network(w, ranks) for w in passing(shard, ranks.nodes, ranks.network)], named=True
    )
    levels = Transfer(
        near.work + far.work,
        near.seconds + far.seconds,
        f"hierarchical, {far.algorithm} between nodes",
    )
    return cheapest_placed(alone, [levels, flat(payload, ranks, 1)], ranks.nodes)


@remembered
def reduce_scatter(payload: Number, ranks: Ranks) -> Transfer:
    """Sum a tensor over all ranks and leave 1/n of the sum on each.

    An all-gather run backwards, message by message. Source: as `all_reduce`.

    Args:
        payload: Tensor on each rank, M. [B]
        ranks: Devices.
    """
    return all_gather(payload, ranks)


def ring(payload: Number, ranks: Ranks) -> Transfer:
    """Pass every rank's part of a tensor around a ring, so that each has seen all of them.

    n − 1 rounds of M/n over the slowest link on the way. Source: ring attention, Liu, Zaharia and
    Abbeel 2023 (arXiv 2310.01889).

    Args:
        payload: All parts together, M. [B]
        ranks: Devices.
    """
    sent, rounds = ((ranks.size - 1.0) / ranks.size) * payload, ranks.size - 1.0
    way = Way("ring", sent, rounds, says=PASSED, of=(payload, ranks.size))
    if np.all(ranks.nodes == 1):
        return on_link(way, ranks)
    alone = [on_link(way, ranks)] if np.any(ranks.nodes == 1) else []
    return cheapest_placed(alone, [around(sent, rounds, ranks, "ring", payload)], ranks.nodes)


def exchange(near: Number, far: Number, ranks: Ranks) -> Transfer:
    """Every rank sends to every other, not always equally much.

    Link and network are used at once; on a ring a message passes ⌊n²/4⌋/(n − 1) wires on average.
    Source: one round of direct messages on each level.

    Args:
        near, far: What the busiest rank sends inside its node, and out of it. [B]
        ranks: Devices.
    """
    hops: Number = 1.0
    if topology(ranks.link) == "ring":
        others = np.maximum(ranks.inside - 1.0, 1.0)
        hops = np.maximum(np.floor(ranks.inside * ranks.inside / 4.0) / others, 1.0)
    says = ("", "1")  # what is sent, whoever exchanges something says
    way = Way("direct", near * hops, several(ranks.inside), ranks.inside, says)
    inside = on_link(way, ranks)
    if topology(ranks.link) == "ring":
        inside = replace(inside, work=inside.work.telling(hops=hops))
    if np.all(ranks.nodes == 1):
        return Transfer(inside.work, inside.seconds, "direct" if np.any(near) else "")
    across = on_network(Way("direct", far, several(ranks.nodes), ranks.nodes, says), ranks)
    seconds: Number = np.maximum(inside.seconds, across.seconds)
    work = inside.work + across.work
    if ranks.link is not None:
        first, second = work.formulas
        made = by(_AT_ONCE, lambda: {**second.known(), **first.known()})
        work = replace(work, made=made)
    return Transfer(work, seconds, "direct")


_AT_ONCE: Final = Formula(messages="1", network_messages="1", seconds=f"max({LINK}, {NETWORK})")


def send(payload: Number, ranks: Ranks, crosses: Number) -> Transfer:
    """One device to one other.

    α + M / W; on a mesh, over the one wire that leads there. Source: definition of α and β.

    Args:
        payload: What is sent, M. [B]
        ranks: Devices, for their wires.
        crosses: 1 where the other is in another node, 0 where it is not. [1]
    """
    of = (payload, 2.0)
    inside = Way("direct", payload * (1.0 - crosses), 1.0 - crosses, 2.0, of=of)
    near = on_link(inside, ranks, peers=1)
    if not np.any(crosses):
        return Transfer(near.work, near.seconds, "direct")
    far = on_network(Way("direct", payload * crosses, 1.0 * crosses, 2.0, of=of), ranks)
    if np.all(crosses):
        return far
    return Transfer(near.work + far.work, near.seconds + far.seconds, "direct")
