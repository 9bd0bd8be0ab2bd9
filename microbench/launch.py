"""Kernels that do nothing, launched by the host one after the other (through CuPy)."""

from roofline.bench.gpu import bandwidth
from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.work import Work


def arguments(make: Maker, at: Shape) -> dict[str, object]:
    """How many."""
    return {"calls": at["calls"]}


def kernels(gpu, calls):
    """As many kernels without instructions."""
    return bandwidth.nothing() * calls


def work(at: Shape) -> Work:
    """None."""
    return Work()


PROBE = Probe(
    name="launch",
    version=1,
    kind="pointwise",
    axes={"calls": (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)},
    arguments=arguments,
    work=work,
    backends=("cupy",),
    kernels=kernels,
    captured=False,
    form="launching",
)
