"""Work of one device on one matrix, norm or row of keys, token by token."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from roofline.model.architecture import Linear


class Sequences(NamedTuple):
    """Equal sequences in one step: how many, new tokens of each, context with them."""

    number: int
    new: int
    context: int


@dataclass(frozen=True)
class Setting:
    """Bytes per element, layout, and what is counted."""

    weights: Fraction = Fraction(2)
    plain: Fraction = Fraction(2)
    cache: Fraction = Fraction(2)
    tp: int = 1
    square: bool = False
    naive: bool = False
    logits_of_all: bool = False
    converted: Fraction | None = None
    """Bytes per activation that products with stored weights take; None where they take all."""
    absorbed: bool = False
    state: Fraction = Fraction(2)


@dataclass
class Count:
    """Work of one device in one step."""

    flops: Fraction = Fraction(0)
    weight_bytes: Fraction = Fraction(0)
    activation_bytes: Fraction = Fraction(0)
    kv_bytes: Fraction = Fraction(0)
    reduced: list[Fraction] = field(default_factory=list)
    gathered: list[Fraction] = field(default_factory=list)


def keys_of(position: int, window: int | None, chunk: int | None = None) -> range:
    """Keys that the causal query at a position (from 0) sees, itself included."""
    if chunk is not None:
        return range(next(s for s in range(position, -1, -1) if s % chunk == 0), position + 1)
    return range(0 if window is None else max(0, position - window + 1), position + 1)


def visible(new: int, context: int, window: int | None, chunk: int | None = None) -> set[int]:
    """Keys that at least one new query sees."""
    return {key for p in range(context - new, context) for key in keys_of(p, window, chunk)}


def pairs(
    new: int, context: int, window: int | None, *, square: bool, chunk: int | None = None
) -> int:
    """Pairs of query and key that are multiplied, one by one.

    Where masking is ignored every new query meets every key that is there: a key that no query
    of the step sees any more has left the cache.
    """
    there = visible(new, context, window, chunk)
    queries = range(context - new, context)
    return sum(1 for p in queries for _ in (there if square else keys_of(p, window, chunk)))


def multiply(
    out: Count,
    tokens: int,
    n: int | Fraction,
    k: int,
    width: Fraction,
    setting: Setting,
    *,
    bias: int | Fraction = 0,
) -> None:
    for _ in range(tokens):
        out.flops += 2 * n * k
        out.activation_bytes += (k + n) * setting.plain
    out.weight_bytes += n * k * width + bias * setting.plain
    if width != setting.plain:
        _convert(out, tokens, k, setting)


def multiply_shard(out: Count, matrix: Linear, tokens: int, setting: Setting) -> None:
    """Work of one device on a matrix that is split as it says."""
    n = matrix.n // setting.tp if matrix.split == "column" else matrix.n
    k = matrix.k // setting.tp if matrix.split == "row" else matrix.k
    bias = n if matrix.biased else 0
    multiply(out, tokens, n, k, setting.weights, setting, bias=bias)


def normalise(
    out: Count, tokens: int, d: int, parameters: int | Fraction, setting: Setting
) -> None:
    """Fused with the residual add: stream and update in, stream and normed copy out."""
    out.activation_bytes += tokens * (d + d + d + d) * setting.plain
    out.weight_bytes += parameters * setting.plain


def multiply_row(out: Count, n: int, k: int, setting: Setting) -> None:
    """One token through one matrix."""
    out.flops += 2 * n * k
    out.activation_bytes += (k + n) * setting.plain
    _convert(out, 1, k, setting)


def _convert(out: Count, tokens: int, k: int, setting: Setting) -> None:
    """Activations are read and written narrower where a product takes them so."""
    if setting.converted is not None:
        out.activation_bytes += tokens * k * (setting.plain + setting.converted)
