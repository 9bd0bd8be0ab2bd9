"""Launches reach a device, here one that is made up."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from roofline.bench.gpu import cublaslt
from roofline.bench.gpu import device as device_module
from roofline.bench.gpu.attention import prefill_attention
from roofline.bench.gpu.compiling import CompiledProgram
from roofline.bench.gpu.device import CudaDevice, Sku, describe
from roofline.bench.gpu.kernels import nothing, stream
from roofline.bench.gpu.nvml import Board

SKU = Sku(90, 132, 150e9, 50e6)
BOARD = Board("Tiny GPU", 150e9, 700.0, 1980e6, "on", "off", "580.65")


class Driver:
    """Loads modules and writes down how kernels are called."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.loaded: list[bytes] = []
        self.shared: dict[str, int] = {}
        driver = SimpleNamespace(
            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8,
            funcGetAttribute=lambda attribute, kernel: self.shared.get(kernel, 0),
            funcSetAttribute=lambda kernel, attribute, value: self.shared.update({kernel: value}),
        )
        self.cupy = SimpleNamespace(
            __version__="14.0",
            cuda=SimpleNamespace(
                driver=driver,
                runtime=SimpleNamespace(runtimeGetVersion=lambda: 13000),
                function=SimpleNamespace(
                    Module=lambda: SimpleNamespace(load=self.loaded.append, get_function=self.get)
                ),
            ),
        )

    def get(self, name: str) -> Any:
        return Function(name, self.calls)


class Function:
    def __init__(self, name: str, calls: list[tuple[Any, ...]]) -> None:
        self.ptr, self.calls = name, calls

    def __call__(self, *call: Any, shared_mem: int) -> None:
        self.calls.append((self.ptr, *call, shared_mem))


def array(address: int, *shape: int) -> Any:
    return SimpleNamespace(shape=shape, data=SimpleNamespace(ptr=address))


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    monkeypatch.setattr(
        device_module, "compiled", lambda program, arch: CompiledProgram(f"{arch}".encode(), "")
    )
    return Driver()


def test_arrays_are_passed_as_addresses_and_numbers_keep_their_width(driver: Driver) -> None:
    words = array(4096, 40), array(8192, 40)
    CudaDevice(driver.cupy, SKU).run(*stream("copy_stream", *words, multiprocessors=132))
    ((name, grid, block, arguments, shared),) = driver.calls
    assert (name, grid, block, shared) == ("copy_stream", (528, 1, 1), (512, 1, 1), 0)
    assert arguments == (4096, 8192, 10)
    assert [type(value) for value in arguments] == [np.uint64, np.uint64, np.int64]


def test_a_kernel_is_loaded_once_for_the_device_it_runs_on(driver: Driver) -> None:
    gpu = CudaDevice(driver.cupy, SKU)
    for _ in range(3):
        gpu.run(*nothing())
    assert driver.loaded == [b"90"]
    assert len(driver.calls) == 3


def test_a_kernel_is_allowed_the_shared_memory_that_it_asks_for(driver: Driver) -> None:
    query, cache = array(0, 1, 128, 8, 128), array(0, 1, 128, 2, 128)
    (launch,) = prefill_attention(query, cache, cache, query, element="bf16")
    CudaDevice(driver.cupy, SKU).run(launch)
    assert driver.shared == {"prefill_attention": launch.shared_bytes}


def test_measurements_say_where_they_were_made(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cublaslt, "version", lambda: "13.1.0")
    said = describe(CudaDevice(driver.cupy, SKU), BOARD, "tiny", "files/tiny.yaml")
    assert said["machine"] == "tiny"
    assert said["title"] == "Tiny GPU"
    assert said["datasheet"] == "files/tiny.yaml"
    assert said["cublaslt"] == "13.1.0"
    assert said["capability"] == "9.0"
    assert said["power limit"] == "700.0"
    assert all(isinstance(value, str) for value in said.values())
