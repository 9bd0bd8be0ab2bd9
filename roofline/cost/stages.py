"""Where the stages and groups of a layout lie: on which layers, and on which nodes."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from roofline.cost.algorithms import Ranks
from roofline.cost.layout import Layout, parts
from roofline.cost.work import Number
from roofline.hardware.machine import Node
from roofline.model.architecture import Architecture, Block, counted


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of the pipeline."""

    layers: tuple[tuple[Block, int], ...]
    """Kinds of layer with the number of each."""
    first: bool
    last: bool
    """Whether it has the embedding, and the LM head."""
    crosses: Number = 0.0
    """1 where what it sends to the next stage leaves the node, 0 where it does not."""


def pipeline(architecture: Architecture, layout: Layout, node: Node) -> tuple[Stage, ...]:
    """Stages of a layout, in order."""
    counts = layout.stages or parts(len(architecture.layers), layout.pp)
    starts = accumulate(counts[:-1], initial=0)
    wide, local = layout.stage_devices, in_a_node(layout, node)

    def crosses(number: int) -> Number:
        first, last = number * wide, (number + 2) * wide - 1
        out = np.where(np.asarray(first // local) != last // local, 1.0, 0.0)[()]
        same = isinstance(out, np.ndarray) and out.size and np.all(out == out.flat[0])
        return float(out.flat[0]) if same else out

    return tuple(
        Stage(
            tuple(counted(architecture.layers[start : start + count]).items()),
            first=number == 0,
            last=number == layout.pp - 1,
            crosses=crosses(number) if number < layout.pp - 1 else 0.0,
        )
        for number, (start, count) in enumerate(zip(starts, counts, strict=True))
    )


def different(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Stages that differ in what they hold, the first of each kind."""
    return tuple(
        {(stage.layers, stage.first, stage.last): stage for stage in stages[::-1]}.values()
    )


def in_a_node(layout: Layout, node: Node) -> Number:
    """Devices of a replica that lie in one node. [1]

    Source: as few nodes as hold it, all alike.

    Args:
        layout, node: The replica, and what it lies on.
    """
    return layout.devices / np.ceil(layout.devices / node.gpus)


def group(layout: Layout, node: Node, size: Number, stride: Number = 1) -> Ranks:
    """Devices that talk to each other, as they lie on nodes.

    Where a group straddles nodes unevenly, as many lie together as do in every node.

    Args:
        layout, node: The replica, and what it lies on.
        size: Devices of the group. [1]
        stride: Distance between neighbours of the group in the numbering of ranks. [1]
    """
    local = np.asarray(in_a_node(layout, node)).astype(np.int64)
    reach = np.asarray(size * stride).astype(np.int64)
    inside = np.maximum(np.gcd(reach, local) // np.asarray(stride).astype(np.int64), 1)
    return Ranks(size, inside.astype(float)[()], node.link, node.network, node.gpus)
