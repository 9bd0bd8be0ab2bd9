"""Pages of equal prefixes: which are kept, by whom they are used, which goes first.

A table from the id of a block to its entry (open addressing, no more than half full), and a list
of the entries that nobody uses, the one that was used longest ago first.
"""

from typing import Final

import numpy as np

from roofline.serving.simulate.compiled.compiler import compiled
from roofline.serving.simulate.compiled.state import Records
from roofline.serving.simulate.integers import Integers

BLOCK: Final = np.dtype(
    # Id, sequences that use it; neighbours in the list of unused blocks. The last record is the
    # two ends of that list; its ``users`` counts the free ones, whose places are in ``free``.
    [("key", "i8"), ("users", "i8"), ("older", "i8"), ("newer", "i8"), ("free", "i8")]
)


def prefixes(most: int) -> tuple[Integers, Records]:
    """Room for that many blocks: a table of places by id, −1 for none, and the blocks."""
    size = 2
    while size < 2 * most:
        size *= 2
    blocks = np.zeros(most + 1, dtype=BLOCK)
    blocks["older"], blocks["newer"] = most, most
    blocks["free"] = most - 1 - np.arange(most + 1)
    blocks["users"][most] = most
    return np.full(size, -1, dtype=np.int64), blocks


@compiled
def _home(key: int, mask: int) -> int:
    mixed = (key ^ (key >> 31)) * 0x9E3779B97F4A7C1
    return int((mixed ^ (mixed >> 29)) & mask)


@compiled
def find(table: Integers, blocks: Records, key: int) -> int:
    """Entry of a block, −1 for none."""
    mask = len(table) - 1
    at = _home(key, mask)
    while table[at] >= 0:
        if blocks[table[at]].key == key:
            return int(table[at])
        at = (at + 1) & mask
    return -1


@compiled
def insert(table: Integers, blocks: Records, key: int) -> int:
    """New entry of a block that is not there, used once."""
    ends = blocks[len(blocks) - 1]
    ends.users -= 1
    entry = blocks[ends.users].free
    blocks[entry].key, blocks[entry].users = key, 1
    mask = len(table) - 1
    at = _home(key, mask)
    while table[at] >= 0:
        at = (at + 1) & mask
    table[at] = entry
    return int(entry)


@compiled
def use(blocks: Records, entry: int) -> bool:
    """One more user; whether it is the first."""
    blocks[entry].users += 1
    if blocks[entry].users > 1:
        return False
    older, newer = blocks[entry].older, blocks[entry].newer
    blocks[older].newer, blocks[newer].older = newer, older
    return True


@compiled
def leave(blocks: Records, entry: int) -> bool:
    """One user less; whether it was the last, so that the entry is the newest unused one."""
    blocks[entry].users -= 1
    if blocks[entry].users:
        return False
    end = len(blocks) - 1
    newest = blocks[end].older
    blocks[newest].newer, blocks[entry].older = entry, newest
    blocks[entry].newer, blocks[end].older = end, entry
    return True


@compiled
def oldest(blocks: Records) -> int:
    """Id of the block that nobody has used for longest; there is one that nobody uses."""
    return int(blocks[blocks[len(blocks) - 1].newer].key)


@compiled
def full(blocks: Records) -> bool:
    """Whether there is no room for another block."""
    return bool(blocks[len(blocks) - 1].users == 0)


@compiled
def evict(table: Integers, blocks: Records) -> None:
    """Drop the entry that nobody has used for longest."""
    end = len(blocks) - 1
    entry = blocks[end].newer
    after = blocks[entry].newer
    blocks[end].newer, blocks[after].older = after, end
    mask = len(table) - 1
    at = _home(blocks[entry].key, mask)
    while table[at] != entry:
        at = (at + 1) & mask
    # Entries behind it that would no longer be found move up.
    hole, at = at, (at + 1) & mask
    while table[at] >= 0:
        home = _home(blocks[table[at]].key, mask)
        if ((at - home) & mask) >= ((at - hole) & mask):
            table[hole] = table[at]
            hole = at
        at = (at + 1) & mask
    table[hole] = -1
    blocks[blocks[end].users].free = entry
    blocks[end].users += 1


def moved(old: Records, table: Integers, blocks: Records) -> None:
    """Put what is kept into a larger table: used blocks, then unused ones in their order."""
    end = len(old) - 1
    unused, place = [], int(old[end]["newer"])
    while place != end:
        unused.append(place)
        place = int(old[place]["newer"])
    free = set(old["free"][: old[end]["users"]].tolist()) | set(unused)
    for place in [place for place in range(end) if place not in free] + unused:
        new = insert(table, blocks, int(old[place]["key"]))
        blocks[new]["users"] = max(int(old[place]["users"]), 1)
        if not old[place]["users"]:
            leave(blocks, new)
