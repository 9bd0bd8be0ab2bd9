"""Softmax of each row."""

from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.work import Work, pointwise

WIDTH = 4


def arguments(make: Maker, at: Shape) -> dict[str, object]:
    """Rows, one number of each, and the result."""
    m, width = at["m"], at["width"]
    return {"x": make.normal(m, width), "row": make.empty(m, 1), "out": make.empty(m, width)}


def launch(xp, x, row, out):
    """Exponentials, less the largest, over their sum."""
    xp.max(x, axis=-1, keepdims=True, out=row)
    xp.subtract(x, row, out=out)
    xp.exp(out, out=out)
    xp.sum(out, axis=-1, keepdims=True, out=row)
    xp.divide(out, row, out=out)


def work(at: Shape) -> Work:
    """One array in, one out."""
    return pointwise(at["m"], reads=at["width"], writes=at["width"], width=WIDTH)


PROBE = Probe(
    name="softmax",
    version=1,
    kind="pointwise",
    axes={"m": (1, 16, 64, 256, 1024), "width": (64, 256, 1024, 8192)},
    arguments=arguments,
    launch=launch,
    work=work,
    backends=("numpy",),
)
