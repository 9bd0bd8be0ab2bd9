"""Laws of splitting: over devices, over steps, over groups, over layers."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from roofline.cost.deployment import Deployment
from roofline.cost.memory import weight_bytes
from roofline.cost.step import SequenceGroup, decode, prefill, step
from roofline.cost.work import Op, Work
from roofline.model.architecture import Architecture, Attention
from roofline.records import replace
from tests.cases import examples
from tests.cost.networks import (
    GROUPS,
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
)
from tests.cost.reference import Sequences

SEVERAL = settings(max_examples=examples(40), deadline=None)


@SEVERAL
@given(networks(), GROUPS)
def test_one_device_has_no_collectives(network: Architecture, some: list[Sequences]) -> None:
    ops = step(deployed(network, tp=1), groups(some))
    assert all(op.kind != "collective" for op in ops.values())
    assert total(ops).wire_bytes == total(ops).messages == 0


@pytest.mark.slow
@SEVERAL
@given(st.sampled_from([2, 3, 4]).flatmap(lambda tp: st.tuples(st.just(tp), networks(tp))), GROUPS)
def test_the_devices_of_a_group_do_the_flops_of_one(
    pair: tuple[int, Architecture], some: list[Sequences]
) -> None:
    tp, network = pair
    parts = [block.mixer for block in network.layers if isinstance(block.mixer, Attention)]
    assume(all(part.kv_heads >= tp for part in parts))
    alone = flops(step(deployed(network), groups(some)))
    assert tp * flops(step(deployed(network, tp=tp), groups(some))) == pytest.approx(
        alone, rel=1e-14
    )


@pytest.mark.parametrize(("kv_heads", "tp"), [(2, 2), (2, 4), (2, 8), (1, 8), (4, 8), (8, 8)])
def test_only_the_projections_of_repeated_heads_are_done_more_than_once(
    kv_heads: int, tp: int
) -> None:
    layers, d, h, tokens = 3, 24, 8, 5
    network = dense(layers=layers, heads=8, kv_heads=kv_heads, head_dim=h, d_model=d, vocab=64)
    whole = prefill(1.0, float(tokens))
    alone = flops(step(deployed(network), whole))
    together = tp * flops(step(deployed(network, tp=tp), whole))
    copies = max(tp // kv_heads, 1) * kv_heads - kv_heads
    assert together - alone == layers * 2 * tokens * d * 2 * h * copies


@pytest.mark.parametrize(("kv_heads", "tp"), [(8, 2), (8, 8), (2, 8), (1, 4)])
def test_only_norms_and_repeated_heads_are_held_more_than_once(kv_heads: int, tp: int) -> None:
    layers, d, h = 3, 24, 8
    network = dense(layers=layers, heads=8, kv_heads=kv_heads, head_dim=h, d_model=d, vocab=64)
    together = tp * weight_bytes(deployed(network, tp=tp))
    copies = max(tp // kv_heads, 1) * kv_heads - kv_heads
    norms = (2 * layers + 1) * d * (tp - 1)
    assert together - weight_bytes(deployed(network)) == 2 * (layers * 2 * h * d * copies + norms)


@SEVERAL
@given(networks(), st.integers(1, 12), st.integers(1, 3))
def test_a_prefill_does_the_flops_of_decoding_its_tokens_one_by_one(
    network: Architecture, prompt: int, count: int
) -> None:
    deployment = deployed(replace(network, causal=True), logits="all")
    whole = flops(step(deployment, prefill(float(count), float(prompt))))
    steps = [decode(float(count), float(cached)) for cached in range(prompt)]
    assert sum(flops(step(deployment, one)) for one in steps) == whole


@SEVERAL
@given(networks(), st.integers(1, 12), st.integers(1, 12))
def test_a_prefill_in_two_chunks_does_the_flops_of_one(
    network: Architecture, first: int, second: int
) -> None:
    deployment = deployed(replace(network, causal=True), logits="all")
    whole = flops(step(deployment, prefill(2.0, float(first + second))))
    chunks = (prefill(2.0, float(first)), prefill(2.0, float(first + second), float(first)))
    assert sum(flops(step(deployment, chunk)) for chunk in chunks) == whole


@SEVERAL
@given(deployments(), st.lists(sequences(), min_size=2, max_size=4))
def test_a_mixed_step_shares_its_matrices_and_attends_by_group(
    deployment: Deployment, some: list[Sequences]
) -> None:
    def split(ops: dict[str, Op]) -> tuple[Work, Work]:
        attends = {name: op for name, op in ops.items() if op.kind.endswith("attention")}
        return total(attends), total({k: op for k, op in ops.items() if k not in attends})

    mixed, shared = split(step(deployment, groups(some)))
    apart = [split(step(deployment, group(one))) for one in some]
    for part in ("flops", "activation_bytes", "kv_bytes"):
        separate = sum(getattr(attended, part) for attended, _ in apart)
        assert getattr(mixed, part) == pytest.approx(separate, rel=1e-14)
    assert shared.flops == pytest.approx(sum(rest.flops for _, rest in apart), rel=1e-14)
    if sum(one.number * one.new for one in some) > 1:
        assert shared.weight_bytes < sum(rest.weight_bytes for _, rest in apart)


@SEVERAL
@given(deployments(), sequences())
def test_splitting_a_group_in_two_changes_nothing(deployment: Deployment, one: Sequences) -> None:
    count, new, context = map(float, one)
    halves = [SequenceGroup(count, new, context), SequenceGroup(count, new, context)]
    whole = SequenceGroup(2 * count, new, context)
    twice, once = total(step(deployment, halves)), total(step(deployment, whole))
    assert row_of(twice, 0, 1) == pytest.approx(row_of(once, 0, 1), rel=1e-14)


def test_decoding_without_a_cache_is_cubic() -> None:
    # The third difference of a cubic is 3! times its leading coefficient. Attention of a whole
    # context of x tokens costs 4·N·H·x(x + 1)/2 a layer, so its sum over x grows as 4·N·H·n³/6.
    network = dense(layers=2, heads=4, head_dim=8)
    deployment = deployed(network)
    each = np.asarray(
        flops(step(deployment, SequenceGroup(1.0, x := np.arange(1.0, 40.0), x))), float
    )
    summed = np.cumsum(each)
    assert set(np.diff(summed, 3)) == {2 * 4 * 4 * 8 * 1.0}
    assert set(np.diff(summed, 4)) == {0.0}


@SEVERAL
@given(deployments(), GROUPS)
def test_the_repeats_of_each_kind_of_operator_add_up_to_the_layers(
    deployment: Deployment, some: list[Sequences]
) -> None:
    ops = step(deployment, groups(some))
    layers = deployment.architecture.layers
    for name in ("qkv", "attn-out", "kv-store", "down", "activation"):
        repeats = [op.repeat for key, op in ops.items() if _is(key, name)]
        assert sum(repeats) == len(layers), name
    attends = [op.repeat for op in ops.values() if op.kind.endswith("attention")]
    assert sum(attends) == len(layers) * len(some)
    norms = sum(op.repeat for key, op in ops.items() if _is(key, "norm"))
    assert norms == sum(layer.norms for layer in layers)


def _is(key: str, name: str) -> bool:
    return key == name or key.removeprefix(f"{name}-").isdigit()


def test_operators_come_in_the_order_in_which_a_token_meets_them() -> None:
    deployment = deployed(dense(vocab=64), tp=2)
    names = list(step(deployment, prefill(1.0, 8.0)))
    order = ["embedding", "norm", "qkv", "rotary", "kv-store", "attention", "attn-out"]
    order += ["gate-up", "activation", "down", "final-norm", "lm-head", "all-gather-logits"]
    assert [name for name in names if name in order] == order


@pytest.mark.parametrize("first", [4, None])
def test_windowed_layers_are_named_by_their_window(first: int | None) -> None:
    other = None if first else 4
    narrow, full = dense(window=first, layers=1), dense(window=other, layers=1)
    network = replace(narrow, layers=(narrow.layers[0], full.layers[0]))
    ops = step(deployed(network), prefill(1.0, 8.0))
    windows = {name: op.dims["window"] for name, op in ops.items() if op.kind.endswith("attention")}
    assert windows == {"attention": 0.0, "attention-window-4": 4.0}
