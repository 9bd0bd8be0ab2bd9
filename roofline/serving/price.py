"""Price of tokens, and of the devices that make them."""

from typing import TypeVar

from roofline.cost.work import Array, Number
from roofline.units import HOURS_PER_YEAR, MILLION, SECONDS_PER_HOUR

Tokens = TypeVar("Tokens", float, Array)


def usd_per_mtok(usd_per_hour: float | Tokens, seconds: float, tokens: Tokens) -> Tokens:
    """Price of a million tokens, idle time included. [$]

    Source: devices are paid by the hour, whether they work or not.

    Args:
        usd_per_hour: Of all devices. [$/h]
        seconds: Time in which the tokens come; 1 where a rate of them is known. [s]
        tokens: Output tokens of that time. [token]

    Examples:
        >>> usd_per_mtok(3.6, 1000.0, 1e6), usd_per_mtok(3.6, 1.0, 1000.0)
        (1.0, 1.0)
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
