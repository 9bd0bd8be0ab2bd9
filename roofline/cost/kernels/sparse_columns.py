"""Columns of `roofline.cost.kernels.sparse`: what queries meet and read, by kind of attention."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from roofline.cost.attention import pairs
from roofline.cost.kernels.sparse import ROWS
from roofline.cost.work import Array, Number

BLOCK: Final = 128.0
"""Query rows of a block of a dense prefill, and keys that MiniMax's index chooses together."""


def tokens(batch: Array, new: Array, context: Array, width: float = 2.0) -> dict[str, Array]:
    """Sequences, new tokens of each, and its context with them; no projections, index, attention.

    Args:
        batch, new, context: Sequences [1], new tokens and context [token].
        width: Bytes per element of activations. [B]
    """
    batch, new, context = np.broadcast_arrays(batch, new, context)
    zero, one = np.zeros(batch.shape), np.ones(batch.shape)
    return {
        "batch": one * batch,
        "new": one * new,
        "context": one * context,
        "tokens": one * batch * new,
        "width": one * width,
        "launches": one,
        "hosted": zero,
        "unaligned": zero,
        "heads": one,
        **dict.fromkeys(INDEX, zero),
        **dict.fromkeys(ATTENTION, zero),
        "together": one,
        "index_faster": one,
    }


INDEX: Final = (
    "entries", "scored", "judged", "index_macs", "index_rows", "index_faster", "entry_bytes",
    "score_rows", "busy", "chooses", "chosen",
)  # fmt: skip
ATTENTION: Final = (
    "attends", "met", "unique", "rows", "groups", "together", "pair_macs", "key_bytes", "ends",
    "unfused", "copied",
)  # fmt: skip


def index(
    dims: Mapping[str, Array],
    *,
    heads: float,
    head_dim: float,
    entry_bytes: float,
    top_k: float,
    ratio: float = 1.0,
    blocks: float = 1.0,
    faster: float = 1.0,
    rows: Array | float = 1.0,
) -> dict[str, Array]:
    """Columns of scores of all entries, and of the choice among them.

    Args:
        dims: Of `tokens`.
        heads, head_dim: Of the index, on the device. [1]
        entry_bytes: Of the index key of an entry. [B]
        top_k: Entries that a query attends to at most. [1]
        ratio: Tokens of an entry. [token]
        blocks: Entries that are chosen together. [1]
        faster: Rate of the index's arithmetic over that of the machine. [1]
        rows: Choices for each query: one, or one for each head of the index. [1]
    """
    new, context = dims["new"], dims["context"]
    one = np.ones_like(new)
    scored = pairs(new, context) / new / ratio
    # Queries with no more entries before them than are chosen have no choice to make.
    first = np.clip(top_k * ratio, context - new, context)
    return {
        "entries": context / ratio,
        "scored": one * scored,
        "judged": (context + first) / 2.0 / ratio / blocks,
        "index_macs": one * heads * head_dim,
        "index_rows": one * heads,
        "index_faster": one * faster,
        "entry_bytes": one * entry_bytes,
        "score_rows": one * rows,
        "busy": (context - first) / new,
        "chooses": one,
        "chosen": one * top_k / blocks,
    }


def latent(
    dims: Mapping[str, Array],
    heads: Array,
    *,
    latent: float,
    rope: float,
    top_k: float,
    kv_width: Array | float,
) -> dict[str, Array]:
    """Columns of attention to the best few of a latent cache, which all heads share.

    Args:
        dims: Of `tokens`.
        heads: On the device. [1]
        latent, rope: Widths of the latent and of the rotated key. [1]
        top_k: Tokens that a query attends to at most. [token]
        kv_width: Bytes per element of the cache. [B]
    """
    new, context = dims["new"], dims["context"]
    return _attending(
        heads * np.ones_like(new),
        met=pairs(new, context, window=top_k) / new,
        unique=np.minimum(context, new * top_k),
        macs=2.0 * latent + rope,
        key_bytes=(latent + rope) * kv_width,
    )


def compressed(
    dims: Mapping[str, Array],
    heads: Array,
    *,
    head_dim: float,
    window: float,
    ratio: float,
    top_k: float | None,
    kv_width: Array | float,
) -> dict[str, Array]:
    """Columns of attention to a window and to entries, or the best few of them.

    Args:
        dims: Of `tokens`.
        heads: On the device. [1]
        head_dim: Width of the one key, which is the value too. [1]
        window, ratio: Tokens seen as they are, and tokens of an entry; 0 without entries. [token]
        top_k: Entries that a query attends to at most; None for all. [1]
        kv_width: Bytes per element of the cache. [B]
    """
    new, context = dims["new"], dims["context"]
    met = pairs(new, context, window=window) / new
    unique = np.minimum(context, new + window - 1.0)
    if ratio:
        span = None if top_k is None else top_k * ratio
        met = met + pairs(new, context, window=span) / new / ratio
        entries = context / ratio
        unique = unique + (entries if top_k is None else np.minimum(entries, new * top_k))
    key_bytes = head_dim * kv_width
    return _attending(
        heads * np.ones_like(new), met=met, unique=unique, macs=2.0 * head_dim, key_bytes=key_bytes
    )


def grouped(
    dims: Mapping[str, Array],
    heads: Array,
    kv_heads: Array,
    *,
    head_dim: float,
    top_k: float,
    kv_width: Array | float,
) -> dict[str, Array]:
    """Columns of attention to chosen keys, of which a group of heads has its own.

    Args:
        dims: Of `tokens`.
        heads, kv_heads: On the device. [1]
        head_dim: Width of a head. [1]
        top_k: Tokens that a query attends to at most. [token]
        kv_width: Bytes per element of the cache. [B]
    """
    new, context = dims["new"], dims["context"]
    return _attending(
        heads * np.ones_like(new),
        rows=heads / kv_heads,
        groups=kv_heads,
        met=pairs(new, context, window=top_k) / new,
        unique=np.minimum(context, new * top_k) * kv_heads,
        macs=2.0 * head_dim,
        key_bytes=2.0 * head_dim * kv_width,
    )


def dense(
    dims: Mapping[str, Array], heads: Array, *, key: float, value: float, width: float
) -> dict[str, Array]:
    """Columns of attention to all keys, made of the latent for each head.

    Args:
        dims: Of `tokens`.
        heads: On the device. [1]
        key, value: Widths of a key and a value. [1]
        width: Bytes per element of keys and values. [B]
    """
    new, context = dims["new"], dims["context"]
    together = np.minimum(new, BLOCK)
    return _attending(
        heads * np.ones_like(new),
        rows=together,
        groups=heads,
        together=together,
        met=pairs(new, context) / new,
        unique=context * heads,
        macs=key + value,
        key_bytes=(key + value) * width,
    )


def _attending(
    heads: Array,
    *,
    met: Number,
    unique: Array,
    macs: float,
    key_bytes: Array | float,
    rows: Array | None = None,
    groups: Array | None = None,
    together: Array | float = 1.0,
) -> dict[str, Array]:
    """Columns of attention; queries and outputs are as wide as what is multiplied for a pair.

    Args:
        heads: On the device. [1]
        met, unique: Keys that a query meets, and different ones of a sequence. [token]
        macs, key_bytes: Multiplications for each pair [1]; of a key and its value [B].
        rows, groups, together: Query rows of a block, groups of heads with keys of their own, and
            neighbouring queries of a block; as of heads that share keys if not given. [1]
    """
    one = np.ones_like(heads)
    return {
        "attends": one,
        "heads": heads,
        "rows": one * (np.minimum(heads, ROWS) if rows is None else rows),
        "groups": one * (np.ceil(heads / ROWS) if groups is None else groups),
        "together": one * together,
        "met": one * met,
        "unique": one * unique,
        "pair_macs": one * macs,
        "key_bytes": one * key_bytes,
        "ends": one * macs,
    }
