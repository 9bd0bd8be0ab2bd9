"""A whole step and what a device holds for it: a second opinion from definitions."""

from collections.abc import Sequence
from fractions import Fraction

from roofline.model.architecture import Architecture, Attention, Block, Mla, Mlp, Moe, Recurrent
from tests.cost.reference.attending import count_attention, count_latent, kv_heads_of
from tests.cost.reference.elementary import Count, Sequences, Setting, keys_of, multiply, normalise
from tests.cost.reference.feeding import count_dense, count_experts
from tests.cost.reference.recurring import count_recurrent


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
        normalise(out, tokens, d, network.embedding_norm_parameters, setting)
    if e != d:
        multiply(out, tokens, d, e, setting.weights, setting)
    for layer in network.layers:
        _layer(out, network, layer, groups, setting, rank)
    if network.final_norm_parameters:
        normalise(out, tokens, d, network.final_norm_parameters, setting)
    if e != d:
        multiply(out, tokens, e, d, setting.weights, setting)
    shard = Fraction(network.vocab, setting.tp)
    bias = shard if network.head_bias else 0
    multiply(out, rows, shard, e, setting.plain, setting, bias=bias)
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
        normalise(out, tokens, d, Fraction(layer.norm_parameters, layer.norms), setting)
    match layer.mixer:
        case None:
            pass
        case Attention() as attention:
            count_attention(out, attention, d, groups, setting, rank)
        case Mla() as latent:
            count_latent(out, latent, d, groups, setting, rank)
        case Recurrent() as recurrent:
            count_recurrent(out, recurrent, d, groups, setting, rank)
        case _:
            raise TypeError(f"{type(layer.mixer).__name__} is not counted")
    match layer.feedforward:
        case None:
            pass
        case Mlp() as dense:
            count_dense(out, dense, d, tokens, setting)
        case Moe() as moe:
            count_experts(out, moe, d, tokens, setting)
        case _:
            raise TypeError(f"{type(layer.feedforward).__name__} is not counted")
    updates = len(layer.parts)
    if tp > 1:
        for _ in range(min(updates, 1) if layer.parallel else updates):
            out.reduced.append(tokens * d * width)


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
