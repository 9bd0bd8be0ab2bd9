"""Nemotron-H and Nemotron 3: layers that are state-space, attention, MLP or experts alone.

Shapes and defaults are those of the ``transformers`` config class (5.23); the layers that predict
further tokens are those of the engines that run them.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from roofline.model.architecture import Architecture, Block, Mlp, Moe
from roofline.model.huggingface.common import Geometry, attention, family, geometry, neutral, stack
from roofline.model.huggingface.fields import MOST_LAYERS, Fields
from roofline.model.huggingface.mamba import MAMBA2_SEEN, Spelling, spelled
from roofline.model.huggingface.routing import ROUTING
from roofline.model.huggingface.stacking import (
    at_most,
    block_parameters,
    layer_words,
    with_prediction,
)

WORDS: Final = {
    "mamba": "M",
    "linear_attention": "M",
    "attention": "*",
    "full_attention": "*",
    "mlp": "-",
    "moe": "E",
}
MAMBA: Final[Spelling] = {
    "heads": ("mamba_num_heads", 128),
    "head_dim": ("mamba_head_dim", 64),
    "state": ("ssm_state_size", 128),
    "groups": ("n_groups", 8),
    "kernel": ("conv_kernel", 4),
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
    layers = [parts[kind] for kind in kinds]
    body = stack(fields, shape, layers)
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
            at_most(fields, experts, 2),
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
