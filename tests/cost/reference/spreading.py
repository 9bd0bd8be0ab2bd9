"""Experts on groups of devices: every choice of a token, and many batches of tokens drawn."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from math import ceil

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def group_of(expert: int, experts: int, groups: int) -> int:
    """Experts lie in order; the groups before the last are full."""
    return expert // ceil(experts / groups)


def expected_groups(
    experts: int, active: int, groups: int, limits: int = 1, chosen: int = 1
) -> Fraction:
    """Groups of devices that a token's experts lie in, over all it may choose.

    The token may use ``chosen`` of ``limits`` equal parts of the experts, any of them, and of their
    experts any ``active``.
    """
    each = experts // limits
    met = choices = 0
    for some in combinations(range(limits), chosen):
        allowed = [part * each + i for part in some for i in range(each)]
        for picked in combinations(allowed, active):
            met += len({group_of(expert, experts, groups) for expert in picked})
            choices += 1
    return Fraction(met, choices)


def drawn_experts(chances: Floats, tokens: int, draw: np.random.Generator) -> NDArray[np.int64]:
    """Experts of each token: each expert with its chance, as many for every token.

    Chances are laid end to end in an order of the token's own, and met at u, u + 1, …
    """
    active, experts = round(float(chances.sum())), len(chances)
    order = np.argsort(draw.random((tokens, experts)), axis=1)
    ends = np.cumsum(chances[order], axis=1)
    points = draw.random((tokens, 1)) + np.arange(active)
    place = (ends[:, None, :] <= points[:, :, None]).sum(axis=2)
    chosen: NDArray[np.int64] = np.take_along_axis(order, np.minimum(place, experts - 1), axis=1)
    return chosen


def drawn_busiest(
    chances: Sequence[float],
    tokens: int,
    groups: int,
    *,
    batches: int,
    shuffled: bool,
    seed: int = 0,
) -> float:
    """Mean rows of the group that gets most of them, over many batches.

    Args:
        chances: Of each expert to be chosen by a token, in the order they lie in.
        tokens, groups, batches: Tokens of a batch, groups of devices, batches drawn.
        shuffled: Whether experts are placed anew at random for each batch.
    """
    draw, probable = np.random.default_rng(seed), np.array(chances, float)
    experts = len(probable)
    each = ceil(experts / groups)
    most = []
    for _ in range(batches):
        place = draw.permutation(experts) if shuffled else np.arange(experts)
        chosen = drawn_experts(probable, tokens, draw)
        rows = np.bincount((place[chosen] // each).ravel(), minlength=groups)
        most.append(rows.max())
    return float(np.mean(most))
