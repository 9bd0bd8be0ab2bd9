"""Dense decoders that differ from Llama in a norm, a gate, a window or the spelling of a key.

Shapes and defaults are those of the ``transformers`` config classes of the same names (5.24).
"""

from typing import Final

from roofline.model.architecture import Architecture
from roofline.model.huggingface.common import (
    GeometryKeys,
    assemble,
    attention,
    biases,
    decoder,
    family,
    gated,
    geometry,
    neutral,
    ungated,
)
from roofline.model.huggingface.fields import Fields
from roofline.model.huggingface.layers import every_nth_full, window_size, windows
from roofline.records import replace


@family("arcee")
def arcee(fields: Fields) -> Architecture:
    """Arcee AFM: Llama with an ungated feed-forward part of squared ReLU."""
    mlp = ungated(fields, "relu2", bias=fields.flag("mlp_bias", "mlp_bias", default=False))
    return decoder(fields, geometry(fields), mlp, **biases(fields))


@family("ernie4_5")
def ernie4_5(fields: Fields) -> Architecture:
    """ERNIE 4.5 without experts: Llama with one switch for all biases."""
    bias = fields.flag("bias", "use_bias", default=False)
    shape = geometry(fields, kv_heads=2, head_dim=128)
    return decoder(fields, shape, gated(fields, bias=bias), qkv_bias=bias, out_bias=bias, tied=True)


@family("helium")
def helium(fields: Fields) -> Architecture:
    """Helium: Llama with heads of 128; the output projection never has a bias."""
    shape = geometry(fields, kv_heads=20, head_dim=128)
    mlp = gated(fields, bias=fields.flag("mlp_bias", "mlp_bias", default=False))
    bias = fields.flag("attention_bias", "attention_bias", default=False)
    return decoder(fields, shape, mlp, qkv_bias=bias)


@family("nanochat")
def nanochat(fields: Fields) -> Architecture:
    """nanochat: norms without weights, also on each head of q and k; no gate."""
    shape = geometry(fields)
    return decoder(
        fields, shape, ungated(fields, "relu2", bias=False), **biases(fields), norm_width=0
    )


@family("vaultgemma")
def vaultgemma(fields: Fields) -> Architecture:
    """VaultGemma: Gemma 2 with norms before both parts only."""
    neutral(fields, use_bidirectional_attention=False)
    shape = geometry(fields, kv_heads=4, head_dim=256)
    spans = every_nth_full(fields, shape.layers, pattern=2)
    return decoder(fields, shape, spans=spans, **biases(fields), tied=True)


@family("internlm3")
def internlm3(fields: Fields) -> Architecture:
    """InternLM 3: Llama with separate switches for biases of q, k, v and of the output."""
    shape = geometry(fields, kv_heads=2)
    bias = fields.flag("bias", "bias", default=False)
    return decoder(
        fields,
        shape,
        gated(fields, bias=bias or fields.flag("mlp_bias", "mlp_bias", default=False)),
        qkv_bias=fields.flag("qkv_bias", "qkv_bias", "attention_bias", default=False),
        out_bias=bias or bool(fields.data.get("attention_bias")),
    )


@family("cwm")
def cwm(fields: Fields) -> Architecture:
    """CWM: Llama 3 in which the first of every four layers is full and the others slide."""
    shape = geometry(fields, kv_heads=8, head_dim=128)
    sliding = [i % 4 != 0 for i in range(shape.layers)]
    spans = windows(fields, shape.layers, size=window_size(fields, 8192), sliding=sliding)
    mlp = gated(fields, bias=fields.flag("mlp_bias", "mlp_bias", default=False))
    return decoder(fields, shape, mlp, spans=spans, **biases(fields))


@family("jais2")
def jais2(fields: Fields) -> Architecture:
    """Jais 2: norms with biases, an ungated feed-forward part, biases by switch."""
    shape = geometry(fields, head_dim=128)
    mlp = ungated(fields, "relu2", bias=fields.flag("mlp_bias", "mlp_bias", default=True))
    how = biases(fields, default=True)
    return decoder(fields, shape, mlp, **how, norm_width=2 * shape.d_model)


@family("persimmon")
def persimmon(fields: Fields) -> Architecture:
    """Persimmon: biases everywhere, norms with biases, also on each head of q and k."""
    shape = geometry(fields, replace(GeometryKeys(), kv_heads=()), explicit_head_dim=False)
    normed = fields.flag("qk_norm", "qk_layernorm", default=True)
    return decoder(
        fields,
        shape,
        ungated(fields, "relu2"),
        qkv_bias=True,
        out_bias=True,
        norm=4 * shape.head_dim if normed else 0,
        norm_width=2 * shape.d_model,
    )


@family("granite_swa")
def granite_swa(fields: Fields) -> Architecture:
    """Granite with a window in all but the first of every four layers, and sinks."""
    shape = geometry(fields, kv_heads=4)
    sliding = [i % 4 != 0 for i in range(shape.layers)]
    spans = windows(fields, shape.layers, size=window_size(fields, 128), sliding=sliding)
    mlp = gated(fields, bias=fields.flag("mlp_bias", "mlp_bias", default=False))
    mixers = [
        replace(mixer, sink_parameters=shape.heads)
        for mixer in attention(shape, spans, **biases(fields))
    ]
    return assemble(fields, shape, mixers, mlp, tied=True)


NEO_NAMES: Final = GeometryKeys(
    layers=("num_layers", "num_hidden_layers"),
    heads=("num_heads", "num_attention_heads"),
    kv_heads=(),
)


@family("gpt_neo")
def gpt_neo(fields: Fields) -> Architecture:
    """GPT-Neo: GPT-2 in which layers alternate between full attention and a window."""
    shape = geometry(fields, NEO_NAMES, explicit_head_dim=False)
    size = fields.integer("window", "window_size", default=256)
    fields.seen |= {"attention_types"}
    kinds = fields.data.get("attention_layers")
    if kinds is None:
        groups = fields.data.get("attention_types") or [[["global", "local"], shape.layers // 2]]
        try:
            kinds = [kind for names, times in groups for _ in range(times) for kind in names]
        except (TypeError, ValueError):
            fields.refuse("attention_types", "attention_types is no list of kinds and repeats")
    fields.seen.add("attention_layers")
    if not isinstance(kinds, list) or len(kinds) != shape.layers:
        fields.refuse(
            "attention_types", f"attention_types does not name one kind for {shape.layers} layers"
        )
    if set(map(str, kinds)) - {"global", "local"}:
        fields.refuse("attention_types", "layers of GPT-Neo are global or local")
    return decoder(
        fields,
        shape,
        ungated(fields, "gelu_new", default=4 * shape.d_model),
        spans=[size if kind == "local" else None for kind in kinds],
        out_bias=True,
        rotary=False,
        tied=True,
        norm_width=2 * shape.d_model,
        position_rows=shape.context or 2048,
    )


XGLM_NAMES: Final = GeometryKeys(
    width=("d_model",), layers=("num_layers",), heads=("attention_heads",), kv_heads=()
)


@family("xglm")
def xglm(fields: Fields) -> Architecture:
    """XGLM: biases everywhere; positions are a table of sines, which is computed."""
    neutral(fields, add_cross_attention=False)
    fields.seen.add("scale_embedding")
    shape = geometry(fields, XGLM_NAMES, explicit_head_dim=False)
    return decoder(
        fields,
        shape,
        ungated(fields, "gelu", "ffn_dim"),
        qkv_bias=True,
        out_bias=True,
        rotary=False,
        tied=True,
        norm_width=2 * shape.d_model,
    )
