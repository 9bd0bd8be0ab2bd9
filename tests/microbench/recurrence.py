"""Recurrences of states in double precision, token after token, for comparison."""

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
TINY: Final = 1e-6
"""Number added to the squares of a vector before it is normalised."""


def gated_delta(
    query: Array, key: Array, value: Array, decay: Array, strength: Array, state: Array
) -> tuple[Array, Array]:
    """Outputs [batch, new, heads, value width] and last states of the gated delta rule.

    The state decays, the value that it has for the key is replaced by the new one as far as the
    strength says, and the query reads it. Source: Yang et al. 2024 (arXiv 2412.06464), section 3.

    Args:
        query, key: Of shape [batch, new, key heads, key width]; normalised here.
        value: Of shape [batch, new, heads, value width].
        decay: Logarithm of what the state is multiplied by, [batch, new, heads].
        strength: Of shape [batch, new, heads].
        state: Of shape [batch, heads, key width, value width].
    """
    shared = value.shape[2] // key.shape[2]
    q, k = (np.repeat(unit(each), shared, axis=2) for each in (query, key))
    held, out = state.copy(), np.empty_like(value)
    for token in range(value.shape[1]):
        held *= np.exp(decay[:, token])[..., None, None]
        old = np.einsum("bhkv,bhk->bhv", held, k[:, token])
        new = strength[:, token][..., None] * (value[:, token] - old)
        held += k[:, token][..., None] * new[..., None, :]
        out[:, token] = np.einsum("bhkv,bhk->bhv", held, q[:, token])
    return out * key.shape[3] ** -0.5, held


def unit(vectors: Array) -> Array:
    """Vectors along the last axis, normalised."""
    length: Array = np.sqrt((vectors**2).sum(axis=-1, keepdims=True) + TINY)
    return vectors / length


def convolution(values: Array, weight: Array) -> Array:
    """Activated sums of the last inputs of each channel, [batch, new, channels].

    Args:
        values: Of shape [batch, new, channels].
        weight: Of shape [channels, taps], the last of them for the newest input.
    """
    taps, new = weight.shape[1], values.shape[1]
    before = np.pad(values, ((0, 0), (taps - 1, 0), (0, 0)))
    total = sum(before[:, tap : tap + new] * weight[:, tap] for tap in range(taps))
    return np.asarray(total / (1.0 + np.exp(-total)))
