"""Which kernel, and of which shape, an operator asks measurements for."""

from dataclasses import replace

import numpy as np
import pytest

from roofline.api.setting import deployed
from roofline.cost.calibration.asked import asked
from roofline.cost.calibration.pricing import GpuCalibration
from roofline.cost.calibration.wires import payload_of
from roofline.cost.deployment import Deployment
from roofline.cost.kernels import calibrated
from roofline.cost.kernels.form import machine
from roofline.cost.layout import SINGLE, Layout
from roofline.cost.roof import roof
from roofline.cost.step import Group, decode, prefill
from roofline.cost.work import Op
from roofline.hardware.catalog import gpu
from roofline.model.catalog import architecture
from roofline.serving.stages import through


def deployment(model: str, device: str, layout: Layout = SINGLE) -> Deployment:
    """Priced by measured kernels, and by nothing else."""
    given = deployed(architecture(model), gpu(device), None, layout, calibration="auto")
    assert isinstance(given.calibration, GpuCalibration)
    return replace(given, calibration=replace(given.calibration, fallback=False))


def first_stage(given: Deployment, group: Group) -> dict[str, Op]:
    return {name: op for name, (op, _) in through(given, group)[0].ops.items()}


@pytest.mark.parametrize("layout", [Layout(tp=8, pp=2), Layout(tp=4, pp=2)])
def test_what_is_sent_to_another_node_is_not_priced_as_inside_one(layout: Layout) -> None:
    given = deployment("llama-3.1-70b", "h100-sxm", layout)
    op = first_stage(given, decode(16.0, 2048.0))["send"]
    inside = float(op.work.network_bytes) == 0.0
    assert inside == (layout.devices <= 8)
    assert (payload_of(op) is not None) == inside
    assert (roof(op, given).measured is not None) == inside


@pytest.mark.parametrize("device", ["h100-pcie", "h100-nvl", "a100-pcie"])
def test_bridges_of_pairs_are_not_taken_for_a_switch(device: str) -> None:
    """More devices than a bridge joins talk through PCIe, or over a part of the wires each."""
    given = deployment("llama-3.1-70b", device, Layout(tp=4))
    for group in (prefill(1.0, 2048.0), decode(16.0, 2048.0)):
        for op in first_stage(given, group).values():
            if op.kind == "collective":
                time = roof(op, given)
                assert time.measured is None, op.name
                assert float(time.seconds) == float(np.max(op.wire_s)), op.name


def attention_of(given: Deployment, group: Group, begin: str) -> tuple[Op, float]:
    """Attention of a step, and what it takes over the least that published rates allow."""
    ops = first_stage(given, group)
    op = next(op for name, op in ops.items() if name.startswith(begin))
    time = roof(op, given)
    return op, float(np.asarray(time.seconds)) / float(np.asarray(time.overlapped))


@pytest.mark.parametrize("cp", [2, 4, 8])
def test_devices_that_share_a_long_prompt_take_their_share_of_its_attention(cp: int) -> None:
    """All pairs of a causal mask are split evenly, whatever queries a device has."""
    group = prefill(1.0, 65536.0)
    alone, shared = (
        attention_of(deployment("llama-3.1-8b", "h100-sxm", Layout(cp=each)), group, "attention")
        for each in (1, cp)
    )
    assert shared[1] == pytest.approx(alone[1], rel=0.1)


def test_a_window_of_wide_keys_is_not_taken_for_latent_attention_without_one() -> None:
    given = deployment("mimo-v2-flash", "h200-sxm", Layout(tp=8))
    op, over = attention_of(given, prefill(8.0, 65536.0), "attention-window")
    whole = first_stage(given, prefill(8.0, 65536.0))["attention"]
    assert (op.dims["head_dim"], op.dims["value_dim"]) == (192.0, 128.0)
    assert float(np.asarray(roof(op, given).seconds)) < float(
        np.asarray(roof(whole, given).seconds)
    )
    assert over < 20.0
    decoded, _ = attention_of(given, decode(8.0, 65536.0), "attention-window")
    assert roof(decoded, given).measured is not None


def test_keys_that_are_chosen_cost_what_is_chosen() -> None:
    given = deployment("deepseek-v3.2", "h200-sxm", Layout(tp=8))
    op, over = attention_of(given, prefill(1.0, 65536.0), "attention-absorbed")
    known = roof(op, given).measured
    assert known is not None
    assert "chosen" in known.assumed
    assert over < 10.0


def test_a_chunk_holds_its_own_tokens_only() -> None:
    given = deployment("llama-4-scout-17b-16e", "h200-sxm", Layout(tp=8))

    def seconds(group: Group) -> float:
        op, _ = attention_of(given, group, "attention-chunk-8192")
        return float(np.asarray(roof(op, given).seconds))

    assert seconds(decode(64.0, 8192.0 + 100.0)) == seconds(decode(64.0, 100.0))
    assert seconds(decode(64.0, 8191.0)) > seconds(decode(64.0, 4000.0)) > seconds(decode(64.0, 50))
    assert seconds(prefill(1.0, 65536.0)) == pytest.approx(seconds(prefill(8.0, 8192.0)), rel=1e-9)


def test_summaries_of_groups_of_tokens_are_not_taken_for_a_window_alone() -> None:
    given = deployment("deepseek-v4-flash", "h200-sxm", Layout(tp=8))
    for name, op in first_stage(given, decode(512.0, 131072.0)).items():
        if name.startswith("attention-compressed") and float(np.asarray(op.dims["ratio"])) > 0:
            assert roof(op, given).measured is None, name


def test_a_ring_of_keys_takes_as_long_as_its_wires() -> None:
    given = deployment("llama-3.1-8b", "l40s", Layout(cp=8))
    given = replace(given, options=replace(given.options, ring_attention=True))
    op, _ = attention_of(given, prefill(1.0, 4096.0), "attention")
    assert float(np.asarray(roof(op, given).seconds)) >= float(np.asarray(op.wire_s)) > 0.0


@pytest.mark.parametrize("device", ["a100-sxm", "h100-sxm", "l40s", "rtx-4090", "b200-sxm"])
@pytest.mark.parametrize("model", ["llama-3.1-8b", "mixtral-8x7b", "deepseek-v3"])
@pytest.mark.parametrize("weights", ["bf16", "fp8", "int8", "int4-awq"])
def test_no_fit_multiplies_or_reads_faster_than_was_published(
    device: str, model: str, weights: str
) -> None:
    """Activations may be in the last-level cache; products, weights and key/value caches not."""
    given = deployed(architecture(model), gpu(device), None, weights=weights, calibration="auto")
    rate = given.node.gpu.hbm_bytes_per_s
    sizes = np.array([1.0, 16.0, 256.0])
    for group in (prefill(sizes, 4096.0), decode(sizes, 100.0), decode(sizes, 30000.0)):
        for name, op in first_stage(given, group).items():
            assert isinstance(given.calibration, GpuCalibration)
            known = given.calibration.price(op, given.node.gpu)
            if known is None or op.kind == "pointwise":
                continue
            compute = op.work.flops / given.node.gpu.rate(op.arithmetic) if op.arithmetic else 0.0
            cold = op.work.weight_bytes + op.work.kv_bytes
            least = np.maximum(compute, cold / rate)
            assert np.all(known.seconds >= least * (1.0 - 1e-9)), name


def test_the_cache_of_a_layer_is_not_left_from_the_step_before() -> None:
    """An H100 holds 50 MB; a kernel that is measured alone finds its cache there."""
    given = deployment("llama-3.1-8b", "h100-sxm")
    small = first_stage(given, decode(4.0, 2048.0))["attention"]
    known = roof(small, given).measured
    assert known is not None
    assert known.found is not None
    model = known.found.fit.model
    wanted = asked(small, given.node.gpu)
    assert wanted is not None
    warm = calibrated.seconds(model, wanted.dims, machine(given.node.gpu, "bf16"))
    assert float(small.work.kv_bytes) < given.node.gpu.l2_bytes
    assert float(known.seconds) > float(warm[0])


def test_conversions_take_time_where_no_product_has_it() -> None:
    """A calibration of 16-bit products only has no product that makes its own inputs."""
    given = deployed(
        architecture("llama-3.1-8b"), gpu("h100-sxm"), None, weights="fp8", calibration="auto"
    )
    assert isinstance(given.calibration, GpuCalibration)
    labels = tuple(each for each in given.calibration.labels if "fp8" not in each.variant)
    bare = replace(given, calibration=replace(given.calibration, labels=labels))
    op = first_stage(given, decode(16.0, 2048.0))["quantise-qkv"]
    assert float(roof(op, given).seconds) == 0.0
    assert float(roof(op, bare).seconds) > 0.0


@pytest.mark.parametrize(("batch", "context"), [(1.0, 65536.0), (32.0, 4096.0)])
@pytest.mark.parametrize("device", ["a100-sxm", "h100-sxm"])
def test_a_chunk_takes_no_leap_where_another_kernel_takes_over(
    device: str, batch: float, context: float
) -> None:
    """Twice the queries on the same keys are at most twice the work."""
    given = deployment("llama-3.1-8b", device)
    times = []
    for new in (2.0**each for each in range(2, 11)):
        op = first_stage(given, prefill(batch, context, context - new))["attention"]
        known = roof(op, given).measured
        assert known is not None
        assert known.assumed
        times.append(float(known.seconds))
    ratios = np.array(times[1:]) / np.array(times[:-1])
    assert np.all(ratios < 2.1)
    assert np.all(ratios > 0.95)
