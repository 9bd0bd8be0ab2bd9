"""Traffic by level of the memory hierarchy."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.cost.roof import flash_blocks, flash_key_blocks, traffic
from roofline.cost.step import SequenceGroup, step
from roofline.cost.work import Op, gemm
from roofline.hardware.catalog import gpu, gpu_names
from roofline.model.architecture import Architecture
from tests.cases import examples
from tests.cost import reference
from tests.cost.networks import GPU, dense, deployed, groups, networks, sequences
from tests.cost.reference import Sequences

SEVERAL = settings(max_examples=examples(60), deadline=None)


def on_chip() -> Iterator[tuple[str, float]]:
    for name in gpu_names():
        if size := gpu(name).shared_bytes:
            yield name, size


@pytest.mark.parametrize("head_dim", [64, 80, 128, 192, 256])
@pytest.mark.parametrize("width", [1, 2, 4])
def test_a_block_of_queries_and_two_stages_of_keys_and_values_fit_on_every_chip(
    head_dim: int, width: int
) -> None:
    for name, size in on_chip():
        rows, columns = flash_blocks(float(head_dim), size, float(width))
        assert (rows + 2 * 2 * columns) * head_dim * width <= size, name


def test_a_larger_chip_has_blocks_that_are_no_smaller() -> None:
    areas = [
        rows * columns
        for size in range(48 * 1024, 512 * 1024, 4096)
        for rows, columns in [flash_blocks(128.0, float(size), 2.0)]
    ]
    assert areas == sorted(areas)


@SEVERAL
@given(
    st.integers(1, 40),
    st.integers(0, 60),
    st.integers(0, 50),
    st.sampled_from([1, 2, 4, 16]),
    st.sampled_from([1, 3, 4, 16]),
)
def test_the_key_blocks_visited_are_those_that_hold_a_visible_key(
    new: int, cached: int, window: int, rows: int, columns: int
) -> None:
    ours = flash_key_blocks(float(new), float(new + cached), float(window), rows, columns)
    assert ours == reference.key_blocks(new, new + cached, window, rows, columns)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["flash", "naive"])
@SEVERAL
@given(
    network=networks(),
    some=st.lists(sequences(), min_size=1, max_size=2),
    mask=st.sampled_from(["causal", "square"]),
)
def test_the_cache_never_carries_less_than_device_memory(
    kernel: str, network: Architecture, some: list[Sequences], mask: str
) -> None:
    deployment = deployed(network, attention=kernel, mask=mask)
    for op in step(deployment, groups(some)).values():
        moved = traffic(op, GPU, 2.0, 2.0)
        assert moved.hbm == op.work.hbm_bytes
        assert moved.l2 >= moved.hbm * (1 - 1e-12), op.name


@pytest.mark.parametrize(("m", "n", "k"), [(1, 128, 64), (128, 128, 64), (300, 500, 64), (7, 9, 5)])
def test_a_product_reads_its_operands_for_every_tile(m: int, n: int, k: int) -> None:
    # Count tile by tile: each output tile of 128 × 128 reads its rows of X and its columns of W.
    read = sum(
        (min(128, m - row) + min(128, n - column)) * k
        for row in range(0, m, 128)
        for column in range(0, n, 128)
    )
    op = _product(m, n, k)
    assert traffic(op, GPU, 2.0, 2.0).l2 == 2 * (read + m * n)


def _product(m: int, n: int, k: int) -> Op:
    work = gemm(float(m), float(n), float(k), weight_width=2.0, width=2.0)
    dims = {"m": float(m), "n": float(n), "k": float(k)}
    return Op("any", "gemm", work, 1, "bf16", dims=dims)


def test_scores_that_stay_on_chip_would_outweigh_everything_else_in_a_long_prefill() -> None:
    # FlashAttention pays: T·S scores of each head, four passes of two bytes, against Q, K, V, O.
    deployment = deployed(dense(layers=1, heads=4, kv_heads=4, head_dim=8))
    op = step(deployment, SequenceGroup(1.0, 4096.0, 4096.0))["attention"]
    moved = traffic(op, GPU, 2.0, 2.0)
    assert moved.scores == 4 * 4 * 4096 * 4096 * 2
    assert moved.hbm == 4 * 4096 * 4 * 8 * 2
    assert moved.scores > moved.l2 > moved.hbm


def test_one_new_token_reads_each_key_once_for_all_the_queries_that_share_it() -> None:
    deployment = deployed(dense(layers=1, heads=4, kv_heads=2, head_dim=8))
    op = step(deployment, SequenceGroup(1.0, 1.0, 4096.0))["attention"]
    moved = traffic(op, GPU, 2.0, 2.0)
    assert moved.l2 == moved.hbm
