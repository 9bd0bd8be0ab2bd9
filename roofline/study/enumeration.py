"""Layouts that a network and a machine allow, as arrays of degrees."""

from collections.abc import Callable, Iterator
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from roofline.cost.deployment import Options
from roofline.cost.layout import Layout
from roofline.cost.placement import check_context, check_layer
from roofline.cost.work import distinct
from roofline.errors import LayoutError
from roofline.hardware.machine import Node
from roofline.model.architecture import Architecture, Moe

Degrees: TypeAlias = NDArray[np.int64]
_T = TypeVar("_T")


def degrees(gpus: int) -> list[int]:
    """Degrees that are tried: those that divide the GPUs, and powers of two.

    >>> degrees(12)
    [1, 2, 3, 4, 6, 8, 12]
    """
    powers = {2**n for n in range(gpus.bit_length()) if 2**n <= gpus}
    low = range(1, int(gpus**0.5) + 1)
    divisors = {n for d in low if gpus % d == 0 for n in (d, gpus // d)}
    return sorted(powers | divisors)


def candidates(
    architecture: Architecture, node: Node, gpus: int, options: Options
) -> Iterator[Layout]:
    """Layouts of up to a number of GPUs, together where they have their stages in common.

    A replica must not leave more devices idle than another replica would take, and spread evenly
    over its nodes.

    Args:
        architecture, node: What is laid out, on which nodes.
        gpus: Devices in all. [1]
        options: How the network is run; scores in memory rule context parallelism out.
    """
    tried = degrees(gpus)
    if node.network is None:
        tried = [n for n in tried if n <= node.gpus]
    mixtures = [b.feedforward for b in architecture.kinds if isinstance(b.feedforward, Moe)]
    tp = [n for n in tried if _possible(check_layer, architecture, n)]
    cp = [1]
    if options.attention == "flash":
        cp = [n for n in tried if _possible(check_context, architecture, Layout(cp=n))]
    most = min((part.experts for part in mixtures), default=1)
    dp = tried if mixtures else [1]
    ep = [n for n in tried if n <= most]
    grid = np.stack([axis.ravel() for axis in np.meshgrid(tp, cp, dp, ep, indexing="ij")])
    grid = grid[:, _sound(grid, mixtures)]
    for pp in tried:
        if pp > max(len(architecture.layers), 1):
            continue
        here = grid[:, _placed(grid[0] * grid[1] * grid[2] * pp, node, gpus)]
        for parallel in (False, True):
            chosen = here[:, here[0] > 1] if parallel else here
            for part in _by_place(chosen, node, pp):
                tps, cps, dps, eps = part.astype(float)
                yield Layout(tps, cps, dps, eps, pp=pp, sequence_parallel=parallel)


def _possible(
    check: Callable[[Architecture, _T], None], architecture: Architecture, degree: _T
) -> bool:
    try:
        check(architecture, degree)
    except LayoutError:
        return False
    return True


def _sound(grid: Degrees, mixtures: list[Moe]) -> NDArray[np.bool_]:
    """Where the experts can be spread."""
    tp, cp, dp, ep = grid
    wide = tp * cp * dp
    sound = np.asarray(wide % ep == 0)
    inner = np.maximum(wide // ep, 1)
    for part in mixtures:
        sound &= part.width % inner == 0
        sound &= (cp * dp > 1) | (part.shared_width % tp == 0)
    return sound


def _placed(devices: Degrees, node: Node, gpus: int) -> NDArray[np.bool_]:
    """Where a replica is not larger than all GPUs, in whole and equal shares of nodes."""
    on = -(-devices // node.gpus)
    inside = (devices <= gpus) & (devices % on == 0)
    return np.asarray(inside & ((on == 1) | (node.network is not None)))


def _by_place(grid: Degrees, node: Node, pp: int) -> Iterator[Degrees]:
    """Parts of the grid whose stages lie on nodes in the same way."""
    if not grid.shape[1]:
        return
    if pp == 1:
        yield grid
        return
    wide = grid[0] * grid[1] * grid[2]
    kinds = np.where(wide * pp <= node.gpus, 0, np.minimum(wide, node.gpus))
    for kind in distinct(kinds):
        yield grid[:, kinds == kind]
