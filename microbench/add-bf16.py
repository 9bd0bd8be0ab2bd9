"""Residual in bf16: one array added to another, in one kernel."""

from roofline.bench.gpu.kernels import row_pass
from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.work import Work, pointwise

WIDTH = 2


def arguments(make: Maker, at: Shape) -> dict[str, object]:
    """Stream, update and sum."""
    m, width = at["m"], at["width"]
    return {
        "residual": make.normal(m, width, of="bf16"),
        "update": make.normal(m, width, of="bf16"),
        "output": make.empty(m, width, of="bf16"),
    }


def kernels(gpu, residual, update, output):
    """One kernel."""
    return row_pass("add_rows", residual, update, output, element="bf16")


def work(at: Shape) -> Work:
    """Two arrays in, one out."""
    return pointwise(at["m"], reads=2 * at["width"], writes=at["width"], width=WIDTH)


PROBE = Probe(
    name="add-bf16",
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
    form="pass-6",
)
