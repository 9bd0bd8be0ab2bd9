"""Cost of a chunk beside its work: to hand it out, encode it and have it on the disk.

Printed, never asserted.
"""

import importlib.util
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roofline.study.executors import executor
from roofline.study.store.chunk import Chunk
from roofline.study.store.folder import Progress, SweepTask, run
from tests.benchmarks.reference import reference

WORKERS = 2
ROWS, COLUMNS = 8192, 30


@dataclass(frozen=True, slots=True)
class Waiting:
    """Waits as long as a chunk may take, then gives all its rows."""

    seconds: float

    def __call__(self, chunk: Chunk) -> Any:
        import pyarrow as pa

        time.sleep(self.seconds)
        random = np.random.default_rng(chunk.number)
        values = {f"column_{n}": random.random(len(chunk)) for n in range(COLUMNS)}
        return pa.table({"index": np.arange(chunk.start, chunk.stop), **values})


def overhead(folder: Path, name: str, workers: int, seconds: float, chunks: int) -> str:
    """Time of a worker for a chunk beyond its work, once all workers are up."""
    ends: list[float] = []

    def progress(_: Progress) -> None:
        ends.append(time.perf_counter())

    task = SweepTask("a", ROWS * chunks, ROWS, Waiting(seconds))
    with reference() as loop:
        outcome = run(folder, task, executor(name, workers), progress)
        done = time.perf_counter()
    started, *ends = ends
    first = ends[workers - 1]
    each = (ends[-1] - first) * workers / (chunks - workers) - seconds
    size = outcome.result.stat().st_size / chunks
    return (
        f"{name}, {workers} workers, chunks of {seconds:g} s and {size / 1e6:.1f} MB: "
        f"{each * 1e3:.0f} ms a chunk beside its work {loop.time(each)}; "
        f"start {first - started - seconds:.1f} s, "
        f"end of workers and merge of {outcome.rows:,} rows {done - ends[-1]:.1f} s"
    )


@pytest.mark.parametrize("name", ["local", pytest.param("ray", marks=pytest.mark.slow)])
def test_overhead_of_a_chunk(tmp_path: Path, name: str) -> None:
    if name == "ray" and importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed: pip install '.[ray]'")
    for seconds, chunks in ((1.0, 6), (0.0, 40)):
        print(f"\n  {overhead(tmp_path / f'{seconds}', name, WORKERS, seconds, chunks)}", end="")
    print()
