"""Hybrids after Jamba: Zamba 2, whose attention layers share weights, RecurrentGemma, OLMo Hybrid.

Shapes and defaults are those of the ``transformers`` config classes of the same names (5.24).
"""

from collections.abc import Sequence
from typing import Final

from roofline.model.architecture import (
    Architecture,
    Attention,
    Block,
    Linear,
    Mixer,
    Mlp,
    Recurrent,
)
from roofline.model.huggingface.common import (
    Geometry,
    activation,
    assemble,
    attention,
    biases,
    family,
    gated,
    geometry,
    neutral,
    stack,
)
from roofline.model.huggingface.fields import Fields
from roofline.model.huggingface.layers import divides, layer_words
from roofline.model.huggingface.linear_attention import WORDS, gated_delta
from roofline.model.huggingface.mamba import mamba2
from roofline.records import replace

ZAMBA_WORDS: Final = {
    "mamba": "M",
    "mamba2": "M",
    "linear_attention": "M",
    "hybrid": "H",
    "g": "H",
    "m": "M",
}
_ZAMBA: Final = """
    attention_hidden_size mamba_headdim kv_channels num_query_groups hybrid_layer_ids ft_lora
    num_mem_blocks use_mem_eff_path use_long_context time_step_limit mamba_dt_rank conv_dimension
"""
ZAMBA: Final = frozenset(_ZAMBA.split())
"""Fields of Zamba that follow from others, or choose a kernel."""


def _zamba_layers(fields: Fields, layers: int) -> Sequence[str]:
    """Kind of each layer; Zamba's own pattern where the config has none."""
    for key in ("layers_block_type", "layer_types"):
        kinds = layer_words(fields, key, ZAMBA_WORDS, layers)
        if kinds is not None:
            return kinds
    usual = "M" + "MMMMMH" * 7 + "MMMMH" + "MMMH" + "MM"
    if len(usual) != layers:
        fields.refuse(
            "num_hidden_layers",
            f"{layers} layers without layers_block_type, whose default has {len(usual)}",
            "add layers_block_type as published",
        )
    return list(usual)


@family("zamba2")
def zamba2(fields: Fields) -> Architecture:
    """Zamba 2: Mamba-2, and one or two blocks of attention and MLP whose weights are used again.

    A hybrid layer is the shared block, a projection of its own, and Mamba-2. The shared block reads
    the embedding beside the residual stream, and has adapters for each place where it is used.
    """
    fields.seen |= ZAMBA
    neutral(fields, add_bias_linear=False)
    layers = fields.integer("layers", "num_hidden_layers", default=54)
    width = fields.integer("d_model", "hidden_size", default=2560)
    heads = fields.integer("heads", "num_attention_heads", default=32)
    kv_heads = fields.integer("kv_heads", "num_key_value_heads", default=heads)
    divides(fields, "num_attention_heads", 2 * width, heads, "channels")
    even = 2 * width // heads
    head_dim = fields.integer("head_dim", "attention_head_dim", "head_dim", default=even)
    context = fields.integer("max_context", "max_position_embeddings", default=4096)
    if fields.data.get("use_long_context"):
        context = 16_384
    rotary = fields.flag("rotary", "use_mem_rope", default=False)
    inner = fields.integer("mlp_width", "intermediate_size", default=4 * width)
    rank = fields.integer("adapter_rank", "adapter_rank", default=128)
    owners = fields.integer("shared_blocks", "num_mem_blocks", default=1)

    ssm_heads = fields.integer("ssm_heads", "n_mamba_heads", default=8)
    channels = width * fields.integer("expand", "mamba_expand", default=2)
    divides(fields, "n_mamba_heads", channels, ssm_heads, "channels")
    groups = fields.integer("ssm_groups", "mamba_ngroups", default=1)
    divides(fields, "mamba_ngroups", ssm_heads, groups, "heads")
    state = mamba2(
        width,
        heads=ssm_heads,
        head_dim=channels // ssm_heads,
        state=fields.integer("ssm_state", "mamba_d_state", default=64),
        groups=groups,
        kernel=fields.integer("ssm_kernel", "mamba_d_conv", default=4),
        chunk=fields.integer("ssm_chunk", "chunk_size", default=256),
        conv_bias=fields.flag("conv_bias", "use_conv_bias", default=True),
    )
    mixer = Attention(heads, kv_heads, head_dim, rotary=rotary, input_width=2 * width)
    mlp = Mlp(inner, True, activation=activation(fields, "gelu"))

    def adapter(name: str, wide: int, read: int) -> tuple[Linear, ...]:
        low = Linear(f"{name}-adapter-down", rank, read, split="none")
        return low, Linear(f"{name}-adapter-up", wide, rank)

    def switch(name: str, key: str, default: bool) -> bool:
        return fields.flag(name, key, default=default)

    apart: tuple[Linear, ...] = (Linear("hybrid", width, width, split="none"),)
    if switch("attention_adapter", "use_shared_attention_adapter", False):
        for name in ("q", "k", "v"):
            apart += adapter(name, 2 * width, 2 * width)
    if switch("mlp_adapter", "use_shared_mlp_adapter", True):
        apart += adapter("gate-up", 2 * inner, width)
    first = Block(mixer, mlp, 2, 3 * width)
    plain = Block(state, None, 1, width)
    hybrid = replace(plain, extra=apart)
    blocks: list[Block] = []
    for kind in _zamba_layers(fields, layers):
        if kind == "H":
            again = sum(block.mixer is mixer for block in blocks) >= owners
            blocks.append(replace(first, owners=owners) if again else first)
        blocks.append(hybrid if kind == "H" else plain)
    fields.notes.append(
        f"attention and its MLP run {sum(block.mixer is mixer for block in blocks)} times with "
        f"the weights of {owners}: parameters count once, work and cache each time"
    )
    vocab = fields.integer("vocab", "vocab_size", default=32_000)
    shape = Geometry(width, layers, heads, kv_heads, head_dim, vocab, context)
    return stack(fields, shape, blocks, tied=True)


def gated_lru(d_model: int, *, width: int, heads: int, kernel: int) -> Recurrent:
    """Gated linear recurrent unit: one number of state for each channel, gated block by block.

    Source: De et al. 2024 (arXiv 2402.19427), section 2.4.

    Args:
        d_model, width: Width D; channels of the recurrence. [1]
        heads: Blocks on the diagonal of the gates. [1]
        kernel: Taps of the convolution before it. [1]

    Examples:
        A number for each channel, and the last three inputs of its convolution:

        >>> gated_lru(2560, width=2560, heads=10, kernel=4).state_elements
        10240
    """
    return Recurrent(
        kind="lru",
        heads=width,
        key_dim=1,
        value_dim=1,
        key_heads=0,
        projections=(
            Linear("lru-in", 2 * width, d_model, 2 * width),
            # Both gates read only the channels of their own block.
            Linear("lru-gates", 2 * width, width // heads, 2 * width),
            Linear("lru-out", d_model, width, d_model, "row"),
        ),
        other_parameters=width * (1 + kernel + 1),
        conv_width=width,
        conv_kernel=kernel,
        chunk=1,
        state_format="fp32",
    )


@family("recurrent_gemma")
def recurrent_gemma(fields: Fields) -> Architecture:
    """RecurrentGemma: two gated linear recurrences, then attention in a window, and again."""
    fields.seen |= {"w_init_variance_scale", "final_w_init_variance_scale", "logits_soft_cap"}
    shape = geometry(fields, explicit_head_dim=False)
    neutral(fields, head_dim=shape.head_dim)
    width = fields.integer("lru_width", "lru_width", default=shape.d_model, why="as the model")
    divides(fields, "lru_width", width, shape.heads, "channels")
    both = fields.integer("mlp_width", "intermediate_size")
    window = fields.integer("window", "attention_window_size", "sliding_window", default=2048)
    bias = fields.flag("attention_bias", "attention_bias", default=False)
    mixers: dict[str, Mixer] = {
        "recurrent": gated_lru(
            shape.d_model,
            width=width,
            heads=shape.heads,
            kernel=fields.integer("conv_kernel", "conv1d_width", default=4),
        ),
        "attention": attention(shape, [window], qkv_bias=bias, out_bias=True)[0],
    }
    words = {"recurrent": "recurrent", "linear_attention": "recurrent", "attention": "attention"}
    words |= {"sliding_attention": "attention", "full_attention": "attention"}
    kinds = layer_words(fields, "layers_block_type", words, shape.layers)
    cycle = layer_words(fields, "block_types", words, None) or ["recurrent"] * 2 + ["attention"]
    kinds = kinds or [cycle[i % len(cycle)] for i in range(shape.layers)]
    mlp = Mlp(both // 2, True, True, True, activation(fields, "gelu_pytorch_tanh"))
    return assemble(fields, shape, [mixers[kind] for kind in kinds], mlp, tied=True)


@family("olmo_hybrid")
def olmo_hybrid(fields: Fields) -> Architecture:
    """OLMo Hybrid: gated DeltaNet after norms, and OLMo's attention before them."""
    fields.seen |= {"linear_a_log_min", "linear_a_log_max", "linear_dt_min", "linear_dt_max"}
    fields.seen |= {"linear_dt_init_floor", "linear_allow_neg_eigval"}
    shape = geometry(fields)
    keys = fields.integer("linear_key_heads", "linear_num_key_heads", default=shape.heads)
    values = fields.integer("linear_value_heads", "linear_num_value_heads", default=shape.heads)
    divides(fields, "linear_num_key_heads", values, keys, "value heads")
    key_dim = fields.integer(
        "linear_key_dim", "linear_key_head_dim", default=3 * shape.d_model // (4 * keys)
    )
    mixers: dict[str, Mixer] = {
        "linear": gated_delta(
            shape.d_model,
            key_heads=keys,
            value_heads=values,
            key_dim=key_dim,
            value_dim=fields.integer(
                "linear_value_dim", "linear_value_head_dim", default=2 * key_dim
            ),
            kernel=fields.integer("conv_kernel", "linear_conv_kernel_dim", default=4),
        ),
        "full": attention(shape, [None], **biases(fields), norm=shape.qk_width)[0],
    }
    kinds = layer_words(fields, "layer_types", WORDS, shape.layers)
    if kinds is None:
        kinds = ["full" if i % 4 == 3 else "linear" for i in range(shape.layers)]
    return assemble(fields, shape, [mixers[kind] for kind in kinds], gated(fields))
