"""Layouts on nodes: against ranks that are walked one by one; layouts that cannot be."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from roofline.cost.layout import Layout, check_layout, group, pipeline
from roofline.errors import LayoutError
from roofline.model.architecture import (
    Architecture,
    Attention,
    Block,
    Indexer,
    Mla,
    Mlp,
    Moe,
    Recurrent,
)
from roofline.records import replace
from tests.cases import examples
from tests.cost.networks import BOXES, NODE, dense
from tests.cost.reference.placing import members, shares, stage_leaves

SEVERAL = settings(max_examples=examples(150), deadline=None)
FEW = st.sampled_from([1, 2, 3, 4, 6, 8])


@st.composite
def layouts(draw: st.DrawFn) -> tuple[Layout, int]:
    """Any layout, and devices of a node over which it spreads evenly."""
    tp, cp, dp = draw(FEW), draw(st.sampled_from([1, 2, 3])), draw(FEW)
    stage = tp * cp * dp
    ep = draw(st.sampled_from([n for n in range(1, stage + 1) if stage % n == 0]))
    layout = Layout(tp, cp, dp, ep, pp=draw(st.integers(1, 4)))
    gpus = draw(st.integers(1, 9) | st.just(72))
    devices = int(layout.devices)
    assume(devices <= 200)
    assume(devices % -(-devices // gpus) == 0)
    return layout, gpus


@SEVERAL
@given(layouts())
def test_a_stage_sends_out_of_the_node_where_a_rank_and_its_successor_lie_apart(
    case: tuple[Layout, int],
) -> None:
    layout, gpus = case
    stages = pipeline(dense(layers=8), layout, replace(BOXES, gpus=gpus))
    walked = [
        stage_leaves(number, int(layout.stage_devices), int(layout.devices), gpus)
        for number in range(layout.pp - 1)
    ]
    assert [stage.crosses for stage in stages] == [*map(float, walked), 0.0]


@pytest.mark.slow
@SEVERAL
@given(layouts(), st.sampled_from(["tp", "cp", "ep", "sharers of an expert"]))
def test_a_group_lies_on_nodes_as_its_ranks_do_or_is_taken_as_more_spread(
    case: tuple[Layout, int], axis: str
) -> None:
    layout, gpus = case
    size, stride = {
        "tp": (layout.tp, 1),
        "cp": (layout.cp, layout.tp),
        "ep": (layout.ep, layout.expert_tp),
        "sharers of an expert": (layout.expert_tp, 1),
    }[axis]
    ours = group(layout, replace(BOXES, gpus=gpus), size, stride)
    stage, devices = int(layout.stage_devices), int(layout.devices)
    walked = [
        shares(one, devices, gpus) for one in members(stage, layout.pp, int(size), int(stride))
    ]
    counts = {share for one in walked for share in one}
    assert ours.size == size
    if len(counts) == 1:
        assert (ours.inside, ours.nodes) == (counts.pop(), len(walked[0]))
    else:
        assert ours.inside <= max(counts)
        assert ours.nodes >= max(map(len, walked))


def test_an_axis_of_groups_lies_like_its_rows() -> None:
    tp, dp = np.array([1.0, 2.0, 4.0, 8.0]), np.array([32.0, 8.0, 2.0, 1.0])
    many = group(Layout(tp=tp, dp=dp, ep=dp), BOXES, dp, tp)
    for row in range(4):
        layout = Layout(tp=int(tp[row]), dp=int(dp[row]), ep=int(dp[row]))
        one = group(layout, BOXES, layout.dp, layout.tp)
        assert (np.asarray(many.inside)[row], np.asarray(many.nodes)[row]) == (
            one.inside,
            one.nodes,
        )


D = 24
PLAIN = Attention(8, 4, 4)
MIXTURE = Moe(12, 2, 20, shared_width=30)


def of(mixer: Attention | Mla | Recurrent, fed: Mlp | Moe, layers: int = 6) -> Architecture:
    block = Block(mixer, fed, 2, 2 * D)
    return Architecture("small", "llama", D, 56, (block,) * layers, False, D)


DENSE = of(PLAIN, Mlp(40, gated=True))
MIXED = of(PLAIN, MIXTURE)
STATE = of(Recurrent("mamba2", 8, 8, 4, 4, ()), Mlp(40, gated=True))
INDEXED = of(replace(PLAIN, index=Indexer(2, 4, 4, 8)), Mlp(40, gated=True))


@pytest.mark.parametrize(
    ("network", "layout", "said"),
    [
        (DENSE, Layout(tp=3), "query heads 8"),
        (of(Mla(8, 0, 8, 4, 4, 4), Mlp(40, gated=True)), Layout(tp=5), "query heads 8"),
        (of(Attention(24, 4, 4), Mlp(24, gated=True)), Layout(tp=6), "4 key/value heads"),
        (of(PLAIN, Mlp(42, gated=True)), Layout(tp=4), "feed-forward width 42"),
        (of(PLAIN, Moe(12, 2, 18)), Layout(tp=4), "expert width 18"),
        (of(PLAIN, Moe(12, 2, 18)), Layout(tp=2, dp=2), "expert width 18"),
        (MIXED, Layout(tp=4), "shared expert width 30"),
        (STATE, Layout(tp=3), "mamba2 heads 8"),
        (MIXED, Layout(dp=16, ep=16), "12 experts"),
        (MIXED, Layout(tp=4, ep=3), "4 devices"),
        (MIXED, Layout(dp=4, ep=8), "4 devices"),
        (DENSE, Layout(dp=2), "no experts for 2"),
        (DENSE, Layout(tp=2, ep=2), "no experts to spread over 2"),
        (STATE, Layout(cp=2), "a recurrent state"),
        (INDEXED, Layout(cp=2), "an index or summaries"),
        (DENSE, Layout(pp=7), "6 layers, too few for 7"),
        (DENSE, Layout(pp=2, stages=(3, 4)), "3, 4 layers are not 2 stages with the 6"),
        (DENSE, Layout(pp=2, stages=(2, 2, 2)), "2, 2, 2 layers are not 2 stages"),
        (DENSE, Layout(pp=2, stages=(6, 0)), "6, 0 layers are not 2 stages"),
        (DENSE, Layout(cp=3, pp=3), "9 devices, which do not spread evenly over 2 nodes of 8"),
        (DENSE, Layout(tp=0), "tensor parallel over 0"),
        (DENSE, Layout(cp=1.5), "context parallel over 1.5"),
        (DENSE, Layout(pp=-1), "pipeline parallel over -1"),
    ],
)
def test_a_layout_that_cannot_be_names_the_number_at_fault(
    network: Architecture, layout: Layout, said: str
) -> None:
    with pytest.raises(LayoutError) as refused:
        check_layout(network, layout, BOXES)
    assert said in str(refused.value)
    assert refused.value.hint


def test_more_devices_than_a_node_has_need_a_network() -> None:
    alone = replace(NODE, gpus=4)
    check_layout(DENSE, Layout(tp=4), alone)
    with pytest.raises(LayoutError, match="takes 8 devices, box has 4 and no network"):
        check_layout(DENSE, Layout(tp=4, pp=2), alone)
    check_layout(DENSE, Layout(tp=4, pp=2), replace(BOXES, gpus=4))


def test_whole_shared_experts_need_not_be_divisible() -> None:
    # Devices with tokens of their own hold the shared part whole.
    odd = of(PLAIN, Moe(12, 2, 20, shared_width=7))
    check_layout(odd, Layout(tp=4, dp=2, ep=8), BOXES)
    with pytest.raises(LayoutError, match="shared expert width 7"):
        check_layout(odd, Layout(tp=4, ep=4), BOXES)
