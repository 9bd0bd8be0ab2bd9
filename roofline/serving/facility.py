"""The building around a deployment: power at load, energy, carbon and electricity of its tokens."""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from math import exp, floor, hypot, log
from operator import add
from typing import Any, Final

from msgspec import Struct

from roofline.cost.deployment import Deployment
from roofline.cost.power import (
    ARITHMETIC_SHARE,
    HOST_LOAD,
    IDLE_SHARE,
    LINK_SHARE,
    MEMORY_SHARE,
    POWER_LOG_SD,
    RUNNING_SHARE,
    host_power,
    network_power,
)
from roofline.errors import InputError
from roofline.hardware.carbon import CarbonIntensity
from roofline.hardware.machine import Node
from roofline.serving.running_cost import FigureRange
from roofline.serving.static import CENTRAL
from roofline.table import Table, table
from roofline.units import BITS_PER_BYTE, MILLION, PREFIX, SECONDS_PER_HOUR, show, significant

MOST_PUE: Final = 10.0


class Facility(Struct, frozen=True):
    """Building, electricity and grid."""

    pue: float = 1.0
    """Power of the building over that of its servers and switches. [1]"""
    usd_per_kwh: float | None = None
    carbon: CarbonIntensity | None = None
    """Price and carbon intensity of electricity; None where they are not asked for. [$/kWh]"""

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        if not 1.0 <= self.pue <= MOST_PUE:
            raise InputError(
                f"PUE is {self.pue:g}",
                hint="give the power of the building over that of its servers, like 1.25",
            )
        if self.usd_per_kwh is not None and not 0.0 <= self.usd_per_kwh <= MILLION:
            raise InputError(
                f"a kilowatt-hour for ${self.usd_per_kwh:g}", hint="give dollars, like 0.08"
            )

    @property
    def bought(self) -> tuple[tuple[str, float, str], ...]:
        """Quantities that follow from energy: name, factor on watt-hours, unit."""
        known = (
            ("gco2e", None if self.carbon is None else self.carbon.grams_per_kwh, "g"),
            ("electricity_usd", self.usd_per_kwh, "$"),
        )
        return tuple((name, of / PREFIX["k"], unit) for name, of, unit in known if of is not None)

    def provisioned_w(self, node: Node) -> float:
        """Power that a hall needs for each GPU: all at their limits, with the building. [W]"""
        gpu = node.gpu
        return (gpu.tdp_w + _host(node) + _network(node)) * self.pue

    def most(self, node: Node, watts: float) -> int:
        """GPUs of a node's kind that a hall of a power holds, in whole nodes. [1]"""
        each = self.provisioned_w(node) * node.gpus
        return floor(watts / each * (1.0 + 2.0**-40)) * node.gpus


def _host(node: Node) -> float:
    """Most that a server takes beside its boards, for each of them. [W]"""
    return float(host_power(node.gpu.tdp_w, node.gpus, node.maximum_w))


def _network(node: Node) -> float:
    """Power of the switches between servers, for each GPU. [W]"""
    return float(network_power(node.network.bytes_per_s if node.network else 0.0))


class Consumption(Struct, frozen=True):
    """Boards of one kind at a load, with the server and the building around them."""

    facility: Facility
    node: Node
    boards: FigureRange
    """Mean power of a board. [W]"""
    devices: int
    """Boards. [1]"""
    requests_per_s: float
    tokens_per_s: float
    """Requests and output tokens of all of them. [1/s] [token/s]"""
    rate_log_sd: float = 0.0
    """Log standard deviation of the rates; 0 where they are given. [1]"""

    @property
    def server(self) -> FigureRange:
        """Power of a board with its share of host and network at load. [W]"""
        return self.boards + (HOST_LOAD * _host(self.node) + _network(self.node))

    @property
    def building(self) -> FigureRange:
        """Power of all, with what the building adds. [W]"""
        return self.server * (self.devices * self.facility.pue)

    @property
    def provisioned_w(self) -> float:
        """Power that the building has to have for it. [W]"""
        return self.devices * self.facility.provisioned_w(self.node)

    def joule(self, rate: float) -> FigureRange:
        """Energy of each of those that come at a rate [1/s]. [J]

        Errors of the power and of the rate are taken to be independent.
        """
        found, rate_sd = self.building, CENTRAL * self.rate_log_sd
        middle = found.value / rate
        low, high = (hypot(log(end / found.value), rate_sd) for end in (found.low, found.high))
        return FigureRange(middle, middle * exp(-low), middle * exp(high))


def consumption(
    parts: Sequence[Consumption], phases: Mapping[str, FigureRange] | None = None
) -> Table:
    """Power at the load, and energy, carbon and electricity of a million tokens and of a request.

    Args:
        parts: Pools that serve the same requests, each of boards of one kind.
        phases: Power of a board in a step of each phase, where it is told.
    """
    first, rows = parts[0], list[dict[str, Any]]()

    def row(metric: str, found: FigureRange, unit: str, meaning: str) -> None:
        ends = {"value": found.value, "low": found.low, "high": found.high}
        rows.append(
            {"metric": metric, **ends, "unit": unit, "basis": "assumed", "meaning": meaning}
        )

    for phase, watts in (phases or {}).items():
        row(f"board_{phase}_w", watts, "W", f"a GPU in a {phase} step")
    for part in parts:
        limit = show(part.node.gpu.tdp_w, "W")
        row("board_w", part.boards, "W", f"a GPU, mean; its limit is {limit}")
        row("server_w", part.server, "W", "with its host and network")
    row("facility_w", _sum(part.building for part in parts), "W", "all GPUs, with the building")
    needed = sum(part.provisioned_w for part in parts)
    row("provisioned_w", FigureRange(needed, needed, needed), "W", "with all at their limits")
    for name, what, rate in (
        ("mtok", "a million output tokens", first.tokens_per_s / MILLION),
        ("request", "a request", first.requests_per_s),
    ):
        hours = _sum(part.joule(rate) for part in parts) * (1.0 / SECONDS_PER_HOUR)
        row(f"wh_per_{name}", hours, "Wh", what)
        for metric, factor, unit in first.facility.bought:
            row(f"{metric}_per_{name}", hours * factor, unit, what)
    return table(rows, {})


def _sum(parts: Iterable[FigureRange]) -> FigureRange:
    return reduce(add, parts)


def notes(facility: Facility, deployment: Deployment) -> tuple[str, ...]:
    """Assumptions behind power and energy."""
    node, arithmetic = deployment.node, deployment.precision.linear_arithmetic
    gpu = node.gpu
    byte = MEMORY_SHARE * gpu.tdp_w / gpu.hbm_bytes_per_s
    flop = ARITHMETIC_SHARE * gpu.tdp_w / gpu.rate(arithmetic)
    around = "as its file states" if node.maximum_w else "assumed"
    out = [
        f"Power of a board: {IDLE_SHARE:.0%} of its limit while it waits, {RUNNING_SHARE:.0%} "
        f"while steps run, {_pico(flop)} a FLOP of {arithmetic}, {_pico(byte)} a byte of device "
        f"memory ({_pico(byte / BITS_PER_BYTE)} a bit), {LINK_SHARE:.0%} of the limit for links at "
        "their rate, and never more than the limit: all assumed, the same shares for every board. "
        f"Low and high are {exp(CENTRAL * POWER_LOG_SD) - 1:.0%} off in what is above the floor. "
        "Energy beside latencies and prices is at the limit all the time, the board alone.",
        f"The rest of a server takes {show(_host(node), 'W')} a GPU at most ({around}) and "
        f"{HOST_LOAD:.0%} of that at load, the network {show(_network(node), 'W')} (assumed); the "
        f"building takes {facility.pue - 1:.0%} on top (PUE {significant(facility.pue)}).",
    ]
    if facility.carbon is not None:
        out.append(f"Carbon: {facility.carbon}; of generation alone, not of making the machines.")
    if facility.usd_per_kwh is not None:
        out.append("A rented GPU's price has its electricity in it: do not add both.")
    return tuple(out)


def _pico(joule: float) -> str:
    return f"{joule / PREFIX['n'] * PREFIX['k']:.2g} pJ"
