"""Drafts: a chain of tokens, or a tree of alternatives that one verification checks.

A node of a tree is a drafted token; its children are alternatives for the token after it. The
target accepts one path from the root: of the alternatives at each position, one or none.
"""

import heapq
from itertools import accumulate
from operator import mul
from typing import Final

from msgspec import Struct

from roofline.errors import InputError
from roofline.serving.acceptance import Acceptance

MOST_NODES: Final = 1024
LONGEST: Final = 16
"""Tokens drafted in a row, at most. [token]"""


class Level(Struct, frozen=True):
    """The nodes at one position after the last token."""

    nodes: int
    """Tokens drafted for it. [token]"""
    inner: int
    """Nodes that have children. [token]"""
    reached: float
    """Probability that one of them is accepted. [1]"""
    ended: float
    """Probability that it is one without children. [1]"""


class Tree(Struct, frozen=True):
    """Draft of a round, position by position."""

    levels: tuple[Level, ...]

    @property
    def nodes(self) -> int:
        """Tokens drafted. [token]"""
        return sum(level.nodes for level in self.levels)

    @property
    def depth(self) -> int:
        """Longest path. [token]"""
        return len(self.levels)

    @property
    def is_chain(self) -> bool:
        """Whether there are no alternatives."""
        return self.nodes == self.depth

    @property
    def tokens(self) -> float:
        """Expected tokens of a verification, the target's own included. [token]

        1 + the sum over nodes of the probability that the path to them is accepted. Source: Chen
        et al. 2024 (Sequoia, arXiv 2402.12374), section 3.1; Cai et al. 2024 (Medusa, arXiv
        2401.10774), section 2.3.3.
        """
        return 1.0 + sum(level.reached for level in self.levels)

    @property
    def complete(self) -> float:
        """Probability that all that could be accepted is: the path ends where the tree does. [1]"""
        return sum(level.ended for level in self.levels)

    def __str__(self) -> str:
        """Description in words."""
        if self.is_chain:
            return f"{self.nodes} token{'s' * (self.nodes != 1)} in a row"
        return f"a tree of {self.nodes} tokens, {self.depth} deep"


def chain(acceptance: Acceptance, length: int) -> Tree:
    """Tokens in a row, without alternatives.

    Args:
        acceptance: How often they are accepted.
        length: Tokens γ. [token]

    Examples:
        >>> from roofline.serving.acceptance import parse
        >>> chain(parse("0.5"), 2).tokens  # 1 + 1/2 + 1/4
        1.75
    """
    _check_depth(length)
    return full(acceptance, (1,) * length)


def full(acceptance: Acceptance, widths: tuple[int, ...]) -> Tree:
    """Every token of a position is followed by as many alternatives.

    Args:
        acceptance: How often each alternative is accepted.
        widths: Alternatives after each token of the position before. [token]

    Raises:
        InputError: The tree is too large, or the acceptance of its alternatives is not known.

    Examples:
        >>> from roofline.serving.acceptance import parse
        >>> tree = full(parse("0.5+0.25"), (2, 2))
        >>> tree.nodes, tree.tokens  # 1 + 3/4 + (3/4)²
        (6, 2.3125)
    """
    _check_depth(len(widths))
    if any(width < 1 for width in widths):
        raise InputError(f"a tree {_spelled(widths)} wide", hint="give 1 token or more a position")
    counts = list(accumulate(widths, mul))
    if sum(counts) > MOST_NODES:
        raise InputError(
            f"a tree {_spelled(widths)} wide has {sum(counts):,} tokens",
            hint=f"give one of {MOST_NODES:,} at most",
        )
    levels, reached = [], 1.0
    for position, (width, nodes) in enumerate(zip(widths, counts, strict=True), start=1):
        ranks = acceptance.ranks(position)
        if width > len(ranks):
            raise InputError(
                f"position {position} has {width} alternatives, acceptance is known of "
                f"{len(ranks)}",
                hint="add the others, like 0.6+0.1+0.05; that of a second token is not that of "
                "the first",
            )
        reached *= sum(ranks[:width])
        ends = position == len(widths)
        levels.append(Level(nodes, nodes * (not ends), reached, reached * ends))
    return Tree(tuple(levels))


def best(acceptance: Acceptance, nodes: int, depth: int = LONGEST) -> Tree:
    """The tree of so many tokens that is expected to yield most.

    The likeliest path that is not in the tree is added, one after the other: a path is never
    likelier than the one it extends, nor than that of the better alternative, so the tree stays
    one, and no other of its size has more. Source: Cai et al. 2024 (Medusa, arXiv 2401.10774),
    section 2.3.3.

    Args:
        acceptance: How often each alternative is accepted.
        nodes: Tokens drafted; fewer where there are not so many alternatives. [token]
        depth: Longest path. [token]

    Raises:
        InputError: A number has no meaning.

    Examples:
        >>> from roofline.serving.acceptance import parse
        >>> best(parse("0.5+0.3"), 3).levels[0].nodes  # 0.5, 0.3, then 0.5 · 0.5
        2
    """
    if not 1 <= nodes <= MOST_NODES:
        raise InputError(f"{nodes} tokens in a tree", hint=f"give 1 to {MOST_NODES:,}")
    _check_depth(depth)
    deepest = depth if acceptance.deepest is None else min(depth, acceptance.deepest)
    # Likelihood (negative, as the heap gives the least first), ranks on the path, its parent's.
    waiting: list[tuple[float, tuple[int, ...], float]] = [(-acceptance.ranks(1)[0], (0,), 1.0)]
    made: dict[tuple[int, ...], float] = {}
    while waiting and len(made) < nodes:
        unlikely, path, parent = heapq.heappop(waiting)
        made[path] = -unlikely
        siblings = acceptance.ranks(len(path))
        if (later := path[-1] + 1) < len(siblings):
            heapq.heappush(waiting, (-parent * siblings[later], (*path[:-1], later), parent))
        if len(path) < deepest:
            first = acceptance.ranks(len(path) + 1)[0]
            heapq.heappush(waiting, (unlikely * first, (*path, 0), -unlikely))
    parents = {path[:-1] for path in made}

    def level(position: int) -> Level:
        here = {path: value for path, value in made.items() if len(path) == position}
        return Level(
            nodes=len(here),
            inner=len(parents & here.keys()),
            reached=sum(here.values()),
            ended=sum(value for path, value in here.items() if path not in parents),
        )

    return Tree(tuple(level(position) for position in range(1, max(map(len, made)) + 1)))


def _check_depth(depth: int) -> None:
    if not 1 <= depth <= LONGEST:
        raise InputError(f"draft length is {depth}", hint=f"give 1 to {LONGEST} tokens")


def _spelled(widths: tuple[int, ...]) -> str:
    return ",".join(f"{width}" for width in widths[:LONGEST])
