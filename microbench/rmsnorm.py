"""RMSNorm of each row, times a gain."""

from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.work import Work, pointwise

WIDTH = 4
EPSILON = 1e-5


def arguments(make: Maker, at: Shape) -> dict[str, object]:
    """Rows, gain, and room for squares."""
    m, width = at["m"], at["width"]
    return {
        "x": make.normal(m, width),
        "gain": make.normal(width),
        "squares": make.empty(m, width),
        "row": make.empty(m, 1),
        "out": make.empty(m, width),
    }


def launch(xp, x, gain, squares, row, out):
    """Divide by the root of the mean square."""
    xp.multiply(x, x, out=squares)
    xp.sum(squares, axis=-1, keepdims=True, out=row)
    xp.multiply(row, 1.0 / x.shape[-1], out=row)
    xp.add(row, EPSILON, out=row)
    xp.sqrt(row, out=row)
    xp.divide(x, row, out=out)
    xp.multiply(out, gain, out=out)


def work(at: Shape) -> Work:
    """One array in, one out, and the gain."""
    width = at["width"]
    return pointwise(at["m"], reads=width, writes=width, width=WIDTH, parameters=width)


PROBE = Probe(
    name="rmsnorm",
    version=1,
    kind="pointwise",
    axes={"m": (1, 4, 16, 64, 256, 1024), "width": (576, 896, 2048, 4096)},
    arguments=arguments,
    launch=launch,
    work=work,
    backends=("numpy",),
)
