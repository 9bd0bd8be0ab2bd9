"""Cost of a run: tokens for a dollar and for a joule."""

from typing import Final

from roofline.cost.power import IDLE_SHARE
from roofline.cost.work import Number
from roofline.errors import InputError
from roofline.units import HOURS_PER_YEAR, MILLION, SECONDS_PER_HOUR

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


def usd_per_mtok(usd_per_hour: Number, seconds: Number, tokens: Number) -> Number:
    """Price of a million tokens, idle time included. [$]

    Source: devices are paid by the hour, whether they work or not.

    Args:
        usd_per_hour: Of all devices. [$/h]
        seconds: Time of the run. [s]
        tokens: Output tokens of it. [token]

    Examples:
        >>> usd_per_mtok(3.6, 1000.0, 1e6)
        1.0
    """
    return usd_per_hour * seconds / SECONDS_PER_HOUR / tokens * MILLION


def owned_usd_per_hour(server_usd: Number, devices: Number, years: Number) -> Number:
    """Price of an hour of a device of one's own, without its electricity. [$/h]

    Source: straight-line depreciation to nothing; interest, space and staff are left out.

    Args:
        server_usd: Price of a server. [$]
        devices: Its devices. [1]
        years: Time after which it is worth nothing. [a]

    Examples:
        >>> round(owned_usd_per_hour(280512.0, 8.0, 4.0), 6)
        1.0
    """
    return server_usd / (devices * years * HOURS_PER_YEAR)
