"""Mixtures of experts whose layers attend differently: gpt-oss, Llama 4, MiMo, MiniMax-M3.

Shapes and defaults are those of the ``transformers`` config classes of the same names (5.23).
"""

from typing import Final

from roofline.model.architecture import Architecture, Indexer, Mlp
from roofline.model.huggingface.common import (
    activation,
    assemble,
    attention,
    biases,
    check_groups,
    family,
    geometry,
    neutral,
)
from roofline.model.huggingface.fields import Fields
from roofline.model.huggingface.layers import LEFT_OUT, window_size, windows
from roofline.model.huggingface.routing import (
    after_dense,
    dense_then_experts,
    indices,
    marks,
    placed,
    routed,
)
from roofline.records import replace


@family("gpt_oss")
def gpt_oss(fields: Fields) -> Architecture:
    """gpt-oss: every other layer slides, each head has a sink, everything has biases."""
    shape = geometry(fields, kv_heads=8, head_dim=64)
    fields.seen.add("initial_context_length")
    spans = windows(
        fields,
        shape.layers,
        size=window_size(fields, 128),
        sliding=[i % 2 == 0 for i in range(shape.layers)],
    )
    mixers = attention(shape, spans, **biases(fields, default=True))
    return assemble(
        fields,
        shape,
        [replace(mixer, sink_parameters=shape.heads) for mixer in mixers],
        routed(
            fields,
            width=("intermediate_size",),
            active=("num_experts_per_tok", "experts_per_token"),
            router_bias=True,
            up_bias=True,
            down_bias=True,
        ),
    )


@family("llama4_text")
def llama4_text(fields: Fields) -> Architecture:
    """Llama 4: chunks of attention in all layers but every fourth, which is not rotated.

    Every n-th layer has experts beside a shared one; the norm of q and k has no parameters.
    """
    fields.seen |= {"use_qk_norm", "attn_temperature_tuning", "floor_scale", "attn_scale"}
    shape = geometry(fields, kv_heads=8, head_dim=128)
    layers = shape.layers
    every = fields.integer("unrotated_interval", "no_rope_layer_interval", default=4)
    rotary = [(i + 1) % every != 0 for i in range(layers)]
    if fields.data.get("no_rope_layers"):
        rotary = marks(fields, "no_rope_layers", layers, {1: True, 0: False})
    fields.seen.add("no_rope_layers")
    chunk = 8192
    if "attention_chunk_size" in fields.data:
        chunk = fields.optional("chunk", "attention_chunk_size") or 0
    else:
        fields.say("chunk", "attention_chunk_size", chunk)
    chunked = rotary
    if fields.get("layer_types") is not None:
        words = {"chunked_attention": True, "full_attention": False}
        chunked = marks(fields, "layer_types", layers, words)
    mixers = attention(shape, [None] * layers, **biases(fields), rotary=rotary)
    step = fields.integer("sparse_step", "interleave_moe_layer_step", default=1)
    sparse = [(i + 1) % step == 0 for i in range(layers)]
    if (found := fields.get("moe_layers")) is not None:
        chosen = indices(fields, *found)
        sparse = [i in chosen for i in range(layers)]
    moe = routed(fields, width=("intermediate_size",))
    dense = fields.integer("mlp_width", "intermediate_size_mlp", default=16384)
    return assemble(
        fields,
        shape,
        [
            replace(mixer, chunk=chunk or None if here else None)
            for mixer, here in zip(mixers, chunked, strict=True)
        ],
        placed(
            Mlp(dense, True, activation=activation(fields)),
            replace(moe, shared_width=moe.width),
            sparse,
        ),
    )


@family("mimo_v2_flash")
def mimo_v2_flash(fields: Fields) -> Architecture:
    """MiMo-V2-Flash: five of six layers slide, with key/value heads and sinks of their own."""
    fields.seen |= {"attention_value_scale", "swa_rope_theta"}
    shape = geometry(fields, kv_heads=4, head_dim=192)
    layers = shape.layers
    value = fields.integer("value_dim", "v_head_dim", default=128)
    bias = fields.flag("attention_bias", "attention_bias", default=False)
    size = fields.optional("window", "sliding_window_size")
    if size is not None:
        # Said of the tokens before the query, which sees itself besides.
        fields.only("sliding_window", size, reason="sliding_window_size is another")
        size += 1
        fields.notes.append(f"sliding_window_size leaves the query out: it sees {size} keys")
    else:
        size = window_size(fields, 129)
    same = [fields.data[key] for key in ("sliding_window",) if key in fields.data]
    fields.only("attention_chunk_size", *same, reason="it is no window")
    slides = [i > 0 and (i + 1) % 6 != 0 for i in range(layers)]
    if fields.get("hybrid_layer_pattern") is not None:
        slides = marks(fields, "hybrid_layer_pattern", layers, {0: False, 1: True})
    spans = windows(fields, layers, size=size, sliding=slides)
    full = attention(shape, [None])[0]
    full = replace(full, value_dim=value)
    sliding = replace(
        full,
        heads=fields.integer("sliding_heads", "swa_num_attention_heads", default=shape.heads),
        kv_heads=fields.integer(
            "sliding_kv_heads", "swa_num_key_value_heads", default=2 * shape.kv_heads
        ),
        head_dim=fields.integer("sliding_head_dim", "swa_head_dim", default=shape.head_dim),
        value_dim=fields.integer("sliding_value_dim", "swa_v_head_dim", default=value),
        window=size,
    )
    check_groups(fields, "swa_num_key_value_heads", sliding.heads, sliding.kv_heads)
    if fields.flag("sliding_sinks", "add_swa_attention_sink_bias", default=True):
        sliding = replace(sliding, sink_parameters=sliding.heads)
    if fields.flag("sinks", "add_full_attention_sink_bias", default=False):
        full = replace(full, sink_parameters=full.heads)
    if bias:
        full = replace(full, qkv_biased=full.query_width + full.kv_elements)
        sliding = replace(sliding, qkv_biased=sliding.query_width + sliding.kv_elements)
    parts = dense_then_experts(fields, layers, dense=1, shared=None)
    return assemble(fields, shape, [full if span is None else sliding for span in spans], parts)


SPARSE: Final = frozenset({"sparse_score_type", "sparse_init_block", "sparse_local_block"})
"""Fields of sparse attention that decide which blocks are chosen, not how many."""


@family("minimax_m3")
def minimax_m3(fields: Fields) -> Architecture:
    """MiniMax-M3: from the fourth layer on, an indexer chooses blocks of keys to attend.

    Index keys have 16 bits. Source: ``transformers`` 5.23, ``minimax_m3_vl``.
    """
    neutral(fields, attention_output_gate=False, use_qk_norm=True, qk_norm_type="per_head")
    fields.seen |= {"use_gemma_norm", "num_mtp_modules", "num_nextn_predict_layers"}
    fields.notes.append(LEFT_OUT)
    shape = geometry(fields, kv_heads=4, head_dim=128)
    layers = shape.layers
    part = fields.data.get("sparse_attention_config")
    fields.seen.add("sparse_attention_config")
    index, chosen = None, [False] * layers
    if part is not None:
        if not isinstance(part, dict):
            fields.refuse("sparse_attention_config", "sparse_attention_config is not a mapping")
        inner = fields.part("sparse_attention_config")
        inner.seen |= SPARSE
        inner.only("use_sparse_attention", True, reason="nothing says what takes its place")
        chosen = marks(inner, "sparse_attention_freq", layers, {0: False, 1: True})
        if "sparse_disable_index_value" in inner.data:
            off = marks(inner, "sparse_disable_index_value", layers, {0: False, 1: True})
            if any(here and not no for here, no in zip(chosen, off, strict=True)):
                inner.refuse("sparse_disable_index_value", "values of an index are not understood")
        width = inner.integer("index_head_dim", "sparse_index_dim")
        index = Indexer(
            heads=inner.integer("index_heads", "sparse_num_index_heads"),
            head_dim=width,
            top_k=inner.integer("index_block", "sparse_block_size")
            * inner.integer("index_blocks", "sparse_topk_blocks"),
            query_width=shape.d_model,
            norm_parameters=2 * width,
            weighted=False,
            key_bytes=2 * width,
        )
        inner.finish()
    mixers = attention(shape, [None] * layers, norm=2 * shape.head_dim)
    sparse = after_dense(fields, layers, 0)
    width = fields.integer("expert_width", "moe_intermediate_size", "intermediate_size")
    shared = fields.integer("shared_experts_width", "shared_intermediate_size", default=width)
    neutral(fields, n_shared_experts=1)
    moe = routed(fields, width=("moe_intermediate_size", "intermediate_size"), shared_width=shared)
    dense = fields.integer("mlp_width", "dense_intermediate_size")
    return assemble(
        fields,
        shape,
        [
            replace(mixer, index=index if here else None)
            for mixer, here in zip(mixers, chosen, strict=True)
        ],
        placed(Mlp(dense, True, activation=activation(fields)), moe, sparse),
    )
