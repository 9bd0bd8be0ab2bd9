"""Networks that mix state-space layers with attention: Jamba, Nemotron-H, Bamba, Granite 4.

Shapes and defaults are those of the ``transformers`` config classes of the same names (5.23).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from roofline.model.architecture import (
    Architecture,
    Attention,
    Block,
    FeedForward,
    Mixer,
    Mlp,
    Moe,
    Recurrent,
)
from roofline.model.huggingface.common import (
    Builder,
    Geometry,
    activation,
    attention,
    gated,
    geometry,
    neutral,
)
from roofline.model.huggingface.fields import Fields
from roofline.model.huggingface.mamba import (
    MAMBA_SEEN,
    mamba1,
    mamba2,
    state_format,
    time_step_rank,
)
from roofline.model.huggingface.predicting import block_parameters
from roofline.model.huggingface.routing import ROUTING, indices
from roofline.model.huggingface.stacking import divides, layer_words, stack

NEMOTRON_WORDS: Final = {
    "mamba": "M",
    "linear_attention": "M",
    "attention": "*",
    "full_attention": "*",
    "mlp": "-",
    "moe": "E",
}
NEMOTRON_MOE: Final = frozenset(
    {
        "n_routed_experts",
        "num_experts_per_tok",
        "moe_intermediate_size",
        "moe_shared_expert_intermediate_size",
        "moe_latent_size",
        "n_shared_experts",
    }
)


NEMOTRON_MAMBA: Final = {
    "heads": ("mamba_num_heads", 128),
    "head_dim": ("mamba_head_dim", 64),
    "state": ("ssm_state_size", 128),
    "groups": ("n_groups", 8),
    "kernel": ("conv_kernel", 4),
    "chunk": ("chunk_size", 128),
}
BAMBA_MAMBA: Final = {
    "heads": ("mamba_n_heads", 128),
    "head_dim": ("mamba_d_head", None),
    "state": ("mamba_d_state", 256),
    "groups": ("mamba_n_groups", 1),
    "kernel": ("mamba_d_conv", 4),
    "chunk": ("mamba_chunk_size", 256),
}
Spelling = Mapping[str, tuple[str, int | None]]


def _plain_attention(shape: Geometry, *, rotary: bool, bias: bool = False) -> Attention:
    return attention(shape, [None], qkv_bias=bias, out_bias=bias, rotary=rotary)[0]


def _every(fields: Fields, what: str, period: int, offset: int) -> tuple[int, int]:
    """Period and offset of a kind of layer."""
    every = fields.integer(f"{what}_period", f"{what}_layer_period", default=period)
    first = fields.integer(f"{what}_offset", f"{what}_layer_offset", default=offset, low=0)
    if first >= every:
        key = f"{what}_layer_offset"
        fields.refuse(key, f"{key} = {first} is not below {what}_layer_period = {every}")
    return every, first


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
        _plain_attention(shape, rotary=False),
    )
    inner = fields.integer("mlp_width", "intermediate_size")
    experts = fields.integer("experts", "num_experts", "num_local_experts", default=16)
    active = _active(fields, experts)
    parts: tuple[FeedForward, FeedForward] = (
        Mlp(inner, True, activation=activation(fields)),
        Moe(experts, active, inner, activation=activation(fields)),
    )
    layers = [
        Block(
            mixers[i % attend == first],
            parts[experts > 1 and i % sparse == first_sparse],
            2,
            2 * width,
        )
        for i in range(shape.layers)
    ]
    return stack(fields, shape, layers, tied=False)


def _active(fields: Fields, experts: int, default: int = 2) -> int:
    """Experts per token, which are not more than there are."""
    active = fields.integer("active_experts", "num_experts_per_tok", default=min(default, experts))
    if active > experts > 1:
        fields.refuse(
            "num_experts_per_tok",
            f"a token cannot be sent to {active} of {experts} experts",
            "give a num_experts_per_tok of at most the number of experts",
        )
    return active


def nemotron_h(fields: Fields) -> Architecture:
    """Nemotron-H and Nemotron 3: a layer is Mamba-2, attention, an MLP or experts, each alone."""
    neutral(fields, attention_bias=False, mamba_proj_bias=False, n_shared_experts=1)
    fields.only("sliding_window", reason="its layers would see only part of the context")
    fields.seen |= MAMBA_SEEN | ROUTING
    kinds = _nemotron_layers(fields, "hybrid_override_pattern", "layers_block_type", "layer_types")
    defaults = {"layers": len(kinds)}
    shape = geometry(fields, kv_heads=8, head_dim=_nemotron_head(fields), defaults=defaults)
    if shape.layers != len(kinds):
        fields.refuse(
            "num_hidden_layers",
            f"num_hidden_layers = {shape.layers}, but the pattern has {len(kinds)} layers",
            "leave only the one that holds",
        )
    extra = fields.integer("mtp", "num_nextn_predict_layers", default=0, low=0)
    further: Sequence[str] = ()
    if extra:
        further = _nemotron_layers(fields, "mtp_hybrid_override_pattern", "mtp_layers_block_type")
    fields.seen.update({"mtp_hybrid_override_pattern", "mtp_layers_block_type"})
    parts = _nemotron_parts(fields, shape, {*kinds, *further})
    layers = [parts[kind] for kind in kinds]
    body = stack(fields, shape, layers, tied=False)
    if not extra:
        return body
    # Beside its layers: norms of both inputs and a last one, a projection of two widths to one.
    width = shape.d_model
    each = sum(block_parameters(parts[kind], width) for kind in further)
    each += 3 * width + 2 * width * width
    fields.notes.append("multi-token prediction layers are left out of the text decoder")
    return replace(body, other_parameters={"multi-token prediction": extra * each})


def _nemotron_head(fields: Fields) -> int:
    return fields.integer("head_dim", "attention_head_dim", "head_dim", default=128)


def _nemotron_layers(fields: Fields, pattern: str, *lists: str) -> Sequence[str]:
    """Letters of the layers, from a pattern or a list of words; where both are, they agree."""
    found: dict[str, Sequence[str]] = {}
    for key in lists:
        if (kinds := layer_words(fields, key, NEMOTRON_WORDS, None)) is not None:
            found[key] = kinds
    if (text := fields.get(pattern)) is not None:
        letters = text[1]
        if not isinstance(letters, str) or not letters or set(letters) - set("M*-E"):
            fields.refuse(
                pattern,
                f"{pattern} = {letters!r:.60} is not a pattern of layers",
                "write one letter per layer: M (Mamba-2), * (attention), - (MLP), E (experts)",
            )
        found[pattern] = list(letters)
        fields.cite("layer_types", pattern)
    if not found:
        fields.refuse(pattern, f"{pattern} is missing", f"add {pattern} or {lists[0]}")
    (first, kinds), *others = found.items()
    for key, other in others:
        if other != kinds:
            fields.refuse(key, f"{key} contradicts {first}", "leave only the one that holds")
    return kinds


def _nemotron_parts(fields: Fields, shape: Geometry, kinds: set[str]) -> dict[str, Block]:
    """A layer of each kind that occurs."""
    width = shape.d_model
    bias = fields.flag("mlp_bias", "mlp_bias", default=False)
    act = fields.data.get("mlp_hidden_act")
    fields.seen.add("mlp_hidden_act")
    act = act if isinstance(act, str) else "relu2"
    if act != "relu2":
        fields.refuse("mlp_hidden_act", f"mlp_hidden_act = {act!r:.40} is not understood")
    inner = fields.integer("mlp_width", "intermediate_size", default=21_504)
    out: dict[str, Block] = {}
    if "M" in kinds:
        out["M"] = Block(_mamba2(fields, width, NEMOTRON_MAMBA), None, 1, width)
    if "*" in kinds:
        out["*"] = Block(_plain_attention(shape, rotary=False), None, 1, width)
    if "-" in kinds:
        out["-"] = Block(None, Mlp(inner, False, bias, bias, act), 1, width)
    if "E" in kinds:
        if bias:
            fields.refuse("mlp_bias", "mlp_bias = true is not understood in experts")
        experts = fields.integer("experts", "n_routed_experts", default=8)
        moe = Moe(
            experts,
            _active(fields, experts),
            fields.integer("expert_width", "moe_intermediate_size", default=7688),
            gated=False,
            activation=act,
            shared_width=fields.integer(
                "shared_width", "moe_shared_expert_intermediate_size", default=7688
            ),
            latent=fields.optional("latent", "moe_latent_size") or 0,
        )
        out["E"] = Block(None, moe, 1, width)
    fields.seen.update(NEMOTRON_MOE)
    return out


def _mamba2(fields: Fields, width: int, spelling: Spelling) -> Recurrent:
    """A Mamba-2 layer, its sizes under the keys of the family."""
    bamba = spelling is BAMBA_MAMBA
    sizes: dict[str, int] = {}
    for name, (key, default) in spelling.items():
        if default is None and fields.data.get(key, "auto") == "auto":
            inner = width * fields.integer("expand", "mamba_expand", default=2)
            heads = sizes["heads"]
            divides(fields, "mamba_n_heads", inner, heads, "channels")
            fields.seen.add(key)
            sizes[name] = inner // heads
            fields.say(f"ssm_{name}", key, sizes[name], f"{inner} channels over {heads} heads")
        else:
            sizes[name] = fields.integer(f"ssm_{name}", key, default=default)
    divides(fields, spelling["groups"][0], sizes["heads"], sizes["groups"], "heads")
    fields.seen |= MAMBA_SEEN
    return replace(
        mamba2(
            width,
            **sizes,
            bias=fields.flag("bias", "mamba_proj_bias" if bamba else "use_bias", default=False),
            conv_bias=fields.flag(
                "conv_bias", "mamba_conv_bias" if bamba else "use_conv_bias", default=True
            ),
        ),
        state_format=state_format(fields, "mamba_ssm_cache_dtype"),
    )


def _granite_layers(fields: Fields, layers: int) -> Sequence[str]:
    words = {key: kind for key, kind in NEMOTRON_WORDS.items() if kind in "M*"}
    kinds = layer_words(fields, "layer_types", words, layers)
    if kinds is None:
        kinds = layer_words(fields, "layers_block_type", words, layers)
    fields.seen.add("layers_block_type")
    return ["M"] * layers if kinds is None else kinds


def bamba(fields: Fields) -> Architecture:
    """Bamba: Mamba-2 with attention in ``attn_layer_indices``, an MLP in every layer."""
    shape = geometry(fields, kv_heads=8)
    width = shape.d_model
    kinds = ["M"] * shape.layers
    if (found := fields.get("attn_layer_indices")) is not None:
        for layer in indices(fields, *found):
            if not 0 <= layer < shape.layers:
                fields.refuse(found[0], f"there is no layer {layer} of {shape.layers}")
            kinds[layer] = "*"
    bias = fields.flag("attention_bias", "attention_bias", default=False)
    mixers: dict[str, Mixer] = {
        "M": _mamba2(fields, width, BAMBA_MAMBA),
        "*": _plain_attention(shape, rotary=True, bias=bias),
    }
    mlp = gated(fields, bias=fields.flag("mlp_bias", "mlp_bias", default=False))
    layers = [Block(mixers[kind], mlp, 2, 2 * width) for kind in kinds]
    return stack(fields, shape, layers, tied=False)


def granite(fields: Fields) -> Architecture:
    """Granite 4: Mamba-2 and attention, each followed by experts and a shared MLP, or by an MLP."""
    shape = geometry(fields)
    width = shape.d_model
    kinds = _granite_layers(fields, shape.layers)
    bias = fields.flag("attention_bias", "attention_bias", default=False)
    rotary = fields.data.get("position_embedding_type") == "rope"
    fields.only("position_embedding_type", "rope", "nope", reason="positions may have weights")
    mixers: dict[str, Mixer] = {"*": _plain_attention(shape, rotary=rotary, bias=bias)}
    if "M" in kinds:
        mixers["M"] = _mamba2(fields, width, BAMBA_MAMBA)
    else:
        fields.seen |= {key for key, _ in BAMBA_MAMBA.values()} | MAMBA_SEEN
        fields.seen |= {"mamba_conv_bias", "mamba_proj_bias"}
    shared = fields.integer("shared_width", "shared_intermediate_size", default=1024)
    experts = fields.integer("experts", "num_local_experts", default=8, low=0)
    fields.seen |= ROUTING | {"num_experts_per_tok", "intermediate_size"}
    part: FeedForward = Mlp(shared, True, activation=activation(fields))
    if experts:
        each = fields.integer("expert_width", "intermediate_size")
        part = Moe(
            experts,
            _active(fields, experts),
            each,
            activation=activation(fields),
            shared_width=shared,
        )
    layers = [Block(mixers[kind], part, 2, 2 * width) for kind in kinds]
    return stack(fields, shape, layers, tied=False)


FAMILIES: Final[Mapping[str, Builder]] = {
    "jamba": jamba,
    "nemotron_h": nemotron_h,
    "bamba": bamba,
    "granitemoehybrid": granite,
}
