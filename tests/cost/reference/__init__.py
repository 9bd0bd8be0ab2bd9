"""A slow second opinion on the cost model: counts one token, position, head and layer at a time.

Nothing here comes from `roofline.cost`. Counts are Python integers, bytes exact fractions. It is
written from definitions: which keys a query sees, which rows and columns of a matrix a device of
a tensor-parallel group holds, which tensors an operator reads and writes.
"""

from tests.cost.reference.attending import best
from tests.cost.reference.elementary import Count, Sequences, Setting, keys_of, pairs, visible
from tests.cost.reference.recurring import chunk_by_chunk, token_by_token
from tests.cost.reference.routing import expected_distinct, simulated_distinct, systematic
from tests.cost.reference.step import cache_held, count_step, weights_held
from tests.cost.reference.transport import key_blocks, ring_all_reduce

__all__ = [
    "Count",
    "Sequences",
    "Setting",
    "best",
    "cache_held",
    "chunk_by_chunk",
    "count_step",
    "expected_distinct",
    "key_blocks",
    "keys_of",
    "pairs",
    "ring_all_reduce",
    "simulated_distinct",
    "systematic",
    "token_by_token",
    "visible",
    "weights_held",
]
