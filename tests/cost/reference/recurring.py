"""Recurrent layers: a second opinion that counts element by element of the state."""

from collections.abc import Sequence
from fractions import Fraction

from roofline.model.architecture import Recurrent
from tests.cost.reference.elementary import Count, Sequences, Setting, multiply_shard


def count_recurrent(
    out: Count, part: Recurrent, d: int, groups: Sequence[Sequences], setting: Setting, rank: int
) -> None:
    """Projections, taps of the convolution, the state of each sequence, a gate."""
    tp, width = setting.tp, setting.plain
    tokens = sum(group.number * group.new for group in groups)
    for matrix in part.projections:
        multiply_shard(out, matrix, tokens, setting)
    if part.conv_width:
        wide = part.conv_width // tp
        out.activation_bytes += tokens * 2 * wide * width
        # A prompt and tokens after it are convolved by kernels of their own.
        out.weight_bytes += len(groups) * wide * part.conv_kernel * width
    heads, key_heads = part.heads // tp, max(part.key_heads // tp, 1)
    taps = part.conv_width * part.conv_kernel
    for number, new, _ in groups:
        # Decays are read with the state: once for all sequences of a group.
        out.weight_bytes += Fraction(part.other_parameters - taps, tp) * width
        for _ in range(number):
            scan = new == 1 or part.chunk == 1
            out.flops += (token_by_token if scan else chunk_by_chunk)(part, new, heads, key_heads)
            moved = 2 * key_heads * part.key_dim + 2 * heads * part.value_dim + heads
            out.activation_bytes += new * moved * width  # q, k, v, decay in; y out
            out.kv_bytes += 2 * heads * part.key_dim * part.value_dim * setting.state
            for _ in range(max(part.conv_kernel - 1, 0)):  # last inputs, in and out
                out.kv_bytes += 2 * (part.conv_width // tp) * width
    inner = heads * part.value_dim
    out.activation_bytes += tokens * (2 * inner + inner) * width


def token_by_token(part: Recurrent, new: int, heads: int, key_heads: int) -> int:
    """Every token changes and reads every element of the state of every head."""
    multiply_adds = 0
    for _ in range(new):
        for _ in range(heads * part.key_dim * part.value_dim):
            if part.rule == "delta":
                multiply_adds += 1  # what the state holds under the key, to be taken out
            multiply_adds += 1  # decay
            multiply_adds += 1  # key times value
            multiply_adds += 1  # query
    return 2 * multiply_adds


def chunk_by_chunk(part: Recurrent, new: int, heads: int, key_heads: int) -> int:
    """Inside a chunk each token meets itself and those before; the state passes between chunks."""
    flops = 0
    for start in range(0, new, part.chunk):
        inside = range(start, min(start + part.chunk, new))
        for token in inside:
            for _ in range(start, token + 1):
                met = 2 * key_heads * part.key_dim + 2 * heads * part.value_dim
                flops += 2 * met if part.rule == "delta" else met
        reads = 2 if part.rule == "delta" else 1  # with the query; the delta rule with the key too
        flops += len(inside) * (reads + 1) * 2 * heads * part.key_dim * part.value_dim
    return flops
