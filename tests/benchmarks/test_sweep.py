"""Time in which ten million configurations become a Pareto set. Printed, never asserted."""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import cache
from itertools import product
from multiprocessing import get_context
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

from roofline.api.setting import machine_of, make_deployment, network_of
from roofline.cost.layout import parse
from roofline.cost.work import Array
from roofline.errors import RooflineError
from roofline.hardware.catalog import default_node
from roofline.hardware.machine import Gpu, Node
from roofline.model.architecture import Architecture
from roofline.serving.phases import decode_steps
from roofline.study.sweep.columns import FIGURES, FigureColumns, price
from roofline.study.sweep.keep import KeptPoints, SweepObjective
from roofline.study.sweep.points import Axes, Axis, SweepSlice
from roofline.study.sweep.prices import ahead, priced, within
from tests.benchmarks.reference import reference

MODELS: Final = (
    "llama-3.1-8b",
    "llama-3.1-70b",
    "qwen3-32b",
    "qwen3-30b-a3b",
    "gpt-oss-120b",
    "mixtral-8x7b",
    "deepseek-v3",
)
GPUS: Final = ("a100-sxm", "h100-sxm", "h200-sxm", "b200-sxm", "l40s")
LAYOUTS: Final = ("tp1", "tp2", "tp4", "tp8", "tp4-pp2", "tp2-pp2")
FORMATS: Final = tuple(product(("bf16", "fp8"), ("bf16", "fp8")))
BATCHES: Final = np.array(
    [*range(1, 5), *range(6, 17, 2), *range(20, 65, 4), 96, 128, 160, 192, 224, 256.0]
)
PROMPTS: Final = np.array([128 * n for n in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128.0)])
OUTPUTS: Final = np.array([16 * n for n in range(1, 33)], float)
AXES: Final = Axes(
    Axis.of(BATCHES),
    Axis.of(PROMPTS),
    Axis.of(OUTPUTS),
    len(BATCHES) * len(PROMPTS) * len(OUTPUTS),
)
POINTS: Final = {
    name: column.ravel()
    for name, column in zip(
        ("batch", "prompt", "output"),
        np.meshgrid(BATCHES, PROMPTS, OUTPUTS, indexing="ij"),
        strict=True,
    )
}
TOGETHER: Final = 24
"""Lanes whose kernels are looked up at once."""
LANES: Final = tuple(product(MODELS, GPUS, LAYOUTS, FORMATS))


OBJECTIVES: Final = (
    SweepObjective("tpot_s"),
    SweepObjective("ttft_s"),
    SweepObjective("throughput_per_gpu_tok_s", largest=True),
)

network = cache(network_of)


@cache
def device(name: str) -> Gpu:
    """Read once a process."""
    return machine_of(name, None, None)[0]


@cache
def box(gpu: str, devices: int) -> Node:
    """The usual node."""
    return default_node(device(gpu), devices)


@cache
def stored(model: str, weights: str) -> Architecture:
    """The network in a format."""
    return network(model).stored_as(weights)


def lane(number: int, calibration: str) -> SweepSlice:
    """One deployment of the sweep."""
    model, gpu, layout, (weights, kv) = LANES[number]
    arranged = parse(layout)
    deployment = make_deployment(
        stored(model, weights),
        device(gpu),
        box(gpu, int(arranged.devices)),
        arranged,
        kv=kv,
        calibration=calibration,
    )
    return SweepSlice(deployment, AXES)


def looked_up(number: int, calibration: str) -> FigureColumns | None:
    """Points of a deployment; None where there is no such."""
    try:
        where = lane(number, calibration)
    except RooflineError:
        return None
    count = len(POINTS["batch"])
    inside = np.flatnonzero(
        within(where.deployment.architecture, POINTS["prompt"], POINTS["output"])
    )
    points = POINTS
    if len(inside) < count:
        points = {name: column[inside] for name, column in POINTS.items()}
    return price(priced(where), points, number * count + inside)


def swept(numbers: range, calibration: str) -> tuple[int, int, NDArray[np.int64], Array, float]:
    """Configurations, feasible ones, the best ones and their objectives; memory in use."""
    kept, asked = KeptPoints("pareto", (), OBJECTIVES), 0
    count = len(POINTS["batch"])
    for start in range(numbers.start, numbers.stop, TOGETHER):
        some = range(start, min(start + TOGETHER, numbers.stop))
        asked += count * len(some)
        found = [each for number in some if (each := looked_up(number, calibration)) is not None]
        ahead([columns.prices for columns in found if columns["fits"].any()])
        for columns in found:
            with suppress(RooflineError):
                kept.add(columns)
    parts = kept.parts()
    rows = [np.stack([part[name] for name in FIGURES], axis=1) for part in parts]
    table = np.concatenate(rows) if rows else np.empty((0, len(FIGURES)))
    places = [list(FIGURES).index(each.column) for each in OBJECTIVES]
    values = table[:, places] * [-1.0 if each.largest else 1.0 for each in OBJECTIVES]
    index = table[:, list(FIGURES).index("index")].astype(np.int64)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0
    return asked, kept.missed[""], index, values, memory


def pieces(size: int) -> Iterator[range]:
    """Lanes in pieces."""
    for start in range(0, len(LANES), size):
        yield range(start, min(start + size, len(LANES)))


def sweep(calibration: str) -> None:
    """Sweep all of it in two processes and print what came of it."""
    from roofline.study.sweep.keep import unbeaten

    some = list(pieces(60))
    with reference() as loop:
        began = time.perf_counter()
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            found = list(pool.map(swept, some, [calibration] * len(some)))
        values = np.concatenate([each[3] for each in found])
        best = unbeaten(values)
        took = time.perf_counter() - began
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    asked, fit = sum(each[0] for each in found), sum(each[1] for each in found)
    memory = 2 * max(each[4] for each in found)
    print(
        f"\n  calibration {calibration}: {asked:,} configurations in {took:.2f} s"
        f" on two processes: {asked / took:,.0f}/s {loop.rate(asked / took)}"
        f"\n  ({children.ru_utime + children.ru_stime:.1f} s of processor time so far),"
        f" {fit:,} fit, {best.sum():,} on the frontier, {memory / 2**20:,.0f} MiB at most",
        end="",
    )


@pytest.mark.slow
def test_ten_million_configurations_to_a_frontier() -> None:
    """In a process of its own, whose children are all that is counted."""
    for calibration in ("auto", "none"):
        subprocess.run(
            [sys.executable, "-m", __name__, calibration],
            check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
    print()


def test_every_figure_of_every_configuration() -> None:
    """Time and memory where nothing is dropped before it is complete."""
    for calibration in ("auto", "none"):
        with reference() as loop:
            began, count = time.process_time(), 0
            for number in range(20, 40):
                columns = price(priced(lane(number, calibration)), POINTS)
                for name in columns:
                    count += len(columns[name]) if name == "ttft_s_low" else 0
                for name in columns:
                    assert len(columns[name]) == columns.rows
            rate = count / (time.process_time() - began)
        print(
            f"\n  calibration {calibration}: all columns of {count:,} at {rate:,.0f}/s and core "
            f"{loop.rate(rate)}"
        )


@pytest.mark.slow
def test_how_far_means_are_off() -> None:
    """Kernels between two tokens against the sum over every step, at points of all of the sweep."""
    random = np.random.default_rng(0)
    off: list[Array] = []
    for number in random.choice(len(LANES), 40, replace=False):
        rows = random.choice(len(POINTS["batch"]), 50, replace=False)
        try:
            where = lane(int(number), "auto")
        except RooflineError:
            continue
        some = {name: column[rows] for name, column in POINTS.items()}
        inside = within(where.deployment.architecture, some["prompt"], some["output"])
        found = price(priced(where), {name: column[inside] for name, column in some.items()})
        for batch, prompt, output, mean in zip(
            *(found[name] for name in ("batch", "prompt", "output", "kernels_s")), strict=True
        ):
            contexts = prompt + np.arange(1.0, output)
            every = decode_steps(where.deployment, float(batch), contexts).seconds.mean()
            off.append(np.abs(mean / every - 1.0))
    middle, most, worst = np.quantile(np.array(off), [0.5, 0.99, 1.0])
    print(f"\n  kernels_s: p50 {middle:.4%}, p99 {most:.3%}, at most {worst:.2%}")


if __name__ == "__main__":
    sweep(sys.argv[1])
