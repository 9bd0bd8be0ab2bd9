"""Nemotron: layers of one part each (Mamba-2, attention, MLP or experts), and searched layers.

Shapes and defaults of Nemotron-H and Nemotron 3 are those of the ``transformers`` config class
(5.23); the layers that predict further tokens are those of the engines that run them. Shapes of
DeciLM (Nemotron Super and Ultra), whose layers a neural architecture search chose one by one, are
those of the published modelling file; totals are checked against published counts.
"""

from collections.abc import Sequence
from typing import Any, Final

from roofline.model.architecture import Architecture, Attention, Block, Linear, Mlp, Moe
from roofline.model.huggingface import mamba_hybrid
from roofline.model.huggingface.common import (
    Geometry,
    activation,
    attention,
    family,
    geometry,
    neutral,
    stack,
)
from roofline.model.huggingface.fields import LARGEST, MOST_LAYERS, Fields
from roofline.model.huggingface.layers import (
    at_most,
    block_parameters,
    layer_words,
    with_prediction,
)
from roofline.model.huggingface.mamba import MAMBA2, MAMBA2_SEEN, Spelling, spelled
from roofline.model.huggingface.routing import ROUTING
from roofline.records import replace

WORDS: Final = {**mamba_hybrid.WORDS, "mlp": "-", "moe": "E"}
MAMBA: Final[Spelling] = {
    **MAMBA2,
    "heads": ("mamba_num_heads", 128),
    "head_dim": ("mamba_head_dim", 64),
    "state": ("ssm_state_size", 128),
    "chunk": ("chunk_size", 128),
}
MOE: Final = frozenset(
    {
        "n_routed_experts",
        "num_experts_per_tok",
        "moe_intermediate_size",
        "moe_shared_expert_intermediate_size",
        "moe_latent_size",
        "n_shared_experts",
    }
)
"""Fields of experts, which a network without them may have."""


@family("nemotron_h")
def nemotron_h(fields: Fields) -> Architecture:
    """Nemotron-H and Nemotron 3: a layer is Mamba-2, attention, an MLP or experts, each alone."""
    neutral(fields, attention_bias=False, mamba_proj_bias=False, n_shared_experts=1)
    fields.only("sliding_window", reason="its layers would see only part of the context")
    fields.seen |= MAMBA2_SEEN | ROUTING
    kinds = _layers(fields, "hybrid_override_pattern", "layers_block_type", "layer_types")
    if len(kinds) > MOST_LAYERS:
        fields.refuse("layers_block_type", f"a network of {len(kinds)} layers is out of range")
    shape = geometry(fields, kv_heads=8, head_dim=128, defaults={"layers": len(kinds)})
    head = fields.integer("head_dim", "head_dim", "attention_head_dim", default=128)
    shape = replace(shape, head_dim=head)
    if shape.layers != len(kinds):
        fields.refuse(
            "num_hidden_layers",
            f"num_hidden_layers = {shape.layers}, but the pattern has {len(kinds)} layers",
            "leave only the one that holds",
        )
    extra = fields.integer("mtp", "num_nextn_predict_layers", default=0, low=0)
    further: Sequence[str] = ()
    if extra:
        own = fields.provenance["layer_types"]
        further = _layers(fields, "mtp_hybrid_override_pattern", "mtp_layers_block_type")
        fields.provenance["layer_types"] = own
    fields.seen.update({"mtp_hybrid_override_pattern", "mtp_layers_block_type"})
    parts = _parts(fields, shape, {*kinds, *further})
    body = stack(fields, shape, [parts[kind] for kind in kinds])
    # Beside its layers: norms of both inputs and a last one, a projection of two widths to one.
    width = shape.d_model
    each = sum(block_parameters(parts[kind], width) for kind in further)
    each += 3 * width + 2 * width * width
    return with_prediction(fields, body, extra * each)


def _layers(fields: Fields, pattern: str, *lists: str) -> Sequence[str]:
    """Letters of the layers, from a pattern or a list of words; where both are, they agree."""
    found: dict[str, Sequence[str]] = {}
    for key in lists:
        if (kinds := layer_words(fields, key, WORDS, None)) is not None:
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


def _parts(fields: Fields, shape: Geometry, kinds: set[str]) -> dict[str, Block]:
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
        mixer = spelled(fields, width, MAMBA, bias="use_bias", conv_bias="use_conv_bias")
        out["M"] = Block(mixer, None, 1, width)
    if "*" in kinds:
        out["*"] = Block(attention(shape, [None], rotary=False)[0], None, 1, width)
    if "-" in kinds:
        out["-"] = Block(None, Mlp(inner, False, bias, bias, act), 1, width)
    if "E" in kinds:
        if bias:
            fields.refuse("mlp_bias", "mlp_bias = true is not understood in experts")
        experts = fields.integer("experts", "n_routed_experts", default=8)
        moe = Moe(
            experts,
            at_most(fields, experts),
            fields.integer("expert_width", "moe_intermediate_size", default=7688),
            gated=False,
            activation=act,
            shared_width=fields.integer(
                "shared_width", "moe_shared_expert_intermediate_size", default=7688
            ),
            latent=fields.optional("latent", "moe_latent_size") or 0,
        )
        out["E"] = Block(None, moe, 1, width)
    fields.seen.update(MOE)
    return out


MULTIPLE: Final = 256
"""Inner widths are rounded up to a multiple of this. [1]"""
ATTENTION: Final = frozenset({"n_heads_in_group", "no_op", "replace_with_linear"})
FFN: Final = frozenset({"ffn_mult", "no_op", "replace_with_linear"})


@family("nemotron-nas")
def nemotron_nas(fields: Fields) -> Architecture:
    """Llama whose layers have their own key/value heads and inner width, or leave a part out."""
    fields.only("num_key_value_heads", reason="block_configs says it layer by layer")
    fields.only("intermediate_size", reason="block_configs says it layer by layer")
    shape = geometry(fields)
    found = fields.get("block_configs")
    blocks = found[1] if found else None
    if not isinstance(blocks, list) or len(blocks) != shape.layers:
        fields.refuse(
            "block_configs",
            f"block_configs does not describe each of {shape.layers} layers",
            "give the list of the published config.json",
        )
    bias = fields.flag("attention_bias", "attention_bias", default=False)
    mlp_bias = fields.flag("mlp_bias", "mlp_bias", default=False)
    layers = [_layer(fields, shape, i, bias, mlp_bias) for i in range(shape.layers)]
    fields.provenance["layer_types"] = (
        f"block_configs, one entry per layer, {fields.where('block_configs')}"
    )
    return stack(fields, shape, layers)


def _layer(fields: Fields, shape: Geometry, index: int, bias: bool, mlp_bias: bool) -> Block:
    """One layer; a part that is left out takes its norm with it."""
    width = shape.d_model
    mixer = feedforward = None
    extra: list[Linear] = []
    norms = 0
    attend = _part(fields, index, "attention", ATTENTION)
    if not attend["no_op"]:
        norms += 1
        if attend["replace_with_linear"]:
            extra.append(Linear("attn-linear", width, width, split="none"))
        else:
            mixer = _attention(fields, shape, index, attend["n_heads_in_group"], bias)
    ffn = _part(fields, index, "ffn", FFN)
    if not ffn["no_op"]:
        norms += 1
        if ffn["replace_with_linear"]:
            extra.append(Linear("mlp-linear", width, width, split="none"))
        else:
            inner = _inner(fields, index, ffn["ffn_mult"], width)
            feedforward = Mlp(inner, True, mlp_bias, mlp_bias, activation(fields))
    return Block(mixer, feedforward, norms, norms * width, extra=tuple(extra))


def _part(fields: Fields, index: int, name: str, known: frozenset[str]) -> dict[str, Any]:
    """Settings of a part of a layer; any other setting that is switched on is refused."""
    entry = fields.data["block_configs"][index]
    part = entry.get(name) if isinstance(entry, dict) else None
    place = ("block_configs", index, name)
    if not isinstance(part, dict):
        fields.refuse_at(place, f"layer {index} has no {name}", "give the published config.json")
    for key, value in part.items():
        if key not in known and value not in (None, False):
            fields.refuse_at(
                (*place, key),
                f"{key:.40} of layer {index} is not understood, and may change the cost",
                "only layers of full attention and plain inner width can be costed",
            )
    for key in ("no_op", "replace_with_linear"):
        if not isinstance(part.get(key, False), bool):
            fields.refuse_at((*place, key), f"{key} is not true or false", "write true or false")
    return {key: part.get(key) or None for key in known}


def _attention(fields: Fields, shape: Geometry, index: int, group: Any, bias: bool) -> Attention:
    if type(group) is not int or group < 1 or shape.heads % group:
        fields.refuse_at(
            ("block_configs", index, "attention", "n_heads_in_group"),
            f"{shape.heads} query heads do not divide into groups of {group!r:.20}",
            "give a group size that divides the number of query heads",
        )
    own = replace(shape, kv_heads=shape.heads // group)
    return attention(own, [None], qkv_bias=bias, out_bias=bias)[0]


def _inner(fields: Fields, index: int, factor: Any, width: int) -> int:
    """Two thirds of a multiple of the width, rounded down, then up to a multiple of 256. [1]"""
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor <= LARGEST:
        fields.refuse_at(
            ("block_configs", index, "ffn", "ffn_mult"),
            f"ffn_mult = {factor!r:.20} is not a positive number",
            "give the factor of the published config.json",
        )
    exact = int(2 * factor * width / 3)
    return -(-exact // MULTIPLE) * MULTIPLE
