"""Checks of a question to a plan: too few requests, too long ones, objectives without meaning."""

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
