"""Distributions of the lengths of prompts and answers, and of the turns of a session.

A distribution maps a uniform number to a length, so that a change of one distribution leaves the
order of requests, and everything else that is drawn, as it was.
"""

import math
from typing import TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.cost.work import Array
from roofline.errors import InputError
from roofline.serving.requests import MOST_TOKENS
from roofline.units import significant, written_out


class ConstantLength(Struct, frozen=True):
    """All the same."""

    tokens: int
    """Length. [token]"""

    def __post_init__(self) -> None:
        """Refuse a length that has no meaning."""
        _check(self.tokens)


class Uniform(Struct, frozen=True):
    """Each whole number from one to another equally often."""

    low: int
    high: int
    """Shortest and longest, themselves included. [token]"""

    def __post_init__(self) -> None:
        """Refuse an empty range."""
        _check(self.low)
        _check(self.high)
        if self.low > self.high:
            raise InputError(
                f"lengths from {self.low} to {self.high}", hint="give the shorter one first"
            )


class Lognormal(Struct, frozen=True):
    """Logarithms spread normally, as lengths of prompts and answers do in most traces."""

    median: float
    """Half are shorter. [token]"""
    sigma: float
    """Standard deviation of the logarithm. [1]"""
    most: int = MOST_TOKENS
    """Longest: others are cut to this. [token]"""

    def __post_init__(self) -> None:
        """Refuse figures that have no meaning."""
        _check(self.median)
        _check(self.most)
        if not (0 <= self.sigma < 10):
            raise InputError(
                f"sigma of the lengths is {self.sigma:g}", hint="give 0 or more, and below 10"
            )

    @staticmethod
    def of_mean(median: float, mean: float, most: int = MOST_TOKENS) -> "Lognormal":
        """The one with that median and mean [token], before anything is cut.

        InputError where the mean is below the median: that is no lognormal.

        Examples:
            >>> Lognormal.of_mean(100.0, 100.0).sigma
            0.0
        """
        _check(median)
        if not mean >= median:
            raise InputError(
                f"a mean of {mean:g} is below the median, {median:g}",
                hint="give a mean of at least the median, or another distribution",
            )
        return Lognormal(median, math.sqrt(2 * math.log(mean / median)), most)


class Empirical(Struct, frozen=True):
    """Lengths that were seen, and how often."""

    tokens: tuple[int, ...]
    """Lengths, ascending. [token]"""
    weights: tuple[float, ...] = ()
    """Frequency of each, in any unit; nothing for equally often."""

    def __post_init__(self) -> None:
        """Refuse weights that are none, and lengths out of order."""
        if not self.tokens:
            raise InputError("no lengths were seen", hint="give one or more")
        for tokens in self.tokens:
            _check(tokens)
        if list(self.tokens) != sorted(self.tokens):
            raise InputError("lengths that were seen are out of order", hint="sort them")
        if self.weights and len(self.weights) != len(self.tokens):
            raise InputError(
                f"{len(self.tokens)} lengths and {len(self.weights)} weights",
                hint="give one weight for each length",
            )
        usable = all(math.isfinite(w) and w >= 0 for w in self.weights)
        if not usable or (self.weights and not sum(self.weights)):
            raise InputError("weights of lengths are not shares", hint="give 0 or more, not all 0")


Lengths: TypeAlias = ConstantLength | Uniform | Lognormal | Empirical


def _check(tokens: float) -> None:
    if not 1 <= tokens <= MOST_TOKENS:
        raise InputError(f"a length of {tokens:g}", hint=f"give a number from 1 to {MOST_TOKENS:,}")


def drawn(lengths: Lengths, uniform: Array) -> NDArray[np.int64]:
    """Lengths of uniform numbers below 1 by a distribution: its inverse, rounded to whole tokens.

    Examples:
        >>> drawn(Uniform(1, 4), np.array([0.0, 0.25, 0.99])).tolist()
        [1, 2, 4]
        >>> drawn(Lognormal(100.0, 1.0), np.array([0.5])).tolist()
        [100]
    """
    match lengths:
        case ConstantLength(tokens):
            return np.full(uniform.shape, tokens, np.int64)
        case Uniform(low, high):
            return low + np.floor(uniform * (high - low + 1)).astype(np.int64)
        case Lognormal(median, sigma, most):
            from roofline.special import ndtri

            # 0 has no logarithm; the least that a generator of 53 bits gives above it has.
            normal: Array = ndtri(np.maximum(uniform, 2.0**-54))
            exact = np.clip(median * np.exp(sigma * normal), 1, most)
            return np.rint(exact).astype(np.int64)
        case Empirical(seen, weights):
            shares = np.asarray(weights or np.ones(len(seen)), np.float64)
            return np.asarray(seen, np.int64)[picked(shares, uniform)]


def picked(shares: Array, uniform: Array) -> NDArray[np.int64]:
    """Rows that uniform numbers pick, each as often as its share says.

    Args:
        shares: Of each row, in any unit. [1]
        uniform: From 0 up to but not including 1. [1]

    Examples:
        >>> picked(np.array([3.0, 1.0]), np.array([0.7, 0.75])).tolist()
        [0, 1]
    """
    ends = np.cumsum(shares) / shares.sum()
    rows: NDArray[np.int64] = np.searchsorted(ends[:-1], uniform, side="right").astype(np.int64)
    return rows


def mean(lengths: Lengths) -> float:
    """Expected length, before rounding. [token]

    Of a lognormal that is cut, E[min(X, c)] = μ·Φ(z − σ) + c·(1 − Φ(z)) with z = ln(c/median)/σ
    and μ = median·exp(σ²/2). Source: Kleiber and Kotz 2003, Statistical Size Distributions, 4.

    Examples:
        >>> mean(Uniform(1, 4)), mean(Empirical((10, 20), (3.0, 1.0)))
        (2.5, 12.5)
    """
    match lengths:
        case ConstantLength(tokens):
            return float(tokens)
        case Uniform(low, high):
            return (low + high) / 2
        case Lognormal(median, sigma, most):
            if not sigma:
                return float(min(median, most))
            z = math.log(most / median) / sigma
            whole = median * math.exp(sigma**2 / 2)
            return whole * _below(z - sigma) + most * (1 - _below(z))
        case Empirical(tokens, weights):
            shares = weights or (1.0,) * len(tokens)
            pairs = zip(tokens, shares, strict=True)
            return sum(length * share for length, share in pairs) / sum(shares)


def _below(z: float) -> float:
    """Standard normal distribution."""
    return math.erfc(-z / math.sqrt(2)) / 2


def spelled(text: str) -> Lengths:
    """Read a length as people write it: ``2048``, or ``1638..2048`` for all between equally often.

    Raises:
        InputError: It is neither.

    Examples:
        >>> spelled("2K"), spelled("1638..2048")
        (ConstantLength(tokens=2048), Uniform(low=1638, high=2048))
    """
    low, dots, high = (written_out(word) for word in text.strip().partition(".."))
    if not all(word.isdecimal() and len(word) < 11 for word in ((low, high) if dots else (low,))):
        raise InputError(
            f"{text!r:.40} is not a length in tokens", hint="write 2048, or 1638..2048 for a range"
        )
    return Uniform(int(low), int(high)) if dots else ConstantLength(int(low))


def spread(lengths: Lengths, share: float) -> Lengths:
    """Lengths around a constant one, equally often within a share of it to either side.

    Args:
        lengths: All the same.
        share: Half of the range over the length; 0 leaves it as it is. [1]

    Raises:
        InputError: They are not all the same, or the share leaves nothing.

    Examples:
        >>> spread(ConstantLength(1000), 0.1)
        Uniform(low=900, high=1100)
    """
    if not 0 <= share < 1:
        raise InputError(f"length spread is {share:g}", hint="give a share from 0 up to 1, as 0.1")
    if not share:
        return lengths
    if not isinstance(lengths, ConstantLength):
        raise InputError(
            f"a length spread around {said(lengths)} tokens",
            hint="give it with a single length, or a range as 900..1100 without it",
        )
    low, high = (max(round(lengths.tokens * (1 + side * share)), 1) for side in (-1, 1))
    return Uniform(low, high)


def said(lengths: Lengths) -> str:
    """A distribution in a few words.

    Examples:
        >>> said(Uniform(1638, 2048))
        '1,638 to 2,048'
    """
    match lengths:
        case ConstantLength(tokens):
            return f"{tokens:,}"
        case Uniform(low, high):
            return f"{low:,} to {high:,}"
        case Lognormal(median, _, most):
            cut = f", at most {most:,}" if most < MOST_TOKENS else ""
            return f"lognormal, median {median:,.0f}, mean {mean(lengths):,.0f}{cut}"
        case Empirical(tokens, _):
            return f"as seen, {tokens[0]:,} to {tokens[-1]:,}, mean {significant(mean(lengths))}"
