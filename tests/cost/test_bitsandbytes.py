"""Products of bitsandbytes: kernels of LLM.int8() one by one, and NF4 for one token and more."""

import numpy as np
import pytest

from roofline.cost.four_bit import fused_rows
from roofline.cost.roof import roof
from roofline.cost.step import SequenceGroup, decode, prefill, step
from roofline.hardware.catalog import gpu
from tests.serving.deployments import on

LAYERS, D, F, LAUNCH_S = 32, 4096, 14336, 8e-6
SHAPES = {"qkv": (D + 2 * 1024, D), "attn-out": (D, D), "gate-up": (2 * F, D), "down": (D, F)}
OUTLIERS = 0.001


def seconds(weights: str, group: SequenceGroup) -> float:
    given = on(weights=weights)
    ops = step(given, group).values()
    return float(sum(roof(op, given, float(op.repeat)).seconds for op in ops))


def kernels(m: float, n: float, k: float) -> list[tuple[int, float]]:
    """Launches and bytes around the product in int8, in the order in which they run."""
    o = OUTLIERS * k
    return [
        (1, (2 + 2) * m * k),  # to fp16
        (1, (2 + 2) * m * k),  # magnitudes
        (1, (2 + 1) * m * k),  # compared
        (2, m * k),  # whether there is any, told to the host
        (1, m * k),  # in which columns
        (3, 0.0),  # their number, told to the host, and their list
        (1, m * o),  # zeros in place of them
        (1, (2 + 2) * m * o),  # their inputs
        (1, (32 + 1) * n * o),  # their weights, a sector for each
        (1, (1 + 4) * n * o),  # times the scale of the row
        (1, (4 + 4) * n * o),  # over 127
        (1, (4 + 2) * n * o),  # to fp16
        (1, (2 + 4 + 2) * m * n),  # scales of a result that is 2 bytes wider than was counted
        (1, (2 + 2) * m * n),  # back to bf16
    ]


@pytest.mark.parametrize("tokens", [1.0, 64.0])
def test_kernels_around_an_int8_product_are_those_of_the_library(tokens: float) -> None:
    given = on(weights="llm.int8")
    ops = step(given, decode(tokens, 100.0))
    for name, (n, k) in SHAPES.items():
        launches, moved = (sum(column) for column in zip(*kernels(tokens, n, k), strict=True))
        around, wide = ops[f"decompose-{name}"], ops[f"{name}-outliers"]
        assert around.repeat == wide.repeat == LAYERS
        assert around.work.hbm_bytes == pytest.approx(moved)
        assert around.wire_s == pytest.approx(launches * LAUNCH_S)
        o = OUTLIERS * k
        assert ops[name].work.flops == 2 * tokens * n * k  # zeros are multiplied too
        assert wide.work.flops == pytest.approx(2 * tokens * n * o)
        # The sum is read and written.
        assert wide.work.hbm_bytes == pytest.approx(2 * (tokens * o + n * o + 2 * tokens * n))


def test_one_token_is_slower_in_llm_int8_and_faster_in_nf4_than_in_16_bits() -> None:
    one = decode(1.0, 512.0)
    assert seconds("nf4", one) < 0.4 * seconds("bf16", one)
    assert seconds("bf16", one) < seconds("int8", one) * 2 < seconds("llm.int8", one)


def test_nf4_reads_its_weights_once_for_few_tokens_and_writes_a_copy_for_more() -> None:
    # 4 + 8/64 + 32/(64·256) bits; the copy is written and read in 16 bits.
    width = (4 + 8 / 64 + 32 / (64 * 256)) / 8
    cases: tuple[tuple[float, set[str]], ...] = (
        (1.0, set()),
        (5.0, set()),
        (7.0, {"down"}),
        (8.0, {"attn-out", "down"}),
        (16.0, {"attn-out", "down"}),
        (17.0, {"attn-out", "down", "qkv"}),
        (64.0, {"attn-out", "down", "qkv"}),
        (65.0, set(SHAPES)),
    )
    for tokens, copied in cases:
        ops = step(on(weights="nf4"), decode(tokens, 100.0))
        for name, (n, k) in SHAPES.items():
            each = width + 4 * (name in copied)
            assert ops[name].work.weight_bytes == pytest.approx(n * k * each), (tokens, name)


@pytest.mark.parametrize(
    ("device", "n", "k", "rows"),
    [
        # What bitsandbytes 0.50.2 answers when its function is asked: the largest M that is fused.
        ("h100-sxm", 28672, 4096, 64),
        ("h100-sxm", 14336, 4096, 32),
        ("h100-sxm", 6144, 4096, 16),
        ("h100-sxm", 4096, 4096, 7),
        ("h100-sxm", 1024, 1024, 32),
        ("a100-sxm", 28672, 4096, 128),
        ("a100-sxm", 6144, 4096, 128),
        ("h100-sxm", 4096, 14336, 5),
        ("a100-sxm", 4096, 14336, 5),
        ("rtx-4090", 28672, 4096, 256),
        ("rtx-4090", 4096, 14336, 64),
        ("rtx-4090", 4096, 4096, 8),
        ("rtx-3090", 28672, 4096, 128),
        ("rtx-5090", 14336, 4096, 64),
        ("b200-sxm", 28672, 4096, 32),
        ("b200-sxm", 4096, 4096, 4),
        ("mi300x", 4096, 4096, 4),
        ("m2-ultra", 4096, 4096, 1),
    ],
)
def test_rows_of_the_fused_kernel_are_those_of_the_library(
    device: str, n: int, k: int, rows: int
) -> None:
    assert fused_rows(gpu(device), float(n), float(k)) == rows


def test_columns_and_copies_are_priced_row_by_row() -> None:
    for weights in ("llm.int8", "nf4"):
        given = on(weights=weights)
        tokens = np.array([1.0, 2.0, 512.0])
        ops = step(given, prefill(tokens, np.ones(3))).values()
        rows = sum(roof(op, given, float(op.repeat)).seconds for op in ops)
        alone = [seconds(weights, prefill(float(each), 1.0)) for each in tokens]
        assert np.asarray(rows).tolist() == pytest.approx(alone)
    nothing = step(on(weights="llm.int8"), prefill(np.array([0.0, 1.0]), np.ones(2)))
    waited = np.asarray(nothing["decompose-qkv"].wire_s)
    assert waited.tolist() == pytest.approx([0.0, 17 * LAUNCH_S])
