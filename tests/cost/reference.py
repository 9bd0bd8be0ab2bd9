"""A slow second opinion on the cost model: counts one token, position, head and layer at a time.

Nothing here comes from `roofline.cost`. Counts are Python integers, bytes exact fractions. It is
written from definitions: which keys a query sees, which rows and columns of a matrix a device of
a tensor-parallel group holds, which tensors an operator reads and writes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from roofline.model.architecture import Architecture, Attention, Block, Mlp


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


@dataclass
class Count:
    """What one device does in one step."""

    flops: Fraction = Fraction(0)
    weight_bytes: Fraction = Fraction(0)
    activation_bytes: Fraction = Fraction(0)
    kv_bytes: Fraction = Fraction(0)
    reduced: list[Fraction] = field(default_factory=list)
    gathered: list[Fraction] = field(default_factory=list)


def keys_of(position: int, window: int | None) -> range:
    """Keys that the causal query at a position (from 0) sees, itself included."""
    return range(0 if window is None else max(0, position - window + 1), position + 1)


def visible(new: int, context: int, window: int | None) -> set[int]:
    """Keys that at least one new query sees."""
    return {key for p in range(context - new, context) for key in keys_of(p, window)}


def pairs(new: int, context: int, window: int | None, *, square: bool) -> int:
    """Pairs of query and key that are multiplied, one by one.

    Where masking is ignored every new query meets every key that is there: a key that no query
    of the step sees any more has left the cache.
    """
    there = visible(new, context, window)
    queries = range(context - new, context)
    return sum(1 for p in queries for _ in (there if square else keys_of(p, window)))


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
    updates = 0
    if isinstance(layer.mixer, Attention):
        part, h = layer.mixer, layer.mixer.head_dim
        heads, held = part.heads // tp, len(kv_heads_of(part, rank, tp))
        qkv = (heads + 2 * held) * h
        _matrix(out, tokens, qkv, d, setting.weights, setting, bias=qkv if part.qkv_biased else 0)
        turned = (heads + held) * h
        passes = (1 if part.norm_parameters else 0) + (1 if part.rotary else 0)
        for _ in range(passes):
            out.activation_bytes += tokens * (turned + turned) * width  # read, written
        out.weight_bytes += part.norm_parameters * width
        for number, new, context in groups:
            for _ in range(number):
                _attend(out, part, new, context, heads, held, setting)
        _matrix(out, tokens, d, heads * h, setting.weights, setting, bias=d if part.out_bias else 0)
        updates += 1
    if isinstance(layer.feedforward, Mlp):
        mlp = layer.feedforward
        inner = mlp.width // tp
        wide = inner * (2 if mlp.gated else 1)
        _matrix(out, tokens, wide, d, setting.weights, setting, bias=wide if mlp.up_bias else 0)
        out.activation_bytes += tokens * (wide + inner) * width
        _matrix(out, tokens, d, inner, setting.weights, setting, bias=d if mlp.down_bias else 0)
        updates += 1
    if tp > 1:
        for _ in range(min(updates, 1) if layer.parallel else updates):
            out.reduced.append(tokens * d * width)


def _attend(
    out: Count, part: Attention, new: int, context: int, heads: int, held: int, setting: Setting
) -> None:
    """One sequence in one layer: keys and values are stored, then read once for each head."""
    h, width = part.head_dim, setting.plain
    met = pairs(new, context, part.window, square=setting.square or setting.naive)
    seen = len(visible(new, context, part.window))
    for _ in range(heads):
        out.flops += met * (2 * h + 2 * h)  # a dot product, and a row of V scaled and added
        out.activation_bytes += new * (h + h) * width  # query in, output out
        if setting.naive:
            out.activation_bytes += 4 * met * width  # scores out and in, their softmax out and in
    for _ in range(held):
        out.activation_bytes += new * (h + h) * width  # key and value in, to be stored
        out.kv_bytes += (new + seen) * (h + h) * setting.cache


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
