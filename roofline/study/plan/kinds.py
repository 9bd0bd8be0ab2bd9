"""What is compared: a network in some formats on some kind of device, to be laid out."""

from dataclasses import dataclass, replace
from math import log
from typing import Literal

from roofline.cost.deployment import Deployment
from roofline.cost.layout import Layout
from roofline.serving.run.doubt import Doubt as Misses
from roofline.serving.simulate.prices import StepPrices

Mode = Literal["aggregated", "disaggregated"]


@dataclass(frozen=True, slots=True)
class Doubt:
    """How far predictions of an engine were off where it was not fitted.

    Attributes
    ----------
    step
        Log standard deviation of times between tokens. [1]
    first
        That of the time to a first token. [1]
    source
        Where they are from; empty where nothing is known.
    """

    step: float = 0.0
    first: float = 0.0
    source: str = ""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of device and the formats that run on it.

    Attributes
    ----------
    base
        Network, node, formats, engine, calibration; its own layout is not used.
    usd_per_hour
        Price of a device; 0 where none is known. [$/h]
    utilization
        Share of device memory the engine takes; None for its default. [1]
    doubt
        Of the engine's predictions.
    """

    base: Deployment
    usd_per_hour: float
    utilization: float | None = None
    doubt: Doubt = Doubt()

    @property
    def gpu(self) -> str:
        """Name of the device."""
        return self.base.node.gpu.name

    @property
    def weights(self) -> str:
        """Format of the weights."""
        return self.base.precision.weights.name

    @property
    def kv(self) -> str:
        """Format of the cache."""
        return self.base.precision.kv.name

    @property
    def name(self) -> str:
        """Device and formats, in a few words."""
        return f"{self.gpu}, {self.weights} weights, {self.kv} KV"

    def deployed(self, layout: Layout) -> Deployment:
        """A replica of it.

        Raises
        ------
        LayoutError
            The layout cannot be.
        """
        return replace(self.base, layout=layout)


def paced(prices: StepPrices, factor: float) -> StepPrices:
    """Prices of steps that all take so much longer.

    Parameters
    ----------
    prices
        Of steps.
    factor
        On their time. [1]
    """
    common = Misses(log(factor), log(factor), 1.0, {})
    return prices if factor == 1.0 else common.scaled(prices, 1.0, 0.0)
