"""Kinds that are compared: a network in some formats on some kind of device, to be laid out."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import log
from typing import Final

from roofline.cost.deployment import Deployment
from roofline.cost.layout import Layout
from roofline.errors import LayoutError
from roofline.serving.draft_trees import Tree, chain
from roofline.serving.drafts import Draft
from roofline.serving.run.intervals import Doubt as Misses
from roofline.serving.simulate.drafting import Drafting
from roofline.serving.simulate.prices import StepPrices
from roofline.study.plan.demand import Demand

UNDRAFTED: Final = "speculative decoding is not priced with pipelines or shared contexts"


@dataclass(frozen=True, slots=True)
class PriceUncertainty:
    """Errors of an engine's predictions where it was not fitted."""

    step: float = 0.0
    """Log standard deviation of times between tokens. [1]"""
    first: float = 0.0
    """That of the time to a first token. [1]"""
    source: str = ""
    """Source of both; empty where nothing is known."""


@dataclass(frozen=True, slots=True)
class Speculation:
    """Drafts for a network, wherever it runs."""

    draft: Callable[[Deployment], Draft]
    """Draft of a deployment."""
    length: int
    """Tokens drafted in a row. [token]"""
    seed: int = 0
    """Seed of how many of them are accepted. [1]"""

    def tree(self, demand: Demand) -> Tree:
        """Tree of a round for a demand, which says how often drafts are accepted."""
        assert demand.acceptance is not None, "drafts for text of which nothing is known"
        return chain(demand.acceptance, self.length)

    def drafting(self, draft: Draft, demand: Demand) -> Drafting:
        """Rounds of a draft for a demand."""
        return Drafting(draft, self.tree(demand), self.seed)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of device and the formats that run on it."""

    base: Deployment
    """Network, node, formats, engine, calibration; its own layout is not used."""
    usd_per_hour: float
    """Price of a device; 0 where none is known. [$/h]"""
    utilization: float | None = None
    """Share of device memory the engine takes; None for its default. [1]"""
    uncertainty: PriceUncertainty = PriceUncertainty()
    """Errors of the engine's predictions."""
    speculation: Speculation | None = None
    """Drafts; None where decoding is plain."""

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

    @property
    def bounded(self) -> bool:
        """Whether its times are published rates: the least possible, and no forecast."""
        return self.base.calibration is None

    def round_tokens(self, demand: Demand) -> float:
        """Tokens that a decode step is expected to yield for each sequence. [token]"""
        return 1.0 if self.speculation is None else self.speculation.tree(demand).tokens

    def deployed(self, layout: Layout) -> Deployment:
        """A replica of it.

        Raises:
            LayoutError: The layout cannot be, or what drafts is not priced for it.
        """
        if self.speculation is not None and (layout.pp != 1 or layout.cp != 1):
            raise LayoutError(
                f"layout: {UNDRAFTED}", hint="use tensor, expert and attention data parallelism"
            )
        return replace(self.base, layout=layout)


def paced(prices: StepPrices, factor: float) -> StepPrices:
    """Prices of steps that all take so much longer."""
    common = Misses(log(factor), log(factor), 1.0, {})
    return prices if factor == 1.0 else common.scaled(prices, 1.0, 0.0)
