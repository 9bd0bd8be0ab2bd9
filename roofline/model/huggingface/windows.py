"""Which layers of a network see only the last tokens, and how many."""

from collections.abc import Sequence

from roofline.model.huggingface.fields import Fields


def windows(
    fields: Fields, layers: int, *, size: int | None, sliding: Sequence[bool]
) -> tuple[int | None, ...]:
    """Window of each layer: ``layer_types`` where the config has it, else the family's own rule.

    Args:
        fields: The config.
        layers: How many. [1]
        size: Keys a query sees in a sliding layer; None if the config has no window. [token]
        sliding: The family's rule: which layers slide.

    Raises:
        UnsupportedModelError: ``layer_types`` is not one known word per layer, or slides without a
            window.
    """
    found = fields.get("layer_types")
    if found is None:
        return tuple(size if slides else None for slides in sliding)
    key, types = found
    if not isinstance(types, list) or len(types) != layers:
        fields.refuse(
            key,
            f"layer_types does not name one type for each of {layers} layers",
            "write a list with one entry per layer",
        )
    for entry in types:
        if entry not in ("full_attention", "sliding_attention"):
            fields.refuse(
                key,
                f"a layer of type {entry!r:.40} is not understood in {fields.model_type}",
                "layers may be full_attention or sliding_attention",
            )
    if "sliding_attention" in types and size is None:
        fields.refuse(
            key,
            "layer_types has sliding_attention, but the config has no window in force",
            "give sliding_window (and use_sliding_window, where the model type has it)",
        )
    slides = types.count("sliding_attention")
    fields.provenance["layer_types"] = (
        f"layer_types = {slides} sliding, {layers - slides} full, {fields.where(key)}"
    )
    return tuple(size if entry == "sliding_attention" else None for entry in types)


def no_windows(fields: Fields, layers: int) -> tuple[int | None, ...]:
    """Windows of a model type that has none."""
    return windows(fields, layers, size=None, sliding=[False] * layers)


def every_layer(fields: Fields, layers: int, default: int | None = None) -> tuple[int | None, ...]:
    """Windows of a model type whose ``sliding_window`` holds in all layers."""
    size = window_size(fields, default)
    return windows(fields, layers, size=size, sliding=[True] * layers)


def every_nth_full(
    fields: Fields, layers: int, *, pattern: int, default: int
) -> tuple[int | None, ...]:
    """Windows of a model type in which every n-th layer sees everything."""
    size = window_size(fields, default)
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
    """``sliding_window``: the default if the key is absent, none if it is null. [token]"""
    if "sliding_window" in fields.data or default is None:
        return fields.optional("window", "sliding_window")
    fields.say("window", "sliding_window", default)
    return default


def late_windows(fields: Fields, layers: int) -> tuple[int | None, ...]:
    """Qwen's rule: with ``use_sliding_window``, layers from ``max_window_layers`` on slide."""
    used = fields.flag("use_sliding_window", "use_sliding_window", default=False)
    size = window_size(fields, 4096)
    first = fields.integer("max_window_layers", "max_window_layers", default=28, low=0)
    if not used:
        fields.provenance.pop("window", None)
    return windows(
        fields,
        layers,
        size=size if used else None,
        sliding=[i >= first for i in range(layers)],
    )
