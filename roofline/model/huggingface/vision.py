"""Networks that see: the text decoder is costed, the vision tower only counted.

Shapes and defaults are those of the ``transformers`` classes of the same names (5.23).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from roofline.model.architecture import Architecture
from roofline.model.huggingface.common import Builder, family
from roofline.model.huggingface.deepseek import deepseek
from roofline.model.huggingface.experts import qwen3_moe
from roofline.model.huggingface.fields import LARGEST, Fields
from roofline.model.huggingface.gemma4 import gemma4_text
from roofline.model.huggingface.hybrid import llama4_text
from roofline.model.huggingface.llama import gemma3_text, qwen3

_TOKENS: Final = """
    image_token_id image_token_index video_token_id vision_start_token_id vision_end_token_id
    boi_token_id boi_token_index eoi_token_id eoi_token_index mm_tokens_per_image
"""
TOKENS: Final = frozenset(_TOKENS.split())
"""Ids of tokens around a picture, and how many stand for one: the prompt's length covers them."""

Sizes = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A config that has a known decoder under ``text_config``."""

    text: Builder
    text_type: str
    """Builder and model type of the decoder."""
    sizes: Mapping[str, int | None] = field(default_factory=dict)
    """Keys of ``vision_config`` the tower is counted from; default of each, or None."""
    tower: Callable[[Sizes, int, int], int] | None = None
    """Its parameters, from those sizes, the taps of the deep stack and the model width; None
    where they are not known."""
    tied: bool = False
    """Default of ``tie_word_embeddings``."""
    other_types: tuple[str, ...] = ()
    """Further model types the decoder may say it is."""


def wrapped(wrapper: Wrapper, fields: Fields) -> Architecture:
    """The decoder under ``text_config``, with the vision tower counted under other parameters."""
    part = fields.data.get("text_config")
    fields.seen.update({"text_config", "vision_config", "dtype", "torch_dtype", *TOKENS})
    if not isinstance(part, dict):
        fields.refuse("text_config", "text_config is missing or not a mapping")
    inner = Fields(
        fields.document, (*fields.path, "text_config"), wrapper.text_type, fields.name, fields
    )
    known = (wrapper.text_type, *wrapper.other_types)
    inner.only("model_type", *known, reason="it is another decoder")
    decoder = wrapper.text(inner)
    inner.finish()
    fields.notes += inner.notes
    tied = wrapper.tied
    if fields.data.get("tie_word_embeddings") is None and "tie_word_embeddings" in part:
        tied = decoder.tied_embeddings
    return replace(
        decoder,
        model_type=fields.model_type,
        tied_embeddings=fields.flag("tied_embeddings", "tie_word_embeddings", default=tied),
        other_parameters={
            **decoder.other_parameters,
            **_count(wrapper, fields, decoder.d_model),
        },
    )


def _count(wrapper: Wrapper, fields: Fields, d_model: int) -> dict[str, int]:
    """Parameters of the vision tower, if its config has every size they follow from."""
    config: Any = fields.data.get("vision_config")
    if not isinstance(config, dict):
        fields.notes.append("the config has no vision tower")
        return {}
    if wrapper.tower is None:
        fields.notes.append("the vision tower is left out")
        return {}
    sizes = {key: config.get(key, default) for key, default in wrapper.sizes.items()}
    known = {k: v for k, v in sizes.items() if isinstance(v, int) and 0 < v <= LARGEST}
    if len(known) < len(sizes):
        missing = ", ".join(key for key in sizes if key not in known)
        fields.notes.append(f"the vision tower is left out: no {missing} in vision_config")
        return {}
    taps = config.get("deepstack_visual_indexes")
    fields.notes.append("the vision tower is counted under other parameters, and not costed")
    return {
        "vision tower": wrapper.tower(known, len(taps) if isinstance(taps, list) else 0, d_model)
    }


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
    return (
        sizes["num_channels"] * patch * patch * width
        + width
        + (sizes["image_size"] // patch) ** 2 * width
        + sizes["num_hidden_layers"] * encoder_layer(width, sizes["intermediate_size"])
        + 2 * width
        + (width * d_model + width)
    )


QWEN3_VL: Final = Wrapper(
    text=qwen3,
    text_type="qwen3_vl_text",
    sizes={
        "depth": 27,
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "in_channels": 3,
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "out_hidden_size": 3584,
        "num_position_embeddings": 2304,
    },
    tower=_qwen3_vl_tower,
)
GEMMA3: Final = Wrapper(
    text=gemma3_text,
    text_type="gemma3_text",
    sizes={
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_hidden_layers": 12,
        "num_channels": 3,
        "image_size": 224,
        "patch_size": 16,
    },
    tower=_siglip_tower,
    tied=True,
)

family("qwen3_vl")(partial(wrapped, QWEN3_VL))
family("gemma3")(partial(wrapped, GEMMA3))


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


QWEN3_VL_MOE: Final = replace(QWEN3_VL, text=qwen3_moe, text_type="qwen3_vl_moe_text")
LLAMA4: Final = Wrapper(
    text=llama4_text,
    text_type="llama4_text",
    sizes={
        "hidden_size": 768,
        "num_hidden_layers": 34,
        "num_channels": 3,
        "intermediate_size": 5632,
        "vision_output_dim": 7680,
        "image_size": 448,
        "patch_size": 14,
        "projector_input_dim": 4096,
        "projector_output_dim": 4096,
    },
    tower=_llama4_tower,
)
GEMMA4: Final = Wrapper(
    text=gemma4_text,
    text_type="gemma4_text",
    sizes={
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_hidden_layers": 16,
        "num_attention_heads": 12,
        "num_key_value_heads": 12,
        "head_dim": 64,
        "patch_size": 16,
        "position_embedding_size": 10 * 1024,
    },
    tower=_gemma4_tower,
    tied=True,
)
KIMI_K25: Final = Wrapper(
    text=deepseek,
    text_type="deepseek_v3",
    sizes={
        "vt_hidden_size": None,
        "vt_intermediate_size": None,
        "vt_num_hidden_layers": None,
        "patch_size": None,
        "init_pos_emb_height": None,
        "init_pos_emb_width": None,
        "mm_hidden_size": None,
    },
    tower=_kimi_tower,
    other_types=("kimi_k2",),
)


@family("gemma4")
def gemma4(fields: Fields) -> Architecture:
    """Gemma 4, without its audio tower."""
    fields.seen |= {"vision_soft_tokens_per_image", "boa_token_id"}
    fields.seen |= {"audio_token_id", "eoa_token_id", "eoa_token_index"}
    if fields.data.get("audio_config"):
        fields.seen.add("audio_config")
        fields.notes.append("the audio tower is left out")
    return wrapped(GEMMA4, fields)


@family("kimi_k25")
def kimi_k25(fields: Fields) -> Architecture:
    """Kimi K2.5: DeepSeek's decoder, and a tower that hands on four patches at a time."""
    fields.seen |= {"media_placeholder_token_id", "ignore_index", "use_unified_vision_chunk"}
    part = fields.data.get("vision_config")
    if isinstance(part, dict) and part.get("merge_kernel_size", [2, 2]) != [2, 2]:
        fields.refuse("vision_config", "patches are not merged two by two")
    return wrapped(KIMI_K25, fields)


family("qwen3_vl_moe")(partial(wrapped, QWEN3_VL_MOE))
family("llama4")(partial(wrapped, LLAMA4))
