"""Work of softmax attention over a KV cache: MHA, GQA and MQA, full or windowed.

Symbols: T new tokens end at context S (so S − T are cached), N query heads, K key/value heads,
H head width, W window. Convention: 4·N·H FLOP per (query, key) pair, 2 for Q·Kᵀ and 2 for P·V.
"""

from typing import Final, Literal

import numpy as np

from roofline.cost.work import Formula, Number, Work, by, plus, times

Mask = Literal["causal", "square"]


def pairs(
    new: Number,
    context: Number,
    *,
    mask: Mask = "causal",
    window: float | None = None,
    chunk: float | None = None,
) -> Number:
    """(query, key) pairs per sequence.

    The query at position p sees min(p, W) keys, or those of its chunk up to itself. With a window
    the first r = min(max(W − (S − T), 0), T) of the new queries see all keys before them,
    r·(S − T + r) − r·(r − 1)/2 together; the others see W. With chunks the sum is f(S) − f(S − T)
    with f(x) = c·C(C + 1)/2 + r(r + 1)/2, c = floor(x / C), r = x − c·C.
    Source: closed forms of the sums, checked against counting.

    Args:
        new: New tokens T. [token]
        context: Keys the last query sees, new tokens included: S. [token]
        mask: ``"causal"``: T·(S − T) + T·(T + 1)/2. ``"square"``: every query with every key that
            one of them sees, T·S without a window, as counted where masking is ignored.
        window: Keys a query sees at most, itself included. [token]
        chunk: Keys are seen only inside the query's own chunk. [token]

    Examples:
        Three new tokens after one cached see 2 + 3 + 4 keys; with a window of 2, 2 + 2 + 2; in
        chunks of 2, 2 + 1 + 2:

        >>> [float(pairs(3, 4, **how)) for how in ({}, {"window": 2}, {"chunk": 2})]
        [9.0, 6.0, 5.0]
    """
    if mask == "square":
        return times(new, keys_read(new, context, window, chunk))
    if chunk is not None:
        return _in_chunks(context, chunk) - _in_chunks(context - new, chunk)
    if window is None:
        return times(new, plus(context, -0.5 * (new - 1.0)))
    cached = context - new
    ramp = np.minimum(np.maximum(window - cached, 0.0), new)
    return ramp * (cached + ramp - 0.5 * (ramp - 1.0)) + (new - ramp) * window


def _in_chunks(positions: Number, chunk: float) -> Number:
    """Keys seen by the queries at positions 1..x together, each within its chunk."""
    whole = np.floor(positions / chunk)
    rest = positions - whole * chunk
    return whole * (chunk * (chunk + 1.0) * 0.5) + rest * (rest + 1.0) * 0.5


def keys_read(
    new: Number, context: Number, window: float | None = None, chunk: float | None = None
) -> Number:
    """Keys that at least one of the new queries sees. [token]

    The first query, at S − T + 1, sees back to S − T + 2 − W, or to the start of its chunk.
    Source: definition of the window.

    Args:
        new, context: New tokens T, and context S with them. [token]
        window: Keys a query sees at most. [token]
        chunk: Keys are seen only inside the query's own chunk. [token]

    Examples:
        >>> float(keys_read(2, 8192, window=4096)), float(keys_read(1, 9, chunk=8))
        (4097.0, 1.0)
    """
    if chunk is not None:
        return context - np.floor((context - new) / chunk) * chunk
    if window is None:
        return context
    return np.minimum(context, new + (window - 1.0))


def attention(
    count: Number,
    new: Number,
    context: Number,
    *,
    heads: Number,
    kv_heads: Number,
    head_dim: Number,
    width: Number,
    kv_width: Number,
    value_dim: Number | None = None,
    mask: Mask = "causal",
    window: float | None = None,
    chunk: float | None = None,
    chosen: Number | None = None,
) -> Work:
    """Fused attention (FlashAttention): scores never leave the chip.

    Q is read and O written once; each visible key and value is read once per K head. Re-reads of
    K and V by later query tiles are served by the cache: see `roofline.cost.roof`.

    Source: Dao et al. 2022 (arXiv 2205.14135) for what is read and written; Stanford CS336 (2025)
    lecture 10 for bytes 4·B·S·D + 4·B·T·D of bf16 MHA.

    Args:
        count: Sequences. [1]
        new, context: New tokens T, and context S with them, of each sequence. [token]
        heads, kv_heads, head_dim: N, K and H on this device. [1]
        width, kv_width: Bytes per element of Q and O, and of the cache. [B]
        value_dim: Width of a value head; None for H. [1]
        mask, window, chunk: As in `pairs`. [token]
        chosen: Keys that are read, where they are not those of a window. [token]

    Examples:
        Decode intensity approaches the query heads per cached head:

        >>> work = attention(1, 1, 8192, heads=64, kv_heads=8, head_dim=128, width=2, kv_width=2)
        >>> round(work.flops / work.kv_bytes, 3)
        8.0
    """
    value_dim = head_dim if value_dim is None else value_dim
    both = head_dim + value_dim
    pairs_met = pairs(new, context, mask=mask, window=window, chunk=chunk)
    keys = keys_read(new, context, window, chunk) if chosen is None else chosen
    return Work(
        flops=(2.0 * heads * both) * times(count, pairs_met),
        activation_bytes=(heads * both * width) * times(count, new),
        kv_bytes=(kv_heads * both * kv_width) * times(count, keys),
        made=by(ATTENTION, locals()),
    )


MET: Final = (
    ("pairs_met", "pairs of a query and a key that it sees, of a sequence"),
    ("keys", "keys that are read, of a sequence"),
)
ATTENTION: Final = Formula(
    flops="2 · heads · (head_dim + value_dim) · count · pairs_met",
    activation_bytes="heads · (head_dim + value_dim) · width · count · new",
    kv_bytes="kv_heads · (head_dim + value_dim) · kv_width · count · keys",
    meanings=MET,
)


def occupied(blocks: Number, multiprocessors: float) -> Number:
    """Share of the multiprocessors that have a block, mean over the waves. [1]

    b / (⌈b/m⌉·m) of b blocks on m multiprocessors. Without FlashDecoding a step that decodes has
    one for each sequence and cached head, whatever its context. Source: Dao, Haziza, Massa and
    Sizov 2023, Flash-Decoding for long-context inference (Stanford CRFM).

    Args:
        blocks: Blocks of a kernel, all alike. [1]
        multiprocessors: Multiprocessors of the device, one block on each at a time. [1]

    Examples:
        Eight heads of one sequence on 132 multiprocessors, and 17 sequences in two waves:

        >>> [round(float(occupied(b, 132)), 3) for b in (8, 136)]
        [0.061, 0.515]
    """
    return blocks / (np.ceil(blocks / multiprocessors) * multiprocessors)


def tiled_rows(new: Number, context: Number, columns: Number, *, mask: Mask = "causal") -> Number:
    """Queries that blocks of keys meet, one block after the other, per sequence and head. [token]

    Of n = ⌈S/c⌉ blocks those that begin at or before S − T meet all T queries; of a later one, j,
    the S − j·c queries from its first key on. Source: Dao et al. 2022 (arXiv 2205.14135),
    algorithm 1, whose outer loop is over blocks of keys.

    Args:
        new, context: New tokens T, and context S with them. [token]
        columns: Keys c of a block. [token]
        mask: ``"causal"``, or ``"square"`` where every block meets all queries.

    Examples:
        Blocks of 2 keys meet 4 and 2 of 4 queries:

        >>> float(tiled_rows(4, 4, 2))
        6.0
    """
    blocks = np.ceil(context / columns)
    if mask == "square":
        return blocks * new
    early = np.minimum(np.floor((context - new) / columns) + 1.0, blocks)
    later = (blocks - early) * context
    return early * new + later - columns * (blocks * (blocks - 1.0) - early * (early - 1.0)) / 2.0


def tiled_attention(
    count: Number,
    new: Number,
    context: Number,
    *,
    heads: Number,
    kv_heads: Number,
    head_dim: Number,
    width: Number,
    kv_width: Number,
    sram: float,
    value_dim: Number | None = None,
    mask: Mask = "causal",
) -> Work:
    """FlashAttention with M bytes on chip and no cache behind them.

    Blocks of c = ⌈M / (4·H·width)⌉ keys stay on chip in turn; for each, the queries that meet it
    are read, their outputs and two fp32 sums read and written: Θ(S·T·H²/M) in all, against the
    Θ(S·T) of scores in memory. Source: Dao et al. 2022 (arXiv 2205.14135), algorithm 1 and
    theorem 2.

    Args:
        count, new, context, heads, kv_heads, head_dim, width, kv_width: As in `attention`.
        sram: On-chip memory M. [B]
        value_dim, mask: As in `attention`.

    Examples:
        Twice the memory, half of the traffic of queries and outputs:

        >>> shape = dict(heads=1, kv_heads=1, head_dim=64, width=2, kv_width=2, mask="square")
        >>> small, large = (tiled_attention(1, 4096, 4096, sram=m, **shape) for m in (2**16, 2**17))
        >>> float(small.activation_bytes / large.activation_bytes)
        2.0
    """
    value_dim = head_dim if value_dim is None else value_dim
    both = head_dim + value_dim
    columns = np.ceil(sram / (4.0 * head_dim * width))
    tiled = tiled_rows(new, context, columns, mask=mask)
    pairs_met = pairs(new, context, mask=mask)
    return Work(
        flops=(2.0 * heads * both) * times(count, pairs_met),
        activation_bytes=heads * count * tiled * ((head_dim + 2.0 * value_dim) * width + 16.0),
        kv_bytes=(kv_heads * both * kv_width) * times(count, context),
        made=by(TILED, locals()),
    )


TILED: Final = Formula(
    flops="2 · heads · (head_dim + value_dim) · count · pairs_met",
    activation_bytes="heads · count · tiled · ((head_dim + 2 · value_dim) · width + 16)",
    kv_bytes="kv_heads · (head_dim + value_dim) · kv_width · count · context",
    meanings=(
        ("pairs_met", "pairs of a query and a key that it sees, of a sequence"),
        ("tiled", "queries that blocks of ⌈M / (4 · head_dim · width)⌉ keys meet, of a sequence"),
    ),
)


def naive_attention(
    count: Number,
    new: Number,
    context: Number,
    *,
    heads: Number,
    kv_heads: Number,
    head_dim: Number,
    width: Number,
    kv_width: Number,
    value_dim: Number | None = None,
    window: float | None = None,
    chunk: float | None = None,
) -> Work:
    """Attention as two matrix products and a softmax, with the T×S scores in device memory.

    The scores are written and read by the softmax, and its result is written and read again: four
    passes. The products do not skip masked pairs.

    Source: the standard attention of Dao et al. 2022 (arXiv 2205.14135), algorithm 0.

    Args:
        count, new, context, heads, kv_heads, head_dim, kv_width, value_dim: As in `attention`.
        width: Bytes per element of Q, O and the scores. [B]
        window, chunk: Limit what is cached; the products pair every query with every key that is
            left. [token]

    Examples:
        At S = T = 2048 the scores of one head are 8 MiB at two bytes, moved four times:

        >>> work = naive_attention(
        ...     1, 2048, 2048, heads=1, kv_heads=1, head_dim=128, width=2, kv_width=2
        ... )
        >>> work.activation_bytes / 2**20 - 2 * 2048 * 128 * 2 / 2**20
        32.0
    """
    value_dim = head_dim if value_dim is None else value_dim
    both = head_dim + value_dim
    pairs_met = pairs(1.0 * new, context, mask="square", window=window, chunk=chunk)
    square, keys = count * pairs_met, keys_read(new, context, window, chunk)
    return Work(
        flops=(2.0 * heads * both) * square,
        activation_bytes=(heads * both * width) * times(count, new)
        + (4.0 * heads * width) * square,
        kv_bytes=(kv_heads * both * kv_width) * times(count, keys),
        made=by(NAIVE, locals()),
    )


NAIVE: Final = Formula(
    flops=ATTENTION.flops,
    activation_bytes="heads · (head_dim + value_dim) · width · count · new"
    " + 4 · heads · width · count · pairs_met",
    kv_bytes=ATTENTION.kv_bytes,
    meanings=MET,
)
