"""Anything that is missing is one line and a remedy."""

import sys
from importlib.metadata import PackageNotFoundError
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from roofline.bench.gpu import environment, nvml
from roofline.bench.gpu.compiling import compiled
from roofline.bench.gpu.environment import require_cupy, require_device
from roofline.bench.gpu.launch import Program
from roofline.errors import MissingEnvironmentError
from tests.bench.gpu.fake_nvml import NvmlError, fake_nvml


class DriverError(RuntimeError):
    pass


def fake(*, driver: int = 13000, devices: int = 1, fault: str = "") -> ModuleType:
    """A CuPy with that driver and so many devices."""

    def count() -> int:
        if fault:
            raise DriverError(fault)
        return devices

    chosen: list[int] = []
    module: Any = ModuleType("cupy")
    module.cuda = SimpleNamespace(
        runtime=SimpleNamespace(
            driverGetVersion=lambda: driver,
            runtimeGetVersion=lambda: 13000,
            getDeviceCount=count,
            CUDARuntimeError=DriverError,
        ),
        Device=lambda index: SimpleNamespace(use=lambda: chosen.append(index)),
    )
    module.chosen = chosen
    made: ModuleType = module
    return made


@pytest.fixture(autouse=True)
def wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    """One wheel, whatever is installed here."""
    install(monkeypatch, "cupy-cuda13x")


def install(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    def distribution(name: str) -> Any:
        if name not in names:
            raise PackageNotFoundError(name)
        return SimpleNamespace(version="14.0.0")

    monkeypatch.setattr(environment, "distribution", distribution)


def refusal(wanted: Any, *arguments: Any) -> MissingEnvironmentError:
    with pytest.raises(MissingEnvironmentError) as caught:
        wanted(*arguments)
    error = caught.value
    assert error.exit_code == 3
    assert error.hint
    assert "\n" not in f"{error.told}{error.hint}"
    return error


def fail_to_find(monkeypatch: pytest.MonkeyPatch, error: ImportError) -> None:
    """Importing CuPy ends like that."""

    class Finder:
        def find_spec(self, name: str, *_: Any) -> None:
            if name == "cupy":
                raise error

    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])


def test_no_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_to_find(monkeypatch, ModuleNotFoundError("No module named 'cupy'", name="cupy"))
    error = refusal(require_cupy)
    assert error.told == "CuPy is not installed"
    assert "roofline[gpu-cu13]" in error.hint


def test_two_wheels_of_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "cupy-cuda12x", "cupy-cuda13x")
    error = refusal(require_cupy)
    assert "cupy-cuda12x and cupy-cuda13x are both installed" in str(error)
    assert "uninstall" in error.hint


def test_a_cupy_that_does_not_load(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = "libcudart.so: cannot open shared object\nand much more"
    fail_to_find(monkeypatch, ImportError(fault))
    assert "libcudart.so: cannot open" in str(refusal(require_cupy))


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", fake(driver=0))
    assert refusal(require_device).told == "there is no NVIDIA driver"


def test_a_driver_older_than_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        sys.modules, "cupy", fake(driver=12040, fault="cudaErrorInsufficientDriver: too old")
    )
    assert refusal(require_device).told == "the driver is for CUDA 12.4 and CuPy for 13.0"


@pytest.mark.parametrize("fault", ["", "cudaErrorNoDevice: no device"])
def test_no_device(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    monkeypatch.setitem(sys.modules, "cupy", fake(devices=0, fault=fault))
    assert refusal(require_device).told == "there is no CUDA device"


def test_a_device_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", fake(devices=2))
    assert refusal(require_device, 2).told == "there is no CUDA device 2"


def test_a_device_that_is_there_is_made_current(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy = fake(devices=2)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    assert require_device(1) is cupy
    assert cupy.chosen == [1]


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise RuntimeError("Failure finding libnvrtc.so\nand where it was looked for")

    cupy = fake()
    cupy.cuda.nvrtc = SimpleNamespace(getVersion=missing)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "cupy.cuda", cupy.cuda)
    assert "NVRTC" in str(refusal(compiled, Program("rope"), 90))


@pytest.mark.parametrize("architecture", [75, 999])
def test_a_device_that_kernels_cannot_be_compiled_for(
    monkeypatch: pytest.MonkeyPatch, architecture: int
) -> None:
    cupy = fake()
    cupy.cuda.nvrtc = SimpleNamespace(
        getVersion=lambda: (13, 0), getSupportedArchs=lambda: [75, 80, 90]
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "cupy.cuda", cupy.cuda)
    assert f"{architecture / 10:.1f}" in str(refusal(compiled, Program("rope"), architecture))


def test_the_driver_is_read_in_base_units(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    library = fake_nvml(nvmlShutdown=lambda: closed.append("closed"))
    monkeypatch.setitem(sys.modules, "pynvml", library)
    with nvml.monitor() as gpu:
        clocks, board = gpu.clocks(), gpu.board()
    assert (clocks.sm_hz, clocks.memory_hz, clocks.power_w) == (1700e6, 2619e6, 650.0)
    assert clocks.slowed == ("power cap",)
    assert clocks.temperature_c != clocks.temperature_c
    assert (board.title, board.ecc, board.mig, board.driver) == (
        "Tiny GPU",
        "on",
        "unknown",
        "580.65",
    )
    assert board.power_limit_w == 700.0
    assert closed == ["closed"]


def test_no_library_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise NvmlError("NVML Shared Library Not Found")

    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(nvmlInit=missing))
    assert "NVML Shared Library Not Found" in str(refusal(lambda: nvml.monitor().__enter__()))


def test_a_gpu_that_the_driver_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml())
    error = refusal(lambda: nvml.monitor("0000:ff:00.0").__enter__())
    assert "the driver knows no GPU 0000:ff:00.0" in str(error)


def test_an_idle_or_free_clock_is_not_slowed() -> None:
    assert nvml.reasons(0x01) == nvml.reasons(0x02) == nvml.reasons(0) == ()
    assert nvml.reasons(0x48) == ("hardware slowdown", "hardware temperature")


def test_the_driver_tells_whether_others_are_there_and_what_joins_gpus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml())
    with nvml.monitor() as gpu:
        assert (gpu.others(), gpu.link()) == (0, "pcie")
    told = fake_nvml(
        nvmlDeviceGetComputeRunningProcesses=lambda gpu: [SimpleNamespace(pid=1)] * 3,
        nvmlDeviceGetNvLinkState=lambda gpu, wire: int(wire == 2),
    )
    monkeypatch.setitem(sys.modules, "pynvml", told)
    with nvml.monitor() as gpu:
        assert (gpu.others(), gpu.link()) == (2, "nvlink")
