"""Pages of equal prefixes: which are kept, by whom they are used, which goes first.

A chain of the blocks whose ids have one home, for every home, and a list of the blocks that nobody
uses, the one that was used longest ago first. A block keeps its place as long as it is kept.
"""

from typing import Final

import numpy as np

from roofline.serving.simulate.compiled.compiler import compiled, entry
from roofline.serving.simulate.compiled.state import Places, Records

BLOCK: Final = np.dtype(
    # Id, sequences that use it; the next of its chain, −1 for none, or the next free place;
    # neighbours in the list of unused blocks. The last record is the two ends of that list; its
    # ``users`` counts the free places, ``next`` is the first of them.
    [("key", "i8"), ("users", "i4"), ("next", "i4"), ("older", "i4"), ("newer", "i4")]
)


def prefixes(most: int) -> tuple[Places, Records]:
    """Room for that many blocks: the first place of every chain, −1 for none, and the blocks."""
    size = 2
    while size < 2 * most:
        size *= 2
    blocks = np.zeros(most + 1, dtype=BLOCK)
    blocks["next"][:most] = np.arange(1, most + 1, dtype=np.int32)
    # A block has neighbours once nobody uses it: of the empty list only the ends have some.
    blocks[most] = (0, most, 0, most, most)
    return np.full(size, -1, dtype=np.int32), blocks


@compiled
def _home(key: int, mask: int) -> int:
    mixed = (key ^ (key >> 31)) * 0x9E3779B97F4A7C1
    return int((mixed ^ (mixed >> 29)) & mask)


@compiled
def find(chains: Places, blocks: Records, key: int) -> int:
    """Place of a block, −1 for none."""
    at = chains[_home(key, len(chains) - 1)]
    while at >= 0 and blocks[at].key != key:
        at = blocks[at].next
    return int(at)


@compiled
def insert(chains: Places, blocks: Records, key: int) -> int:
    """Place of a block that was not there, used once."""
    end = len(blocks) - 1
    place = blocks[end].next
    blocks[end].next = blocks[place].next
    blocks[end].users -= 1
    home = _home(key, len(chains) - 1)
    blocks[place].key, blocks[place].users, blocks[place].next = key, 1, chains[home]
    chains[home] = place
    return int(place)


@compiled
def use(blocks: Records, place: int) -> bool:
    """One more user; whether it is the first."""
    blocks[place].users += 1
    if blocks[place].users > 1:
        return False
    older, newer = blocks[place].older, blocks[place].newer
    blocks[older].newer, blocks[newer].older = newer, older
    return True


@compiled
def leave(blocks: Records, place: int) -> bool:
    """One user less; whether it was the last, so that the block is the newest unused one."""
    blocks[place].users -= 1
    if blocks[place].users:
        return False
    end = len(blocks) - 1
    newest = blocks[end].older
    blocks[newest].newer, blocks[place].older = place, newest
    blocks[place].newer, blocks[end].older = end, place
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
def evict(chains: Places, blocks: Records) -> None:
    """Drop the block that nobody has used for longest."""
    drop(chains, blocks, blocks[len(blocks) - 1].newer)


@compiled
def drop(chains: Places, blocks: Records, place: int) -> None:
    """Drop a block that nobody uses."""
    end = len(blocks) - 1
    older, newer = blocks[place].older, blocks[place].newer
    blocks[older].newer, blocks[newer].older = newer, older
    home = _home(blocks[place].key, len(chains) - 1)
    at = chains[home]
    if at == place:
        chains[home] = blocks[place].next
    else:
        while blocks[at].next != place:
            at = blocks[at].next
        blocks[at].next = blocks[place].next
    blocks[place].next = blocks[end].next
    blocks[end].next = place
    blocks[end].users += 1


@entry
def move(old_chains: Places, old: Records, chains: Places, blocks: Records) -> None:
    """Put what is kept into larger tables that are empty, at the places it had."""
    was, end = len(old) - 1, len(blocks) - 1
    for place in range(was):
        blocks[place] = old[place]
    blocks[end].older, blocks[end].newer = old[was].older, old[was].newer
    newest, last = blocks[end].older, blocks[end].newer
    if newest == was:  # every block is used
        blocks[end].older, blocks[end].newer = end, end
    else:
        blocks[newest].newer, blocks[last].older = end, end
    blocks[end].users += old[was].users - was
    blocks[end].next, blocks[end - 1].next = was, old[was].next
    for at in old_chains:
        while at >= 0:
            after = blocks[at].next
            home = _home(blocks[at].key, len(chains) - 1)
            blocks[at].next, chains[home] = chains[home], at
            at = after
