"""Bytes that devices send each other in a step, against tokens and keys passed one by one."""

import pytest

from roofline.cost.layout import Layout
from roofline.cost.roof import roof
from roofline.cost.step import decode, prefill, step
from roofline.cost.work import Op
from roofline.records import replace
from tests.cost.networks import BOXES, wires
from tests.cost.reference.dispatching import arriving, sent
from tests.cost.spread import DENSE, EXPERTS, HEADS, LATENT, LATENTS, WIDE, D, laid, of

COUNT, NEW = 16.0, 24.0
PREFILL, DECODE = prefill(COUNT, NEW), decode(COUNT, 31.0)


def crowding(ops: dict[str, Op], layout: Layout, everyone: float) -> float:
    """Rows of the busiest group over those of a mean one."""
    even = everyone * EXPERTS.active / float(layout.ep)
    return float(ops["experts-gate-up"].dims["m"]) / even


@pytest.mark.slow
@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize(
    "layout",
    [
        Layout(dp=8, ep=8),
        Layout(tp=2, dp=4, ep=8),
        Layout(dp=16, ep=16),
        Layout(tp=4, dp=4, ep=16),
        Layout(dp=16, ep=4),
        Layout(tp=2, dp=8, ep=8),
        Layout(dp=32, ep=8),
        Layout(dp=32, ep=2),
        Layout(cp=2, dp=8, ep=16),
    ],
    ids=str,
)
def test_tokens_are_sent_to_their_experts_once_for_each_node_and_group(
    layout: Layout, limited: bool
) -> None:
    shape = (16, 4, int(layout.ep), int(layout.expert_tp), BOXES.gpus, *((4, 2) if limited else ()))
    near, far = map(float, sent(*shape))
    part = replace(EXPERTS, groups=4, active_groups=2) if limited else EXPERTS
    deployment = laid(of(HEADS, part, layers=1), layout)
    ops = step(deployment, PREFILL)
    everyone = COUNT * NEW
    own = max(COUNT / layout.dp, 1.0)
    mine = own * NEW / (layout.tp * layout.cp)
    # The fullest device sends what it has; the busiest group receives more than a mean device has.
    each = everyone / layout.devices
    busier = max(mine, each * crowding(ops, layout, everyone)) / mine
    for name in ("dispatch", "combine"):
        work = ops[name].work
        assert work.wire_bytes == pytest.approx(mine * D * 2.0 * near * busier)
        assert work.network_bytes == pytest.approx(mine * D * 2.0 * far * busier)


@pytest.mark.parametrize(("dp", "ep"), [(8, 4), (8, 2), (8, 1), (4, 2)])
def test_devices_that_share_experts_gather_what_arrives_and_sum_what_leaves(
    dp: int, ep: int
) -> None:
    deployment = laid(of(HEADS, EXPERTS, layers=1), Layout(dp=dp, ep=ep))
    ops = step(deployment, PREFILL)
    sharers = dp // ep
    tokens = COUNT * NEW * float(arriving(16, 4, ep))
    for name in ("dispatch-all-gather", "combine-reduce-scatter"):
        passed = tokens * D * 2.0 * (sharers - 1) / sharers
        assert ops[name].work.wire_bytes == pytest.approx(passed)


def test_tokens_go_out_in_the_format_of_the_experts_and_come_back_as_activations() -> None:
    network = of(HEADS, EXPERTS, layers=1).stored_as("fp8")
    wide, narrow = (
        step(laid(network, Layout(dp=8, ep=8), weights=weights), PREFILL)
        for weights in ("bf16", "fp8")
    )
    assert wide["dispatch"].work.wire_bytes == 2 * narrow["dispatch"].work.wire_bytes
    assert wide["combine"].work.wire_bytes == narrow["combine"].work.wire_bytes


def test_experts_of_devices_with_the_same_tokens_are_sent_nothing() -> None:
    # Each has all tokens: it does those of its experts, and the sum for all adds them up.
    ops = step(laid(of(HEADS, EXPERTS), Layout(tp=8, ep=8)), PREFILL)
    moved = [name for name, op in ops.items() if op.kind == "collective"]
    assert moved == ["all-reduce-embedding", "all-reduce", "all-gather-logits"]
    assert ops["all-reduce"].repeat == 2 * 4


def passed_around(context: float, held: float, devices: int) -> float:
    """Each device hands on what it last got, until all have seen all."""
    blocks = [context / devices * held] * devices
    sent_by_first = 0.0
    for _ in range(devices - 1):
        sent_by_first += blocks[0]
        blocks = blocks[-1:] + blocks[:-1]
    return sent_by_first


@pytest.mark.parametrize(("tp", "cp"), [(1, 2), (1, 4), (1, 8), (2, 2), (2, 4)])
def test_keys_of_the_whole_context_come_to_every_device_that_has_queries(tp: int, cp: int) -> None:
    group = prefill(COUNT, 48.0, 24.0)
    kept = (8 / tp) * 2 * 4 * 2.0  # heads, key and value of width 4
    expected = COUNT * passed_around(48.0, kept, cp)
    plain = step(laid(DENSE, Layout(tp=tp, cp=cp)), group)
    assert plain["gather-context"].work.wire_bytes == pytest.approx(expected)
    around = step(laid(DENSE, Layout(tp=tp, cp=cp), ring_attention=True), group)
    assert "gather-context" not in around
    assert around["attention"].work.wire_bytes == pytest.approx(expected)
    latents = step(laid(LATENTS, Layout(tp=tp, cp=cp)), group)
    shared = (LATENT.latent + LATENT.rope_dim) * 2.0  # one for all heads
    wanted = COUNT * passed_around(48.0, shared, cp)
    assert latents["gather-context"].work.wire_bytes == pytest.approx(wanted)


def test_devices_that_share_a_context_lie_as_far_apart_as_those_that_share_matrices_reach() -> None:
    # Eight share matrices in each of two boxes: keys come from the other one.
    ops = step(laid(DENSE, Layout(tp=8, cp=2)), PREFILL)
    cache = COUNT * NEW * 2 * 4 * 2.0
    work = ops["gather-context"].work
    assert (work.wire_bytes, work.network_bytes) == (0, cache / 2)
    assert ops["all-reduce"].work.network_bytes == 0
    inside = step(laid(DENSE, Layout(tp=2, cp=4)), PREFILL)["gather-context"].work
    assert (inside.wire_bytes, inside.network_bytes) == (4 * cache * 3 / 4, 0)


def test_a_ring_of_keys_hides_behind_the_attention() -> None:
    deployment = laid(DENSE, Layout(cp=8), ring_attention=True)
    op = step(deployment, PREFILL)["attention"]
    time = roof(op, deployment)
    assert time.wire > 0
    assert time.overlapped == max(time.compute, time.memory, time.wire)


@pytest.mark.parametrize("cp", [2, 4, 8])
def test_outputs_of_parts_of_a_cache_are_summed_with_their_two_weights(cp: int) -> None:
    deployment = laid(DENSE, Layout(cp=cp))
    node = replace(deployment.node, link=wires(100.0, topology="host"))
    op = step(replace(deployment, node=node), DECODE)["all-reduce-attention"]
    out = COUNT * 8 * (4 + 2) * 2.0  # heads, width 4 and two sums, 16 bits
    assert op.work.wire_bytes == pytest.approx(2 * (cp - 1) / cp * out)


def test_a_layer_of_experts_takes_and_leaves_tokens_split() -> None:
    # The part before scatters its sum; behind the experts the tokens are gathered.
    deployment = laid(of(HEADS, WIDE, EXPERTS, layers=2), Layout(tp=4, dp=2, ep=8))
    node = replace(deployment.node, link=wires(100.0, topology="host"))
    ops = step(replace(deployment, node=node), PREFILL)
    stream = COUNT / 2 * NEW * D * 2.0
    assert ops["all-reduce"].repeat == 2  # of the dense layer
    for name in ("reduce-scatter", "all-gather"):
        assert ops[name].repeat == 1
        assert ops[name].work.wire_bytes == pytest.approx(0.75 * stream)
    assert ops["router"].dims["m"] == COUNT / 2 * NEW / 4
    assert ops["shared-gate-up"].dims["n"] == 2 * EXPERTS.shared_width
