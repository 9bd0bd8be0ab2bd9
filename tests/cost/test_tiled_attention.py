"""FlashAttention with so much on-chip memory and no cache behind it, counted block by block."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline
from roofline.cost.attention import Mask, naive_attention, tiled_attention, tiled_rows
from roofline.errors import InputError

SHAPE: dict[str, Any] = {"heads": 8, "kv_heads": 2, "head_dim": 64, "width": 2.0, "kv_width": 2.0}


def by_loop(new: int, context: int, columns: int, causal: bool) -> int:
    """Queries, at positions S − T … S − 1, that see a key of each block."""
    met = 0
    for first in range(0, context, columns):
        met += sum(not causal or at >= first for at in range(context - new, context))
    return met


@given(st.integers(1, 60), st.integers(0, 60), st.integers(1, 40), st.booleans())
def test_blocks_meet_the_queries_that_a_loop_over_them_counts(
    new: int, cached: int, columns: int, causal: bool
) -> None:
    mask: Mask = "causal" if causal else "square"
    counted = by_loop(new, new + cached, columns, causal)
    assert tiled_rows(new, new + cached, columns, mask=mask) == counted


def test_traffic_falls_as_one_over_the_memory_and_stays_below_scores_in_memory() -> None:
    moved = [
        tiled_attention(1, 65536, 65536, sram=kib * 1024, **SHAPE).activation_bytes
        for kib in (50, 100, 200)
    ]
    assert moved[0] / moved[1] == pytest.approx(2, rel=0.01)
    assert moved[1] / moved[2] == pytest.approx(2, rel=0.01)
    # M of d·N elements and more holds all keys: queries and outputs cross once.
    whole = tiled_attention(1, 512, 512, sram=4 * 64 * 2 * 512, **SHAPE)
    assert whole.activation_bytes == 8 * 512 * (3 * 64 * 2 + 16)
    naive = naive_attention(1, 65536, 65536, **SHAPE)
    assert moved[1] < naive.hbm_bytes


def test_prompts_take_longer_with_less_of_it_and_answers_as_long() -> None:
    def told(sram: str) -> tuple[float, float]:
        made = roofline.analyze(
            "llama-3.1-8b", batch=1, prompt=32768, output=16, sram=sram, calibration="none"
        )
        values = {row["metric"]: row["value"] for row in made.tables["headline"].rows()}
        return values["ttft_idle_s"], values["tpot_s"]

    small, large, device = told("16KiB"), told("1MiB"), told("")
    assert small[0] > large[0] >= device[0]
    assert small[1] == large[1] == device[1]


@pytest.mark.parametrize(
    "asked",
    [
        {"sram": "100KiB"},
        {"sram": "100KiB", "calibration": "none", "attention": "naive"},
        {"sram": "100KiB", "calibration": "none", "model": "deepseek-v3", "gpus": 16},
        {"sram": "100", "calibration": "none"},
    ],
)
def test_it_is_refused_where_it_would_change_nothing(asked: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        roofline.analyze(**({"model": "llama-3.1-8b"} | asked))


def decode_attention(batch: int, **asked: object) -> float:
    result = roofline.analyze(
        "llama-3.1-8b", "h100-sxm", batch=batch, prompt=8192, output=2, calibration="none", **asked  # type: ignore[arg-type]
    )  # fmt: skip
    rows = result.tables["ops"].rows()
    (row,) = (row for row in rows if row["phase"] == "decode" and row["op"] == "attention")
    return float(row["seconds"])


@pytest.mark.parametrize(("batch", "waves"), [(1, 1), (16, 1), (17, 2), (33, 2), (34, 3)])
def test_a_block_for_each_head_leaves_most_multiprocessors_without_work(
    batch: int, waves: int
) -> None:
    """Eight cached heads of each sequence on 132 multiprocessors."""
    slower = decode_attention(batch, split_kv=False) / decode_attention(batch)
    assert slower == pytest.approx(waves * 132 / (8 * batch))


def test_blocks_are_of_no_account_where_measured_kernels_are() -> None:
    with pytest.raises(InputError, match="`split_kv=False`"):
        roofline.analyze("llama-3.1-8b", "h100-sxm", split_kv=False)
