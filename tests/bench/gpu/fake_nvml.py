"""The driver's management library, made up."""

from types import ModuleType, SimpleNamespace
from typing import Any


class NvmlError(Exception):
    pass


def fake_nvml(**functions: Any) -> ModuleType:
    """The driver's library with a board that tells everything but its MIG mode."""

    def unsupported(*_: Any) -> Any:
        raise NvmlError("Not Supported")

    known = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetHandleByPciBusId": unsupported,
        "nvmlDeviceGetName": lambda gpu: b"Tiny GPU",
        "nvmlDeviceGetMemoryInfo": lambda gpu: SimpleNamespace(total=1000),
        "nvmlDeviceGetEnforcedPowerLimit": lambda gpu: 700_000,
        "nvmlDeviceGetMaxClockInfo": lambda gpu, which: 1980,
        "nvmlDeviceGetClockInfo": lambda gpu, which: {1: 1700, 2: 2619}[which],
        "nvmlDeviceGetPowerUsage": lambda gpu: 650_000,
        "nvmlDeviceGetTemperature": unsupported,
        "nvmlDeviceGetCurrentClocksEventReasons": lambda gpu: 0x04,
        "nvmlDeviceGetEccMode": lambda gpu: [1, 1],
        "nvmlDeviceGetMigMode": unsupported,
        "nvmlDeviceGetComputeRunningProcesses": unsupported,
        "nvmlDeviceGetNvLinkState": unsupported,
        "nvmlSystemGetDriverVersion": lambda: "580.65",
        "NVML_CLOCK_SM": 1,
        "NVML_CLOCK_MEM": 2,
        "NVML_TEMPERATURE_GPU": 0,
        "NVMLError": NvmlError,
    }
    module = ModuleType("pynvml")
    vars(module).update({**known, **functions})
    return module
