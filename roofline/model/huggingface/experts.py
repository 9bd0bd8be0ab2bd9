"""Rotary decoders whose feed-forward parts are mixtures of experts.

Shapes and defaults are those of the ``transformers`` config classes of the same names (5.23).
"""

from typing import Any

from roofline.model.architecture import Architecture
from roofline.model.huggingface.common import (
    Geometry,
    biases,
    decoder,
    family,
    gated,
    geometry,
    neutral,
)
from roofline.model.huggingface.fields import Fields
from roofline.model.huggingface.layers import (
    every_layer,
    further_tokens,
    switched_window,
    window_size,
    windows,
)
from roofline.model.huggingface.routing import dense_then_experts, marks, placed, routed, stepped


@family("mixtral")
def mixtral(fields: Fields) -> Architecture:
    """Mixtral: experts in every layer; ``sliding_window`` holds in all of them."""
    shape = geometry(fields, kv_heads=8)
    moe = routed(fields, width=("intermediate_size",))
    return decoder(fields, shape, moe, spans=every_layer(fields, shape.layers))


@family("phimoe")
def phimoe(fields: Fields) -> Architecture:
    """Phi 3.5 MoE: Mixtral with norms that have biases."""
    shape = geometry(fields, kv_heads=8)
    return decoder(
        fields,
        shape,
        routed(fields, width=("intermediate_size",)),
        spans=every_layer(fields, shape.layers),
        **biases(fields),
        norm_width=2 * shape.d_model,
        head_bias=fields.flag("head_bias", "lm_head_bias", default=False),
    )


@family("qwen2_moe")
def qwen2_moe(fields: Fields) -> Architecture:
    """Qwen 1.5 and 2: biases on q, k and v; a shared expert behind a gate."""
    neutral(fields, use_qk_norm=False)
    shape = geometry(fields, kv_heads=16)
    size = switched_window(fields)
    first = fields.integer("max_window_layers", "max_window_layers", default=28, low=0)
    early = [i % 2 == 0 and i < first for i in range(shape.layers)]
    spans = windows(fields, shape.layers, size=size, sliding=early)
    shared = fields.integer(
        "shared_experts_width", "shared_expert_intermediate_size", default=5632, low=0
    )
    moe = routed(fields, shared_width=shared, shared_gate=True)
    return decoder(
        fields,
        shape,
        placed(gated(fields), moe, stepped(fields, shape.layers)),
        spans=spans,
        qkv_bias=fields.flag("qkv_bias", "qkv_bias", default=True),
    )


@family("qwen3_moe", "qwen3_vl_moe_text")
def qwen3_moe(fields: Fields) -> Architecture:
    """Qwen 3: a norm over each head of q and k, no biases, no shared expert."""
    neutral(fields, qkv_bias=False, use_qk_norm=True, shared_expert_intermediate_size=0)
    shape = geometry(fields, kv_heads=4)
    size = switched_window(fields)
    fields.seen.add("max_window_layers")
    return decoder(
        fields,
        shape,
        placed(gated(fields), routed(fields), stepped(fields, shape.layers)),
        spans=[size] * shape.layers,
        **biases(fields),
        norm=2 * shape.head_dim,
    )


@family("glm4_moe")
def glm4_moe(fields: Fields) -> Architecture:
    """GLM 4.5 and 4.6: biases on q, k and v only; dense layers first, then shared experts."""
    shape = geometry(fields, kv_heads=8)
    bias = fields.flag("attention_bias", "attention_bias", default=False)
    norm = 2 * shape.head_dim if fields.flag("qk_norm", "use_qk_norm", default=False) else 0
    return _shared_after_dense(fields, shape, dense=1, shared=1, qkv_bias=bias, norm=norm)


@family("dots1")
def dots1(fields: Fields) -> Architecture:
    """dots.llm1: a norm over each head of q and k; dense layers first, then shared experts."""
    shape = geometry(fields)
    size = window_size(fields, 4096)
    first = fields.integer("max_window_layers", "max_window_layers", default=62, low=0)
    late = [size is not None and i >= first for i in range(shape.layers)]
    spans = windows(fields, shape.layers, size=size, sliding=late)
    how = {**biases(fields), "norm": 2 * shape.head_dim}
    return _shared_after_dense(fields, shape, dense=0, shared=None, spans=spans, **how)


def _shared_after_dense(
    fields: Fields, shape: Geometry, *, dense: int, shared: int | None, **more: Any
) -> Architecture:
    """Dense layers first, then experts with shared ones beside them."""
    parts = dense_then_experts(fields, shape.layers, dense=dense, shared=shared)
    return further_tokens(fields, decoder(fields, shape, parts, **more))


@family("minimax_m2")
def minimax_m2(fields: Fields) -> Architecture:
    """MiniMax-M2: a norm over all of q and of k; experts in every layer."""
    neutral(fields, use_qk_norm=True, qk_norm_type="per_layer", shared_intermediate_size=0)
    neutral(fields, sliding_window=None)
    shape = geometry(fields, kv_heads=8)
    if fields.get("attn_type_list") is not None:
        marks(fields, "attn_type_list", shape.layers, {1: True})
    if fields.data.get("use_mtp"):
        fields.notes.append("multi-token prediction layers are not in the checkpoint")
    fields.seen |= {"use_mtp", "mtp_transformer_layers", "num_mtp_modules"}
    moe = routed(fields, width=("intermediate_size",))
    return decoder(fields, shape, moe, norm=shape.qk_width)


@family("granitemoe", "granitemoeshared")
def granitemoe(fields: Fields) -> Architecture:
    """Granite 3 MoE: Mixtral with multipliers, and in some a shared part."""
    shape = geometry(fields)
    shared = 0
    if fields.model_type == "granitemoeshared":
        shared = fields.integer(
            "shared_experts_width", "shared_intermediate_size", default=0, low=0
        )
    moe = routed(fields, width=("intermediate_size",), shared_width=shared)
    return decoder(fields, shape, moe, **biases(fields))


@family("olmoe")
def olmoe(fields: Fields) -> Architecture:
    """OLMoE: a norm over all of q and of k; experts in every layer."""
    shape = geometry(fields)
    moe = routed(fields, width=("intermediate_size",))
    return decoder(fields, shape, moe, **biases(fields), norm=shape.qk_width)
