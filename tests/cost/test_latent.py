"""Latent and sparse attention: both forms against counting head by head, and how one is chosen."""

from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.cost.deployment import Deployment, Options
from roofline.cost.latent import chosen
from roofline.cost.layout import Layout
from roofline.cost.memory import kv_bytes_per_sequence, weight_bytes
from roofline.cost.step import decode, prefill, step
from roofline.errors import LayoutError
from roofline.hardware.catalog import default_node, gpu
from roofline.hardware.engine import engine
from roofline.model.architecture import Architecture, Attention, Block, Indexer, Mla
from roofline.model.catalog import architecture
from roofline.model.compressed import CompressedAttention
from roofline.model.precision import resolve
from roofline.records import replace
from tests.cases import examples
from tests.cost import reference
from tests.cost.networks import deployed, group, groups, row_of, setting, total
from tests.cost.reference import Sequences, count_step
from tests.pricing import seconds

SEVERAL = settings(max_examples=examples(60), deadline=None)
D = 10
SMALL = Mla(4, 6, 8, 4, 2, 4, norm_parameters=14)


def of(*mixers: Mla | Attention) -> Architecture:
    """A network of nothing but these mixers."""
    layers = tuple(Block(mixer, None, 1, D) for mixer in mixers)
    return Architecture("latent", "deepseek_v3", D, 8, layers, False, D)


@st.composite
def indexers(draw: st.DrawFn, query_width: int) -> Indexer:
    return Indexer(
        draw(st.integers(1, 3)),
        draw(st.sampled_from([2, 4])),
        top_k=draw(st.integers(1, 12)),
        query_width=query_width,
        computes=draw(st.booleans()),
        weighted=draw(st.booleans()),
    )


@st.composite
def latents(draw: st.DrawFn, tp: int = 1) -> Mla:
    rank = draw(st.sampled_from([0, 3, 6]))
    return Mla(
        draw(st.integers(1, 3)) * tp,
        rank,
        draw(st.integers(1, 9)),
        draw(st.integers(1, 5)),
        draw(st.sampled_from([2, 4])),
        draw(st.integers(1, 5)),
        norm_parameters=draw(st.sampled_from([0, 7])),
        out_bias=draw(st.booleans()),
        gate=draw(st.booleans()),
        index=draw(st.none() | indexers(rank or D)),
    )


@st.composite
def deployments(draw: st.DrawFn) -> Deployment:
    tp = draw(st.sampled_from([1, 1, 2, 4]))
    part = draw(latents(tp))
    return deployed(
        of(part),
        weights=draw(st.sampled_from(["bf16", "fp8"])),
        kv=draw(st.sampled_from(["auto", "fp8"])),
        tp=tp,
        mla=draw(st.sampled_from(["expanded", "absorbed"])),
        # Where masking is ignored, the best few of all keys are not defined.
        mask="causal" if part.index else draw(st.sampled_from(["causal", "square"])),
    )


@st.composite
def sequences(draw: st.DrawFn) -> Sequences:
    new = draw(st.integers(1, 6))
    return Sequences(draw(st.integers(1, 2)), new, new + draw(st.integers(0, 12)))


FEW = st.lists(sequences(), min_size=1, max_size=2)


@SEVERAL
@given(deployments(), FEW)
def test_a_step_in_either_form_is_what_counting_head_by_head_gives(
    deployment: Deployment, some: list[Sequences]
) -> None:
    network = deployment.architecture.stored_as(deployment.precision.weights.name)
    here = replace(deployment, architecture=network)
    slow = count_step(network, some, setting(here))
    ours = total(step(here, groups(some)))
    left = index_vectors(network) * 2
    assert ours.flops == slow.flops
    assert ours.kv_bytes == pytest.approx(float(slow.kv_bytes), rel=1e-14)
    assert float(slow.weight_bytes) - left <= ours.weight_bytes * (1 + 1e-14)
    assert ours.weight_bytes <= float(slow.weight_bytes) * (1 + 1e-14)
    if deployment.precision.product().quantised is None:
        assert ours.activation_bytes == pytest.approx(float(slow.activation_bytes), rel=1e-14)


def index_vectors(network: Architecture) -> int:
    """Norms of index keys: a step leaves them out."""
    return sum(
        layers * block.mixer.index.other_parameters
        for block, layers in network.kinds.items()
        if isinstance(block.mixer, Mla) and block.mixer.index
    )


@given(st.integers(1, 8), st.integers(0, 30), st.integers(1, 12))
def test_the_best_few_that_are_read_are_as_many_as_queries_can_disagree_on(
    new: int, cached: int, top_k: int
) -> None:
    # A greedy choice of different keys for every query reaches the bound or comes close below it.
    index = Indexer(1, 2, top_k, D)
    read = reference.best(new, new + cached, index)
    bound = float(chosen(float(new), float(new + cached), float(top_k)))
    assert read <= bound
    assert read == bound or cached < new * top_k


@pytest.mark.parametrize("tp", [2, 4])
def test_the_latent_is_on_every_device_and_the_heads_are_shared(tp: int) -> None:
    one, several = deployed(of(SMALL)), deployed(of(SMALL), tp=tp)
    assert kv_bytes_per_sequence(several, 50.0) == kv_bytes_per_sequence(one, 50.0) == 2 * 10 * 50
    everywhere = (6 + 8 + 2) * D + 14 + D  # down into the latents, their norms, the layer's norm
    held = [weight_bytes(d) - 2 * everywhere for d in (one, several)]
    assert held[1] == held[0] / tp
    forms: tuple[Literal["expanded", "absorbed"], ...] = ("expanded", "absorbed")
    for form in forms:
        ops = [
            step(replace(d, options=Options(mla=form)), prefill(2.0, 9.0)) for d in (one, several)
        ]
        name = f"attention-{form}"
        assert ops[1][name].total.flops == ops[0][name].total.flops / tp
        assert ops[1]["latent-down"].total == ops[0]["latent-down"].total


def test_heads_that_devices_cannot_share_are_refused() -> None:
    with pytest.raises(LayoutError, match="query heads 4"):
        deployed(of(SMALL), tp=3)


@SEVERAL
@given(latents(), FEW)
def test_the_chosen_form_is_never_slower_than_either(part: Mla, some: list[Sequences]) -> None:
    times = {
        form: float(seconds(step(d, groups(some)), d))
        for form in ("auto", "expanded", "absorbed")
        for d in [deployed(of(part), mla=form)]
    }
    if part.index is not None and any(each.context > part.index.top_k for each in some):
        # Each query has keys of its own, which are attended in the latent.
        assert times["auto"] <= times["absorbed"] * (1 + 1e-14)
        if len(some) == 1:
            assert times["auto"] == times["absorbed"]
        return
    least = min(times["expanded"], times["absorbed"])
    assert times["auto"] <= least * (1 + 1e-14)
    if len(some) == 1:
        assert times["auto"] == pytest.approx(least, rel=1e-14)


@pytest.mark.slow
@SEVERAL
@given(latents(), st.lists(st.integers(1, 400), min_size=2, max_size=5), st.integers(0, 50))
def test_every_row_of_a_column_gets_its_own_form(part: Mla, news: list[int], cached: int) -> None:
    deployment, new = deployed(of(part)), np.array(news, float)
    together = step(deployment, prefill(2.0, new + cached, float(cached)))
    for row, one in enumerate(news):
        alone = step(deployment, group(Sequences(2, one, one + cached)))
        assert row_of(total(together), row, len(news)) == pytest.approx(
            row_of(total(alone), 0, 1), rel=1e-14
        )
        ours = np.broadcast_to(np.asarray(seconds(together, deployment)), len(news))[row]
        assert ours == pytest.approx(float(seconds(alone, deployment)), rel=1e-14)


def deepseek(form: Literal["auto", "expanded", "absorbed"] = "auto") -> Deployment:
    """DeepSeek-V3 in fp8 on eight H200."""
    network, machine = architecture("deepseek-v3"), gpu("h200-sxm")
    formats = {name for block in network.kinds for _, name in block.formats}
    precision = resolve(
        network.weight_format, "auto", machine, also={*formats, network.plain_format}
    )
    node = default_node(machine, 8)
    return Deployment(
        network,
        node,
        precision,
        engine("ideal"),
        layout=Layout(tp=8),
        options=Options(mla=form),
    )


def test_a_large_mixture_expands_in_prefill_and_absorbs_in_decode() -> None:
    ops = step(deepseek(), prefill(1.0, 4096.0))
    assert "attention-expanded" in ops
    assert "attention-absorbed" not in ops
    ops = step(deepseek(), decode(64.0, 4096.0))
    assert "attention-absorbed" in ops
    assert "attention-expanded" not in ops


def test_the_cache_of_a_latent_is_a_small_part_of_that_of_its_heads() -> None:
    # 576 elements a token and layer, of 61 layers; heads would keep 128 · (192 + 128).
    network = architecture("deepseek-v3")
    held = kv_bytes_per_sequence(deployed(network.stored_as("bf16")), 1.0)
    assert held == 61 * 576 * 2
    assert 128 * (192 + 128) / 576 > 71


@given(st.integers(1, 8), st.sampled_from([2, 4, 8]), st.integers(0, 8), st.integers(1, 100))
def test_a_latent_of_full_rank_is_never_fewer_bytes_than_grouped_heads(
    kv_heads: int, head_dim: int, rope: int, context: int
) -> None:
    # A latent that can hold any keys and values of K heads is as wide as they are together.
    grouped = Attention(kv_heads, kv_heads, head_dim)
    full = Mla(kv_heads, 0, 2 * kv_heads * head_dim, head_dim, rope, head_dim)
    latent, heads = (
        kv_bytes_per_sequence(deployed(of(part)), float(context)) for part in (full, grouped)
    )
    assert latent >= heads
    assert latent - heads == 2 * rope * context


@given(st.integers(1, 30), st.integers(0, 40), st.integers(0, 10))
def test_an_index_that_chooses_everything_leaves_all_pairs(
    new: int, cached: int, more: int
) -> None:
    whole = Indexer(2, 4, top_k=new + cached + more, query_width=6)
    one = Sequences(1, new, new + cached)
    for form in ("expanded", "absorbed"):
        sparse, dense = (
            step(deployed(of(replace(SMALL, index=index)), mla=form), group(one))
            for index in (whole, None)
        )
        name = f"attention-{form}"
        assert sparse[name].work == dense[name].work


def test_a_decode_step_reads_the_best_few_and_scores_all() -> None:
    index = Indexer(3, 4, top_k=16, query_width=6)
    deployment = deployed(of(replace(SMALL, index=index)), mla="absorbed")
    for cached in (100.0, 1000.0, 100_000.0):
        ops = step(deployment, decode(1.0, cached))
        assert ops["attention-absorbed"].work.kv_bytes == 16 * 10 * 2
        assert ops["index-scores"].work.kv_bytes == (cached + 1) * index.bytes_per_token
        assert ops["index-scores"].work.flops == (cached + 1) * 2 * 3 * 4


def test_an_index_on_plain_attention_reads_in_decode_what_its_query_chooses() -> None:
    part = Attention(4, 2, 4, index=Indexer(2, 4, top_k=8, query_width=D))
    one = [Sequences(2, 1, 30)]
    slow = count_step(of(part), one, setting(deployed(of(part))))
    ours = total(step(deployed(of(part)), groups(one)))
    assert ours.flops == slow.flops
    assert ours.kv_bytes == slow.kv_bytes


def test_queries_of_plain_attention_choose_keys_as_freely_as_those_of_a_latent() -> None:
    part = Attention(4, 2, 4, index=Indexer(2, 4, top_k=8, query_width=D))
    one = [Sequences(1, 3, 100)]
    slow = count_step(of(part), one, setting(deployed(of(part))))
    assert total(step(deployed(of(part)), groups(one))).kv_bytes == slow.kv_bytes


def unindexed(block: Block) -> Block:
    assert isinstance(block.mixer, Attention | Mla | CompressedAttention)
    return replace(block, mixer=replace(block.mixer, index=None))


def test_a_decode_step_reads_the_whole_index_that_is_held() -> None:
    network = architecture("deepseek-v4-flash").stored_as("bf16")
    deployment = deployed(network)
    with_index = [b for b in network.layers if getattr(b.mixer, "index", None)]
    bare = tuple(unindexed(b) for b in with_index)
    context = 8192.0
    held = [
        kv_bytes_per_sequence(
            replace(deployment, architecture=replace(network, layers=tuple(layers))), context
        )
        for layers in (with_index, bare)
    ]
    read = step(deployment, decode(1.0, context - 1.0))["index-scores"].total.kv_bytes
    assert read == held[0] - held[1]
