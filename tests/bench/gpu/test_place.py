"""A GPU as a place: what is missing is one line with exit code 3, and what is there is taken."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from roofline.bench import campaign
from roofline.bench.gpu import cublaslt, environment
from roofline.bench.gpu.launch import Multiply
from roofline.bench.gpu.libraries import products
from roofline.bench.probe import ProbePoint, find, points
from roofline.errors import InputError, MissingEnvironmentError, RooflineError, UnknownNameError
from tests.bench.gpu.fake_gpu import FakeArray, FakeGpu, installed
from tests.bench.gpu.fake_nvml import NvmlError
from tests.bench.gpu.planted import seconds


def refused() -> RooflineError:
    with pytest.raises(RooflineError) as caught, campaign.place("cupy"):
        pass
    assert "\n" not in f"{caught.value.told}{caught.value.hint}"
    assert caught.value.hint
    return caught.value


def test_a_gpu_is_taken_with_its_rates_and_its_name(gpu: FakeGpu) -> None:
    with campaign.place("cupy") as where:
        assert where.published.of("fp8").flops_per_s == 1978.9e12
        assert where.environment["machine"] == "h100-sxm"
        assert where.title == "NVIDIA H100 80GB HBM3 as h100-sxm"
        assert where.backend.cache_bytes == gpu.l2_bytes
        noise = where.noise()
    assert noise is not None
    assert noise.calm
    assert "alone" in str(noise)


def test_others_on_the_gpu_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    company: dict[str, Any] = {
        "nvmlDeviceGetComputeRunningProcesses": lambda handle: [1, 2],
        "nvmlDeviceGetCurrentClocksEventReasons": lambda handle: 0x20,
    }
    installed(monkeypatch, FakeGpu(seconds), **company)
    with campaign.place("cupy") as where:
        noise = where.noise()
    assert noise is not None
    assert not noise.calm
    assert "beside 1 other process" in str(noise)
    assert "held down: temperature" in str(noise)


def test_limits_that_an_administrator_set_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(
        monkeypatch,
        FakeGpu(seconds),
        nvmlDeviceGetCurrentClocksEventReasons=lambda handle: 0x02,
    )
    with campaign.place("cupy") as where:
        assert "limited by its settings: application clocks" in str(where.noise())
        assert where.backend.slowed() == ()


def test_an_old_driver_is_asked_by_the_old_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(handle: int) -> int:
        raise NvmlError("Function Not Found")

    old: dict[str, Any] = {"nvmlDeviceGetCurrentClocksEventReasons": absent}
    new: dict[str, Any] = {**old, "nvmlDeviceGetCurrentClocksThrottleReasons": lambda handle: 0x04}
    installed(monkeypatch, FakeGpu(seconds), **new)
    with campaign.place("cupy") as where:
        assert where.backend.slowed() == ("power cap",)
    installed(monkeypatch, FakeGpu(seconds), **old)
    with campaign.place("cupy") as where:
        assert where.backend.slowed() == ()
        assert "the driver does not tell when it holds the clock down" in str(where.noise())


def test_a_name_says_whose_rates_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, FakeGpu(seconds, multiprocessors=100), title="NVIDIA Something")
    assert isinstance(refused(), UnknownNameError)
    with campaign.place("cupy", "h100-pcie") as where:
        assert where.environment["datasheet"] == "h100-pcie"
        assert where.published.source == "h100-pcie"
    with pytest.raises(UnknownNameError, match="no GPU is called"), campaign.place("cupy", "h9"):
        pass
    with pytest.raises(InputError, match="NumPy does not run on h100-sxm"):
        campaign.place("numpy", "h100-sxm")


def test_no_driver_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise NvmlError("NVML Shared Library Not Found")

    installed(monkeypatch, FakeGpu(seconds), nvmlInit=missing)
    error = refused()
    assert error.exit_code == 3
    assert "management library does not answer: NVML Shared Library Not Found" in str(error)


def test_no_cublaslt(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, FakeGpu(seconds))

    def missing() -> None:
        raise MissingEnvironmentError("cuBLASLt is not installed", hint="install it")

    monkeypatch.setattr(cublaslt, "library", missing)
    assert refused().exit_code == 3


def test_a_device_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, FakeGpu(seconds, capability=75), title="Tesla T4")
    error = refused()
    assert error.exit_code == 3
    assert "the kernels need compute capability 8.0, this device has 7.5" in str(error)


def test_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, FakeGpu(seconds, devices=0))
    assert refused().exit_code == 3


def test_both_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, FakeGpu(seconds))
    monkeypatch.setattr(environment, "installed", lambda name: "14.0")
    error = refused()
    assert error.exit_code == 3
    assert "are both installed" in str(error)


def test_a_gpu_is_chosen_where_there_is_one(monkeypatch: pytest.MonkeyPatch, gpu: FakeGpu) -> None:
    assert campaign.chosen() == ("cupy", "there is a GPU, and CuPy reaches it")
    gpu.devices = 0
    name, reason = campaign.chosen()
    assert name == "numpy"
    assert reason.startswith("no GPU is measured: there is no CUDA device; ")


def refusal(point: ProbePoint) -> str:
    with campaign.place("cupy") as where:
        return where.backend.refusal(point)


def test_points_that_a_device_cannot_run_say_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpu = FakeGpu(seconds, capability=80, multiprocessors=108, devices=2)
    installed(monkeypatch, gpu, title="NVIDIA A100-SXM4-80GB")
    first = {
        name: next(points(find(name).probe)) for name in ("gemm-fp8", "gemm-bf16", "torch-flash")
    }
    assert refusal(first["gemm-fp8"]) == "this device has no fp8 arithmetic"
    assert refusal(first["gemm-bf16"]) == ""
    reduce = find("all-reduce").probe
    two, four = (ProbePoint(reduce, {"ranks": n, "payload": 1024}, "warm") for n in (2, 4))
    assert refusal(two) == ""
    assert refusal(four) == "it takes 4 GPUs, there are 2"
    gpu.module.cuda.nccl.available = False
    assert refusal(two).startswith("NCCL is not installed")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert refusal(first["torch-flash"]) == "torch is not installed"


def array(*shape: int) -> Any:
    import numpy as np

    return np.random.default_rng(len(shape)).standard_normal(shape, np.float32).view(FakeArray)


def test_a_product_multiplies_values_with_the_weight_turned(gpu: FakeGpu) -> None:
    """Operands in the wrong order or place would be another result."""
    values, weight, output = array(2, 5, 8), array(2, 3, 8), array(2, 5, 3)
    with products(gpu.module) as found:
        found.prepared(Multiply("fp32", values, weight, output))()
    expected = values @ weight.swapaxes(1, 2)
    assert abs(output - expected).max() < 1e-5


def test_descriptors_are_made_once_for_a_shape(
    gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = installed(monkeypatch, gpu)
    with products(gpu.module) as found:
        for _ in range(5):
            found.prepared(Multiply("tf32", array(5, 8), array(3, 8), array(5, 3)))
        kept = len(library.made)
        assert kept == 1 + 4
        library.refused = frozenset({"bf16"})
        with pytest.raises(InputError, match="no bf16 product of m = 5, n = 3, k = 8"):
            found.prepared(Multiply("bf16", array(5, 8), array(3, 8), array(5, 3)))
        assert len(library.made) == kept
    assert library.made == {}


def test_a_product_that_is_proposed_and_then_not_had_is_left_out(
    gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = installed(monkeypatch, gpu)
    with products(gpu.module) as found:
        run = found.prepared(Multiply("tf32", array(5, 8), array(3, 8), array(5, 3)))
        for status, kind in ((15, InputError), (13, RuntimeError)):
            monkeypatch.setattr(library, "cublasLtMatmul", lambda *_, s=status: s, raising=False)
            with pytest.raises(kind):
                run()


def test_another_failure_of_the_library_is_not_hidden(
    gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = installed(monkeypatch, gpu)
    monkeypatch.setattr(library, "cublasLtMatmulAlgoGetHeuristic", lambda *_: 7, raising=False)
    with products(gpu.module) as found, pytest.raises(RuntimeError, match="status 7"):
        found.prepared(Multiply("tf32", array(5, 8), array(3, 8), array(5, 3)))


def test_ranks_fork_and_join_around_a_collective(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = FakeGpu(seconds, devices=4)
    installed(monkeypatch, gpu)
    with campaign.place("cupy") as where:
        probe = find("all-reduce").probe
        run = where.backend.bind(probe, {"ranks": 4, "payload": 4096})
        with gpu.module.cuda.Stream(non_blocking=True):
            run()
    assert gpu.ran[-1].name == "allReduce"
    assert tuple(gpu.ran[-1].arguments) == (4, 4096)
    assert gpu.forked == 3 + 3


def test_torch_is_given_the_arrays_the_stream_and_the_kernel(
    gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A PyTorch that writes down what it is asked."""
    said: list[Any] = []

    class Tensor:
        def __init__(self, array: Any) -> None:
            self.array = array

        def view(self, kind: str) -> "Tensor":
            said.append(kind)
            return self

        def transpose(self, a: int, b: int) -> Any:
            return self.array.swapaxes(a, b)

    class Scope:
        def __init__(self, what: Any) -> None:
            said.append(what)

        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> None: ...

    torch = SimpleNamespace(
        bfloat16="bfloat16",
        from_dlpack=Tensor,
        cuda=SimpleNamespace(ExternalStream=lambda ptr: ("stream", ptr), stream=Scope),
        nn=SimpleNamespace(
            functional=SimpleNamespace(
                scaled_dot_product_attention=lambda *a, **how: said.append((a, how))
            )
        ),
    )
    backends = SimpleNamespace(CUDNN_ATTENTION="cudnn")
    monkeypatch.setitem(sys.modules, "torch", torch)
    nn = SimpleNamespace(SDPBackend=backends, sdpa_kernel=Scope)
    monkeypatch.setitem(sys.modules, "torch.nn.attention", nn)
    probe = find("torch-cudnn").probe
    stream = gpu.module.cuda.Stream(non_blocking=True)
    with stream:
        probe.launch(gpu.module, array(2, 6, 4, 8), array(2, 6, 2, 8), array(2, 6, 2, 8))
    assert said[:5] == ["bfloat16"] * 3 + [("stream", stream.ptr), "cudnn"]
    heads, how = said[5]
    assert [head.shape for head in heads] == [(2, 4, 6, 8), (2, 2, 6, 8), (2, 2, 6, 8)]
    assert how == {"is_causal": True, "enable_gqa": True}

    def none(*_: Any, **__: Any) -> None:
        raise RuntimeError("No available kernel. Aborting execution.\nand much more")

    torch.nn.functional.scaled_dot_product_attention = none
    arrays = [array(2, 6, n, 8) for n in (4, 4, 4)]
    with stream, pytest.raises(InputError, match="with CUDNN_ATTENTION: No available kernel"):
        probe.launch(gpu.module, *arrays)
    stream.begin_capture()
    with stream, pytest.raises(RuntimeError):
        probe.launch(gpu.module, *arrays)
