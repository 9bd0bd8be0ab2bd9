"""Tokens sent to their experts, token by token: to a node once, to a group of devices once."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations

from tests.cost.reference.spreading import group_of


def choices(experts: int, active: int, limits: int, chosen: int) -> Iterator[tuple[int, ...]]:
    """Experts that a token may choose, each choice as likely as any other."""
    each = experts // limits
    for parts in combinations(range(limits), chosen):
        allowed = [part * each + i for part in parts for i in range(each)]
        yield from combinations(allowed, active)


def sent(
    experts: int,
    active: int,
    groups: int,
    sharers: int,
    per_node: int,
    limits: int = 1,
    chosen: int = 1,
) -> tuple[Fraction, Fraction]:
    """Copies of a token sent inside nodes and out of them, by all who handle it, on average.

    Ranks lie in order, so many on a node; ``sharers`` in a row hold an expert group. A token goes
    to the rank at its own place in every other node that it has experts in, and from there (or
    from where it is) to each other group in that node with an expert of its own.
    """
    near = far = count = 0
    for rank in range(groups * sharers):
        for picked in choices(experts, active, limits, chosen):
            count += 1
            met = {group_of(expert, experts, groups) for expert in picked}
            if sharers > per_node:  # a group has nodes of its own
                far += len(met - {rank // sharers})
                continue
            here = rank // per_node
            nodes = {group * sharers // per_node for group in met}
            far += len(nodes - {here})
            for node in nodes:
                landed = node * per_node + rank % per_node
                inside = {group for group in met if group * sharers // per_node == node}
                near += len(inside - {landed // sharers})
    return Fraction(near, count), Fraction(far, count)


def arriving(experts: int, active: int, groups: int, limits: int = 1, chosen: int = 1) -> Fraction:
    """Share of all tokens that have an expert in a group, on average over groups."""
    every = list(choices(experts, active, limits, chosen))
    met = sum(len({group_of(expert, experts, groups) for expert in one}) for one in every)
    return Fraction(met, len(every) * groups)
