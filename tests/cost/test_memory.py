"""Memory of a device, and what fits in it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.cost.memory import (
    activation_peak,
    budget,
    kv_bytes_per_sequence,
    naive_score_bytes,
    weight_bytes,
)
from roofline.hardware.serving_engine import DeviceDefault, Engine, MemoryShare
from roofline.interop.commands.memory import converted
from roofline.interop.commands.served import Room, ServerMemory
from roofline.model import parameters
from roofline.model.architecture import Architecture
from roofline.records import replace
from tests.cases import examples
from tests.cost.networks import BARE, NODE, dense, deployed, networks

SEVERAL = settings(max_examples=examples(50), deadline=None)


@SEVERAL
@given(networks())
def test_one_device_holds_every_parameter(network: Architecture) -> None:
    deployment = deployed(network)
    assert weight_bytes(deployment) == 2 * parameters.total(deployment.architecture)


@pytest.mark.parametrize("window", [1, 7, 16])
def test_a_windowed_cache_stops_growing_at_its_window(window: int) -> None:
    deployment = deployed(dense(window=window, layers=3, kv_heads=2, head_dim=8))
    held = [float(kv_bytes_per_sequence(deployment, float(s))) for s in range(1, 40)]
    assert held == [3 * 2 * 2 * 8 * 2 * min(s, window) for s in range(1, 40)]


def test_a_column_of_contexts_is_held_like_each() -> None:
    deployment = deployed(dense(window=8))
    contexts = np.array([1.0, 8.0, 9.0, 1000.0])
    each = [kv_bytes_per_sequence(deployment, float(s)) for s in contexts]
    assert list(np.asarray(kv_bytes_per_sequence(deployment, contexts))) == each


def test_cached_heads_are_split_and_then_repeated() -> None:
    network = dense(heads=8, kv_heads=4, vocab=64)
    held = [
        kv_bytes_per_sequence(deployed(network, tp=tp), 100.0)
        / kv_bytes_per_sequence(deployed(network), 100.0)
        for tp in (1, 2, 4, 8)
    ]
    assert held == [1, 1 / 2, 1 / 4, 1 / 4]


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_the_peak_of_activations_is_the_largest_set_of_buffers_alive(tp: int) -> None:
    # D = 24, N·H = 4·8, K·H = 2·8 and F = 40. Two streams of D live through a layer; beside
    # them Q, K, V and O, or gate, up and their product; at the end 56 logits in 16 and 32 bits.
    deployment = deployed(dense(vocab=56), tp=tp)
    heads, kv_heads = 4 // tp, max(2 // tp, 1)
    attention = 2 * heads * 8 + 2 * kv_heads * 8
    inner = 3 * 40 // tp
    for tokens, rows in ((100, 1), (100, 100), (1, 1)):
        layers = tokens * max(attention, inner) * 2
        logits = rows * 56 * (2 + 4)  # gathered: whole on every device
        peak = activation_peak(deployment, float(tokens), float(rows))
        assert peak == tokens * 2 * 24 * 2 + max(layers, logits)


def test_naive_scores_are_held_twice_for_each_head_of_the_device() -> None:
    # 2 sequences · 4 heads / 2 devices · 3 × 5 pairs, scores and probabilities, of 2 bytes.
    deployment = deployed(dense(), tp=2, attention="naive")
    assert naive_score_bytes(deployment, 2.0, 3.0, 5.0) == 2 * 2 * 15 * 2 * 2


def test_the_parts_of_the_memory_add_up_to_the_capacity() -> None:
    engine = Engine("some", "", DeviceDefault(0.9), 1000.0, 500.0, DeviceDefault(0.0), 16.0)
    deployment = deployed(dense(), engine=engine)
    m = budget(deployment, batch=3.0, context=50.0, step_tokens=100.0, step_rows=3.0)
    parts = (m.weights, m.activations, m.runtime, m.graphs, m.kv, m.free, m.capacity - m.budget)
    assert sum(parts) == pytest.approx(NODE.gpu.memory_bytes, rel=1e-14)
    assert m.budget == pytest.approx(0.9 * NODE.gpu.memory_bytes, rel=1e-14)
    assert (m.runtime, m.graphs) == (1000.0, 500.0)


def test_nothing_fits_where_the_weights_do_not() -> None:
    tiny = replace(NODE, gpu=replace(NODE.gpu, memory_bytes=100.0))
    held = budget(
        deployed(dense(), node=tiny), batch=1.0, context=1.0, step_tokens=1.0, step_rows=1.0
    )
    assert not held.fits
    assert held.free < 0


def test_without_a_cache_nothing_is_kept_between_steps() -> None:
    held = budget(
        deployed(dense()), batch=2.0, context=9.0, step_tokens=18.0, step_rows=2.0, cached=False
    )
    assert held.kv == 0


@SEVERAL
@pytest.mark.parametrize("of", ["device", "free", "static"])
@given(st.floats(0.05, 1.0), st.booleans())
def test_a_share_of_memory_leaves_what_the_engine_means_by_it(
    of: MemoryShare, share: float, graphs: bool
) -> None:
    engine = Engine(
        "some", "", DeviceDefault(share), 1000.0, 500.0, DeviceDefault(0.0), 16.0, memory_of=of
    )
    deployment = deployed(dense(), engine=engine, cuda_graphs=graphs)
    m = budget(deployment, batch=3.0, context=50.0, step_tokens=100.0, step_rows=3.0)
    assert m.graphs == 500.0 * graphs
    fixed = m.weights + m.activations + m.runtime + m.graphs + m.buffer
    left = {
        "device": share * m.capacity - fixed,
        "free": share * (m.capacity - fixed),
        "static": min(share * m.capacity - m.weights, m.capacity - fixed),
    }[of]
    assert m.pool == pytest.approx(left, rel=1e-9, abs=1e-6 * m.capacity)
    assert m.budget <= m.capacity * (1 + 1e-12)
    room = Room(m.capacity, m.weights, m.activations, m.runtime + m.graphs, 0.0, 1, 1.0)
    if m.pool > 0.01 * m.capacity:
        whole = converted(ServerMemory(share, of), "device", room)
        told = budget(
            deployment, batch=3.0, context=50.0, step_tokens=100.0, step_rows=3.0, utilization=whole
        )
        assert min(told.budget, m.capacity) == pytest.approx(m.budget, abs=1e-4 * m.capacity)


def test_without_cuda_graphs_their_memory_is_free() -> None:
    with_graphs, without = (deployed(dense(), cuda_graphs=graphs) for graphs in (True, False))
    graphs = replace(BARE, graph_bytes=100.0, graph_kernels=True)
    with_graphs, without = (replace(each, engine=graphs) for each in (with_graphs, without))
    assert (with_graphs.cuda_graphs, without.cuda_graphs) == (True, False)
    less, more = (
        budget(each, batch=1.0, context=9.0, step_tokens=9.0, step_rows=1.0).pool
        for each in (with_graphs, without)
    )
    assert more == less + 100.0
