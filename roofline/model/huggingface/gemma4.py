"""Gemma 4: wide heads in layers that see everything, caches that layers share, inputs per layer.

Shapes and defaults are those of the ``transformers`` config class of the same name (5.23).
"""

from dataclasses import replace
from typing import Any, Final

from roofline.model.architecture import Architecture, Attention, Block, FeedForward, Linear
from roofline.model.huggingface.common import (
    Geometry,
    check_groups,
    family,
    gated,
    geometry,
    neutral,
    stack,
)
from roofline.model.huggingface.fields import Fields
from roofline.model.huggingface.layers import window_size, windows
from roofline.model.huggingface.routing import routed

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
    layers = shape.layers
    shared = fields.integer("shared_cache_layers", "num_kv_shared_layers", default=0, low=0)
    if shared >= layers:
        fields.refuse("num_kv_shared_layers", "no layer is left that has a cache of its own")
    reused = [i >= layers - shared for i in range(layers)]
    mixers = [
        replace(
            mixer,
            reuses_kv=reuses,
            norm_parameters=(1 if reuses else 2) * mixer.head_dim,
        )
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
    inner = fields.integer("layer_input_width", "hidden_size_per_layer_input", default=256, low=0)
    rows = fields.integer("layer_input_vocab", "vocab_size_per_layer_input", default=262_144, low=0)
    # A small embedding of each token for each layer, projected in beside the residual stream.
    extra: tuple[Linear, ...] = ()
    beside: dict[str, Any] = {}
    if inner:
        norms += 1
        extra = (
            Linear("layer-input", inner, width, split="none"),
            Linear("layer-gate", inner, width, split="none"),
            Linear("layer-projection", width, inner, split="none"),
        )
        beside["embedding_norm_parameters"] = inner
        beside["other_parameters"] = {"per-layer embeddings": rows * layers * inner}
    blocks = [
        Block(mixer, part, norms, norms * width, extra=extra, extra_parameters=scales)
        for mixer, part in zip(mixers, feedforward, strict=True)
    ]
    body = stack(fields, shape, blocks, tied=True, **beside)
    if inner:
        fields.notes.append(
            "per-layer embeddings are looked up, not multiplied: counted under other parameters"
        )
    return body


def _mixers(fields: Fields, shape: Geometry) -> list[Attention]:
    """Attention of each layer: full ones have wider heads, and may have fewer for keys."""
    wide = fields.integer("global_head_dim", "global_head_dim", default=512)
    same = fields.flag("keys_are_values", "attention_k_eq_v", default=False)
    fewer = fields.optional("global_kv_heads", "num_global_key_value_heads")
    size = window_size(fields, 512)
    local = Attention(shape.heads, shape.kv_heads, shape.head_dim, size)
    full = Attention(
        shape.heads,
        fewer if fewer and same else shape.kv_heads,
        wide,
        keys_are_values=same,
    )
    check_groups(fields, "num_global_key_value_heads", full.heads, full.kv_heads)
    slides = [(i + 1) % 6 != 0 for i in range(shape.layers)]
    spans = windows(fields, shape.layers, size=size, sliding=slides)
    # Whatever the list says, the last layer sees everything.
    return [full if span is None else local for span in spans[:-1]] + [full]
