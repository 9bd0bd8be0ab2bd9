"""Ranks on nodes, one by one."""

from collections import Counter
from collections.abc import Iterator


def node_of(rank: int, devices: int, per_node: int) -> int:
    """As few nodes as hold all devices, each with as many of them, filled in order."""
    nodes = next(n for n in range(1, devices + 1) if n * per_node >= devices)
    assert devices % nodes == 0, "devices do not spread evenly"
    node = room = 0
    for _ in range(rank + 1):
        if room == devices // nodes:
            node, room = node + 1, 0
        room += 1
    return node


def members(stage_devices: int, stages: int, size: int, stride: int) -> Iterator[list[int]]:
    """All groups of so many ranks so far apart that a replica falls into, stage by stage."""
    for stage in range(stages):
        taken: set[int] = set()
        first = stage * stage_devices
        for rank in range(first, first + stage_devices):
            if rank in taken:
                continue
            group = [rank + number * stride for number in range(size)]
            assert not taken & set(group), "groups do not overlap"
            taken |= set(group)
            yield group
        assert taken == set(range(first, first + stage_devices)), "every rank is in a group"


def shares(group: list[int], devices: int, per_node: int) -> list[int]:
    """Members of a group on each node that it lies on."""
    return list(Counter(node_of(rank, devices, per_node) for rank in group).values())


def stage_leaves(stage: int, stage_devices: int, devices: int, per_node: int) -> bool:
    """Whether some rank's successor in the next stage is on another node."""
    ranks = range(stage * stage_devices, (stage + 1) * stage_devices)
    return any(
        node_of(rank, devices, per_node) != node_of(rank + stage_devices, devices, per_node)
        for rank in ranks
    )
