"""Speculative decoding: tokens that one verification yields, as published in closed form.

Symbols: γ drafted tokens in a row, α the probability that the target accepts a drafted token when
it has accepted those before, c the time of drafting one token over that of a target's step. The
token that the target itself puts after the last accepted one counts: a verification yields 1 at
least and γ + 1 at most.
"""

import numpy as np

from roofline.cost.work import Number


def expected_tokens(acceptance: Number, length: Number) -> Number:
    """(1 − α^(γ + 1)) / (1 − α), of a chain whose tokens are all accepted alike. [token]

    The sum of α^i over i = 0 … γ: position i is reached where all before it were accepted.
    Source: Leviathan et al. 2023 (arXiv 2211.17192), equation 1.

    Args:
        acceptance: α, the same at every position and independent of what came before. [1]
        length: γ. [token]

    Examples:
        >>> float(expected_tokens(0.5, 2))  # 1 + 1/2 + 1/4
        1.75
        >>> float(expected_tokens(1.0, 4)), float(expected_tokens(0.0, 4))
        (5.0, 1.0)
    """
    rejected = 1.0 - np.asarray(acceptance, dtype=np.float64)
    with np.errstate(divide="ignore"):
        missing = -np.expm1((length + 1.0) * np.log1p(-rejected))
    sure = rejected == 0.0
    return np.where(sure, length + 1.0, missing / np.where(sure, 1.0, rejected))[()]


def walltime_improvement(acceptance: Number, length: Number, cost: Number) -> Number:
    """(1 − α^(γ + 1)) / ((1 − α)·(γ·c + 1)), where verifying takes as long as one token. [1]

    Verification is taken to be free: γ + 1 tokens in the time of one, which holds while a step is
    bound by what it reads. `roofline.serving.speculative` prices it instead.
    Source: Leviathan et al. 2023 (arXiv 2211.17192), theorem 3.8.

    Args:
        acceptance: As in `expected_tokens`. [1]
        length: γ. [token]
        cost: c, time of a draft step over that of a target's step. [1]

    Examples:
        >>> float(walltime_improvement(0.5, 2, cost=0.125))  # 1.75 tokens in 1.25 steps
        1.4
    """
    return expected_tokens(acceptance, length) / (length * cost + 1.0)
