"""Kernels that do nothing, replayed as a CUDA graph that the host launches."""

from roofline.bench.gpu import bandwidth
from roofline.bench.gpu.calls import Replay
from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.work import Work


def arguments(make: Maker, at: Shape) -> dict[str, object]:
    """How many."""
    return {"calls": at["calls"]}


def kernels(gpu, calls):
    """One graph of as many kernels without instructions."""
    return (Replay(bandwidth.nothing() * calls),)


def work(at: Shape) -> Work:
    """None."""
    return Work()


PROBE = Probe(
    name="replay",
    version=1,
    kind="pointwise",
    axes={"calls": (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)},
    arguments=arguments,
    work=work,
    backends=("cupy",),
    kernels=kernels,
    captured=False,
    form="launching",
)
