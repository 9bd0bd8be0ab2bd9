"""Gemma 3n and 4: caches that layers share, inputs per layer, wide heads where all is seen.

Shapes and defaults are those of the ``transformers`` config classes of the same names (5.23).
"""

from typing import Any, Final

from roofline.model.architecture import Architecture, Attention, Block, FeedForward, Linear, Mlp
from roofline.model.huggingface.common import (
    Geometry,
    activation,
    attention,
    check_groups,
    family,
    gated,
    geometry,
    neutral,
    stack,
)
from roofline.model.huggingface.fields import LARGEST, Fields
from roofline.model.huggingface.layers import window_size, windows
from roofline.model.huggingface.routing import routed
from roofline.records import replace

NORMS: Final = 4
"""Before and after both parts."""
MOE_NORMS: Final = 3
"""Besides, where experts run beside the dense part: one before them, one after each of the two."""


@family("gemma4_text")
def gemma4_text(fields: Fields) -> Architecture:
    """Gemma 4, dense or with experts beside the dense part.

    Values need no projection of their own where ``attention_k_eq_v`` is true; the norm of values
    has no parameters. The last ``num_kv_shared_layers`` layers read the cache of an earlier one.
    """
    neutral(fields, use_bidirectional_attention="vision", expert_intermediate_size=None)
    shape = geometry(fields, kv_heads=4, head_dim=256)
    reused = _reused(fields, shape.layers, 0)
    mixers = [
        replace(mixer, reuses_kv=reuses, norm_parameters=(1 if reuses else 2) * mixer.head_dim)
        for mixer, reuses in zip(_mixers(fields, shape), reused, strict=True)
    ]
    if fields.flag("attention_bias", "attention_bias", default=False):
        mixers = [
            replace(mixer, qkv_biased=mixer.query_width + mixer.projected_kv, out_bias=True)
            for mixer in mixers
        ]
    wide = fields.flag("double_wide_mlp", "use_double_wide_mlp", default=False)
    mlp, width, norms, scales = gated(fields), shape.d_model, NORMS, 0
    feedforward: list[FeedForward] = [
        replace(mlp, width=mlp.width * (2 if wide and reuses else 1)) for reuses in reused
    ]
    if fields.flag("experts_beside", "enable_moe_block", default=False):
        moe = routed(fields, experts=("num_experts",), active=("top_k_experts",))
        feedforward = [replace(moe, shared_width=part.width) for part in feedforward]
        # What the router reads is scaled, and so is what each expert says.
        norms, scales = norms + MOE_NORMS, width + moe.experts
    else:
        fields.seen |= {"num_experts", "top_k_experts", "moe_intermediate_size"}
    extra, beside = _layer_inputs(fields, shape)
    norms += 1 if extra else 0
    blocks = [
        Block(mixer, part, norms, norms * width, extra=extra, extra_parameters=scales)
        for mixer, part in zip(mixers, feedforward, strict=True)
    ]
    return stack(fields, shape, blocks, tied=True, **beside)


def _layer_inputs(fields: Fields, shape: Geometry) -> tuple[tuple[Linear, ...], dict[str, Any]]:
    """Matrices in each layer, and fields of the network, of a small embedding for each layer.

    It is projected in beside the residual stream, through a gate and behind a norm.
    """
    width = shape.d_model
    inner = fields.integer("layer_input_width", "hidden_size_per_layer_input", default=256, low=0)
    rows = fields.integer("layer_input_vocab", "vocab_size_per_layer_input", default=262_144, low=0)
    if not inner:
        return (), {}
    fields.notes.append(
        "per-layer embeddings are looked up, not multiplied: counted under other parameters"
    )
    extra = (
        Linear("layer-input", inner, width, split="none"),
        Linear("layer-gate", inner, width, split="none"),
        Linear("layer-projection", width, inner, split="none"),
    )
    embeddings = {"per-layer embeddings": rows * shape.layers * inner}
    return extra, {"embedding_norm_parameters": inner, "other_parameters": embeddings}


def _reused(fields: Fields, layers: int, default: int) -> list[bool]:
    """True for each of the last ``num_kv_shared_layers``, which have no cache of their own."""
    key = "num_kv_shared_layers"
    shared = fields.integer("shared_cache_layers", key, default=default, low=0)
    if shared >= layers:
        fields.refuse(key, f"{key} = {shared} leaves no layer with a cache of its own")
    return [i >= layers - shared for i in range(layers)]


ALTUP_NORMS: Final = 7
"""Around both parts, behind the low-rank path, before the router, behind the layer's input."""


@family("gemma3n_text")
def gemma3n_text(fields: Fields) -> Architecture:
    """Gemma 3n: as Gemma 3, with several residual streams and a low-rank path beside attention.

    One stream passes the layer; the others are predicted from it and corrected (AltUp). Where
    activations are sparse, products are still dense in engines.

    References:
        Baykal et al. (2023), "Alternating Updates for Efficient Transformers" (arXiv 2301.13310).
    """
    fields.seen |= {"activation_sparsity_pattern", "altup_active_idx", "altup_coef_clip"}
    fields.seen |= {"altup_correct_scale", "altup_lr_multiplier"}
    shape = geometry(fields, kv_heads=2, head_dim=256)
    width, layers = shape.d_model, shape.layers
    size = window_size(fields, 512)
    spans = windows(fields, layers, size=size, sliding=[(i + 1) % 5 != 0 for i in range(layers)])
    mixers = [
        replace(mixer, reuses_kv=reuses, norm_parameters=(1 if reuses else 2) * shape.head_dim)
        for mixer, reuses in zip(attention(shape, spans), _reused(fields, layers, 15), strict=True)
    ]
    neutral(fields, attention_bias=False)
    streams = fields.integer("streams", "altup_num_inputs", default=4, low=2)
    rank = fields.integer("low_rank_path", "laurel_rank", default=64)
    inputs, beside = _layer_inputs(fields, shape)
    extra = (
        *inputs,
        Linear("low-rank-down", rank, width, split="none"),
        Linear("low-rank-up", width, rank, split="none"),
        Linear("stream-router", streams, width, split="none"),
    )
    # Coefficients that predict and correct the streams, and a scale of each channel.
    scales = streams**3 + streams**2 + width
    norms = ALTUP_NORMS if inputs else ALTUP_NORMS - 1
    blocks = [
        Block(
            mixer,
            Mlp(inner, True, activation=activation(fields)),
            norms,
            norms * width,
            extra=extra,
            extra_parameters=scales,
            streams=streams,
        )
        for mixer, inner in zip(mixers, _inner_widths(fields, layers), strict=True)
    ]
    # The other streams are made from the embedding, and turned back before the last norm.
    made = Linear("streams-made", (streams - 1) * width, width, split="none")
    joined = replace(made, name="streams-join")
    blocks[0] = replace(blocks[0], extra=(*blocks[0].extra, made))
    blocks[-1] = replace(blocks[-1], extra=(*blocks[-1].extra, joined))
    return stack(fields, shape, blocks, tied=True, **beside)


def _inner_widths(fields: Fields, layers: int) -> list[int]:
    """``intermediate_size`` of each layer: one for all, or a list. [1]"""
    found = fields.data.get("intermediate_size")
    if not isinstance(found, list):
        return [fields.integer("mlp_width", "intermediate_size", default=16_384)] * layers
    fields.cite("mlp_width", "intermediate_size")
    fields.seen.add("intermediate_size")
    if len(found) != layers or any(type(n) is not int or not 0 < n <= LARGEST for n in found):
        fields.refuse(
            "intermediate_size",
            f"intermediate_size does not have one width for each of {layers} layers",
            "write one whole number, or a list with one per layer",
        )
    return found


def _mixers(fields: Fields, shape: Geometry) -> list[Attention]:
    """Attention of each layer: full ones have wider heads, and may have fewer for keys."""
    wide = fields.integer("global_head_dim", "global_head_dim", default=512)
    same = fields.flag("keys_are_values", "attention_k_eq_v", default=False)
    fewer = fields.optional("global_kv_heads", "num_global_key_value_heads")
    size = window_size(fields, 512)
    local = Attention(shape.heads, shape.kv_heads, shape.head_dim, size)
    full = Attention(
        shape.heads, fewer if fewer and same else shape.kv_heads, wide, keys_are_values=same
    )
    check_groups(fields, "num_global_key_value_heads", full.heads, full.kv_heads)
    slides = [(i + 1) % 6 != 0 for i in range(shape.layers)]
    spans = windows(fields, shape.layers, size=size, sliding=slides)
    # Whatever the list says, the last layer sees everything.
    return [full if span is None else local for span in spans[:-1]] + [full]
