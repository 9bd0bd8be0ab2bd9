"""Layers with a constant state against counting token by token and chunk by chunk."""

from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.cost.deployment import Deployment
from roofline.cost.memory import kv_bytes_per_sequence, weight_bytes
from roofline.cost.step import SequenceGroup, decode, prefill, step
from roofline.errors import LayoutError
from roofline.model.architecture import Architecture, Block, Linear, Recurrent
from roofline.model.catalog import architecture, names
from roofline.model.parameters import state_elements_per_sequence
from roofline.records import replace
from tests.cases import examples
from tests.cost import reference
from tests.cost.networks import deployed, groups, setting, total
from tests.cost.reference import Sequences, count_step

SEVERAL = settings(max_examples=examples(60), deadline=None)
D = 6
HYBRIDS = tuple(
    name
    for name in names()
    if any(isinstance(block.mixer, Recurrent) for block in architecture(name).kinds)
)


def layer(
    heads: int = 4,
    key_dim: int = 3,
    value_dim: int = 2,
    key_heads: int = 2,
    conv: int = 0,
    decays: int = 0,
    rule: Literal["decay", "delta"] = "decay",
    chunk: int = 64,
    state_format: str = "bf16",
) -> Recurrent:
    """A layer whose matrices fit its heads."""
    inner = heads * value_dim
    return Recurrent(
        "mamba2",
        heads,
        key_dim,
        value_dim,
        key_heads,
        (Linear("ssm-in", 2 * inner, D), Linear("attn-out", D, inner, split="row")),
        conv_width=inner if conv else 0,
        conv_kernel=conv,
        other_parameters=inner * conv + decays,
        rule=rule,
        chunk=chunk,
        state_format=state_format,
    )


def of(*mixers: Recurrent) -> Architecture:
    layers = tuple(Block(mixer, None, 1, D) for mixer in mixers)
    return Architecture("recurrent", "mamba2", D, 8, layers, False, D)


@st.composite
def layers(draw: st.DrawFn, tp: int = 1) -> Recurrent:
    key_heads = draw(st.integers(1, 2)) * tp
    return layer(
        key_heads * draw(st.integers(1, 3)),
        draw(st.integers(1, 4)),
        draw(st.integers(1, 3)),
        key_heads,
        conv=draw(st.sampled_from([0, 4])),
        decays=draw(st.sampled_from([0, 4])) * tp,
        rule=draw(st.sampled_from(["decay", "delta"])),
        chunk=draw(st.sampled_from([1, 2, 4, 8])),
    )


@st.composite
def deployments(draw: st.DrawFn) -> Deployment:
    tp = draw(st.sampled_from([1, 1, 2, 4]))
    weights = draw(st.sampled_from(["bf16", "fp8"]))
    return deployed(of(draw(layers(tp))), weights=weights, tp=tp)


SEQUENCES = st.builds(
    lambda number, new, cached: Sequences(number, new, new + cached),
    st.integers(1, 3),
    st.integers(1, 12),
    st.integers(0, 9),
)
FEW = st.lists(SEQUENCES, min_size=1, max_size=2)


def whole_chunks(part: Recurrent, new: int) -> bool:
    return new <= part.chunk or new % part.chunk == 0


def part_of(deployment: Deployment) -> Recurrent:
    mixer = deployment.architecture.layers[0].mixer
    assert isinstance(mixer, Recurrent)
    return mixer


@SEVERAL
@given(deployments(), FEW)
def test_what_a_recurrent_step_moves_is_what_counting_gives(
    deployment: Deployment, some: list[Sequences]
) -> None:
    slow = count_step(deployment.architecture, some, setting(deployment))
    ours = total(step(deployment, groups(some)))
    assert ours.kv_bytes == slow.kv_bytes
    assert ours.weight_bytes == pytest.approx(float(slow.weight_bytes), rel=1e-14)
    assert ours.activation_bytes == pytest.approx(float(slow.activation_bytes), rel=1e-14)


def scanned(part: Recurrent, new: int) -> float:
    return float(step(deployed(of(part)), prefill(1.0, float(new)))["mamba2"].work.flops)


@SEVERAL
@given(layers(), st.integers(1, 12))
def test_a_scan_does_what_a_loop_over_tokens_and_elements_does(part: Recurrent, new: int) -> None:
    one = replace(part, chunk=1)
    assert scanned(one, new) == reference.token_by_token(one, new, one.heads, one.key_heads)


@SEVERAL
@given(layers(), st.integers(1, 5))
def test_whole_chunks_do_what_a_loop_over_pairs_of_tokens_does(part: Recurrent, many: int) -> None:
    decays = replace(part, rule="decay", chunk=max(part.chunk, 2))
    for new in {decays.chunk * many, max(2, decays.chunk - 1)}:
        slow = reference.chunk_by_chunk(decays, new, decays.heads, decays.key_heads)
        assert scanned(decays, new) == slow


def test_a_shorter_last_chunk_does_less() -> None:
    part = layer(chunk=64)
    assert scanned(part, 65) == reference.chunk_by_chunk(part, 65, 4, 2)


def test_chunks_of_the_delta_rule_read_the_state_with_keys_and_with_queries() -> None:
    part = layer(chunk=8, rule="delta")
    assert scanned(part, 16) == reference.chunk_by_chunk(part, 16, 4, 2)


def test_one_new_token_costs_the_same_alone_and_in_a_column_of_new_tokens() -> None:
    deployment = deployed(of(layer(chunk=8)))
    column = total(
        step(deployment, SequenceGroup(1.0, np.array([1.0, 16.0]), np.array([9.0, 16.0])))
    )
    alone = total(step(deployment, SequenceGroup(1.0, 1.0, 9.0)))
    assert np.asarray(column.flops)[0] == alone.flops


@SEVERAL
@given(deployments(), st.integers(1, 4), st.integers(2, 12))
def test_a_column_of_batches_prices_like_its_rows(
    deployment: Deployment, number: int, new: int
) -> None:
    batches = np.array([1.0, 7.0, float(number)])
    together = total(step(deployment, prefill(batches, float(new))))
    for row, batch in enumerate(batches):
        alone = total(step(deployment, prefill(float(batch), float(new))))
        for part in ("flops", "weight_bytes", "activation_bytes", "kv_bytes"):
            column = np.broadcast_to(np.asarray(getattr(together, part)), 3)
            assert column[row] == pytest.approx(float(getattr(alone, part)), rel=1e-14)


@SEVERAL
@given(deployments(), st.integers(0, 10**6))
def test_a_decode_step_and_the_state_do_not_depend_on_the_context(
    deployment: Deployment, cached: int
) -> None:
    first = total(step(deployment, decode(3.0, 0.0)))
    assert total(step(deployment, decode(3.0, float(cached)))) == first
    assert kv_bytes_per_sequence(deployment, float(cached)) == kv_bytes_per_sequence(
        deployment, 0.0
    )


@SEVERAL
@given(layers(), st.sampled_from([1, 2, 4]))
def test_a_state_is_a_matrix_for_each_head_and_the_last_inputs_of_the_convolution(
    part: Recurrent, tp: int
) -> None:
    heads = replace(part, heads=part.heads * 4, conv_width=part.conv_width * 4)
    elements = sum(1 for _ in range(heads.heads) for _ in range(part.key_dim * part.value_dim))
    elements += sum(part.conv_kernel - 1 for _ in range(heads.conv_width))
    held = kv_bytes_per_sequence(deployed(of(heads), tp=tp), 100.0)
    assert held == 2 * elements / tp
    assert state_elements_per_sequence(of(heads)) == elements


@SEVERAL
@given(layers())
def test_a_decode_step_reads_and_writes_the_state_that_is_held(part: Recurrent) -> None:
    deployment = deployed(of(part))
    moved = total(step(deployment, decode(3.0, 9.0))).kv_bytes
    assert moved == 3 * 2 * kv_bytes_per_sequence(deployment, 9.0)


def test_a_layer_that_only_convolves_scans_nothing_and_moves_its_last_inputs() -> None:
    part = layer(key_dim=0, conv=3)
    steps = step(deployed(of(part)), decode(3.0, 9.0))
    assert {name: op.kind for name, op in steps.items() if op.formats.get("layer")} == {
        "convolution": "pointwise"
    }
    assert total(steps).kv_bytes == 3 * 2 * (8 * 2 * 2)  # 8 channels, 2 inputs, in and out
    assert steps["convolution"].work.weight_bytes == 8 * 3 * 2


@pytest.mark.parametrize("state_format", ["bf16", "fp32"])
def test_a_state_is_held_and_moved_in_its_own_format(state_format: str) -> None:
    part = layer(state_format=state_format)
    width = {"bf16": 2, "fp32": 4}[state_format]
    deployment = deployed(of(part), kv="fp8")
    assert kv_bytes_per_sequence(deployment, 5.0) == 4 * 3 * 2 * width
    assert step(deployment, decode(1.0, 5.0))["mamba2"].work.kv_bytes == 2 * 4 * 3 * 2 * width


@pytest.mark.parametrize("tp", [2, 4])
def test_devices_share_heads_and_what_is_held(tp: int) -> None:
    part = layer(heads=8, key_heads=4, conv=4)
    one, several = deployed(of(part)), deployed(of(part), tp=tp)
    for group in (decode(2.0, 9.0), prefill(2.0, 64.0)):
        ours, whole = (step(d, group) for d in (several, one))
        for name in ("ssm-in", "mamba2", "attn-out"):
            assert ours[name].total.flops * tp == whole[name].total.flops
    everywhere = 2 * D  # the norm
    held = [weight_bytes(d) - everywhere for d in (one, several)]
    assert held[1] * tp == held[0]


def test_heads_that_devices_cannot_share_are_refused() -> None:
    with pytest.raises(LayoutError, match="mamba2 heads 4"):
        deployed(of(layer(heads=4)), tp=8)


@given(st.integers(2, 64), st.integers(1, 6))
def test_long_chunks_cost_more_inside_and_the_same_between(chunk: int, many: int) -> None:
    new = chunk * many * 2
    part = layer(chunk=chunk)
    longer = replace(part, chunk=2 * chunk)
    inside = 2 * 2 * 3 + 2 * 4 * 2  # a score for two key heads, a value for four heads
    # A token of the second half of a longer chunk meets all of the first half.
    assert scanned(longer, new) - scanned(part, new) == inside * chunk * chunk * many


@pytest.mark.parametrize("name", HYBRIDS)
def test_a_network_of_the_catalog_decodes_recurrent_layers_at_a_constant_price(name: str) -> None:
    network = architecture(name).stored_as("bf16")
    deployment = deployed(network)
    near, far = (step(deployment, decode(4.0, cached)) for cached in (10.0, 100_000.0))
    states = [op for op in near.values() if op.formats.get("layer")]
    assert states
    for op in states:
        assert far[op.name].work == op.work
        assert far[op.name].repeat == op.repeat
