"""Products as they were measured: launched by the host, or with weights that a cache holds."""

from typing import Final

import numpy as np
import pandas as pd
import pytest

from roofline.bench.layer_rows import linear_groups
from roofline.cost.kernels.form import Dims, Form, machine
from roofline.cost.kernels.gemm import COPIES, CYCLED, EAGER, GEMM, HOST
from roofline.cost.work import Array
from roofline.hardware.catalog import gpu

L40S: Final = machine(gpu("l40s"), "bf16")
H100: Final = machine(gpu("h100-sxm"), "fp8")
BLOCKS: Final = EAGER["fp8_block"]
GRAPH: Final = GEMM["fp8_block"]


def shapes(*rows: tuple[int, int, int]) -> Dims:
    return dict(zip("mnk", np.array(rows, dtype=np.float64).T, strict=True))


def priors(form: Form, **others: float) -> dict[str, float]:
    return {constant.name: constant.prior for constant in form.constants} | others


def test_the_longer_of_host_and_device_decides() -> None:
    dims = shapes((4, 256, 256), (32768, 16384, 16384))
    values = priors(BLOCKS, host=1e-4)
    found, device = (form.seconds(dims, H100, values) for form in (BLOCKS, GRAPH))
    assert found[0] == pytest.approx(1e-4, rel=1e-6)
    assert found[1] == pytest.approx(device[1], rel=1e-6)
    assert (BLOCKS.regime(dims, H100, values) == HOST).tolist() == [True, False]


def test_only_tokens_beside_a_multiple_of_four_with_several_scales_are_padded() -> None:
    dims = shapes((4, 256, 256), (5, 256, 256), (5, 256, 128), (8, 256, 256))
    found = BLOCKS.seconds(dims, H100, priors(BLOCKS, host=1e-4, uneven=5e-5))
    assert found == pytest.approx([1e-4, 1.5e-4, 1e-4, 1e-4], rel=1e-4)


def weights(side: float) -> Array:
    """Time of one token by a square matrix of 16-bit weights, measured over that in a step. [1]"""
    form = CYCLED["filling"]["bfloat16"]
    values, dims = priors(form, held=1.03, sharp=64.0), shapes((1, int(side), int(side)))
    assert form.in_steps is not None
    measured: Array = form.seconds(dims, L40S, values) / form.in_steps.seconds(dims, L40S, values)
    return measured


def test_copies_that_a_cache_holds_are_read_faster_than_in_a_step() -> None:
    # Three copies of 32 MiB fill 96 MiB, and four of 28.9 MiB do not fit.
    assert weights(4096) < 0.5
    assert weights(3892) == pytest.approx(1.0, rel=1e-3)
    assert weights(1024) < 0.9
    assert weights(16384) == pytest.approx(1.0, rel=1e-3)


def test_a_benchmark_reads_all_copies_before_one_again() -> None:
    each = np.array([1e6, 4e7, 2e8])
    five, six = (COPIES[name].bytes(each, L40S) for name in ("filling", "cycled"))
    assert five.tolist() == [5e6, 1.2e8, 2e8]
    assert six.tolist() == [6e6, 2.4e8, 1.2e9]


@pytest.mark.parametrize(
    ("device", "engine", "kernel", "dtype", "form"),
    [
        ("h100_sxm", "vllm", "", "fp8_block", BLOCKS),
        ("l40s", "vllm", "", "fp8_block", BLOCKS),
        ("h100_sxm", "sglang", "", "fp8_block", GRAPH),
        ("b200_sxm", "trtllm", "torch_flow", "bfloat16", GEMM["bfloat16"]),
        ("l40s", "trtllm", "torch_flow", "fp8_static", CYCLED["filling"]["fp8_static"]),
        ("l40s", "trtllm", "trt_flow_/L9", "int8_wo", GEMM["int8_wo"]),
        ("l40s", "sglang", "", "bfloat16", CYCLED["cycled"]["bfloat16"]),
        ("l40s", "", "", "bfloat16", GEMM["bfloat16"]),
    ],
)
def test_products_are_read_as_they_were_measured(
    device: str, engine: str, kernel: str, dtype: str, form: Form
) -> None:
    row = {"gpu": device, "backend": engine, "version": "1", "kernel": kernel, "dtype": dtype}
    frame = pd.DataFrame([row | {"m": 1, "n": 128, "k": 128, "time_s": 1e-5}])
    (group,) = linear_groups(frame)
    assert group.form is form
