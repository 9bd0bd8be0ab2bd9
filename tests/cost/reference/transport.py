"""Rounds of a ring and blocks of a kernel, played one by one."""

from collections.abc import Iterator

from tests.cost.reference.elementary import keys_of


def ring_all_reduce(parts: int) -> tuple[list[int], int]:
    """Parts of a tensor that each device sends, and rounds, until all have the whole sum.

    The tensor is cut into as many parts as there are devices. Each device starts with its own
    contribution to each part, and each round passes one part to its neighbour.
    """
    have = [[{rank} for _ in range(parts)] for rank in range(parts)]
    sent, rounds = [0] * parts, 0
    for phase in (0, 1):
        for turn in range(parts - 1):
            rounds += 1
            before = [[set(part) for part in device] for device in have]
            for rank in range(parts):
                part = (rank - turn + phase) % parts
                have[(rank + 1) % parts][part] |= before[rank][part]
                sent[rank] += 1
    everyone = set(range(parts))
    assert all(part == everyone for device in have for part in device)
    return sent, rounds


def key_blocks(new: int, context: int, window: int, rows: int, columns: int) -> int:
    """Key blocks that hold a key which some query of a row block sees, block by block."""
    positions = list(range(context - new, context))
    visited = 0
    for block in _blocks(positions, rows):
        visited += len({key // columns for p in block for key in keys_of(p, window or None)})
    return visited


def _blocks(positions: list[int], rows: int) -> Iterator[list[int]]:
    for start in range(0, len(positions), rows):
        yield positions[start : start + rows]
