"""Layouts along an axis price like each of them alone."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.cost.layout import Layout
from roofline.cost.memory import held
from roofline.cost.step import SequenceGroup, decode, prefill, step
from roofline.cost.work import Number
from roofline.records import replace
from tests.cases import examples
from tests.cost.networks import row_of, total
from tests.cost.spread import (
    LATENTS,
    MIXED,
    NETWORKS,
    axis,
    laid,
    layouts_of,
    stages_of,
)
from tests.pricing import seconds

SEVERAL = settings(max_examples=examples(40), deadline=None)


@st.composite
def axes(draw: st.DrawFn) -> tuple[str, list[Layout]]:
    """A kind of network and layouts of it, with or without sequence parallelism."""
    kind = draw(st.sampled_from(sorted(NETWORKS)))
    split = draw(st.booleans())
    some = draw(st.lists(layouts_of(kind, pp=False), min_size=2, max_size=5))
    return kind, [replace(one, sequence_parallel=split) for one in some]


def prices_alike(
    kind: str, layouts: list[Layout], groups: list[SequenceGroup], **options: Any
) -> None:
    """The step of the axis against that of each row; groups are one for each row, alike."""

    def column(values: list[Number]) -> Number:
        alike = all(value == values[0] for value in values)
        return values[0] if alike else np.array(values, float)

    together = laid(NETWORKS[kind], axis(layouts), **options)
    every = SequenceGroup(
        column([one.count for one in groups]),
        column([one.new for one in groups]),
        column([one.context for one in groups]),
    )
    many = step(together, every)
    rows = len(layouts)
    ours = np.broadcast_to(np.asarray(seconds(many, together)), rows)
    for row, (layout, one) in enumerate(zip(layouts, groups, strict=True)):
        alone = laid(NETWORKS[kind], layout, **options)
        few = step(alone, one)
        assert row_of(total(many), row, rows) == pytest.approx(row_of(total(few), 0, 1), rel=1e-12)
        assert ours[row] == pytest.approx(float(seconds(few, alone)), rel=1e-12)


@pytest.mark.slow
@SEVERAL
@given(axes(), st.data())
def test_an_axis_of_layouts_prefills_like_its_rows(
    case: tuple[str, list[Layout]], data: st.DataObject
) -> None:
    kind, layouts = case
    prompts = data.draw(st.lists(st.sampled_from([8.0, 24.0, 640.0]), min_size=1, max_size=1))
    mla = data.draw(st.sampled_from(["expanded", "absorbed"]))
    prices_alike(kind, layouts, [prefill(8.0, prompts[0])] * len(layouts), mla=mla)


@pytest.mark.slow
@SEVERAL
@given(axes(), st.data())
def test_an_axis_of_layouts_decodes_like_its_rows(
    case: tuple[str, list[Layout]], data: st.DataObject
) -> None:
    kind, layouts = case
    size = len(layouts)
    counts = data.draw(st.lists(st.sampled_from([1.0, 5.0, 64.0]), min_size=size, max_size=size))
    contexts = data.draw(st.lists(st.sampled_from([7.0, 900.0]), min_size=size, max_size=size))
    mla = data.draw(st.sampled_from(["expanded", "absorbed"]))
    groups = [decode(count, cached) for count, cached in zip(counts, contexts, strict=True)]
    prices_alike(kind, layouts, groups, mla=mla)


@pytest.mark.slow
@SEVERAL
@given(axes(), st.data())
def test_an_axis_of_layouts_and_lengths_prefills_like_its_rows(
    case: tuple[str, list[Layout]], data: st.DataObject
) -> None:
    kind, layouts = case
    size = len(layouts)
    prompts = data.draw(st.lists(st.sampled_from([2.0, 24.0, 640.0]), min_size=size, max_size=size))
    counts = data.draw(st.lists(st.sampled_from([1.0, 5.0, 64.0]), min_size=size, max_size=size))
    groups = [prefill(count, prompt) for count, prompt in zip(counts, prompts, strict=True)]
    prices_alike(kind, layouts, groups)


def test_devices_with_tokens_of_their_own_stand_beside_those_with_the_same() -> None:
    # With experts in four groups either way, only the second row sends tokens to them.
    layouts = [Layout(tp=4, ep=4), Layout(tp=4, dp=2, ep=4), Layout(tp=2)]
    for group in (prefill(4.0, 16.0), decode(4.0, 16.0)):
        prices_alike("mixed", layouts, [group] * 3)
    moved = step(laid(MIXED, axis(layouts)), prefill(4.0, 16.0))["dispatch"]
    assert np.flatnonzero(np.asarray(moved.wire_s)).tolist() == [1]


@pytest.mark.parametrize("cp", [1, 2, 4])
@pytest.mark.parametrize("ring", [False, True])
def test_both_forms_of_latent_attention_on_an_axis_move_what_each_row_moves(
    cp: int, ring: bool
) -> None:
    # Few new tokens attend in the latent, many in expanded keys.
    deployment = laid(LATENTS, Layout(tp=2, cp=cp), ring_attention=ring)
    new, context = np.array([2.0, 64.0, 256.0]), np.array([256.0, 256.0, 256.0])
    ops = step(deployment, SequenceGroup(4.0, new, context))
    assert any("absorbed" in name for name in ops)
    assert any("expanded" in name for name in ops)
    for row in range(3):
        alone = step(deployment, SequenceGroup(4.0, float(new[row]), float(context[row])))
        assert row_of(total(ops), row, 3) == pytest.approx(row_of(total(alone), 0, 1), rel=1e-12)
        ours = np.asarray(seconds(ops, deployment))[row]
        assert ours == pytest.approx(float(seconds(alone, deployment)), rel=1e-12)


@SEVERAL
@given(axes(), st.lists(st.sampled_from([1.0, 7.0, 64.0]), min_size=5, max_size=5))
def test_an_axis_of_layouts_holds_like_its_rows(
    case: tuple[str, list[Layout]], batches: list[float]
) -> None:
    kind, layouts = case
    sizes = np.array(batches[: len(layouts)])
    many = held(
        laid(NETWORKS[kind], axis(layouts)),
        batch=sizes,
        context=40.0,
        step_tokens=sizes * 24,
        step_rows=sizes,
    )
    for row, layout in enumerate(layouts):
        size = float(sizes[row])
        one = held(
            laid(NETWORKS[kind], layout),
            batch=size,
            context=40.0,
            step_tokens=size * 24,
            step_rows=size,
        )
        for part in ("weights", "activations", "kv", "host", "buffer", "taken"):
            ours = np.broadcast_to(getattr(many, part), len(layouts))[row]
            assert ours == pytest.approx(float(getattr(one, part)), rel=1e-12), part


@pytest.mark.parametrize("kind", ["dense", "mixed", "latents"])
def test_an_axis_of_pipelines_prices_its_stages_like_its_rows(kind: str) -> None:
    # Three stages of 2 · 2, 4 and 8 devices: whether they leave a box of eight differs.
    layouts = [Layout(tp=2, cp=2, pp=3), Layout(tp=4, pp=3), Layout(tp=8, pp=3)]
    many = laid(NETWORKS[kind], axis(layouts))
    group = prefill(8.0, 24.0)
    stages = stages_of(many)
    for row, layout in enumerate(layouts):
        one = laid(NETWORKS[kind], layout)
        for stage, alone in zip(stages, stages_of(one), strict=True):
            assert np.broadcast_to(stage.crosses, 3)[row] == alone.crosses
            ours = np.asarray(seconds(step(many, group, stage), many))[row]
            slow = float(seconds(step(one, group, alone), one))
            assert ours == pytest.approx(slow, rel=1e-12)
