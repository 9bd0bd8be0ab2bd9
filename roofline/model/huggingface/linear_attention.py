"""Networks that mix linear attention with softmax attention: Qwen3-Next, Qwen3.5, MiniMax-01.

Shapes and defaults are those of the ``transformers`` config classes of the same names (5.23).
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from roofline.model.architecture import (
    Architecture,
    Attention,
    FeedForward,
    Linear,
    Mixer,
    Moe,
    Recurrent,
)
from roofline.model.huggingface.common import (
    Geometry,
    assemble,
    attention,
    biases,
    family,
    gated,
    geometry,
    neutral,
)
from roofline.model.huggingface.fields import Fields
from roofline.model.huggingface.layers import (
    block_parameters,
    divides,
    layer_words,
    with_prediction,
)
from roofline.model.huggingface.mamba import state_format
from roofline.model.huggingface.routing import marks, placed, routed, stepped
from roofline.model.huggingface.towers import QWEN3_VL_TOWER
from roofline.model.huggingface.vision import Wrapper, wrapped
from roofline.records import replace

WORDS: Final = {"linear_attention": "linear", "full_attention": "full"}


def gated_delta(
    d_model: int, *, key_heads: int, value_heads: int, key_dim: int, value_dim: int, kernel: int
) -> Recurrent:
    """Gated DeltaNet: a matrix of state per value head, keys shared by groups of them.

    Args:
        d_model: Width D. [1]
        key_heads, value_heads, key_dim, value_dim: Heads and their widths. [1]
        kernel: Taps of the convolution over queries, keys and values. [1]

    References:
        Yang, Kautz, Hatamizadeh (2024), "Gated Delta Networks", section 3.
    """
    values = value_heads * value_dim
    conv = 2 * key_heads * key_dim + values
    return Recurrent(
        kind="gated-delta",
        heads=value_heads,
        key_dim=key_dim,
        value_dim=value_dim,
        key_heads=key_heads,
        projections=(
            Linear("linear-qkvz", conv + values, d_model),
            Linear("linear-ba", 2 * value_heads, d_model),
            Linear("linear-out", d_model, values, split="row"),
        ),
        # Decay and its bias for each head, the taps, the norm over a head.
        other_parameters=2 * value_heads + conv * kernel + value_dim,
        conv_width=conv,
        conv_kernel=kernel,
        rule="delta",
    )


def _delta(fields: Fields, width: int) -> Recurrent:
    key_heads = fields.integer("linear_key_heads", "linear_num_key_heads", default=16)
    value_heads = fields.integer("linear_value_heads", "linear_num_value_heads", default=32)
    divides(fields, "linear_num_key_heads", value_heads, key_heads, "value heads")
    mixer = gated_delta(
        width,
        key_heads=key_heads,
        value_heads=value_heads,
        key_dim=fields.integer("linear_key_dim", "linear_key_head_dim", default=128),
        value_dim=fields.integer("linear_value_dim", "linear_value_head_dim", default=128),
        kernel=fields.integer("conv_kernel", "linear_conv_kernel_dim", default=4),
    )
    return replace(mixer, state_format=state_format(fields, "mamba_ssm_dtype"))


def _gated_attention(fields: Fields, shape: Geometry) -> Attention:
    """Attention with norms over each head of q and k, and a gate made beside the queries."""
    neutral(fields, attn_output_gate=True)
    (plain,) = attention(shape, [None], **biases(fields), norm=2 * shape.head_dim)
    gated_outputs = shape.heads * shape.head_dim if plain.out_bias else 0
    return replace(plain, gate=True, qkv_biased=plain.qkv_biased + gated_outputs)


def _kinds(fields: Fields, layers: int) -> Sequence[str]:
    """Kind of each layer: every fourth is full, unless the config says otherwise."""
    period = fields.integer("full_attention_interval", "full_attention_interval", default=4)
    kinds = layer_words(fields, "layer_types", WORDS, layers)
    if kinds is None:
        return ["linear" if (i + 1) % period else "full" for i in range(layers)]
    return kinds


def _shared_experts(fields: Fields) -> Moe:
    return routed(
        fields,
        shared_width=fields.integer("shared_width", "shared_expert_intermediate_size", default=512),
        shared_gate=True,
    )


@family("qwen3_next")
def qwen3_next(fields: Fields) -> Architecture:
    """Qwen3-Next: gated DeltaNet and gated attention, experts in every layer."""
    shape = geometry(fields, kv_heads=2, head_dim=256)
    moe = _shared_experts(fields)
    sparse = stepped(fields, shape.layers)
    fields.seen.add("intermediate_size")
    return _qwen(fields, shape, moe if all(sparse) else placed(gated(fields), moe, sparse))


@family("qwen3_5_text")
def qwen3_5(fields: Fields) -> Architecture:
    """Qwen3.5 and 3.6, dense."""
    neutral(fields, mlp_only_layers=([],))
    shape = geometry(fields, kv_heads=4, head_dim=256)
    return _qwen(fields, shape, gated(fields))


@family("qwen3_5_moe_text")
def qwen3_5_moe(fields: Fields) -> Architecture:
    """Qwen3.5 and 3.6 with experts in every layer."""
    neutral(fields, mlp_only_layers=([],))
    shape = geometry(fields, kv_heads=2, head_dim=256)
    return _qwen(fields, shape, _shared_experts(fields))


def _qwen(
    fields: Fields, shape: Geometry, parts: FeedForward | Sequence[FeedForward]
) -> Architecture:
    width = shape.d_model
    kinds = _kinds(fields, shape.layers)
    mixers: dict[str, Mixer] = {
        "linear": _delta(fields, width),
        "full": _gated_attention(fields, shape),
    }
    body = assemble(fields, shape, [mixers[kind] for kind in kinds], parts)
    neutral(fields, mtp_use_dedicated_embeddings=False)
    extra = fields.integer("mtp", "mtp_num_hidden_layers", default=0, low=0)
    if not extra:
        return body
    # Layers of full attention after norms of both inputs, a projection of two widths to one and
    # a last norm, which all of them share.
    like = replace(body.layers[-1], mixer=mixers["full"])
    number = extra * block_parameters(like, width) + 3 * width + 2 * width * width
    return with_prediction(fields, body, number)


def lightning(d_model: int, *, heads: int, head_dim: int, chunk: int) -> Recurrent:
    """Lightning attention: linear attention with a fixed decay per head, output normed and gated.

    Args:
        d_model, heads, head_dim: Width D; heads and their width. [1]
        chunk: Tokens that prefill computes together. [token]

    References:
        MiniMax (2025), "MiniMax-01", section 2.2.
    """
    inner = heads * head_dim
    return Recurrent(
        kind="lightning",
        heads=heads,
        key_dim=head_dim,
        value_dim=head_dim,
        key_heads=heads,
        projections=(
            Linear("linear-qkv", 3 * inner, d_model),
            Linear("linear-gate", inner, d_model),
            Linear("linear-out", d_model, inner, split="row"),
        ),
        other_parameters=inner,
        chunk=chunk,
    )


MINIMAX_FACTORS: Final = """
    full_attn_alpha_factor full_attn_beta_factor linear_attn_alpha_factor linear_attn_beta_factor
    mlp_alpha_factor mlp_beta_factor layernorm_full_attention_alpha layernorm_full_attention_beta
    layernorm_linear_attention_alpha layernorm_linear_attention_beta layernorm_mlp_alpha
    layernorm_mlp_beta
"""


@family("minimax")
def minimax(fields: Fields) -> Architecture:
    """MiniMax-Text-01: seven layers of lightning attention to one of softmax, all with experts."""
    fields.seen.update(MINIMAX_FACTORS.split())
    neutral(fields, postnorm=True, shared_intermediate_size=0, shared_moe_mode="sigmoid")
    fields.only("sliding_window", reason="its layers would see only part of the context")
    shape = geometry(fields, kv_heads=8)
    chunk = fields.integer("chunk", "block_size", default=256)
    mixers: dict[str, Mixer] = {
        "linear": lightning(shape.d_model, heads=shape.heads, head_dim=shape.head_dim, chunk=chunk),
        "full": attention(shape, [None])[0],
    }
    moe = routed(fields, width=("intermediate_size",))
    return assemble(fields, shape, [mixers[kind] for kind in _minimax_kinds(fields, shape)], moe)


def _minimax_kinds(fields: Fields, shape: Geometry) -> Sequence[str]:
    """Kind of each layer, by ``layer_types`` or ``attn_type_list``; else each second is full."""
    kinds = layer_words(fields, "layer_types", WORDS, shape.layers)
    if (found := fields.get("attn_type_list")) is not None:
        marked = marks(fields, found[0], shape.layers, {0: "linear", 1: "full"})
        if kinds is not None and list(kinds) != marked:
            fields.refuse("attn_type_list", "attn_type_list contradicts layer_types")
        return marked
    if kinds is None:
        return ["full" if (i + 1) % 2 else "linear" for i in range(shape.layers)]
    return kinds


QWEN3_5: Final = Wrapper({"qwen3_5_text": qwen3_5}, {"": QWEN3_VL_TOWER})
QWEN3_5_MOE: Final = Wrapper({"qwen3_5_moe_text": qwen3_5_moe}, {"": QWEN3_VL_TOWER})
family("qwen3_5")(partial(wrapped, QWEN3_5))
family("qwen3_5_moe")(partial(wrapped, QWEN3_5_MOE))
