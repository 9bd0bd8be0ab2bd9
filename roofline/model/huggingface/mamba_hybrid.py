"""Networks that mix state-space layers with attention: Jamba, Bamba, Granite 4.

Shapes and defaults are those of the ``transformers`` config classes of the same names (5.23).
"""

from collections.abc import Sequence
from typing import Final

from roofline.model.architecture import Architecture, FeedForward, Mixer, Mlp, Moe
from roofline.model.huggingface.common import (
    activation,
    assemble,
    attention,
    biases,
    family,
    gated,
    geometry,
    neutral,
)
from roofline.model.huggingface.fields import Fields
from roofline.model.huggingface.layers import at_most, layer_words
from roofline.model.huggingface.mamba import (
    MAMBA2_SEEN,
    Spelling,
    mamba1,
    spelled,
    time_step_rank,
)
from roofline.model.huggingface.routing import ROUTING, indices

WORDS: Final = {"mamba": "M", "linear_attention": "M", "attention": "*", "full_attention": "*"}
MAMBA: Final[Spelling] = {
    "heads": ("mamba_n_heads", 128),
    "head_dim": ("mamba_d_head", None),
    "state": ("mamba_d_state", 256),
    "groups": ("mamba_n_groups", 1),
    "kernel": ("mamba_d_conv", 4),
    "chunk": ("mamba_chunk_size", 256),
}
BIASES: Final = {"bias": "mamba_proj_bias", "conv_bias": "mamba_conv_bias"}


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
        "M": spelled(fields, shape.d_model, MAMBA, **BIASES),
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
        mixers["M"] = spelled(fields, shape.d_model, MAMBA, **BIASES)
    else:
        fields.seen |= {key for key, _ in MAMBA.values()} | MAMBA2_SEEN | {*BIASES.values()}
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
