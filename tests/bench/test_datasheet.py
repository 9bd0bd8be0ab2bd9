"""The plain roofline of measured rows, against sums that are written out."""

from collections.abc import Mapping

import pandas as pd
import pytest

from roofline.bench.columns import prepared
from roofline.bench.datasheet import datasheet
from roofline.bench.validation import READERS

HBM, BF16, FP8 = 3.35e12, 989.4e12, 1978.9e12
"""H100 SXM: bytes and FLOP per second."""
SOME = {"gpu": "h100_sxm", "time_s": 1.0}


def seconds(kind: str, **row: object) -> float:
    rows, refused = prepared(kind, pd.DataFrame([{**SOME, **row}]))
    assert not refused
    (group,) = READERS[kind](rows)
    return float(datasheet(group)[0])


@pytest.mark.parametrize(
    ("dtype", "width", "rate"), [("bfloat16", 2, BF16), ("fp8", 1, FP8), ("fp8_block", 1, FP8)]
)
def test_a_product(dtype: str, width: int, rate: float) -> None:
    large = {"m": 8192, "n": 8192, "k": 8192, "dtype": dtype}
    assert seconds("gemm", **large) == pytest.approx(2 * 8192**3 / rate)
    scales = 4 / 128**2 if dtype == "fp8_block" else 0
    few = 4 * 512 * width + 512 * 256 * (width + scales) + 4 * 256 * 2
    assert seconds("gemm", m=4, n=256, k=512, dtype=dtype) == pytest.approx(few / HBM)


HEADS = {"batch": 2, "n_heads": 8, "n_kv_heads": 2, "head_dim": 64}


def test_decoding_reads_the_cache() -> None:
    cache = 2 * 2 * 2 * 64 * 1000 * 2
    ends = 2 * 2 * 8 * 64 * 2
    assert seconds("attention-decode", seq_kv=1000, **HEADS) == pytest.approx((cache + ends) / HBM)
    narrow = seconds("attention-decode", seq_kv=1000, kv_dtype="fp8", **HEADS)
    assert narrow == pytest.approx((cache / 2 + ends) / HBM)


def test_a_window_hides_what_is_before_it() -> None:
    windowed = seconds("attention-decode", seq_kv=1000, window=100, **HEADS)
    assert windowed == pytest.approx(seconds("attention-decode", seq_kv=100, **HEADS))
    never = seconds("attention-prefill", seq_kv=4096, window=5000, **HEADS)
    assert never == pytest.approx(seconds("attention-prefill", seq_kv=4096, **HEADS))


def test_prefill_counts_each_pair_once() -> None:
    s = 16384
    pairs = sum(range(1, s + 1))
    flops = 4 * 2 * 8 * 64 * pairs
    assert seconds("attention-prefill", seq_kv=s, **HEADS) == pytest.approx(flops / BF16)
    seen = sum(min(i, 8000) for i in range(1, s + 1))
    windowed = seconds("attention-prefill", seq_kv=s, window=8000, **HEADS)
    assert windowed == pytest.approx(4 * 2 * 8 * 64 * seen / BF16)


def test_experts_read_the_weights_of_those_touched() -> None:
    base = {"num_tokens": 1, "hidden": 4096, "inter": 1024, "topk": 2, "experts": 16}
    weights = 2 * 3 * 4096 * 1024
    rows = 2 * (4096 + 2 * 1024 + 1024 + 4096)
    assert seconds("moe", **base) == pytest.approx(2 * (weights + rows) / HBM)
    assert seconds("moe", **base, dtype="fp8") == pytest.approx((weights + 2 * rows) / HBM)


def test_latent_decoding_reads_the_latent_once_for_all_heads() -> None:
    cache = 64 * 10000 * 576 * 2
    ends = 64 * 16 * (576 + 512) * 2
    base = {"batch": 64, "seq_kv": 10000, "n_heads": 16}
    assert seconds("mla-decode", **base) == pytest.approx((cache + ends) / HBM)


@pytest.mark.parametrize(
    ("op", "each"), [("add", 6), ("mlp_act", 6), ("emb", 4), ("input_layernorm", 4)]
)
def test_a_pass_crosses_memory_once(op: str, each: int) -> None:
    moved = each * 100 * 4096
    assert seconds("pointwise", op=op, num_tokens=100, width=4096) == pytest.approx(moved / HBM)


@pytest.mark.parametrize(("op", "each"), [("scale_matrix", 3), ("computescale", 2)])
def test_quantising_reads_two_bytes_and_writes_one(op: str, each: int) -> None:
    assert seconds("quantize", op=op, m=100, k=4096) == pytest.approx(each * 409600 / HBM)


def test_an_exchange_sends_a_token_to_each_of_its_experts() -> None:
    row: Mapping[str, object] = {"num_tokens": 8, "hidden": 4096, "topk": 8, "experts": 64}
    sent = 8 * 8 * 4096
    assert seconds("deepep", op="dispatch", mode="ll", **row) == pytest.approx(sent / 450e9)
    assert seconds("deepep", op="combine", mode="ll", **row) == pytest.approx(2 * sent / 450e9)
