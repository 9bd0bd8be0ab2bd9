"""Experts spread over groups of devices: groups that a token meets, and the busiest group.

Symbols: E experts, k of them for each token, e groups of E/e experts, t tokens routed together.
"""

from fractions import Fraction
from functools import cache
from itertools import product
from math import ceil, comb
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofline.cost.moe import UNIFORM, Routing, chances, touched
from roofline.cost.work import Array, Number
from roofline.model.feedforward import FeedForward

SHUFFLES: Final = 16
"""Placements of experts at random that the busiest group is averaged over."""
_GRID: Final = 96
BLOCK: Final = 8192
"""Tokens times groups that are integrated at once. [1]"""


def groups_met(part: FeedForward, groups: Number) -> Number:
    """Expected number of groups that the experts of one token lie in.

    The sum over groups of the chance that one of the k is in it, k of E without replacement; where
    a token's experts come from A of G groups at most, over all choices of A. The last group has
    what is left over.
    Source: hypergeometric distribution; DeepSeek-AI 2024 (arXiv 2412.19437), section 2.1.2, for
    routing limited to M nodes.

    Args:
        part: E, k and, where routing is limited, the groups it is limited to.
        groups: Equal groups that the experts are spread over, in order. [1]

    Examples:
        Two experts of four are in one pair with a chance of 1/3, in both with 2/3:

        >>> from roofline.model.feedforward import Moe
        >>> round(groups_met(Moe(experts=4, active=2, width=8), 2), 6)
        1.666667
    """
    if not isinstance(groups, np.ndarray):
        return _groups_met(part.experts, part.active, part.groups, part.active_groups, int(groups))
    met = np.empty(groups.shape)
    for number in _different(groups):
        met[groups == number] = groups_met(part, number)
    return met


def _different(values: Array) -> list[float]:
    """Values of an array that has few of them, without sorting it."""
    left, found = values.ravel(), []
    while left.size:
        found.append(float(left[0]))
        left = left[left != left[0]]
    return found


@cache
def _groups_met(experts: int, active: int, limits: int, chosen: int, groups: int) -> float:
    held = ceil(experts / groups)
    starts = range(0, experts, held)
    each = experts // limits

    def missed(start: int) -> Fraction:
        stop = min(start + held, experts)
        return _missed(range(start, stop), each, limits, chosen, active)

    return float(sum(1 - missed(start) for start in starts))


def _missed(held: range, each: int, limits: int, chosen: int, active: int) -> Fraction:
    """Chance that none of a token's experts is among those that are held.

    Routing groups are inside that range, cut by one of its ends, or outside; sum over how many of
    those inside are among the chosen ones, and which of those that are cut.
    """
    starts = [group * each for group in range(limits)]
    inside = [max(min(held.stop, s + each) - max(held.start, s), 0) for s in starts]
    whole = sum(count == each for count in inside)
    cut = [count for count in inside if 0 < count < each]
    total = Fraction(0)
    for taken in product((0, 1), repeat=len(cut)):
        lost = sum(count for count, here in zip(cut, taken, strict=True) if here)
        for mine in range(min(whole, chosen - sum(taken)) + 1):
            others = chosen - mine - sum(taken)
            ways = comb(whole, mine) * comb(limits - whole - len(cut), others)
            total += ways * comb(max((chosen - mine) * each - lost, 0), active)
    return total / (comb(limits, chosen) * comb(chosen * each, active))


def held_experts(experts: int, groups: Number, routing: Routing = UNIFORM) -> Number:
    """Experts on a group of devices, the last group padded: ⌈(E + r) / e⌉; E on a single one. [1]

    Source: definition of the placement.

    Args:
        experts, groups: Experts E, and groups that they are spread over, e. [1]
        routing: Redundant experts r, which one group has no use for.

    Examples:
        >>> float(held_experts(256, 32, Routing(redundant=32)))
        9.0
    """
    several = np.where(np.asarray(groups) > 1, float(routing.redundant), 0.0)
    held: Number = np.ceil((experts + several) / groups)[()]
    return held


def balanced(chance: Array, groups: int, redundant: int) -> Array:
    """Chances of the experts on each group, of shape (groups, slots), copies of them balanced.

    A further copy goes to the expert with most for each copy, r times; copies, most loaded first,
    go to the group with least that has a place and not that expert yet. Tokens choose among copies
    at random, so that each has p / n. Source: DeepSeek-AI 2024 (arXiv 2412.19437), section 3.4;
    the two greedy steps of DeepSeek's expert-parallel load balancer (github.com/deepseek-ai/EPLB).

    Args:
        chance: Chance p of each expert to be among those of a token. [1]
        groups, redundant: Groups e, and further copies r. [1]

    Examples:
        Two groups of three places; the first expert is on both:

        >>> balanced(np.array([0.9, 0.5, 0.3, 0.2, 0.1]), 2, 1).round(2).tolist()
        [[0.5, 0.45, 0.1], [0.45, 0.3, 0.2]]
    """
    copies = np.ones(len(chance))
    for _ in range(redundant):
        each = np.where(copies < groups, chance / copies, -1.0)
        if each.max() < 0.0:
            break  # everything is everywhere
        copies[np.argmax(each)] += 1
    experts = np.repeat(np.arange(len(chance)), copies.astype(np.int64))
    loads = (chance / copies)[experts]
    slots = ceil(len(experts) / groups)
    out, free = np.zeros((groups, slots)), np.full(groups, slots)
    has = np.zeros((groups, len(chance)), bool)
    for place in np.argsort(-loads, kind="stable"):
        expert, load = experts[place], loads[place]
        open_ = free > 0
        apart = open_ & ~has[:, expert]
        mine = int(np.argmin(np.where(apart if apart.any() else open_, out.sum(axis=1), np.inf)))
        out[mine, slots - free[mine]] = load
        free[mine] -= 1
        has[mine, expert] = True
    return out


def busiest(
    tokens: Number, part: FeedForward, groups: Number, routing: Routing = UNIFORM
) -> tuple[Number, Number]:
    """Rows and experts touched in the group of devices that has most to do.

    The rows of a group whose experts have a share q of all choices are taken as normal, with mean
    t·k·q and variance t·k·q(1 − q)·(E − k)/(E − 1), as of k draws without replacement. The expected
    largest of e independent ones is ∫ (1 − ΠF) of their distribution functions; rows that add up to
    t·k lie √(e/(e − 1)) further apart. It is at least the mean of the busiest and at most
    t·min(k, E/e). Experts touched alike, with their own mean and variance; one row touches one
    expert, so at least one is and never more than there are rows. Loads that were given are of
    experts in order; under a power law experts are placed at random, and that is averaged; with
    redundant ones they are `balanced`, by the loads that the tokens have. With one group all rows
    are its own.
    Source: order statistics of exchangeable normal variables; checked against drawing tokens.

    Args:
        tokens: Tokens t routed together. [token]
        part: The mixture.
        groups: Groups that the experts are spread over, e; the last one is padded. [1]
        routing: How tokens spread over experts.

    Returns:
        tuple: Expected rows of the group with most of them, and experts touched in the group where
            most are; the slower of the two sets the pace. [1]

    Examples:
        >>> from roofline.model.feedforward import Moe
        >>> busiest(16.0, Moe(experts=8, active=2, width=4), 1)[0]
        32.0
    """
    if not isinstance(groups, np.ndarray) and groups == 1:
        met = touched(tokens, part.experts, part.active, routing)
        return tokens * float(part.active), met
    many, spread = np.broadcast_arrays(np.asarray(tokens, float), np.asarray(groups, float))
    rows, met = np.empty(many.shape), np.empty(many.shape)
    for number in _different(spread):
        there = spread == number
        counts, where = np.unique(many[there], return_inverse=True)
        known = _BUSIEST.setdefault((part, int(number), routing), {})
        new = [count for count in counts.tolist() if count not in known]
        size = max(BLOCK // int(number), 1)
        for start in range(0, len(new), size):
            some = new[start : start + size]
            found = _busiest(np.array(some), part, int(number), routing)
            known |= zip(some, found.tolist(), strict=True)
        rows[there], met[there] = np.array([known[count] for count in counts.tolist()])[where].T
    return rows[()], met[()]


_BUSIEST: Final[dict[tuple[FeedForward, int, Routing], dict[float, list[float]]]] = {}
"""Rows and experts that `busiest` has found, by tokens."""


def _busiest(tokens: Array, part: FeedForward, groups: int, routing: Routing) -> Array:
    """Rows and experts for each number of tokens, of shape (tokens, 2)."""
    if groups == 1:
        met = np.asarray(touched(tokens, part.experts, part.active, routing))
        return np.stack([tokens * part.active, met], axis=1)
    every, most = part.active * tokens, int(held_experts(part.experts, groups, routing))
    uniform = not routing.skew and not routing.loads and not routing.redundant
    found, placed = np.zeros((len(tokens), 2)), _placed(part, groups, routing)
    for held in placed:
        # Groups of one load need one distribution function.
        alike = groups if uniform and part.experts % groups == 0 else 1
        held = held[: groups // alike]
        share = held.sum(axis=1)
        # Experts of one token exclude each other: k draws without replacement.
        drawn = (part.experts - part.active) / max(part.experts - 1, 1)
        apart = share * (1 - share / part.active) * drawn * groups / (groups - 1)
        spread = np.outer(tokens, np.maximum(apart, 0.0))
        largest = _largest(np.outer(tokens, share), spread, alike)
        rows = np.maximum(largest, np.minimum(every, 1.0))
        rows = np.minimum(rows, tokens * min(part.active, most))
        seen = 1.0 - (1.0 - held) ** tokens[:, None, None]
        spread = np.sum(seen * (1 - seen), axis=2)
        if uniform:
            spread = np.broadcast_to(_spread(tokens, part, groups)[:, None], spread.shape)
        largest = _largest(seen.sum(axis=2), spread, alike)
        met = np.minimum(np.minimum(np.maximum(largest, np.minimum(every, 1.0)), rows), most)
        found += np.stack([rows, met], axis=1) / len(placed)
    return found


def _spread(tokens: Array, part: FeedForward, groups: int) -> Array:
    """Variance of the experts touched in a group, less their covariance with those of another.

    Whether two experts are missed is not independent: (E − k)(E − k − 1) / (E(E − 1)) of the
    tokens miss both. [1]
    """
    e, k = part.experts, part.active
    missed = (1 - k / e) ** tokens
    both = ((e - k) * max(e - k - 1, 0) / (e * max(e - 1, 1))) ** tokens
    held, covariance = e / groups, both - missed * missed
    own = held * missed * (1 - missed) + held * (held - 1) * covariance
    found: Array = np.maximum(own - held * held * covariance, 0.0)
    return found


@cache
def _placed(part: FeedForward, groups: int, routing: Routing) -> tuple[Array, ...]:
    """Chances of the experts of each group, one row a group, for each way of placing them."""
    each = ceil(part.experts / groups)
    if routing.redundant:
        return (balanced(chances(part.experts, part.active, routing), groups, routing.redundant),)
    if not routing.skew and not routing.loads:
        chance = np.full(part.experts, part.active / part.experts)
        orders: list[NDArray[np.int64]] = [np.arange(part.experts, dtype=np.int64)]
    else:
        chance = chances(part.experts, part.active, routing)
        orders = _orders(part.experts, routing)
    out = []
    for order in orders:
        whole = np.zeros(groups * each)
        whole[: part.experts] = chance[order]
        out.append(whole.reshape(groups, each))
    return tuple(out)


def _orders(experts: int, routing: Routing) -> list[NDArray[np.int64]]:
    """Experts in the order they are placed in, as indices into chances, largest first."""
    if routing.loads:
        ranked = np.argsort(-np.array(routing.loads), kind="stable")
        return [np.argsort(ranked, kind="stable")]
    draw = np.random.default_rng(0)
    return [draw.permutation(experts) for _ in range(SHUFFLES)]


def _largest(means: Array, variances: Array, alike: int) -> Array:
    """Expected largest of independent normal variables, so many of each; of shape (tokens,)."""
    from roofline.special import ndtr

    far = 6 * np.sqrt(variances)
    low, high = means.max(axis=1), (means + far).max(axis=1)
    start = (means - far).max(axis=1)
    grid = np.linspace(start, high, _GRID, axis=1)
    spread = np.sqrt(np.maximum(variances, 1e-300))
    below = ndtr((grid[:, :, None] - means[:, None, :]) / spread[:, None, :])
    beyond = 1.0 - np.prod(below, axis=2) ** alike
    found: Array = np.maximum(start + np.trapezoid(beyond, grid, axis=1), low)
    return found
