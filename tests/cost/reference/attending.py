"""Attention, its index and its latents: a second opinion that counts pair by pair."""

from collections.abc import Sequence

from roofline.model.architecture import Attention, Indexer, Mla
from tests.cost.reference.elementary import (
    Count,
    Sequences,
    Setting,
    keys_of,
    multiply,
    pairs,
    visible,
)


def kv_heads_of(part: Attention, rank: int, tp: int) -> set[int]:
    """Key/value heads that the query heads of one device attend with."""
    here, group = part.heads // tp, part.heads // part.kv_heads
    return {head // group for head in range(rank * here, (rank + 1) * here)}


def count_attention(
    out: Count, part: Attention, d: int, groups: Sequence[Sequences], setting: Setting, rank: int
) -> None:
    tp, width, h, v = setting.tp, setting.plain, part.head_dim, part.value_width
    tokens = sum(group.number * group.new for group in groups)
    heads, held = part.heads // tp, len(kv_heads_of(part, rank, tp))
    made = 0 if part.reuses_kv else held  # heads whose keys this layer makes
    rows = heads * h + made * h
    rows += 0 if part.keys_are_values else made * v
    rows += heads * v if part.gate else 0
    multiply(out, tokens, rows, d, setting.weights, setting, bias=rows if part.qkv_biased else 0)
    turned = (heads + made) * h
    passes = (1 if part.norm_parameters else 0) + (1 if part.rotary else 0)
    for _ in range(passes):
        out.activation_bytes += tokens * (turned + turned) * width  # read, written
    out.weight_bytes += part.norm_parameters * width
    for number, new, context in groups:
        for _ in range(number):
            if part.index is not None:
                _index_scores(out, part.index, new, context, setting)
            _attend(out, part, new, context, heads, held, setting)
    if part.index is not None:
        _index(out, part.index, d, tokens, setting)
    if part.gate:
        out.activation_bytes += tokens * (2 * heads * v + heads * v) * width
    bias = d if part.out_bias else 0
    multiply(out, tokens, d, heads * v, setting.weights, setting, bias=bias)


def _attend(
    out: Count, part: Attention, new: int, context: int, heads: int, held: int, setting: Setting
) -> None:
    """One sequence in one layer: keys and values are stored, then read once for each head."""
    both, width, cache = part.head_dim + part.value_width, setting.plain, setting.cache
    square = setting.square or setting.naive
    if part.index is not None:
        met, seen = _best_pairs(new, context, part.index.top_k), best(new, context, part.index)
    else:
        met = pairs(new, context, part.window, square=square, chunk=part.chunk)
        seen = len(visible(new, context, part.window, part.chunk))
    for _ in range(heads):
        out.flops += met * 2 * both  # a dot product, and a row of V scaled and added
        out.activation_bytes += new * both * width  # query in, output out
        if setting.naive:
            out.activation_bytes += 4 * met * width  # scores out and in, their softmax out and in
    for _ in range(held):
        out.kv_bytes += seen * both * cache
        if not part.reuses_kv:
            out.activation_bytes += new * both * width  # key and value in, to be stored
            out.kv_bytes += new * both * cache


def _best_pairs(new: int, context: int, top_k: int) -> int:
    """Pairs where each query meets its best few of the keys before it."""
    return sum(min(len(keys_of(p, None)), top_k) for p in range(context - new, context))


def best(new: int, context: int, index: Indexer) -> int:
    """Keys read where queries agree as little as they can."""
    chosen: set[int] = set()
    for p in range(context - new, context):
        fresh = [key for key in keys_of(p, None) if key not in chosen]
        old = [key for key in keys_of(p, None) if key in chosen]
        chosen.update((fresh + old)[: index.top_k])
    return len(chosen)


def _index(out: Count, index: Indexer, d: int, tokens: int, setting: Setting) -> None:
    """Index queries and one index key of each new token, on every device."""
    if not index.computes:
        return
    multiply(out, tokens, index.heads * index.head_dim, index.query_width, setting.weights, setting)
    multiply(out, tokens, index.head_dim, d, setting.weights, setting)
    if index.weighted:
        multiply(out, tokens, index.heads, d, setting.plain, setting)
    out.kv_bytes += tokens * index.bytes_per_token


def _index_scores(out: Count, index: Indexer, new: int, context: int, setting: Setting) -> None:
    """One sequence: every index query meets the index key of every token before it."""
    if not index.computes:
        return
    for p in range(context - new, context):
        there = range(context) if setting.square else keys_of(p, None)
        for _ in there:
            out.flops += index.heads * 2 * index.head_dim
    out.activation_bytes += new * index.heads * index.head_dim * setting.plain
    out.kv_bytes += context * index.bytes_per_token


def count_latent(
    out: Count, part: Mla, d: int, groups: Sequence[Sequences], setting: Setting, rank: int
) -> None:
    """Latents are made and kept on every device; heads are shared out."""
    width, heads = setting.plain, part.heads // setting.tp
    tokens = sum(group.number * group.new for group in groups)
    down = part.query_rank + part.latent + part.rope_dim
    multiply(out, tokens, down, d, setting.weights, setting, bias=part.biased)
    if part.norm_parameters:
        out.activation_bytes += tokens * 2 * (part.query_rank + part.latent) * width
        out.weight_bytes += part.norm_parameters * width
    query = heads * (part.nope_dim + part.rope_dim)
    multiply(out, tokens, query, part.query_rank or d, setting.weights, setting)
    out.activation_bytes += tokens * 2 * (heads * part.rope_dim + part.rope_dim) * width
    out.activation_bytes += tokens * (part.latent + part.rope_dim) * width  # in, to be stored
    out.kv_bytes += tokens * (part.latent + part.rope_dim) * setting.cache
    if part.index is not None:
        _index(out, part.index, d, tokens, setting)
    form = _absorbed if setting.absorbed else _expanded
    for group in groups:
        # The matrix is read once for all sequences of a group, whatever the form.
        matrix = heads * (part.nope_dim + part.value_dim) * part.latent
        out.weight_bytes += matrix * setting.weights
        for _ in range(group.number):
            if part.index is not None:
                _index_scores(out, part.index, group.new, group.context, setting)
            form(out, part, group.new, group.context, heads, setting)
    values = heads * part.value_dim
    if part.gate:
        multiply(out, tokens, values, d, setting.weights, setting)
        out.activation_bytes += tokens * (2 * values + values) * width
    bias = d if part.out_bias else 0
    multiply(out, tokens, d, values, setting.weights, setting, bias=bias)


def _latent_pairs(part: Mla, new: int, context: int, setting: Setting) -> tuple[int, int]:
    """Pairs of query and token, and tokens that are read."""
    if part.index is None:
        return pairs(new, context, None, square=setting.square), context
    return _best_pairs(new, context, part.index.top_k), best(new, context, part.index)


def _expanded(out: Count, part: Mla, new: int, context: int, heads: int, setting: Setting) -> None:
    """Keys and values of every token that is seen are made from its latent, head by head."""
    width, nope, rope, v = setting.plain, part.nope_dim, part.rope_dim, part.value_dim
    met, seen = _latent_pairs(part, new, context, setting)
    for _ in range(seen):
        out.kv_bytes += (part.latent + rope) * setting.cache  # taken out of the cache
        out.activation_bytes += part.latent * width  # input of the product
        for _ in range(heads):
            out.flops += 2 * part.latent * (nope + v)
            out.activation_bytes += 2 * (nope + v) * width  # written, and read by attention
        out.activation_bytes += rope * width  # the rotated key that all heads share
    for _ in range(heads):
        out.flops += met * (2 * (nope + rope) + 2 * v)
        out.activation_bytes += new * ((nope + rope) + v) * width


def _absorbed(out: Count, part: Mla, new: int, context: int, heads: int, setting: Setting) -> None:
    """Queries are taken to the latent and outputs out of it, head by head; one key for all."""
    width, nope, rope, v, latent = (
        setting.plain,
        part.nope_dim,
        part.rope_dim,
        part.value_dim,
        part.latent,
    )
    met, seen = _latent_pairs(part, new, context, setting)
    for _ in range(heads):
        out.flops += new * 2 * nope * latent + new * 2 * latent * v
        out.activation_bytes += new * (nope + latent) * width + new * (latent + v) * width
        out.flops += met * (2 * (latent + rope) + 2 * latent)
        out.activation_bytes += new * ((latent + rope) + latent) * width
    out.kv_bytes += seen * (latent + rope) * setting.cache
