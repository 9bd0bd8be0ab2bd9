"""Rotary decoders with a gated feed-forward part: Llama and its many relatives.

Shapes and defaults are those of the ``transformers`` config classes of the same names (5.23).
"""

from typing import Final

from roofline.model.architecture import Architecture
from roofline.model.huggingface.common import assemble, attention, family, gated, geometry, neutral
from roofline.model.huggingface.fields import Fields
from roofline.model.huggingface.windows import every_layer, every_nth_full, late_windows, no_windows


@family("llama", "granite")
def llama(fields: Fields) -> Architecture:
    """Llama 1 to 3, Vicuna, Yi, TinyLlama, DeepSeek-LLM; Granite differs in multipliers only."""
    shape = geometry(fields)
    bias = fields.flag("attention_bias", "attention_bias", default=False)
    mlp = gated(fields, bias=fields.flag("mlp_bias", "mlp_bias", default=False))
    mixers = attention(shape, no_windows(fields, shape.layers), qkv_bias=bias, out_bias=bias)
    return assemble(fields, shape, mixers, mlp)


@family("mistral")
def mistral(fields: Fields) -> Architecture:
    """Mistral: ``sliding_window`` holds in every layer, null means none.

    The config class has 4096 where the key is absent, but every published file writes the key;
    a file without it is one from which the nulls were dropped, so absent means none here.
    """
    shape = geometry(fields, kv_heads=8)
    if "sliding_window" not in fields.data:
        fields.notes.append("the config has no sliding_window: every layer sees the whole context")
    mixers = attention(shape, every_layer(fields, shape.layers))
    return assemble(fields, shape, mixers, gated(fields))


@family("qwen2")
def qwen2(fields: Fields) -> Architecture:
    """Qwen 1.5 to 2.5: biases on q, k and v only."""
    shape = geometry(fields, kv_heads=32)
    mixers = attention(shape, late_windows(fields, shape.layers), qkv_bias=True)
    return assemble(fields, shape, mixers, gated(fields))


@family("qwen3")
def qwen3(fields: Fields) -> Architecture:
    """Qwen 3: a norm over each head of q and k, no biases."""
    shape = geometry(fields, kv_heads=32, head_dim=128)
    bias = fields.flag("attention_bias", "attention_bias", default=False)
    mixers = attention(
        shape,
        late_windows(fields, shape.layers),
        qkv_bias=bias,
        out_bias=bias,
        norm=2 * shape.head_dim,
    )
    return assemble(fields, shape, mixers, gated(fields))


@family("gemma")
def gemma(fields: Fields) -> Architecture:
    """Gemma: heads of 256 whatever the width."""
    neutral(fields, use_bidirectional_attention=False)
    shape = geometry(fields, kv_heads=16, head_dim=256)
    bias = fields.flag("attention_bias", "attention_bias", default=False)
    mixers = attention(shape, no_windows(fields, shape.layers), qkv_bias=bias, out_bias=bias)
    return assemble(fields, shape, mixers, gated(fields), tied=True)


@family("gemma2")
def gemma2(fields: Fields) -> Architecture:
    """Gemma 2: norms before and after both parts; layers 0, 2, 4 … slide."""
    neutral(fields, use_bidirectional_attention=False)
    shape = geometry(fields, kv_heads=4, head_dim=256)
    bias = fields.flag("attention_bias", "attention_bias", default=False)
    spans = every_nth_full(fields, shape.layers, pattern=2, default=4096)
    mixers = attention(shape, spans, qkv_bias=bias, out_bias=bias)
    mlp = gated(fields)
    return assemble(fields, shape, mixers, mlp, tied=True, norms=4)


GEMMA3_TEXT: Final = {
    "d_model": 2304,
    "layers": 26,
    "heads": 8,
    "vocab": 262_208,
    "context": 131_072,
}


@family("gemma3_text")
def gemma3_text(fields: Fields) -> Architecture:
    """Gemma 3: as Gemma 2, with a norm over each head of q and k; every sixth layer is full."""
    neutral(fields, use_bidirectional_attention=False)
    # Published Gemma 3 configs nest this part, and leave out what is at its default.
    defaults = GEMMA3_TEXT if fields.nested else {}
    shape = geometry(fields, kv_heads=4, head_dim=256, defaults=defaults)
    bias = fields.flag("attention_bias", "attention_bias", default=False)
    spans = every_nth_full(fields, shape.layers, pattern=6, default=4096)
    mixers = attention(shape, spans, qkv_bias=bias, out_bias=bias, norm=2 * shape.head_dim)
    mlp = gated(fields, default=9216 if fields.nested else None)
    return assemble(fields, shape, mixers, mlp, tied=True, norms=4)
