"""Rotary decoders whose feed-forward parts are mixtures of experts.

Shapes and defaults are those of the ``transformers`` config classes of the same names (5.23).
"""

from roofline.model.architecture import Architecture, Attention
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
    every_layer,
    further_tokens,
    no_windows,
    window_size,
    windows,
)
from roofline.model.huggingface.routing import (
    after_dense,
    marks,
    placed,
    routed,
    shared_width,
    stepped,
)


@family("mixtral")
def mixtral(fields: Fields) -> Architecture:
    """Mixtral: experts in every layer; ``sliding_window`` holds in all of them."""
    shape = geometry(fields, kv_heads=8)
    return assemble(
        fields,
        shape,
        attention(shape, every_layer(fields, shape.layers)),
        routed(fields, width=("intermediate_size",)),
    )


@family("phimoe")
def phimoe(fields: Fields) -> Architecture:
    """Phi 3.5 MoE: Mixtral with norms that have biases."""
    shape = geometry(fields, kv_heads=8)
    spans = every_layer(fields, shape.layers)
    return assemble(
        fields,
        shape,
        attention(shape, spans, **biases(fields)),
        routed(fields, width=("intermediate_size",)),
        norm_width=2 * shape.d_model,
        head_bias=fields.flag("head_bias", "lm_head_bias", default=False),
    )


@family("qwen2_moe")
def qwen2_moe(fields: Fields) -> Architecture:
    """Qwen 1.5 and 2: biases on q, k and v; a shared expert behind a gate."""
    neutral(fields, use_qk_norm=False)
    shape = geometry(fields, kv_heads=16)
    used, size = _switched_window(fields)
    first = fields.integer("max_window_layers", "max_window_layers", default=28, low=0)
    spans = windows(
        fields,
        shape.layers,
        size=size if used else None,
        sliding=[used and i % 2 == 0 and i < first for i in range(shape.layers)],
    )
    shared = fields.integer(
        "shared_experts_width", "shared_expert_intermediate_size", default=5632, low=0
    )
    moe = routed(fields, shared_width=shared, shared_gate=True)
    return assemble(
        fields,
        shape,
        attention(shape, spans, qkv_bias=fields.flag("qkv_bias", "qkv_bias", default=True)),
        placed(gated(fields), moe, stepped(fields, shape.layers)),
    )


@family("qwen3_moe", "qwen3_vl_moe_text")
def qwen3_moe(fields: Fields) -> Architecture:
    """Qwen 3: a norm over each head of q and k, no biases, no shared expert."""
    neutral(fields, qkv_bias=False, use_qk_norm=True, shared_expert_intermediate_size=0)
    shape = geometry(fields, kv_heads=4)
    used, size = _switched_window(fields)
    fields.seen.add("max_window_layers")
    spans = [size if used else None] * shape.layers
    moe = routed(fields)
    return assemble(
        fields,
        shape,
        attention(shape, spans, **biases(fields), norm=2 * shape.head_dim),
        placed(gated(fields), moe, stepped(fields, shape.layers)),
    )


def _switched_window(fields: Fields) -> tuple[bool, int | None]:
    """Qwen's window, and whether ``use_sliding_window`` puts it in force."""
    used = fields.flag("use_sliding_window", "use_sliding_window", default=False)
    size = window_size(fields, 4096)
    if not used:
        fields.provenance.pop("window", None)
    return used, size


@family("glm4_moe")
def glm4_moe(fields: Fields) -> Architecture:
    """GLM 4.5 and 4.6: biases on q, k and v only; dense layers first, then shared experts."""
    shape = geometry(fields, kv_heads=8)
    bias = fields.flag("attention_bias", "attention_bias", default=False)
    norm = 2 * shape.head_dim if fields.flag("qk_norm", "use_qk_norm", default=False) else 0
    mixers = attention(shape, no_windows(fields, shape.layers), qkv_bias=bias, norm=norm)
    return _shared_after_dense(fields, shape, mixers, dense=1, shared=1)


@family("dots1")
def dots1(fields: Fields) -> Architecture:
    """dots.llm1: a norm over each head of q and k; dense layers first, then shared experts."""
    shape = geometry(fields)
    size = window_size(fields, 4096)
    first = fields.integer("max_window_layers", "max_window_layers", default=62, low=0)
    late = [size is not None and i >= first for i in range(shape.layers)]
    spans = windows(fields, shape.layers, size=size, sliding=late)
    mixers = attention(shape, spans, **biases(fields), norm=2 * shape.head_dim)
    return _shared_after_dense(fields, shape, mixers, dense=0, shared=None)


def _shared_after_dense(
    fields: Fields, shape: Geometry, mixers: list[Attention], *, dense: int, shared: int | None
) -> Architecture:
    """Dense layers first, then experts with shared ones beside them."""
    sparse = after_dense(fields, shape.layers, dense)
    width = fields.integer("expert_width", "moe_intermediate_size")
    moe = routed(fields, shared_width=shared_width(fields, width, shared))
    mlps = placed(gated(fields), moe, sparse)
    body = assemble(fields, shape, mixers, mlps)
    return further_tokens(fields, body)


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
    norm = (shape.heads + shape.kv_heads) * shape.head_dim
    return assemble(
        fields,
        shape,
        attention(shape, no_windows(fields, shape.layers), norm=norm),
        routed(fields, width=("intermediate_size",)),
    )


@family("granitemoe", "granitemoeshared")
def granitemoe(fields: Fields) -> Architecture:
    """Granite 3 MoE: Mixtral with multipliers, and in some a shared part."""
    shape = geometry(fields)
    shared = 0
    if fields.model_type == "granitemoeshared":
        shared = fields.integer(
            "shared_experts_width", "shared_intermediate_size", default=0, low=0
        )
    return assemble(
        fields,
        shape,
        attention(shape, no_windows(fields, shape.layers), **biases(fields)),
        routed(fields, width=("intermediate_size",), shared_width=shared),
    )


@family("olmoe")
def olmoe(fields: Fields) -> Architecture:
    """OLMoE: a norm over all of q and of k; experts in every layer."""
    shape = geometry(fields)
    norm = (shape.heads + shape.kv_heads) * shape.head_dim
    spans = no_windows(fields, shape.layers)
    return assemble(
        fields,
        shape,
        attention(shape, spans, **biases(fields), norm=norm),
        routed(fields, width=("intermediate_size",)),
    )
