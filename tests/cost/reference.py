"""A slow second opinion on the cost model: counts one token, position, head and layer at a time.

Nothing here comes from `roofline.cost`. Counts are Python integers, bytes exact fractions. It is
written from definitions: which keys a query sees, which rows and columns of a matrix a device of
a tensor-parallel group holds, which tensors an operator reads and writes.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from typing import NamedTuple

from roofline.model.architecture import (
    Architecture,
    Attention,
    Block,
    Indexer,
    Linear,
    Mla,
    Mlp,
    Moe,
    Recurrent,
)


class Sequences(NamedTuple):
    """Equal sequences in one step: how many, new tokens of each, context with them."""

    number: int
    new: int
    context: int


@dataclass(frozen=True)
class Setting:
    """Bytes per element, layout, and what is counted."""

    weights: Fraction = Fraction(2)
    plain: Fraction = Fraction(2)
    cache: Fraction = Fraction(2)
    tp: int = 1
    square: bool = False
    naive: bool = False
    logits_of_all: bool = False
    converted: Fraction | None = None
    """Bytes per activation that products with stored weights take; None where they take all."""
    absorbed: bool = False
    state: Fraction = Fraction(2)


@dataclass
class Count:
    """What one device does in one step."""

    flops: Fraction = Fraction(0)
    weight_bytes: Fraction = Fraction(0)
    activation_bytes: Fraction = Fraction(0)
    kv_bytes: Fraction = Fraction(0)
    reduced: list[Fraction] = field(default_factory=list)
    gathered: list[Fraction] = field(default_factory=list)


def keys_of(position: int, window: int | None, chunk: int | None = None) -> range:
    """Keys that the causal query at a position (from 0) sees, itself included."""
    if chunk is not None:
        return range(next(s for s in range(position, -1, -1) if s % chunk == 0), position + 1)
    return range(0 if window is None else max(0, position - window + 1), position + 1)


def visible(new: int, context: int, window: int | None, chunk: int | None = None) -> set[int]:
    """Keys that at least one new query sees."""
    return {key for p in range(context - new, context) for key in keys_of(p, window, chunk)}


def pairs(
    new: int, context: int, window: int | None, *, square: bool, chunk: int | None = None
) -> int:
    """Pairs of query and key that are multiplied, one by one.

    Where masking is ignored every new query meets every key that is there: a key that no query
    of the step sees any more has left the cache.
    """
    there = visible(new, context, window, chunk)
    queries = range(context - new, context)
    return sum(1 for p in queries for _ in (there if square else keys_of(p, window, chunk)))


def kv_heads_of(part: Attention, rank: int, tp: int) -> set[int]:
    """Key/value heads that the query heads of one device attend with."""
    here, group = part.heads // tp, part.heads // part.kv_heads
    return {head // group for head in range(rank * here, (rank + 1) * here)}


def count_step(
    network: Architecture, groups: Sequence[Sequences], setting: Setting, rank: int = 0
) -> Count:
    """Everything one device does in a step, in order of execution."""
    out, d, e = Count(), network.d_model, network.embedding_width
    tokens = sum(group.number * group.new for group in groups)
    rows = tokens if setting.logits_of_all else sum(group.number for group in groups)
    out.weight_bytes += tokens * e * setting.plain
    out.activation_bytes += tokens * e * setting.plain
    if network.position_rows:
        out.weight_bytes += tokens * d * setting.plain
    if setting.tp > 1:
        out.reduced.append(tokens * e * setting.plain)
    if network.embedding_norm_parameters:
        _norm(out, tokens, d, network.embedding_norm_parameters, setting)
    if e != d:
        _matrix(out, tokens, d, e, setting.weights, setting)
    for layer in network.layers:
        _layer(out, network, layer, groups, setting, rank)
    if network.final_norm_parameters:
        _norm(out, tokens, d, network.final_norm_parameters, setting)
    if e != d:
        _matrix(out, tokens, e, d, setting.weights, setting)
    shard = Fraction(network.vocab, setting.tp)
    bias = shard if network.head_bias else 0
    _matrix(out, rows, shard, e, setting.plain, setting, bias=bias)
    if setting.tp > 1:
        out.gathered.append(rows * network.vocab * setting.plain)
    return out


def _layer(
    out: Count,
    network: Architecture,
    layer: Block,
    groups: Sequence[Sequences],
    setting: Setting,
    rank: int,
) -> None:
    d, tp, width = network.d_model, setting.tp, setting.plain
    tokens = sum(group.number * group.new for group in groups)
    for _ in range(layer.norms):
        _norm(out, tokens, d, Fraction(layer.norm_parameters, layer.norms), setting)
    mixers = {Attention: _attention, Mla: _latent, Recurrent: _recurrent}
    parts = {Mlp: _dense, Moe: _experts}
    if layer.mixer is not None:
        mixers[type(layer.mixer)](out, layer.mixer, d, groups, setting, rank)  # type: ignore[operator]
    if layer.feedforward is not None:
        parts[type(layer.feedforward)](out, layer.feedforward, d, tokens, setting)  # type: ignore[operator]
    updates = len(layer.parts)
    if tp > 1:
        for _ in range(min(updates, 1) if layer.parallel else updates):
            out.reduced.append(tokens * d * width)


def _attention(
    out: Count, part: Attention, d: int, groups: Sequence[Sequences], setting: Setting, rank: int
) -> None:
    tp, width, h, v = setting.tp, setting.plain, part.head_dim, part.value_width
    tokens = sum(group.number * group.new for group in groups)
    heads, held = part.heads // tp, len(kv_heads_of(part, rank, tp))
    made = 0 if part.reuses_kv else held  # heads whose keys this layer makes
    rows = heads * h + made * h
    rows += 0 if part.keys_are_values else made * v
    rows += heads * v if part.gate else 0
    _matrix(out, tokens, rows, d, setting.weights, setting, bias=rows if part.qkv_biased else 0)
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
    _matrix(out, tokens, d, heads * v, setting.weights, setting, bias=bias)


def _attend(
    out: Count, part: Attention, new: int, context: int, heads: int, held: int, setting: Setting
) -> None:
    """One sequence in one layer: keys and values are stored, then read once for each head."""
    both, width, cache = part.head_dim + part.value_width, setting.plain, setting.cache
    square = setting.square or setting.naive
    if part.index is not None:
        met, seen = _best_pairs(new, context, part.index.top_k), _best(new, context, part.index)
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


def _best(new: int, context: int, index: Indexer) -> int:
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
    _matrix(out, tokens, index.heads * index.head_dim, index.query_width, setting.weights, setting)
    _matrix(out, tokens, index.head_dim, d, setting.weights, setting)
    if index.weighted:
        _matrix(out, tokens, index.heads, d, setting.plain, setting)
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


def _latent(
    out: Count, part: Mla, d: int, groups: Sequence[Sequences], setting: Setting, rank: int
) -> None:
    """Latents are made and kept on every device; heads are shared out."""
    width, heads = setting.plain, part.heads // setting.tp
    tokens = sum(group.number * group.new for group in groups)
    down = part.query_rank + part.latent + part.rope_dim
    _matrix(out, tokens, down, d, setting.weights, setting, bias=part.biased)
    if part.norm_parameters:
        out.activation_bytes += tokens * 2 * (part.query_rank + part.latent) * width
        out.weight_bytes += part.norm_parameters * width
    query = heads * (part.nope_dim + part.rope_dim)
    _matrix(out, tokens, query, part.query_rank or d, setting.weights, setting)
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
        _matrix(out, tokens, values, d, setting.weights, setting)
        out.activation_bytes += tokens * (2 * values + values) * width
    bias = d if part.out_bias else 0
    _matrix(out, tokens, d, values, setting.weights, setting, bias=bias)


def _latent_pairs(part: Mla, new: int, context: int, setting: Setting) -> tuple[int, int]:
    """Pairs of query and token, and tokens that are read."""
    if part.index is None:
        return pairs(new, context, None, square=setting.square), context
    return _best_pairs(new, context, part.index.top_k), _best(new, context, part.index)


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


def _recurrent(
    out: Count, part: Recurrent, d: int, groups: Sequence[Sequences], setting: Setting, rank: int
) -> None:
    """Projections, taps of the convolution, the state of each sequence, a gate."""
    tp, width = setting.tp, setting.plain
    tokens = sum(group.number * group.new for group in groups)
    for matrix in part.projections:
        _shard(out, matrix, tokens, setting)
    if part.conv_width:
        wide = part.conv_width // tp
        out.activation_bytes += tokens * 2 * wide * width
        out.weight_bytes += wide * part.conv_kernel * width
    heads, key_heads = part.heads // tp, max(part.key_heads // tp, 1)
    taps = part.conv_width * part.conv_kernel
    for number, new, _ in groups:
        # Decays are read with the state: once for all sequences of a group.
        out.weight_bytes += Fraction(part.other_parameters - taps, tp) * width
        for _ in range(number):
            scan = new == 1 or part.chunk == 1
            out.flops += (_token_by_token if scan else _chunk_by_chunk)(part, new, heads, key_heads)
            moved = 2 * key_heads * part.key_dim + 2 * heads * part.value_dim + heads
            out.activation_bytes += new * moved * width  # q, k, v, decay in; y out
            out.kv_bytes += 2 * heads * part.key_dim * part.value_dim * setting.state
            for _ in range(max(part.conv_kernel - 1, 0)):  # last inputs, in and out
                out.kv_bytes += 2 * (part.conv_width // tp) * width
    inner = heads * part.value_dim
    out.activation_bytes += tokens * (2 * inner + inner) * width


def _token_by_token(part: Recurrent, new: int, heads: int, key_heads: int) -> int:
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


def _chunk_by_chunk(part: Recurrent, new: int, heads: int, key_heads: int) -> int:
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


def _dense(out: Count, mlp: Mlp, d: int, tokens: int, setting: Setting) -> None:
    inner = mlp.width // setting.tp
    wide = inner * (2 if mlp.gated else 1)
    bias = wide if mlp.up_bias else 0
    _matrix(out, tokens, wide, d, setting.weights, setting, bias=bias)
    out.activation_bytes += tokens * (wide + inner) * setting.plain
    bias = d if mlp.down_bias else 0
    _matrix(out, tokens, d, inner, setting.weights, setting, bias=bias)


def _experts(out: Count, moe: Moe, d: int, tokens: int, setting: Setting) -> None:
    """Each token is sent to its experts one by one; a touched expert's matrices are read once."""
    width = setting.plain
    bias = moe.experts if moe.router_bias else 0
    _matrix(out, tokens, moe.experts, d, width, setting, bias=bias)
    inner_d = moe.latent or d
    if moe.latent:
        _matrix(out, tokens, moe.latent, d, setting.weights, setting)
        _matrix(out, tokens, d, moe.latent, setting.weights, setting)
    if moe.shared_width:
        _dense(out, Mlp(moe.shared_width, moe.gated), d, tokens, setting)
    if moe.shared_gate:
        _matrix(out, tokens, 1, d, width, setting)
    inner = moe.width // setting.tp
    wide = inner * (2 if moe.gated else 1)
    for _ in range(tokens):
        for _ in range(moe.active):
            _row(out, wide, inner_d, setting)
            out.activation_bytes += (wide + inner) * width
            _row(out, inner_d, inner, setting)
            out.activation_bytes += inner_d * width  # to be added up
        out.activation_bytes += (d if moe.shared_width else 0) * width + inner_d * width
    biases = (wide if moe.up_bias else 0) + (inner_d if moe.down_bias else 0)
    one = (wide * inner_d + inner_d * inner) * setting.weights + biases * width
    out.weight_bytes += expected_distinct(tokens, moe.experts, moe.active) * one


def _row(out: Count, n: int, k: int, setting: Setting) -> None:
    """One token through one matrix."""
    out.flops += 2 * n * k
    out.activation_bytes += (k + n) * setting.plain
    _convert(out, 1, k, setting)


@cache
def expected_distinct(tokens: int, experts: int, active: int) -> Fraction:
    """Experts that some token is sent to, averaged over every way to send the tokens."""
    ways = list(combinations(range(experts), active))
    assert len(ways) ** tokens <= 10**5, "too many ways to send tokens"
    every = [len(set().union(*way)) for way in product(ways, repeat=tokens)]
    return Fraction(sum(every), len(every))


def systematic(chances: Sequence[float], start: float) -> set[int]:
    """Experts of one token by systematic sampling: each is chosen with its own chance exactly.

    Chances are laid end to end; every point at start, start + 1, … falls into one of them.
    """
    chosen, end = set(), 0.0
    for expert, chance in enumerate(chances):
        before, end = end, end + chance
        if int(end - start + 1) > int(before - start + 1):
            chosen.add(expert)
    return chosen


def simulated_distinct(
    tokens: int, chances: Sequence[float], trials: int, seed: int
) -> tuple[float, float]:
    """Mean of distinct experts over simulated batches of tokens, and its standard error."""
    draw = random.Random(seed)
    counts = [
        len(set().union(*(systematic(chances, draw.random()) for _ in range(tokens))))
        for _ in range(trials)
    ]
    mean = sum(counts) / trials
    spread = sum((count - mean) ** 2 for count in counts) / (trials - 1)
    return mean, (spread / trials) ** 0.5


def _shard(out: Count, matrix: Linear, tokens: int, setting: Setting) -> None:
    """What one device does of a matrix that is split as it says."""
    n = matrix.n // setting.tp if matrix.split == "column" else matrix.n
    k = matrix.k // setting.tp if matrix.split == "row" else matrix.k
    bias = n if matrix.biased else 0
    _matrix(out, tokens, n, k, setting.weights, setting, bias=bias)


def _convert(out: Count, tokens: int, k: int, setting: Setting) -> None:
    """Activations are read and written narrower where a product takes them so."""
    if setting.converted is not None:
        out.activation_bytes += tokens * k * (setting.plain + setting.converted)


def _matrix(
    out: Count,
    tokens: int,
    n: int | Fraction,
    k: int,
    width: Fraction,
    setting: Setting,
    *,
    bias: int | Fraction = 0,
) -> None:
    for _ in range(tokens):
        out.flops += 2 * n * k
        out.activation_bytes += (k + n) * setting.plain
    out.weight_bytes += n * k * width + bias * setting.plain
    if width != setting.plain:
        _convert(out, tokens, k, setting)


def _norm(out: Count, tokens: int, d: int, parameters: int | Fraction, setting: Setting) -> None:
    """Fused with the residual add: stream and update in, stream and normed copy out."""
    out.activation_bytes += tokens * (d + d + d + d) * setting.plain
    out.weight_bytes += parameters * setting.plain


def weights_held(network: Architecture, setting: Setting, rank: int = 0) -> Fraction:
    """Bytes of the weights on one device, matrix by matrix."""
    d, tp = network.d_model, setting.tp
    e = network.embedding_width
    tables = 1 if network.tied_embeddings else 2
    plain = Fraction(tables * network.vocab * e, tp)
    plain += Fraction(network.vocab, tp) if network.head_bias else 0
    plain += network.position_rows * d
    plain += network.embedding_norm_parameters + network.final_norm_parameters
    stored = 2 * e * d if e != d else 0
    for layer in network.layers:
        plain += layer.norm_parameters
        if isinstance(layer.mixer, Attention):
            part = layer.mixer
            rows = (part.heads // tp + 2 * len(kv_heads_of(part, rank, tp))) * part.head_dim
            stored += rows * d + d * (part.heads // tp) * part.head_dim
            plain += rows if part.qkv_biased else 0
            plain += part.norm_parameters + (d if part.out_bias else 0)
        if isinstance(layer.feedforward, Mlp):
            mlp = layer.feedforward
            inner = mlp.width // tp
            wide = inner * (2 if mlp.gated else 1)
            stored += wide * d + d * inner
            plain += (wide if mlp.up_bias else 0) + (d if mlp.down_bias else 0)
    return stored * setting.weights + plain * setting.plain


def cache_held(network: Architecture, context: int, setting: Setting, rank: int = 0) -> Fraction:
    """Bytes that one sequence keeps on one device: what the next query will see, and itself."""
    elements = 0
    for layer in network.layers:
        if isinstance(layer.mixer, Attention):
            kept = len(keys_of(context - 1, layer.mixer.window))
            for _ in kv_heads_of(layer.mixer, rank, setting.tp):
                elements += kept * 2 * layer.mixer.head_dim
    return elements * setting.cache


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
