"""Numbers inside the text of a change, and layers one at a time."""

import re
from collections.abc import Callable
from typing import Final

from roofline.errors import InputError
from roofline.model.architecture import Architecture, Attention, Block
from roofline.records import replace

MOST: Final = 2**31


def whole(value: str, what: str, most: int = MOST) -> int:
    """Whole number from 1 up to a bound.

    >>> whole("1,024", "window")
    1024
    """
    text = value.strip().replace(",", "").replace("_", "")
    number = int(text) if re.fullmatch(r"[0-9]{1,12}", text, re.ASCII) else 0
    if not 1 <= number <= most:
        raise InputError(
            f"{what} is {value[:40]!r}", hint=f"give a whole number from 1 to {most:,}"
        )
    return number


def pair(value: str, what: str, example: str) -> tuple[int, int]:
    """Two whole numbers: ``"1024/6"``."""
    left, slash, right = value.partition("/")
    if not slash:
        raise InputError(f"{what} is {value[:40]!r}", hint=f"give two numbers, like {example}")
    return whole(left, what), whole(right, what)


def in_layers(network: Architecture, change: Callable[[Block], Block | None]) -> Architecture:
    """The network with layers exchanged; equal blocks stay equal objects.

    Args:
        network: The network.
        change: The layer that takes the place of one; None to leave it.
    """
    made: dict[Block, Block] = {}
    out = []
    for block in network.layers:
        other = change(block)
        out.append(made.setdefault(other, other) if other is not None else block)
    return replace(network, layers=tuple(out))


def in_attention(
    network: Architecture, change: Callable[[Attention], Attention | None]
) -> Architecture:
    """The network with its attention exchanged, layer by layer; None leaves a layer as it is."""

    def changed(block: Block) -> Block | None:
        made = change(block.mixer) if isinstance(block.mixer, Attention) else None
        return None if made is None else replace(block, mixer=made)

    return in_layers(network, changed)


def attends(network: Architecture, what: str) -> list[Attention]:
    """Layers with key/value heads, in order.

    Raises:
        InputError: There are none.
    """
    found = [block.mixer for block in network.layers if isinstance(block.mixer, Attention)]
    if not found:
        raise InputError(
            f"{network.name} has no attention with key/value heads to change",
            hint=f"{what} applies to networks such as llama-3.1-8b",
        )
    return found
