"""Changes of attention into layers with a state of constant size: S4, H3, BASED, RetNet."""

from collections.abc import Callable
from typing import Final

from roofline.model.architecture import Architecture, Attention, Block
from roofline.model.changes.values import attends, in_layers, pair, whole
from roofline.model.recurrent import Recurrent, based, h3, retention, s4
from roofline.records import replace

PROJECTIONS: Final = ("qkv", "attn-out")
"""Matrices whose formats a state-space layer does not take over."""
Make = Callable[[Attention], Recurrent | None]


def _with_mixers(network: Architecture, what: str, make: Make) -> Architecture:
    """The network with other mixers in place of its attention; None leaves a layer as it is."""
    attends(network, what)

    def change(block: Block) -> Block | None:
        made = make(block.mixer) if isinstance(block.mixer, Attention) else None
        if made is None:
            return None
        formats = tuple(each for each in block.formats if each[0] not in PROJECTIONS)
        return replace(block, mixer=made, formats=formats)

    return in_layers(network, change)


def to_s4(network: Architecture, value: str) -> Architecture:
    """S4 in place of attention, with so many numbers of state for each channel: ``"64"``."""
    states = whole(value, "s4", 2**16)
    return _with_mixers(network, "s4", lambda _: s4(network.d_model, states))


def to_h3(network: Architecture, value: str) -> Architecture:
    """H3 in place of attention, with so many numbers in each of its two states: ``"64"``."""
    states = whole(value, "h3", 2**16)
    return _with_mixers(network, "h3", lambda _: h3(network.d_model, states))


def to_retnet(network: Architecture, _: str) -> Architecture:
    """Retention in place of attention, with its heads."""
    return _with_mixers(
        network, "retnet", lambda part: retention(network.d_model, part.heads, part.head_dim)
    )


def to_based(network: Architecture, value: str) -> Architecture:
    """Linear attention in every other layer, windows in the rest: ``"16/64"``, features/tokens."""
    features, size = pair(value, "based", "16/64")
    linear = False

    def make(part: Attention) -> Recurrent | None:
        nonlocal linear
        linear = not linear
        return based(network.d_model, part.heads, features, part.head_dim) if linear else None

    mixed = _with_mixers(network, "based", make)

    def windowed(block: Block) -> Block | None:
        part = block.mixer
        if not isinstance(part, Attention):
            return None
        return replace(block, mixer=replace(part, window=size, chunk=None))

    return in_layers(mixed, windowed)


def state_reason(before: Architecture, after: Architecture, _: str) -> str:
    """Layers that keep a state, and its size for a sequence."""
    made = [
        new.mixer.state_elements
        for old, new in zip(before.layers, after.layers, strict=True)
        if isinstance(old.mixer, Attention) and isinstance(new.mixer, Recurrent)
    ]
    number = "all" if len(made) == len(after.layers) else f"{len(made)} of {len(after.layers)}"
    return f"{number} layers keep {sum(made):,} numbers a sequence, however long it is"
