"""Counts beyond 64-bit integers, and windows beyond long contexts."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.cost.attention import attention, keys_read, naive_attention, pairs
from roofline.cost.step import SequenceGroup, step
from roofline.cost.work import COUNTS, Work
from roofline.model.catalog import architecture
from roofline.serving.workload import MOST_SEQUENCES, MOST_TOKENS
from tests.cost.networks import (
    dense,
    deployed,
    flops,
    row_of,
    total,
)

HUGE = 10**12


@pytest.mark.parametrize("kernel", [attention, naive_attention])
@pytest.mark.parametrize("window", [None, 4096])
@pytest.mark.parametrize(("new", "context"), [(1, HUGE), (HUGE, HUGE), (2**40, 2**41)])
@pytest.mark.parametrize("as_", [int, float, np.int64, lambda x: np.array([x])])
def test_counts_beyond_64_bits_are_right(
    kernel: Callable[..., Work], window: int | None, new: int, context: int, as_: Callable[..., Any]
) -> None:
    work = kernel(
        as_(1000),
        as_(new),
        as_(context),
        heads=64.0,
        kv_heads=8.0,
        head_dim=128.0,
        width=2.0,
        kv_width=2.0,
        window=window,
    )
    exact = _exact_pairs(new, context, window, square=kernel is naive_attention)
    assert float(np.squeeze(work.flops)) == pytest.approx(1000 * exact * 4 * 64 * 128, rel=1e-12)
    read = context if window is None else min(context, new + window - 1)
    assert float(np.squeeze(work.kv_bytes)) == pytest.approx(1000 * read * 2 * 8 * 128 * 2)


def _exact_pairs(new: int, context: int, window: int | None, *, square: bool) -> int:
    wide = window or context
    if square:
        return new * min(context, new + wide - 1)
    inside = min(max(wide - (context - new), 0), new)  # queries that see everything before them
    return inside * (context - new) + inside * (inside + 1) // 2 + (new - inside) * wide


@pytest.mark.parametrize("as_", [int, float, np.int64, lambda x: np.array([x])])
def test_a_step_of_integers_beyond_64_bits_is_right(as_: Callable[..., Any]) -> None:
    deployment = deployed(dense(), logits="all")
    many = SequenceGroup(as_(2**24), as_(HUGE), as_(HUGE))
    tokens = 2**24 * HUGE
    matrices = 2 * (24 * (8 * 8) + 32 * 24 + 24 * 80 + 40 * 24) + 56 * 24
    exact = 2 * tokens * matrices + 2**24 * 2 * 4 * 4 * 8 * (HUGE * (HUGE + 1) // 2)
    assert float(np.squeeze(flops(step(deployment, many)))) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("context", [2**20, 2**31, 10**12])
@pytest.mark.parametrize("wider", [0, 1, 10**12])
def test_a_window_beyond_a_long_context_is_no_window_to_the_last_bits(
    context: int, wider: int
) -> None:
    for new in (1.0, 1000.0, float(context)):
        with_ = pairs(new, float(context), window=float(context + wider))
        assert with_ == pytest.approx(float(pairs(new, float(context))), rel=1e-14)


@given(st.integers(1, 2**40), st.integers(0, 2**40), st.integers(-(2**20), 2**20))
def test_pairs_and_keys_are_right_far_beyond_what_can_be_counted(
    new: int, cached: int, beyond: int
) -> None:
    context = new + cached
    window = max(1, context + beyond)
    ours = pairs(float(new), float(context), window=float(window))
    exact = _exact_pairs(new, context, window, square=False)
    assert ours == pytest.approx(float(exact), rel=1e-12)
    assert keys_read(float(new), float(context), float(window)) == min(context, new + window - 1)


KINDS = (
    "llama-3.1-8b", "gpt-oss-120b", "qwen3-235b-a22b", "deepseek-v3",
    "mamba-2.8b", "jamba-1.5-large", "qwen3-next-80b-a3b-instruct", "kimi-linear-48b-a3b-base",
)  # fmt: skip
LARGEST = [
    (MOST_SEQUENCES, MOST_TOKENS, MOST_TOKENS),
    (MOST_SEQUENCES, 1, MOST_TOKENS),
    (1, MOST_TOKENS, MOST_TOKENS),
    (3, 2**16 + 1, MOST_TOKENS - 1),
]


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("logits", ["last", "all"])
def test_no_count_of_any_network_wraps_at_the_largest_numbers_that_are_taken(
    name: str, logits: str
) -> None:
    """Integers of Python, which do not wrap, against those of NumPy, which do, and floats."""
    deployment = deployed(architecture(name), logits=logits)
    count, new, context = (np.array(column) for column in zip(*LARGEST, strict=True))
    assert count.dtype == new.dtype == context.dtype == np.int64
    columns = step(deployment, SequenceGroup(count, new, context))
    real = count.astype(np.float64), new.astype(np.float64), context.astype(np.float64)
    floats = step(deployment, SequenceGroup(*real))
    for row, numbers in enumerate(LARGEST):
        # Of all operators: which ones a row has is told by zeros where others have more.
        alone = total(step(deployment, SequenceGroup(*numbers)))
        exact = [float(getattr(alone, each)) for each in COUNTS]
        assert row or max(exact) > 2**63
        for found in (columns, floats):
            assert row_of(total(found), row, len(LARGEST)) == pytest.approx(exact, rel=1e-13)


def test_bytes_of_a_cache_at_the_largest_numbers_are_exact() -> None:
    """Bytes of keys and values: 2 · layers · heads · width of a head · 2 B for each token."""
    deployment = deployed(architecture("llama-3.1-8b"))
    step_of = step(deployment, SequenceGroup(MOST_SEQUENCES, 1, MOST_TOKENS))
    read = sum(int(op.repeat) * int(op.work.kv_bytes) for op in step_of.values())
    stored = 2 * 32 * 8 * 128 * 2
    assert read == stored * (MOST_SEQUENCES * MOST_TOKENS + MOST_SEQUENCES)
