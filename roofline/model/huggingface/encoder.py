"""Encoders: BERT and its relatives; T5, an encoder with a decoder.

Shapes and defaults are those of the ``transformers`` config classes of the same names (5.23).
"""

from typing import Final

from roofline.model.architecture import Architecture, Attention, Block, Linear, Mlp
from roofline.model.huggingface.common import (
    GeometryKeys,
    family,
    geometry,
    neutral,
    stack,
    ungated,
)
from roofline.model.huggingface.fields import Fields
from roofline.model.huggingface.layers import block_parameters
from roofline.records import replace

BERT_NAMES: Final = GeometryKeys(kv_heads=())
T5_NAMES: Final = GeometryKeys(
    width=("d_model",),
    layers=("num_layers",),
    heads=("num_heads",),
    kv_heads=(),
    context=("n_positions",),
)


DISTIL_NAMES: Final = GeometryKeys(
    width=("dim",), layers=("n_layers",), heads=("n_heads",), kv_heads=()
)


@family("bert", "roberta", "xlm-roberta", "distilbert")
def bert(fields: Fields) -> Architecture:
    """BERT and its relatives as masked language models: norms after each part, biases everywhere.

    DistilBERT has no token types.

    The head turns the last width once more, norms it and takes the embedding transposed; that is
    part of the last layer here. A pooler is another head, and not counted.
    """
    neutral(fields, is_decoder=False, add_cross_attention=False)
    fields.only(
        "position_embedding_type", "absolute", reason="positions may have weights in each layer"
    )
    small = fields.model_type == "distilbert"
    fields.seen |= {"qa_dropout", "seq_classif_dropout", "sinusoidal_pos_embds", "tie_weights_"}
    names = DISTIL_NAMES if small else BERT_NAMES
    shape = geometry(fields, names, explicit_head_dim=False)
    width = shape.d_model
    mixer = Attention(
        shape.heads,
        shape.heads,
        shape.head_dim,
        qkv_biased=shape.qkv_width,
        out_bias=True,
        rotary=False,
        cached=False,
    )
    mlp = ungated(fields, "gelu", "hidden_dim" if small else "intermediate_size")
    types = 0 if small else fields.integer("token_types", "type_vocab_size", default=2)
    plain = Block(mixer, mlp, 2, 4 * width)
    head = (Linear("head", width, width, width, "none"),)
    last = replace(plain, norms=3, norm_parameters=6 * width, extra=head)
    fields.notes.append("an encoder with its masked-language head: one pass over all tokens")
    network = stack(
        fields,
        shape,
        [*[plain] * (shape.layers - 1), last],
        tied=True,
        position_rows=shape.context or 512,
        # Token types are added to the embedding before its norm.
        embedding_norm_parameters=types * width + 2 * width,
        final_norm_parameters=0,
        head_bias=True,
        causal=False,
    )
    if not network.tied_embeddings:
        fields.refuse("tie_word_embeddings", "a head of its own is not understood in an encoder")
    return network


@family("t5", "mt5")
def t5(fields: Fields) -> Architecture:
    """T5: an encoder that reads the prompt, and a decoder whose layers attend to both.

    What a layer keeps of a token of the prompt is as large as what it keeps of one of its own, so
    that one cache stands for both; queries and outputs of the second attention have matrices of
    their own.
    """
    neutral(fields, is_encoder_decoder=True, is_decoder=False)
    shape = geometry(fields, T5_NAMES, head_dim=64, explicit_head_dim=False, kv_heads=None)
    shape = replace(shape, head_dim=fields.integer("head_dim", "d_kv", default=64))
    fields.seen |= {"relative_attention_max_distance", "dropout_rate", "dense_act_fn"}
    buckets = fields.integer("position_buckets", "relative_attention_num_buckets", default=32)
    gate, act = _t5_activation(fields)
    mlp = Mlp(fields.integer("mlp_width", "d_ff"), gate, activation=act)
    mixer = Attention(shape.heads, shape.heads, shape.head_dim, rotary=False, cached=False)
    width, wide, bias = shape.d_model, shape.heads * shape.head_dim, buckets * shape.heads
    plain = Block(mixer, mlp, 2, 2 * width)
    crossing = (Linear("cross-q", wide, width), Linear("cross-out", width, wide, split="row"))
    layer = Block(replace(mixer, cached=True), mlp, 3, 3 * width, extra=crossing)
    depth = fields.integer("decoder_layers", "num_decoder_layers", default=shape.layers)
    number = shape.layers * block_parameters(plain, width) + bias + width
    return stack(
        fields,
        shape,
        [replace(layer, extra_parameters=bias), *[layer] * (depth - 1)],
        tied=True,
        encoder=(plain,) * shape.layers,
        encoder_projector=(Linear("cross-kv", 2 * wide, width),) * depth,
        other_parameters={"encoder": number, "projector": depth * 2 * wide * width},
    )


def _t5_activation(fields: Fields) -> tuple[bool, str]:
    """Gate and function in ``feed_forward_proj``: true if there is a gate."""
    fields.seen |= {"feed_forward_proj", "is_gated_act"}
    word = fields.data.get("feed_forward_proj") or "relu"
    if (
        not isinstance(word, str)
        or word.count("-") > 1
        or not word.startswith(("gated-", "relu", "gelu"))
    ):
        fields.refuse(
            "feed_forward_proj",
            f"feed_forward_proj = {word!r:.40} is not understood",
            "it may be relu, gelu, or one of them after gated-",
        )
    gated = word.startswith("gated-")
    fields.only("is_gated_act", gated, reason="feed_forward_proj says the opposite")
    return gated, word.removeprefix("gated-")
