"""Launches of the attention kernels; what each array holds is said in the CUDA sources."""

from math import log2
from typing import Final

import numpy as np

from roofline.bench.gpu.launch import WARP, Array, Element, Launch, ceil_div, program
from roofline.errors import InputError

HEAD_DIMS: Final = (64, 128)
BAND: Final = 16
"""Query rows of one matrix instruction."""
WARPS: Final = 4
DECODE_KEYS: Final = 16
DECODE_STAGES: Final = {2: 3, 1: 6}
"""Tiles of a warp that are under way or in use, by bytes of a key: as many bytes of either."""
AMPERE: Final = 80
"""Architecture of which a multiprocessor holds two blocks only with fewer tiles: 164 KiB shared."""
FEWER: Final = 2 / 3
"""Share of the tiles that they have there."""
PREFILL_BANDS: Final = 2
PREFILL_KEYS: Final = {64: 64, 128: 32}
"""Keys per tile by head width: with more, registers spill."""
HOPPER: Final = 90
"""Architecture whose products are of whole warpgroups; no other has these instructions."""
GROUPS: Final = 2
"""Warpgroups of a block, each with 64 queries."""
GROUP_KEYS: Final = 128
"""Keys per tile of theirs; two tiles of keys and two of values fill most of the shared memory."""
LOG2_E: Final = 1.0 / float(np.log(2.0))


def decode_attention(
    query: Array,
    keys: Array,
    values: Array,
    block_table: Array,
    contexts: Array,
    output: Array,
    *,
    element: Element,
    partial_output: Array | None = None,
    partial_log_sum: Array | None = None,
    architecture: int = 90,
) -> tuple[Launch, ...]:
    """Launches for one or a few new tokens per sequence over a paged KV cache.

    Args:
        query, output: Of shape [batch, new tokens, query heads, head width].
        keys, values: Of shape [pages, tokens per page, kv heads, head width]; of the query's type,
            or e4m3 in bytes, with scales of one (from compute capability 8.9 on).
        block_table: Pages of each sequence, int32, of shape [batch, most pages of a sequence].
        contexts: Keys that the last new token of each sequence sees, int32. [token]
        partial_output, partial_log_sum: Room for the splits of the context, both float32, of shape
            [batch, new tokens, query heads, splits, head width] and the same without the last;
            without it the context is not split.
        architecture: Of the device.

    Raises:
        InputError: If the kernel does not serve the shape.
    """
    batch, new_tokens, query_heads, head_dim = query.shape
    _, page_tokens, kv_heads, _ = keys.shape
    group = _group(query_heads, kv_heads, head_dim)
    if page_tokens % DECODE_KEYS:
        raise InputError(
            f"pages of {page_tokens} tokens are not served",
            hint=f"take a multiple of {DECODE_KEYS} tokens per page",
        )
    splits = 1 if partial_log_sum is None else partial_log_sum.shape[-1]
    bands = min(2, ceil_div(group * new_tokens, BAND))
    narrow = keys.dtype.itemsize == 1
    stages = DECODE_STAGES[keys.dtype.itemsize]
    if architecture == AMPERE:
        stages = round(FEWER * stages)
    constants = {
        "HEAD_DIM": head_dim,
        "BANDS": bands,
        "WARPS": WARPS,
        "KEYS": DECODE_KEYS,
        "STAGES": stages,
        **({"CACHE_FP8": 1} if narrow else {}),
    }
    built = program("decode_attention", element, constants)
    tiles_bytes = WARPS * stages * 2 * DECODE_KEYS * head_dim * keys.dtype.itemsize
    sizes = (new_tokens, query_heads, kv_heads, page_tokens, block_table.shape[1], splits)
    merge_bytes = WARPS * bands * BAND * (head_dim + 2) * 4
    attend = Launch(
        built,
        "decode_attention",
        (splits, kv_heads * ceil_div(group * new_tokens, bands * BAND), batch),
        WARPS * WARP,
        max(tiles_bytes, merge_bytes),
        (
            query,
            keys,
            values,
            block_table,
            contexts,
            output if partial_output is None else partial_output,
            output if partial_log_sum is None else partial_log_sum,
            output,
            *np.array(sizes, np.int32),
            _scale(head_dim),
        ),
    )
    if splits == 1:
        return (attend,)
    combine = Launch(
        built,
        "combine_splits",
        (batch * new_tokens * query_heads, 1, 1),
        head_dim,
        0,
        (partial_output, partial_log_sum, output, np.int32(splits)),
    )
    return attend, combine


def decode_splits(
    batch: int, kv_heads: int, context: float, multiprocessors: int, *, most: int = 128
) -> int:
    """Parts of a context that keep a device busy: two blocks per multiprocessor.

    No part is shorter than one tile for each warp.

    Args:
        batch: Sequences. [sequence]
        kv_heads: Key and value heads of a layer. [head]
        context: Cached tokens per sequence. [token]
        multiprocessors: Of the device. [1]
        most: Parts that are worth combining. [1]

    Examples:
        >>> decode_splits(1, 8, 4096, 132)
        33
        >>> decode_splits(64, 8, 4096, 132), decode_splits(1, 8, 100, 132)
        (1, 2)
    """
    wanted = 2 * multiprocessors // (batch * kv_heads)
    longest = ceil_div(int(context), DECODE_KEYS * WARPS)
    return max(1, min(wanted, longest, most))


def prefill_attention(
    query: Array,
    keys: Array,
    values: Array,
    output: Array,
    *,
    element: Element,
    causal: bool = True,
    architecture: int = 80,
) -> tuple[Launch, ...]:
    """Launch for many new tokens per sequence.

    Args:
        query, output: Of shape [batch, new tokens, query heads, head width].
        keys, values: Of shape [batch, context, kv heads, head width]; the new tokens are the last
            of the context, so a longer context is a chunk of a prompt.
        causal: Whether a token sees only itself and those before it.
        architecture: Of the device: Hopper has a kernel of its own.

    Raises:
        InputError: If the kernel does not serve the shape.
    """
    batch, new_tokens, query_heads, head_dim = query.shape
    _, context, kv_heads, _ = keys.shape
    _group(query_heads, kv_heads, head_dim)
    if causal and context < new_tokens:
        raise InputError(
            f"{new_tokens} new tokens are more than their context of {context}",
            hint="count the new tokens in the context",
        )
    if architecture == HOPPER:
        kernel, threads, queries, tiles = "prefill_warpgroup", GROUPS * 4 * WARP, GROUPS * 64, 4
        constants = {"GROUPS": GROUPS, "KEYS": GROUP_KEYS}
    else:
        kernel, threads, tiles = "prefill_attention", WARPS * WARP, 2
        queries = WARPS * PREFILL_BANDS * BAND
        constants = {"BANDS": PREFILL_BANDS, "WARPS": WARPS, "KEYS": PREFILL_KEYS[head_dim]}
    return (
        Launch(
            program(kernel, element, {"HEAD_DIM": head_dim, **constants}),
            kernel,
            (ceil_div(new_tokens, queries), query_heads, batch),
            threads,
            (queries + tiles * constants["KEYS"]) * head_dim * 2,
            (
                query,
                keys,
                values,
                output,
                *np.array([new_tokens, context, query_heads, kv_heads, causal], np.int32),
                _scale(head_dim),
            ),
        ),
    )


def _group(query_heads: int, kv_heads: int, head_dim: int) -> int:
    if head_dim not in HEAD_DIMS:
        raise InputError(
            f"heads of width {head_dim} are not served", hint=f"take one of {HEAD_DIMS}"
        )
    if query_heads % kv_heads:
        raise InputError(
            f"{query_heads} query heads cannot share {kv_heads} kv heads evenly",
            hint="take a multiple of the kv heads",
        )
    return query_heads // kv_heads


def _scale(head_dim: int) -> np.float32:
    """Scores are exponents of two: ``exp(x) = exp2(x log2 e)``, and √H is a power of two."""
    return np.float32(LOG2_E * 2.0 ** (-0.5 * log2(head_dim)))
