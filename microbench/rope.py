"""Rotary embedding of all heads of each token, halves turned against each other."""

from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.work import Work, pointwise

WIDTH = 4


def arguments(make: Maker, at: Shape) -> dict[str, object]:
    """Heads of each token, cosines and sines of its position, and room for a half."""
    m, heads, width = at["m"], at["heads"], at["head_dim"]
    return {
        "x": make.normal(m, heads, width),
        "cos": make.normal(m, 1, width // 2),
        "sin": make.normal(m, 1, width // 2),
        "half": make.empty(m, heads, width // 2),
        "out": make.empty(m, heads, width),
    }


def launch(xp, x, cos, sin, half, out):
    """Turn pairs that are half a head apart."""
    width = x.shape[-1] // 2
    a, b = x[..., :width], x[..., width:]
    first, second = out[..., :width], out[..., width:]
    xp.multiply(a, cos, out=first)
    xp.multiply(b, sin, out=half)
    xp.subtract(first, half, out=first)
    xp.multiply(b, cos, out=second)
    xp.multiply(a, sin, out=half)
    xp.add(second, half, out=second)


def work(at: Shape) -> Work:
    """One array in, one out, and the angles."""
    width = at["heads"] * at["head_dim"]
    return pointwise(at["m"], reads=width + at["head_dim"], writes=width, width=WIDTH)


PROBE = Probe(
    name="rope",
    version=1,
    kind="pointwise",
    axes={
        "m": (1, 4, 16, 64, 256, 1024),
        "heads head_dim": ((3, 64), (9, 64), (14, 64), (32, 64), (8, 128)),
    },
    arguments=arguments,
    launch=launch,
    work=work,
    backends=("numpy",),
)
