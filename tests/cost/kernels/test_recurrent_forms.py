"""Laws and independent counts of recurrent layers, encoders, hyper-connections and conversions."""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import pytest

from roofline.cost.kernels import encoder, hyper, mlp, pointwise, recurrent
from roofline.cost.kernels.catalog import FORMS
from roofline.cost.kernels.form import Form, Machine, cached_traffic_time, machine
from roofline.cost.work import Array
from roofline.hardware.catalog import gpu
from roofline.records import replace

H100: Final = machine(gpu("h100-sxm"), "bf16")
COUNT: Final = 40

Columns = dict[str, Array]


def sizes(low: float, high: float, seed: int) -> Array:
    return np.floor(2.0 ** np.random.default_rng(seed).uniform(low, high, COUNT))


def full(value: float) -> Array:
    return np.full(COUNT, value)


def convolved(new: Array | None = None, batch: Array | None = None) -> Columns:
    new = sizes(0, 15, 1) if new is None else new
    batch = sizes(0, 6, 2) if batch is None else batch
    return recurrent.convolution_dims(batch, new, 256.0 * sizes(0, 6, 3), full(4.0))


def states(new: Array | None = None, batch: Array | None = None, *, alone: bool = False) -> Columns:
    new = sizes(0, 15, 1) if new is None else new
    batch = sizes(0, 6, 2) if batch is None else batch
    heads = 2.0 * sizes(0, 5, 3)
    wide = full(128.0)
    return recurrent.state_dims(batch, new, heads / 2, heads, wide, wide, full(0.0), alone=alone)


def encoded(kernel: str = "fa3", seq: Array | None = None) -> Columns:
    seq = sizes(0, 14, 1) if seq is None else seq
    width = np.random.default_rng(5).choice([64.0, 72.0, 80.0], COUNT)
    return encoder.encoder_dims(sizes(0, 6, 2), seq, sizes(0, 5, 3), width, kernel, "hopper")


def mixed() -> Columns:
    return hyper.hyper_dims(sizes(0, 17, 1), full(7168.0), full(4.0), full(2.0))


def searched() -> Columns:
    return pointwise.difference_dims(sizes(0, 15, 1), 32.0 * sizes(0, 11, 2), "hopper")


CASES: Final[Mapping[str, tuple[Form, Callable[[], Columns]]]] = {
    "convolution": (recurrent.CONVOLUTION, convolved),
    "convolution step": (recurrent.CONVOLUTION_STEP, lambda: convolved(full(3.0))),
    "convolution token": (recurrent.CONVOLUTION_TOKEN, lambda: convolved(full(1.0))),
    "scan": (recurrent.SCAN, states),
    "whole scan": (recurrent.SCAN, lambda: states(alone=True)),
    "step": (recurrent.STEP, lambda: states(full(4.0))),
    "token": (recurrent.TOKEN, lambda: states(full(1.0))),
    "encoder": (encoder.FORM, encoded),
    "triton encoder": (encoder.FORM, lambda: encoded("triton")),
    "streams before": (hyper.HYPER["pre"], mixed),
    "streams after": (hyper.HYPER["post"], mixed),
    "mlp": (
        mlp.FORM,
        lambda: mlp.mlp_dims(sizes(0, 17, 1), full(7168.0), full(2048.0), full(1.0)),
    ),
    "scaling": (pointwise.CONVERSION["scale_matrix"], searched),
    "searching": (pointwise.CONVERSION["computescale"], searched),
    "difference": (pointwise.CONVERSION["difference"], searched),
}


def times(form: Form, dims: Columns, device: Machine = H100, **over: float) -> Array:
    constants = {constant.name: constant.prior for constant in form.constants} | over
    return form.seconds(dims, device, constants)


@pytest.mark.parametrize("name", CASES)
def test_times_are_positive_and_finite_at_every_bound(name: str) -> None:
    form, dims = CASES[name][0], CASES[name][1]()
    for pick in ("low", "prior", "high"):
        constants = {c.name: float(getattr(c, pick)) for c in form.constants}
        found = form.seconds(dims, H100, constants)
        assert np.isfinite(found).all()
        assert (found > 0).all()
        assert len(form.regime(dims, H100, constants)) == COUNT
    assert all((dims[axis] > 0).all() for axis in form.coordinates)
    assert form in FORMS.values()


@pytest.mark.parametrize("name", [name for name in CASES if name != "difference"])
@pytest.mark.parametrize("rate", ["flops_per_s", "hbm_bytes_per_s", "l2_bytes_per_s"])
def test_a_faster_device_is_never_slower(name: str, rate: str) -> None:
    form, dims = CASES[name][0], CASES[name][1]()
    faster = replace(H100, **{rate: 2.0 * getattr(H100, rate)})
    assert (times(form, dims, faster) <= times(form, dims) * (1 + 1e-12)).all()


@pytest.mark.parametrize("name", CASES)
def test_rows_are_priced_one_by_one(name: str) -> None:
    form, dims = CASES[name][0], CASES[name][1]()
    alone = [times(form, {k: v[i : i + 1] for k, v in dims.items()})[0] for i in range(COUNT)]
    np.testing.assert_array_equal(times(form, dims), alone)


GROWING: Final[Mapping[str, tuple[Form, Callable[[Array], Columns]]]] = {
    "convolution": (recurrent.CONVOLUTION, lambda n: convolved(n, full(4.0))),
    "convolution step": (recurrent.CONVOLUTION_STEP, lambda n: convolved(full(1.0), n)),
    "scan": (recurrent.SCAN, lambda n: states(n, full(4.0))),
    "whole scan": (recurrent.SCAN, lambda n: states(n, full(4.0), alone=True)),
    "step": (recurrent.STEP, lambda n: states(full(1.0), n)),
    "verify": (recurrent.STEP, lambda n: states(n, full(8.0))),
    "encoder": (encoder.FORM, lambda n: encoded(seq=n)),
    "triton encoder": (encoder.FORM, lambda n: encoded("triton", n)),
}


@pytest.mark.parametrize("name", GROWING)
def test_twice_as_much_takes_longer(name: str) -> None:
    form, made = GROWING[name]
    few = sizes(0, 12, 8)
    assert (times(form, made(2.0 * few)) >= times(form, made(few)) * (1 - 1e-12)).all()


def test_traffic_of_a_small_set_passes_the_cache_and_of_a_large_one_memory() -> None:
    constants = {"cache": 1.0, "memory": 1.0, "held": 1.0}
    traffic = np.array([1e9, 1e9])
    small, large = cached_traffic_time(
        traffic, np.array([1.0, 1e4]) * H100.l2_bytes / 10, H100, constants
    )
    assert small == pytest.approx(1e9 / H100.l2_bytes_per_s, rel=0.01)
    assert large == pytest.approx(1e9 / H100.hbm_bytes_per_s, rel=0.01)
    blind = replace(H100, l2_bytes=0.0)
    assert cached_traffic_time(traffic, traffic, blind, constants) == pytest.approx(
        1e9 / H100.hbm_bytes_per_s
    )


def test_a_step_moves_the_state_once_in_and_once_out_for_each_token() -> None:
    """Counted for one head of 2 × 3 and as many sequences as leave only traffic."""
    many, new = 1e9, 3
    dims = recurrent.state_dims(
        *(np.array([value]) for value in (many, float(new), 1.0, 1.0, 2.0, 3.0, 0.0))
    )
    bare = {"cache": 1.0, "memory": 1.0, "held": 1.0, "start": 0.0, "token": 0.0, "block": 0.0}
    moved = 0
    for _ in range(2 * 3):
        moved += 4  # the state is read
    for _ in range(new):
        moved += 2 * 3 * 4  # the state is written
        moved += 2 * (2 + 2) + 2 * (3 + 3)  # query, key; value, output
    expected = many * moved / H100.hbm_bytes_per_s
    assert recurrent.STEP.seconds(dims, H100, bare)[0] == pytest.approx(expected)


@pytest.mark.parametrize("solved", [True, False])
def test_a_scan_multiplies_whole_chunks(solved: bool) -> None:
    """Counted product by product over the chunks of one sequence, masked pairs included."""
    new, key_heads, heads, key, value, chunk = 96, 1, 2, 4, 3, 32
    columns = (1.0, new, key_heads, heads, key, value, chunk)
    dims = recurrent.state_dims(*(np.array([float(v)]) for v in columns), solved=solved)
    flops = 0
    for _ in range(0, new, chunk):
        for _ in range(2 if solved else 1):
            flops += 2 * key_heads * chunk * chunk * key  # scores
            flops += 2 * heads * chunk * chunk * value  # values by scores
        flops += (3 if solved else 2) * 2 * heads * chunk * key * value  # read, update; take out
    assert recurrent.scan_flops(dims)[0] == flops


def test_short_prompts_take_a_part_of_a_chunk() -> None:
    new = np.array([1.0, 16.0, 17.0, 64.0, 65.0])
    one = np.ones(5)
    dims = recurrent.state_dims(one, new, one, one, 128 * one, 128 * one, 0 * one)
    found = recurrent.scan_flops(dims)
    assert found[0] == found[1] < found[2] < found[3]
    assert found[4] == 2 * found[3]


def test_a_whole_scan_takes_as_many_waves_as_states_fill_the_device() -> None:
    constants = {c.name: c.prior for c in recurrent.SCAN.constants}
    one, sms = np.ones(3), H100.multiprocessors
    heads = np.array([1.0, sms, sms + 1.0])
    dims = recurrent.state_dims(
        one, 640 * one, heads, heads, 128 * one, 128 * one, 0 * one, alone=True
    )
    _, serial, _ = recurrent.scan_terms(dims, H100, constants)
    assert serial.tolist() == pytest.approx([10 * constants["chunk"] * n for n in (1, 1, 2)])


def test_an_engine_that_scans_with_one_kernel_is_told_by_its_generation() -> None:
    dims = states()
    assert recurrent.scheduled(dims, "vllm", "hopper")["alone"].all()
    assert not recurrent.scheduled(dims, "vllm", "ada")["alone"].any()
    assert not recurrent.scheduled(dims, "sglang", "hopper")["alone"].any()
    assert recurrent.scheduled(convolved(), "vllm", "hopper").keys() == convolved().keys()


@pytest.mark.parametrize(
    ("engine", "generation", "rows"),
    [
        ("vllm", "hopper", 192),
        ("sglang", "blackwell", 256),
        ("sglang", "blackwell-ultra", 128),
        ("sglang", "ada", 64),
        ("trtllm", "hopper", 128),
        ("trtllm", "blackwell", 256),
        ("vllm", "ampere", 128),
    ],
)
def test_blocks_have_the_rows_of_the_kernel_that_an_engine_takes(
    engine: str, generation: str, rows: int
) -> None:
    assert (encoder.scheduled(encoded(), engine, generation)["rows"] == rows).all()


def test_the_last_wave_of_blocks_takes_as_long_as_a_full_one() -> None:
    """One more head than one for each multiprocessor takes a second wave."""
    sms = H100.multiprocessors
    heads = np.array([sms, sms + 1, 2 * sms])
    one = np.ones(3)
    dims = encoder.encoder_dims(one, 192 * one, heads, 64 * one, "fa3", "hopper")
    constants = {c.name: c.prior for c in encoder.FORM.constants} | {"uneven": 1.0}
    _, blocks, _ = encoder.parts(dims, H100, constants)
    assert blocks[1] == pytest.approx(2 * blocks[0])
    assert blocks[2] == pytest.approx(blocks[1])


def test_streams_move_as_counted_and_two_sites_take_twice_one() -> None:
    tokens, hidden, streams = 2**24, 64, 4
    dims = hyper.hyper_dims(*(np.array([float(v)]) for v in (tokens, hidden, streams, 1)))
    bare = {"cache": 1.0, "memory": 1.0, "held": 1.0, "launch": 0.0}
    moved = sum(2 * hidden for _ in range(streams))  # streams in
    moved += 2 * hidden  # the part's output in
    moved += sum(2 * hidden for _ in range(streams))  # streams out
    found = hyper.HYPER["post"].seconds(dims, H100, bare)[0]
    assert found == pytest.approx(tokens * moved / H100.hbm_bytes_per_s, rel=1e-4)
    twice = hyper.HYPER["post"].seconds({**dims, "sites": np.array([2.0])}, H100, bare)[0]
    assert twice == pytest.approx(2 * found)
    assert hyper.flops(dims)[0] == 2 * tokens * (streams * hidden) * (streams + streams + 16)


def test_a_difference_is_small_where_memory_bounds_both_kernels() -> None:
    """Scaling reads and writes a row; finding its scale reads no more, as long as it stays."""
    form = pointwise.CONVERSION["difference"]
    m, width = np.array([32768.0, 32768.0]), np.array([6144.0, 65536.0])
    dims = pointwise.difference_dims(m, width, "hopper")
    found = times(form, dims, sharpness=8.0)
    alone = m * width * 3.0 / (0.8 * H100.hbm_bytes_per_s)
    assert found[0] < 0.2 * alone[0]
    assert found[1] == pytest.approx(2.0 / 3.0 * alone[1], rel=0.15)


def test_rows_being_searched_are_read_again_from_a_cache_that_holds_them() -> None:
    """Eight rows of 65536 elements of 2 B on each of 132 multiprocessors are 138 MB."""
    form, m, width = pointwise.CONVERSION["difference"], np.array([32768.0]), np.array([65536.0])
    dims = pointwise.difference_dims(m, width, "hopper")
    memory = times(form, dims, sharpness=8.0)
    large = replace(H100, l2_bytes=1e9)
    assert m * width * 3.0 > large.l2_bytes
    cached = times(form, dims, large, sharpness=8.0)
    again = m * width * 2.0
    assert cached == pytest.approx(again / (0.4 * large.l2_bytes_per_s), rel=0.3)
    assert cached < memory


def test_a_known_constant_is_not_fitted_and_has_its_value() -> None:
    names = {c.name for c in recurrent.TOKEN.constants}
    assert names == {"start", "memory"}
    dims = states(full(1.0))
    same = times(recurrent.STEP, dims, token=8e-7, block=1e-8, cache=0.6, held=0.7)
    np.testing.assert_array_equal(times(recurrent.TOKEN, dims), same)
