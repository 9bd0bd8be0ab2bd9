"""Laws that hold for any network, machine and step: time, columns, kernels."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.cost.attention import attention
from roofline.cost.deployment import Deployment
from roofline.cost.memory import kv_bytes_per_sequence, weight_bytes
from roofline.cost.roof import roof
from roofline.cost.step import SequenceGroup, decode, step
from roofline.cost.work import COUNTS, Number, Op, Work
from roofline.model.architecture import Architecture, Attention, Block
from roofline.records import replace
from tests.cases import examples
from tests.cost.networks import (
    GROUPS,
    WEIGHTS,
    dense,
    deployed,
    deployments,
    flops,
    group,
    groups,
    networks,
    row_of,
    sequences,
    total,
    with_rates,
)
from tests.cost.reference import Sequences
from tests.pricing import seconds

SEVERAL = settings(max_examples=examples(40), deadline=None)


def map_windows(network: Architecture, change: Callable[[Attention], Attention]) -> Architecture:
    def changed(block: Block) -> Block:
        assert isinstance(block.mixer, Attention)
        return replace(block, mixer=change(block.mixer))

    return replace(network, layers=tuple(changed(block) for block in network.layers))


@SEVERAL
@given(deployments(), GROUPS)
def test_the_largest_limit_is_the_least_time_and_their_sum_the_most(
    deployment: Deployment, some: list[Sequences]
) -> None:
    for op in step(deployment, groups(some)).values():
        time = roof(op, deployment)
        limits = (time.compute, time.memory, time.wire)
        assert max(limits) == time.overlapped <= time.serial == sum(limits)
        assert limits[int(time.bound)] == time.overlapped
        assert min(limits) >= 0


@SEVERAL
@given(deployments(), GROUPS, st.sampled_from(["compute", "memory", "link"]), st.floats(1, 8))
def test_a_faster_machine_is_never_slower(
    deployment: Deployment, some: list[Sequences], part: str, factor: float
) -> None:
    faster = with_rates(deployment, **{part: factor})
    before, after = (seconds(step(on, groups(some)), on) for on in (deployment, faster))
    assert after <= before * (1 + 1e-15)


@SEVERAL
@given(deployments(), GROUPS, st.floats(1, 8))
def test_a_machine_faster_in_everything_is_faster_by_that_factor(
    deployment: Deployment, some: list[Sequences], factor: float
) -> None:
    faster = with_rates(deployment, compute=factor, memory=factor, link=factor)
    before, after = (seconds(step(on, groups(some)), on) for on in (deployment, faster))
    assert after == pytest.approx(float(before) / factor)


def test_the_ridge_separates_the_two_bounds() -> None:
    deployment = deployed(dense())
    ridge = deployment.node.gpu.ridge("bf16")
    for intensity, bound in ((ridge * 0.99, 1), (ridge * 1.01, 0)):
        op = Op("any", "gemm", Work(flops=intensity * 1e6, weight_bytes=1e6), 1, "bf16")
        assert int(roof(op, deployment).bound) == bound


def test_limits_of_an_operator_by_hand() -> None:
    # At 4096 FLOP/s and 256 B/s. What wires take is known when the operator is made.
    deployment = deployed(dense(), tp=2)
    product = Op("any", "gemm", Work(8192.0, 128.0, 64.0, 64.0), 3, "bf16")
    time = roof(product, deployment)
    assert (time.compute, time.memory, time.wire) == (2.0, 1.0, 0.0)
    ring = Op("ring", "collective", Work(wire_bytes=300.0, messages=4.0), 5, wire_s=4.0)
    time = roof(ring, deployment)
    assert (time.compute, time.memory, time.wire) == (0.0, 0.0, 4.0)
    assert seconds({"any": product, "ring": ring}, deployment) == 3 * 2.0 + 5 * 4.0


@SEVERAL
@given(
    deployments(),
    st.sampled_from(["count", "new", "context"]),
    st.lists(st.integers(1, 4000), min_size=2, max_size=6),
)
def test_a_column_prices_like_its_rows(
    deployment: Deployment, axis: str, values: list[int]
) -> None:
    def along(value: Number) -> SequenceGroup:
        sizes: dict[str, Number] = {"count": 3.0, "new": 2.0, "context": 5000.0, axis: value}
        return SequenceGroup(sizes["count"], sizes["new"], sizes["context"])

    together = step(deployment, along(np.array(values, float)))
    for row, value in enumerate(values):
        alone = step(deployment, along(float(value)))
        assert row_of(total(together), row, len(values)) == pytest.approx(
            row_of(total(alone), 0, 1), rel=1e-15
        )
        ours = np.broadcast_to(np.asarray(seconds(together, deployment)), len(values))[row]
        assert ours == pytest.approx(float(seconds(alone, deployment)), rel=1e-15)


@SEVERAL
@given(deployments(), st.lists(sequences(), min_size=2, max_size=5), sequences())
def test_a_column_of_mixed_steps_prices_like_its_rows(
    deployment: Deployment, varied: list[Sequences], fixed: Sequences
) -> None:
    columns = [np.array(column, float) for column in zip(*varied, strict=True)]
    still, (numbers, new, context) = group(fixed, "still"), columns
    together = total(step(deployment, [SequenceGroup(numbers, new, context, "varied"), still]))
    for row, one in enumerate(varied):
        alone = total(step(deployment, [group(one, "varied"), still]))
        assert row_of(together, row, len(varied)) == pytest.approx(row_of(alone, 0, 1), rel=1e-15)


@SEVERAL
@given(deployments(), GROUPS)
def test_numbers_in_give_numbers_out(deployment: Deployment, some: list[Sequences]) -> None:
    ops = step(deployment, groups(some))
    for op in ops.values():
        assert all(isinstance(getattr(op.work, name), float) for name in COUNTS)
    assert isinstance(seconds(ops, deployment), float)


@SEVERAL
@given(deployments(), GROUPS)
def test_one_decode_step_is_the_same_kind_of_operator_alone_and_in_a_column(
    deployment: Deployment, some: list[Sequences]
) -> None:
    alone = step(deployment, decode(2.0, 7.0))
    column = step(deployment, decode(2.0, np.array([7.0, 9.0])))
    assert [op.kind for op in alone.values()] == [op.kind for op in column.values()]


@SEVERAL
@given(deployments(), GROUPS, st.integers(0, 30))
def test_a_window_as_long_as_the_context_is_no_window(
    deployment: Deployment, some: list[Sequences], longer: int
) -> None:
    network = deployment.architecture
    width = max(one.context for one in some) + longer

    def seen_through(window: int | None) -> Deployment:
        other = map_windows(network, lambda part: replace(part, window=window))
        return replace(deployment, architecture=other)

    with_, without = seen_through(width), seen_through(None)
    assert total(step(with_, groups(some))) == total(step(without, groups(some)))
    for one in some:
        context = float(one.context)
        assert kv_bytes_per_sequence(with_, context) == kv_bytes_per_sequence(without, context)


@given(st.sampled_from([1, 2, 3, 8]), sequences())
def test_grouped_heads_as_many_as_queries_are_multi_head_attention(
    heads: int, one: Sequences
) -> None:
    # Multi-head attention by hand: 4·H FLOP a pair and head; each head reads its own K and V.
    number, new, context = map(float, one)
    together, single = (
        attention(number, new, context, heads=n, kv_heads=n, head_dim=4, width=2.0, kv_width=2.0)
        for n in (float(heads), 1.0)
    )
    assert together == single * float(heads)


@SEVERAL
@given(deployments(), GROUPS)
def test_the_square_is_never_less_work_than_its_causal_part(
    deployment: Deployment, some: list[Sequences]
) -> None:
    causal, square = (
        replace(deployment, options=replace(deployment.options, mask=mask, attention="flash"))
        for mask in ("causal", "square")
    )
    assert flops(step(square, groups(some))) >= flops(step(causal, groups(some)))


@SEVERAL
@given(deployments(), GROUPS)
def test_naive_attention_never_moves_less_than_fused(
    deployment: Deployment, some: list[Sequences]
) -> None:
    flash, naive = (
        total(
            step(
                replace(deployment, options=replace(deployment.options, attention=kernel)),
                groups(some),
            )
        )
        for kernel in ("flash", "naive")
    )
    assert naive.hbm_bytes > flash.hbm_bytes
    assert naive.flops >= flash.flops


def unconverted(ops: dict[str, Op]) -> dict[str, Op]:
    """All but the conversions of activations: work that formats of fewer bits add."""
    return {name: op for name, op in ops.items() if not name.startswith("quantise-")}


@SEVERAL
@given(networks(), GROUPS, st.sampled_from(["causal", "square"]))
def test_more_bits_are_never_fewer_bytes(
    network: Architecture, some: list[Sequences], mask: str
) -> None:
    by_weight = [deployed(network, weights=w, kv="bf16", mask=mask) for w in reversed(WEIGHTS)]
    works = [total(unconverted(step(d, groups(some)))) for d in by_weight]
    for share in ("hbm_bytes", "weight_bytes"):
        moved = [getattr(work, share) for work in works]
        assert moved == sorted(moved), share
    held = [weight_bytes(d) for d in by_weight]
    assert held == sorted(held)
    by_cache = [deployed(network, kv=kv, mask=mask) for kv in ("fp8", "bf16", "fp32")]
    moved = [total(step(d, groups(some))).kv_bytes for d in by_cache]
    assert moved == sorted(moved)
    assert moved[2] == 2 * moved[1] == 4 * moved[0]
