"""Calls that do nothing: additions of one element, one after the other."""

from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.work import Work

WIDTH = 4


def arguments(make: Maker, at: Shape) -> dict[str, object]:
    """One number, and how often it is added to itself."""
    return {"x": make.normal(1), "out": make.empty(1), "calls": at["calls"]}


def launch(xp, x, out, calls):
    """Add, many times."""
    for _ in range(calls):
        xp.add(x, x, out=out)


def work(at: Shape) -> Work:
    """Two numbers in, one out, each time."""
    return Work(activation_bytes=3.0 * WIDTH * at["calls"])


PROBE = Probe(
    name="call",
    version=1,
    kind="pointwise",
    axes={"calls": (1, 4, 16)},
    arguments=arguments,
    launch=launch,
    work=work,
    backends=("numpy",),
)
