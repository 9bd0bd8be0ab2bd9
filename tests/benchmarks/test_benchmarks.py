"""Times of the commands. Figures are printed, never asserted: ``pytest -s tests/benchmarks``."""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from roofline.cost.deployment import Deployment
from roofline.cost.step import decode, prefill, step
from roofline.cost.work import Number
from roofline.hardware import catalog
from roofline.hardware.engine import engine
from roofline.model import catalog as networks
from roofline.model.precision import resolve
from roofline.serving.workload import Workload
from roofline.study.layouts import price
from tests.benchmarks.reference import reference
from tests.cases import cases
from tests.pricing import seconds

CONFIGURATIONS = 2**21


@pytest.mark.parametrize("chunk", [4096, 8192, 16384, 32768])
def test_configurations_priced_per_second(chunk: int) -> None:
    gpu = catalog.gpu("h100-sxm")
    deployment = Deployment(
        networks.architecture("llama-3.1-8b"),
        catalog.default_node(gpu, 1),
        resolve("bf16", "auto", gpu),
        engine("vllm"),
    )
    random = np.random.default_rng(0)
    batches = random.integers(1, 256, CONFIGURATIONS).astype(float)
    contexts = random.integers(1, 8192, CONFIGURATIONS).astype(float)
    ops = len(step(deployment, decode(batches[:1], contexts[:1])))

    def sweep() -> list[Number]:
        """Times of both phases of every configuration, a chunk at a time."""
        kept = []
        for start in range(0, CONFIGURATIONS, chunk):
            batch, context = batches[start : start + chunk], contexts[start : start + chunk]
            kept.append(seconds(step(deployment, prefill(batch, context)), deployment))
            kept.append(seconds(step(deployment, decode(batch, context)), deployment))
        return kept

    with reference() as loop:
        best = min(processor_time_of(sweep) for _ in range(3))
    rate = CONFIGURATIONS / best
    print(
        f"\n  {ops}-op step, chunks of {chunk}: {rate:,.0f} configurations x 2 phases a second "
        f"{loop.rate(rate)}"
    )


def processor_time_of(work: Callable[[], object]) -> float:
    """Processor time of one run. [s]"""
    began = time.process_time()
    work()
    return time.process_time() - began


def processor_seconds(*arguments: str) -> float:
    """Processor time of the command, the least of several runs, children included."""
    least = float("inf")
    for _ in range(cases(2, 3)):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-m", "roofline", *arguments],
            check=True,
            capture_output=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
        least = min(least, user + system)
    return least


def test_processor_time_of_the_command(tmp_path: Path) -> None:
    page = str(tmp_path / "report.html")
    for name, arguments in (
        ("--help", ["--help"]),
        ("analyze", ["analyze"]),
        ("analyze --report", ["analyze", "--report", page]),
        ("gpus", ["gpus"]),
        ("models", ["models"]),
    ):
        with reference() as loop:
            took = processor_seconds(*arguments)
        print(f"\n  roofline {name}: {took * 1000:.0f} ms {loop.time(took)}", end="")
    print()


def test_layouts_of_a_cluster_priced_together() -> None:
    box = catalog.node("hgx-h800-8")
    network = networks.architecture("deepseek-v3")
    formats = resolve(network.weight_format, "auto", box.gpu, also=network.formats)
    deployment = Deployment(network, box, formats, engine("vllm"))
    work = Workload(batch=64)
    price(deployment, work, 16)  # imports and caches are not what is measured

    with reference() as loop:
        began = time.process_time()
        priced = price(deployment, work, 1024)
        took = time.process_time() - began
    print(f"\n  {len(priced):,} layouts of {network.name} on 1024 GPUs enumerated and priced")
    print(f"  in {took:.2f} s of a core {loop.time(took)}, {priced.fits.sum():,} of them fit")
