"""Residual: one array added to another."""

from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.work import Work, pointwise

WIDTH = 4


def arguments(make: Maker, at: Shape) -> dict[str, object]:
    """Stream, update and sum."""
    m, width = at["m"], at["width"]
    return {
        "x": make.normal(m, width),
        "update": make.normal(m, width),
        "out": make.empty(m, width),
    }


def launch(xp, x, update, out):
    """One addition."""
    xp.add(x, update, out=out)


def work(at: Shape) -> Work:
    """Two arrays in, one out."""
    return pointwise(at["m"], reads=2 * at["width"], writes=at["width"], width=WIDTH)


PROBE = Probe(
    name="add",
    version=1,
    kind="pointwise",
    axes={"m": (1, 4, 16, 64, 256, 1024), "width": (576, 896, 2048, 4096)},
    arguments=arguments,
    launch=launch,
    work=work,
    backends=("numpy",),
)
