"""Kimi Linear and Kimi K3: delta attention with a decay per channel, and latent attention.

Shapes and defaults of Kimi Linear are those of the ``transformers`` config class (5.23). What K3
adds is in its technical report and in the names and shapes of its checkpoint: a full-rank gate, a
gate on latent attention, experts at a latent width, and attention over depth instead of a sum.
"""

from collections.abc import Sequence
from typing import Any, Final

from roofline.model.architecture import Architecture, Block, Linear, Mixer, Recurrent
from roofline.model.huggingface.common import family, gated, neutral, outline, stack
from roofline.model.huggingface.deepseek import latent_attention
from roofline.model.huggingface.fields import Fields
from roofline.model.huggingface.layers import layer_words
from roofline.model.huggingface.linear_attention import WORDS
from roofline.model.huggingface.routing import after_dense, placed, routed
from roofline.model.huggingface.vision import Wrapper, wrapped
from roofline.records import replace

CONFIG: Final = "linear_attn_config"
SEEN: Final = frozenset(
    [
        "num_key_value_heads",
        "head_dim",
        "qk_head_dim",
        "mla_use_nope",
        "moe_renormalize",
        "num_expert_group",
        "moe_router_activation_func",
        "use_grouped_topk",
        "activation_situ_beta",
        "activation_situ_linear_beta",
    ]
)
"""Fields that latent attention does not use, or that choose experts or bend an activation."""


def delta_attention(
    d_model: int, *, heads: int, head_dim: int, kernel: int, full_rank_gate: bool
) -> Recurrent:
    """Kimi delta attention: a gated delta rule whose decay is one number per channel of a key.

    Args:
        d_model, heads, head_dim: Width D; heads and the width of their keys and values. [1]
        kernel: Taps of the convolution over queries, keys and values. [1]
        full_rank_gate: Whether the output gate is one matrix, not two of the rank of a head.

    References:
        Kimi Team (2025), "Kimi Linear", section 3.
    """
    inner = heads * head_dim
    gate: tuple[Linear, ...] = (Linear("linear-gate", inner, d_model),)
    if not full_rank_gate:
        gate = low_rank("linear-gate", d_model, head_dim, inner)
    return Recurrent(
        kind="kimi-delta",
        heads=heads,
        key_dim=head_dim,
        value_dim=head_dim,
        key_heads=heads,
        projections=(
            Linear("linear-qkv", 3 * inner, d_model),
            *low_rank("linear-decay", d_model, head_dim, inner),
            Linear("linear-beta", heads, d_model),
            *gate,
            Linear("linear-out", d_model, inner, split="row"),
        ),
        # Decay of each head and its bias for each channel, the taps, the norm over a head.
        other_parameters=heads + inner + 3 * inner * kernel + head_dim,
        conv_width=3 * inner,
        conv_kernel=kernel,
        rule="delta",
    )


def low_rank(name: str, d_model: int, rank: int, inner: int) -> tuple[Linear, ...]:
    """Two matrices of a low rank, the first on every device."""
    return (Linear(f"{name}-down", rank, d_model, split="none"), Linear(f"{name}-up", inner, rank))


def _inner(fields: Fields, name: str, key: str, flat: str, default: int) -> int:
    """A size of ``linear_attn_config``, or under a key of its own."""
    value = _linear(fields).get(key)
    if value is None:
        return fields.integer(name, flat, default=default)
    fields.seen.add(flat)
    if type(value) is not int or not 1 <= value <= 10**6:
        fields.refuse_at((CONFIG, key), f"{key} is not a whole number of 1 or more", "write one")
    fields.provenance[name] = f"{key} = {value}, {fields.where(CONFIG, key)}"
    return value


def _linear(fields: Fields) -> dict[str, Any]:
    value = fields.data.get(CONFIG)
    fields.seen.add(CONFIG)
    if value is None:
        return {}
    if not isinstance(value, dict):
        fields.refuse(CONFIG, f"{CONFIG} is not a mapping")
    known = {"full_attn_layers", "kda_layers", "head_dim", "num_heads", "short_conv_kernel_size"}
    for key in value.keys() - known - {"use_full_rank_gate", "gate_lower_bound"}:
        fields.refuse_at((CONFIG, key), f"{key:.40} is not understood in {CONFIG}", "leave it out")
    return value


def _kinds(fields: Fields, layers: int) -> Sequence[str]:
    """``layer_types``, or the numbers of the layers of both kinds, counted from 1."""
    kinds = layer_words(fields, "layer_types", WORDS, layers)
    if kinds is not None:
        return kinds
    given = _linear(fields)
    lists = {"full": given.get("full_attn_layers"), "linear": given.get("kda_layers")}
    if all(entries is None for entries in lists.values()):
        return ["full" if i and i % 4 == 0 else "linear" for i in range(layers)]
    found: dict[Any, str] = {}
    for kind, entries in lists.items():
        for entry in entries if isinstance(entries, list) else ():
            found[entry if type(entry) is int else None] = kind
    numbers = sum(len(entries) for entries in lists.values() if isinstance(entries, list))
    if found.keys() != set(range(1, layers + 1)) or numbers != layers:
        fields.refuse(
            CONFIG,
            f"full_attn_layers and kda_layers do not name each of {layers} layers once",
            "number the layers from 1",
        )
    fields.provenance["layer_types"] = f"{CONFIG}, {fields.where(CONFIG)}"
    return [found[i + 1] for i in range(layers)]


@family("kimi_linear")
def kimi_linear(fields: Fields) -> Architecture:
    """Kimi Linear, and the decoder of Kimi K3."""
    fields.seen |= SEEN
    neutral(fields, num_nextn_predict_layers=0, attention_bias=False, mlp_bias=False)
    shape = outline(fields, "value_dim", "v_head_dim", default=128, context=("model_max_length",))
    layers, width = shape.layers, shape.d_model
    kinds = _kinds(fields, layers)
    gate = fields.flag("gate", "mla_use_output_gate", default=False)
    mixers = {
        "linear": _delta(fields, width),
        "full": latent_attention(fields, shape, 512, gate=gate),
    }
    each = fields.integer("expert_width", "moe_intermediate_size")
    shared = fields.integer(
        "shared_experts", "num_shared_experts", "n_shared_experts", default=1, low=0
    )
    latent = fields.optional("latent_width", "routed_expert_hidden_size") or 0
    moe = routed(
        fields,
        active=("num_experts_per_token", "num_experts_per_tok"),
        shared_width=shared * each,
        latent=latent,
        latent_norm=fields.flag("latent_norm", "latent_moe_use_norm", default=False),
    )
    parts = placed(gated(fields), moe, after_dense(fields, layers, 1))
    blocks = [
        Block(mixers[kind], part, 2, 2 * width) for kind, part in zip(kinds, parts, strict=True)
    ]
    size = fields.optional("residual_block", "attn_res_block_size")
    return stack(fields, shape, _over_depth(blocks, size, width) if size else blocks)


def _over_depth(blocks: Sequence[Block], size: int, width: int) -> list[Block]:
    """Each part reads a mix of the sums of earlier blocks of layers and of its own so far.

    The score of a sum is one product with a normed copy, as wide as the model; here it is counted
    for one of them. After the last layer they are mixed once more.
    """
    score = Linear("residual-score", 1, width, split="none")

    def mixing(block: Block, times: int, streams: int) -> Block:
        return replace(
            block,
            norms=block.norms + times,
            norm_parameters=block.norm_parameters + times * width,
            extra=(*block.extra, *[score] * times),
            streams=streams,
        )

    out = [mixing(block, 2, i // size + 2) for i, block in enumerate(blocks)]
    out[-1] = mixing(out[-1], 1, out[-1].streams)
    return out


def _delta(fields: Fields, width: int) -> Mixer:
    full_rank = _linear(fields).get("use_full_rank_gate", False)
    if not isinstance(full_rank, bool):
        where = (CONFIG, "use_full_rank_gate")
        fields.refuse_at(where, "use_full_rank_gate is not true or false", "write true or false")
    return delta_attention(
        width,
        heads=_inner(fields, "linear_heads", "num_heads", "linear_num_heads", 32),
        head_dim=_inner(fields, "linear_head_dim", "head_dim", "linear_head_dim", 128),
        kernel=_inner(fields, "conv_kernel", "short_conv_kernel_size", "linear_conv_kernel_dim", 4),
        full_rank_gate=full_rank,
    )


KIMI_K3: Final = Wrapper({"kimi_linear": kimi_linear})


@family("kimi_k3")
def kimi_k3(fields: Fields) -> Architecture:
    """Kimi K3: the decoder; what its tower holds is not published field by field."""
    fields.seen |= {"media_placeholder_token_id", "ignore_index", "image_placeholder"}
    return wrapped(KIMI_K3, fields)
