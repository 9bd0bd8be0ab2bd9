"""Layers that are not alike: windows, kinds, and those that predict further tokens."""

from collections.abc import Mapping, Sequence
from typing import Final

from roofline.model.architecture import Architecture, Block
from roofline.model.huggingface.fields import Fields
from roofline.records import replace

SPANS: Final = {"full_attention": "full", "sliding_attention": "sliding"}


def windows(
    fields: Fields, layers: int, *, size: int | None, sliding: Sequence[bool], extra: int = 0
) -> tuple[int | None, ...]:
    """Window of each layer: ``layer_types`` where the config has it, else the family's own rule.

    Args:
        fields: The config.
        layers, extra: As in `layer_words`. [1]
        size: Keys a query sees in a sliding layer; None if the config has no window. [token]
        sliding: The family's rule: true for layers that slide.

    Raises:
        UnsupportedModelError: ``layer_types`` is not one known word per layer, or slides without a
            window.
    """
    kinds = layer_words(fields, "layer_types", SPANS, layers, extra)
    if kinds is None:
        return tuple(size if slides else None for slides in sliding)
    slides = kinds.count("sliding")
    if slides and size is None:
        fields.refuse(
            "layer_types",
            "layer_types has sliding_attention, but the config has no window in force",
            "give sliding_window (and use_sliding_window, where the model type has it)",
        )
    fields.provenance["layer_types"] = (
        f"layer_types = {slides} sliding, {layers - slides} full, {fields.where('layer_types')}"
    )
    return tuple(size if kind == "sliding" else None for kind in kinds)


def no_windows(fields: Fields, layers: int) -> tuple[int | None, ...]:
    """Windows of a model type that has none; one that is in force is not understood."""
    if window_size(fields, None) is not None:
        fields.seen.remove("sliding_window")
    return windows(fields, layers, size=None, sliding=[False] * layers)


def every_layer(fields: Fields, layers: int) -> tuple[int | None, ...]:
    """Windows of a model type whose ``sliding_window`` holds in all layers."""
    return windows(fields, layers, size=window_size(fields, None), sliding=[True] * layers)


def every_nth_full(fields: Fields, layers: int, *, pattern: int) -> tuple[int | None, ...]:
    """Windows of a model type in which every n-th layer sees everything."""
    size = window_size(fields, 4096)
    period = fields.integer(
        "sliding_window_pattern",
        "sliding_window_pattern",
        "_sliding_window_pattern",
        default=pattern,
    )
    return windows(
        fields, layers, size=size, sliding=[(i + 1) % period != 0 for i in range(layers)]
    )


def window_size(fields: Fields, default: int | None) -> int | None:
    """``sliding_window``: the default where it is absent, none where null, 0 or off. [token]"""
    if fields.data.get("use_sliding_window") is False:
        fields.seen |= {"sliding_window", "max_window_layers"}
        return None
    if "sliding_window" in fields.data or default is None:
        return fields.optional("window", "sliding_window", low=0) or None
    fields.say("window", "sliding_window", default)
    return default


def switched_window(fields: Fields) -> int | None:
    """Qwen's window; none unless ``use_sliding_window`` puts it in force. [token]"""
    used = fields.flag("use_sliding_window", "use_sliding_window", default=False)
    size = window_size(fields, 4096)
    if not used:
        fields.provenance.pop("window", None)
    return size if used else None


def late_windows(fields: Fields, layers: int) -> tuple[int | None, ...]:
    """Qwen's rule: with ``use_sliding_window``, layers from ``max_window_layers`` on slide."""
    size = switched_window(fields)
    first = fields.integer("max_window_layers", "max_window_layers", default=28, low=0)
    return windows(fields, layers, size=size, sliding=[i >= first for i in range(layers)])


def layer_words(
    fields: Fields, key: str, words: Mapping[str, str], layers: int | None, extra: int = 0
) -> Sequence[str] | None:
    """Kind of each layer from a list of words; None where the config has no such list.

    Args:
        fields, key: The config, and its key.
        words: What each word stands for.
        layers: How many there must be; None if the list itself says it. [1]
        extra: Layers that predict further tokens, which may follow in the list. [1]

    Raises:
        UnsupportedModelError: It is not a list of those words, or not as long as it must be.
    """
    if (found := fields.get(key)) is None:
        return None
    _, types = found
    lengths = None if layers is None else (layers, layers + extra)
    if not isinstance(types, list) or not types or (lengths and len(types) not in lengths):
        fields.refuse(
            key,
            f"{key} does not name one type for each of {layers or 'its'} layers",
            "write a list with one entry per layer",
        )
    types = types[:layers]
    for entry in types:
        if not isinstance(entry, str) or entry not in words:
            fields.refuse(
                key,
                f"a layer of type {entry!r:.40} is not understood in {fields.model_type}",
                f"layers may be {(', ' if len(words) > 2 else ' or ').join(words)}",
            )
    kinds = [words[entry] for entry in types]
    counted = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    fields.provenance["layer_types"] = f"{key} = {counted}, {fields.where(key)}"
    return kinds


def divides(fields: Fields, key: str, heads: int, groups: int, what: str) -> None:
    """Refuse a number of groups that the heads do not divide over.

    Raises:
        UnsupportedModelError: They do not.
    """
    if heads % groups:
        fields.refuse(
            key, f"{heads} {what} do not divide over {groups}", f"give a {key} that divides them"
        )


def at_most(fields: Fields, experts: int) -> int:
    """Experts per token, which are not more than there are. [1]

    Raises:
        UnsupportedModelError: They are.
    """
    active = fields.integer("active_experts", "num_experts_per_tok", default=min(2, experts))
    if active > experts > 1:
        fields.refuse(
            "num_experts_per_tok",
            f"a token cannot be sent to {active} of {experts} experts",
            "give a num_experts_per_tok of at most the number of experts",
        )
    return active


LEFT_OUT: Final = "multi-token prediction layers are left out of the text decoder"


def further_tokens(fields: Fields, body: Architecture) -> Architecture:
    """Count ``num_nextn_predict_layers`` layers like the last one under other parameters.

    Like the last that has an index of its own, where there are such. Each has a projection of two
    widths to one, two norms before it and one at its end; embedding and LM head are the decoder's.
    Source: DeepSeek-V3 technical report (2024), section 2.2.
    """
    number = fields.optional("prediction_layers", "num_nextn_predict_layers", low=0) or 0
    width = body.d_model
    indices = ((block, getattr(block.mixer, "index", None)) for block in reversed(body.layers))
    like = next(block for block, index in indices if index is None or index.computes)
    each = block_parameters(like, width) + 2 * width * width + 3 * width
    return with_prediction(fields, body, number * each)


def with_prediction(fields: Fields, body: Architecture, parameters: int) -> Architecture:
    """A decoder whose layers that predict further tokens are counted under other parameters."""
    if not parameters:
        return body
    fields.notes.append(LEFT_OUT)
    return replace(body, other_parameters={"multi-token prediction": parameters})


def block_parameters(block: Block, d_model: int) -> int:
    """All parameters of one layer. [parameter]"""
    return (
        sum(linear.parameters for linear in block.linears(d_model))
        + sum(part.other_parameters for part in block.parts)
        + block.expert_parameters(d_model)
        + block.norm_parameters
        + block.extra_parameters
    )
