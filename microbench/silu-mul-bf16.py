"""Gated activation in bf16: SiLU of the gate, times the other half, in one kernel."""

from roofline.bench.gpu.kernels import silu_mul
from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.work import Work, pointwise

WIDTH = 2


def arguments(make: Maker, at: Shape) -> dict[str, object]:
    """Gate and up of each row, one after the other, and the result."""
    m, width = at["m"], at["width"]
    return {
        "gate_up": make.normal(m, 2 * width, of="bf16"),
        "output": make.empty(m, width, of="bf16"),
    }


def kernels(gpu, gate_up, output):
    """One kernel."""
    return silu_mul(gate_up, output, element="bf16")


def work(at: Shape) -> Work:
    """Two arrays in, one out."""
    return pointwise(at["m"], reads=2 * at["width"], writes=at["width"], width=WIDTH)


PROBE = Probe(
    name="silu-mul-bf16",
    version=1,
    kind="pointwise",
    axes={
        "m": (1, 4, 16, 64, 256, 1024, 4096, 16384),
        "width": (1792, 3584, 8192, 14336, 18944, 28672),
    },
    arguments=arguments,
    work=work,
    backends=("cupy",),
    kernels=kernels,
    form="pass-6",
)
