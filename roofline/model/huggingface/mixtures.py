"""Mixtures of experts whose configs are spelled in their own way: DBRX, ERNIE, Hunyuan, Ling, Step.

Shapes and defaults are those of the ``transformers`` config classes of the same names (5.23).
"""

from typing import Final

from roofline.model.architecture import Architecture
from roofline.model.huggingface.common import (
    GeometryKeys,
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
from roofline.model.huggingface.layers import LEFT_OUT, further_tokens, window_size, windows
from roofline.model.huggingface.llama import hunyuan_geometry
from roofline.model.huggingface.routing import after_dense, constant, indices, placed, routed
from roofline.model.huggingface.vision import Wrapper, wrapped
from roofline.records import replace


@family("dbrx")
def dbrx(fields: Fields) -> Architecture:
    """DBRX: attention and experts in mappings of their own; norms without biases."""
    names = GeometryKeys(("d_model",), ("n_layers",), ("n_heads",), (), ("max_seq_len",))
    shape = geometry(fields, names, explicit_head_dim=False)
    inner = _part(fields, "attn_config")
    inner.seen |= {"attn_pdrop", "clip_qkv", "rope_theta"}
    kv_heads = inner.integer("kv_heads", "kv_n_heads", default=1)
    if shape.heads % kv_heads:
        inner.refuse("kv_n_heads", f"{shape.heads} heads do not divide over {kv_heads}")
    shape = replace(shape, kv_heads=kv_heads)
    routing = _part(fields, "ffn_config")
    routing.seen |= {"ffn_act_fn", "moe_jitter_eps", "moe_loss_weight", "hidden_size"}
    routing.seen |= {"moe_normalize_expert_weights", "uniform_expert_assignment"}
    moe = routed(
        routing, width=("ffn_hidden_size",), experts=("moe_num_experts",), active=("moe_top_k",)
    )
    for part in (inner, routing):
        part.finish()
    fields.seen.add("output_router_logits")
    return decoder(fields, shape, moe, spans=[None] * shape.layers)


def _part(fields: Fields, key: str) -> Fields:
    """A mapping inside the config, with its own keys."""
    fields.seen.add(key)
    if not isinstance(fields.data.get(key), dict):
        fields.refuse(key, f"{key} is missing or not a mapping")
    return fields.part(key)


@family("ernie4_5_moe")
def ernie4_5_moe(fields: Fields) -> Architecture:
    """ERNIE 4.5: experts in a range of layers; the bias of their scores is a parameter."""
    neutral(fields, use_bias=False)
    fields.seen |= {"moe_capacity", "moe_use_aux_free", "moe_gate"}
    shape = geometry(fields, kv_heads=4)
    width = constant(fields, "expert_width", "moe_intermediate_size")
    number = fields.integer("shared_experts", "moe_num_shared_experts", default=2, low=0)
    moe = routed(
        fields,
        experts=("moe_num_experts", "num_experts", "num_local_experts"),
        active=("moe_k", "num_experts_per_tok"),
        shared_width=number * width,
        router_bias=True,
    )
    start = fields.integer("first_sparse", "moe_layer_start_index", default=1, low=0)
    end = fields.integer("last_sparse", "moe_layer_end_index", default=-1, low=-1)
    step = fields.integer("sparse_step", "moe_layer_interval", default=1)
    last = shape.layers - 1 if end == -1 else end
    sparse = [(i + 1) % step == 0 and start <= i <= last for i in range(shape.layers)]
    return decoder(fields, shape, placed(gated(fields), moe, sparse), tied=True)


@family("hunyuan_v1_moe")
def hunyuan_v1_moe(fields: Fields) -> Architecture:
    """Hunyuan-A13B: a shared part as wide as an expert; a norm over each head of q and k."""
    neutral(fields, use_qk_norm=True, use_mixed_mlp_moe=True)
    shape = hunyuan_geometry(fields)
    moe = routed(fields, width=("intermediate_size",), active=("moe_topk", "num_experts_per_tok"))
    for key, value in (("moe_intermediate_size", moe.width), ("num_shared_expert", 1)):
        if fields.data.get(key) is not None and constant(fields, key, key) != value:
            fields.refuse(key, f"{key} other than {value} is not understood")
    part, norm = replace(moe, shared_width=moe.width), 2 * shape.head_dim
    return decoder(fields, shape, part, **biases(fields), norm=norm)


LING: Final = frozenset(
    {
        "score_function",
        "router_dtype",
        "moe_router_enable_expert_bias",
        "moe_router_topk_scaling_factor",
        "mtp_loss_scaling_factor",
        "output_dropout",
        "use_rmsnorm",
        "max_window_layers",
    }
)
"""Fields of Ling that change neither shape nor cost: scores, losses."""


@family("bailing_moe")
def bailing_moe(fields: Fields) -> Architecture:
    """Ling and Ring, 1 and 2: dense layers first, then experts with shared ones beside them."""
    fields.seen |= LING
    neutral(fields, norm_head=False, norm_softmax=False, multi_gate=False)
    neutral(fields, use_sliding_window=False)
    shape = geometry(fields)
    width = fields.integer("expert_width", "moe_intermediate_size")
    number = fields.integer("shared_experts", "num_shared_experts", default=0, low=0)
    neutral(fields, moe_shared_expert_intermediate_size=width)
    moe = routed(fields, shared_width=number * width)
    body = decoder(
        fields,
        shape,
        placed(gated(fields), moe, after_dense(fields, shape.layers, 0)),
        qkv_bias=fields.flag("qkv_bias", "use_qkv_bias", default=False),
        out_bias=fields.flag("out_bias", "use_bias", default=False),
        norm=2 * shape.head_dim if fields.flag("qk_norm", "use_qk_norm", default=False) else 0,
    )
    return further_tokens(fields, body)


STEP: Final = frozenset(
    {
        "use_moe_router_bias",
        "need_fp32_gate",
        "partial_rotary_factors",
        "yarn_only_types",
        "query_pre_attn_scalar",
    }
)
"""Fields of Step that change neither shape nor cost: rotary angles, scores, clamps."""


@family("step3p5")
def step(fields: Fields) -> Architecture:
    """Step 3.5 and 3.7: more heads in layers that slide, each head gated, a shared expert."""
    neutral(fields, attention_bias=False, mlp_bias=False, gating=(True, "per-head"))
    neutral(fields, use_head_wise_attn_gate=True, use_moe=True, use_qk_norm=True)
    neutral(fields, n_shared_experts=1, moe_every_n_layer=1, att_impl_type="GQA")
    fields.seen |= STEP
    names = GeometryKeys(kv_heads=("num_key_value_heads", "num_attention_groups"))
    shape = geometry(fields, names, kv_heads=8, head_dim=128)
    extra = fields.optional("prediction_layers", "num_nextn_predict_layers", low=0) or 0
    if extra:
        fields.notes.append(LEFT_OUT)
    size, none = window_size(fields, None), [False] * shape.layers
    spans = windows(fields, shape.layers, size=size, sliding=none, extra=extra)
    heads = _sliding_heads(fields, shape.heads)
    check_groups(fields, "attention_other_setting", heads, shape.kv_heads)
    mixers = attention(shape, spans, norm=2 * shape.head_dim)
    moe = routed(
        fields,
        experts=("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts"),
        active=("num_experts_per_tok", "moe_top_k"),
        shared_width=fields.integer(
            "shared_experts_width", "share_expert_dim", "share_expert_dims", default=1280
        ),
    )
    return assemble(
        fields,
        shape,
        [
            replace(mixer, head_gate=True, heads=heads if mixer.window else shape.heads)
            for mixer in mixers
        ],
        placed(gated(fields), moe, _sparse(fields, shape.layers)),
    )


def _sliding_heads(fields: Fields, heads: int) -> int:
    """Query heads of layers that slide. [1]"""
    other = fields.data.get("attention_other_setting")
    if not isinstance(other, dict):
        fields.only("attention_other_setting", reason="it is not a mapping")
        return fields.integer("sliding_heads", "num_sliding_attention_heads", default=heads)
    inner = _part(fields, "attention_other_setting")
    inner.only("attention_type", "sliding_attention", reason="other layers differ")
    for key, outer in (
        ("num_attention_groups", ("num_key_value_heads", "num_attention_groups")),
        ("head_dim", ("head_dim",)),
    ):
        given = [fields.data[name] for name in outer if name in fields.data]
        inner.only(key, *given, reason="only the number of heads may differ")
    number = inner.integer("sliding_heads", "num_attention_heads", default=heads)
    inner.finish()
    return number


def _sparse(fields: Fields, layers: int) -> list[bool]:
    """Layers with experts: by number in ``moe_layers_enum``, else all but the first three."""
    found = fields.get("moe_layers_enum")
    if found is None:
        return after_dense(fields, layers, 3)
    key, entries = found
    if isinstance(entries, str):
        entries = [int(word) if word.strip().isdecimal() else word for word in entries.split(",")]
    sparse = indices(fields, key, entries)
    return [i in sparse for i in range(layers)]


@family("step3p7")
def step3p7(fields: Fields) -> Architecture:
    """Step 3.7: the decoder with or without a vision tower around it."""
    return wrapped(STEP_3P7, fields) if "text_config" in fields.data else step(fields)


STEP_3P7: Final = Wrapper({"step3p5": step})
