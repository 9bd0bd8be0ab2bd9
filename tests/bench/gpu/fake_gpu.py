"""A GPU without one: CuPy, cuBLASLt and NCCL made up, on a clock that kernels advance.

Kernels, products and collectives reach it as they would reach a driver: by name, grid and the
arguments as numbers and addresses. How long each takes is told by functions of exactly that, so
that a wrong argument is a wrong time. Array memory is real and products of single precision are
computed, random numbers in bulk are not.
"""

import math
import random
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any, Final

import numpy as np
import pytest

from roofline.bench.gpu import cublaslt
from roofline.bench.gpu import device as device_module
from roofline.bench.gpu import environment as environment_module
from roofline.bench.gpu.compiling import CompiledProgram
from roofline.bench.gpu.launch import Program
from tests.bench.gpu.fake_lt import FakeLt
from tests.bench.gpu.fake_nccl import fake_nccl
from tests.bench.gpu.fake_nvml import fake_nvml

BULK: Final = 100_000
"""Elements beyond which what is written to an array is forgotten."""


@dataclass(frozen=True)
class Kernel:
    """A kernel call as a driver sees it."""

    name: str
    constants: Mapping[str, int]
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    threads: int = 0
    shared: int = 0
    again: bool = False
    """Whether it works on the addresses that the call before it worked on."""


Times = Callable[[Kernel], float]


class FakeArray(np.ndarray[Any, Any]):
    """Host memory that claims to be a device's."""

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.__array_interface__["data"][0])

    def __setitem__(self, key: Any, value: Any) -> None:
        if self.size <= BULK:
            super().__setitem__(key, value)


@dataclass
class FakeGpu:
    """The device; `module` is its CuPy."""

    times: Times
    capability: int = 90
    multiprocessors: int = 132
    memory_bytes: float = 85_017_493_504.0
    l2_bytes: float = 50 * 2.0**20
    free_bytes: float = 2.0**34
    devices: int = 1
    launch_s: float = 3e-6
    gap_s: float = 1e-6
    idle_s: float = 2e-5
    """Times of a launch on the host, a gap between graphs, and the start of an idle device."""
    now: float = 0.0
    busy: bool = False
    refuses_capture: bool = False
    captured: list[float] | None = None
    fill_bytes_per_s: float = math.inf
    jitter: float = 0.0
    """Standard deviation of the logarithm of a graph's time. [1]"""
    chance: random.Random = field(default_factory=lambda: random.Random(1))
    took_s: float = 0.0
    """Time of the last graph. [s]"""
    strikes: Callable[[str], bool] = lambda where: False
    """Asked wherever a device can fail: it may raise, or say that a status is bad."""
    ran: deque[Kernel] = field(default_factory=lambda: deque(maxlen=1000))
    last: frozenset[int] = frozenset()
    streams: list[Any] = field(default_factory=list)
    group: list[Any] | None = None
    forked: int = 0

    def __post_init__(self) -> None:
        self.module = _module(self)

    def call(self, name: str, addresses: Sequence[int], **about: Any) -> None:
        """Put something on the current stream."""
        self.strikes("launch" if self.captured is None else "capture")
        if self.captured is not None and self.refuses_capture:
            raise RuntimeError("operation not permitted when stream is capturing")
        found = Kernel(name, again=frozenset(addresses) == self.last, **about)
        self.last = frozenset(addresses)
        self.ran.append(found)
        seconds = self.times(found)
        if self.captured is not None:
            self.captured.append(seconds)
        else:
            self.now += max(seconds, self.launch_s)
            self.busy = True

    def replay(self, graph: Sequence[float]) -> None:
        noise = self.chance.lognormvariate(0.0, self.jitter) if self.jitter else 1.0
        self.took_s = noise * sum(graph)
        self.now += (self.gap_s if self.busy else self.idle_s) + self.took_s
        self.busy = True

    def wait(self) -> None:
        self.strikes("wait")
        self.busy = False


class FakeStream:
    def __init__(self, gpu: FakeGpu) -> None:
        self.gpu, self.ptr = gpu, id(self)

    def __enter__(self) -> "FakeStream":
        self.gpu.streams.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.gpu.streams.pop()

    def synchronize(self) -> None:
        self.gpu.wait()

    def is_capturing(self) -> bool:
        return self.gpu.captured is not None

    def wait_event(self, event: Any) -> None:
        self.gpu.forked += 1

    def begin_capture(self) -> None:
        self.gpu.captured = []

    def end_capture(self) -> Any:
        kept, self.gpu.captured = self.gpu.captured, None
        assert kept is not None
        total = [sum(kept)]
        return SimpleNamespace(launch=lambda stream=None: self.gpu.replay(total))


class FakeFunction:
    def __init__(self, gpu: FakeGpu, program: Program, name: str) -> None:
        self.gpu, self.program, self.name = gpu, program, name
        self.ptr = f"{program}{name}"

    def __call__(
        self, grid: Any, block: Any, arguments: tuple[Any, ...], *, shared_mem: int
    ) -> None:
        assert all(isinstance(value, np.generic) for value in arguments), self.name
        self.gpu.call(
            self.name,
            [int(value) for value in arguments if isinstance(value, np.uint64)],
            constants=dict(self.program.constants),
            grid=grid,
            arguments=arguments,
            threads=block[0],
            shared=shared_mem,
        )


class FakeModule:
    def __init__(self, gpu: FakeGpu) -> None:
        self.gpu = gpu
        self.program = Program("none")

    def load(self, cubin: bytes) -> None:
        self.program = _PROGRAMS[cubin]

    def get_function(self, name: str) -> FakeFunction:
        return FakeFunction(self.gpu, self.program, name)


_PROGRAMS: dict[bytes, Program] = {}


def _compiled(program: Program, architecture: int) -> CompiledProgram:
    cubin = f"{program}{architecture}".encode()
    _PROGRAMS[cubin] = program
    return CompiledProgram(cubin, "")


class FakeDevice:
    def __init__(self, gpu: FakeGpu, index: int = 0) -> None:
        self.gpu, self.index = gpu, index
        self.compute_capability = str(gpu.capability)
        self.pci_bus_id = f"0000:0{index}:00.0"

    def use(self) -> None:
        pass

    def synchronize(self) -> None:
        self.gpu.wait()

    def __enter__(self) -> "FakeDevice":
        return self

    def __exit__(self, *_: object) -> None:
        pass


class FakeDriverError(RuntimeError):
    pass


def _module(gpu: FakeGpu) -> ModuleType:
    def empty(shape: Any, dtype: Any) -> Any:
        gpu.strikes("allocate")
        made = np.empty(shape, dtype).view(FakeArray)
        gpu.now += made.nbytes / gpu.fill_bytes_per_s
        return made

    def asarray(values: Any) -> Any:
        return np.array(values).view(FakeArray)

    def elapsed(began: Any, ended: Any) -> float:
        return 1e3 * float(ended.at - began.at)

    def event(disable_timing: bool = False) -> Any:
        made = SimpleNamespace(at=0.0, synchronize=gpu.wait)
        made.record = lambda stream: setattr(made, "at", gpu.now)
        return made

    def pinned(size: int) -> Any:
        gpu.strikes("allocate")
        return SimpleNamespace(ptr=size)

    def copied(to: int, source: int, size: int, kind: int, stream: int) -> None:
        assert {1: source, 2: to}[kind] == size, "the host's end is where the direction says"
        numbers = tuple(np.int64(value) for value in (size, kind))
        gpu.call("memcpy", [to, source], constants={}, grid=(), arguments=numbers)

    properties = {
        "multiProcessorCount": gpu.multiprocessors,
        "totalGlobalMem": gpu.memory_bytes,
        "l2CacheSize": gpu.l2_bytes,
    }
    attributes: dict[str, int] = {}
    module = ModuleType("cupy")
    cuda = ModuleType("cupy.cuda")
    vars(cuda).update(
        Stream=lambda non_blocking: FakeStream(gpu),
        Event=event,
        alloc_pinned_memory=pinned,
        get_elapsed_time=elapsed,
        get_current_stream=lambda: gpu.streams[-1] if gpu.streams else FakeStream(gpu),
        Device=lambda index=0: FakeDevice(gpu, index),
        function=SimpleNamespace(Module=lambda: FakeModule(gpu)),
        runtime=SimpleNamespace(
            driverGetVersion=lambda: 13000,
            runtimeGetVersion=lambda: 13000,
            getDeviceCount=lambda: gpu.devices,
            getDeviceProperties=lambda index: properties,
            memGetInfo=lambda: (int(gpu.free_bytes), int(gpu.memory_bytes)),
            CUDARuntimeError=FakeDriverError,
            memcpyAsync=copied,
        ),
        driver=SimpleNamespace(
            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8,
            funcGetAttribute=lambda attribute, kernel: attributes.get(kernel, 0),
            funcSetAttribute=lambda kernel, attribute, value: attributes.update({kernel: value}),
        ),
        nccl=fake_nccl(gpu),
    )
    vars(module).update(
        __version__="14.0.0",
        cuda=cuda,
        empty=empty,
        ones=empty,
        zeros=empty,
        asarray=asarray,
        uint8=np.uint8,
        uint32=np.uint32,
        float32=np.float32,
        get_default_memory_pool=lambda: SimpleNamespace(free_all_blocks=lambda: None),
    )
    return module


def installed(
    monkeypatch: pytest.MonkeyPatch,
    gpu: FakeGpu,
    *,
    title: str = "NVIDIA H100 80GB HBM3",
    **nvml: Any,
) -> FakeLt:
    """Have programs find that GPU, its libraries and its driver."""
    library = FakeLt(gpu)
    monkeypatch.setattr(environment_module, "installed", lambda name: "")
    monkeypatch.setitem(sys.modules, "cupy", gpu.module)
    monkeypatch.setitem(sys.modules, "cupy.cuda", gpu.module.cuda)
    monkeypatch.setitem(sys.modules, "cupy.cuda.nccl", gpu.module.cuda.nccl)
    monkeypatch.setattr(device_module, "compiled", _compiled)
    monkeypatch.setattr(cublaslt, "library", lambda: library)
    told = {
        "nvmlDeviceGetHandleByPciBusId": lambda bus: 0,
        "nvmlDeviceGetName": lambda handle: title,
        "nvmlDeviceGetCurrentClocksEventReasons": lambda handle: 0,
        "nvmlDeviceGetNvLinkState": lambda handle, wire: 1,
        **nvml,
    }
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(**told))
    return library
