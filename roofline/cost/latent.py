"""Work of multi-head latent attention, and of the indexer of sparse attention.

Symbols: C latent width, r rotated width, N heads with query width q = nope + r and value width v.
Two forms of the same layer: *expanded* makes keys and values of every context token from the latent
and attends with N heads; *absorbed* folds the expansion into queries and outputs and attends to the
latent itself, as one head of width C + r.
"""

from typing import Final

import numpy as np

from roofline.cost.attention import MET, Mask, pairs
from roofline.cost.work import Formula, Number, Work, by, times


def absorbed_attention(
    count: Number,
    new: Number,
    context: Number,
    *,
    heads: Number,
    latent: Number,
    rope: Number,
    width: Number,
    kv_width: Number,
    mask: Mask = "causal",
    top_k: float | None = None,
) -> Work:
    """Attention of N query heads of width C + r to one latent head.

    2·(C + r) FLOP a pair and head for scores, 2·C for values. The latent is read once for all
    heads. Source: DeepSeek-V2 (arXiv 2405.04434), section 2.1.

    Args:
        count: Sequences. [1]
        new, context: New tokens T, and context S with them. [token]
        heads, latent, rope: N on this device, C and r. [1]
        width, kv_width: Bytes per element of queries and outputs, and of the cache. [B]
        mask: As in `roofline.cost.attention.pairs`.
        top_k: Tokens a query attends to at most; None for all. [token]

    Examples:
        A decode step of DeepSeek-V3 does 2·(576 + 512)·128 FLOP and reads 576 elements a token:

        >>> work = absorbed_attention(
        ...     1.0, 1.0, 1.0, heads=128, latent=512, rope=64, width=2, kv_width=2
        ... )
        >>> work.flops, work.kv_bytes
        (278528.0, 1152.0)
    """
    pairs_met, keys = attended(new, context, mask, top_k), chosen(new, context, top_k)
    return Work(
        flops=(2.0 * heads * (2.0 * latent + rope)) * times(count, pairs_met),
        activation_bytes=(heads * (2.0 * latent + rope) * width) * times(count, new),
        kv_bytes=((latent + rope) * kv_width) * times(count, keys),
        made=by(ABSORBED, locals()),
    )


ABSORBED: Final = Formula(
    flops="2 · heads · (2 · latent + rope) · count · pairs_met",
    activation_bytes="heads · (2 · latent + rope) · width · count · new",
    kv_bytes="(latent + rope) · kv_width · count · keys",
    meanings=MET,
)


def expanded_attention(
    count: Number,
    new: Number,
    context: Number,
    *,
    heads: Number,
    query_dim: Number,
    value_dim: Number,
    rope: Number,
    width: Number,
    mask: Mask = "causal",
    top_k: float | None = None,
) -> Work:
    """Attention of N heads to keys and values that were expanded from the latent.

    Expanded keys and values are activations: N·(q − r + v) elements a token, and one rotated key.
    Source: DeepSeek-V2 (arXiv 2405.04434), section 2.1.

    Args:
        count, new, context, mask, top_k: As in `absorbed_attention`.
        heads, query_dim, value_dim, rope: N on this device, q, v and r. [1]
        width: Bytes per element. [B]

    Examples:
        >>> expanded_attention(
        ...     1.0, 1.0, 1.0, heads=128, query_dim=192, value_dim=128, rope=64, width=2
        ... ).flops
        81920.0
    """
    pairs_met, keys = attended(new, context, mask, top_k), chosen(new, context, top_k)
    return Work(
        flops=(2.0 * heads * (query_dim + value_dim)) * times(count, pairs_met),
        activation_bytes=(heads * (query_dim + value_dim) * width) * times(count, new)
        + ((heads * (query_dim - rope + value_dim) + rope) * width) * times(count, keys),
        made=by(EXPANDED, locals()),
    )


EXPANDED: Final = Formula(
    flops="2 · heads · (query_dim + value_dim) · count · pairs_met",
    activation_bytes="(heads · (query_dim + value_dim) · new"
    " + (heads · (query_dim − rope + value_dim) + rope) · keys) · width · count",
    meanings=MET,
)


def attended(new: Number, context: Number, mask: Mask, top_k: float | None) -> Number:
    """(query, key) pairs per sequence where each query attends to its best few.

    As many as with a window of k; where masking is ignored, min(S, k) for every query.
    Source: DeepSeek-V3.2 (2025), sparse attention.

    Args:
        new, context, mask, top_k: As in `absorbed_attention`.

    Examples:
        >>> float(attended(2.0, 8.0, "square", 4.0)), float(attended(2.0, 4.0, "causal", 4.0))
        (8.0, 7.0)
    """
    if mask == "square" and top_k is not None:
        return new * np.minimum(context, top_k)
    return pairs(new, context, mask=mask, window=top_k)


def chosen(new: Number, context: Number, top_k: float | None) -> Number:
    """Keys that are read where each query attends to its best few.

    Different queries choose differently: T·k of them at most, and never more than there are.
    Source: union bound.

    Args:
        new, context, top_k: As in `absorbed_attention`.

    Examples:
        >>> float(chosen(1.0, 8192.0, 2048.0)), float(chosen(8.0, 8192.0, 2048.0))
        (2048.0, 8192.0)
    """
    if top_k is None:
        return context
    return np.minimum(context, new * top_k)


def index_scores(
    count: Number,
    new: Number,
    context: Number,
    *,
    heads: Number,
    head_dim: Number,
    bytes_per_token: Number,
    width: Number,
    mask: Mask = "causal",
) -> Work:
    """Scores of all keys by the indexer, from which the best few are chosen.

    One dot product a pair and head; the selection itself is left out. Source: DeepSeek-V3.2 (2025),
    lightning indexer.

    Args:
        count, new, context, mask: As in `absorbed_attention`.
        heads, head_dim: Heads of the index, and their width. [1]
        bytes_per_token: Cached index key with its scale. [B]
        width: Bytes per element of the index queries. [B]

    Examples:
        >>> index_scores(
        ...     1.0, 1.0, 10.0, heads=64, head_dim=128, bytes_per_token=132, width=1
        ... ).flops
        163840.0
    """
    pairs_met = pairs(new, context, mask=mask)
    return Work(
        flops=(2.0 * heads * head_dim) * times(count, pairs_met),
        activation_bytes=(heads * head_dim * width) * times(count, new),
        kv_bytes=bytes_per_token * times(count, context),
        made=by(INDEX, locals()),
    )


INDEX: Final = Formula(
    flops="2 · heads · head_dim · count · pairs_met",
    activation_bytes="heads · head_dim · width · count · new",
    kv_bytes="count · context · bytes_per_token",
    meanings=MET[:1],
)
