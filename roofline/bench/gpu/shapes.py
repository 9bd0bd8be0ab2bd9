"""Attention heads of published networks, and arrays with values of their own."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofline.bench.elements import bf16

HEADS: Final = (
    (32, 8, 128),  # Llama 3.1 8B
    (64, 8, 128),  # Llama 3.1 70B
    (8, 1, 128),  # the same on one of eight devices
    (28, 4, 128),  # Qwen2.5 7B
    (32, 32, 128),  # Llama 2 7B
    (32, 8, 64),  # Llama 3.2 1B
)
"""Query heads, key heads and their width."""
STRIDE: Final = 7919
"""A prime: pages that follow one another in a sequence are far apart in memory."""
THETA: Final = 10_000.0
"""Base of the rotary angles."""


def pages(sequences: int, each: int) -> NDArray[np.int32]:
    """Page of each part of each sequence, [sequences, each]: all of them, in no order.

    >>> sorted(pages(2, 3).ravel().tolist())
    [0, 1, 2, 3, 4, 5]
    """
    count = sequences * each
    step = STRIDE if count % STRIDE else 1
    order = np.arange(count, dtype=np.int64) * step % count
    return order.astype(np.int32).reshape(sequences, each)


def same(count: int, value: int) -> NDArray[np.int32]:
    """One number, many times."""
    return np.full(count, value, np.int32)


def positions(count: int, table: int) -> NDArray[np.int32]:
    """Positions of tokens that follow one another, as far as the table goes."""
    return (np.arange(count) % table).astype(np.int32)


def angles(table: int, head_dim: int) -> NDArray[np.uint16]:
    """Cosines, then sines, of each position in bfloat16: [table, head width]."""
    turn = np.outer(np.arange(table), THETA ** -np.linspace(0.0, 1.0, head_dim // 2))
    both = np.concatenate([np.cos(turn), np.sin(turn)], axis=1)
    return bf16(np.ascontiguousarray(both, dtype=np.float32))
