"""Gated activation: SiLU of the gate, times the other half."""

from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.work import Work, pointwise

WIDTH = 4


def arguments(make: Maker, at: Shape) -> dict[str, object]:
    """Gate, up and result."""
    m, width = at["m"], at["width"]
    return {
        "gate": make.normal(m, width),
        "up": make.normal(m, width),
        "out": make.empty(m, width),
    }


def launch(xp, gate, up, out):
    """``gate / (1 + exp(-gate)) · up``."""
    xp.negative(gate, out=out)
    xp.exp(out, out=out)
    xp.add(out, 1.0, out=out)
    xp.divide(gate, out, out=out)
    xp.multiply(out, up, out=out)


def work(at: Shape) -> Work:
    """Two arrays in, one out."""
    return pointwise(at["m"], reads=2 * at["width"], writes=at["width"], width=WIDTH)


PROBE = Probe(
    name="silu-mul",
    version=1,
    kind="pointwise",
    axes={"m": (1, 4, 16, 64, 256, 1024), "width": (1536, 2816, 4864, 8192)},
    arguments=arguments,
    launch=launch,
    work=work,
    backends=("numpy",),
)
