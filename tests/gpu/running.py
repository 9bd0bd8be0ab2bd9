"""One run of a probe on a device."""

from typing import Any

from roofline.bench.gpu.device import CudaDevice
from roofline.bench.gpu.launch import Launch, LibraryCall
from roofline.bench.probe import Shape, find
from tests.bench.probes import made


def ran(gpu: CudaDevice, name: str, at: Shape) -> dict[str, Any]:
    """Arguments of a probe after one run."""
    probe = find(name).probe
    arguments = made(probe, at, gpu.cupy)
    if probe.kernels is None:
        probe.launch(gpu.cupy, **arguments)
    else:
        for call in probe.kernels(gpu.sku, **arguments):
            if isinstance(call, LibraryCall):
                call.run(gpu.cupy)
            else:
                assert isinstance(call, Launch), call
                gpu.run(call)
    gpu.cupy.cuda.Device().synchronize()
    return arguments
