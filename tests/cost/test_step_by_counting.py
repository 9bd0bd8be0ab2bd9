"""The step against the slow reference that counts one by one."""

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.cost import collectives
from roofline.cost.attention import Mask, keys_read, pairs
from roofline.cost.collectives import Ranks
from roofline.cost.deployment import Deployment
from roofline.cost.memory import kv_bytes_per_sequence, weight_bytes
from roofline.cost.step import step
from roofline.cost.work import Work
from roofline.model.architecture import Architecture, Attention, Block, Mlp
from roofline.records import replace
from tests.cases import examples
from tests.cost import reference
from tests.cost.networks import (
    GROUPS,
    dense,
    deployed,
    deployments,
    groups,
    setting,
    total,
    wires,
)
from tests.cost.reference import Sequences, count_step

SEVERAL = settings(max_examples=examples(60), deadline=None)


def of_step(deployment: Deployment, some: Sequence[Sequences]) -> Work:
    return total(step(deployment, groups(some)))


def test_activations_are_read_and_written_in_8_bits_before_an_8_bit_product() -> None:
    # 3 tokens of width 24 into qkv: 2 bytes read and 1 written for each of 72 values.
    deployment = deployed(dense(d_model=24), weights="fp8")
    op = step(deployment, groups([Sequences(1, 3, 3)]))["quantise-qkv"]
    assert op.work.hbm_bytes == 72 * (2 + 1)
    assert not [
        name for name in step(deployed(dense()), groups([Sequences(1, 3, 3)])) if "qua" in name
    ]


@SEVERAL
@given(deployments(), GROUPS)
def test_the_flops_of_a_step_are_those_counted_one_by_one(
    deployment: Deployment, some: list[Sequences]
) -> None:
    slow = count_step(deployment.architecture, some, setting(deployment))
    assert of_step(deployment, some).flops == slow.flops


@pytest.mark.slow
@SEVERAL
@given(deployments(), GROUPS)
def test_the_cache_traffic_of_a_step_is_each_visible_key_once_and_each_new_one(
    deployment: Deployment, some: list[Sequences]
) -> None:
    slow = count_step(deployment.architecture, some, setting(deployment))
    assert of_step(deployment, some).kv_bytes == slow.kv_bytes


@SEVERAL
@given(deployments(), GROUPS)
def test_a_step_reads_each_weight_of_the_device_once(
    deployment: Deployment, some: list[Sequences]
) -> None:
    slow = count_step(deployment.architecture, some, setting(deployment))
    ours = of_step(deployment, some).weight_bytes
    assert ours == pytest.approx(float(slow.weight_bytes), rel=1e-14)


@SEVERAL
@given(deployments(), GROUPS)
def test_the_activations_of_a_step_are_what_its_operators_read_and_write(
    deployment: Deployment, some: list[Sequences]
) -> None:
    slow = count_step(deployment.architecture, some, setting(deployment))
    ours = of_step(deployment, some).activation_bytes
    assert ours == pytest.approx(float(slow.activation_bytes), rel=1e-14)


@SEVERAL
@given(deployments(), GROUPS)
def test_a_device_sends_what_the_rings_of_its_layers_send(
    deployment: Deployment, some: list[Sequences]
) -> None:
    # Where messages cost nothing and wires meet in the host, nothing is cheaper than a ring.
    wired = replace(deployment.node, link=wires(100.0, topology="host"))
    deployment, tp = replace(deployment, node=wired), int(deployment.tp)
    slow = count_step(deployment.architecture, some, setting(deployment))
    sent, rounds = reference.ring_all_reduce(tp)
    around = sum(slow.reduced, start=Fraction(0)) * sent[0] / tp
    gathered = sum(slow.gathered, start=Fraction(0)) * (tp - 1) / tp
    ours = of_step(deployment, some)
    assert ours.wire_bytes == pytest.approx(float(around + gathered), rel=1e-14)
    assert ours.messages == len(slow.reduced) * rounds + len(slow.gathered) * (tp - 1)


@SEVERAL
@given(deployments())
def test_a_device_holds_its_shards_of_every_matrix(deployment: Deployment) -> None:
    held = reference.weights_held(deployment.architecture, setting(deployment))
    assert weight_bytes(deployment) == pytest.approx(float(held), rel=1e-14)


@SEVERAL
@given(deployments(), st.integers(1, 40))
def test_a_sequence_keeps_the_keys_that_its_next_query_sees(
    deployment: Deployment, context: int
) -> None:
    held = reference.cache_held(deployment.architecture, context, setting(deployment))
    assert float(kv_bytes_per_sequence(deployment, float(context))) == held


@pytest.mark.parametrize("tp", [2, 4, 8])
@pytest.mark.parametrize("kv_heads", [1, 2, 4, 8])
def test_every_device_of_the_group_has_the_same_share(tp: int, kv_heads: int) -> None:
    network = dense(heads=8, kv_heads=kv_heads, vocab=64, width=64)
    ranked = [
        count_step(network, [Sequences(2, 3, 5)], setting(deployed(network, tp=tp)), rank)
        for rank in range(tp)
    ]
    assert all(one == ranked[0] for one in ranked)


@given(st.integers(1, 30), st.integers(0, 40), st.none() | st.integers(1, 50))
def test_the_closed_form_of_pairs_is_the_count_of_pairs(
    new: int, cached: int, window: int | None
) -> None:
    context = new + cached
    wide = None if window is None else float(window)
    masks: tuple[tuple[Mask, bool], ...] = (("causal", False), ("square", True))
    for mask, square in masks:
        ours = pairs(float(new), float(context), mask=mask, window=wide)
        assert ours == reference.pairs(new, context, window, square=square), mask


@given(st.integers(1, 30), st.integers(0, 40), st.none() | st.integers(1, 50))
def test_the_keys_read_are_those_that_some_query_sees(
    new: int, cached: int, window: int | None
) -> None:
    wide = None if window is None else float(window)
    seen = reference.visible(new, new + cached, window)
    assert keys_read(float(new), float(new + cached), wide) == len(seen)


@pytest.mark.parametrize("ranks", range(1, 9))
def test_an_all_reduce_sends_what_a_simulated_ring_sends(ranks: int) -> None:
    sent, rounds = reference.ring_all_reduce(ranks)
    group = Ranks(ranks, ranks, wires(1.0, topology="host"))
    work = collectives.all_reduce(float(ranks), group).work  # a part of the tensor is one byte
    assert [work.wire_bytes] * ranks == sent
    assert work.messages == rounds


def test_positions_are_added_at_the_width_of_the_model() -> None:
    # Tokens are embedded at width 6 and projected to 10; a learned position has width 10.
    narrow = replace(dense(d_model=10), embedding_width=6, position_rows=32)
    deployment = deployed(narrow)
    slow = count_step(narrow, [Sequences(1, 4, 4)], setting(deployment))
    assert of_step(deployment, [Sequences(1, 4, 4)]).weight_bytes == slow.weight_bytes


@pytest.mark.parametrize("weights", ["bf16", "fp8"])
def test_projections_around_the_embedding_are_held_as_they_are_read(weights: str) -> None:
    narrow = replace(dense(d_model=10), embedding_width=6)
    deployment = deployed(narrow, weights=weights)
    held = reference.weights_held(narrow, setting(deployment))
    assert weight_bytes(deployment) == held


def test_layers_that_differ_only_in_a_bias_are_not_taken_for_one_another() -> None:
    bare = Block(Attention(2, 2, 4), Mlp(16, gated=False), 2, 16)
    biased = Block(Attention(2, 2, 4), Mlp(16, gated=False, up_bias=True), 2, 16)
    network = Architecture("two", "llama", 8, 12, (bare, biased, biased), True, 8)
    deployment = deployed(network)
    slow = count_step(network, [Sequences(1, 1, 3)], setting(deployment))
    assert of_step(deployment, [Sequences(1, 1, 3)]).weight_bytes == slow.weight_bytes


def test_layers_that_differ_only_in_a_gate_are_not_taken_for_one_another() -> None:
    # 8 gates and 8 ups are as wide as 16 ups, but what leaves the activation is half of it.
    part = Attention(2, 2, 4)
    gated = Block(part, Mlp(8, gated=True), 2, 16)
    plain = Block(part, Mlp(16, gated=False), 2, 16)
    deployment = deployed(Architecture("two", "llama", 8, 12, (gated, plain), True, 8))
    slow = count_step(deployment.architecture, [Sequences(1, 3, 3)], setting(deployment))
    assert of_step(deployment, [Sequences(1, 3, 3)]).activation_bytes == slow.activation_bytes
