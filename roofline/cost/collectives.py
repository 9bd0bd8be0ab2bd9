"""Moving data between devices: what each algorithm sends, how long it takes, which is cheapest.

Symbols: M bytes of the whole tensor, n devices, g of them in each of N = n / g nodes, W the rate of
a device's wires in one direction, α the latency of a round of messages, s the cost of each further
peer that is addressed in a round. A round of a group on one link takes α + s·(peers − 1), and
what it sends takes bytes / W.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import cache, wraps
from typing import Any, Final, TypeAlias

import numpy as np
from msgspec import Struct

from roofline.cost.work import Formula, Number, Work, by
from roofline.hardware.machine import Link
from roofline.records import replace


class Ranks(Struct, frozen=True):
    """Devices that talk to each other."""

    size: Number
    """Devices n. [1]"""
    inside: Number
    """Devices of one node among them, g. [1]"""
    link: Link | None
    network: Link | None = None
    """Wires between devices of a node, and out of it; None where there are none."""
    joined: int = 0
    """Devices that the link joins, in the group or not. [1]"""

    @property
    def nodes(self) -> Number:
        """Nodes that they lie on. [1]"""
        return np.ceil(self.size / self.inside)


class Transfer(Struct, frozen=True):
    """A movement of data, by the algorithm that takes least time."""

    work: Work
    """Bytes and rounds of messages on each level."""
    seconds: Number
    """Time at the links' rates and latencies. [s]"""
    algorithm: str
    """Its name; ``"several"`` where it differs along the scenario axis, empty where nothing
    moves."""


class LinkAlgorithm(Struct, frozen=True):
    """An algorithm on one link."""

    name: str
    sent: Number
    """Bytes sent by each device, over all rounds. [B]"""
    rounds: Number
    """Rounds of messages that follow one another. [1]"""
    group: Number = 2.0
    """Devices that each addresses in a round, itself included. [1]"""
    says: tuple[str, str] = ("{M}", "1")
    """Bytes sent, and rounds, in symbols."""
    of: tuple[Number, Number] = (0.0, 1.0)
    """Tensor M and devices n of it. [B] [1]"""


PASSED: Final = ("({n} − 1) / {n} · {M}", "({n} − 1)")
_TWICE: Final = ("2 · ({n} − 1) / {n} · {M}", "2 · ({n} − 1)")


def reducing(payload: Number, n: Number, link: Link | None) -> list[LinkAlgorithm]:
    """All-reduces of a tensor [B] among n devices of one link. [1]"""
    some, of = several(n), (payload, n)
    around = (2.0 * (n - 1.0) / n) * payload
    ways = [LinkAlgorithm("ring", around, 2.0 * (n - 1.0), says=_TWICE, of=of)]
    if topology(link) != "ring":  # where a tree's edges would be several wires long
        says, rounds = ("2 · {M}", "2 · ceil(log2({n}))"), 2.0 * np.ceil(np.log2(n))
        ways.append(LinkAlgorithm("tree", (2.0 * some) * payload, rounds, says=says, of=of))
    if topology(link) in ("switch", "mesh"):
        ways += [
            LinkAlgorithm("one-shot", (n - 1.0) * payload, some, n, ("({n} − 1) · {M}", "1"), of),
            LinkAlgorithm("two-shot", around, 2.0 * some, n, (_TWICE[0], "2"), of),
        ]
    if link is not None and link.reduces:
        says, sent = ("(1 + 1 / {n}) · {M}", "2"), ((1.0 + 1.0 / n) * some) * payload
        ways.append(LinkAlgorithm("in-switch", sent, 2.0 * some, says=says, of=of))
    return ways


def passing(payload: Number, n: Number, link: Link | None) -> list[LinkAlgorithm]:
    """All-gathers, or reduce-scatters, of a tensor [B] among n devices of one link. [1]"""
    sent, of = ((n - 1.0) / n) * payload, (payload, n)
    ways = [LinkAlgorithm("ring", sent, n - 1.0, says=PASSED, of=of)]
    if topology(link) in ("switch", "mesh"):
        ways.append(LinkAlgorithm("direct", sent, several(n), n, (PASSED[0], "1"), of))
    return ways


def flat(payload: Number, ranks: Ranks, times: int) -> Transfer:
    """A ring through all devices of all nodes, one for each rail.

    times · (n − 1)/n · M from each device in times · (n − 1) rounds. Source: Patarasuk and Yuan
    2009.

    Args:
        payload: Whole tensor, M. [B]
        ranks: Devices.
        times: How often it goes around: 1 to pass parts on, 2 to add them up first. [1]
    """
    sent = (times * (ranks.size - 1.0) / ranks.size) * payload
    return around(sent, times * (ranks.size - 1.0), ranks, "flat ring", payload, times)


def around(
    sent: Number, rounds: Number, ranks: Ranks, name: str, payload: Number, times: int = 1
) -> Transfer:
    """Rings through all nodes, as many as there are rails, each device crossing on one of them.

    1/g of what a device sends leaves its node, and every round waits for those that do. Source: g
    rings, each of them crossing from another device of the node.

    Args:
        sent: By each device, over all rounds. [B]
        rounds: One after the other. [1]
        ranks, name: Devices; what the algorithm is called.
        payload, times: Tensor M [B], and how often it goes around. [1]
    """
    network = ranks.network
    assert network is not None, "several nodes have a network"
    far = sent / ranks.inside
    near = sent - far
    made = by(
        _RINGS[times],
        lambda: {**_near_wires(ranks, ranks.inside), **_far_wires(ranks), "M": payload},
    )
    work = Work(wire_bytes=near, network_bytes=far, network_messages=rounds, made=made)
    seconds: Number = far / network.rate_between_nodes
    if ranks.link is not None:
        seconds = np.maximum(seconds, near / _rate(ranks, ranks.inside))
    return Transfer(work, seconds + rounds * network.latency_s, name)


def _rings(times: str) -> Formula:
    sent = f"{times}(n · N − 1) / (n · N) · M"
    return Formula(
        wire_bytes=f"{sent} · (1 − 1 / n)",
        network_bytes=f"{sent} / n",
        network_messages=f"{times}(n · N − 1)",
        seconds="rounds out · α network + max(sent[ / share of links] / W, sent out / W network)",
    )


_RINGS: Final = {1: _rings(""), 2: _rings("2 · ")}
LINK: Final = "rounds · (α[ + further · s]) + sent[ / share of links] / W"
NETWORK: Final = "rounds out · (α network[ + further out · s network]) + sent out / W network"


def _near_wires(ranks: Ranks, reached: Number) -> dict[str, Number]:
    """Symbols of the wires in a node that lead to so many of its devices."""
    link, n = ranks.link, ranks.inside
    if link is None:
        return {"n": n}
    share = _rate(ranks, reached) / link.bytes_per_s
    rates = {"α": link.latency_s, "s": link.per_peer_s, "W": link.bytes_per_s}
    return {"n": n, "share of links": share, **rates}


def _far_wires(ranks: Ranks) -> dict[str, Number]:
    """Symbols of the wires out of a node."""
    far = ranks.network
    assert far is not None, "several nodes have a network"
    rates = {"s network": far.per_peer_s, "W network": far.rate_between_nodes}
    return {"n": ranks.inside, "N": ranks.nodes, "α network": far.latency_s, **rates}


@cache
def _near(sent: str, rounds: str) -> Formula:
    sent, rounds = sent.format(n="n", M="M"), rounds.format(n="n")
    return Formula(wire_bytes=sent, messages=rounds, seconds=LINK)


@cache
def _far(sent: str, rounds: str) -> Formula:
    sent, rounds = sent.format(n="N", M="M of a rail"), rounds.format(n="N")
    return Formula(network_bytes=sent, network_messages=rounds, seconds=NETWORK)


def on_link(way: LinkAlgorithm, ranks: Ranks, peers: int = 0) -> Transfer:
    """Price an algorithm on the link of a node.

    rounds · (α + (group − 2)·s) + sent / W. Source: α–β costs, Thakur, Rabenseifner and Gropp 2005.

    Args:
        way, ranks: The algorithm, and who takes part.
        peers: Others that a device sends to, where not to all of its node; 0 for all. [1]
    """
    link = ranks.link
    if link is None:
        assert not np.any(way.sent), "devices that talk to each other have a link"
        return Transfer(Work(), 0.0, "")
    delay = link.latency_s + link.per_peer_s * np.maximum(way.group - 2.0, 0.0)
    reached = peers + 1.0 if peers else ranks.inside
    seconds = way.sent / _rate(ranks, reached) + way.rounds * delay

    def symbols() -> dict[str, Number]:
        further = {"further": np.maximum(way.group - 2.0, 0.0)}
        return _near_wires(ranks, reached) | further | {"M": way.of[0], "n": way.of[1]}

    work = Work(wire_bytes=way.sent, messages=way.rounds, made=by(_near(*way.says), symbols))
    return Transfer(work, seconds, way.name)


def on_network(way: LinkAlgorithm, ranks: Ranks) -> Transfer:
    """Price an algorithm on the network between nodes.

    Source: as `on_link`, at the rate that is left by oversubscription.

    Args:
        way, ranks: The algorithm, and who takes part, one device of each node on each rail.
    """
    network = ranks.network
    assert network is not None, "several nodes have a network"
    delay = network.latency_s + network.per_peer_s * np.maximum(way.group - 2.0, 0.0)
    seconds = way.sent / network.rate_between_nodes + way.rounds * delay

    def symbols() -> dict[str, Number]:
        further = {"further out": np.maximum(way.group - 2.0, 0.0)}
        return _far_wires(ranks) | further | {"M of a rail": way.of[0], "N": way.of[1]}

    made = by(_far(*way.says), symbols)
    work = Work(network_bytes=way.sent, network_messages=way.rounds, made=made)
    return Transfer(work, seconds, way.name)


def _rate(ranks: Ranks, n: Number) -> Number:
    """Rate of a device's wires to the n − 1 others: on a mesh, those that lead to them. [B/s]"""
    link = ranks.link
    assert link is not None, "devices that talk to each other have a link"
    if link.topology != "mesh" or ranks.joined <= 2:
        return link.bytes_per_s
    return link.bytes_per_s * np.clip((n - 1.0) / (ranks.joined - 1.0), 1.0 / ranks.joined, 1.0)


def topology(link: Link | None) -> str:
    """Topology of a link; that of a host where there is none."""
    return link.topology if link is not None else "host"


def several(n: Number) -> Number:
    """1 where there is anybody to talk to, else 0.

    Source: a group of one sends nothing.

    Args:
        n: Devices. [1]
    """
    some: Number = np.where(np.asarray(n) > 1, 1.0, 0.0)[()]
    return some


def cheapest_placed(
    alone: Sequence[Transfer], across: Sequence[Transfer], nodes: Number
) -> Transfer:
    """Cheapest of the ways inside a node where there is one node, of those across elsewhere.

    Source: as `cheapest`.

    Args:
        alone, across: Ways inside a node, and over several.
        nodes: Nodes that the devices lie on. [1]
    """

    def where(condition: Any, way: Transfer) -> Transfer:
        """The way where the condition holds; never chosen elsewhere."""
        return replace(way, seconds=np.where(condition, way.seconds, np.inf)[()])

    inside = [where(nodes == 1, way) for way in alone]
    return cheapest([*inside, *(where(nodes > 1, way) for way in across)])


def cheapest(ways: Sequence[Transfer], *, named: bool = False) -> Transfer:
    """The way that takes least time, scenario by scenario; the first of equals.

    Source: libraries tune their choice to the machine; the best of it is the least.

    Args:
        ways: To choose from.
        named: Whether a way is named where nothing moves.
    """
    if not any(isinstance(way.seconds, np.ndarray) for way in ways):
        best = min(ways, key=lambda way: float(way.seconds))
        moves = named or float(best.seconds) or np.any(best.work.wire_bytes)
        return Transfer(best.work, best.seconds, best.algorithm if moves else "")
    least, chosen = ways[0].seconds, np.zeros(1, dtype=np.intp)
    for number, way in enumerate(ways[1:], start=1):
        chosen = np.where(way.seconds < least, number, chosen)
        least = np.minimum(least, way.seconds)
    one = int(chosen.flat[0])
    if np.all(chosen == one):
        return Transfer(ways[one].work, least, ways[one].algorithm)

    def pick(field: str) -> Number:
        values = [getattr(way.work, field) for way in ways]
        if all(isinstance(value, float) and value == 0.0 for value in values):
            return 0.0
        picked: Number = np.choose(chosen, values)
        return picked

    return Transfer(Work(**{field: pick(field) for field in _WIRED}), least, "several")


_WIRED: Final = ("wire_bytes", "messages", "network_bytes", "network_messages")


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
    way = LinkAlgorithm("ring", sent, rounds, says=PASSED, of=(payload, ranks.size))
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
    way = LinkAlgorithm("direct", near * hops, several(ranks.inside), ranks.inside, says)
    inside = on_link(way, ranks)
    if topology(ranks.link) == "ring":
        inside = replace(inside, work=inside.work.telling(hops=hops))
    if np.all(ranks.nodes == 1):
        return Transfer(inside.work, inside.seconds, "direct" if np.any(near) else "")
    across = on_network(
        LinkAlgorithm("direct", far, several(ranks.nodes), ranks.nodes, says), ranks
    )
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
    inside = LinkAlgorithm("direct", payload * (1.0 - crosses), 1.0 - crosses, 2.0, of=of)
    near = on_link(inside, ranks, peers=1)
    if not np.any(crosses):
        return Transfer(near.work, near.seconds, "direct")
    far = on_network(LinkAlgorithm("direct", payload * crosses, 1.0 * crosses, 2.0, of=of), ranks)
    if np.all(crosses):
        return far
    return Transfer(near.work + far.work, near.seconds + far.seconds, "direct")
