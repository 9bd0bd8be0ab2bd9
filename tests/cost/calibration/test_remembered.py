"""Prices of operators over grids, remembered, are those of every row by itself."""

from dataclasses import replace

import numpy as np
import pytest

from roofline.api.calibration import calibration_of
from roofline.cost.calibration import remembered
from roofline.cost.calibration.asked import alike
from roofline.cost.calibration.pricing import GpuCalibration
from roofline.cost.calibration.remembered import Memory, Remembered
from roofline.cost.deployment import Deployment
from roofline.cost.layout import Layout
from roofline.cost.measured import Measured
from roofline.cost.roof import roof
from roofline.cost.step import Group, step
from roofline.cost.work import Op
from roofline.hardware.machine import Gpu
from tests.serving.deployments import on


class Counting:
    """A calibration that counts what it is asked."""

    name = "counting"

    def __init__(self, inner: GpuCalibration) -> None:
        self.inner, self.costs, self.rows = inner, inner.costs, 0

    def price(self, op: Op, gpu: Gpu) -> Measured | None:
        """Ask, and count the rows."""
        found = self.inner.price(op, gpu)
        self.rows += 1 if found is None else np.size(found.seconds)
        return found


def calibrated(model: str = "llama-3.1-8b", layout: Layout | None = None) -> Deployment:
    deployment = on(model, "h100-sxm", layout=layout)
    known = calibration_of("auto", deployment.node.gpu, "vllm")
    return replace(deployment, calibration=known)


def counted(deployment: Deployment, memory: Memory) -> tuple[Counting, Deployment]:
    assert isinstance(deployment.calibration, GpuCalibration)
    counting = Counting(deployment.calibration)
    kept = Remembered(counting, deployment.node.gpu, memory)
    return counting, replace(deployment, calibration=kept)


@pytest.mark.parametrize("layout", [Layout(tp=2), Layout(tp=2, dp=2, ep=4)])
def test_a_grid_prices_like_its_rows(layout: Layout) -> None:
    plain = calibrated("qwen3-30b-a3b", layout)
    _, deployment = counted(plain, Memory())
    batches, prompts = np.array([1.0, 2.0, 40.0]), np.array([128.0, 256.0])
    group = Group(batches[:, None], prompts[None, :], prompts[None, :])
    for name, op in step(deployment, group).items():
        whole = roof(op, deployment).measured
        assert whole is not None, name
        for row, batch in enumerate(batches):
            for column, prompt in enumerate(prompts):
                one = step(plain, Group(batch, prompt, prompt))[name]
                alone = roof(one, plain).measured
                assert alone is not None, name
                for field in ("seconds", "log_sd", "basis"):
                    wide = np.broadcast_to(getattr(whole, field), (3, 2))
                    assert wide[row, column] == pytest.approx(getattr(alone, field)), (name, field)


def test_what_was_asked_before_is_not_asked_again() -> None:
    memory = Memory()
    counting, deployment = counted(calibrated(), memory)
    group = Group(np.array([[1.0], [2.0]]), 1.0, np.array([[100.0, 200.0, 300.0]]))
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
    counting, deployment = counted(calibrated(), Memory())
    op = step(
        deployment, Group(np.array([[1.0], [2.0], [4.0]]), np.array([[64.0, 128.0, 256.0]]), 256.0)
    )["gate-up"]
    found = roof(op, deployment).measured
    assert counting.rows == 5  # 64 to 1024 tokens
    assert found is not None
    assert np.shape(found.seconds) == (3, 3)
    assert np.asarray(found.seconds)[1, 0] == np.asarray(found.seconds)[0, 1]


def test_devices_are_told_apart() -> None:
    memory = Memory()
    plain = calibrated()
    _, deployment = counted(plain, memory)
    faster = replace(plain.node.gpu, hbm_bytes_per_s=2 * plain.node.gpu.hbm_bytes_per_s)
    assert plain.calibration is not None
    kept = Remembered(plain.calibration, faster, memory)
    other = replace(deployment, node=replace(plain.node, gpu=faster), calibration=kept)
    op = step(plain, Group(1.0, 1.0, 100.0))["gate-up"]
    slow, fast = roof(op, deployment).measured, roof(op, other).measured
    assert slow is not None
    assert fast is not None
    assert fast.seconds < slow.seconds


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "MOST_BYTES", 5000)
    memory = Memory()
    _, deployment = counted(calibrated(), memory)
    for context in range(100, 120):
        for op in step(deployment, Group(1.0, 1.0, np.array([float(context)]))).values():
            roof(op, deployment)
    assert memory.held <= 5000
    assert len(memory.known) < 10
