"""Softmax over a vocabulary, in single precision, as a sampler takes it."""

from roofline.bench.gpu.pointwise import softmax
from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.linear import pointwise
from roofline.cost.work import Work

WIDTH = 4


def arguments(make: Maker, at: Shape) -> dict[str, object]:
    """Logits of each sequence, and the result."""
    m, width = at["m"], at["width"]
    return {"logits": make.normal(m, width), "output": make.empty(m, width)}


def kernels(gpu, logits, output):
    """One kernel."""
    return softmax(logits, output)


def work(at: Shape) -> Work:
    """One array in, one out; its second reading finds it in the cache."""
    return pointwise(at["m"], reads=at["width"], writes=at["width"], width=WIDTH)


PROBE = Probe(
    name="softmax-logits",
    version=1,
    kind="pointwise",
    axes={
        "m": (1, 4, 16, 64, 256, 1024),
        "width": (1024, 8192, 32000, 50304, 128256, 151936),
    },
    arguments=arguments,
    work=work,
    backends=("cupy",),
    kernels=kernels,
    form="pass-8",
)
