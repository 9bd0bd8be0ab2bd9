"""Layouts that a network and a node allow, and shares of the network on each device."""

import numpy as np

from roofline.cost.layout import MOST, Layout
from roofline.cost.work import Number
from roofline.errors import LayoutError
from roofline.hardware.machine import Node
from roofline.model.architecture import Architecture, Block
from roofline.model.feedforward import FeedForward
from roofline.model.linear import Group


def check(architecture: Architecture, layout: Layout, node: Node, redundant: int = 0) -> None:
    """Refuse a layout that the network's shape or the machine does not allow.

    Heads and feed-forward widths must be divisible; key/value heads are split, or repeated on
    several devices where there are fewer of them than devices; the rows of the vocabulary and the
    experts, redundant ones [1] among them, are padded.

    Raises:
        LayoutError: Names the number that has to be divisible.
    """
    for name in ("tp", "cp", "dp", "ep", "pp"):
        degree = getattr(layout, name)
        if degree != int(degree) or not 1 <= degree <= MOST:
            raise LayoutError(
                f"{_WORDS[name]} over {degree:g} devices",
                hint=f"use at least 1 device and {MOST:,} at most",
            )
    _check_stages(architecture, layout)
    _check_experts(architecture, layout, redundant)
    check_context(architecture, layout)
    check_layer(architecture, int(layout.tp))
    for part in architecture.mixtures:
        for group in ("expert", "shared"):
            _check_widths(architecture, part, group, int(layout.sharing(group)))
    devices = int(layout.devices)
    if devices > node.gpus and node.network is None:
        raise LayoutError(
            f"{layout} takes {devices} devices, {node.name} has {node.gpus} and no network",
            hint=f"use {node.gpus} devices or fewer, or a node whose file states its network",
        )
    nodes = -(-devices // node.gpus)
    if devices % nodes:
        raise LayoutError(
            f"{layout} takes {devices} devices, which do not spread evenly over {nodes} nodes "
            f"of {node.gpus}",
            hint=f"use a multiple of {nodes} devices",
        )


_WORDS = {
    "tp": "tensor parallel",
    "cp": "context parallel",
    "dp": "attention data parallel",
    "ep": "expert parallel",
    "pp": "pipeline parallel",
}


def _check_stages(architecture: Architecture, layout: Layout) -> None:
    layers = len(architecture.layers)
    if layout.pp > max(layers, 1):
        raise LayoutError(
            f"{architecture.name} has {layers} layers, too few for {layout.pp} stages",
            hint=f"use `pp={layers}` or less",
        )
    if layout.stages and (
        len(layout.stages) != layout.pp or sum(layout.stages) != layers or min(layout.stages) < 1
    ):
        said = ", ".join(map(str, layout.stages))
        raise LayoutError(
            f"stages of {said} layers are not {layout.pp} stages with the {layers} layers of "
            f"{architecture.name}",
            hint=f"give {layout.pp} numbers of 1 or more that add up to {layers}",
        )


def _check_experts(architecture: Architecture, layout: Layout, redundant: int) -> None:
    mixtures = architecture.mixtures
    if not mixtures and layout.ep > 1:
        raise LayoutError(
            f"{architecture.name} has no experts to spread over {layout.ep:g} groups",
            hint="leave `ep` out",
        )
    if not mixtures and layout.dp > 1:
        raise LayoutError(
            f"{architecture.name} has no experts for {layout.dp:g} attention groups to share",
            hint=f"groups that share nothing are replicas: `tp={layout.tp:g}` and "
            f"`gpus={layout.devices:g}`",
        )
    if layout.stage_devices % layout.ep:
        most = int(layout.stage_devices)
        divisors = [str(n) for n in range(1, most + 1) if most % n == 0]
        raise LayoutError(
            f"experts over {layout.ep:g} groups, but a stage has {layout.stage_devices:g} devices "
            "(TP · CP · DP)",
            hint=f"make `ep` one of {', '.join(divisors)}",
        )
    for part in mixtures:
        if layout.ep > part.experts + redundant:
            raise LayoutError(
                f"{architecture.name}: {part.experts + redundant} experts cannot be spread over "
                f"{layout.ep:g} groups",
                hint=f"use `ep={part.experts + redundant}` or less, or redundant experts",
            )


def check_context(architecture: Architecture, layout: Layout) -> None:
    """Refuse context parallelism of layers that it is not priced for.

    Raises:
        LayoutError: Names what they have.
    """
    if layout.cp == 1:
        return
    for block in architecture.kinds:
        part = block.mixer
        if part is not None and part.context_bound:
            raise LayoutError(
                f"{architecture.name} has layers with {part.context_bound}, which context "
                "parallelism is not priced for",
                hint="use tensor or pipeline parallelism",
            )


def check_layer(architecture: Architecture, tp: int) -> None:
    """Refuse a tensor-parallel degree that heads and dense widths do not allow.

    Raises:
        LayoutError: Names the number that has to be divisible.
    """
    for block in architecture.kinds:
        _check_mixer(architecture, block, tp)
        if block.feedforward is not None:
            _check_widths(architecture, block.feedforward, "layer", tp)


def _check_mixer(architecture: Architecture, block: Block, tp: int) -> None:
    mixer = block.mixer
    if mixer is None:
        return
    _divides(tp, mixer.heads, mixer.heads_name, architecture)
    shared = mixer.repeatable_heads
    if shared and shared % tp and tp % shared:
        raise LayoutError(
            f"{architecture.name}: {shared} key/value heads can neither be split "
            f"nor repeated evenly over {tp} devices",
            hint=_degrees(mixer.heads, tp, shared),
        )


def _check_widths(architecture: Architecture, part: FeedForward, group: Group, degree: int) -> None:
    for each in part.shared_widths:
        if each.group == group:
            _divides(degree, each.width, each.name, architecture)


def _divides(degree: int, number: int, what: str, architecture: Architecture) -> None:
    if number % degree:
        raise LayoutError(
            f"{architecture.name}: {what} {number} cannot be divided by a degree of {degree}",
            hint=_degrees(number, degree),
        )


def _degrees(number: int, tp: int, kv_heads: int = 1) -> str:
    fits = [
        str(n)
        for n in range(1, max(tp, 8) + 1)
        if number % n == 0 and (kv_heads % n == 0 or n % kv_heads == 0)
    ]
    return f"degrees that divide {number}: {', '.join(fits)}; or let `layout=auto` choose"


def padded(rows: int, groups: Number) -> Number:
    """Rows, or experts, on the fullest of some groups, the last group padded. [1]

    Source: ⌈rows / groups⌉; engines pad to multiples that are larger still.

    Args:
        rows: To be divided. [1]
        groups: Groups of devices. [1]

    Examples:
        >>> float(padded(50257, 8)), float(padded(50257, 1))
        (6283.0, 50257.0)
    """
    return np.ceil(rows / groups)
