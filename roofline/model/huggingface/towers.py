"""Networks that see, with mixtures of experts or latent attention as decoders.

Shapes and defaults are those of the ``transformers`` classes of the same names (5.23).
"""

from dataclasses import replace
from functools import partial
from typing import Final

from roofline.model.architecture import Architecture
from roofline.model.huggingface.common import family
from roofline.model.huggingface.experts import qwen3_moe
from roofline.model.huggingface.fields import Fields
from roofline.model.huggingface.gemma4 import gemma4_text
from roofline.model.huggingface.hybrid import llama4_text
from roofline.model.huggingface.latent import deepseek
from roofline.model.huggingface.vision import QWEN3_VL, Sizes, Wrapper, encoder_layer, wrapped


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
    tied=False,
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
    tied=False,
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
