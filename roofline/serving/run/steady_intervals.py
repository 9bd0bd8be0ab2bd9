"""Intervals of means in the long run, by the errors of prices and of the closed form.

As for a run that is simulated, the closed form is asked seven times: at the prices predicted, and
at six points around them; a quadric says what a figure is at any other prices. To that come, in the
logarithm and independent, what the closed form was off the simulator; and, of TTFT and TPOT, what
predictions of the engine were off by for reasons that no price has. Other requests would say the
same: the run is long.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
from msgspec import Struct

from roofline.cost.work import Array
from roofline.serving.requests import Requests
from roofline.serving.run.intervals import AROUND, PLACES, StepUncertainty, quadric, terms
from roofline.serving.simulate.prices import StepPrices
from roofline.serving.simulate.server import Server
from roofline.serving.simulate.steady import RequestMeans, Steady, arriving, closed, share_of
from roofline.serving.simulate.steady.errors import CLOSED, OPEN, SATURATION, open_sd
from roofline.serving.simulate.steady.pace import most
from roofline.serving.static import CENTRAL

NEAR: Final = 0.98
"""Load up to which the closed form is asked at other prices, over what is then saturation."""
BLOCK: Final = 64
"""Loads whose values are in memory together."""
ENDS: Final = (0.1, 0.9)


class SteadyIntervals(Struct, frozen=True):
    """Central 80 % of means in the long run, an entry for each load."""

    low: Mapping[str, Array]
    high: Mapping[str, Array]
    """Ends by figure: ``ttft_s``, ``tpot_s``, ``latency_s``, ``requests_per_s``,
    ``saturation_per_s``. Nan where it is not known how far the closed form is off, or where an
    end is beyond all bounds."""
    served: Array
    """Probability that all that comes can be served. [1]"""


def arriving_within(
    given: Requests, prices: StepPrices, server: Server, rates: Array, doubt: StepUncertainty
) -> SteadyIntervals:
    """Intervals of an open loop at rates of requests. [1/s]

    At prices at which more comes than can be served, times have no bound.
    """
    shares = _shares(given, prices, server, doubt)
    limits = np.array([most(share).requests_per_s for share in shares])
    tried = [
        arriving(share, np.minimum(rates, NEAR * limit))
        for share, limit in zip(shares, limits, strict=True)
    ]
    grid = terms(*np.meshgrid(PLACES, PLACES))
    most_s = limits[0] * np.exp(grid @ quadric(np.log(limits / limits[0])))
    sure = most_s[:, None] * np.exp(SATURATION / CENTRAL * PLACES)
    spread = {name: open_sd(name, rates / limits[0]) for name in OPEN}
    low, high, served = _empty(rates), _empty(rates), np.zeros(len(rates))
    for part in _blocks(len(rates)):
        over = most_s[:, None] <= rates[part]
        served[part] = 1.0 - over.mean(axis=0)
        for name in OPEN:
            values = _moved(tried, name, part, grid)
            own = _own(values, spread[name][part], doubt.misses.get(name, 0.0))
            values = np.where(over, np.inf, values)
            low[name][part], high[name][part] = _quantiles(values, own)
        carried = np.minimum(sure.ravel()[:, None], rates[part])
        low["requests_per_s"][part], high["requests_per_s"][part] = _ends(carried)
    low["saturation_per_s"][:], high["saturation_per_s"][:] = _ends(sure.reshape(-1, 1))
    return SteadyIntervals(low, high, served)


def closed_within(
    given: Requests, prices: StepPrices, server: Server, clients: Array, doubt: StepUncertainty
) -> SteadyIntervals:
    """Intervals of a closed loop, which serves whatever comes."""
    shares = _shares(given, prices, server, doubt)
    tried = [closed(share, clients) for share in shares]
    grid = terms(*np.meshgrid(PLACES, PLACES))
    low, high = _empty(clients), _empty(clients)
    for part in _blocks(len(clients)):
        for name, half in (*CLOSED.items(), ("saturation_per_s", SATURATION)):
            values = _moved(tried, name, part, grid)
            sd = np.full(values.shape[1], half / CENTRAL)
            own = _own(values, sd, doubt.misses.get(name, 0.0))
            low[name][part], high[name][part] = _quantiles(values, own)
    return SteadyIntervals(low, high, np.ones(len(clients)))


def _shares(
    given: Requests, prices: StepPrices, server: Server, doubt: StepUncertainty
) -> list[RequestMeans]:
    """Work of requests as predicted, and at other prices."""
    every = (prices, *(doubt.scaled(prices, *point) for point in AROUND.tolist()))
    return [share_of(given, each, server) for each in every]


def _empty(loads: Array) -> dict[str, Array]:
    names = (*OPEN, "requests_per_s", "saturation_per_s")
    return {name: np.full(len(loads), np.nan) for name in names}


def _blocks(count: int) -> Iterator[slice]:
    for start in range(0, count, BLOCK):
        yield slice(start, min(start + BLOCK, count))


def _moved(tried: list[Steady], name: str, part: slice, grid: Array) -> Array:
    """Logarithm of a figure at all prices, equally likely, of shape (prices, loads)."""
    values = np.array([getattr(each, name)[part] for each in tried])
    if not (values > 0).all():  # answers of one token have no TPOT
        return np.full((len(grid), values.shape[1]), np.nan)
    moved: Array = np.log(values[0]) + grid @ quadric(np.log(values / values[0]))
    return moved


def _own(values: Array, sd: Array, miss: float) -> Array:
    """Log standard deviation of what no price has: misses have those of prices in them. [1]"""
    rest: Array = np.sqrt(sd**2 + np.maximum(miss**2 - values.var(axis=0), 0.0))
    return rest


def _quantiles(values: Array, own: Array) -> tuple[Array, Array]:
    """Central 80 % of logarithms with noise of their own; nan for an end beyond all bounds."""
    every = values[:, None, :] + own * PLACES[:, None]
    low, high = np.exp(_ends(every.reshape(-1, values.shape[1])))
    return low, np.where(np.isfinite(high), high, np.nan)


def _ends(values: Array) -> Array:
    """Both ends over the first axis; of values, as between a finite and an infinite one is none."""
    found: Array = np.quantile(values, ENDS, axis=0, method="nearest")
    return found
