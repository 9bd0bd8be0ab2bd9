"""Operators that nothing like was measured of take what such kernels usually take, assumed."""

import numpy as np
import pytest

from roofline.bench.calibrations import calibration_of, joined, own_files
from roofline.bench.engine_profiles import shipped_profile
from roofline.cost.calibration.pricing import GpuCalibration
from roofline.cost.calibration.usual import (
    ASSUMED,
    INTERCONNECT,
    KINDS,
    QUANTISE,
    THROUGH_HOST,
    UsualKernels,
    usual,
)
from roofline.cost.deployment import Deployment
from roofline.cost.engine_costs import NO_ENGINE
from roofline.cost.measured import AUTO, USUAL
from roofline.cost.roof import roof
from roofline.cost.step import SequenceGroup, step
from roofline.cost.work import CONVERSION, Op, Work
from roofline.hardware.catalog import gpu
from roofline.hardware.engine import engine as catalogued
from roofline.hardware.engine import engine_on
from roofline.hardware.machine import Gpu
from roofline.records import replace
from roofline.table import BASES
from tests.serving.deployments import on

HOPPER = gpu("h100-sxm")
TERA = replace(HOPPER, hbm_bytes_per_s=1e12, flops_per_s={"bf16": 1e15, "fp8": 2e15})
"""1 TB/s, 1 PFLOP/s: a microsecond is a megabyte or a gigaflop."""


def steps(deployment: Deployment) -> list[Op]:
    """Operators of a step that decodes and one that prefills."""
    prompt = SequenceGroup(1.0, 512.0, 512.0, "prefill")
    decode = SequenceGroup(4.0, 1.0, 512.0, "decode")
    return [op for group in (prompt, decode) for op in step(deployment, [group]).values()]


def told(op: Op, device: Gpu = TERA, *, switched: bool = True) -> float:
    found = usual(op, device, switched=switched)
    assert found is not None
    return float(found.seconds)


def test_what_takes_arithmetic_and_memory_alike_takes_the_root_of_both_squares() -> None:
    """78 GFLOP at 0.78 PFLOP/s and 85 MB at 0.85 TB/s: 100 µs each, 141 together, and the start."""
    both = Op("one", "gemm", Work(78e9, weight_bytes=85e6), arithmetic="bf16")
    assert told(both) == pytest.approx(3.6e-6 + 2**0.5 * 100e-6)
    memory = Op("one", "gemm", Work(weight_bytes=85e6), arithmetic="bf16")
    assert told(memory) == pytest.approx(103.6e-6)


@pytest.mark.parametrize("name", ["sglang", "vllm", "vllm-sync"])
def test_engines_made_for_cuda_have_one_profile_on_amd(name: str) -> None:
    """It is the file's that was fitted there: a layer of experts takes 0.1 ms or more."""
    there = calibration_of(AUTO, gpu("mi325x"), name)
    assert isinstance(there, UsualKernels)
    assert there.profile == shipped_profile(engine_on("sglang", "cdna3"))
    assert there.profile.mixture_s > 1e-4 > shipped_profile(catalogued(name)).mixture_s
    assert engine_on(name, "cdna3").name == name


@pytest.mark.parametrize("name", ["trtllm", "llamacpp", "ideal"])
def test_engines_that_were_not_measured_on_amd_keep_the_datasheet(name: str) -> None:
    assert calibration_of(AUTO, gpu("mi355x"), name) is None


def test_an_operator_with_nothing_to_do_takes_no_time() -> None:
    assert told(Op("one", "gemm", Work(), arithmetic="bf16")) == 0.0
    columns = usual(Op("one", "pointwise", Work(activation_bytes=np.array([0.0, 6e5]))), TERA)
    assert columns is not None
    assert columns.seconds == pytest.approx([0.0, 1.6e-6 + 1e-6])


def test_conversions_are_the_end_of_the_kernel_before_and_narrow_experts_are_slow() -> None:
    work = Work(activation_bytes=6e6)
    assert told(Op("one", "pointwise", work, kernel=CONVERSION)) == pytest.approx(
        QUANTISE.start + 1e-5
    )
    experts = Op("e", "moe", Work(weight_bytes=1e9), arithmetic="bf16")
    narrow = replace(experts, formats={"weights": "int4-g32-sym"})
    wide = replace(experts, formats={"weights": "fp8"})
    assert told(narrow) == pytest.approx(1e-5 + 2e-3)
    assert told(wide) == pytest.approx(1e-5 + 1e-3 / 0.75)


def test_what_is_loaded_from_the_host_is_not_a_kernel() -> None:
    assert usual(Op("load", "host", Work(host_bytes=1e9), wire_s=1.0), HOPPER) is None


@pytest.mark.parametrize(
    "deployment",
    [
        on("llama-3.1-70b", "mi300x", tp=8),
        on("mixtral-8x7b", "mi300x", tp=2, weights="fp8"),
        on("deepseek-v3", "mi300x", tp=8, weights="fp8"),
        on("granite-4.0-h-tiny", "mi300x"),
    ],
    ids=["dense", "mixture", "latent", "recurrent"],
)
def test_every_operator_is_slower_than_the_datasheet_and_says_that_it_is_assumed(
    deployment: Deployment,
) -> None:
    device = deployment.node.gpu
    for op in steps(deployment):
        found = UsualKernels().price(op, device)
        assert found is not None, op.name
        plain = float(np.squeeze(roof(op, deployment).seconds))
        assert float(np.squeeze(found.seconds)) > plain > 0, op.name
        assert BASES[int(found.basis)] == "assumed"
        assert found.basis == ASSUMED
        if op.kind == "gemm":
            assert float(np.squeeze(found.seconds)) > KINDS["gemm"].start


def test_devices_on_the_hosts_pcie_do_not_get_the_wires_of_a_switch() -> None:
    deployment = on("llama-3.1-70b", "a100-pcie", tp=8)
    assert not joined(deployment.node)
    assert joined(on("llama-3.1-70b", tp=8).node)
    assert joined(on().node)
    op = step(deployment, [SequenceGroup(64.0, 1.0, 512.0, "decode")])["all-reduce"]
    through_host = told(op, deployment.node.gpu, switched=False)
    assert through_host == pytest.approx(INTERCONNECT.start + float(op.wire_s) / THROUGH_HOST)
    assert told(op, deployment.node.gpu) < through_host


@pytest.mark.parametrize(
    ("deployment", "kind"),
    [
        (on("llama-3.1-70b", tp=16), "collective"),
        (on("llama-3.1-70b", "l40s", tp=4), "collective"),
        (on(attention="naive"), "decode-attention"),
        (on("granite-4.0-h-tiny"), "scan"),
    ],
    ids=["across nodes", "through the host", "scores in memory", "recurrent"],
)
def test_beside_measured_kernels_others_are_usual_and_without_an_engine_the_datasheets(
    deployment: Deployment, kind: str
) -> None:
    device, switched = deployment.node.gpu, joined(deployment.node)
    ops = step(deployment, [SequenceGroup(4.0, 1.0, 512.0, "d")])
    op = next(each for each in ops.values() if each.kind == kind)
    for engine in ("vllm", "ideal"):
        known = calibration_of("auto", device, engine, switched=switched)
        assert isinstance(known, GpuCalibration)
        assert known.price(ops["qkv" if "qkv" in ops else "lm-head"], device) is not None
        found = known.price(op, device)
        if engine == "ideal":
            assert found is None
        else:
            assert found == usual(op, device, switched=switched)


def test_usual_kernels_can_be_asked_for_on_any_device() -> None:
    found = calibration_of(USUAL, HOPPER, "vllm", switched=False)
    assert isinstance(found, UsualKernels)
    assert (found.name, found.switched) == ("usual kernels", False)
    assert found.profile != NO_ENGINE
    ideal = calibration_of(USUAL, HOPPER, "ideal")
    assert ideal is not None
    assert ideal.profile == NO_ENGINE


def test_usual_kernels_are_read_from_no_file() -> None:
    assert own_files(USUAL, HOPPER) == ()


def test_a_device_without_measured_kernels_has_usual_ones_where_rows_are_served_again() -> None:
    from roofline.bench.end_to_end.deploying import deployment
    from tests.bench.end_to_end.synthetic import CASE

    assert isinstance(deployment(replace(CASE, gpu="mi300x")).calibration, UsualKernels)
    assert not isinstance(deployment(CASE).calibration, UsualKernels)
