"""Networks whose layers were searched for one by one: DeciLM, as Nemotron Super and Ultra.

Shapes are those of the published modelling file; totals are checked against published counts.
"""

from typing import Any, Final

from roofline.model.architecture import Architecture, Attention, Block, Linear, Mlp
from roofline.model.huggingface.common import Geometry, activation, family, geometry, stack
from roofline.model.huggingface.fields import LARGEST, Fields

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
    """Description of a part: what shapes it, and nothing else that is switched on."""
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
    kv_heads = shape.heads // group
    outputs = (shape.heads + 2 * kv_heads) * shape.head_dim
    return Attention(
        shape.heads,
        kv_heads,
        shape.head_dim,
        qkv_biased=outputs if bias else 0,
        out_bias=bias,
    )


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
