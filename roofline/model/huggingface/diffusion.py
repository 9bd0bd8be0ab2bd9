"""Diffusion language models: decoders whose tokens see each other both ways, filled in by steps.

Shapes are those of the published modelling files; totals are checked against published counts.
"""

from dataclasses import replace
from typing import Final

from roofline.model.architecture import Architecture, Mlp
from roofline.model.huggingface.common import Names, assemble, attention, family, geometry, neutral
from roofline.model.huggingface.fields import Fields
from roofline.model.huggingface.llama import qwen2
from roofline.model.huggingface.windows import no_windows

LLADA_NAMES: Final = Names(
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
    mixers = attention(shape, no_windows(fields, shape.layers), qkv_bias=qkv_bias, out_bias=bias)
    tied = fields.flag("tied_embeddings", "weight_tying", default=False)
    width = shape.d_model
    return _both_ways(fields, assemble(fields, shape, mixers, mlp, tied=tied, norm_width=width))


@family("Dream")
def dream(fields: Fields) -> Architecture:
    """Dream: the shape of Qwen 2.5, whose weights it started from."""
    return _both_ways(fields, qwen2(fields))
