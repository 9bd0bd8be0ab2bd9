"""Decoders with latent attention: DeepSeek, Kimi K2 and GLM 5.

Shapes and defaults are those of the ``transformers`` config classes of the same names (5.23).
"""

from typing import Final

from roofline.model.architecture import Architecture, Indexer, Mla
from roofline.model.huggingface.common import Geometry, assemble, family, gated, neutral
from roofline.model.huggingface.fields import MOST_LAYERS, Fields
from roofline.model.huggingface.routing import after_dense, marks, placed, routed, shared_width
from roofline.model.huggingface.stacking import further_tokens

MLA: Final = frozenset({"num_key_value_heads", "head_dim", "qk_head_dim", "rope_interleave"})
"""Fields that latent attention does not use, or that follow from others."""


def _geometry(fields: Fields) -> Geometry:
    heads = fields.integer("heads", "num_attention_heads")
    fields.seen |= MLA
    return Geometry(
        d_model=fields.integer("d_model", "hidden_size"),
        layers=fields.integer("layers", "num_hidden_layers", high=MOST_LAYERS),
        heads=heads,
        kv_heads=heads,
        head_dim=fields.integer("value_dim", "v_head_dim", default=128),
        vocab=fields.integer("vocab", "vocab_size"),
        context=fields.optional("max_context", "max_position_embeddings"),
    )


def _latent(fields: Fields, shape: Geometry, indexers: list[Indexer | None]) -> list[Mla]:
    """Latent attention of each layer, alike but for the indexer."""
    query = fields.optional("query_rank", "q_lora_rank") or 0
    if "q_lora_rank" not in fields.data:
        fields.refuse(
            "q_lora_rank",
            "q_lora_rank is missing",
            "write null where queries are projected directly",
        )
    latent = fields.integer("latent", "kv_lora_rank")
    rope = fields.integer("rope_dim", "qk_rope_head_dim", default=64)
    bias = fields.flag("attention_bias", "attention_bias", default=False)
    return [
        Mla(
            heads=shape.heads,
            query_rank=query,
            latent=latent,
            nope_dim=fields.integer("nope_dim", "qk_nope_head_dim", default=128),
            rope_dim=rope,
            value_dim=shape.head_dim,
            norm_parameters=query + latent,
            biased=query + latent + rope if bias else 0,
            out_bias=bias,
            index=index,
        )
        for index in indexers
    ]


def _network(
    fields: Fields, shape: Geometry, indexers: list[Indexer | None], dense: int, shared: int
) -> Architecture:
    """Latent attention, dense feed-forward parts first, then experts with shared ones."""
    neutral(fields, mlp_bias=False)
    mixers = _latent(fields, shape, indexers)
    sparse = after_dense(fields, shape.layers, dense)
    width = fields.integer("expert_width", "moe_intermediate_size")
    moe = routed(fields, shared_width=shared_width(fields, width, shared))
    body = assemble(fields, shape, mixers, placed(gated(fields), moe, sparse))
    return further_tokens(fields, body)


@family("deepseek_v3", "kimi_k2")
def deepseek(fields: Fields) -> Architecture:
    """DeepSeek-V3 and R1, Kimi K2."""
    shape = _geometry(fields)
    return _network(fields, shape, [None] * shape.layers, dense=3, shared=1)


@family("deepseek_v2")
def deepseek_v2(fields: Fields) -> Architecture:
    """DeepSeek-V2: two shared experts, and no dense layers unless the config has some."""
    shape = _geometry(fields)
    return _network(fields, shape, [None] * shape.layers, dense=0, shared=2)


@family("deepseek_v32", "glm_moe_dsa")
def deepseek_sparse(fields: Fields) -> Architecture:
    """DeepSeek-V3.2 and GLM 5: an indexer chooses the tokens that are attended.

    From GLM 5.2 on, most layers take over the choice of an earlier one.
    """
    shape = _geometry(fields)
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
    """Which layers have an indexer of their own.

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
