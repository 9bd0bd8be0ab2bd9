"""Lanes of catalog networks, and what they are compared with."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

from roofline.api.setting import machine_of, make_deployment, network_of
from roofline.cost.layout import parse
from roofline.cost.work import Array
from roofline.serving.static import StaticBatch, static_batch
from roofline.study.sweep.points import Axes, Axis, SweepSlice


def lane(
    model: str,
    gpu: str = "h100-sxm",
    layout: str = "tp1",
    *,
    batch: tuple[int, ...] = (1, 3, 32, 100),
    prompt: tuple[int, ...] = (1, 100, 4096, 5000),
    output: tuple[int, ...] = (1, 2, 40, 1500),
    weights: str | None = None,
    kv: str = "auto",
    engine: str = "vllm",
    calibration: str = "auto",
    deployment: Mapping[str, Any] | None = None,
    **options: Any,
) -> SweepSlice:
    """The network on the GPU, at all combinations of the numbers."""
    device, _ = machine_of(gpu, None, None)
    placed = make_deployment(
        network_of(model),
        device,
        None,
        parse(layout),
        weights=weights,
        kv=kv,
        engine=engine,
        calibration=calibration,
        **(deployment or {}),
    )
    points = len(batch) * len(prompt) * len(output)
    axes = Axes(Axis.of(batch), Axis.of(prompt), Axis.of(output), points)
    return SweepSlice(placed, axes, **options)


def numbers(where: SweepSlice) -> dict[str, Array]:
    """Every point of a lane whose axes are listed."""
    axes = where.axes
    every = product(axes.batch.nodes, axes.prompt.nodes, axes.output.nodes)
    return dict(zip(("batch", "prompt", "output"), np.array(list(every)).T, strict=True))


def alone(where: SweepSlice, numbers: Mapping[str, Array], row: int) -> StaticBatch:
    """One point by itself."""
    batch, prompt, output = (int(numbers[name][row]) for name in ("batch", "prompt", "output"))
    work = where.workload(batch, prompt, output)
    return static_batch(where.deployment, work, utilization=where.utilization)
