"""Means over a growing context, without pricing every step."""

from collections.abc import Callable

import numpy as np

from roofline.cost.work import Array, distinct

NODES = 1025
"""Steps priced at most. The price bends where a bound changes or a window fills, and without a
cache it is a curve; with so many nodes the mean is within 1e-4 of the sum of all steps."""


def nodes(first: int, last: int, most: int = NODES) -> tuple[Array, Array]:
    """Integers to evaluate at, and weights that turn the values into a mean over first..last.

    The function is taken as linear between neighbouring nodes, and that is summed over every
    integer exactly; up to ``most`` integers there is nothing between the nodes.

    Parameters
    ----------
    first, last
        Ends of the range, both included. [token]
    most
        Nodes at most, at least 2. [1]

    Examples
    --------
    >>> x, w = nodes(1, 10_000)
    >>> len(x), round(float(w @ x), 9)
    (1025, 5000.5)
    """
    assert last >= first, "an empty range has no mean"
    steps = last - first + 1
    points = distinct(np.rint(np.linspace(first, last, min(most, steps))))
    weights = np.ones_like(points)
    # Between nodes a and b lie n = b − a − 1 integers; linear interpolation gives each end n / 2.
    between = (np.diff(points) - 1.0) / 2.0
    weights[:-1] += between
    weights[1:] += between
    return points, weights / steps


def mean(price: Callable[[Array], Array], first: int, last: int) -> float:
    """Mean of a price over the integers first..last."""
    points, weights = nodes(first, last)
    return float(weights @ price(points))
