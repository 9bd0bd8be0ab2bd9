"""Timers and probes of the environment on a GPU: what must hold on any of them."""

import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from roofline.bench.engine import FILLED, samples
from roofline.bench.gpu import nvml
from roofline.bench.gpu.backend import CupyBackend, Graphs
from roofline.bench.gpu.cublaslt import WORKSPACE_BYTES, LinearProduct, handle
from roofline.bench.gpu.device import CudaDevice
from roofline.bench.gpu.kernels import nothing, stream
from roofline.bench.stopping import Samples, Stop, median
from roofline.units import parse

pytestmark = pytest.mark.gpu


def timed(gpu: CudaDevice, launches: Sequence[Callable[[], object]]) -> Samples:
    """Times of launches in rotation, with a driver that is not asked."""
    missing: Any = None
    free: Any = SimpleNamespace(slowed=tuple)
    backend = CupyBackend(gpu, Graphs(gpu.cupy), missing, missing, free, 1.0)
    return samples(launches, backend, Stop(), captured=True)[0]


def copies(gpu: CudaDevice, words: int, sets: int) -> float:
    arrays = [gpu.cupy.ones((2, words), gpu.cupy.uint32) for _ in range(sets)]
    launches = [stream("copy_stream", a, b, gpu.sku.multiprocessors) for a, b in arrays]
    calls = [lambda launch=launch: gpu.run(*launch) for launch in launches]
    return median(timed(gpu, calls).values).value


def test_a_launch_takes_microseconds(gpu: CudaDevice) -> None:
    found = timed(gpu, [lambda: gpu.run(*nothing())])
    assert parse("0.3 µs", "s") < median(found.values).value < parse("20 µs", "s")
    assert found.stopped in ("converged", "time", "samples")


def test_a_copy_takes_time_in_proportion(gpu: CudaDevice) -> None:
    words = 1 << 26
    once, twice = (copies(gpu, words * factor, 1) for factor in (1, 2))
    assert twice / once == pytest.approx(2.0, rel=0.1)


def test_what_is_in_the_cache_is_faster(gpu: CudaDevice) -> None:
    words = int(gpu.sku.l2_bytes / 64) * 4
    cold = copies(gpu, words, math.ceil(FILLED["cold"] * gpu.sku.l2_bytes / (8.0 * words)))
    warm = copies(gpu, words, 1)
    assert warm < cold


def test_a_product_can_be_captured(gpu: CudaDevice) -> None:
    cupy, size = gpu.cupy, 1024
    arrays = [cupy.zeros((size, size), cupy.uint16) for _ in range(3)]
    workspace = cupy.empty(WORKSPACE_BYTES, cupy.uint8)
    product = LinearProduct("bf16", size, size, size)
    with handle() as library:
        product.choose(library)
        x, w, y, scratch = (array.data.ptr for array in (*arrays, workspace))
        stream = cupy.cuda.get_current_stream
        found = timed(gpu, [lambda: product.run(library, x, w, y, scratch, stream().ptr)])
    product.close()
    assert 0.0 < median(found.values).value < parse("1 ms", "s")


def test_the_driver_describes_the_device(gpu: CudaDevice) -> None:
    with nvml.monitor(gpu.cupy.cuda.Device().pci_bus_id) as board:
        assert board.clocks().sm_hz > 0
        assert board.board().memory_bytes >= gpu.sku.memory_bytes
