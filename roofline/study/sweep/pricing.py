"""Prices of the points of a lane."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from roofline.cost.work import Array
from roofline.study.sweep.columns import Columns
from roofline.study.sweep.gridded import remembering
from roofline.study.sweep.lane import Axes, Axis, How, Lane, tabled
from roofline.study.sweep.points import Points
from roofline.study.sweep.prices import Prices


def priced(lane: Lane, how: How = "auto") -> Prices:
    """Prices of a lane, in which any of its points can be looked up.

    Parameters
    ----------
    lane
        The deployment, and the numbers that are asked about.
    how
        ``"exact"``: as `roofline.serving.static.static_batch` prices each of them. ``"tables"``:
        decode on straight lines between some contexts. ``"auto"``: tables for large lanes.

    Notes
    -----
    What fits is known at once; times are priced when they are first asked for, and only then a
    device that lacks the arithmetic is refused with `roofline.errors.MissingRateError`.
    """
    by_tables = tabled(lane, how)
    lane = replace(lane, deployment=remembering(lane.deployment), axes=lane.axes.thinned())
    return Prices(lane, by_tables)


def within(lane: Lane, prompt: Array, output: Array) -> NDArray[np.bool_]:
    """Which lengths are inside what the network is made for.

    Parameters
    ----------
    lane
        Whose network.
    prompt, output
        Tokens of a prompt and of an answer. [token]
    """
    network = lane.deployment.architecture
    if network.max_context is None:
        return np.ones(len(prompt), np.bool_)
    answer = 0.0 if network.is_encoder else output
    return np.asarray(prompt + answer <= network.max_context)


def price(
    prices: Prices, numbers: Mapping[str, Array], index: NDArray[np.int64] | None = None
) -> Columns:
    """Figures of some points of a lane.

    Parameters
    ----------
    prices
        Of the lane.
    numbers
        ``"batch"`` [1], ``"prompt"`` and ``"output"`` [token], of equal length; `within` what the
        network is made for.
    index
        Numbers of the configurations; None to count them. [1]
    """
    batch, prompt, output = (
        np.asarray(numbers[name], np.float64) for name in ("batch", "prompt", "output")
    )
    if prices.lane.deployment.architecture.is_encoder:
        output = np.ones_like(output)
    where = np.arange(len(batch), dtype=np.int64) if index is None else index
    points = Points.of(prices.lane.axes, batch, prompt, output)
    if not (prices.by_tables or points.on_nodes):
        a, b, c = (Axis.exactly(each) for each in (batch, prompt, output))
        lane = replace(prices.lane, axes=Axes(a, b, c, prices.lane.axes.points))
        return price(Prices(lane, by_tables=False), numbers, index)
    return Columns(prices, where, points)
