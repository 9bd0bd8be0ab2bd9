"""Decoders whose code came with their checkpoint: Qwen 1, Baichuan, ChatGLM, LLaDA and others.

Shapes are those of the published modelling files; totals are checked against published counts.
"""

from typing import Final

from roofline.model.architecture import Architecture, Mlp
from roofline.model.huggingface.common import (
    LLAMA_NAMES,
    GeometryKeys,
    biases,
    check_groups,
    decoder,
    family,
    geometry,
    neutral,
)
from roofline.model.huggingface.fields import Fields
from roofline.model.huggingface.layers import further_tokens
from roofline.model.huggingface.llama import qwen2
from roofline.records import replace

QWEN_NAMES: Final = replace(LLAMA_NAMES, kv_heads=(), context=("seq_length",))
CHATGLM_NAMES: Final = GeometryKeys(
    layers=("num_layers", "num_hidden_layers"),
    kv_heads=(),
    context=("seq_length",),
    vocab=("padded_vocab_size",),
)


@family("qwen")
def qwen(fields: Fields) -> Architecture:
    """Qwen 1: ``intermediate_size`` counts gate and up together; q, k, v always have biases."""
    neutral(fields, use_cache_quantization=False)
    fields.seen.add("max_position_embeddings")  # the code sizes rotary tables by seq_length
    shape = geometry(fields, QWEN_NAMES, explicit_head_dim=False)
    width = fields.integer("head_dim", "kv_channels", default=shape.head_dim, why="D / N")
    shape = replace(shape, head_dim=width)
    bias = not fields.flag("no_bias", "no_bias", default=True)
    both = fields.integer("mlp_width", "intermediate_size")
    if both % 2:
        fields.refuse(
            "intermediate_size",
            f"intermediate_size = {both} is not even, and half of it is the width of the gate",
            "give the published value",
        )
    mlp = Mlp(both // 2, True, bias, bias, "silu")
    return decoder(fields, shape, mlp, qkv_bias=True, out_bias=bias)


@family("internlm2")
def internlm2(fields: Fields) -> Architecture:
    """InternLM 2: Llama with q, k and v in one matrix."""
    return decoder(fields, geometry(fields), **biases(fields, "bias", default=True))


@family("baichuan")
def baichuan(fields: Fields) -> Architecture:
    """Baichuan 1 and 2: the 7B rotates; the 13B, which has no max_position_embeddings, is ALiBi."""
    rotary = "max_position_embeddings" in fields.data
    names = LLAMA_NAMES if rotary else replace(LLAMA_NAMES, context=("model_max_length",))
    fields.seen.add("model_max_length")
    shape = geometry(fields, replace(names, kv_heads=()), explicit_head_dim=False)
    fields.notes.append(
        "positions are rotary: the config has max_position_embeddings"
        if rotary
        else "positions are ALiBi: the config has no max_position_embeddings"
    )
    return decoder(fields, shape, rotary=rotary)


@family("chatglm")
def chatglm(fields: Fields) -> Architecture:
    """ChatGLM 2 and 3, GLM-4 as first published."""
    neutral(
        fields,
        rmsnorm=True,
        prefix_projection=False,
        quantization_bit=0,
        apply_residual_connection_post_layernorm=(True, False),
    )
    fields.seen.add("vocab_size")  # the embedding has padded_vocab_size rows
    shape = geometry(fields, CHATGLM_NAMES, explicit_head_dim=False)
    grouped = fields.flag("multi_query_attention", "multi_query_attention", default=False)
    groups = fields.optional("kv_heads", "multi_query_group_num")
    if grouped and groups is None:
        fields.refuse("multi_query_group_num", "multi_query_group_num is missing")
    kv_heads = groups if grouped and groups else shape.heads
    check_groups(fields, "multi_query_group_num", shape.heads, kv_heads)
    width = fields.integer("head_dim", "kv_channels", default=shape.head_dim, why="D / N")
    shape = replace(shape, kv_heads=kv_heads, head_dim=width)
    bias = fields.flag("linear_bias", "add_bias_linear", default=False)
    qkv_bias = fields.flag("qkv_bias", "add_qkv_bias", default=False) or bias
    last = fields.flag("final_norm", "post_layer_norm", default=True)
    mlp = Mlp(fields.integer("mlp_width", "ffn_hidden_size"), True, bias, bias, "silu")
    norm = shape.d_model if last else 0
    return decoder(fields, shape, mlp, qkv_bias=qkv_bias, out_bias=bias, final_norm=norm)


@family("mimo")
def mimo(fields: Fields) -> Architecture:
    """MiMo-7B: Qwen 2 with layers that predict further tokens, which are counted apart."""
    neutral(fields, attention_bias=True)
    return further_tokens(fields, qwen2(fields))


LLADA_NAMES: Final = GeometryKeys(
    width=("d_model",),
    layers=("n_layers",),
    heads=("n_heads",),
    kv_heads=("n_kv_heads",),
    context=("max_sequence_length",),
    vocab=("embedding_size",),
)
LLADA_SEEN: Final = frozenset(
    [
        "vocab_size",
        "mlp_ratio",
        "init_cutoff_factor",
        "init_fn",
        "precision",
        "rope_full_precision",
        "flash_attention",
        "attention_layer_norm_with_affine",
        "activation_type",
    ]
)
"""Fields that other fields stand in for, or that nothing of the shape follows from."""


def _both_ways(fields: Fields, network: Architecture) -> Architecture:
    fields.notes.append(
        "a diffusion network: a step computes all tokens of a block, each of which sees all others"
    )
    return replace(network, causal=False)


@family("llada")
def llada(fields: Fields) -> Architecture:
    """LLaDA: the shape of Llama, in the words of OLMo."""
    fields.seen |= LLADA_SEEN
    neutral(
        fields,
        block_type="llama",
        block_group_size=1,
        rope=True,
        alibi=False,
        layer_norm_type="rms",
        layer_norm_with_affine=True,
        attention_layer_norm=False,
        bias_for_layer_norm=False,
        input_emb_norm=False,
        scale_logits=False,
        multi_query_attention=False,
    )
    shape = geometry(fields, LLADA_NAMES, explicit_head_dim=False)
    bias = fields.flag("bias", "include_bias", default=False)
    qkv_bias = fields.flag("qkv_bias", "include_qkv_bias", default=False) or bias
    mlp = Mlp(fields.integer("mlp_width", "mlp_hidden_size"), True, bias, bias)
    tied = fields.flag("tied_embeddings", "weight_tying", default=False)
    body = decoder(fields, shape, mlp, qkv_bias=qkv_bias, out_bias=bias, tied=tied)
    return _both_ways(fields, body)


@family("Dream")
def dream(fields: Fields) -> Architecture:
    """Dream: the shape of Qwen 2.5, whose weights it started from."""
    return _both_ways(fields, qwen2(fields))
