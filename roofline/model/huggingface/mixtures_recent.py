"""Mixtures of experts after GLM 4 and Qwen 3: AFM, Solar, K-EXAONE, Hunyuan 3, Laguna, Mellum.

Shapes and defaults are those of the ``transformers`` config classes of the same names (5.24).
"""

from collections.abc import Sequence

from roofline.model.architecture import Architecture
from roofline.model.huggingface.common import (
    Geometry,
    assemble,
    attention,
    biases,
    check_groups,
    decoder,
    family,
    gated,
    geometry,
    neutral,
)
from roofline.model.huggingface.fields import Fields
from roofline.model.huggingface.layers import (
    every_nth_full,
    further_tokens,
    no_windows,
    window_size,
    windows,
)
from roofline.model.huggingface.routing import after_dense, marks, placed, routed, shared_width
from roofline.records import replace


def _mixture(
    fields: Fields,
    shape: Geometry,
    spans: Sequence[int | None] | None,
    sparse: Sequence[bool],
    shared: int,
    *,
    norm: bool = True,
    qkv_bias: bool = False,
    out_bias: bool = False,
) -> Architecture:
    """Dense layers and experts with a shared part of a width, q and k normed head by head."""
    return decoder(
        fields,
        shape,
        placed(gated(fields, default=1), routed(fields, shared_width=shared), sparse),
        spans=spans,
        norm=2 * shape.head_dim if norm else 0,
        qkv_bias=qkv_bias,
        out_bias=out_bias,
    )


def _shared(fields: Fields, default: int, *keys: str) -> int:
    """Width of all shared experts together. [1]"""
    width = fields.integer("expert_width", "moe_intermediate_size")
    return width * fields.integer("shared_experts", *keys, default=default, low=0)


@family("afmoe")
def afmoe(fields: Fields) -> Architecture:
    """Trinity of Arcee: norms around both parts, a gate on each output, windows in three of four.

    Only layers that slide rotate. The bias of the router's scores is a parameter.
    """
    fields.seen |= {"route_scale", "mup_enabled", "score_func", "route_norm", "load_balance_coeff"}
    shape = geometry(fields, head_dim=128)
    period = fields.integer("full_every", "global_attn_every_n_layers", default=4)
    sliding = [(i + 1) % period != 0 for i in range(shape.layers)]
    spans = windows(fields, shape.layers, size=window_size(fields, 1024), sliding=sliding)
    first = fields.integer("dense_layers", "num_dense_layers", default=1, low=0)
    moe = routed(fields, shared_width=_shared(fields, 2, "num_shared_experts"), router_bias=True)
    rotary = [span is not None for span in spans]
    mixers = attention(shape, spans, **biases(fields), norm=2 * shape.head_dim, rotary=rotary)
    return assemble(
        fields,
        shape,
        [replace(mixer, gate=True) for mixer in mixers],
        placed(gated(fields), moe, [i >= first for i in range(shape.layers)]),
        norms=4,
    )


@family("solar_open")
def solar_open(fields: Fields) -> Architecture:
    """Solar Open: experts with a shared one in every layer; no norms on q and k."""
    shape = geometry(fields, kv_heads=8, head_dim=128)
    fields.seen |= {"intermediate_size", "first_k_dense_replace"}
    neutral(fields, use_qk_norm=False)
    width = fields.integer("expert_width", "moe_intermediate_size")
    bias = fields.flag("attention_bias", "attention_bias", default=False)
    moe = routed(fields, shared_width=shared_width(fields, width, 1))
    return decoder(fields, shape, moe, qkv_bias=bias)


@family("exaone_moe")
def exaone_moe(fields: Fields) -> Architecture:
    """K-EXAONE: EXAONE 4 with norms before each part, experts with a shared one beside them."""
    shape = geometry(fields, kv_heads=32)
    spans = every_nth_full(fields, shape.layers, pattern=4)
    shared = _shared(fields, 1, "num_shared_experts")
    sparse = after_dense(fields, shape.layers, 1)
    neutral(fields, attention_bias=False)
    return further_tokens(fields, _mixture(fields, shape, spans, sparse, shared))


@family("hy_v3")
def hy_v3(fields: Fields) -> Architecture:
    """Hunyuan 3: dense layers first, then experts with a shared one; q and k normed."""
    fields.seen |= {"enable_moe_fp32_combine", "router_scaling_factor", "enable_lm_head_fp32"}
    fields.seen |= {"enable_attention_fp32_softmax", "moe_router_use_sigmoid", "route_norm"}
    fields.seen |= {"moe_router_enable_expert_bias", "use_grouped_mm"}
    neutral(fields, mlp_bias=False, qk_norm=True)
    shape = geometry(fields, kv_heads=8, head_dim=128)
    shared = _shared(fields, 1, "num_shared_experts")
    sparse = after_dense(fields, shape.layers, 1)
    body = _mixture(fields, shape, None, sparse, shared, **biases(fields))
    return further_tokens(fields, body)


@family("sarvam_moe")
def sarvam_moe(fields: Fields) -> Architecture:
    """Sarvam 30B: dense layers first, then experts with a shared one; q and k normed."""
    shape = geometry(fields, kv_heads=4)
    normed = fields.flag("qk_norm", "use_qk_norm", default=True)
    width = fields.integer("expert_width", "moe_intermediate_size")
    shared = shared_width(fields, width, 1)
    sparse = after_dense(fields, shape.layers, 1)
    body = _mixture(fields, shape, None, sparse, shared, norm=normed, **biases(fields))
    return further_tokens(fields, body)


@family("mellum")
def mellum(fields: Fields) -> Architecture:
    """Mellum 2: Qwen 3 MoE with windows where ``layer_types`` says so."""
    neutral(fields, num_nextn_predict_layers=0)
    fields.seen |= {"mtp_layer_types", "mtp_mlp_layer_types"}
    shape = geometry(fields, kv_heads=4, head_dim=128)
    spans = windows(
        fields, shape.layers, size=window_size(fields, 1024), sliding=[False] * shape.layers
    )
    sparse = [True] * shape.layers
    if fields.get("mlp_layer_types") is not None:
        sparse = marks(fields, "mlp_layer_types", shape.layers, {"dense": False, "sparse": True})
    return _mixture(fields, shape, spans, sparse, 0, **biases(fields))


@family("laguna")
def laguna(fields: Fields) -> Architecture:
    """Laguna: each head gated, q and k normed; the bias of the router's scores is a parameter."""
    neutral(fields, gating=(True, "per-head"), moe_apply_router_weight_on_input=False)
    fields.seen |= {"moe_routed_scaling_factor", "moe_router_logit_softcapping"}
    shape = geometry(fields, kv_heads=8, head_dim=128)
    spans = windows(
        fields, shape.layers, size=window_size(fields, 512), sliding=[False] * shape.layers
    )
    heads = [shape.heads] * shape.layers
    if (found := fields.get("num_attention_heads_per_layer")) is not None:
        key, heads = found
        if not isinstance(heads, list) or len(heads) != shape.layers:
            fields.refuse(key, f"{key} does not have one entry for each of {shape.layers} layers")
        for number in heads:
            if type(number) is not int or number < 1:
                fields.refuse(key, f"{number!r:.20} is no number of heads")
            check_groups(fields, key, number, shape.kv_heads)
    sparse = [i > 0 for i in range(shape.layers)]
    if fields.get("mlp_layer_types") is not None:
        sparse = marks(fields, "mlp_layer_types", shape.layers, {"dense": False, "sparse": True})
    shared = fields.integer(
        "shared_experts_width", "shared_expert_intermediate_size", default=512, low=0
    )
    moe = routed(fields, shared_width=shared, router_bias=True)
    how = biases(fields)
    mixers = [
        replace(
            mixer,
            head_gate=True,
            heads=number,
            qkv_biased=(number + 2 * shape.kv_heads) * shape.head_dim if how["qkv_bias"] else 0,
        )
        for mixer, number in zip(
            attention(shape, spans, **how, norm=2 * shape.head_dim), heads, strict=True
        )
    ]
    return assemble(fields, shape, mixers, placed(gated(fields), moe, sparse))


@family("flex_olmo")
def flex_olmo(fields: Fields) -> Architecture:
    """FlexOlmo: OLMo 2 with experts in every layer."""
    shape = geometry(fields)
    moe = routed(fields, width=("intermediate_size",))
    spans = no_windows(fields, shape.layers)
    return decoder(fields, shape, moe, spans=spans, **biases(fields), norm=shape.qk_width)


@family("cohere2_moe")
def cohere2_moe(fields: Fields) -> Architecture:
    """Command A with experts: parallel parts behind one norm; every fourth layer is full."""
    neutral(
        fields,
        shared_expert_combination_strategy="average",
        use_qk_norm=False,
        num_shared_experts=0,
        first_k_dense_replace=0,
        prefix_dense_intermediate_size=None,
    )
    fields.seen |= {"expert_selection_fn", "prefix_dense_sliding_window_pattern"}
    shape = geometry(fields, head_dim=128)
    spans = every_nth_full(fields, shape.layers, pattern=4)
    moe = routed(fields, width=("intermediate_size",))
    if fields.get("mlp_layer_types") is not None:
        marks(fields, "mlp_layer_types", shape.layers, {"sparse": True})
    rotary = [span is not None for span in spans]
    how = {**biases(fields), "rotary": rotary, "tied": True, "norms": 1, "parallel": True}
    return decoder(fields, shape, moe, spans=spans, **how)
