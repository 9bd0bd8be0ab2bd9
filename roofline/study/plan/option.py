"""A deployment large enough for traffic: replicas, or instances that prefill and that decode."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from roofline.serving.simulate.disaggregated import Handover
from roofline.serving.simulate.server import Server
from roofline.study.plan.candidate import Candidate
from roofline.study.plan.curve import Curve, Role
from roofline.study.plan.kinds import Kind
from roofline.study.plan.tabled import Replica

UNPRICED: Final = 1.0
"""What a device counts where none has a price: the fewest are the cheapest. [$/h]"""


@dataclass(frozen=True, slots=True)
class Pool:
    """Equal instances."""

    role: Role
    """Phases of a request that they serve."""
    replica: Replica
    server: Server = field(repr=False)
    """Each of them, and its settings."""
    curve: Curve = field(repr=False)
    """Latencies of each under load, as expected."""
    carries: float
    """Most requests a second of each for which all limits hold with the confidence asked for.
    [1/s]"""
    binds: str
    """Limit that is in the way of more: name of an objective, ``"rate"`` or ``"interconnect"``."""
    instances: int
    """How many. [1]"""

    @property
    def candidate(self) -> Candidate:
        """Layout and kind."""
        return self.replica.candidate

    @property
    def kind(self) -> Kind:
        """Device and formats."""
        return self.replica.candidate.kind

    @property
    def gpus(self) -> int:
        """Devices of all instances. [1]"""
        return self.instances * self.candidate.devices


@dataclass(frozen=True, slots=True)
class Option:
    """Pools that serve all of the traffic together."""

    pools: tuple[Pool, ...]
    """One whose instances do everything; or one that prefills and one that decodes."""
    rate: float
    """Of all requests. [1/s]"""
    wires: Handover | None = None
    """Between the two pools; None for a single one."""

    @property
    def mode(self) -> str:
        """``"aggregated"`` or ``"disaggregated"``."""
        return "aggregated" if len(self.pools) == 1 else "disaggregated"

    @property
    def kind(self) -> Kind:
        """Of the first pool."""
        return self.pools[0].kind

    @property
    def layout(self) -> str:
        """As the command line takes it; of both pools one after the other."""
        return " + ".join(pool.candidate.layout.spelled for pool in self.pools)

    @property
    def gpus(self) -> int:
        """Devices of all pools. [1]"""
        return sum(pool.gpus for pool in self.pools)

    @property
    def usd_per_hour(self) -> float:
        """Of all devices; 0 where one has no price. [$/h]"""
        prices = [pool.kind.usd_per_hour for pool in self.pools]
        return self.cost({}) if all(prices) else 0.0

    def cost(self, prices: Mapping[str, float]) -> float:
        """What options are ordered by. [$/h]

        Args:
            prices: Price of a device by kind, where it is not that of the kind. [$/h]
        """
        return sum(
            pool.gpus * (prices.get(pool.kind.name, pool.kind.usd_per_hour) or UNPRICED)
            for pool in self.pools
        )

    @property
    def usual(self) -> bool:
        """Whether engines are run like this: one pool, each instance inside a node."""
        return len(self.pools) == 1 and self.pools[0].candidate.usual

    @property
    def plainness(self) -> tuple[bool, bool, bool]:
        """Sort key by what engines are run with, of the pool that is least so."""
        return max(pool.candidate.plainness for pool in self.pools)

    @property
    def capacity(self) -> float:
        """Requests a second for which all limits hold. [1/s]"""
        return min(pool.carries * pool.instances for pool in self.pools)

    @property
    def saturation(self) -> float:
        """Requests a second beyond which the queue grows without end. [1/s]"""
        return min(pool.curve.saturation * pool.instances for pool in self.pools)

    @property
    def tightest(self) -> Pool:
        """The pool that carries least."""
        return min(self.pools, key=lambda pool: pool.carries * pool.instances)

    @property
    def binds(self) -> str:
        """What is in the way of more."""
        return self.tightest.binds

    @property
    def headroom(self) -> float:
        """Share by which traffic may grow. [1]"""
        return self.capacity / self.rate - 1.0

    def seconds(self, name: str) -> float:
        """Latency of an objective at the load; of two pools, of the one it is of. [s]"""
        pool = self.pools[0 if name.startswith("ttft") else -1]
        return pool.curve.at(name, self.rate / pool.instances)

    def same(self, other: "Option") -> bool:
        """Whether both are made of the same instances, as many of each."""
        return len(self.pools) == len(other.pools) and all(
            one.candidate is two.candidate and one.instances == two.instances
            for one, two in zip(self.pools, other.pools, strict=True)
        )

    def resized(self, change: int) -> "Option":
        """The option with more or fewer instances of the pool that carries least."""
        tight = self.tightest
        pools = tuple(
            replace(pool, instances=pool.instances + change) if pool is tight else pool
            for pool in self.pools
        )
        return replace(self, pools=pools)

    def without(self, spares: int) -> "Option":
        """What is left when so many instances of every pool are lost."""
        pools = tuple(replace(pool, instances=pool.instances - spares) for pool in self.pools)
        return replace(self, pools=pools)
