"""Moving data between devices: what each algorithm sends, how long it takes, which is cheapest.

Symbols: M bytes of the whole tensor, n devices, g of them in each of N = n / g nodes, W the rate of
a device's wires in one direction, α the latency of a round of messages, s the cost of each further
peer that is addressed in a round. A round of a group on one link takes α + s·(peers − 1), and
what it sends takes bytes / W.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from roofline.cost.work import Number, Work
from roofline.hardware.machine import Link

FORMULAS: Final[Mapping[str, str]] = {
    "ring": "rounds · α + parts · (n − 1)/n · M / W, around a ring",
    "tree": "2·⌈log₂ n⌉ · α + 2·M / W, up and down two trees",
    "one-shot": "α + (n − 2)·s + (n − 1)·M / W, all to all at once",
    "two-shot": "2·(α + (n − 2)·s) + 2·(n − 1)/n · M / W, scattered and gathered",
    "in-switch": "2·α + (1 + 1/n) · M / W, summed and multicast by the switch",
    "direct": "α + (n − 2)·s + sent / W, to every peer at once",
}
"""What each algorithm takes inside one link. An all-reduce goes around its ring twice."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """Devices that talk to each other.

    Attributes
    ----------
    size
        Devices n. [1]
    inside
        Those of them in one node, g. [1]
    link, network
        Wires between devices of a node, and out of it; None where there are none.
    joined
        Devices that the link joins, in the group or not. [1]
    """

    size: Number
    inside: Number
    link: Link | None
    network: Link | None = None
    joined: int = 0

    @property
    def nodes(self) -> Number:
        """Nodes they lie on. [1]"""
        return np.ceil(self.size / self.inside)


@dataclass(frozen=True, slots=True)
class Transfer:
    """A movement of data, by the algorithm that takes least time.

    Attributes
    ----------
    work
        Bytes and rounds of messages on each level.
    seconds
        Time at the links' rates and latencies. [s]
    algorithm
        Its name; ``"several"`` where it differs along the scenario axis, empty where nothing moves.
    """

    work: Work
    seconds: Number
    algorithm: str


def all_reduce(payload: Number, ranks: Ranks) -> Transfer:
    """Sum a tensor over all ranks.

    Parameters
    ----------
    payload
        Tensor on each rank, M. [B]
    ranks
        Devices.

    Notes
    -----
    In one node the cheapest of `FORMULAS`: a ring (reduce-scatter, then all-gather), two trees,
    every rank sending to all, or a switch that sums. Across nodes: a reduce-scatter inside each
    node, an all-reduce of M/g over the nodes on each rail, an all-gather inside; or one flat ring.
    Source: Patarasuk and Yuan 2009 (ring); Sanders, Speck and Träff 2009 (two trees); Thakur,
    Rabenseifner and Gropp 2005 (α–β costs); NVIDIA NVLink SHARP for the sum in the switch.

    Examples
    --------
    >>> link = Link("pcie", 1.0, topology="host")
    >>> all_reduce(8.0, Ranks(4, 4, link)).work.wire_bytes
    12.0
    """
    inside, nodes = ranks.inside, ranks.nodes
    alone: list[Transfer] = []
    if np.any(nodes == 1):
        alone = [_inside(way, ranks) for way in _reducing(payload, ranks.size, ranks.link)]
    if _all(nodes == 1):
        return _cheapest(alone)
    scattered = _least([_inside(w, ranks) for w in _passing(payload, inside, ranks.link)])
    summed = _least([_across(w, ranks) for w in _reducing(payload / inside, nodes, ranks.network)])
    levels = Transfer(
        scattered.work * 2.0 + summed.work,
        2.0 * scattered.seconds + summed.seconds,
        f"hierarchical, {summed.algorithm} between nodes",
    )
    return _placed(alone, [levels, _flat(payload, ranks, 2)], nodes)


def all_gather(payload: Number, ranks: Ranks) -> Transfer:
    """Give every rank the whole tensor, of which each holds 1/n.

    Parameters
    ----------
    payload
        Whole tensor, M. [B]
    ranks
        Devices.

    Notes
    -----
    (n − 1)/n of the tensor arrives at each rank: around a ring or directly. Across nodes first
    M/g over the nodes on each rail, then M inside each node. Source: as `all_reduce`.

    Examples
    --------
    >>> all_gather(8.0, Ranks(4, 4, Link("pcie", 1.0, topology="host"))).work.wire_bytes
    6.0
    """
    alone: list[Transfer] = []
    if np.any(ranks.nodes == 1):
        alone = [_inside(way, ranks) for way in _passing(payload, ranks.size, ranks.link)]
    if _all(ranks.nodes == 1):
        return _cheapest(alone)
    near = _least([_inside(w, ranks) for w in _passing(payload, ranks.inside, ranks.link)])
    shard = payload / ranks.inside
    far = _least([_across(w, ranks) for w in _passing(shard, ranks.nodes, ranks.network)])
    levels = Transfer(
        near.work + far.work,
        near.seconds + far.seconds,
        f"hierarchical, {far.algorithm} between nodes",
    )
    return _placed(alone, [levels, _flat(payload, ranks, 1)], ranks.nodes)


def reduce_scatter(payload: Number, ranks: Ranks) -> Transfer:
    """Sum a tensor over all ranks and leave 1/n of the sum on each.

    Parameters
    ----------
    payload
        Tensor on each rank, M. [B]
    ranks
        Devices.

    Notes
    -----
    An all-gather run backwards, message by message. Source: as `all_reduce`.
    """
    return all_gather(payload, ranks)


def ring(payload: Number, ranks: Ranks) -> Transfer:
    """Pass every rank's part of a tensor around a ring, so that each has seen all of them.

    Parameters
    ----------
    payload
        All parts together, M. [B]
    ranks
        Devices.

    Notes
    -----
    n − 1 rounds of M/n over the slowest link on the way. Source: ring attention, Liu, Zaharia and
    Abbeel 2023 (arXiv 2310.01889).
    """
    sent, rounds = ((ranks.size - 1.0) / ranks.size) * payload, ranks.size - 1.0
    if _all(ranks.nodes == 1):
        return _inside(_Way("ring", sent, rounds), ranks)
    alone = [_inside(_Way("ring", sent, rounds), ranks)] if np.any(ranks.nodes == 1) else []
    return _placed(alone, [_around(sent, rounds, ranks, "ring")], ranks.nodes)


def all_to_all(payload: Number, ranks: Ranks) -> Transfer:
    """Every rank sends a different part of its tensor to every other.

    Parameters
    ----------
    payload
        What each rank holds, of which (n − 1)/n is for others: M. [B]
    ranks
        Devices.

    Notes
    -----
    Source: M·(g − 1)/n over the link and M·(n − g)/n over the network, both at once; `exchange`.

    Examples
    --------
    >>> all_to_all(8.0, Ranks(4, 4, Link("nvlink", 1.0))).work.wire_bytes
    6.0
    """
    near = payload * ((ranks.inside - 1.0) / ranks.size)
    return exchange(near, payload * ((ranks.size - ranks.inside) / ranks.size), ranks)


def exchange(near: Number, far: Number, ranks: Ranks) -> Transfer:
    """Every rank sends to every other, not always equally much.

    Parameters
    ----------
    near, far
        What the busiest rank sends inside its node, and out of it. [B]
    ranks
        Devices.

    Notes
    -----
    Link and network are used at once; on a ring a message passes n/4 devices on average.
    Source: one round of direct messages on each level.
    """
    hops = np.maximum(ranks.inside / 4.0, 1.0) if _topology(ranks.link) == "ring" else 1.0
    inside = _inside(_Way("direct", near * hops, _some(ranks.inside), ranks.inside), ranks)
    if _all(ranks.nodes == 1):
        return Transfer(inside.work, inside.seconds, "direct" if np.any(near) else "")
    across = _across(_Way("direct", far, _some(ranks.nodes), ranks.nodes), ranks)
    seconds: Number = np.maximum(inside.seconds, across.seconds)
    return Transfer(inside.work + across.work, seconds, "direct")


def send(payload: Number, ranks: Ranks, crosses: Number) -> Transfer:
    """One device to one other.

    Parameters
    ----------
    payload
        What is sent, M. [B]
    ranks
        Devices, for their wires.
    crosses
        1 where the other is in another node, 0 where it is not. [1]

    Notes
    -----
    α + M / W; on a mesh, over the one wire that leads there. Source: definition of α and β.
    """
    near = _inside(_Way("direct", payload * (1.0 - crosses), 1.0 - crosses, 2.0), ranks, peers=1)
    if not np.any(crosses):
        return Transfer(near.work, near.seconds, "direct")
    far = _across(_Way("direct", payload * crosses, 1.0 * crosses, 2.0), ranks)
    return Transfer(near.work + far.work, near.seconds + far.seconds, "direct")


def broadcast(payload: Number, ranks: Ranks) -> Transfer:
    """Give every rank the tensor of one.

    Parameters
    ----------
    payload
        The tensor, M. [B]
    ranks
        Devices.

    Notes
    -----
    In pieces down a chain: every device sends M once, and the last one is N − 1 rounds over the
    network and g − 1 inside a node behind; a multicasting switch needs one. Source: as
    `all_reduce`.
    """
    rounds = 1.0 * _some(ranks.inside)
    if not (ranks.link and ranks.link.reduces):
        rounds = ranks.inside - 1.0
    near = _inside(_Way("chain", payload * _some(ranks.inside), rounds, 2.0), ranks)
    if _all(ranks.nodes == 1):
        return _cheapest([near])
    far = _across(_Way("chain", payload * _some(ranks.nodes), ranks.nodes - 1.0, 2.0), ranks)
    return Transfer(near.work + far.work, near.seconds + far.seconds, "chain")


@dataclass(frozen=True, slots=True)
class _Way:
    """An algorithm on one link.

    ``sent`` by each device [B], in so many ``rounds``, each of them to ``group`` − 1 peers. [1]
    """

    name: str
    sent: Number
    rounds: Number
    group: Number = 2.0


def _reducing(payload: Number, n: Number, link: Link | None) -> list[_Way]:
    """All-reduces among devices of one link."""
    some = _some(n)
    ways = [
        _Way("ring", (2.0 * (n - 1.0) / n) * payload, 2.0 * (n - 1.0)),
        _Way("tree", (2.0 * some) * payload, 2.0 * np.ceil(np.log2(n))),
    ]
    if _topology(link) in ("switch", "mesh"):
        ways += [
            _Way("one-shot", (n - 1.0) * payload, some, n),
            _Way("two-shot", (2.0 * (n - 1.0) / n) * payload, 2.0 * some, n),
        ]
    if link is not None and link.reduces:
        ways.append(_Way("in-switch", ((1.0 + 1.0 / n) * some) * payload, 2.0 * some))
    return ways


def _passing(payload: Number, n: Number, link: Link | None) -> list[_Way]:
    """All-gathers, or reduce-scatters, among devices of one link."""
    sent = ((n - 1.0) / n) * payload
    ways = [_Way("ring", sent, n - 1.0)]
    if _topology(link) in ("switch", "mesh"):
        ways.append(_Way("direct", sent, _some(n), n))
    return ways


def _flat(payload: Number, ranks: Ranks, times: int) -> Transfer:
    """A ring through all devices of all nodes, one for each rail."""
    sent = (times * (ranks.size - 1.0) / ranks.size) * payload
    return _around(sent, times * (ranks.size - 1.0), ranks, "flat ring")


def _around(sent: Number, rounds: Number, ranks: Ranks, name: str) -> Transfer:
    """Rings through all nodes, as many as there are rails, each device crossing on one of them.

    So 1/g of what a device sends leaves its node, and every round waits for those that do.
    """
    network = ranks.network
    assert network is not None, "several nodes have a network"
    far = sent / ranks.inside
    near = sent - far
    work = Work(wire_bytes=near, network_bytes=far, network_messages=rounds)
    seconds: Number = far / network.rate_between_nodes
    if ranks.link is not None:
        seconds = np.maximum(seconds, near / _rate(ranks, ranks.inside))
    return Transfer(work, seconds + rounds * network.latency_s, name)


def _inside(way: _Way, ranks: Ranks, peers: int = 0) -> Transfer:
    """An algorithm on the link of a node."""
    link = ranks.link
    if link is None:
        assert not np.any(way.sent), "devices that talk to each other have a link"
        return Transfer(Work(), 0.0, "")
    delay = link.latency_s + link.per_peer_s * np.maximum(way.group - 2.0, 0.0)
    seconds = way.sent / _rate(ranks, peers + 1.0 if peers else ranks.inside) + way.rounds * delay
    return Transfer(Work(wire_bytes=way.sent, messages=way.rounds), seconds, way.name)


def _across(way: _Way, ranks: Ranks) -> Transfer:
    """An algorithm on the network between nodes."""
    network = ranks.network
    assert network is not None, "several nodes have a network"
    delay = network.latency_s + network.per_peer_s * np.maximum(way.group - 2.0, 0.0)
    seconds = way.sent / network.rate_between_nodes + way.rounds * delay
    work = Work(network_bytes=way.sent, network_messages=way.rounds)
    return Transfer(work, seconds, way.name)


def _rate(ranks: Ranks, n: Number) -> Number:
    """Rate of a device's wires to the n − 1 others: on a mesh, those that lead to them. [B/s]"""
    link = ranks.link
    assert link is not None, "devices that talk to each other have a link"
    if link.topology != "mesh" or ranks.joined <= 2:
        return link.bytes_per_s
    return link.bytes_per_s * np.clip((n - 1.0) / (ranks.joined - 1.0), 1.0 / ranks.joined, 1.0)


def _topology(link: Link | None) -> str:
    return link.topology if link is not None else "host"


def _some(n: Number) -> Number:
    """1 where there is anybody to talk to, else 0."""
    some: Number = np.where(np.asarray(n) > 1, 1.0, 0.0)[()]
    return some


def _all(condition: Any) -> bool:
    return bool(np.all(condition))


def _placed(alone: Sequence[Transfer], across: Sequence[Transfer], nodes: Number) -> Transfer:
    """The cheapest of the ways inside a node where there is one, of those across elsewhere."""
    inside = [_where(nodes == 1, way) for way in alone]
    return _cheapest([*inside, *(_where(nodes > 1, way) for way in across)])


def _where(condition: Any, way: Transfer) -> Transfer:
    """The way where the condition holds; never chosen elsewhere."""
    return Transfer(way.work, np.where(condition, way.seconds, np.inf)[()], way.algorithm)


def _least(ways: Sequence[Transfer]) -> Transfer:
    """Cheapest of some ways, named even where nothing moves."""
    return _cheapest(ways, named=True)


def _cheapest(ways: Sequence[Transfer], *, named: bool = False) -> Transfer:
    """The way that takes least time, scenario by scenario; the first of equals."""
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
