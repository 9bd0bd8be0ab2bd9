"""Vision towers by their configs: parameters, layers, and the tokens that a picture becomes.

Shapes and defaults are those of the ``transformers`` classes of the same names (5.23).
"""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from roofline.model.architecture import Linear
from roofline.model.tower import VisionTower, transformer

Sizes = Mapping[str, int]


class TowerConfig(Struct, frozen=True):
    """A kind of vision tower."""

    sizes: Mapping[str, int | None]
    """Keys of ``vision_config`` it is counted from; default of each, or None."""
    count: Callable[[Sizes, int, int], int]
    """Its parameters, from those sizes, the taps of the deep stack and the model width."""
    shape: Callable[[Sizes, int], VisionTower] | None = None
    """Its layers, from those sizes and the model width; None where it is only counted."""


def encoder_layer(width: int, inner: int) -> int:
    """Four attention matrices, two of the feed-forward part, two norms, biases everywhere."""
    return 4 * (width * width + width) + 2 * width * inner + inner + width + 4 * width


def _gated_layer(width: int, inner: int, bias: bool) -> int:
    """Four attention matrices, three of the feed-forward part, two norms without biases."""
    biases = 4 * width + 2 * inner + width if bias else 0
    return 4 * width * width + 3 * width * inner + biases + 2 * width


def _merger(merged: int, out: int) -> tuple[Linear, ...]:
    """The two matrices that turn merged patches into one token."""
    return Linear("merge", merged, merged), Linear("project", out, merged, split="row")


def _built(
    sizes: Sizes,
    projector: tuple[Linear, ...] = (),
    *,
    width: int,
    layers: int,
    heads: int,
    inner: int,
    channels: int,
    gated: bool = False,
    bias: bool = True,
    **cut: int,
) -> VisionTower:
    """A tower of equal layers over patches of some channels; ``cut`` as in `VisionTower`."""
    patch = sizes["patch_size"]
    blocks = transformer(
        width=width,
        layers=layers,
        heads=heads,
        inner=inner,
        gated=gated,
        bias=bias,
        pixels=channels * patch**2,
    )
    return VisionTower(
        width=width, layers=blocks, projector=projector, patch=patch, heads=heads, **cut
    )


def _siglip_like(
    sizes: Sizes,
    projector: tuple[Linear, ...] = (),
    *,
    gated: bool = False,
    bias: bool = True,
    **cut: int,
) -> VisionTower:
    """A tower whose config has the keys of SigLIP's."""
    return _built(
        sizes,
        projector,
        width=sizes["hidden_size"],
        layers=sizes["num_hidden_layers"],
        heads=sizes["num_attention_heads"],
        inner=sizes["intermediate_size"],
        channels=sizes["num_channels"],
        gated=gated,
        bias=bias,
        **cut,
    )


def _qwen3_vl_tower(sizes: Sizes, taps: int, d_model: int) -> int:
    """Patches, positions, layers, and a merger at the end and at each tap of the deep stack."""
    width, out = sizes["hidden_size"], sizes["out_hidden_size"]
    patch = sizes["in_channels"] * sizes["temporal_patch_size"] * sizes["patch_size"] ** 2
    merged = width * sizes["spatial_merge_size"] ** 2
    merger = merged * merged + merged + merged * out + out
    return (
        patch * width
        + width
        + sizes["num_position_embeddings"] * width
        + sizes["depth"] * encoder_layer(width, sizes["intermediate_size"])
        + (merger + 2 * width)
        + taps * (merger + 2 * merged)
    )


def _qwen3_vl_shape(sizes: Sizes, d_model: int) -> VisionTower:
    width, merge = sizes["hidden_size"], sizes["spatial_merge_size"]
    return _built(
        sizes,
        # One for the end, and one for each tap of the deep stack.
        _merger(width * merge**2, sizes["out_hidden_size"]) * (1 + sizes["deepstack_taps"]),
        width=width,
        layers=sizes["depth"],
        heads=sizes["num_heads"],
        inner=sizes["intermediate_size"],
        channels=sizes["in_channels"] * sizes["temporal_patch_size"],
        merge=merge,
    )


QWEN3_VL_TOWER: Final = TowerConfig(
    {
        "depth": 27,
        "num_heads": 16,
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "in_channels": 3,
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "out_hidden_size": 3584,
        "num_position_embeddings": 2304,
    },
    _qwen3_vl_tower,
    _qwen3_vl_shape,
)


def _siglip_tower(sizes: Sizes, taps: int, d_model: int) -> int:
    """Patches, positions, layers, a last norm; then the norm and matrix into the decoder."""
    width, patch = sizes["hidden_size"], sizes["patch_size"]
    head = width + encoder_layer(width, sizes["intermediate_size"]) - 2 * width
    return (
        sizes["head"] * head
        + sizes["num_channels"] * patch * patch * width
        + width
        + (sizes["image_size"] // patch) ** 2 * width
        + sizes["num_hidden_layers"] * encoder_layer(width, sizes["intermediate_size"])
        + 2 * width
        + (width * d_model + width)
    )


SOFT_TOKENS_ACROSS: Final = 16
"""Tokens of a side that Gemma 3 makes of a picture: ``mm_tokens_per_image`` is 256."""


def _siglip_shape(sizes: Sizes, d_model: int) -> VisionTower:
    """Pictures are scaled to one size; their patches averaged to 256 tokens, whatever the size."""
    across = sizes["image_size"] // sizes["patch_size"]
    return _siglip_like(
        sizes,
        (Linear("project", d_model, sizes["hidden_size"]),),
        merge=max(across // SOFT_TOKENS_ACROSS, 1),
        side=sizes["image_size"],
    )


SIGLIP: Final = TowerConfig(
    {
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "num_channels": 3,
        "image_size": 224,
        "patch_size": 16,
    },
    _siglip_tower,
    _siglip_shape,
)


def _clip_tower(sizes: Sizes, taps: int, d_model: int) -> int:
    """Patches without biases, positions and a class, layers, norms at both ends."""
    width, patch = sizes["hidden_size"], sizes["patch_size"]
    rows = (sizes["image_size"] // patch) ** 2 + 2
    return (
        (sizes["num_channels"] * patch * patch + rows) * width
        + sizes["num_hidden_layers"] * encoder_layer(width, sizes["intermediate_size"])
        + 4 * width
    )


def _clip_shape(sizes: Sizes, d_model: int) -> VisionTower:
    """Pictures are scaled to one size; a class is beside their patches."""
    return _siglip_like(sizes, side=sizes["image_size"], extra=1)


CLIP: Final = TowerConfig({**SIGLIP.sizes, "patch_size": 32}, _clip_tower, _clip_shape)


def _pixtral_tower(sizes: Sizes, taps: int, d_model: int) -> int:
    """Patches, a norm, gated layers; positions are rotations."""
    width = sizes["hidden_size"]
    layer = _gated_layer(width, sizes["intermediate_size"], bias=False)
    patch = sizes["num_channels"] * sizes["patch_size"] ** 2
    return patch * width + width + sizes["num_hidden_layers"] * layer


def _pixtral_shape(sizes: Sizes, d_model: int) -> VisionTower:
    """Patches as many as the picture has; the projector is that of the network around it."""
    return _siglip_like(sizes, gated=True, bias=False)


PIXTRAL: Final = TowerConfig(
    {
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "num_channels": 3,
        "patch_size": 16,
    },
    _pixtral_tower,
    _pixtral_shape,
)


def _llama4_tower(sizes: Sizes, taps: int, d_model: int) -> int:
    """Patches, positions and a class, layers, norms at both ends, two adapters, a projection."""
    width, out = sizes["hidden_size"], sizes["projector_output_dim"]
    patches = (sizes["image_size"] // sizes["patch_size"]) ** 2 + 1
    return (
        sizes["num_channels"] * sizes["patch_size"] ** 2 * width
        + (patches + 1) * width
        + sizes["num_hidden_layers"] * encoder_layer(width, sizes["intermediate_size"])
        + 4 * width
        + sizes["intermediate_size"] * sizes["projector_input_dim"]
        + out * out
        + sizes["vision_output_dim"] * d_model
    )


LLAMA4_TILES: Final = 16
"""Tiles that Llama 4's processor cuts a picture into at most (``max_patches``)."""


def _llama4_shape(sizes: Sizes, d_model: int) -> VisionTower:
    """Tiles of one size with a class each; four patches are shuffled into the channels of one."""
    out = sizes["projector_output_dim"]
    projector = (
        Linear("merge", sizes["projector_input_dim"], sizes["intermediate_size"]),
        Linear("merge-out", out, out, split="row"),
        Linear("project", d_model, sizes["vision_output_dim"], split="none"),
    )
    side = sizes["image_size"]
    return _siglip_like(sizes, projector, merge=2, side=side, tiles=LLAMA4_TILES, extra=1)


LLAMA4_TOWER: Final = TowerConfig(
    {
        "hidden_size": 768,
        "num_attention_heads": 16,
        "num_hidden_layers": 34,
        "num_channels": 3,
        "intermediate_size": 5632,
        "vision_output_dim": 7680,
        "image_size": 448,
        "patch_size": 14,
        "projector_input_dim": 4096,
        "projector_output_dim": 4096,
    },
    _llama4_tower,
    _llama4_shape,
)


def _gemma4_tower(sizes: Sizes, taps: int, d_model: int) -> int:
    """Patches, positions along two axes, layers, a projection; no biases."""
    width, head = sizes["hidden_size"], sizes["head_dim"]
    heads = 2 * sizes["num_attention_heads"] + 2 * sizes["num_key_value_heads"]
    layer = heads * head * width + 3 * width * sizes["intermediate_size"] + 4 * width + 2 * head
    return (
        3 * sizes["patch_size"] ** 2 * width
        + 2 * sizes["position_embedding_size"] * width
        + sizes["num_hidden_layers"] * layer
        + width * d_model
    )


GEMMA4_TOWER: Final = TowerConfig(
    {
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_hidden_layers": 16,
        "num_attention_heads": 12,
        "num_key_value_heads": 12,
        "head_dim": 64,
        "patch_size": 16,
        "position_embedding_size": 10 * 1024,
    },
    _gemma4_tower,
)


def _kimi_tower(sizes: Sizes, taps: int, d_model: int) -> int:
    """Patches, positions, layers, a last norm; then four patches at a time into the decoder."""
    width, merged = sizes["vt_hidden_size"], 4 * sizes["vt_hidden_size"]
    return (
        3 * sizes["patch_size"] ** 2 * width
        + width
        + sizes["init_pos_emb_height"] * sizes["init_pos_emb_width"] * width
        + sizes["vt_num_hidden_layers"] * encoder_layer(width, sizes["vt_intermediate_size"])
        + 2 * width
        + 2 * sizes["mm_hidden_size"]
        + merged * merged
        + merged
        + merged * d_model
        + d_model
    )


def _kimi_shape(sizes: Sizes, d_model: int) -> VisionTower:
    width = sizes["vt_hidden_size"]
    return _built(
        sizes,
        _merger(4 * width, d_model),
        width=width,
        layers=sizes["vt_num_hidden_layers"],
        heads=sizes["vt_num_attention_heads"],
        inner=sizes["vt_intermediate_size"],
        channels=3,
        merge=2,
    )


KIMI_TOWER: Final = TowerConfig(
    {
        "vt_hidden_size": None,
        "vt_intermediate_size": None,
        "vt_num_hidden_layers": None,
        "vt_num_attention_heads": 16,
        "patch_size": None,
        "init_pos_emb_height": None,
        "init_pos_emb_width": None,
        "mm_hidden_size": None,
    },
    _kimi_tower,
    _kimi_shape,
)


def _qwen2_merger(sizes: Sizes, width: int, out: int) -> int:
    """Patches, and the two matrices that turn some of them into one token of the decoder."""
    patch = sizes["in_channels"] * sizes["temporal_patch_size"] * sizes["patch_size"] ** 2
    merged = width * sizes["spatial_merge_size"] ** 2
    return patch * width + merged * merged + merged + merged * out + out


def _qwen2_5_vl_tower(sizes: Sizes, taps: int, d_model: int) -> int:
    """Patches, gated layers, a norm, a merger; positions are rotations."""
    width = sizes["hidden_size"]
    layer = _gated_layer(width, sizes["intermediate_size"], bias=True)
    merger = _qwen2_merger(sizes, width, sizes["out_hidden_size"])
    return merger + sizes["depth"] * layer + width


def _qwen2_vl_tower(sizes: Sizes, taps: int, d_model: int) -> int:
    """Patches, layers, a norm with biases, a merger; the hidden size is the decoder's."""
    width = sizes["embed_dim"]
    layer = encoder_layer(width, width * sizes["mlp_ratio"])
    return _qwen2_merger(sizes, width, sizes["hidden_size"]) + sizes["depth"] * layer + 2 * width


WHOLE: Final = 4
"""Layers of Qwen2.5-VL's tower in which all patches see each other: ``fullatt_block_indexes``."""


def _qwen2_shape(
    sizes: Sizes, width: int, inner: int, out: int, *, gated: bool, squares: int = 0
) -> VisionTower:
    merge = sizes["spatial_merge_size"]
    return _built(
        sizes,
        _merger(width * merge**2, out),
        width=width,
        layers=sizes["depth"],
        heads=sizes["num_heads"],
        inner=inner,
        channels=sizes["in_channels"] * sizes["temporal_patch_size"],
        gated=gated,
        merge=merge,
        squares=squares,
        whole=WHOLE if squares else 0,
    )


def _qwen2_5_vl_shape(sizes: Sizes, d_model: int) -> VisionTower:
    """Patches of a square of ``window_size`` pixels see each other, but in a few layers."""
    window = (sizes["window_size"] // sizes["patch_size"]) ** 2
    inner, out = sizes["intermediate_size"], sizes["out_hidden_size"]
    return _qwen2_shape(sizes, sizes["hidden_size"], inner, out, gated=True, squares=window)


def _qwen2_vl_shape(sizes: Sizes, d_model: int) -> VisionTower:
    width = sizes["embed_dim"]
    return _qwen2_shape(sizes, width, width * sizes["mlp_ratio"], sizes["hidden_size"], gated=False)


QWEN2_PATCHES: Final = {
    "depth": 32,
    "num_heads": 16,
    "in_channels": 3,
    "patch_size": 14,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}

QWEN2_VL_TOWER: Final = TowerConfig(
    {**QWEN2_PATCHES, "embed_dim": 1280, "hidden_size": 3584, "mlp_ratio": 4},
    _qwen2_vl_tower,
    _qwen2_vl_shape,
)

QWEN2_5_VL_TOWER: Final = TowerConfig(
    {
        **QWEN2_PATCHES,
        "hidden_size": 3584,
        "intermediate_size": 3420,
        "out_hidden_size": 3584,
        "window_size": 112,
    },
    _qwen2_5_vl_tower,
    _qwen2_5_vl_shape,
)
