"""Decoders with latent attention, DeepSeek, Kimi K2, GLM 5, MiniCPM 3, and compressed attention.

Shapes and defaults are those of the ``transformers`` config classes of the same names (5.23); the
layer of DeepSeek-V4 that predicts further tokens is that of the published inference code. That
network compresses attention, mixes residual streams and groups its output projections.
"""

from collections.abc import Sequence
from typing import Any, Final

from roofline.model.architecture import (
    STREAMS,
    Architecture,
    Block,
    CompressedAttention,
    Indexer,
    Linear,
    Mla,
)
from roofline.model.huggingface.common import (
    Geometry,
    assemble,
    family,
    gated,
    neutral,
    outline,
    stack,
)
from roofline.model.huggingface.fields import MOST_LAYERS, Fields
from roofline.model.huggingface.layers import (
    block_parameters,
    divides,
    further_tokens,
    layer_words,
    with_prediction,
)
from roofline.model.huggingface.llama import SCALES
from roofline.model.huggingface.routing import dense_then_experts, marks, routed
from roofline.model.mixer import INDEX_SCALE_BYTES
from roofline.records import replace

MLA: Final = frozenset({"num_key_value_heads", "head_dim", "qk_head_dim", "rope_interleave"})
"""Fields that latent attention does not use, or that follow from others."""


def _outline(fields: Fields) -> Geometry:
    fields.seen |= MLA
    return outline(fields, "value_dim", "v_head_dim", default=128)


def latent_attention(
    fields: Fields,
    shape: Geometry,
    latent: int | None = None,
    nope: int = 128,
    rope: int = 64,
    **more: Any,
) -> Mla:
    """Latent attention with the keys that DeepSeek has for it.

    Args:
        fields, shape: The config and its sizes; a head of values is as wide as one of the shape.
        latent, nope, rope: Widths of the latent and of the two parts of a head where the config
            has none. [1]
        more: Other fields of `Mla`.
    """
    query = fields.optional("query_rank", "q_lora_rank") or 0
    latent = fields.integer("latent", "kv_lora_rank", default=latent)
    rope = fields.integer("rope_dim", "qk_rope_head_dim", default=rope)
    bias = fields.flag("attention_bias", "attention_bias", default=False)
    return Mla(
        heads=shape.heads,
        query_rank=query,
        latent=latent,
        nope_dim=fields.integer("nope_dim", "qk_nope_head_dim", default=nope),
        rope_dim=rope,
        value_dim=shape.head_dim,
        norm_parameters=query + latent,
        biased=query + latent + rope if bias else 0,
        out_bias=bias,
        **more,
    )


def _named_query_rank(fields: Fields) -> None:
    """Refuse a config without ``q_lora_rank``: null and absent differ."""
    if "q_lora_rank" not in fields.data:
        fields.refuse(
            "q_lora_rank",
            "q_lora_rank is missing",
            "write null where queries are projected directly",
        )


def _network(
    fields: Fields, shape: Geometry, indexers: list[Indexer | None], dense: int, shared: int
) -> Architecture:
    """Latent attention, dense feed-forward parts first, then experts with shared ones."""
    neutral(fields, mlp_bias=False)
    _named_query_rank(fields)
    mixer = latent_attention(fields, shape)
    mixers = [replace(mixer, index=index) for index in indexers]
    parts = dense_then_experts(fields, shape.layers, dense=dense, shared=shared)
    return further_tokens(fields, assemble(fields, shape, mixers, parts))


@family("deepseek_v2", "deepseek_v3", "kimi_k2")
def deepseek(fields: Fields) -> Architecture:
    """DeepSeek-V3 and R1, Kimi K2; V2 has two shared experts, and no dense layers unless told."""
    shape = _outline(fields)
    dense, shared = (0, 2) if fields.model_type == "deepseek_v2" else (3, 1)
    return _network(fields, shape, [None] * shape.layers, dense=dense, shared=shared)


@family("glm4_moe_lite", "mistral4", "sarvam_mla")
def latent_mixture(fields: Fields) -> Architecture:
    """GLM 4.7 Flash, Mistral 4, Sarvam 105B: DeepSeek-V3 with one dense layer, or with none."""
    glm, mistral = fields.model_type == "glm4_moe_lite", fields.model_type == "mistral4"
    neutral(fields, use_qk_norm=False)
    fields.seen |= MLA | {"llama_4_scaling"}
    _named_query_rank(fields)
    shape = outline(fields, "value_dim", "v_head_dim", default=256 if glm else 128)
    mixer = latent_attention(
        fields, shape, 256 if mistral else 512, nope=192 if glm else 64 if mistral else 128
    )
    parts = dense_then_experts(fields, shape.layers, dense=0 if mistral else 1, shared=1)
    return further_tokens(fields, assemble(fields, shape, [mixer] * shape.layers, parts))


@family("youtu")
def youtu(fields: Fields) -> Architecture:
    """Youtu: latent attention in a dense network."""
    fields.seen |= MLA
    _named_query_rank(fields)
    shape = outline(fields, "value_dim", "v_head_dim", default=128)
    mixer = latent_attention(fields, shape, 512)
    mlp = gated(fields, bias=fields.flag("mlp_bias", "mlp_bias", default=False))
    return assemble(fields, shape, [mixer] * shape.layers, mlp, tied=True)


@family("minicpm3")
def minicpm3(fields: Fields) -> Architecture:
    """MiniCPM 3: latent attention in a dense network with multipliers."""
    fields.seen |= MLA | SCALES
    _named_query_rank(fields)
    width, heads = (fields.data.get(key) for key in ("hidden_size", "num_attention_heads"))
    even = width // heads if isinstance(width, int) and isinstance(heads, int) and heads else 64
    shape = outline(fields, "value_dim", "v_head_dim", default=even)
    mixer = latent_attention(fields, shape, 256, nope=64, rope=32)
    mlp = gated(fields, bias=fields.flag("mlp_bias", "mlp_bias", default=False))
    return assemble(fields, shape, [mixer] * shape.layers, mlp, tied=True)


@family("deepseek_v32", "glm_moe_dsa")
def deepseek_sparse(fields: Fields) -> Architecture:
    """DeepSeek-V3.2 and GLM 5: an indexer chooses the tokens that are attended.

    From GLM 5.2 on, most layers take over the choice of an earlier one.
    """
    shape = _outline(fields)
    fields.seen |= {"indexer_rope_interleave", "index_share_for_mtp_iteration"}
    if fields.get("layer_types") is not None:
        same = {"indexed_attention": True, "deepseek_sparse_attention": True}
        marks(fields, "layer_types", shape.layers, same)
    width = fields.integer("index_head_dim", "index_head_dim", default=128)
    glm = fields.model_type == "glm_moe_dsa"

    def indexer(computes: bool) -> Indexer:
        return Indexer(
            heads=fields.integer("index_heads", "index_n_heads", default=32 if glm else 64),
            head_dim=width,
            top_k=fields.integer("index_top_k", "index_topk", default=2048),
            query_width=fields.integer("query_rank", "q_lora_rank"),
            norm_parameters=2 * width,  # its norm has biases
            computes=computes,
        )

    own, taken = indexer(computes=True), indexer(computes=False)
    computes = _computing(fields, shape.layers)
    indexers: list[Indexer | None] = [own if here else taken for here in computes]
    return _network(fields, shape, indexers, dense=3, shared=1)


def _computing(fields: Fields, layers: int) -> list[bool]:
    """True for each layer that has an indexer of its own.

    ``indexer_types`` says so layer by layer, ``index_topk_pattern`` by letters; else every n-th
    layer after the first few has one.
    """
    meaning = {"full": True, "shared": False, "F": True, "S": False}
    frequency = fields.integer("index_frequency", "index_topk_freq", default=1)
    offset = fields.integer("index_offset", "index_skip_topk_offset", default=2, low=0)
    pattern = fields.get("index_topk_pattern")
    if fields.get("indexer_types") is not None:
        own = marks(fields, "indexer_types", layers, meaning)
    elif pattern is not None:
        letters = pattern[1]
        if not isinstance(letters, str) or len(letters) != layers or set(letters) - {"F", "S"}:
            fields.refuse(
                "index_topk_pattern",
                f"index_topk_pattern is not one of F and S for each of {layers} layers",
                "write one letter per layer, or give indexer_types",
            )
        own = [letter == "F" for letter in letters]
    else:
        own = [max(i - offset + 1, 0) % frequency == 0 for i in range(layers)]
    if not own[0]:
        fields.refuse(
            "indexer_types" if "indexer_types" in fields.data else "index_topk_pattern",
            "the first layer takes over a choice, but there is none before it",
            "let the first layer be a full one",
        )
    return own


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
    shape = outline(fields, "head_dim", "head_dim", default=512)
    width = shape.d_model
    kinds, further = _kinds(fields, shape.layers)
    mixers = {kind: _mixer(fields, shape, kind) for kind in dict.fromkeys((*kinds, *further))}
    each = fields.integer("expert_width", "moe_intermediate_size")
    fields.only("n_shared_experts", 1, reason="transformers builds one beside the others")
    moe = routed(fields, shared_width=each)
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
        last, extra=(*last.extra, joined), extra_parameters=last.extra_parameters + streams + 1
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
