"""Decoders of the GPT line: learned positions or ALiBi, biases, LayerNorm, spellings of their own.

Shapes and defaults are those of the ``transformers`` config classes of the same names (5.23).
"""

from typing import Final

from roofline.model.architecture import Architecture, Mlp
from roofline.model.huggingface.common import (
    DIVISOR,
    GPT_NAMES,
    Geometry,
    GeometryKeys,
    activation,
    biases,
    check_groups,
    decoder,
    family,
    geometry,
    neutral,
    ungated,
)
from roofline.model.huggingface.fields import Fields
from roofline.records import replace

BLOOM_NAMES: Final = GeometryKeys(
    width=("hidden_size", "n_embed"),
    layers=("n_layer", "num_hidden_layers"),
    heads=("n_head", "num_attention_heads"),
    kv_heads=(),
    context=("seq_length",),
)
FALCON_NAMES: Final = replace(
    BLOOM_NAMES,
    layers=("num_hidden_layers", "n_layer"),
    heads=("num_attention_heads", "n_head"),
    context=("max_position_embeddings",),
)
MPT_NAMES: Final = GeometryKeys(
    width=("d_model", "hidden_size"),
    layers=("n_layers", "num_hidden_layers"),
    heads=("n_heads", "num_attention_heads"),
    kv_heads=(),
    context=("max_seq_len",),
)


@family("opt")
def opt(fields: Fields) -> Architecture:
    """OPT: two spare rows of positions; the 350M one has a narrower embedding and post-norms."""
    shape = geometry(fields, replace(GeometryKeys(), kv_heads=()), explicit_head_dim=False)
    bias = fields.flag("bias", "enable_bias", default=True)
    affine = fields.flag("norm_weights", "layer_norm_elementwise_affine", default=True)
    before = fields.flag("norm_before", "do_layer_norm_before", default=True)
    removed = fields.flag("final_norm_removed", "_remove_final_layer_norm", default=False)
    width = fields.integer(
        "embedding_width", "word_embed_proj_dim", default=shape.d_model, why="as wide as the model"
    )
    norm = 2 * shape.d_model if affine else 0
    return decoder(
        fields,
        shape,
        ungated(fields, "relu", "ffn_dim", bias=bias),
        qkv_bias=bias,
        out_bias=bias,
        rotary=False,
        tied=True,
        norm_width=norm,
        final_norm=norm if before and not removed else 0,
        embedding_width=width,
        position_rows=_positions(fields, shape) + 2,
    )


@family("gpt2")
def gpt2(fields: Fields) -> Architecture:
    """GPT-2: learned positions, biases everywhere."""
    neutral(fields, add_cross_attention=False)
    return _learned_positions(fields, geometry(fields, GPT_NAMES, explicit_head_dim=False))


@family("gpt_bigcode")
def gpt_bigcode(fields: Fields) -> Architecture:
    """StarCoder 1, SantaCoder: GPT-2 with one key/value head."""
    neutral(fields, add_cross_attention=False)
    fields.seen.add("attention_softmax_in_fp32")
    shape = geometry(fields, GPT_NAMES, explicit_head_dim=False)
    if fields.flag("kv_heads", "multi_query", default=True):
        shape = replace(shape, kv_heads=1)
    neutral(fields, num_key_value_heads=shape.kv_heads)
    return _learned_positions(fields, shape)


def _learned_positions(fields: Fields, shape: Geometry) -> Architecture:
    fields.seen.add("n_ctx")
    return decoder(
        fields,
        shape,
        ungated(fields, "gelu_new", "n_inner", default=4 * shape.d_model),
        qkv_bias=True,
        out_bias=True,
        rotary=False,
        tied=True,
        norm_width=2 * shape.d_model,
        position_rows=_positions(fields, shape),
    )


@family("gptj", "codegen")
def gptj(fields: Fields) -> Architecture:
    """GPT-J, CodeGen: parallel parts behind one norm; biases in feed-forward parts and LM head."""
    fields.seen.update({"n_ctx", "rotary"})
    shape = geometry(fields, GPT_NAMES, explicit_head_dim=False)
    return decoder(
        fields,
        shape,
        ungated(fields, "gelu_new", "n_inner", default=4 * shape.d_model),
        norms=1,
        norm_width=2 * shape.d_model,
        parallel=True,
        head_bias=True,
    )


@family("gpt_neox")
def gpt_neox(fields: Fields) -> Architecture:
    """GPT-NeoX, Pythia: two norms even where both parts are parallel."""
    shape = geometry(fields, replace(GeometryKeys(), kv_heads=()), explicit_head_dim=False)
    return decoder(
        fields,
        shape,
        ungated(fields, "gelu"),
        **biases(fields, default=True),
        norm_width=2 * shape.d_model,
        parallel=fields.flag("parallel", "use_parallel_residual", default=True),
    )


@family("bloom")
def bloom(fields: Fields) -> Architecture:
    """BLOOM: ALiBi, a norm on the embedding, biases everywhere."""
    shape = geometry(fields, BLOOM_NAMES, explicit_head_dim=False)
    inner = 4 * shape.d_model
    neutral(fields, n_inner=inner, apply_residual_connection_post_layernorm=(True, False))
    return decoder(
        fields,
        shape,
        Mlp(inner, False, True, True, activation(fields, "gelu")),
        qkv_bias=True,
        out_bias=True,
        rotary=False,
        tied=True,
        norm_width=2 * shape.d_model,
        embedding_norm_parameters=2 * shape.d_model,
    )


@family("mpt")
def mpt(fields: Fields) -> Architecture:
    """MPT: ALiBi and no biases at all, norms included."""
    shape = geometry(fields, MPT_NAMES, explicit_head_dim=False)
    _mpt_attention(fields)
    neutral(fields, no_bias=True, embedding_fraction=1.0, learned_pos_emb=(True, False))
    fields.only("expansion_ratio", 4, reason="transformers builds layers four times as wide")
    mlp = Mlp(4 * shape.d_model, False, activation="gelu")
    return decoder(fields, shape, mlp, rotary=False, tied=True)


def _mpt_attention(fields: Fields) -> None:
    """``attn_config`` must say what is assumed of it."""
    found = fields.get("attn_config")
    if found is None:
        return
    key, config = found
    if not isinstance(config, dict):
        fields.refuse(key, "attn_config is not a mapping", "give it as published")
    inner = fields.part(key)
    neutral(
        inner,
        alibi=True,
        attn_type="multihead_attention",
        attn_uses_sequence_id=False,
        prefix_lm=False,
        qk_ln=False,
    )
    inner.finish()
    fields.notes += inner.notes


@family("falcon")
def falcon(fields: Fields) -> Architecture:
    """Falcon in its three layouts.

    One key/value head (7B, ``multi_query``), ``num_kv_heads`` of them (40B, 180B,
    ``new_decoder_architecture``), or one per query head (RW, ALiBi).
    """
    shape = geometry(fields, FALCON_NAMES, explicit_head_dim=False)
    modern = fields.flag("new_decoder_architecture", "new_decoder_architecture", default=False)
    single = fields.flag("multi_query", "multi_query", default=True)
    if modern:
        kv_heads = fields.integer(
            "kv_heads", "num_kv_heads", "n_head_kv", default=shape.heads, why="as query heads"
        )
        check_groups(fields, "num_kv_heads", shape.heads, kv_heads, DIVISOR)
    else:
        # The other two layouts fix the number, whatever num_kv_heads says (71 in Falcon-7B).
        fields.seen.add("num_kv_heads")
        kv_heads = 1 if single else shape.heads
    if modern:
        neutral(fields, parallel_attn=True)
    norms = fields.optional("norms", "num_ln_in_parallel_attn", high=2) or (2 if modern else 1)
    return _falcon(fields, replace(shape, kv_heads=kv_heads), norms)


@family("RefinedWeb")
def refined_web(fields: Fields) -> Architecture:
    """Falcon-40B under its first name: ``n_head_kv`` heads and two norms."""
    shape = geometry(fields, FALCON_NAMES, explicit_head_dim=False)
    kv_heads = fields.integer("kv_heads", "n_head_kv")
    check_groups(fields, "num_kv_heads", shape.heads, kv_heads, DIVISOR)
    neutral(fields, multi_query=(True, False))
    return _falcon(fields, replace(shape, kv_heads=kv_heads), norms=2)


@family("RefinedWebModel")
def refined_web_model(fields: Fields) -> Architecture:
    """Falcon-7B and RW under their first name."""
    shape = geometry(fields, FALCON_NAMES, explicit_head_dim=False)
    single = fields.flag("multi_query", "multi_query", default=False)
    kv_heads = 1 if single else shape.heads
    neutral(fields, n_head_kv=kv_heads)
    return _falcon(fields, replace(shape, kv_heads=kv_heads), norms=1)


def _falcon(fields: Fields, shape: Geometry, norms: int) -> Architecture:
    legacy = fields.model_type != "falcon"
    bias = fields.flag("bias", "bias", default=False)
    parallel = fields.flag("parallel", "parallel_attn", default=not legacy)
    alibi = fields.flag("alibi", "alibi", default=False)
    fields.seen.add("apply_residual_connection_post_layernorm")
    width = fields.integer(
        "mlp_width", "ffn_hidden_size", default=4 * shape.d_model, why="4·D when absent"
    )
    return decoder(
        fields,
        shape,
        Mlp(width, False, bias, bias, activation(fields, "gelu")),
        qkv_bias=bias,
        out_bias=bias,
        rotary=not alibi,
        tied=True,
        norms=norms if parallel else 2,
        norm_width=2 * shape.d_model,
        parallel=parallel,
    )


def _positions(fields: Fields, shape: Geometry) -> int:
    """Rows of the position embedding: they cost memory, so the config must say how many."""
    if shape.context is None:
        key = "n_positions" if "n_embd" in fields.data else "max_position_embeddings"
        fields.refuse(key, f"{key} is missing", f"add {key} as the published config.json has it")
    fields.provenance["position_rows"] = fields.provenance["max_context"]
    return shape.context
