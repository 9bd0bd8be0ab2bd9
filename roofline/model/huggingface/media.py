"""Encoders of pictures by themselves: CLIP, SigLIP, V-MoE.

Shapes and defaults are those of the ``transformers`` config classes of the same names (5.24). An
encoder is one pass over all tokens, so that its throughput is of whole pictures.
"""

from typing import Final

from roofline.model.architecture import Architecture, Block, Moe
from roofline.model.huggingface.common import Geometry, family, stack
from roofline.model.huggingface.fields import Fields
from roofline.model.huggingface.towers import encoder_layer
from roofline.model.tower import transformer
from roofline.records import replace

ALONE: Final = frozenset({"clip_vision_model", "siglip_vision_model"})
INITIAL: Final = frozenset({"logit_scale_init_value", "text_config_dict", "vision_config_dict"})
TEXT: Final = {
    "clip": {"vocab_size": 49408, "hidden_size": 512, "intermediate_size": 2048, "heads": 8},
    "siglip": {"vocab_size": 32000, "hidden_size": 768, "intermediate_size": 3072, "heads": 12},
}
POSITIONS: Final = {"clip": 77, "siglip": 64}


@family("clip", "clip_vision_model", "siglip", "siglip_vision_model")
def picture_encoder(fields: Fields) -> Architecture:
    """CLIP's and SigLIP's encoder of pictures, whose prompt is the patches of one.

    The projection into the space that text shares is the head here. The tower for text is counted
    apart.
    """
    clip = fields.model_type.startswith("clip")
    alone = fields.model_type in ALONE
    own = fields if alone else fields.part("vision_config")
    if not alone and not isinstance(fields.data.get("vision_config"), dict):
        fields.refuse("vision_config", "vision_config is missing or not a mapping")
    fields.seen |= INITIAL | {"vision_config", "text_config", "projection_dim"}
    own.seen |= {"projection_dim", "num_positions"}
    width = own.integer("d_model", "hidden_size", default=768)
    layers = own.integer("layers", "num_hidden_layers", default=12)
    heads = own.integer("heads", "num_attention_heads", default=12)
    inner = own.integer("mlp_width", "intermediate_size", default=3072)
    side = own.integer("image_size", "image_size", default=224)
    patch = own.integer("patch_size", "patch_size", default=32 if clip else 16)
    channels = own.integer("channels", "num_channels", default=3)
    pooled = not clip and own.flag("pooling_head", "vision_use_head", default=True)
    if not alone:
        own.finish()
    _check_heads(fields, "vision_config", width, heads)
    rows = (side // patch) ** 2 + clip
    blocks = _layers(width, layers, heads, inner, channels * patch**2)
    projected = clip and not alone
    out = fields.integer("projection", "projection_dim", default=512) if projected else 1
    # A row of the head is what remains single: CLIP's class, the probe or the bias of SigLIP.
    others = {"pooling head": width + encoder_layer(width, inner) - 3 * width} if pooled else {}
    if not alone:
        others["text tower"] = _text_tower(fields, out if projected else 0)
    fields.notes.append(
        f"an encoder of pictures: a prompt is the {rows} patches of one of {side} × {side} pixels, "
        "and an output token is a picture"
    )
    return stack(
        fields,
        Geometry(width, layers, heads, heads, width // heads, out, rows),
        blocks,
        tied=True,
        position_rows=rows,
        embedding_norm_parameters=(2 * width + width * projected) if clip else width * pooled,
        final_norm_parameters=2 * width,
        causal=False,
        other_parameters=others,
    )


def _check_heads(fields: Fields, key: str, width: int, heads: int) -> None:
    """Refuse a width that does not divide over its heads."""
    if width % heads:
        fields.refuse(key, f"a width of {width} does not divide over {heads} heads")


def _layers(width: int, layers: int, heads: int, inner: int, pixels: int) -> list[Block]:
    """Layers of an encoder, with weights and biases of both norms."""
    made = transformer(width=width, layers=layers, heads=heads, inner=inner, pixels=pixels)
    return [replace(block, norm_parameters=4 * width) for block in made]


def _text_tower(fields: Fields, projection: int) -> int:
    """Parameters of the tower for text, with the scales that compare both. [parameter]"""
    kind = str(fields.model_type)
    given = fields.data.get("text_config") or {}
    known: dict[str, int] = TEXT[kind] | {
        key: value for key, value in given.items() if isinstance(value, int)
    }
    width, inner = known["hidden_size"], known["intermediate_size"]
    depth = known.get("num_hidden_layers", 12)
    positions = known.get("max_position_embeddings", POSITIONS[kind])
    tables = (known["vocab_size"] + positions) * width
    # CLIP projects without a bias, SigLIP inside of its own width with one.
    head = projection * width + 1 if projection else width * width + width + 2
    return tables + depth * encoder_layer(width, inner) + 2 * width + head


@family("vmoe")
def vision_moe(fields: Fields) -> Architecture:
    """V-MoE: a vision transformer with experts in every other layer, and a head of classes.

    Source: Riquelme et al. 2021 (arXiv 2106.05974), section 2; nobody published a config, so that
    the names of its fields are those that other networks use.
    """
    width = fields.integer("d_model", "hidden_size")
    layers = fields.integer("layers", "num_hidden_layers")
    heads = fields.integer("heads", "num_attention_heads")
    _check_heads(fields, "num_attention_heads", width, heads)
    inner = fields.integer("mlp_width", "intermediate_size", default=4 * width)
    side = fields.integer("image_size", "image_size", default=224)
    patch = fields.integer("patch_size", "patch_size", default=16)
    experts = fields.integer("experts", "num_experts", default=32)
    active = fields.integer("active", "num_experts_per_tok", default=2, high=experts)
    every = fields.integer("every", "decoder_sparse_step", default=2, high=layers)
    classes = fields.integer("classes", "num_labels", default=18_291)
    dense = _layers(width, layers, heads, inner, 3 * patch**2)
    mixture = Moe(experts, active, inner, False, True, True, "gelu")
    blocks = [
        replace(block, feedforward=mixture) if place % every == every - 1 else block
        for place, block in enumerate(dense)
    ]
    rows = (side // patch) ** 2 + 1
    fields.notes.append(
        f"an encoder of pictures: a prompt is the {rows} patches of one of {side} × {side} pixels, "
        "and an output token is a picture"
    )
    return stack(
        fields,
        Geometry(width, layers, heads, heads, width // heads, classes, rows),
        blocks,
        tied=True,
        position_rows=rows,
        # The class, and the bias of the patches.
        embedding_norm_parameters=2 * width,
        final_norm_parameters=2 * width,
        head_bias=True,
        causal=False,
        # On the class alone, before the head.
        other_parameters={"pre-logits": width * width + width},
    )
