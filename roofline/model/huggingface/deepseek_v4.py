"""DeepSeek-V4: compressed attention, residual streams that are mixed, grouped output projections.

Shapes and defaults are those of the ``transformers`` config class (5.23); the layer that predicts
further tokens is that of the published inference code.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from roofline.model.architecture import (
    STREAMS,
    Architecture,
    Block,
    CompressedAttention,
    Indexer,
    Linear,
)
from roofline.model.huggingface.common import Geometry, family, neutral, stack
from roofline.model.huggingface.fields import MOST_LAYERS, Fields
from roofline.model.huggingface.routing import marks, routed, shared_width
from roofline.model.huggingface.stacking import (
    block_parameters,
    divides,
    layer_words,
    with_prediction,
)
from roofline.model.mixers import INDEX_SCALE_BYTES

SPARSE, HEAVY = "sparse", "heavy"
LAYER_WORDS: Final = {
    "sliding_attention": "sliding",
    "compressed_sparse_attention": SPARSE,
    "heavily_compressed_attention": HEAVY,
}
RATIOS: Final = {0: "sliding", 4: SPARSE, 128: HEAVY}
"""Tokens per entry in each kind of layer. [token]"""
SEEN: Final = frozenset(
    [
        "qk_rope_head_dim",
        "compress_rope_theta",
        "hc_sinkhorn_iters",
        "hc_eps",
        "num_hash_layers",
        "mlp_layer_types",
    ]
)
"""Fields that cost nothing: rotation, iterations on a few numbers per token, and layers that look
their experts up by token, whose router still weighs them."""


@family("deepseek_v4", "deepseek_ref")
def deepseek_v4(fields: Fields) -> Architecture:
    """DeepSeek-V4: its first layers choose experts by token; all keep several residual streams."""
    fields.seen |= SEEN
    neutral(fields, num_key_value_heads=1, attention_bias=False, mlp_bias=False)
    layers = fields.integer("layers", "num_hidden_layers", high=MOST_LAYERS)
    shape = Geometry(
        d_model=fields.integer("d_model", "hidden_size"),
        layers=layers,
        heads=fields.integer("heads", "num_attention_heads"),
        kv_heads=1,
        head_dim=fields.integer("head_dim", "head_dim", default=512),
        vocab=fields.integer("vocab", "vocab_size"),
        context=fields.optional("max_context", "max_position_embeddings"),
    )
    width = shape.d_model
    kinds, further = _kinds(fields, layers)
    mixers = {kind: _mixer(fields, shape, kind) for kind in {*kinds, *further}}
    each = fields.integer("expert_width", "moe_intermediate_size")
    moe = routed(fields, shared_width=shared_width(fields, each, 1))
    streams = fields.integer("streams", "hc_mult", default=4)
    # What is read from the streams, what is written to them, and how they mix; for both parts.
    outputs = (2 + streams) * streams
    hyper = Linear(STREAMS, outputs, streams * width, split="none")

    def layer(kind: str) -> Block:
        return Block(
            mixers[kind],
            moe,
            2,
            2 * width,
            extra=(hyper, hyper),
            extra_parameters=2 * (outputs + 3),
            streams=streams,
        )

    blocks = [layer(kind) for kind in kinds]
    last = blocks[-1]
    joined = Linear("streams-join", streams, streams * width, split="none")
    blocks[-1] = replace(
        last,
        extra=(*last.extra, joined),
        extra_parameters=last.extra_parameters + streams + 1,
    )
    body = stack(fields, shape, blocks)
    # Both inputs are normed and projected, then a last norm and the streams joined.
    around = 2 * width * width + 3 * width + joined.parameters + streams + 1
    number = sum(block_parameters(layer(kind), width) + around for kind in further)
    return with_prediction(fields, body, number)


def _kinds(fields: Fields, layers: int) -> tuple[Sequence[str], Sequence[str]]:
    """Kind of each layer, and of those that predict further tokens."""
    extra = fields.integer("mtp", "num_nextn_predict_layers", default=1, low=0, high=MOST_LAYERS)
    fields.seen.add("compress_rates")
    kinds = layer_words(fields, "layer_types", LAYER_WORDS, layers)
    further = ["sliding"] * extra
    found = fields.get("compress_ratios")
    if (
        found is not None
        and isinstance(found[1], list)
        and len(found[1]) in {layers, layers + extra}
    ):
        ratios = marks(fields, found[0], len(found[1]), RATIOS)
        if kinds is not None and ratios[:layers] != kinds:
            fields.refuse(found[0], "compress_ratios contradicts layer_types")
        return ratios[:layers], ratios[layers:] or further
    if found is not None:
        fields.refuse(
            found[0],
            f"compress_ratios does not have one entry for each of {layers} layers",
            "write a list with one entry per layer",
        )
    if kinds is None:
        kinds = [HEAVY if i < 2 or i % 2 == 0 else SPARSE for i in range(layers)]
    return kinds, further


def _ratio(fields: Fields, kind: str) -> int:
    """Tokens per entry: ``compress_rates`` by the name of the layer, else 4 and 128. [token]"""
    default = next(ratio for ratio, name in RATIOS.items() if name == kind)
    rates = fields.data.get("compress_rates")
    if rates is None or not default:
        return default
    word = next(word for word, name in LAYER_WORDS.items() if name == kind)
    ratio = rates.get(word, default) if isinstance(rates, dict) else None
    if type(ratio) is not int or ratio < 1:
        fields.refuse("compress_rates", f"compress_rates gives no number of tokens for {word}")
    return ratio


def _mixer(fields: Fields, shape: Geometry, kind: str) -> CompressedAttention:
    query = fields.integer("query_rank", "q_lora_rank", default=1024)
    groups = fields.integer("out_groups", "o_groups", default=8)
    divides(fields, "o_groups", shape.heads, groups, "query heads")
    ratio = _ratio(fields, kind)
    if ratio:
        divides(fields, "compress_rates", shape.head_dim, ratio, "channels of a head")
    index = None
    index_heads = fields.integer("index_heads", "index_n_heads", default=64)
    index_dim = fields.integer("index_head_dim", "index_head_dim", default=128)
    top_k = fields.integer("index_top_k", "index_topk", default=512)
    if kind == SPARSE:
        index = Indexer(
            heads=index_heads,
            head_dim=index_dim,
            top_k=top_k,
            query_width=query,
            # A key in fp8 with its scale for every few tokens, rounded up.
            key_bytes=-(-(index_dim + INDEX_SCALE_BYTES) // ratio),
        )
    return CompressedAttention(
        heads=shape.heads,
        head_dim=shape.head_dim,
        query_rank=query,
        window=fields.integer("window", "sliding_window", default=128),
        out_groups=groups,
        out_rank=fields.integer("out_rank", "o_lora_rank", default=1024),
        ratio=ratio,
        series=2 if kind == SPARSE else 1,
        index=index,
    )
