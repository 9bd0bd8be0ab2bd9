"""Energy of a run: of requests, of tokens, power of the boards."""

from collections.abc import Iterable
from math import exp
from typing import Final, Literal

from msgspec import Struct

from roofline.cost.power import IDLE_SHARE, POWER_LOG_SD, board_power, unit_energy, within_limit
from roofline.cost.work import Number
from roofline.errors import InputError
from roofline.serving.static import CENTRAL, OpTime, StaticBatch

BUSY_SHARE: Final = 1.0
"""Power of a device in a step, over its board power. Assumed: an upper bound, decode draws less."""


def power(
    tdp_w: Number, utilization: Number, *, idle: float = IDLE_SHARE, busy: float = BUSY_SHARE
) -> Number:
    """Mean power of a device that works part of the time. [W]

    P = TDP·(idle + (busy − idle)·u), linear in the load. Source: Barroso and Hölzle 2007, The Case
    for Energy-Proportional Computing; both shares are assumed.

    Args:
        tdp_w: Board power. [W]
        utilization: Share of the time in which a step runs. [1]
        idle, busy: Power between steps and in them, over the board power. [1]

    Examples:
        >>> power(800.0, 0.5, idle=0.25, busy=0.75)
        400.0
    """
    if not 0 <= idle <= busy <= 1:
        raise InputError(
            f"power shares of {idle:g} idle and {busy:g} busy",
            hint="give shares of the board power from 0 to 1, the idle one not above the other",
        )
    return tdp_w * (idle + (busy - idle) * utilization)


def joule_per_token(watts: Number, seconds: Number, tokens: Number) -> Number:
    """Energy of a token. [J]

    Source: energy is power × time; hosts and cooling are left out.

    Args:
        watts: Mean power of all devices. [W]
        seconds: Time of the run. [s]
        tokens: Output tokens of it. [token]

    Examples:
        >>> joule_per_token(700.0, 10.0, 1000.0)
        7.0
    """
    return watts * seconds / tokens


Served = Literal["all", "prefill", "decode"]


class FigureRange(Struct, frozen=True):
    """A figure with its central 80 %."""

    value: float
    low: float
    high: float

    def __mul__(self, factor: float) -> "FigureRange":
        """The figure in another unit, or of so many."""
        return FigureRange(self.value * factor, self.low * factor, self.high * factor)

    def __add__(self, other: "FigureRange | float") -> "FigureRange":
        """Sum with a figure that is known, or one that is off as this one is."""
        if isinstance(other, FigureRange):
            return FigureRange(
                self.value + other.value, self.low + other.low, self.high + other.high
            )
        return FigureRange(self.value + other, self.low + other, self.high + other)


class RequestEnergy(Struct, frozen=True):
    """Energy of the units of all boards of a replica for a request, and the boards it is of."""

    limit_w: float
    devices: int
    """Board power, and boards of a replica. [W] [1]"""
    prefill_j: float
    decode_j: float
    """Energy of a request's prefill, and of all its decode steps. [J]"""
    prefill_units_w: float
    decode_units_w: float
    """Power of the units of a board in a prefill step, and in a decode step. [W]"""

    def power(
        self, requests_per_s: float, busy: float = 1.0, served: Served = "all"
    ) -> FigureRange:
        """Mean power of a board of a replica. [W]

        Args:
            requests_per_s: Requests that the replica serves. [1/s]
            busy: Share of the time in which steps run. [1]
            served: Phases of a request that it serves.
        """
        joule = (self.prefill_j if served != "decode" else 0.0) + (
            self.decode_j if served != "prefill" else 0.0
        )
        return self._power(busy, joule * requests_per_s / self.devices)

    @property
    def phases(self) -> dict[str, FigureRange]:
        """Power of a board in a step of each phase. [W]"""
        units = {"prefill": self.prefill_units_w, "decode": self.decode_units_w}
        return {phase: self._power(1.0, watts) for phase, watts in units.items() if watts}

    def _power(self, busy: float, units_w: float) -> FigureRange:
        """Mean power of a board; what is above the floor of a board that waits is unsure. [W]"""
        idle, limit = IDLE_SHARE * self.limit_w, self.limit_w
        mean, wide = float(board_power(limit, busy, units_w)), exp(CENTRAL * POWER_LOG_SD)
        return FigureRange(
            mean, idle + (mean - idle) / wide, min(idle + (mean - idle) * wide, limit)
        )


def request_energy(batch: StaticBatch) -> RequestEnergy:
    """Energy of a request of a static batch, of the units of all boards of a replica.

    A board's share of a step is that of the slowest stage of a pipeline, as often as micro-batches
    take turns in it. Units are held to what the board's limit leaves in the time of the step.
    """
    work, limit = batch.workload, batch.deployment.node.gpu.tdp_w
    prompts_s = sum(each.seconds for each in batch.prefill.values())
    prompts_j = float(within_limit(limit, _units(limit, batch.prefill.values()), prompts_s))
    turns, _ = work.turns(batch.deployment)
    tokens_j = turns * _units(limit, batch.decode.values())
    tokens_j = float(within_limit(limit, tokens_j, batch.tpot_s))
    return RequestEnergy(
        limit_w=limit,
        devices=batch.devices,
        prefill_j=prompts_j * batch.devices / work.together,
        decode_j=tokens_j * batch.devices * (work.output - 1) / work.batch,
        prefill_units_w=prompts_j / prompts_s,
        decode_units_w=tokens_j / batch.tpot_s if batch.tpot_s else 0.0,
    )


def _units(limit_w: float, ops: Iterable[OpTime]) -> float:
    """Energy of a board's units for the operators of a step. [J]"""
    every = list(ops)
    arithmetic = sum(each.compute for each in every)
    memory = sum(each.memory for each in every)
    links = sum(each.wire + each.host for each in every)
    return float(unit_energy(limit_w, arithmetic, memory, links))
