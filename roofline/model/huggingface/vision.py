"""Networks that see: the text decoder, and the tower that pictures pass.

Shapes and defaults are those of the ``transformers`` classes of the same names (5.23).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from roofline.model.architecture import Architecture, Block, Linear
from roofline.model.huggingface.common import Builder, family
from roofline.model.huggingface.deepseek import deepseek
from roofline.model.huggingface.experts import qwen3_moe
from roofline.model.huggingface.fields import LARGEST, Fields
from roofline.model.huggingface.gemma4 import gemma3n_text, gemma4_text
from roofline.model.huggingface.hybrid import llama4_text
from roofline.model.huggingface.llama import gemma3_text, llama, mistral, qwen2, qwen3
from roofline.model.tower import Tower, transformer

_TOKENS: Final = """
    image_token_id image_token_index video_token_id vision_start_token_id vision_end_token_id
    boi_token_id boi_token_index eoi_token_id eoi_token_index mm_tokens_per_image
    vision_token_id image_seq_length image_grid_pinpoints ignore_index projector_hidden_act
    vision_feature_select_strategy
"""
TOKENS: Final = frozenset(_TOKENS.split())
"""Ids of tokens around a picture, and how many stand for one, which the prompt's length covers."""

Sizes = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class TowerConfig:
    """A kind of vision tower."""

    sizes: Mapping[str, int | None]
    """Keys of ``vision_config`` it is counted from; default of each, or None."""
    count: Callable[[Sizes, int, int], int]
    """Its parameters, from those sizes, the taps of the deep stack and the model width."""
    shape: Callable[[Sizes, int], Tower] | None = None
    """Its layers, from those sizes and the model width; None where it is only counted."""


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A config that has a known decoder under ``text_config``."""

    texts: Mapping[str, Builder]
    """Builder of the decoder by its model type; a decoder that has none is of the first."""
    towers: Mapping[str, TowerConfig] = field(default_factory=dict)
    """Vision towers by their model type; the one under ``""`` stands for every other."""
    tied: bool = False
    """Default of ``tie_word_embeddings``."""
    flat: bool = False
    """True if a config without ``text_config`` has the decoder's fields among its own."""


def wrapped(wrapper: Wrapper, fields: Fields) -> Architecture:
    """The decoder under ``text_config``, with the vision tower counted under other parameters."""
    part = fields.data.get("text_config")
    fields.seen.update({"text_config", "vision_config", "dtype", "torch_dtype", *TOKENS})
    first = next(iter(wrapper.texts))
    if part is None and wrapper.flat:
        decoder = wrapper.texts[first](fields)
        number, tower = _tower(wrapper, fields, decoder.d_model)
        return replace(decoder, other_parameters=number, tower=tower)
    if not isinstance(part, dict):
        fields.refuse("text_config", "text_config is missing or not a mapping")
    kind = part.get("model_type")
    known = kind if isinstance(kind, str) and kind in wrapper.texts else first
    inner = replace(fields.part("text_config"), model_type=known)
    inner.only("model_type", *wrapper.texts, reason="it is another decoder")
    decoder = wrapper.texts[inner.model_type](inner)
    inner.finish()
    fields.notes += inner.notes
    # Some files repeat the decoder's fields at the top.
    fields.seen |= {key for key, value in part.items() if fields.data.get(key) == value}
    tied = wrapper.tied
    if fields.data.get("tie_word_embeddings") is None and "tie_word_embeddings" in part:
        tied = decoder.tied_embeddings
    number, tower = _tower(wrapper, fields, decoder.d_model)
    return replace(
        decoder,
        tower=tower,
        model_type=fields.model_type,
        tied_embeddings=fields.flag("tied_embeddings", "tie_word_embeddings", default=tied),
        other_parameters={**decoder.other_parameters, **number},
    )


def _tower(wrapper: Wrapper, fields: Fields, d_model: int) -> tuple[dict[str, int], Tower | None]:
    """Parameters of the vision tower, and its layers, if its config has every size of it."""
    config: Any = fields.data.get("vision_config")
    if not isinstance(config, dict):
        fields.notes.append("the config has no vision tower")
        return {}, None
    tower = wrapper.towers.get(str(config.get("model_type")), wrapper.towers.get(""))
    if tower is None:
        fields.notes.append("the vision tower is left out")
        return {}, None
    sizes = {key: config.get(key, default) for key, default in tower.sizes.items()}
    taps = config.get("deepstack_visual_indexes")
    deep = len(taps) if isinstance(taps, list) else 0
    known = {k: v for k, v in sizes.items() if isinstance(v, int) and 0 < v <= LARGEST}
    if len(known) < len(sizes):
        missing = ", ".join(key for key in sizes if key not in known)
        fields.notes.append(f"the vision tower is left out: no {missing} in vision_config")
        return {}, None
    # SigLIP pools its outputs in a head of its own unless told not to.
    known |= {"deepstack_taps": deep, "head": int(config.get("vision_use_head") is not False)}
    number = tower.count(known, deep, d_model)
    if tower.shape is None:
        fields.notes.append("the vision tower is counted under other parameters, and not costed")
        return {"vision tower": number}, None
    return {"vision tower": number}, tower.shape(known, d_model)


def encoder_layer(width: int, inner: int) -> int:
    """Four attention matrices, two of the feed-forward part, two norms, biases everywhere."""
    return 4 * (width * width + width) + 2 * width * inner + inner + width + 4 * width


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


def _merger(merged: int, out: int) -> tuple[Linear, ...]:
    """The two matrices that turn merged patches into one token."""
    return Linear("merge", merged, merged), Linear("project", out, merged, split="row")


def _qwen3_vl_shape(sizes: Sizes, d_model: int) -> Tower:
    width, merge = sizes["hidden_size"], sizes["spatial_merge_size"]
    return Tower(
        width,
        transformer(
            width=width,
            layers=sizes["depth"],
            heads=sizes["num_heads"],
            inner=sizes["intermediate_size"],
            pixels=sizes["in_channels"] * sizes["temporal_patch_size"] * sizes["patch_size"] ** 2,
        ),
        # One for the end, and one for each tap of the deep stack.
        _merger(width * merge**2, sizes["out_hidden_size"]) * (1 + sizes["deepstack_taps"]),
        patch=sizes["patch_size"],
        heads=sizes["num_heads"],
        merge=merge,
    )


def _siglip_layers(sizes: Sizes) -> tuple[Block, ...]:
    return transformer(
        width=sizes["hidden_size"],
        layers=sizes["num_hidden_layers"],
        heads=sizes["num_attention_heads"],
        inner=sizes["intermediate_size"],
        pixels=sizes["num_channels"] * sizes["patch_size"] ** 2,
    )


def _siglip_shape(sizes: Sizes, d_model: int) -> Tower:
    """Pictures are scaled to one size; their patches averaged to 256 tokens, whatever the size."""
    width, across = sizes["hidden_size"], sizes["image_size"] // sizes["patch_size"]
    return Tower(
        width,
        _siglip_layers(sizes),
        (Linear("project", d_model, width),),
        patch=sizes["patch_size"],
        heads=sizes["num_attention_heads"],
        merge=max(across // SOFT_TOKENS_ACROSS, 1),
        side=sizes["image_size"],
    )


SOFT_TOKENS_ACROSS: Final = 16
"""Tokens of a side that Gemma 3 makes of a picture: ``mm_tokens_per_image`` is 256."""


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

family("qwen3_vl")(partial(wrapped, Wrapper({"qwen3_vl_text": qwen3}, {"": QWEN3_VL_TOWER})))
family("gemma3")(partial(wrapped, Wrapper({"gemma3_text": gemma3_text}, {"": SIGLIP}, tied=True)))


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


def _llama4_shape(sizes: Sizes, d_model: int) -> Tower:
    """Tiles of one size with a class each; four patches are shuffled into the channels of one."""
    inner, out = sizes["intermediate_size"], sizes["projector_output_dim"]
    return Tower(
        sizes["hidden_size"],
        _siglip_layers(sizes),
        (
            Linear("merge", sizes["projector_input_dim"], inner),
            Linear("merge-out", out, out, split="row"),
            Linear("project", d_model, sizes["vision_output_dim"], split="none"),
        ),
        patch=sizes["patch_size"],
        heads=sizes["num_attention_heads"],
        merge=2,
        side=sizes["image_size"],
        tiles=LLAMA4_TILES,
        extra=1,
    )


LLAMA4_TILES: Final = 16
"""Tiles that Llama 4's processor cuts a picture into at most (``max_patches``)."""


def _kimi_shape(sizes: Sizes, d_model: int) -> Tower:
    width = sizes["vt_hidden_size"]
    return Tower(
        width,
        transformer(
            width=width,
            layers=sizes["vt_num_hidden_layers"],
            heads=sizes["vt_num_attention_heads"],
            inner=sizes["vt_intermediate_size"],
            pixels=3 * sizes["patch_size"] ** 2,
        ),
        _merger(4 * width, d_model),
        patch=sizes["patch_size"],
        heads=sizes["vt_num_attention_heads"],
        merge=2,
    )


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
GEMMA4: Final = Wrapper(
    {"gemma4_text": gemma4_text},
    {
        "": TowerConfig(
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
    },
    tied=True,
)
KIMI_K25: Final = Wrapper(
    {"deepseek_v3": deepseek, "kimi_k2": deepseek},
    {
        "": TowerConfig(
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
    },
)


GEMMA3N: Final = Wrapper({"gemma3n_text": gemma3n_text}, tied=True)


@family("gemma4", "gemma3n")
def gemma4(fields: Fields) -> Architecture:
    """Gemma 4 and 3n, without their audio towers; 3n without the convolutions that see, either."""
    fields.seen |= {"vision_soft_tokens_per_image", "audio_soft_tokens_per_image", "boa_token_id"}
    fields.seen |= {"audio_token_id", "eoa_token_id", "eoa_token_index"}
    if fields.data.get("audio_config"):
        fields.seen.add("audio_config")
        fields.notes.append("the audio tower is left out")
    return wrapped(GEMMA4 if fields.model_type == "gemma4" else GEMMA3N, fields)


@family("kimi_k25")
def kimi_k25(fields: Fields) -> Architecture:
    """Kimi K2.5: DeepSeek's decoder, and a tower that hands on four patches at a time."""
    fields.seen |= {"media_placeholder_token_id", "ignore_index", "use_unified_vision_chunk"}
    part = fields.data.get("vision_config")
    if isinstance(part, dict) and part.get("merge_kernel_size", [2, 2]) != [2, 2]:
        fields.refuse("vision_config", "patches are not merged two by two")
    return wrapped(KIMI_K25, fields)


QWEN3_VL_MOE: Final = Wrapper({"qwen3_vl_moe_text": qwen3_moe}, {"": QWEN3_VL_TOWER})
family("qwen3_vl_moe")(partial(wrapped, QWEN3_VL_MOE))
family("llama4")(partial(wrapped, Wrapper({"llama4_text": llama4_text}, {"": LLAMA4_TOWER})))


def _gated_layer(width: int, inner: int, bias: bool) -> int:
    """Four attention matrices, three of the feed-forward part, two norms without biases."""
    biases = 4 * width + 2 * inner + width if bias else 0
    return 4 * width * width + 3 * width * inner + biases + 2 * width


def _qwen2_merger(sizes: Sizes, width: int, out: int) -> int:
    """Patches, and the two matrices that turn some of them into one token of the decoder."""
    patch = sizes["in_chans"] * sizes["temporal_patch_size"] * sizes["patch_size"] ** 2
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


def _qwen2_shape(
    sizes: Sizes, width: int, inner: int, out: int, *, gated: bool, squares: int = 0
) -> Tower:
    merge = sizes["spatial_merge_size"]
    return Tower(
        width,
        transformer(
            width=width,
            layers=sizes["depth"],
            heads=sizes["num_heads"],
            inner=inner,
            gated=gated,
            pixels=sizes["in_chans"] * sizes["temporal_patch_size"] * sizes["patch_size"] ** 2,
        ),
        _merger(width * merge**2, out),
        patch=sizes["patch_size"],
        merge=merge,
        heads=sizes["num_heads"],
        squares=squares,
        whole=WHOLE if squares else 0,
    )


WHOLE: Final = 4
"""Layers of Qwen2.5-VL's tower in which all patches see each other: ``fullatt_block_indexes``."""


def _qwen2_5_vl_shape(sizes: Sizes, d_model: int) -> Tower:
    """Patches of a square of ``window_size`` pixels see each other, but in a few layers."""
    window = (sizes["window_size"] // sizes["patch_size"]) ** 2
    inner, out = sizes["intermediate_size"], sizes["out_hidden_size"]
    return _qwen2_shape(sizes, sizes["hidden_size"], inner, out, gated=True, squares=window)


def _qwen2_vl_shape(sizes: Sizes, d_model: int) -> Tower:
    width = sizes["embed_dim"]
    return _qwen2_shape(sizes, width, width * sizes["mlp_ratio"], sizes["hidden_size"], gated=False)


QWEN2_PATCHES: Final = {
    "depth": 32,
    "num_heads": 16,
    "in_chans": 3,
    "patch_size": 14,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}
QWEN2_VL: Final = Wrapper(
    {"qwen2_vl_text": qwen2},
    {
        "": TowerConfig(
            {**QWEN2_PATCHES, "embed_dim": 1280, "hidden_size": 3584, "mlp_ratio": 4},
            _qwen2_vl_tower,
            _qwen2_vl_shape,
        )
    },
    flat=True,
)
QWEN2_5_VL: Final = Wrapper(
    {"qwen2_5_vl_text": qwen2},
    {
        "": TowerConfig(
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
    },
    flat=True,
)
family("qwen2_vl")(partial(wrapped, QWEN2_VL))
family("qwen2_5_vl")(partial(wrapped, QWEN2_5_VL))


def _pixtral_tower(sizes: Sizes, taps: int, d_model: int) -> int:
    """Patches, a norm, gated layers; positions are rotations."""
    width = sizes["hidden_size"]
    layer = _gated_layer(width, sizes["intermediate_size"], bias=False)
    patch = sizes["num_channels"] * sizes["patch_size"] ** 2
    return patch * width + width + sizes["num_hidden_layers"] * layer


def _clip_tower(sizes: Sizes, taps: int, d_model: int) -> int:
    """Patches without biases, positions and a class, layers, norms at both ends."""
    width, patch = sizes["hidden_size"], sizes["patch_size"]
    rows = (sizes["image_size"] // patch) ** 2 + 2
    return (
        (sizes["num_channels"] * patch * patch + rows) * width
        + sizes["num_hidden_layers"] * encoder_layer(width, sizes["intermediate_size"])
        + 4 * width
    )


def _pixtral_shape(sizes: Sizes, d_model: int) -> Tower:
    """Patches as many as the picture has; the projector is that of the network around it."""
    width = sizes["hidden_size"]
    return Tower(
        width,
        transformer(
            width=width,
            layers=sizes["num_hidden_layers"],
            heads=sizes["num_attention_heads"],
            inner=sizes["intermediate_size"],
            gated=True,
            bias=False,
            pixels=sizes["num_channels"] * sizes["patch_size"] ** 2,
        ),
        (),
        patch=sizes["patch_size"],
        heads=sizes["num_attention_heads"],
    )


def _clip_shape(sizes: Sizes, d_model: int) -> Tower:
    """Pictures are scaled to one size; a class is beside their patches."""
    return Tower(
        sizes["hidden_size"],
        _siglip_layers(sizes),
        (),
        patch=sizes["patch_size"],
        heads=sizes["num_attention_heads"],
        side=sizes["image_size"],
        extra=1,
    )


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
CLIP: Final = TowerConfig({**SIGLIP.sizes, "patch_size": 32}, _clip_tower, _clip_shape)
MISTRAL3: Final = Wrapper({"mistral": mistral, "ministral3": mistral}, {"pixtral": PIXTRAL})
LLAVA: Final = Wrapper(
    {"llama": llama, "mistral": mistral, "qwen2": qwen2},
    {"pixtral": PIXTRAL, "clip_vision_model": CLIP},
)


def _projected(fields: Fields, body: Architecture, bias: bool, before: int = 0) -> Architecture:
    """A network whose tower is followed by two matrices into the decoder.

    Args:
        fields, body: The config; the network with its tower.
        bias: Whether the matrices have biases where ``multimodal_projector_bias`` is absent.
        before: Patches that are first merged into one; 0 without that and its norm. [1]
    """
    fields.only("vision_feature_layer", -1, -2, reason="several layers may be joined")
    biased = fields.flag("projector_bias", "multimodal_projector_bias", default=bias)
    if "vision tower" not in body.other_parameters:
        return body
    vision, out = fields.data["vision_config"], body.d_model
    kind = LLAVA.towers[vision["model_type"]]
    width = vision.get("hidden_size", kind.sizes["hidden_size"])
    merger = before * width * width + width if before else 0
    number = merger + (width + out) * out + 2 * out * biased
    merge = math.isqrt(before) if before else 1
    seen = body.tower and replace(
        body.tower,
        merge=merge,
        projector=(
            *([Linear("merge", width, before * width)] if before else []),
            *(Linear("project", out, width), Linear("project-out", out, out, split="row")),
        ),
    )
    counted = {**body.other_parameters, "projector": number}
    return replace(body, tower=seen, other_parameters=counted)


@family("mistral3")
def mistral3(fields: Fields) -> Architecture:
    """Mistral Small 3.1 and later, Ministral 3: Pixtral's tower, patches merged by squares."""
    side = fields.integer("merged_patches", "spatial_merge_size", default=2)
    return _projected(fields, wrapped(MISTRAL3, fields), bias=False, before=side * side)


@family("llava", "llava_next")
def llava(fields: Fields) -> Architecture:
    """LLaVA 1.5 and 1.6, Pixtral: a decoder that was there before, and a projector into it."""
    body = _projected(fields, wrapped(LLAVA, fields), bias=True)
    fields.seen.add("use_image_newline_parameter")
    if fields.model_type == "llava" or "projector" not in body.other_parameters:
        return body
    # Rows of patches end with a vector that is learned; how pictures are cut is not modelled.
    counted = {**body.other_parameters, "line end": body.d_model}
    return replace(body, tower=None, other_parameters=counted)
