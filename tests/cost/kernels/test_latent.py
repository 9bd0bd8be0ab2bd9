"""Latent attention: how kernels divide it, against their sources, and laws of the equation."""

from typing import Final

import numpy as np
import pytest

from roofline.cost.kernels import latent, latent_prefill
from roofline.cost.kernels.form import Form, Machine, machine
from roofline.cost.kernels.latent import division, in_graph, latent_dims, visits
from roofline.cost.work import Array
from roofline.hardware.catalog import gpu
from roofline.records import replace

B200: Final = machine(gpu("b200-sxm"), "bf16")
H100: Final = machine(gpu("h100-sxm"), "bf16")
L40S: Final = machine(gpu("l40s"), "bf16")
GENERATION: Final = {B200: "blackwell", H100: "hopper", L40S: "ada"}
Columns = dict[str, Array]


def shape(batch: float, context: float, heads: float, new: float = 1.0) -> list[Array]:
    return [np.array([value]) for value in (batch, new, context, heads, 2.0)]


def decoding(
    device: Machine, batch: float, context: float, heads: float, kernel: str = "", kv: float = 2.0
) -> Columns:
    given = (*shape(batch, context, heads), np.array([kv]))
    return latent_dims(*given, generation=GENERATION[device], kernel=kernel)


def time(form: Form, dims: Columns, device: Machine, **over: float) -> float:
    constants = {constant.name: constant.prior for constant in form.constants} | over
    return float(form.seconds(dims, device, constants)[0])


@pytest.mark.parametrize(
    ("batch", "context", "heads", "expected"),
    [
        # ⌊148 / 8 short blocks⌋ = 18 parts of 911 keys; at twice the context they are too long.
        (1, 16384, 128, (16, 8, 18)),
        (1, 32768, 128, (64, 2, 74)),
        # 16 · 8 blocks leave no SM for a second part: up to 1,024 keys.
        (16, 1024, 128, (16, 8, 1)),
        (16, 2048, 128, (64, 2, 4)),
        # More short blocks than SMs.
        (32, 64, 128, (64, 2, 1)),
        # Up to 32 heads they are short always, up to 8 of 8 rows; a part has 256 keys.
        (1024, 16384, 32, (16, 2, 1)),
        (1, 131072, 8, (8, 1, 148)),
        (1, 1024, 1, (8, 1, 4)),
        (1, 256, 1, (8, 1, 1)),
    ],
)
def test_blackwell_has_short_blocks_and_tall_ones(
    batch: float, context: float, heads: float, expected: tuple[float, ...]
) -> None:
    """Source: ``computeCtaAndClusterConfig`` and ``selectMlaGenerationKernel`` of TensorRT-LLM's
    ``fmhaKernels.h``, by hand; 148 SMs."""
    found = division(decoding(B200, batch, context, heads), B200)
    assert tuple(float(value[0]) for value in found) == expected


@pytest.mark.parametrize(
    ("kernel", "batch", "context", "expected"),
    [
        ("vllm_triton_mla", 1, 131072, 4),
        ("vllm_triton_mla", 1024, 131072, 4),
        ("vllm_triton_mla", 1, 64, 2),
        # 142 SMs · log2(1024 / 64) octaves over 64 · 8 blocks, rounded up.
        ("triton", 64, 1024, 2),
        ("triton", 1, 131072, 8),
        ("triton", 1024, 131072, 1),
        # TensorRT-LLM's general kernel.
        ("default", 1, 131072, 1),
    ],
)
def test_triton_splits_as_its_engine_says(
    kernel: str, batch: float, context: float, expected: float
) -> None:
    dims = decoding(L40S, batch, context, 128.0, kernel)
    assert float(division(dims, L40S)[2][0]) == expected


@pytest.mark.parametrize("heads", [1.0, 16.0, 64.0, 128.0])
def test_even_parts_fill_the_multiprocessors_and_no_more(heads: float) -> None:
    for batch in (1.0, 3.0, 40.0, 500.0):
        _, each, split = division(decoding(H100, batch, 65536.0, heads), H100)
        assert split[0] == 1 or batch * each[0] * split[0] <= 2 * H100.multiprocessors
        assert batch * each[0] * split[0] >= min(H100.multiprocessors, batch * each[0]) / 2


def test_heads_of_one_block_take_the_same_time_but_for_what_goes_in_and_out() -> None:
    found = [time(latent.DECODE, decoding(H100, 64, 8192, heads), H100) for heads in (1, 8, 16)]
    assert found == sorted(found)
    assert found[-1] < 1.1 * found[0]


def test_a_second_block_of_heads_reads_the_cache_from_the_last_level() -> None:
    one, two = (time(latent.DECODE, decoding(B200, 512, 16384, h), B200) for h in (16, 32))
    assert 1.1 * one < two < 2.0 * one


def test_a_cache_that_stays_in_the_last_level_is_read_faster() -> None:
    dims = decoding(B200, 64, 1024, 8)
    cold = replace(B200, l2_bytes=0.0)
    assert time(latent.DECODE, dims, B200) < time(latent.DECODE, dims, cold)
    large = decoding(B200, 512, 16384, 8)
    assert time(latent.DECODE, large, B200) == pytest.approx(time(latent.DECODE, large, cold))


def test_a_cache_that_is_converted_first_costs_more_than_one_that_is_not() -> None:
    times = {
        kv: time(latent.DECODE, decoding(H100, 64, 16384, 16, "flash_attention", kv), H100)
        for kv in (1.0, 2.0)
    }
    assert times[1.0] > times[2.0]
    bare = time(latent.DECODE, decoding(H100, 64, 16384, 16, "", 1.0), H100)
    assert bare < times[2.0]


def test_a_single_head_takes_longer_without_tensor_cores() -> None:
    one, two = (time(latent.DECODE, decoding(L40S, 8, 65536, h, "triton"), L40S) for h in (1, 2))
    assert one > two


def test_the_time_of_the_host_is_a_floor_outside_a_graph() -> None:
    short, long = (decoding(H100, 1, context, 16, "vllm_flashmla") for context in (64, 2**22))
    host = {c.name: c.prior for c in latent.DECODE.constants}["host"]
    assert time(latent.DECODE, short, H100) == pytest.approx(host, rel=0.01)
    assert time(latent.DECODE, in_graph(short), H100) < host / 2
    after = time(latent.DECODE, in_graph(long), H100)
    assert time(latent.DECODE, long, H100) == pytest.approx(after, rel=0.01)


@pytest.mark.parametrize("kernel", ["flash_attention", "triton"])
@pytest.mark.parametrize(("new", "context"), [(1, 1), (100, 100), (512, 512), (64, 4096)])
@pytest.mark.parametrize("heads", [1, 16, 128])
def test_visits_are_those_of_a_loop_over_blocks(
    kernel: str, new: int, context: int, heads: int
) -> None:
    given = (*shape(1.0, float(context), float(heads), float(new)), np.array([2.0]))
    dims = latent_prefill.latent_prefill_dims(*given, kernel=kernel)
    rows, each, _ = division(dims, H100)
    mean, last = visits(dims, rows)
    height = int(rows[0])
    if kernel == "flash_attention":
        # Rows go through the heads of a token, then to the next token.
        ends = [
            min(start + height - 1, heads * new - 1) // heads + 1
            for start in range(0, heads * new, height)
        ]
    else:
        ends = heads * [min(start + height, new) for start in range(0, new, height)]
    visited = [int(np.ceil((context - new + end) / 64.0)) for end in ends]
    assert each[0] == len(visited)
    assert last[0] == max(visited)
    assert mean[0] == pytest.approx(np.mean(visited), abs=1.0)


def test_one_new_token_visits_all_tiles_in_every_block() -> None:
    dims = decoding(H100, 4, 5000, 128)
    mean, last = visits(dims, division(dims, H100)[0])
    assert mean[0] == last[0] == np.ceil(5000 / 64)


def test_prefill_inside_the_latent_takes_more_arithmetic_than_expanded() -> None:
    """576 + 512 numbers a key in place of 192 + 128."""
    given = (*shape(1.0, 16384.0, 128.0, 16384.0), np.array([2.0]))
    dims = {
        kernel: latent_prefill.latent_prefill_dims(*given, kernel=kernel)
        for kernel in ("", "flash_attention")
    }
    over = {"compute": 0.7, "softmax": 1.0, "step": 1e-8, "l2": 1.0, "sharpness": 16.0}
    expanded = time(latent_prefill.FORM, dims[""], H100, **over)
    inside = time(latent_prefill.INSIDE, dims["flash_attention"], H100, **over)
    assert inside / expanded == pytest.approx(1088 / 320, rel=0.15)


def test_the_latent_of_a_token_moves_once_for_all_heads() -> None:
    given = [(*shape(1024.0, 64.0, heads, 64.0), np.array([2.0])) for heads in (1.0, 2.0)]
    times = [
        time(latent_prefill.FORM, latent_prefill.latent_prefill_dims(*each), H100, launch=1e-6)
        for each in given
    ]
    assert times[1] < 1.8 * times[0]
