"""Prices of operators over grids, remembered, are those of every row by itself."""

import numpy as np
import pytest

from roofline.api.setting import make_deployment
from roofline.bench.calibrations import calibration_of
from roofline.cost.calibration import remembered as memories
from roofline.cost.calibration.pricing import GpuCalibration
from roofline.cost.calibration.remembered import (
    CachedCalibration,
    PriceCache,
    alike,
    at_once,
    price_many,
)
from roofline.cost.deployment import Deployment
from roofline.cost.layout import Layout
from roofline.cost.measured import MeasuredTime
from roofline.cost.roof import roof
from roofline.cost.step import SequenceGroup, step
from roofline.cost.work import Op
from roofline.errors import MissingRateError, RooflineError
from roofline.hardware.catalog import gpu
from roofline.hardware.machine import Gpu
from roofline.model.architecture import STREAMS
from roofline.model.catalog import architecture
from roofline.records import replace
from tests.serving.deployments import on


class Counting:
    """A calibration that counts what it is asked."""

    name = "counting"
    basis = "interpolated"

    def __init__(self, inner: GpuCalibration) -> None:
        self.inner, self.profile, self.rows, self.times = inner, inner.profile, 0, 0

    def price(self, op: Op, gpu: Gpu) -> MeasuredTime | None:
        """Ask, and count the rows."""
        found = self.inner.price(op, gpu)
        self.times += 1
        self.rows += 1 if found is None else np.size(found.seconds)
        return found


def calibrated(model: str = "llama-3.1-8b", layout: Layout | None = None) -> Deployment:
    deployment = on(model, "h100-sxm", layout=layout)
    known = calibration_of("auto", deployment.node.gpu, "vllm")
    return replace(deployment, calibration=known)


def counted(deployment: Deployment, memory: PriceCache) -> tuple[Counting, Deployment]:
    assert isinstance(deployment.calibration, GpuCalibration)
    counting = Counting(deployment.calibration)
    kept = CachedCalibration(counting, deployment.node.gpu, memory)
    return counting, replace(deployment, calibration=kept)


@pytest.mark.parametrize("layout", [Layout(tp=2), Layout(tp=2, dp=2, ep=4)])
def test_a_grid_prices_like_its_rows(layout: Layout) -> None:
    plain = calibrated("qwen3-30b-a3b", layout)
    _, deployment = counted(plain, PriceCache())
    batches, prompts = np.array([1.0, 2.0, 40.0]), np.array([128.0, 256.0])
    group = SequenceGroup(batches[:, None], prompts[None, :], prompts[None, :])
    for name, op in step(deployment, group).items():
        whole = roof(op, deployment).measured
        assert whole is not None, name
        for row, batch in enumerate(batches):
            for column, prompt in enumerate(prompts):
                one = step(plain, SequenceGroup(batch, prompt, prompt))[name]
                alone = roof(one, plain).measured
                assert alone is not None, name
                for field in ("seconds", "log_sd", "basis"):
                    wide = np.broadcast_to(getattr(whole, field), (3, 2))
                    assert wide[row, column] == pytest.approx(getattr(alone, field)), (name, field)


def test_what_was_asked_before_is_not_asked_again() -> None:
    memory = PriceCache()
    counting, deployment = counted(calibrated(), memory)
    group = SequenceGroup(np.array([[1.0], [2.0]]), 1.0, np.array([[100.0, 200.0, 300.0]]))
    ops = step(deployment, group)
    for op in ops.values():
        roof(op, deployment)
    asked = counting.rows
    # Attention sees the context, everything else two batches.
    assert asked == 6 + 2 * (len({alike(op) + str(op.dims) for op in ops.values()}) - 1)
    for op in step(deployment, group).values():
        roof(op, deployment)
    assert counting.rows == asked


def test_as_many_tokens_are_priced_once() -> None:
    counting, deployment = counted(calibrated(), PriceCache())
    op = step(
        deployment,
        SequenceGroup(np.array([[1.0], [2.0], [4.0]]), np.array([[64.0, 128.0, 256.0]]), 256.0),
    )["gate-up"]
    found = roof(op, deployment).measured
    assert counting.rows == 5  # 64 to 1024 tokens
    assert found is not None
    assert np.shape(found.seconds) == (3, 3)
    assert np.asarray(found.seconds)[1, 0] == np.asarray(found.seconds)[0, 1]


def test_devices_are_told_apart() -> None:
    memory = PriceCache()
    plain = calibrated()
    _, deployment = counted(plain, memory)
    faster = replace(plain.node.gpu, hbm_bytes_per_s=2 * plain.node.gpu.hbm_bytes_per_s)
    assert plain.calibration is not None
    kept = CachedCalibration(plain.calibration, faster, memory)
    other = replace(deployment, node=replace(plain.node, gpu=faster), calibration=kept)
    op = step(plain, SequenceGroup(1.0, 1.0, 100.0))["gate-up"]
    slow, fast = roof(op, deployment).measured, roof(op, other).measured
    assert slow is not None
    assert fast is not None
    assert fast.seconds < slow.seconds


def test_more_devices_than_are_told_apart_do_not_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memories, "MOST_SCOPES", 3)
    plain, memory = calibrated(), PriceCache()
    op = step(plain, SequenceGroup(np.array([[1.0], [2.0]]), 1.0, np.array([[100.0]])))["gate-up"]
    assert plain.calibration is not None
    rates = [plain.node.gpu.hbm_bytes_per_s * (1.0 + part / 8) for part in range(8)]
    asked = [
        CachedCalibration(plain.calibration, replace(plain.node.gpu, hbm_bytes_per_s=rate), memory)
        for rate in rates
    ]
    found = price_many([(each, op) for each in asked])
    for each, told in zip(asked, found, strict=True):
        alone = CachedCalibration(plain.calibration, each.gpu, PriceCache()).price(op, each.gpu)
        assert isinstance(told, MeasuredTime)
        assert alone is not None
        np.testing.assert_allclose(told.seconds, alone.seconds, rtol=1e-12)
    assert len(memory.scopes) == 3


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memories, "MOST_BYTES", 5000)
    memory = PriceCache()
    _, deployment = counted(calibrated(), memory)
    for context in range(100, 120):
        for op in step(deployment, SequenceGroup(1.0, 1.0, np.array([float(context)]))).values():
            roof(op, deployment)
    assert memory.held <= 5000
    assert len(memory.known) < 10


def steps() -> list[tuple[Deployment, Op]]:
    """Operators of networks of many kinds, layouts and formats, of prefill and of decode."""
    out = []
    batches, lengths = np.array([[1.0], [3.0], [64.0]]), np.array([[128.0, 256.0, 4096.0, 9000.0]])
    for model, layouts in (
        ("llama-3.1-8b", (Layout(), Layout(tp=4), Layout(tp=2, pp=2))),
        ("gemma-2-9b", (Layout(), Layout(tp=2))),
        ("qwen3-30b-a3b", (Layout(tp=2), Layout(tp=2, dp=2, ep=4))),
        ("deepseek-v3", (Layout(tp=8), Layout(tp=1, dp=8, ep=8))),
    ):
        for layout in layouts:
            for kv in ("bf16", "fp8"):
                plain = on(model, "h100-sxm", layout=layout, kv=kv)
                known = calibration_of("auto", plain.node.gpu, "vllm")
                deployment = replace(plain, calibration=known)
                for new in (1.0, lengths):
                    ops = step(deployment, SequenceGroup(batches, new, lengths)).values()
                    out += [(deployment, op) for op in ops]
    return out


@pytest.mark.slow
def test_what_is_looked_up_together_is_what_each_is_by_itself() -> None:
    asked, memory = steps(), PriceCache()

    def remembering(deployment: Deployment, memory: PriceCache) -> CachedCalibration:
        assert deployment.calibration is not None
        return CachedCalibration(deployment.calibration, deployment.node.gpu, memory)

    whole = price_many([(remembering(deployment, memory), op) for deployment, op in asked])
    sorts = set()
    for found, (deployment, op) in zip(whole, asked, strict=True):
        alone = remembering(deployment, PriceCache()).price(op, deployment.node.gpu)
        assert not isinstance(found, RooflineError), op.name
        if alone is None or found is None:
            assert alone is found, op.name
            continue
        sorts.add(op.kind)
        for field in ("seconds", "log_sd", "basis"):
            mine, other = np.asarray(getattr(found, field)), np.asarray(getattr(alone, field))
            assert mine.shape == other.shape, (op.name, field)
            assert mine.tobytes() == other.tobytes(), (op.name, field)
    assert sorts >= {"gemm", "moe", "prefill-attention", "decode-attention", "latent-attention"}
    assert sorts >= {"pointwise", "lookup", "collective"}


@pytest.mark.parametrize(
    ("model", "layout"),
    [
        ("llama-3.1-8b", Layout(tp=2, pp=2)),
        ("gemma-2-9b", Layout()),
        ("qwen3-30b-a3b", Layout(tp=2, dp=2, ep=4)),
        ("deepseek-v3", Layout(tp=8)),
    ],
)
def test_operators_of_a_step_are_told_at_once_what_each_is_told_alone(
    model: str, layout: Layout
) -> None:
    """Times and the fits that they are from, of a single step and over a scenario axis."""
    deployment, lengths = calibrated(model, layout), np.array([128.0, 256.0, 4096.0, 7000.0])
    known, device = deployment.calibration, deployment.node.gpu
    assert known is not None
    for new, context in ((1.0, lengths), (lengths, lengths), (512.0, 512.0), (1.0, 900.0)):
        ops = list(step(deployment, SequenceGroup(4.0, new, context)).values())
        for op, found in zip(ops, at_once(known, device, ops), strict=True):
            alone = known.price(op, device)
            assert (alone is None) == (found is None), op.name
            if alone is None or found is None:
                continue
            for name in ("seconds", "log_sd", "basis", "start_s"):
                mine, other = getattr(found, name), getattr(alone, name)
                assert np.array_equal(mine, np.broadcast_to(other, np.shape(mine))), op.name
                assert np.ndim(context) or isinstance(mine, float), (op.name, name)
            told = (found.kind, found.assumed, found.found)
            assert told == (alone.kind, alone.assumed, alone.found), op.name


def test_coefficients_of_hyper_connections_are_no_product_like_the_others() -> None:
    """They have a kernel of their own, and yet dimensions and formats of a linear layer."""
    made = make_deployment(
        architecture("deepseek-v4-flash"), gpu("h100-sxm"), None, Layout(tp=4), calibration="auto"
    )
    batches, contexts = np.array([[1.0], [64.0]]), np.array([[1024.0, 4096.0]])
    ops = step(made, SequenceGroup(batches, contexts, contexts)).values()
    products = [op for op in ops if op.kind == "gemm"]
    assert made.calibration is not None
    kept = CachedCalibration(made.calibration, made.node.gpu, PriceCache())
    found = price_many([(kept, op) for op in products])
    own = False
    for op, priced in zip(products, found, strict=True):
        alone = CachedCalibration(made.calibration, made.node.gpu, PriceCache()).price(
            op, made.node.gpu
        )
        assert isinstance(priced, MeasuredTime)
        assert alone is not None
        np.testing.assert_array_equal(priced.seconds, alone.seconds, err_msg=op.name)
        own = own or alike(op) == STREAMS
    assert own


@pytest.mark.slow
def test_operators_of_one_kernel_are_one_question() -> None:
    asked, memory = steps(), PriceCache()
    counting, _ = counted(asked[0][0], memory)
    kept = CachedCalibration(counting, asked[0][0].node.gpu, memory)
    price_many([(kept, op) for _, op in asked])
    assert counting.times < len({(op.kind, alike(op), str(op.dims)) for _, op in asked}) / 3


def test_what_a_device_cannot_do_is_refused_where_it_is_asked_and_nothing_else() -> None:
    plain = calibrated()
    group = SequenceGroup(np.array([[1.0], [2.0]]), 1.0, np.array([[100.0, 200.0]]))
    known = plain.calibration
    assert known is not None
    lacking = replace(plain.node.gpu, flops_per_s={"fp16": 1e14})
    ops = step(plain, group)
    asked = [
        (CachedCalibration(known, gpu, PriceCache()), op)
        for gpu in (plain.node.gpu, lacking)
        for op in ops.values()
    ]
    found = dict(
        zip([(which, name) for which in "ab" for name in ops], price_many(asked), strict=True)
    )
    assert isinstance(found["b", "gate-up"], MissingRateError)
    assert isinstance(found["a", "gate-up"], MeasuredTime)
    assert isinstance(found["b", "norm"], MeasuredTime)
