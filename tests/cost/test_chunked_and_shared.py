"""Chunked attention, shared caches, and projections out of the ordinary, against counting."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.cost.attention import keys_read, pairs
from roofline.cost.deployment import Deployment
from roofline.cost.memory import kv_bytes_per_sequence, weight_bytes
from roofline.cost.step import decode, prefill, step
from roofline.model.architecture import Architecture, Attention, Block
from roofline.model.catalog import architecture, names
from roofline.model.parameters import total as total_parameters
from roofline.records import replace
from tests.cases import examples
from tests.cost import reference
from tests.cost.networks import deployed, groups, row_of, sequences, setting, total
from tests.cost.reference import Sequences, count_step

SEVERAL = settings(max_examples=examples(60), deadline=None)
D = 10


def of(*mixers: Attention) -> Architecture:
    """A network of nothing but these mixers."""
    layers = tuple(Block(mixer, None, 1, D) for mixer in mixers)
    return Architecture("attention", "llama", D, 8, layers, False, D)


@st.composite
def attentions(draw: st.DrawFn, tp: int = 1) -> Attention:
    """Any attention that ``tp`` devices can share."""
    kv_heads = draw(st.sampled_from([tp, 2 * tp]))
    span = draw(st.sampled_from(["all", "window", "chunk"]))
    same = draw(st.booleans())
    return Attention(
        kv_heads * draw(st.integers(1, 3)),
        kv_heads,
        draw(st.sampled_from([2, 4])),
        window=draw(st.integers(1, 12)) if span == "window" else None,
        chunk=draw(st.integers(1, 9)) if span == "chunk" else None,
        value_dim=None if same else draw(st.sampled_from([None, 1, 3, 6])),
        gate=draw(st.booleans()),
        keys_are_values=same,
        reuses_kv=draw(st.booleans()),
        norm_parameters=draw(st.sampled_from([0, 4])),
        rotary=draw(st.booleans()),
        out_bias=draw(st.booleans()),
    )


@st.composite
def deployments(draw: st.DrawFn) -> Deployment:
    tp = draw(st.sampled_from([1, 1, 2, 4]))
    return deployed(
        of(*draw(st.lists(attentions(tp), min_size=1, max_size=3))),
        weights=draw(st.sampled_from(["bf16", "fp8"])),
        kv=draw(st.sampled_from(["auto", "fp8"])),
        tp=tp,
        mask=draw(st.sampled_from(["causal", "square"])),
        attention=draw(st.sampled_from(["flash", "naive"])),
    )


FEW = st.lists(sequences(), min_size=1, max_size=2)


@SEVERAL
@given(deployments(), FEW)
def test_a_step_of_any_attention_is_what_counting_gives(
    deployment: Deployment, some: list[Sequences]
) -> None:
    slow = count_step(deployment.architecture, some, setting(deployment))
    ours = total(step(deployment, groups(some)))
    assert ours.flops == slow.flops
    assert ours.kv_bytes == slow.kv_bytes
    assert ours.weight_bytes == pytest.approx(float(slow.weight_bytes), rel=1e-14)
    assert ours.activation_bytes == pytest.approx(float(slow.activation_bytes), rel=1e-14)


@given(st.integers(1, 30), st.integers(0, 40), st.integers(1, 50))
def test_the_closed_form_of_pairs_in_chunks_is_the_count_of_pairs(
    new: int, cached: int, chunk: int
) -> None:
    context = new + cached
    ours = pairs(float(new), float(context), chunk=float(chunk))
    assert ours == reference.pairs(new, context, None, square=False, chunk=chunk)
    read = keys_read(float(new), float(context), chunk=float(chunk))
    assert read == len(reference.visible(new, context, None, chunk))


@pytest.mark.slow
@given(st.integers(1, 40), st.integers(0, 40))
def test_a_chunk_as_long_as_the_context_is_no_chunk(new: int, cached: int) -> None:
    one = [Sequences(2, new, new + cached)]
    whole, chunked = (
        deployed(of(Attention(4, 2, 4, chunk=chunk))) for chunk in (None, new + cached)
    )
    assert total(step(chunked, groups(one))) == total(step(whole, groups(one)))
    held = [kv_bytes_per_sequence(d, float(new + cached)) for d in (whole, chunked)]
    assert held[0] == held[1]


def test_a_column_across_the_border_of_a_chunk_prices_like_its_rows() -> None:
    deployment = deployed(of(Attention(4, 2, 4, chunk=8)))
    cached = np.array([6.0, 7.0, 8.0, 9.0, 15.0, 16.0])
    together = total(step(deployment, decode(2.0, cached)))
    for row, one in enumerate(cached):
        alone = total(step(deployment, decode(2.0, float(one))))
        assert row_of(together, row, 6) == row_of(alone, 0, 1)


@given(st.integers(1, 100), st.integers(1, 20))
def test_a_chunked_cache_keeps_at_most_a_chunk_and_never_less_than_is_seen(
    context: int, chunk: int
) -> None:
    held = kv_bytes_per_sequence(deployed(of(Attention(1, 1, 1, chunk=chunk))), float(context))
    seen = len(reference.keys_of(context - 1, None, chunk))
    assert 4 * seen <= held <= 4 * min(context, chunk)
    paged = kv_bytes_per_sequence(
        deployed(of(Attention(1, 1, 1, chunk=chunk))), float(context), one_page_table=True
    )
    assert paged == 4 * context


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 60))
def test_a_cache_shared_by_n_layers_is_an_nth_to_hold_and_as_much_to_read(
    share: int, times: int, context: int
) -> None:
    first = Attention(4, 2, 4)
    later = [replace(first, reuses_kv=True)] * (share - 1)
    shared, own = deployed(of(*[first, *later] * times)), deployed(of(*[first] * share * times))
    held = [kv_bytes_per_sequence(d, float(context)) for d in (own, shared)]
    assert held[0] == share * held[1]

    def moved(deployment: Deployment) -> list[float]:
        ops = step(deployment, decode(3.0, float(context)))
        return [float(ops[name].total.kv_bytes) for name in ("attention", "kv-store")]

    reads, stores = zip(moved(own), moved(shared), strict=True)
    assert reads[0] == reads[1]
    assert stores[0] == share * stores[1]


@SEVERAL
@given(attentions(), FEW)
def test_a_cache_that_is_shared_by_one_layer_is_not_shared(
    part: Attention, some: list[Sequences]
) -> None:
    # CLA-1: every layer makes its own keys, as networks without sharing do.
    own = replace(part, reuses_kv=False)
    assert of(own, own).kinds == {of(own).layers[0]: 2}
    once, twice = (total(step(deployed(of(*[own] * n)), groups(some))) for n in (1, 2))
    none = total(step(deployed(of()), groups(some)))
    for name in ("flops", "weight_bytes", "activation_bytes", "kv_bytes"):
        a, b, c = (float(getattr(work, name)) for work in (none, once, twice))
        assert c - b == pytest.approx(b - a, rel=1e-12)


CHANGES: dict[str, tuple[Callable[[Attention], Attention], int, int]] = {
    # What changes, elements projected more, elements cached more; of 4 heads, 2 of them cached.
    "gate": (lambda part: replace(part, gate=True), 4 * 4, 0),
    "keys are values": (lambda part: replace(part, keys_are_values=True), -2 * 4, 0),
    "reused": (lambda part: replace(part, reuses_kv=True), -2 * 2 * 4, -2 * 2 * 4),
    "wider values": (lambda part: replace(part, value_dim=6), 2 * 2, 2 * 2),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_projected_and_cached_follows_from_the_layer(change: str) -> None:
    changed, projected, cached = CHANGES[change]
    plain, other = Attention(4, 2, 4), changed(Attention(4, 2, 4))
    ops = [step(deployed(of(part)), prefill(1.0, 3.0)) for part in (plain, other)]
    wider = [each["qkv"].work.weight_bytes / (2 * D) for each in ops]
    assert wider[1] - wider[0] == projected
    held = [kv_bytes_per_sequence(deployed(of(part)), 1.0) / 2 for part in (plain, other)]
    assert held[1] - held[0] == cached


def test_a_gate_for_each_head_is_a_column_of_the_projection() -> None:
    part = Attention(4, 2, 4, head_gate=True)
    made = step(deployed(of(part)), prefill(1.0, 3.0))["qkv"].work
    assert made.weight_bytes == 2 * part.linears(D)[0].parameters


def test_what_is_not_cached_is_not_stored() -> None:
    part = Attention(4, 4, 4, cached=False)
    assert "kv-store" not in step(deployed(of(part)), prefill(1.0, 3.0))


@pytest.mark.parametrize("name", names())
def test_a_network_of_the_catalog_is_held_as_many_bytes_as_it_has_parameters(name: str) -> None:
    """Bytes of the decoder and of towers that see or hear, which engines load as well."""
    network = replace(architecture(name).stored_as("bf16"), plain_format="bf16")
    held = total_parameters(network) + network.seen_parameters
    assert weight_bytes(deployed(network)) == pytest.approx(2 * held, rel=1e-14)
