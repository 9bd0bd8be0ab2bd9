"""Acceptance that differs between requests: a Beta distribution about the mean.

Symbols: p mean acceptance, s standard deviation between requests, ν concentration, u quantile of a
request among all, τ tokens of a verification. A request keeps its u at every position.
"""

import math
from dataclasses import replace
from typing import Final

import numpy as np

from roofline.cost.work import Array
from roofline.errors import InputError
from roofline.serving.acceptance import Acceptance

REQUESTS: Final = 4096
"""Equally likely requests over which means are taken. [1]"""


def spread_out(mean: Acceptance, spread: float) -> Acceptance:
    """Acceptance of requests that differ: ν = p·(1 − p) / s² − 1 at the first position.

    The other positions have the same ν. Source: moments of Beta(p·ν, (1 − p)·ν), Johnson, Kotz and
    Balakrishnan 1995, Continuous Univariate Distributions 2, chapter 25.

    Args:
        mean: Mean over requests.
        spread: s; 0 for requests that are alike. [1]

    Raises:
        InputError: No distribution on 0 to 1 has that mean and that deviation.

    Examples:
        >>> from roofline.serving.acceptance import parse
        >>> spread_out(parse("0.5"), 0.25).concentration  # 0.25 / 0.0625 − 1
        3.0
    """
    if spread == 0.0:
        return mean
    first = mean.positions[0][0]
    most = math.sqrt(first * (1.0 - first))
    if not 0.0 < spread < most:
        raise InputError(
            f"`acceptance_spread` is {spread:g} about a mean acceptance of {first:g}",
            hint=f"give a standard deviation of 0 or more, less than √(p·(1 − p)) = {most:.2g}",
        )
    return replace(mean, concentration=(most / spread) ** 2 - 1.0)


def of_requests(acceptance: Acceptance, length: int, quantile: Array) -> Array:
    """Acceptance of a chain's positions by requests: positions × requests. [1]

    Source: quantiles of the Beta distribution by its inverse incomplete function, NIST DLMF 8.17.

    Args:
        acceptance: Mean of the requests, and their concentration.
        length: Tokens drafted in a row. [token]
        quantile: u of each request. [1]
    """
    means = np.array([[acceptance.ranks(n)[0]] for n in range(1, length + 1)])
    nu = acceptance.concentration
    if math.isinf(nu):
        return np.broadcast_to(means, (length, len(quantile)))
    from scipy.special import betaincinv

    with np.errstate(invalid="ignore"):
        drawn = betaincinv(means * nu, (1.0 - means) * nu, np.asarray(quantile))
    return np.where((means == 0.0) | (means == 1.0), means, drawn)


def tokens_by_request(acceptance: Acceptance, length: int, quantile: Array) -> Array:
    """τ of requests: 1 + Σ over positions of the product of the acceptances up to each. [token]

    Source: Leviathan et al. 2023 (arXiv 2211.17192), equation 1, with each request's own rates.

    Args:
        acceptance, length, quantile: As for `of_requests`. [token] [1]

    Examples:
        >>> from roofline.serving.acceptance import parse
        >>> tokens_by_request(parse("0.5"), 2, np.array([0.1, 0.9])).tolist()  # all alike
        [1.75, 1.75]
    """
    rates = of_requests(acceptance, length, quantile)
    out: Array = 1.0 + np.cumprod(rates, axis=0).sum(axis=0)
    return out


def mean_rounds(acceptance: Acceptance, length: int) -> float:
    """E[1 / τ]: rounds for each token of an answer, mean over requests. [1/token]

    By Jensen's inequality at least 1 / E[τ]: requests that accept little have more rounds than
    those that accept much save.
    Source: arithmetic; answers of one length need length · E[1 / τ] rounds on average.

    Args:
        acceptance, length: As for `of_requests`. [token]
    """
    evenly = (np.arange(REQUESTS) + 0.5) / REQUESTS
    return float((1.0 / tokens_by_request(acceptance, length, evenly)).mean())
