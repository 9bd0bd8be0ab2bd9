"""Networks that see: the text decoder is costed, the vision tower only counted.

Shapes and defaults are those of the ``transformers`` classes of the same names (5.23).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from roofline.model.architecture import Architecture
from roofline.model.huggingface.common import Builder, family
from roofline.model.huggingface.fields import LARGEST, Fields
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
    sizes: Mapping[str, int | None]
    """Keys of ``vision_config`` the tower is counted from; default of each, or None."""
    tower: Callable[[Sizes, int, int], int] | None
    """Its parameters, from those sizes, the taps of the deep stack and the model width; None
    where they are not known."""
    tied: bool
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
    fields.provenance.update(inner.provenance)
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
    tied=False,
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
