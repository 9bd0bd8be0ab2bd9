"""Rotary decoders: Llama, and its relatives with other norms, biases or order of their parts.

Shapes and defaults are those of the ``transformers`` config classes of the same names (5.23).
"""

from typing import Final

from roofline.model.architecture import Architecture
from roofline.model.huggingface.common import (
    biases,
    decoder,
    family,
    gated,
    geometry,
    neutral,
    ungated,
)
from roofline.model.huggingface.fields import Fields
from roofline.model.huggingface.layers import (
    every_layer,
    every_nth_full,
    late_windows,
    window_size,
    windows,
)


@family("llama", "granite")
def llama(fields: Fields) -> Architecture:
    """Llama 1 to 3, Vicuna, Yi, TinyLlama, DeepSeek-LLM; Granite differs in multipliers only."""
    mlp = gated(fields, bias=fields.flag("mlp_bias", "mlp_bias", default=False))
    return decoder(fields, geometry(fields), mlp, **biases(fields))


@family("mistral")
def mistral(fields: Fields) -> Architecture:
    """Mistral: ``sliding_window`` holds in every layer, null means none.

    The config class has 4096 where the key is absent, but every published file writes the key;
    a file without it is one from which the nulls were dropped, so absent means none here.
    """
    shape = geometry(fields, kv_heads=8)
    if "sliding_window" not in fields.data:
        fields.notes.append("the config has no sliding_window: every layer sees the whole context")
    return decoder(fields, shape, spans=every_layer(fields, shape.layers))


@family("qwen2")
def qwen2(fields: Fields) -> Architecture:
    """Qwen 1.5 to 2.5: biases on q, k and v only."""
    shape = geometry(fields, kv_heads=32)
    return decoder(fields, shape, spans=late_windows(fields, shape.layers), qkv_bias=True)


@family("qwen3")
def qwen3(fields: Fields) -> Architecture:
    """Qwen 3: a norm over each head of q and k, no biases."""
    shape = geometry(fields, kv_heads=32, head_dim=128)
    spans, norm = late_windows(fields, shape.layers), 2 * shape.head_dim
    return decoder(fields, shape, spans=spans, **biases(fields), norm=norm)


@family("gemma")
def gemma(fields: Fields) -> Architecture:
    """Gemma: heads of 256 whatever the width."""
    neutral(fields, use_bidirectional_attention=False)
    shape = geometry(fields, kv_heads=16, head_dim=256)
    return decoder(fields, shape, **biases(fields), tied=True)


@family("gemma2")
def gemma2(fields: Fields) -> Architecture:
    """Gemma 2: norms before and after both parts; layers 0, 2, 4 … slide."""
    neutral(fields, use_bidirectional_attention=False)
    shape = geometry(fields, kv_heads=4, head_dim=256)
    spans = every_nth_full(fields, shape.layers, pattern=2)
    return decoder(fields, shape, spans=spans, **biases(fields), tied=True, norms=4)


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
    spans = every_nth_full(fields, shape.layers, pattern=6)
    mlp, norm = gated(fields, default=9216 if fields.nested else None), 2 * shape.head_dim
    return decoder(fields, shape, mlp, spans=spans, **biases(fields), norm=norm, tied=True, norms=4)


@family("phi3")
def phi3(fields: Fields) -> Architecture:
    """Phi 3 and 4: no biases; ``sliding_window`` holds in every layer."""
    neutral(fields, lm_head_bias=False, attention_bias=False, mlp_bias=False, full_attn_mod=1)
    fields.seen.add("interpolate_factor")
    shape = geometry(fields)
    return decoder(fields, shape, spans=every_layer(fields, shape.layers))


@family("olmo")
def olmo(fields: Fields) -> Architecture:
    """OLMo: norms without parameters."""
    return decoder(fields, geometry(fields), **biases(fields), norm_width=0)


@family("olmo2")
def olmo2(fields: Fields) -> Architecture:
    """OLMo 2: norms after each part, and over all of q and of k."""
    shape = geometry(fields)
    return decoder(fields, shape, **biases(fields), norm=shape.qk_width)


@family("olmo3")
def olmo3(fields: Fields) -> Architecture:
    """OLMo 3: as OLMo 2; three of four layers slide."""
    shape = geometry(fields)
    spans = every_nth_full(fields, shape.layers, pattern=4)
    return decoder(fields, shape, spans=spans, **biases(fields), norm=shape.qk_width)


@family("cohere")
def cohere(fields: Fields) -> Architecture:
    """Command R: parallel parts, one norm without bias, optionally a norm per head of q and k."""
    shape = geometry(fields)
    norm = shape.qk_width if fields.flag("qk_norm", "use_qk_norm", default=False) else 0
    return decoder(fields, shape, **biases(fields), norm=norm, tied=True, norms=1, parallel=True)


@family("cohere2")
def cohere2(fields: Fields) -> Architecture:
    """Command R7B and A: every fourth layer is full, and only sliding layers rotate."""
    neutral(
        fields,
        use_qk_norm=False,
        use_gated_activation=True,
        use_parallel_block=True,
        use_parallel_embedding=False,
        use_embedding_sharing=True,
        order_of_interleaved_layers="local_attn_first",
    )
    fields.seen.add("layer_switch")
    shape = geometry(fields, explicit_head_dim=False)
    neutral(fields, head_dim=shape.head_dim)
    spans = every_nth_full(fields, shape.layers, pattern=4)
    rotary = [span is not None for span in spans]
    return decoder(
        fields,
        shape,
        spans=spans,
        **biases(fields),
        rotary=rotary,
        tied=True,
        norms=1,
        parallel=True,
    )


@family("stablelm")
def stablelm(fields: Fields) -> Architecture:
    """StableLM: norms with biases; q, k, v biases, parallel parts and qk-norm by switch."""
    shape = geometry(fields, kv_heads=32, explicit_head_dim=False)
    neutral(fields, head_dim=shape.head_dim)
    parallel = fields.flag("parallel", "use_parallel_residual", default=False)
    normed = fields.flag("qk_norm", "qk_layernorm", default=False)
    return decoder(
        fields,
        shape,
        qkv_bias=fields.flag("qkv_bias", "use_qkv_bias", default=False),
        norm=shape.qk_width if normed else 0,
        norms=1 if parallel else 2,
        norm_width=2 * shape.d_model,
        parallel=parallel,
    )


@family("starcoder2")
def starcoder2(fields: Fields) -> Architecture:
    """StarCoder 2: norms with biases, an ungated feed-forward part, one window everywhere."""
    neutral(fields, mlp_type="default", norm_type="layer_norm")
    shape = geometry(fields, kv_heads=2)
    bias = fields.flag("bias", "use_bias", default=True)
    return decoder(
        fields,
        shape,
        ungated(fields, "gelu_pytorch_tanh", bias=bias),
        spans=every_layer(fields, shape.layers),
        qkv_bias=bias,
        out_bias=bias,
        tied=True,
        norm_width=2 * shape.d_model,
    )


@family("phi")
def phi(fields: Fields) -> Architecture:
    """Phi 1 and 2: biases everywhere, LM head included; parallel parts behind one norm."""
    shape = geometry(fields)
    normed = fields.flag("qk_norm", "qk_layernorm", default=False)
    return decoder(
        fields,
        shape,
        ungated(fields, "gelu_new"),
        qkv_bias=True,
        out_bias=True,
        # The norm on q and k spans width / heads, whatever head_dim says.
        norm=4 * (shape.d_model // shape.heads) if normed else 0,
        norms=1,
        norm_width=2 * shape.d_model,
        parallel=True,
        head_bias=True,
    )


@family("glm", "glm4")
def glm(fields: Fields) -> Architecture:
    """GLM-4 for transformers: biases on q, k and v; GLM-4-0414 has norms after both parts, too."""
    shape = geometry(fields, kv_heads=2, head_dim=128)
    bias = fields.flag("attention_bias", "attention_bias", default=True)
    return decoder(fields, shape, qkv_bias=bias, norms=4 if fields.model_type == "glm4" else 2)


@family("seed_oss")
def seed_oss(fields: Fields) -> Architecture:
    """Seed-OSS: Llama with biases on q, k, v and output by separate switches."""
    return decoder(
        fields,
        geometry(fields, kv_heads=8, head_dim=128),
        gated(fields, bias=fields.flag("mlp_bias", "mlp_bias", default=False)),
        qkv_bias=fields.flag("attention_bias", "attention_bias", default=True),
        out_bias=fields.flag("out_bias", "attention_out_bias", default=False),
    )


@family("smollm3")
def smollm3(fields: Fields) -> Architecture:
    """SmolLM 3: every fourth layer does not rotate, and slides if windows are used."""
    shape = geometry(fields, kv_heads=4)
    mlp = gated(fields, bias=fields.flag("mlp_bias", "mlp_bias", default=False))
    rotary = _rotating_layers(fields, shape.layers)
    used = fields.flag("use_sliding_window", "use_sliding_window", default=False)
    size = window_size(fields, None) if used else None
    fields.seen |= {"max_window_layers", "sliding_window"}
    spans = windows(fields, shape.layers, size=size, sliding=[not turns for turns in rotary])
    return decoder(fields, shape, mlp, spans=spans, **biases(fields), rotary=rotary, tied=True)


def _rotating_layers(fields: Fields, layers: int) -> list[bool]:
    period = fields.integer("no_rope_layer_interval", "no_rope_layer_interval", default=4)
    found = fields.get("no_rope_layers")
    if found is None:
        return [(i + 1) % period != 0 for i in range(layers)]
    key, marks = found
    if not isinstance(marks, list) or len(marks) != layers or any(m not in (0, 1) for m in marks):
        fields.refuse(
            key,
            f"no_rope_layers is not a list of {layers} zeros and ones",
            "write 1 for each layer that rotates and 0 for each that does not",
        )
    return [bool(mark) for mark in marks]


@family("nemotron")
def nemotron(fields: Fields) -> Architecture:
    """Nemotron 3 and 4, Minitron: norms with biases, an ungated feed-forward part."""
    shape = geometry(fields)
    mlp = ungated(fields, "relu2", bias=fields.flag("mlp_bias", "mlp_bias", default=False))
    return decoder(fields, shape, mlp, **biases(fields), norm_width=2 * shape.d_model)
