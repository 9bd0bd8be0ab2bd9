"""Shares and prices as people write them."""

from collections.abc import Sequence
from typing import Final

from roofline.errors import InputError
from roofline.model.architecture import Architecture
from roofline.serving.objectives import Objective
from roofline.serving.requests import Requests
from roofline.units import counted

FEWEST: Final = 100
"""Requests that a plan takes at least: of fewer, a 99th percentile is just the slowest one."""


def meant(
    objectives: tuple[Objective, ...], requests: Requests
) -> tuple[tuple[Objective, ...], tuple[str, ...]]:
    """Objectives that answers can have, and the reason why others are left out."""
    if requests.output.max() > 1:
        return objectives, ()
    kept = tuple(each for each in objectives if each.metric != "tpot")
    names = [each.name for each in objectives if each.metric == "tpot"]
    why = "an answer of one token has no time between tokens"
    return kept, tuple(f"Left out: {name}, as {why}." for name in names)


def check_number(requests: Requests) -> None:
    """Refuse so few requests that their percentiles say nothing."""
    count = len(requests.arrival)
    if count < FEWEST:
        raise InputError(
            f"{counted(count, 'request')} {'is' if count == 1 else 'are'} too few to plan for",
            hint=f"give at least {FEWEST}, as limits are on percentiles: --requests 8000, "
            "or a longer trace",
        )


def check_contexts(network: Architecture, requests: Requests) -> None:
    """Refuse requests that are longer than what the network is made for."""
    limit, longest = network.max_context, int((requests.prompt + requests.output).max())
    if limit is not None and longest > limit:
        raise InputError(
            f"the longest request has {longest:,} tokens, {network.name} is made for {limit:,}",
            hint="give --prompt and --output, another workload, or a network with more context",
        )


def headroom_of(asked: float | str) -> tuple[float, int]:
    """Share by which traffic may grow, and replicas that may be lost.

    Raises:
        InputError: It is neither.

    Examples:
        >>> headroom_of("30%"), headroom_of("n+1"), headroom_of(0.5)
        ((0.3, 0), (0.0, 1), (0.5, 0))
    """
    hint = "write 30%, or n+1 for a replica to spare"
    text = str(asked).strip().lower().replace(" ", "")
    if not text.startswith("n+"):
        return share_of("headroom", asked, hint), 0
    if not text[2:].isdecimal() or len(text) > 6:
        raise InputError(f"headroom {asked!r:.40} is no number of replicas", hint=hint)
    return 0.0, int(text[2:])


def share_of(what: str, asked: float | str, hint: str) -> float:
    """A share, written as such or in percent.

    Raises:
        InputError: It is neither.
    """
    text = str(asked).strip()
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        raise InputError(f"{what} {asked!r:.40} is no share", hint=hint) from None
    return value / 100.0 if text.endswith("%") else value


def prices_of(asked: float | Sequence[float] | None, number: int) -> tuple[float | None, ...]:
    """Price of each kind of device: one for all, or one each; None for the assumed one. [$/h]

    Raises:
        InputError: There are more or fewer than kinds.
    """
    if asked is None or isinstance(asked, int | float):
        return (asked,) * number
    given = tuple(asked)
    if len(given) in (0, 1):
        return (given or (None,)) * number
    if len(given) != number:
        raise InputError(
            f"{counted(len(given), 'price')} for {counted(number, 'kind')} of GPU",
            hint="give one --price for all, or one for each --gpu in their order",
        )
    return given
