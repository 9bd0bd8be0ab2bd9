"""Heads of new tokens into a cache that is ordered by head."""

from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.work import Work, pointwise

WIDTH = 4


def arguments(make: Maker, at: Shape) -> dict[str, object]:
    """Heads by token, and their place in the cache."""
    m, heads, width = at["m"], at["heads"], at["head_dim"]
    return {"x": make.normal(m, heads, width), "cache": make.empty(heads, m, width)}


def launch(xp, x, cache):
    """Copy with the axes of heads and tokens exchanged."""
    xp.copyto(cache, x.swapaxes(0, 1))


def work(at: Shape) -> Work:
    """One array in, one out."""
    width = at["heads"] * at["head_dim"]
    return pointwise(at["m"], reads=width, writes=width, width=WIDTH)


PROBE = Probe(
    name="store",
    version=1,
    kind="pointwise",
    axes={
        "m": (1, 4, 16, 64, 256, 1024),
        "heads head_dim": ((2, 64), (3, 64), (8, 64), (32, 64), (8, 128)),
    },
    arguments=arguments,
    launch=launch,
    work=work,
    streamed=("cache",),
    states=("warm", "cold"),
    backends=("numpy",),
)
