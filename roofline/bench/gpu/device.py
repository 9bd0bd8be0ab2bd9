"""A GPU that runs launches: compiles their programs for it, once, and puts them on a stream."""

import platform
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
from msgspec import Struct

from roofline.bench.gpu import cublaslt
from roofline.bench.gpu.compiling import compiled
from roofline.bench.gpu.environment import require_device
from roofline.bench.gpu.launch import Launch, Program
from roofline.bench.gpu.nvml import Board


class Sku(Struct, frozen=True):
    """Facts that tell one product from another, whatever it is called.

    Args:
        architecture: Ten times the compute capability. [1]
        multiprocessors: Number that is enabled. [1]
        memory_bytes: Visible. [B]
        l2_bytes: Last-level cache. [B]
    """

    architecture: int
    multiprocessors: int
    memory_bytes: float
    l2_bytes: float


@dataclass
class CudaDevice:
    """The current device; `cupy` is the array module."""

    cupy: Any
    sku: Sku
    _functions: dict[tuple[Program, str], Any] = field(default_factory=dict)

    def run(self, *launches: Launch) -> None:
        """Put launches on CuPy's current stream.

        Kernels are compiled and loaded when first used: run once before a stream is captured.
        """
        for launch in launches:
            self.prepared(launch)()

    def prepared(self, launch: Launch) -> Callable[[], object]:
        """A function that puts a launch on CuPy's current stream; its kernel is loaded already."""
        arguments = launch.arguments
        return partial(
            self.function(launch),
            launch.grid,
            (launch.threads, 1, 1),
            tuple(each if isinstance(each, np.generic) else address(each) for each in arguments),
            shared_mem=launch.shared_bytes,
        )

    def function(self, launch: Launch) -> Any:
        """Loaded kernel of a launch, allowed the shared memory that it asks for."""
        key = launch.program, launch.kernel
        if key not in self._functions:
            module = self.cupy.cuda.function.Module()
            module.load(compiled(launch.program, self.sku.architecture).cubin)
            self._functions[key] = module.get_function(launch.kernel)
        function = self._functions[key]
        driver = self.cupy.cuda.driver
        if launch.shared_bytes:
            attribute = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            if driver.funcGetAttribute(attribute, function.ptr) < launch.shared_bytes:
                driver.funcSetAttribute(function.ptr, attribute, launch.shared_bytes)
        return function


def device(index: int = 0) -> CudaDevice:
    """A device of this machine, made current.

    Raises:
        MissingEnvironmentError: If there is none, or nothing to reach it with.
    """
    cupy = require_device(index)
    found = cupy.cuda.Device(index)
    properties = cupy.cuda.runtime.getDeviceProperties(index)
    return CudaDevice(
        cupy,
        Sku(
            int(found.compute_capability),
            properties["multiProcessorCount"],
            float(properties["totalGlobalMem"]),
            float(properties["l2CacheSize"]),
        ),
    )


def describe(found: CudaDevice, board: Board, machine: str, datasheet: str) -> dict[str, str]:
    """Facts that measurements on a GPU depend on besides the probe, as text beside them.

    Args:
        found, board: The device, and as its driver describes it.
        machine, datasheet: Name for files; whose published rates apply, as
            `roofline.hardware.catalog.gpu` finds them.
    """
    runtime = found.cupy.cuda.runtime
    return {
        "machine": machine,
        "title": board.title,
        "datasheet": datasheet,
        "capability": f"{found.sku.architecture / 10:.1f}",
        "multiprocessors": str(found.sku.multiprocessors),
        "memory": str(int(found.sku.memory_bytes)),
        "cache": str(int(found.sku.l2_bytes)),
        "driver": board.driver,
        "cuda": str(runtime.runtimeGetVersion()),
        "cupy": str(found.cupy.__version__),
        "cublaslt": cublaslt.version(),
        "power limit": str(board.power_limit_w),
        "highest clock": str(board.most_sm_hz),
        "ecc": board.ecc,
        "mig": board.mig,
        "clock": "CUDA events",
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def address(array: Any) -> np.uint64:
    """Address of an array of CuPy on the device, a number of fixed width as launches take it."""
    return np.uint64(array.data.ptr)
