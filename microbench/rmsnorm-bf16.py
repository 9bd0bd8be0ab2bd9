"""RMSNorm of each row, times a gain, in bf16: one kernel, a row stays in registers."""

from roofline.bench.gpu.kernels import rms_norm
from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.work import Work, pointwise

WIDTH = 2


def arguments(make: Maker, at: Shape) -> dict[str, object]:
    """Rows, gain and result."""
    m, width = at["m"], at["width"]
    return {
        "values": make.normal(m, width, of="bf16"),
        "weight": make.normal(width, of="bf16"),
        "output": make.empty(m, width, of="bf16"),
    }


def kernels(gpu, values, weight, output):
    """One kernel."""
    return rms_norm(values, weight, output, element="bf16")


def work(at: Shape) -> Work:
    """One array in, one out, and the gain."""
    width = at["width"]
    return pointwise(at["m"], reads=width, writes=width, width=WIDTH, parameters=width)


PROBE = Probe(
    name="rmsnorm-bf16",
    version=1,
    kind="pointwise",
    axes={
        "m": (1, 4, 16, 64, 256, 1024, 4096, 16384),
        "width": (2048, 3072, 4096, 5120, 8192, 16384),
    },
    arguments=arguments,
    work=work,
    backends=("cupy",),
    kernels=kernels,
    form="pass-4",
)
