"""Shapes that the kernels do not serve are refused before anything is launched."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from roofline.bench.gpu.attention import decode_attention, decode_splits, prefill_attention
from roofline.bench.gpu.kernels import rms_norm, rope, silu_mul, w4a16_gemm
from roofline.bench.gpu.launch import program
from roofline.errors import InputError


def room(*shape: int) -> Any:
    return np.empty(shape, np.uint16)


def decode(page_tokens: int, query_heads: int, kv_heads: int, head_dim: int) -> object:
    query, cache = room(1, 1, query_heads, head_dim), room(4, page_tokens, kv_heads, head_dim)
    return decode_attention(query, cache, cache, room(1, 4), room(1), query, element="bf16")


def prefill(new_tokens: int, context: int) -> object:
    query, cache = room(1, new_tokens, 4, 64), room(1, context, 2, 64)
    return prefill_attention(query, cache, cache, query, element="fp16")


def norm(width: int) -> object:
    return rms_norm(room(2, width), room(width), room(2, width), element="bf16")


def packed(rows: int, depth: int) -> object:
    words = room(8, depth // 8)
    arrays = words, words, words, room(rows, depth), room(rows, 16)
    return w4a16_gemm(*arrays, element="bf16", multiprocessors=132)


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: decode(8, 8, 2, 128), "pages of 8 tokens"),
    (lambda: decode(16, 8, 3, 128), "8 query heads cannot share 3 kv heads"),
    (lambda: decode(16, 8, 2, 80), "heads of width 80"),
    (lambda: prefill(20, 10), "20 new tokens are more than their context of 10"),
    (lambda: norm(20_000), "rows of 20000 elements"),
    (lambda: norm(12), "a width of 12 elements"),
    (lambda: silu_mul(room(1, 24), room(1, 12), element="bf16"), "a width of 12 elements"),
    (lambda: rope(room(1, 1, 24), room(1, 24), room(1), element="bf16"), "a width of 24 elements"),
    (lambda: packed(17, 128), "17 rows of 128 elements"),
    (lambda: packed(1, 96), "1 rows of 96 elements"),
    (lambda: program("rope", cast(Any, "fp8")), "no kernel computes in fp8"),
]


@pytest.mark.parametrize(("ask", "said"), REFUSED)
def test_what_is_not_served_is_refused(ask: Callable[[], object], said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        ask()
    assert caught.value.hint


@pytest.mark.parametrize("batch", [1, 8, 64, 512])
@pytest.mark.parametrize("context", [1, 100, 4096, 131_072])
def test_splits_fill_the_device_and_no_more(batch: int, context: int) -> None:
    splits = decode_splits(batch, 8, context, 132)
    assert splits == 1 or batch * 8 * splits <= 2 * 132
    assert splits == 1 or (splits - 1) * 64 < context
    assert splits <= 128
