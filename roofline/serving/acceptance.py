"""Acceptance rates of drafted tokens, assumed, measured or published, and what they yield.

Requests may differ in theirs, by a Beta distribution about the mean.

Symbols: p mean acceptance, s standard deviation between requests, ν concentration, u quantile of a
request among all, τ tokens of a verification. A request keeps its u at every position.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from msgspec import Struct, structs

from roofline.cost.work import Array, Number
from roofline.errors import InputError
from roofline.records import replace
from roofline.table import Table, table

_HINT: Final = (
    "write 0.7 for every position, 0.73,0.71,0.68 for one after the other, 0.6+0.1,0.5+0.1 for the "
    "best and the next best token of each"
)


class Acceptance(Struct, frozen=True):
    """Probability that the target accepts a drafted token when it has accepted those before it.

    A single position stands for all: tokens are then accepted alike and independently.
    """

    positions: tuple[tuple[float, ...], ...]
    """By position after the last token, probabilities of the draft's best token, of its
    second best, and so on: at most one of them is accepted. [1]"""
    concentration: float = math.inf
    """ν of requests that differ, about these means: see
    `roofline.serving.acceptance`; ∞ where all are alike. [1]"""

    def __post_init__(self) -> None:
        """Refuse what are no probabilities."""
        for ranks in self.positions:
            if not ranks or not all(0 <= rank <= 1 for rank in ranks):
                raise InputError(f"acceptance is {_spelled(ranks)}", hint=_HINT)
            if sum(ranks) > 1 + _ROUNDING:
                raise InputError(
                    f"acceptance {_spelled(ranks)} is more than 1 in all",
                    hint="at most one of the tokens drafted for a position is accepted",
                )
            if any(later > earlier for earlier, later in pairwise(ranks)):
                raise InputError(
                    f"acceptance {_spelled(ranks)} grows", hint="give the draft's best token first"
                )
        if not self.positions:
            raise InputError("acceptance is empty", hint=_HINT)

    @property
    def spread(self) -> float:
        """Standard deviation between requests, at the first position. [1]"""
        first = self.positions[0][0]
        return math.sqrt(first * (1.0 - first) / (1.0 + self.concentration))

    @property
    def deepest(self) -> int | None:
        """Last position that is known; None where all are alike. [token]"""
        return None if len(self.positions) == 1 else len(self.positions)

    def ranks(self, position: int) -> tuple[float, ...]:
        """Probabilities at a position, counted from 1; InputError beyond those that are known."""
        if self.deepest is None:
            return self.positions[0]
        if position > self.deepest:
            raise InputError(
                f"acceptance is known of {self.deepest} positions, the draft has more",
                hint=f"draft {self.deepest} tokens at most, or give the acceptance of position "
                f"{position}",
            )
        return self.positions[position - 1]

    def refused(self, factor: float) -> "Acceptance":
        """Acceptance where a factor more is refused [1], at most all; alternatives in proportion.

        Examples:
            >>> str(parse("0.75,0.5").refused(1.2))
            '0.7,0.4'
        """

        def scaled(ranks: tuple[float, ...]) -> tuple[float, ...]:
            accepted = sum(ranks)
            left = max(1.0 - (1.0 - accepted) * factor, 0.0)
            return tuple(rank * left / accepted if accepted else 0.0 for rank in ranks)

        return replace(self, positions=tuple(scaled(ranks) for ranks in self.positions))

    def __str__(self) -> str:
        """Text that `parse` reads."""
        return ",".join(_spelled(ranks) for ranks in self.positions)


_ROUNDING: Final = 2.0**-40


def _spelled(ranks: Sequence[float]) -> str:
    return "+".join(f"{rank:g}" for rank in ranks)


def parse(text: str) -> Acceptance:
    """Read an acceptance as people write it; InputError where it is none.

    Examples:
        >>> parse("0.7").positions
        ((0.7,),)
        >>> parse("0.6+0.1, 0.5").positions
        ((0.6, 0.1), (0.5,))
    """
    try:
        positions = tuple(
            tuple(float(rank) for rank in position.split("+")) for position in text.split(",")
        )
    except ValueError:
        raise InputError(f"acceptance {text!r:.60} is not a number", hint=_HINT) from None
    return Acceptance(positions)


class PublishedAcceptance(Struct, frozen=True):
    """Acceptance that somebody measured."""

    target: str
    draft: str
    text: str
    """Network that verifies, draft, and kind of text."""
    acceptance: Acceptance
    """Probability at each position, those before accepted. [1]"""
    source: str
    where: str
    """Document, and the place in it."""

    @property
    def rounded(self) -> str:
        """Acceptance of each position as it is read, to two digits."""
        return ",".join(f"{ranks[0]:.2f}" for ranks in self.acceptance.positions)


def conditional(reached: Sequence[float]) -> Acceptance:
    """Acceptance of each position from the shares of drafts that were accepted up to it.

    Args:
        reached: Share of all drafts whose first i tokens were accepted, for i = 1, 2, … [1]

    Examples:
        >>> conditional([0.8, 0.4]).positions
        ((0.8,), (0.5,))
    """
    before = (1.0, *reached)
    return Acceptance(tuple((after / first,) for first, after in pairwise(before)))


_TESTS: Final = ("vLLM at 51dacb53", "tests/v1/spec_decode/test_acceptance_length.py, greedy")
_V3: Final = ("arXiv 2412.19437", "section 5.4.3, various topics")
# Something was found to draft in 993 rounds, in 821 nothing; shares are of those in which it was.
_FOUND: Final = 993 / (993 + 821)
PUBLISHED: Final = (
    *(
        PublishedAcceptance(target, "EAGLE-3", "MT-Bench", conditional(reached), *_TESTS)
        for target, reached in (
            ("llama-3.1-8b-instruct", (0.7296, 0.5208, 0.3545)),
            ("qwen3-8b", (0.6541, 0.3993, 0.2020)),
            ("gpt-oss-20b", (0.7165, 0.5120, 0.3337)),
            ("qwen3-vl-30b-a3b-instruct", (0.2900, 0.0620, 0.0115)),
        )
    ),
    PublishedAcceptance(
        "llama-3.1-8b-instruct",
        "n-grams",
        "edit_5k_char",
        conditional([share * _FOUND for share in (0.81, 0.74, 0.70, 0.68, 0.66)]),
        "vLLM PR 24344",
        "description, method ngram, greedy",
    ),
    PublishedAcceptance("deepseek-v3", "MTP", "lower end", Acceptance(((0.85,),)), *_V3),
    PublishedAcceptance("deepseek-v3", "MTP", "upper end", Acceptance(((0.90,),)), *_V3),
    PublishedAcceptance(
        "deepseek-v3",
        "MTP",
        "long prompt",
        conditional((0.6958, 0.4842, 0.26)),
        "LMSYS 2025-07-17",
        "lmsys.org/blog/2025-07-17-mtp: 2.18 tokens a round of 2 drafted, taken as accepted alike, "
        "and 2.44 of 3",
    ),
    PublishedAcceptance(
        "qwen3.5-397b-a17b",
        "MTP",
        "reasoning",
        Acceptance(((0.8905,),)),
        "SGLang PR 35194",
        "3.39 tokens a round of 3 drafted, taken as accepted alike",
    ),
)
"""Measured somewhere: no figure carries over to other text, drafts or sampling."""


def published() -> Table:
    """Published acceptance rates, each with its source."""
    return table([structs.asdict(entry) | {"acceptance": entry.rounded} for entry in PUBLISHED], {})


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


def operations_increase(acceptance: Number, length: Number, cost: Number) -> Number:
    """(1 − α)·(γ·ĉ + γ + 1) / (1 − α^(γ + 1)): operations of a token over those without drafts. [1]

    `roofline.serving.rounds.operations` counts them instead.
    Source: Leviathan et al. 2023 (arXiv 2211.17192), theorem 3.11.

    Args:
        acceptance: As in `expected_tokens`. [1]
        length: γ. [token]
        cost: ĉ, operations of a token of the draft over those of one of the target. [1]

    Examples:
        >>> float(operations_increase(0.5, 2, cost=0.125))  # 3.25 tokens' worth for 1.75
        1.8571428571428572
    """
    return (length * cost + length + 1.0) / expected_tokens(acceptance, length)


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
    means = np.array([acceptance.ranks(n)[0] for n in range(1, length + 1)])
    nu = acceptance.concentration
    if math.isinf(nu):
        return np.broadcast_to(means[:, None], (length, len(quantile)))
    from scipy.special import betaincinv

    # All positions of most drafts have one mean.
    mean, place = np.unique(means, return_inverse=True)
    mean = mean[:, None]
    with np.errstate(invalid="ignore"):
        drawn = betaincinv(mean * nu, (1.0 - mean) * nu, np.asarray(quantile))
    found: Array = np.where((mean == 0.0) | (mean == 1.0), mean, drawn)[place]
    return found


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
