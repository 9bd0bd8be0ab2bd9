"""Arrays and work of recurrent states, as many bytes as the cost model counts."""

import numpy as np
import pytest

from roofline.bench.backend import Sizes, bytes_of
from roofline.bench.gpu.launch import LibraryCall
from roofline.bench.gpu.recurrent_states import decays, strengths
from roofline.bench.probe import find, points
from roofline.cost.kernels import recurrent
from tests.bench.gpu.test_marshalling import SKU
from tests.bench.predicting import dims_of
from tests.bench.probes import made
from tests.microbench.elements import widen

NAMES = [
    f"{layer}-{phase}"
    for layer in ("gated-delta", "convolution")
    for phase in ("decode", "prefill")
]


def held(name: str, at: dict[str, int]) -> float:
    """Bytes of a probe's arrays, its constants left out. [B]"""
    sizes = Sizes()
    find(name).probe.arguments(sizes, at)
    return bytes_of(sizes.numbers) + sizes.room


@pytest.mark.parametrize("name", ["gated-delta-decode", "gated-delta-prefill"])
def test_a_state_is_read_and_written_once(name: str) -> None:
    """Buffers that a run makes itself: outputs and new states; gates are constants."""
    probe = find(name).probe
    for point in points(probe):
        work = probe.work(point.at)
        tokens = point.at["batch"] * point.at["new"]
        outputs = 2 * tokens * point.at["heads"] * point.at["value_dim"]
        gate = 2 * tokens * point.at["heads"]
        state = work.kv_bytes / 2.0
        taken = held(name, dict(point.at)) + outputs + gate + state
        assert taken == pytest.approx(work.kv_bytes + work.activation_bytes, rel=0.02)


def test_states_are_what_decoding_streams() -> None:
    for name in ("gated-delta-decode", "convolution-decode"):
        probe = find(name).probe
        assert probe.streamed == ("state",)
        assert probe.states == ("cold",)


@pytest.mark.parametrize("name", NAMES)
def test_a_form_sees_the_layer(name: str) -> None:
    probe = find(name).probe
    for point in points(probe):
        dims = dims_of(point, probe.form)
        if "channels" in point.at:
            keys = 2 * point.at["key_heads"] * point.at["key_dim"]
            assert dims["channels"][0] == keys + point.at["heads"] * point.at["value_dim"]
        else:
            assert dims["sequences"][0] == point.at["batch"] * point.at["heads"]
            assert dims["chunk"][0] == recurrent.CHUNK
            assert dims["alone"][0] == 0.0


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_imported_before_a_step_runs(name: str) -> None:
    probe = find(name).probe
    assert probe.kernels is not None
    point = min(points(probe), key=lambda point: held(name, dict(point.at)))
    (call,) = probe.kernels(SKU, **made(probe, point.at))
    assert isinstance(call, LibraryCall)


def test_kernels_are_tuned_once_for_each_number_of_heads() -> None:
    for name in NAMES:
        probe = find(name).probe
        assert probe.build_s > 0.0
        assert len({point.build for point in points(probe)}) == 4


def test_states_shrink_and_old_values_are_replaced_in_part() -> None:
    assert (decays(2, 3, 4) <= 0.0).all()
    assert decays(2, 3, 4).min() < -0.1
    share = widen(strengths(2, 3, 4))
    assert ((share >= 0.0) & (share <= 1.0)).all()
    assert np.ptp(share) > 0.5
