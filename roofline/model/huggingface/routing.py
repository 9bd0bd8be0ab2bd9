"""Mixtures of experts in configs: their number, their width, and the layers that have them."""

from collections.abc import Sequence
from typing import Any, Final

from roofline.model.architecture import FeedForward, Mlp, Moe
from roofline.model.huggingface.common import activation, gated
from roofline.model.huggingface.fields import LARGEST, Fields

_ROUTING: Final = """
    router_aux_loss_coef router_z_loss_coef router_jitter_noise input_jitter_noise
    output_router_logits norm_topk_prob norm_expert_weight routed_scaling_factor scoring_func
    router_scoring_func n_group topk_group topk_method aux_loss_alpha aux_loss_free seq_aux ep_size
    moe_router_dtype use_routing_bias moe_norm_min swiglu_alpha swiglu_limit swiglu_limits
    swiglu_limits_shared moe_router_scaling_factor moe_router_activation
"""
ROUTING: Final = frozenset(_ROUTING.split())
"""Fields of a mixture of experts that decide which experts are chosen and how they are weighed, not
how many: scores, losses, noise; groups are read by `routed`. The bias of a score is a buffer, not a
parameter."""

EXPERTS: Final = ("num_experts", "num_local_experts", "n_routed_experts")
ACTIVE: Final = ("num_experts_per_tok",)
GROUPS: Final = ("n_group", "num_expert_group")
CHOSEN: Final = ("topk_group",)


def routed(
    fields: Fields,
    *,
    width: tuple[str, ...] = ("moe_intermediate_size",),
    experts: tuple[str, ...] = EXPERTS,
    active: tuple[str, ...] = ACTIVE,
    **more: Any,
) -> Moe:
    """Read a mixture of experts.

    Args:
        fields: The config.
        width, experts, active: Spellings of F of an expert, E and k.
        more: Other fields of `Moe`.

    Raises:
        UnsupportedModelError: A number is missing or out of range, or more experts are active than
            there are.
    """
    fields.seen |= ROUTING
    number = constant(fields, "experts", *experts)
    each = constant(fields, "active_experts", *active)
    if each > number:
        fields.refuse(
            next(key for key in active if key in fields.data),
            f"{each} of {number} experts cannot be active",
            "give as many experts as are active, or more",
        )
    groups, chosen = _limited(fields, number, each)
    return Moe(
        number,
        each,
        constant(fields, "expert_width", *width),
        activation=activation(fields),
        groups=groups,
        active_groups=chosen,
        **more,
    )


def _limited(fields: Fields, experts: int, active: int) -> tuple[int, int]:
    """Groups of experts, and how many of them a token's experts may come from; 1, 1 for no limit.

    Raises:
        UnsupportedModelError: Experts are not equal groups, or those that may be chosen hold too
            few.
    """
    off = any(fields.data.get(key) is False for key in (*GROUPS, *CHOSEN))
    if off or fields.data.get("topk_method") == "greedy":
        return 1, 1
    groups = fields.optional("expert_groups", *GROUPS, low=1) or 1
    chosen = fields.optional("active_groups", *CHOSEN, low=1) or groups
    if groups == 1 or chosen >= groups:
        return 1, 1
    if experts % groups or chosen * (experts // groups) < active:
        fields.refuse(
            next(key for key in GROUPS if key in fields.data),
            f"{active} of {experts} experts cannot come from {chosen} of {groups} equal groups",
            "give groups that divide the experts, and enough of them to choose from",
        )
    return groups, chosen


def constant(fields: Fields, name: str, *keys: str) -> int:
    """Whole number, or a list that has the same one for every layer.

    Raises:
        UnsupportedModelError: Layers differ, or as `Fields.integer`.
    """
    found = fields.get(*keys)
    if found is None or not isinstance(found[1], list):
        return fields.integer(name, *keys)
    key, entries = found
    first = entries[0] if entries else None
    if type(first) is not int or not 1 <= first <= LARGEST or entries != [first] * len(entries):
        fields.refuse(
            key,
            f"{key} is a list whose entries are not one whole number",
            "only networks in which all mixtures of experts are alike can be costed",
        )
    fields.cite(name, key)
    return first


def shared_width(fields: Fields, each: int, default: int | None) -> int:
    """Width of ``n_shared_experts`` shared experts together; null is none. [1]"""
    if "n_shared_experts" in fields.data or default is None:
        return (fields.optional("shared_experts", "n_shared_experts", low=0) or 0) * each
    return fields.integer("shared_experts", "n_shared_experts", default=default, low=0) * each


def placed(dense: Mlp, moe: Moe, sparse: Sequence[bool]) -> list[FeedForward]:
    """Feed-forward part of each layer."""
    return [moe if here else dense for here in sparse]


def stepped(fields: Fields, layers: int) -> list[bool]:
    """Qwen's rule: every ``decoder_sparse_step``-th layer, but those in ``mlp_only_layers``."""
    step = fields.integer("sparse_step", "decoder_sparse_step", default=1)
    found = fields.get("mlp_only_layers")
    dense = [] if found is None else indices(fields, "mlp_only_layers", found[1])
    return [(i + 1) % step == 0 and i not in dense for i in range(layers)]


def after_dense(fields: Fields, layers: int, default: int) -> list[bool]:
    """DeepSeek's rule: all but the first ``first_k_dense_replace`` layers.

    ``mlp_layer_types`` and a list under ``moe_layer_freq`` say the same layer by layer.
    """
    first = fields.integer(
        "dense_layers", "first_k_dense_replace", default=default, low=0, high=layers
    )
    rule = [i >= first for i in range(layers)]
    frequency = fields.data.get("moe_layer_freq")
    if isinstance(frequency, list):
        fields.seen.add("moe_layer_freq")
        rule = marks(fields, "moe_layer_freq", layers, {0: False, 1: True})
    else:
        fields.only("moe_layer_freq", 1, reason="it may leave experts out of layers")
    if fields.get("mlp_layer_types") is not None:
        rule = marks(fields, "mlp_layer_types", layers, {"dense": False, "sparse": True})
    return rule


def dense_then_experts(
    fields: Fields, layers: int, *, dense: int, shared: int | None
) -> list[FeedForward]:
    """DeepSeek's feed-forward parts: dense ones first, then experts with shared ones beside them.

    Args:
        fields, layers: The config, and its number of layers.
        dense, shared: Dense layers, and shared experts, where the config does not say; None for
            none. [1]
    """
    sparse = after_dense(fields, layers, dense)
    width = fields.integer("expert_width", "moe_intermediate_size")
    moe = routed(fields, shared_width=shared_width(fields, width, shared))
    return placed(gated(fields), moe, sparse)


def marks(fields: Fields, key: str, layers: int, meaning: dict[Any, Any]) -> list[Any]:
    """A list with one known entry per layer, translated.

    Raises:
        UnsupportedModelError: Not a list, of another length, or with an entry that is not known.
    """
    fields.seen.add(key)
    entries = fields.data.get(key)
    if not isinstance(entries, list) or len(entries) != layers:
        fields.refuse(
            key,
            f"{key} does not have one entry for each of {layers} layers",
            "write a list with one entry per layer",
        )
    known = [isinstance(e, str | int) and not isinstance(e, bool) and e in meaning for e in entries]
    if not all(known):
        wrong = entries[known.index(False)]
        fields.refuse(
            key,
            f"{wrong!r:.40} in {key} is not understood for model_type {fields.model_type}",
            f"entries may be {', '.join(str(entry) for entry in meaning)}",
        )
    fields.provenance[key] = f"{key}, one entry per layer, {fields.where(key)}"
    return [meaning[entry] for entry in entries]


def indices(fields: Fields, key: str, entries: Any) -> frozenset[int]:
    """Layers that are given by their numbers.

    Raises:
        UnsupportedModelError: Not a list of whole numbers.
    """
    if not isinstance(entries, list) or any(type(entry) is not int for entry in entries):
        fields.refuse(key, f"{key} is not a list of layer numbers", "write a list such as [0, 1]")
    fields.provenance[key] = f"{key} = {len(entries)} layers, {fields.where(key)}"
    return frozenset(entries)
