"""Weights and caches outside device memory: the time to load it and the room it leaves."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from roofline.cost.deployment import KEPT, Deployment, Offload
from roofline.cost.layout import Layout
from roofline.cost.memory import MemoryUse, held, layer_bytes
from roofline.cost.roof import StepTime, parts, roof
from roofline.cost.step import SequenceGroup, decode, prefill, step
from roofline.errors import InputError
from roofline.records import replace
from tests.cases import examples
from tests.cost.networks import total
from tests.cost.spread import DENSE, NETWORKS, laid, spreads
from tests.pricing import seconds
from tests.serving.deployments import on

SEVERAL = settings(max_examples=examples(50), deadline=None)
PREFILL, DECODE = prefill(8.0, 24.0), decode(8.0, 31.0)
BY_PART: dict[str, Callable[[float], Offload]] = {
    "weights": lambda share: Offload(weights=share),
    "kv": lambda share: Offload(kv=share),
}
PHASES = st.sampled_from([PREFILL, DECODE])


def parts_of(deployment: Deployment, group: SequenceGroup) -> StepTime:
    ops = step(deployment, group)
    return parts((op, roof(op, deployment, float(op.repeat))) for op in ops.values())


def held_by(deployment: Deployment) -> MemoryUse:
    return held(deployment, batch=8, context=32.0, step_tokens=192.0, step_rows=8)


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("group", [PREFILL, DECODE])
def test_a_share_of_nothing_is_no_offload(kind: str, group: SequenceGroup) -> None:
    kept = laid(NETWORKS[kind], Layout(tp=2))
    for none in (Offload(), Offload(0.0, 0.0, "nvme", prefetch=False)):
        other = replace(kept, offload=none)
        assert step(kept, group) == step(other, group)
        assert held_by(kept) == held_by(other)
    assert not KEPT.any


@pytest.mark.slow
@SEVERAL
@given(spreads(pp=False), PHASES, st.lists(st.floats(0, 1), min_size=2, max_size=4), st.booleans())
def test_the_more_is_kept_outside_the_longer_a_step_takes(
    case: tuple[str, Layout], group: SequenceGroup, shares: list[float], prefetch: bool
) -> None:
    kind, layout = case
    for part, outside in BY_PART.items():
        times = []
        for share in sorted(shares):
            offload = replace(outside(share), prefetch=prefetch)
            deployment = laid(NETWORKS[kind], layout, offload=offload)
            times.append(float(seconds(step(deployment, group), deployment)))
        assert all(a <= b * (1 + 1e-12) for a, b in pairwise(times)), part


@pytest.mark.slow
@SEVERAL
@given(spreads(pp=False), PHASES, st.floats(0.01, 1), st.floats(0, 1), st.floats(0, 1))
def test_loading_ahead_takes_between_the_longer_and_both(
    case: tuple[str, Layout], group: SequenceGroup, weights: float, kv: float, overlap: float
) -> None:
    kind, layout = case
    ahead, waiting, slow = (
        laid(NETWORKS[kind], layout, offload=offload, overlap=overlap)
        for offload in (
            Offload(weights, kv),
            Offload(weights, kv, prefetch=False),
            Offload(weights, kv, "nvme"),
        )
    )
    kept = laid(NETWORKS[kind], layout, overlap=overlap)
    without = float(seconds(step(kept, group), kept))
    mine = parts_of(ahead, group)
    both = float(seconds(step(waiting, group), waiting))
    one = float(seconds(step(ahead, group), ahead))
    # Experts are loaded when the router has chosen them, the rest behind all that goes before.
    chosen = float(mine.chosen)
    assert both == pytest.approx(without + chosen + float(mine.host))
    assert one == pytest.approx(max(without + chosen, float(mine.host)))
    assert float(seconds(step(slow, group), slow)) >= one * (1 - 1e-12)


@SEVERAL
@given(spreads(), st.floats(0, 1), st.floats(0, 1))
@example(("latents", Layout()), 0.0, 1.0 - 2.0**-53)
def test_what_is_outside_is_no_longer_on_the_device(
    case: tuple[str, Layout], weights: float, kv: float
) -> None:
    kind, layout = case
    # One stage, so that the fullest one is the same before and after.
    layout = replace(layout, pp=1)
    inside, outside = (
        held_by(laid(NETWORKS[kind], layout, offload=offload))
        for offload in (KEPT, Offload(weights, kv))
    )
    moved = (inside.weights - outside.weights) + (inside.kv - outside.kv)
    assert float(outside.host) == pytest.approx(float(moved), abs=1e-6)
    # What is left where almost all goes out is rounded as the whole is.
    rounding = 4.0 * float(np.spacing(inside.kv))
    assert float(outside.kv) == pytest.approx(float(inside.kv) * (1 - kv), abs=rounding)
    assert inside.host == inside.buffer == 0
    assert 0 <= outside.buffer <= outside.host
    assert outside.activations == inside.activations
    assert outside.taken <= inside.taken * (1 + 1e-12)


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_a_step_loads_the_outside_share_of_its_layers_by_hand(tp: int) -> None:
    deployment = laid(DENSE, Layout(tp=tp), offload=Offload(weights=0.25))
    op = step(deployment, DECODE)["load-weights"]
    (block,) = DENSE.kinds
    moved = 0.25 * 4 * layer_bytes(deployment, block)
    assert op.work.host_bytes == moved
    assert op.wire_s == moved / 8.0
    assert (roof(op, deployment).host, roof(op, deployment).overlapped) == (op.wire_s, op.wire_s)


def test_a_step_loads_what_it_reads_of_the_cache_and_puts_back_what_it_writes() -> None:
    deployment = laid(DENSE, Layout(), offload=Offload(kv=0.5))
    ops = step(deployment, DECODE)
    # 8 sequences, 4 layers, 8 heads of 4 + 4 elements: 32 tokens read, one written.
    assert ops["load-cache"].work.host_bytes == 0.5 * 8 * 4 * 64 * 2 * (32 + 1)
    assert total(ops).kv_bytes == total(step(laid(DENSE, Layout()), DECODE)).kv_bytes


@pytest.mark.parametrize("share", [-0.1, 1.5])
def test_shares_are_from_nothing_to_everything(share: float) -> None:
    for part, outside in BY_PART.items():
        with pytest.raises(InputError, match=f"offloaded share of {part}"):
            outside(share)


@pytest.mark.parametrize("moved", [Offload(weights=0.5), Offload(kv=0.5), Offload(least=True)])
def test_nothing_is_kept_on_a_host_that_a_device_has_no_wires_to(moved: Offload) -> None:
    placed = on("llama-3.2-1b", "tpu-v5e")
    assert not placed.node.gpu.links.get("pcie")
    with pytest.raises(InputError, match="no link to a host"):
        replace(placed, offload=moved)
