"""Networks that mix layers with a state and attention: Jamba, Bamba, Granite 4, Falcon-H1, LFM2.

Shapes and defaults are those of the ``transformers`` config classes of the same names (5.23).
"""

from collections.abc import Collection, Sequence
from typing import Final

from roofline.model.architecture import (
    Architecture,
    Block,
    FeedForward,
    Linear,
    Mixer,
    Mlp,
    Moe,
    Recurrent,
)
from roofline.model.huggingface.common import (
    GeometryKeys,
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
from roofline.model.huggingface.layers import at_most, layer_words
from roofline.model.huggingface.mamba import MAMBA2_SEEN, Spelling, mamba1, spelled, time_step_rank
from roofline.model.huggingface.routing import ROUTING, indices, routed
from roofline.records import replace

WORDS: Final = {"mamba": "M", "linear_attention": "M", "attention": "*", "full_attention": "*"}
MAMBA: Final[Spelling] = {
    "heads": ("mamba_n_heads", 128),
    "head_dim": ("mamba_d_head", None),
    "state": ("mamba_d_state", 256),
    "groups": ("mamba_n_groups", 1),
    "kernel": ("mamba_d_conv", 4),
    "chunk": ("mamba_chunk_size", 256),
}


def _every(fields: Fields, what: str, period: int, offset: int) -> tuple[int, int]:
    """Period and offset of a kind of layer."""
    every = fields.integer(f"{what}_period", f"{what}_layer_period", default=period)
    first = fields.integer(f"{what}_offset", f"{what}_layer_offset", default=offset, low=0)
    if first >= every:
        key = f"{what}_layer_offset"
        fields.refuse(key, f"{key} = {first} is not below {what}_layer_period = {every}")
    return every, first


@family("jamba")
def jamba(fields: Fields) -> Architecture:
    """Jamba: Mamba-1 with one layer of attention in eight, experts in every other layer."""
    neutral(fields, mamba_inner_layernorms=True)
    fields.seen |= ROUTING
    fields.only("sliding_window", reason="its layers would see only part of the context")
    shape = geometry(fields, kv_heads=8)
    width = shape.d_model
    attend, first = _every(fields, "attn", 8, 4)
    sparse, first_sparse = _every(fields, "expert", 2, 1)
    mixers: tuple[Mixer, Mixer] = (
        mamba1(
            width,
            inner=width * fields.integer("expand", "mamba_expand", default=2),
            state=fields.integer("state_size", "mamba_d_state", default=16),
            rank=time_step_rank(fields, "mamba_dt_rank", width),
            kernel=fields.integer("conv_kernel", "mamba_d_conv", default=4),
            bias=fields.flag("bias", "mamba_proj_bias", default=False),
            conv_bias=fields.flag("conv_bias", "mamba_conv_bias", default=True),
            norms=True,
        ),
        attention(shape, [None], rotary=False)[0],
    )
    inner = fields.integer("mlp_width", "intermediate_size")
    experts = fields.integer("experts", "num_experts", "num_local_experts", default=16)
    active = at_most(fields, experts)
    parts: tuple[FeedForward, FeedForward] = (
        Mlp(inner, True, activation=activation(fields)),
        Moe(experts, active, inner, activation=activation(fields)),
    )
    places = range(shape.layers)
    return assemble(
        fields,
        shape,
        [mixers[i % attend == first] for i in places],
        [parts[experts > 1 and i % sparse == first_sparse] for i in places],
    )


def _granite_layers(fields: Fields, layers: int) -> Sequence[str]:
    kinds = layer_words(fields, "layer_types", WORDS, layers)
    other = layer_words(fields, "layers_block_type", WORDS, layers)
    if kinds and other and kinds != other:
        fields.refuse("layers_block_type", "layers_block_type contradicts layer_types")
    return kinds or other or ["M"] * layers


@family("bamba")
def bamba(fields: Fields) -> Architecture:
    """Bamba: Mamba-2 with attention in ``attn_layer_indices``, an MLP in every layer."""
    shape = geometry(fields, kv_heads=8)
    kinds = ["M"] * shape.layers
    if (found := fields.get("attn_layer_indices")) is not None:
        for layer in indices(fields, *found):
            if not 0 <= layer < shape.layers:
                fields.refuse(found[0], f"there is no layer {layer} of {shape.layers}")
            kinds[layer] = "*"
    mixers: dict[str, Mixer] = {
        "M": spelled(fields, shape.d_model, MAMBA),
        "*": attention(shape, [None], **biases(fields))[0],
    }
    mlp = gated(fields, bias=fields.flag("mlp_bias", "mlp_bias", default=False))
    return assemble(fields, shape, [mixers[kind] for kind in kinds], mlp)


@family("granitemoehybrid")
def granite(fields: Fields) -> Architecture:
    """Granite 4: Mamba-2 and attention, each followed by experts and a shared MLP, or by an MLP."""
    shape = geometry(fields)
    kinds = _granite_layers(fields, shape.layers)
    rotary = fields.data.get("position_embedding_type") == "rope"
    fields.only("position_embedding_type", "rope", "nope", reason="positions may have weights")
    mixers: dict[str, Mixer] = {"*": attention(shape, [None], **biases(fields), rotary=rotary)[0]}
    if "M" in kinds:
        mixers["M"] = spelled(fields, shape.d_model, MAMBA)
    else:
        fields.seen |= {key for key, _ in MAMBA.values()} | MAMBA2_SEEN
        fields.seen |= {"mamba_proj_bias", "mamba_conv_bias"}
    shared = fields.integer("shared_width", "shared_intermediate_size", default=1024)
    experts = fields.integer("experts", "num_local_experts", default=8, low=0)
    fields.seen |= ROUTING | {"num_experts_per_tok", "intermediate_size"}
    part: FeedForward = Mlp(shared, True, activation=activation(fields))
    if experts:
        each = fields.integer("expert_width", "intermediate_size")
        part = Moe(
            experts,
            at_most(fields, experts),
            each,
            activation=activation(fields),
            shared_width=shared,
        )
    return assemble(fields, shape, [mixers[kind] for kind in kinds], part)


_FALCON_H1: Final = """
    mamba_use_mlp mamba_norm_before_gate mlp_expansion_factor key_multiplier lm_head_multiplier
    mlp_multipliers ssm_multipliers ssm_in_multiplier ssm_out_multiplier attention_in_multiplier
    attention_out_multiplier
"""
FALCON_H1: Final = frozenset(_FALCON_H1.split())
"""Multipliers of Falcon-H1, and fields that its layers do not read."""


@family("falcon_h1")
def falcon_h1(fields: Fields) -> Architecture:
    """Falcon-H1: attention and Mamba-2 read the same input in every layer, then an MLP."""
    fields.seen |= FALCON_H1
    neutral(fields, attn_layer_indices=None)
    shape = geometry(fields, kv_heads=8)
    given = "mamba_d_ssm" in fields.data
    inner = fields.optional("inner", "mamba_d_ssm") if given else 1024
    normed = fields.flag("ssm_norm", "mamba_rms_norm", default=False)
    state = spelled(fields, shape.d_model, MAMBA, inner=inner, norm=normed)
    if inner not in (None, state.heads * state.value_dim):
        fields.refuse("mamba_d_ssm", f"{inner} channels are not those of the heads of Mamba")
    into, out = state.projections
    biased = fields.flag("output_bias", "projectors_bias", default=False)
    state = replace(state, projections=(into, replace(out, biased=shape.d_model * biased)))
    mlp = gated(fields, bias=fields.flag("mlp_bias", "mlp_bias", default=False))
    width = shape.d_model
    # The norm before both is that of the second block.
    side = Block(attention(shape, [None], **biases(fields))[0], None, 0, 0)
    fields.notes.append(
        f"each of {shape.layers} layers is two here: attention, then Mamba-2 and the feed-forward "
        "part; both mixers read the same input"
    )
    return stack(fields, shape, [side, Block(state, mlp, 2, 2 * width)] * shape.layers)


_LFM2: Final = """
    block_dim block_norm_eps block_use_xavier_init block_mlp_init_scale block_out_init_scale
    conv_use_xavier_init conv_dim_out use_pos_enc theta use_expert_bias
"""
LFM2: Final = frozenset(_LFM2.split())
"""Fields of LFM2 that its layers do not read: initial values, and repeated widths."""


def short_convolution(d_model: int, kernel: int, *, bias: bool) -> Recurrent:
    """A gated short convolution, whose only state is its last inputs.

    Three inputs of the width are projected: two are multiplied and convolved channel by channel,
    the third gates what comes out. Source: Liquid AI (2025), "LFM2 Technical Report"
    (arXiv 2511.23404), section 2.

    Args:
        d_model, kernel: Width D, which is the number of channels; taps. [1]
        bias: Whether the projections and the convolution have biases.

    Examples:
        Three taps keep two inputs of each channel:

        >>> short_convolution(2048, 3, bias=False).state_elements
        4096
    """
    return Recurrent(
        kind="short-convolution",
        heads=d_model,
        key_dim=0,
        value_dim=1,
        key_heads=0,
        projections=(
            Linear("conv-in", 3 * d_model, d_model, 3 * d_model * bias),
            Linear("conv-out", d_model, d_model, d_model * bias, "row"),
        ),
        other_parameters=d_model * (kernel + bias),
        conv_width=d_model,
        conv_kernel=kernel,
        chunk=1,
    )


@family("lfm2", "lfm2_moe")
def lfm2(fields: Fields) -> Architecture:
    """LFM2: short convolutions, and attention with a norm over each head of q and k."""
    fields.seen |= LFM2
    neutral(fields, block_use_swiglu=True)
    shape = geometry(fields, LFM2_NAMES, kv_heads=8)
    width, layers = shape.d_model, shape.layers
    neutral(fields, conv_dim=width)
    attending: Collection[int] = range(layers)
    if (found := fields.get("full_attn_idxs")) is not None:
        attending = indices(fields, *found)
    kinds = layer_words(fields, "layer_types", LFM2_WORDS, layers)
    if kinds is None:
        kinds = ["*" if i in attending else "C" for i in range(layers)]
    mixers: dict[str, Mixer] = {
        "C": short_convolution(
            width,
            fields.integer("conv_kernel", "conv_L_cache", default=3),
            bias=fields.flag("conv_bias", "conv_bias", default=False),
        ),
        "*": attention(shape, [None], norm=2 * shape.head_dim)[0],
    }
    parts: list[FeedForward] = [_lfm2_mlp(fields)] * layers
    if fields.model_type == "lfm2_moe":
        dense = fields.integer("dense_layers", "num_dense_layers", default=2, low=0)
        parts[dense:] = [routed(fields)] * len(parts[dense:])
    tied = fields.flag("tied_embeddings", "tie_embedding", default=True)
    return assemble(fields, shape, [mixers[kind] for kind in kinds], parts, tied=tied)


LFM2_NAMES: Final = GeometryKeys(heads=("num_attention_heads", "num_heads"))
LFM2_WORDS: Final = {"conv": "C", "full_attention": "*"}


def _lfm2_mlp(fields: Fields) -> Mlp:
    """Gate, up and down: two thirds of the width that is written, rounded up to a multiple."""
    inner = fields.integer("mlp_width", "block_ff_dim", "intermediate_size")
    multiple = fields.integer("mlp_multiple", "block_multiple_of", default=256)
    factor = fields.data.get("block_ffn_dim_multiplier", 1.0)
    fields.seen.add("block_ffn_dim_multiplier")
    dense = fields.model_type == "lfm2"
    if dense and fields.flag("mlp_adjusted", "block_auto_adjust_ff_dim", default=True):
        inner = 2 * inner // 3
        if factor is not None:
            if isinstance(factor, bool) or not isinstance(factor, int | float) or factor <= 0:
                fields.refuse("block_ffn_dim_multiplier", f"{factor!r:.40} is no factor")
            inner = multiple * -(-int(factor * inner) // multiple)
    return Mlp(inner, True, activation=activation(fields))
