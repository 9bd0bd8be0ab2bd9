"""Collectives played message by message between ranks that lie on nodes.

A tensor is cut into parts. A rank holds, of each part, the set of ranks whose contribution is in
its sum; a message adds the sender's set to the receiver's. Sizes are exact shares of the tensor.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

Part = tuple[int, ...]
Message = tuple[int, int, Part]
"""From, to, which part."""


@dataclass
class Machine:
    """Ranks, so many on a node, and what they have sent."""

    ranks: int
    per_node: int
    parts: dict[Part, Fraction]
    held: list[dict[Part, set[int]]] = field(init=False)
    near: list[Fraction] = field(init=False)
    far: list[Fraction] = field(init=False)
    near_rounds: int = 0
    far_rounds: int = 0

    def __post_init__(self) -> None:
        self.held = [{part: {rank} for part in self.parts} for rank in range(self.ranks)]
        self.near = [Fraction(0)] * self.ranks
        self.far = [Fraction(0)] * self.ranks

    def round(self, messages: Iterable[Message]) -> None:
        """All messages at once: what is sent is what was held before."""
        sent = [(a, b, part, set(self.held[a][part])) for a, b, part in messages]
        inside = [a // self.per_node == b // self.per_node for a, b, _, _ in sent]
        self.near_rounds += any(inside)
        self.far_rounds += not all(inside)
        for (a, b, part, value), stays in zip(sent, inside, strict=True):
            self.held[b][part] |= value
            (self.near if stays else self.far)[a] += self.parts[part]

    @property
    def all_know(self) -> bool:
        """Whether every rank has the whole sum."""
        everyone = set(range(self.ranks))
        return all(value == everyone for device in self.held for value in device.values())


def even(*counts: int) -> dict[Part, Fraction]:
    """A tensor cut into so many parts, each of those into so many, and so on."""
    parts: dict[Part, Fraction] = {(): Fraction(1)}
    for count in counts:
        parts = {(*p, i): size / count for p, size in parts.items() for i in range(count)}
    return parts


Shares = Sequence[Sequence[Part]]
"""The parts that each member of a group is to end with, or starts with."""


def ring_scatter(machine: Machine, groups: Sequence[tuple[Sequence[int], Shares]]) -> None:
    """Each member's share travels around the ring and ends with it, summed."""
    size = len(groups[0][0])
    for turn in range(size - 1):
        machine.round(
            (members[i], members[(i + 1) % size], part)
            for members, shares in groups
            for i in range(size)
            for part in shares[(i - turn - 1) % size]
        )


def ring_gather(machine: Machine, groups: Sequence[tuple[Sequence[int], Shares]]) -> None:
    """Each member's share travels around the ring and is left with everybody."""
    size = len(groups[0][0])
    for turn in range(size - 1):
        machine.round(
            (members[i], members[(i + 1) % size], part)
            for members, shares in groups
            for i in range(size)
            for part in shares[(i - turn) % size]
        )


def direct_scatter(machine: Machine, members: Sequence[int], shares: Shares) -> None:
    """Everybody sends everybody their share, in one round."""
    machine.round(
        (a, b, part)
        for a in members
        for b, share in zip(members, shares, strict=True)
        if a != b
        for part in share
    )


def direct_gather(machine: Machine, members: Sequence[int], shares: Shares) -> None:
    """Everybody sends everybody their own share, in one round."""
    machine.round(
        (a, b, part)
        for a, share in zip(members, shares, strict=True)
        for b in members
        if a != b
        for part in share
    )


def hierarchical_all_reduce(per_node: int, nodes: int) -> Machine:
    """Scattered inside each node, summed around rings over the nodes on each rail, gathered."""
    machine = Machine(per_node * nodes, per_node, even(per_node, nodes))
    boxes = [range(n * per_node, (n + 1) * per_node) for n in range(nodes)]
    of_rank: Shares = [[(r, n) for n in range(nodes)] for r in range(per_node)]
    inside = [(box, of_rank) for box in boxes]
    rails = [([box[r] for box in boxes], [[(r, n)] for n in range(nodes)]) for r in range(per_node)]
    ring_scatter(machine, inside)
    ring_scatter(machine, rails)
    ring_gather(machine, rails)
    ring_gather(machine, inside)
    return machine


def hierarchical_all_gather(per_node: int, nodes: int) -> Machine:
    """Each rank's part over the nodes on its rail, then everything inside each node."""
    machine = Machine(per_node * nodes, per_node, even(per_node, nodes))
    for rank, device in enumerate(machine.held):
        for r, n in device:
            device[r, n] = set(range(machine.ranks)) if rank == n * per_node + r else set()
    boxes = [range(n * per_node, (n + 1) * per_node) for n in range(nodes)]
    of_rank: Shares = [[(r, n) for n in range(nodes)] for r in range(per_node)]
    rails = [([box[r] for box in boxes], [[(r, n)] for n in range(nodes)]) for r in range(per_node)]
    ring_gather(machine, rails)
    ring_gather(machine, [(box, of_rank) for box in boxes])
    return machine


def flat_ring_all_reduce(per_node: int, nodes: int) -> Machine:
    """As many rings through all ranks as there are rails; each leaves a node on its own rail."""
    ranks = per_node * nodes
    machine = Machine(ranks, per_node, even(per_node, ranks))
    rings = []
    for rail in range(per_node):
        inside = [(rail + step) % per_node for step in range(per_node)]
        members = [n * per_node + r for n in range(nodes) for r in inside]
        rings.append((members, [[(rail, i)] for i in range(ranks)]))
    ring_scatter(machine, rings)
    ring_gather(machine, rings)
    return machine


def two_trees(ranks: int) -> Machine:
    """Each half of a tensor up a binary tree to its root and down again, both trees at once.

    Odd ranks are leaves of the first tree; the second is the first one turned round, so that
    (nearly) every rank is a leaf of one of them.
    """
    machine = Machine(ranks, ranks, even(2))

    def turned(rank: int) -> int:
        return (rank + 1) % ranks if ranks % 2 else ranks - 1 - rank

    edges = [(r, _parent(r, ranks), (0,)) for r in range(1, ranks)]
    edges += [(turned(r), turned(_parent(r, ranks)), (1,)) for r in range(1, ranks)]
    while edges_ready := _ready(machine, edges):
        machine.round(edges_ready)
    while down := [
        (up, r, part)
        for r, up, part in edges
        if machine.held[up][part] == set(range(ranks)) != machine.held[r][part]
    ]:
        machine.round(down)
    return machine


def _parent(rank: int, ranks: int) -> int:
    """In the tree in which leaves are odd and a rank's height is that of its lowest bit."""
    low = rank & -rank
    above = (rank ^ low) | (low << 1)
    return above if above < ranks else rank ^ low


def _ready(machine: Machine, edges: Sequence[Message]) -> list[Message]:
    """Messages up from ranks whose children have all sent, that have not been sent yet."""

    def below(rank: int, part: Part) -> set[int]:
        children = [r for r, up, p in edges if (up, p) == (rank, part)]
        return {rank}.union(*(below(child, part) for child in children))

    return [
        (r, up, part)
        for r, up, part in edges
        if machine.held[r][part] == below(r, part) and not below(r, part) <= machine.held[up][part]
    ]


def through_a_switch(ranks: int) -> tuple[list[Fraction], list[Fraction]]:
    """Bytes that each port carries to the switch and from it, when the switch sums and multicasts.

    Each rank asks for its share: the switch reads it from every rank, itself included, and hands
    over the sum. Each rank then writes its share to the switch, which hands it to everybody.
    """
    share = Fraction(1, ranks)
    up, down = [Fraction(0)] * ranks, [Fraction(0)] * ranks
    for asking in range(ranks):
        for read in range(ranks):
            up[read] += share
        down[asking] += share
    for writing in range(ranks):
        up[writing] += share
        for reached in range(ranks):
            down[reached] += share
    return up, down
