"""Work of a mixture of experts: which experts are touched, and what their matrices cost.

Symbols: E experts, k of them for each token, t tokens routed together.
"""

from typing import Final

import numpy as np
from msgspec import Struct

from roofline.cost.work import Array, Formula, Number, Work, by
from roofline.errors import InputError

MOST_REDUNDANT: Final = 4096


class Routing(Struct, frozen=True):
    """Distribution of tokens over experts."""

    skew: float = 0.0
    """Exponent a of a power law: expert i gets a share in proportion to i^−a; 0 is uniform. [1]"""
    loads: tuple[float, ...] = ()
    """Measured share of each expert, in any unit; empty to use the skew."""
    redundant: int = 0
    """Further copies of the most loaded experts, spread with all others so that groups of devices
    have about as much to do. [1]"""

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        if not 0 <= self.redundant <= MOST_REDUNDANT:
            raise InputError(
                f"{self.redundant} redundant experts", hint=f"give 0 to {MOST_REDUNDANT:,}"
            )
        if not 0 <= self.skew <= 10:
            raise InputError(f"routing skew is {self.skew:g}", hint="give a number from 0 to 10")
        if self.loads and (min(self.loads) < 0 or not 0 < sum(self.loads) < float("inf")):
            raise InputError("expert loads are not shares", hint="give numbers of 0 or more")


UNIFORM = Routing()


def chances(experts: int, active: int, routing: Routing = UNIFORM) -> Array:
    """Chance of each expert to be among the k of a token, largest first. [1]

    k times the expert's share, and at most 1; what is above 1 goes to the others in proportion.
    The chances add up to k. Source: sampling with inclusion probabilities in proportion to size.

    Args:
        experts, active: E and k. [1]
        routing: How tokens spread.

    Raises:
        InputError: The loads are not one for each expert, or on fewer experts than a token is sent
            to.

    Examples:
        >>> chances(4, 2).tolist()
        [0.5, 0.5, 0.5, 0.5]
        >>> chances(4, 2, Routing(loads=(9, 1, 1, 1))).round(3).tolist()
        [1.0, 0.333, 0.333, 0.333]
    """
    if routing.loads and len(routing.loads) != experts:
        raise InputError(
            f"{len(routing.loads)} expert loads for {experts} experts",
            hint="give one load for each routed expert",
        )
    if routing.loads and sum(load > 0 for load in routing.loads) < active:
        raise InputError(
            f"loads on fewer than {active} experts, which every token is sent to",
            hint=f"give at least {active} experts a load above 0",
        )
    ranks = np.arange(1, experts + 1, dtype=float)
    share = np.sort(np.array(routing.loads))[::-1] if routing.loads else ranks**-routing.skew
    for full in range(active + 1):
        rest = share[full:].sum()
        scaled = share[full:] * ((active - full) / rest) if rest else share[full:]
        if not len(scaled) or scaled[0] <= 1:
            return np.concatenate([np.ones(full), scaled])
    return np.concatenate([np.ones(active), np.zeros(experts - active)])


def touched(tokens: Number, experts: int, active: int, routing: Routing = UNIFORM) -> Number:
    """Expected number of distinct experts that at least one token is sent to. [1]

    Uniform: E·(1 − (1 − k/E)^t); in general the sum over experts of 1 − (1 − p)^t with p of
    `chances`. Tokens choose independently. Source: expected occupancy, linearity of expectation.

    Args:
        tokens: Tokens t routed together, over the whole group of devices. [token]
        experts, active: E and k. [1]
        routing: How tokens spread.

    Examples:
        Two of eight experts for one token; nearly all of them for sixteen:

        >>> touched(1.0, 8, 2), round(touched(16.0, 8, 2), 2)
        (2.0, 7.92)
    """
    if not routing.skew and not routing.loads:
        return experts * (1.0 - (1.0 - active / experts) ** tokens)
    chance = chances(experts, active, routing)
    missed = (1.0 - chance) ** np.asarray(tokens, float)[..., None]
    expected: Number = np.sum(1.0 - missed, axis=-1)
    return expected


def experts_gemm(
    rows: Number, experts: Number, n: Number, k: Number, *, weight_width: float, width: float
) -> Work:
    """One matrix of all touched experts: ``Y = X · W[expert]``, for each of t·k rows.

    Weights follow the experts touched, FLOPs the rows. Source: the grouped GEMM of fused MoE
    kernels, every operand crossing memory once.

    Args:
        rows: t·k. [1]
        experts: Experts touched, whose matrices are read. [1]
        n, k: Output and input width of one expert's matrix. [1]
        weight_width, width: Bytes per weight and per activation. [B]

    Examples:
        A row through one of three touched experts of 4 × 2 weights:

        >>> work = experts_gemm(1.0, 3.0, 4, 2, weight_width=2, width=2)
        >>> work.flops, work.weight_bytes
        (16.0, 48.0)
    """
    return Work(
        flops=(2.0 * n * k) * rows,
        weight_bytes=(n * k * weight_width) * experts,
        activation_bytes=((n + k) * width) * rows,
        made=by(EXPERTS, locals()),
    )


_BUSIEST = "of the group of devices with most of them, on average over what tokens choose"
EXPERTS: Final = Formula(
    flops="2 · rows · n · k",
    weight_bytes="experts · n · k · weight_width",
    activation_bytes="rows · (n + k) · width",
    meanings=(("experts", f"experts touched {_BUSIEST}"), ("rows", f"rows {_BUSIEST}")),
)
