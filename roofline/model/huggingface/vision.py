"""Networks that see: the text decoder under a config, and the vision tower beside it."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from msgspec import Struct

from roofline.model.architecture import Architecture, Linear
from roofline.model.huggingface.common import Builder, family
from roofline.model.huggingface.deepseek import deepseek
from roofline.model.huggingface.experts import qwen3_moe
from roofline.model.huggingface.fields import LARGEST, Fields
from roofline.model.huggingface.gemma4 import gemma4_text
from roofline.model.huggingface.hybrid import llama4_text
from roofline.model.huggingface.llama import gemma3_text, llama, mistral, qwen2, qwen3
from roofline.model.huggingface.towers import (
    CLIP,
    GEMMA4_TOWER,
    KIMI_TOWER,
    LLAMA4_TOWER,
    PIXTRAL,
    QWEN2_5_VL_TOWER,
    QWEN2_VL_TOWER,
    QWEN3_VL_TOWER,
    SIGLIP,
    TowerConfig,
)
from roofline.model.tower import Tower, VisionTower
from roofline.records import replace

_TOKENS: Final = """
    image_token_id image_token_index video_token_id vision_start_token_id vision_end_token_id
    boi_token_id boi_token_index eoi_token_id eoi_token_index mm_tokens_per_image
    vision_token_id image_seq_length image_grid_pinpoints ignore_index projector_hidden_act
    vision_feature_select_strategy
"""
TOKENS: Final = frozenset(_TOKENS.split())
"""Ids of tokens around a picture, and how many stand for one, which the prompt's length covers."""


class Wrapper(Struct, frozen=True):
    """A config that has a known decoder under ``text_config``."""

    texts: Mapping[str, Builder]
    """Builder of the decoder by its model type; a decoder that has none is of the first."""
    towers: Mapping[str, TowerConfig] = {}
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
        number, seen = _tower(wrapper, fields, decoder.d_model)
        return replace(decoder, other_parameters=number, towers=seen)
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
    number, seen = _tower(wrapper, fields, decoder.d_model)
    return replace(
        decoder,
        towers=seen,
        model_type=fields.model_type,
        tied_embeddings=fields.flag("tied_embeddings", "tie_word_embeddings", default=tied),
        other_parameters={**decoder.other_parameters, **number},
    )


def _tower(
    wrapper: Wrapper, fields: Fields, d_model: int
) -> tuple[dict[str, int], tuple[Tower, ...]]:
    """Parameters of the vision tower, and its layers, if its config has every size of it."""
    config: Any = fields.data.get("vision_config")
    if not isinstance(config, dict):
        if wrapper.towers:
            fields.notes.append("the config has no vision tower")
        return {}, ()
    tower = wrapper.towers.get(str(config.get("model_type")), wrapper.towers.get(""))
    if tower is None:
        fields.notes.append("the vision tower is left out")
        return {}, ()
    if "in_chans" in config:  # the key of files, not of the class that reads them
        config = {"in_channels": config["in_chans"], **config}
    sizes = {key: config.get(key, default) for key, default in tower.sizes.items()}
    taps = config.get("deepstack_visual_indexes")
    deep = len(taps) if isinstance(taps, list) else 0
    known = {k: v for k, v in sizes.items() if isinstance(v, int) and 0 < v <= LARGEST}
    if len(known) < len(sizes):
        missing = ", ".join(key for key in sizes if key not in known)
        fields.notes.append(f"the vision tower is left out: no {missing} in vision_config")
        return {}, ()
    # SigLIP pools its outputs in a head of its own unless told not to.
    known |= {"deepstack_taps": deep, "head": int(config.get("vision_use_head") is not False)}
    number = tower.count(known, deep, d_model)
    if tower.shape is None:
        fields.notes.append("the vision tower is counted under other parameters, and not costed")
        return {"vision tower": number}, ()
    return {"vision tower": number}, (tower.shape(known, d_model),)


family("qwen3_vl")(partial(wrapped, Wrapper({"qwen3_vl_text": qwen3}, {"": QWEN3_VL_TOWER})))
family("gemma3")(partial(wrapped, Wrapper({"gemma3_text": gemma3_text}, {"": SIGLIP}, tied=True)))

QWEN2_VL: Final = Wrapper({"qwen2_vl_text": qwen2}, {"": QWEN2_VL_TOWER}, flat=True)
QWEN2_5_VL: Final = Wrapper({"qwen2_5_vl_text": qwen2}, {"": QWEN2_5_VL_TOWER}, flat=True)
QWEN3_VL_MOE: Final = Wrapper({"qwen3_vl_moe_text": qwen3_moe}, {"": QWEN3_VL_TOWER})
family("qwen2_vl")(partial(wrapped, QWEN2_VL))
family("qwen2_5_vl")(partial(wrapped, QWEN2_5_VL))
family("qwen3_vl_moe")(partial(wrapped, QWEN3_VL_MOE))
family("llama4")(partial(wrapped, Wrapper({"llama4_text": llama4_text}, {"": LLAMA4_TOWER})))

GEMMA4: Final = Wrapper({"gemma4_text": gemma4_text}, {"": GEMMA4_TOWER}, tied=True)
KIMI_K25: Final = Wrapper({"deepseek_v3": deepseek, "kimi_k2": deepseek}, {"": KIMI_TOWER})


@family("gemma4")
def gemma4(fields: Fields) -> Architecture:
    """Gemma 4, without its audio tower."""
    fields.seen |= {"vision_soft_tokens_per_image", "boa_token_id", "audio_token_id"}
    fields.seen |= {"eoa_token_id", "eoa_token_index"}
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
    projector = (
        *([Linear("merge", width, before * width)] if before else []),
        *(Linear("project", out, width), Linear("project-out", out, out, split="row")),
    )
    seen = tuple(
        replace(tower, merge=merge, projector=projector)
        for tower in body.towers
        if isinstance(tower, VisionTower)
    )
    counted = {**body.other_parameters, "projector": number}
    return replace(body, towers=seen, other_parameters=counted)


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
    return replace(body, towers=(), other_parameters=counted)
