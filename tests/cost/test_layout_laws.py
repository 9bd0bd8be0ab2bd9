"""Laws of layouts: what is conserved, what is repeated and by how much, what hides behind what."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from roofline.cost.deployment import Deployment
from roofline.cost.layout import Layout, parse
from roofline.cost.memory import activation_peak, held, kv_bytes_per_sequence, weight_bytes
from roofline.cost.roof import StepTime, parts, roof
from roofline.cost.step import SequenceGroup, decode, prefill, step
from roofline.cost.work import Work
from roofline.model.architecture import Architecture
from roofline.records import replace
from tests.cases import examples
from tests.cost.networks import flops, total, wires
from tests.cost.spread import (
    DENSE,
    EXPERTS,
    GROUPED,
    HEADS,
    LATENT,
    LATENTS,
    MIXED,
    NETWORKS,
    VOCAB,
    WIDE,
    D,
    laid,
    of,
    spreads,
    stages_of,
)
from tests.pricing import seconds

SEVERAL = settings(max_examples=examples(60), deadline=None)
PREFILL, DECODE = prefill(8.0, 24.0), decode(8.0, 31.0)
PHASES = st.sampled_from([PREFILL, DECODE, prefill(8.0, 48.0, 24.0)])
ONE = Layout()


def everywhere(deployment: Deployment, group: SequenceGroup, what: str = "flops") -> float:
    """Sum over all devices of the replica, a stage's busiest device standing for the others."""
    each = [getattr(total(step(deployment, group, stage)), what) for stage in stages_of(deployment)]
    return float(sum(each) * deployment.layout.stage_devices)


def held_everywhere(deployment: Deployment) -> float:
    every = [weight_bytes(deployment, stage) for stage in stages_of(deployment)]
    return float(sum(every) * deployment.layout.stage_devices)


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("group", [PREFILL, DECODE])
def test_degrees_of_one_are_no_layout(kind: str, group: SequenceGroup) -> None:
    network = NETWORKS[kind]
    ones = Layout(1.0, 1.0, 1.0, 1.0, 1, True, (len(network.layers),), 1)
    plain, laid_out = (laid(network, layout) for layout in (ONE, ones))
    told = laid(network, ones, ring_attention=True, overlap=0.5)
    assert step(plain, group) == step(laid_out, group) == step(told, group)
    assert seconds(step(plain, group), plain) == seconds(step(told, group), told)
    assert held_by(plain) == held_by(laid_out) == held_by(told)


def held_by(deployment: Deployment) -> list[float]:
    parts_ = held(deployment, batch=8, context=32.0, step_tokens=192.0, step_rows=8)
    return [float(getattr(parts_, name)) for name in ("weights", "activations", "kv", "host")]


@pytest.mark.parametrize("group", [PREFILL, DECODE])
@pytest.mark.parametrize(
    ("network", "layout"),
    [
        (DENSE, Layout(tp=8)),
        (DENSE, Layout(tp=4, pp=4)),
        (DENSE, Layout(tp=2, pp=3)),
        (DENSE, Layout(tp=2, pp=2, sequence_parallel=True)),
        (of(GROUPED, WIDE), Layout(tp=2, pp=2)),
        (MIXED, Layout(tp=2, dp=4)),
        (MIXED, Layout(dp=8, pp=2)),
        (MIXED, Layout(tp=4, dp=2, pp=2, sequence_parallel=True)),
        (LATENTS, Layout(dp=8, pp=2)),
    ],
)
def test_where_nothing_is_repeated_devices_do_the_flops_of_one(
    network: Architecture, layout: Layout, group: SequenceGroup
) -> None:
    alone = flops(step(laid(network, ONE), group))
    assert everywhere(laid(network, layout), group) == pytest.approx(float(alone), rel=1e-13)


@pytest.mark.parametrize(
    ("network", "layout", "mla"),
    [
        (DENSE, Layout(cp=8), "auto"),
        (DENSE, Layout(tp=2, cp=4, pp=2), "auto"),
        (MIXED, Layout(tp=2, cp=2, dp=2), "auto"),
        (LATENTS, Layout(cp=4, dp=2), "absorbed"),
    ],
)
def test_devices_that_share_a_context_do_the_flops_of_one_in_prefill(
    network: Architecture, layout: Layout, mla: str
) -> None:
    # With the logits of all tokens: those of the last one are computed by all who share it.
    for group in (PREFILL, prefill(8.0, 48.0, 24.0)):
        alone = flops(step(laid(network, ONE, logits="all", mla=mla), group))
        ours = everywhere(laid(network, layout, logits="all", mla=mla), group)
        assert ours == pytest.approx(float(alone), rel=1e-13)


@pytest.mark.slow
@SEVERAL
@given(spreads(), PHASES)
def test_devices_never_do_less_than_one_would(
    case: tuple[str, Layout], group: SequenceGroup
) -> None:
    kind, layout = case
    alone, spread = (laid(NETWORKS[kind], one, mla="absorbed") for one in (ONE, layout))
    for what in ("flops", "kv_bytes"):
        whole = getattr(total(step(alone, group)), what)
        assert everywhere(spread, group, what) >= whole * (1 - 1e-12), what
    assert held_everywhere(spread) >= weight_bytes(alone) * (1 - 1e-12)


@SEVERAL
@given(spreads())
def test_weights_are_held_as_often_as_is_said(case: tuple[str, Layout]) -> None:
    kind, layout = case
    network = NETWORKS[kind]
    assume(kind in ("dense", "grouped", "mixed", "limited"))
    tp, stage = int(layout.tp), int(layout.stage_devices)
    copies = stage // tp
    mixer = network.layers[0].mixer
    assert mixer is not None
    kv = 2 if mixer == GROUPED else 8
    repeated = max(tp // kv, 1) * kv
    attention = copies * ((8 + 2 * repeated) * 4 * D + D * 8 * 4)
    dense = copies * 3 * D * 48
    shared = (stage if copies > 1 else 1) * 3 * D * 24
    mixture = 16 * 3 * D * 64 + shared + stage * 16 * D
    total_ = copies * 2 * VOCAB * D + stage * D  # embedding and head; last norm
    for block in network.layers:
        fed = dense if block.feedforward == WIDE else mixture
        total_ += attention + fed + stage * 2 * D
    assert held_everywhere(laid(network, layout)) == pytest.approx(2.0 * total_, rel=1e-13)


def test_experts_that_do_not_divide_are_padded() -> None:
    # 16 experts in 3 groups of 6: two places are empty.
    network = of(HEADS, replace(EXPERTS, width=48))
    three, one = (laid(network, Layout(dp=3, ep=ep)) for ep in (3, 1))
    expert = 3 * D * 48 * 2.0
    assert held_everywhere(three) - held_everywhere(one) == 4 * 2 * expert


def test_a_tied_embedding_is_held_by_the_first_stage_and_the_last() -> None:
    tied = of(HEADS, WIDE, norms=0, tied=True)
    alone, two = (held_everywhere(laid(tied, layout)) for layout in (ONE, Layout(pp=2)))
    assert two - alone == VOCAB * D * 2.0


@SEVERAL
@given(spreads(), st.integers(1, 60))
def test_all_devices_together_keep_every_token_once(case: tuple[str, Layout], context: int) -> None:
    kind, layout = case
    network = NETWORKS[kind]
    spread = laid(network, layout)
    alone = kv_bytes_per_sequence(laid(network, ONE), float(context))
    each = [
        kv_bytes_per_sequence(spread, float(context), stage=stage) for stage in stages_of(spread)
    ]
    heads = {"latents": 1, "grouped": 2, "window": 2, "limited": 2}.get(kind, 8)
    repeated = max(int(layout.tp) // heads, 1)  # a latent is on every device
    owners = layout.cp * layout.tp / repeated
    assert float(sum(each) * owners) == pytest.approx(float(alone), rel=1e-13)


def test_groups_with_sequences_of_their_own_keep_their_own() -> None:
    spread, alone = laid(MIXED, Layout(dp=4, ep=4)), laid(MIXED, ONE)
    for batch, mine in ((8, 2), (9, 3), (1, 1)):
        ours = held(spread, batch=batch, context=20.0, step_tokens=8.0, step_rows=8)
        assert ours.kv == mine * kv_bytes_per_sequence(alone, 20.0)


@pytest.mark.slow
@SEVERAL
@given(spreads(), PHASES, st.lists(st.floats(0, 1), min_size=2, max_size=4))
def test_the_more_is_hidden_the_less_time_but_never_less_than_the_larger(
    case: tuple[str, Layout], group: SequenceGroup, shares: list[float]
) -> None:
    kind, layout = case
    times: list[float] = []
    mine = StepTime()
    for share in sorted([0.0, 1.0, *shares]):
        deployment = laid(NETWORKS[kind], layout, overlap=share)
        ops = step(deployment, group)
        mine = parts((op, roof(op, deployment, float(op.repeat))) for op in ops.values())
        times.append(float(seconds(ops, deployment)))
        assert times[-1] >= max(mine.local, mine.wire) * (1 - 1e-12)
        assert share or times[-1] == mine.local + mine.wire
        assert mine.serial >= times[-1] * (1 - 1e-12)
    assert all(a >= b * (1 - 1e-12) for a, b in pairwise(times))
    assert times[-1] == pytest.approx(max(mine.local, mine.wire))


def test_what_is_hidden_by_hand() -> None:
    half = laid(DENSE, ONE, overlap=0.5)
    assert StepTime(local=10.0, wire=4.0).seconds(half) == 12.0
    assert StepTime(local=1.0, wire=4.0).seconds(half) == 4.0  # no more work to hide it behind


@SEVERAL
@given(spreads(pp=False), PHASES)
def test_splitting_by_tokens_sends_no_more_than_summing_for_all(
    case: tuple[str, Layout], group: SequenceGroup
) -> None:
    # Where all is rings: a sum for all is a sum for one and a gathering.
    kind, layout = case
    ringed = wires(100.0, topology="host")
    sent: list[Work] = []
    for split in (False, True):
        deployment = laid(NETWORKS[kind], replace(layout, sequence_parallel=split))
        node = replace(deployment.node, gpus=64, link=ringed)
        sent.append(total(step(replace(deployment, node=node), group)))
    assert sent[1].wire_bytes <= sent[0].wire_bytes * (1 + 1e-12)
    assert sent[1].flops == sent[0].flops
    if layout.tp > 1:
        assert group.new == 1 or sent[1].wire_bytes < sent[0].wire_bytes  # all tokens have logits
        assert sent[1].activation_bytes < sent[0].activation_bytes


@pytest.mark.parametrize("tp", [2, 4, 8])
@pytest.mark.parametrize("kind", NETWORKS)
def test_splitting_by_tokens_keeps_less(kind: str, tp: int) -> None:
    whole, split = (
        activation_peak(laid(NETWORKS[kind], Layout(tp=tp, sequence_parallel=on)), 96.0, 1.0)
        for on in (False, True)
    )
    assert whole - split == pytest.approx(96 * D * 2.0 * (1 - 1 / tp))


def test_splitting_by_tokens_moves_each_part_twice_by_hand() -> None:
    # Four layers of two parts: 8 gathered and 8 scattered, the embedding scattered, the head's
    # 8 rows gathered; each 3/4 of what it moves. Then the logits.
    deployment = laid(DENSE, Layout(tp=4, sequence_parallel=True))
    node = replace(deployment.node, link=wires(100.0, topology="host"))
    sent = total(step(replace(deployment, node=node), PREFILL)).wire_bytes
    tokens, rows = 8 * 24, 8
    moved = (8 + 8 + 1) * tokens * D * 2 + rows * D * 2 + rows * VOCAB * 2
    assert sent == pytest.approx(0.75 * moved)


@pytest.mark.parametrize("kind", ["dense", "grouped", "window", "mixed"])
def test_a_stage_does_its_own_layers_and_the_ends(kind: str) -> None:
    network = NETWORKS[kind]
    deployment = laid(network, Layout(pp=4, stages=(1, 1, 1, 1)))
    whole = step(laid(network, ONE), PREFILL)
    stages = [step(deployment, PREFILL, stage) for stage in stages_of(deployment)]
    assert sum(float(flops(ops)) for ops in stages) == pytest.approx(float(flops(whole)))
    assert [("embedding" in ops, "lm-head" in ops) for ops in stages] == [
        (True, False),
        (False, False),
        (False, False),
        (False, True),
    ]
    assert ["send" in ops for ops in stages] == [True, True, True, False]


def test_a_stage_sends_the_stream_by_hand() -> None:
    # Two devices of a stage send half of it each, to another box, and gather it there.
    deployment = laid(DENSE, Layout(tp=8, pp=2))
    first, second = (step(deployment, PREFILL, stage) for stage in stages_of(deployment))
    stream = 8 * 24 * D * 2.0
    assert first["send"].work.network_bytes == stream / 8
    assert first["send"].work.wire_bytes == 0
    assert "send" not in second
    near = laid(DENSE, Layout(tp=2, pp=2))
    send = step(near, PREFILL, stages_of(near)[0])["send"]
    assert (send.work.wire_bytes, send.work.network_bytes) == (stream / 2, 0)
    assert send.wire_s == stream / 2 / 100.0 + 0.25


def test_latents_are_expanded_by_everyone_who_shares_the_context() -> None:
    # A prefill passes latents around; each device makes keys and values of all of them.
    alone, shared = (
        step(laid(LATENTS, layout, mla="expanded"), PREFILL)["kv-up"].work.flops
        for layout in (ONE, Layout(cp=4))
    )
    assert alone == shared == 2 * 8 * 24 * LATENT.latent * 8 * (8 + 8)


def test_a_cache_shared_by_several_is_read_in_parts() -> None:
    alone, shared = (
        step(laid(DENSE, layout), DECODE)["attention"].work for layout in (ONE, Layout(cp=4))
    )
    assert (shared.flops, shared.kv_bytes) == (alone.flops / 4, alone.kv_bytes / 4)
    assert np.isclose(float(alone.kv_bytes), 8 * 32 * 8 * 8 * 2.0)


@pytest.mark.slow
@given(tp=st.integers(1, 2**20), pp=st.integers(1, 2**20))
def test_a_layout_is_read_as_it_is_spelled(tp: int, pp: int) -> None:
    assert parse(Layout(tp=tp, pp=pp).spelled) == Layout(tp=tp, pp=pp)
