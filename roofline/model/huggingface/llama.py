"""Rotary decoders: Llama, and its relatives with other norms, biases or order of their parts.

Shapes and defaults are those of the ``transformers`` config classes of the same names (5.23).
"""

from typing import Final

from roofline.model.architecture import Architecture
from roofline.model.huggingface.common import (
    Geometry,
    GeometryKeys,
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
from roofline.model.huggingface.routing import marks

# Published configs of LLaVA and Pixtral nest these, and leave out what is at its default.
LLAMA_TEXT: Final = {"d_model": 4096, "layers": 32, "heads": 32, "vocab": 32_000, "context": 2048}
MISTRAL_TEXT: Final = {**LLAMA_TEXT, "context": 131_072}


@family("llama", "granite")
def llama(fields: Fields) -> Architecture:
    """Llama 1 to 3, Vicuna, Yi, TinyLlama, DeepSeek-LLM; Granite differs in multipliers only."""
    bias = fields.flag("mlp_bias", "mlp_bias", default=False)
    mlp = gated(fields, bias=bias, default=11_008 if fields.nested else None)
    shape = geometry(fields, defaults=LLAMA_TEXT if fields.nested else {})
    return decoder(fields, shape, mlp, **biases(fields))


@family("mistral", "ministral3")
def mistral(fields: Fields) -> Architecture:
    """Mistral, and Ministral 3: ``sliding_window`` holds in every layer, null means none.

    The config class has 4096 where the key is absent, but every published file writes the key;
    a file without it is one from which the nulls were dropped, so absent means none here.
    """
    head_dim = 128 if fields.model_type == "ministral3" else None
    defaults = MISTRAL_TEXT if fields.nested else {}
    shape = geometry(fields, kv_heads=8, head_dim=head_dim, defaults=defaults)
    if "sliding_window" not in fields.data:
        fields.notes.append("the config has no sliding_window: every layer sees the whole context")
    mlp = gated(fields, default=14_336 if fields.nested else None)
    return decoder(fields, shape, mlp, spans=every_layer(fields, shape.layers))


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
    if fields.get("no_rope_layers") is None:
        return [(i + 1) % period != 0 for i in range(layers)]
    return marks(fields, "no_rope_layers", layers, {1: True, 0: False})


@family("nemotron")
def nemotron(fields: Fields) -> Architecture:
    """Nemotron 3 and 4, Minitron: norms with biases, an ungated feed-forward part."""
    shape = geometry(fields)
    mlp = ungated(fields, "relu2", bias=fields.flag("mlp_bias", "mlp_bias", default=False))
    return decoder(fields, shape, mlp, **biases(fields), norm_width=2 * shape.d_model)


@family("exaone")
def exaone(fields: Fields) -> Architecture:
    """EXAONE 3 and 3.5: Llama with layers and norms spelled as in GPT."""
    neutral(fields, mlp_bias=False)
    names = GeometryKeys(layers=("num_layers", "num_hidden_layers"))
    return decoder(fields, geometry(fields, names, kv_heads=8), **biases(fields))


@family("exaone4")
def exaone4(fields: Fields) -> Architecture:
    """EXAONE 4: norms after each part and over each head of q and k; every fourth layer is full.

    Full layers rotate only where no layer slides.
    """
    shape = geometry(fields)
    size = window_size(fields, 4096)
    pattern = fields.data.get("sliding_window_pattern")
    if isinstance(pattern, str) and pattern and not set(pattern) - {"L", "G"}:
        fields.cite("sliding_window_pattern", "sliding_window_pattern")
        slides = [pattern[i % len(pattern)] == "L" for i in range(shape.layers)]
    else:
        key = "sliding_window_pattern"
        period = fields.integer(key, key, default=4, low=0) or 1  # 0 where no layer slides
        slides = [(i + 1) % period != 0 for i in range(shape.layers)]
    spans = windows(fields, shape.layers, size=size, sliding=slides)
    rotary = [size is None or span is not None for span in spans]
    return decoder(fields, shape, spans=spans, norm=2 * shape.head_dim, rotary=rotary)


@family("apertus")
def apertus(fields: Fields) -> Architecture:
    """Apertus: a norm over each head of q and k; no gate, but an activation with two weights."""
    neutral(fields, mlp_bias=False, qk_norm=True, post_norm=False)
    shape = geometry(fields)
    mlp, norm = ungated(fields, "xielu", bias=False), 2 * shape.head_dim
    weights = 2 if mlp.activation == "xielu" else 0
    return decoder(fields, shape, mlp, **biases(fields), norm=norm, beside=weights)


_HUNYUAN: Final = """
    anyres_pooling_size class_num cla_share_factor dense_list im_end_id im_newline_id im_start_id
    image_token_id mask_init_id num_media_embeds org_vocab_size pool_type position_embedding_xdrope
    routed_scaling_factor text_end_id text_start_id use_rotary_pos_emb video_end_id video_start_id
    vit_input_resolution vit_mapping_type vit_norm_type vit_patch vit_token xdrope_section
"""
HUNYUAN: Final = frozenset(_HUNYUAN.split())
"""Fields of Hunyuan of parts that a text model lacks: a tower, classes; sharing that is off."""


def hunyuan_geometry(fields: Fields) -> Geometry:
    """Sizes of a Hunyuan, whose layers neither share a cache nor skip experts."""
    fields.seen |= HUNYUAN
    neutral(fields, use_cla=False, use_mla=False, mlp_bias=False, norm_type="rms")
    neutral(fields, moe_layer_num_skipped=0)
    shape = geometry(fields)
    neutral(fields, attention_head_dim=shape.head_dim)
    return shape


@family("hunyuan_v1_dense")
def hunyuan_v1_dense(fields: Fields) -> Architecture:
    """Hunyuan 0.5B to 7B: Llama with a norm over each head of q and k."""
    neutral(fields, num_experts=1, moe_topk=1, num_shared_expert=1)
    shape = hunyuan_geometry(fields)
    norm = 2 * shape.head_dim if fields.flag("qk_norm", "use_qk_norm", default=True) else 0
    return decoder(fields, shape, **biases(fields), norm=norm)


@family("bitnet")
def bitnet(fields: Fields) -> Architecture:
    """BitNet b1.58: Llama with norms before the output projection and before the down matrix."""
    shape, mlp = geometry(fields, kv_heads=5), gated(fields)
    return decoder(fields, shape, mlp, **biases(fields), norm=shape.d_model, beside=mlp.width)


@family("minicpm")
def minicpm(fields: Fields) -> Architecture:
    """MiniCPM 1, 2 and 4: Llama with multipliers, embeddings tied."""
    fields.seen |= SCALES
    neutral(fields, num_experts=0)
    return decoder(fields, geometry(fields), **biases(fields), tied=True)


SCALES: Final = frozenset({"scale_emb", "scale_depth", "dim_model_base", "mup_denominator"})
"""Multipliers of MiniCPM."""
