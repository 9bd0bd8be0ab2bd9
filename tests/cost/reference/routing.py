"""Distinct experts of a step: every way to send tokens, or many simulated ones."""

import random
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations, product


@cache
def expected_distinct(tokens: int, experts: int, active: int) -> Fraction:
    """Experts that some token is sent to, averaged over every way to send the tokens."""
    ways = list(combinations(range(experts), active))
    assert len(ways) ** tokens <= 10**5, "too many ways to send tokens"
    every = [len(set().union(*way)) for way in product(ways, repeat=tokens)]
    return Fraction(sum(every), len(every))


def systematic(chances: Sequence[float], start: float) -> set[int]:
    """Experts of one token by systematic sampling: each is chosen with its own chance exactly.

    Chances are laid end to end; every point at start, start + 1, … falls into one of them.
    """
    chosen, end = set(), 0.0
    for expert, chance in enumerate(chances):
        before, end = end, end + chance
        if int(end - start + 1) > int(before - start + 1):
            chosen.add(expert)
    return chosen


def simulated_distinct(
    tokens: int, chances: Sequence[float], trials: int, seed: int
) -> tuple[float, float]:
    """Mean of distinct experts over simulated batches of tokens, and its standard error."""
    draw = random.Random(seed)
    counts = [
        len(set().union(*(systematic(chances, draw.random()) for _ in range(tokens))))
        for _ in range(trials)
    ]
    mean = sum(counts) / trials
    spread = sum((count - mean) ** 2 for count in counts) / (trials - 1)
    return mean, (spread / trials) ** 0.5
