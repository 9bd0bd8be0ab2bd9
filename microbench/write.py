"""Write an array: a constant into every element."""

from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.work import Work
from roofline.units import PREFIX

WIDTH = 4
SIZES = tuple(int(PREFIX["Ki"] * 2**power) for power in range(6, 23))
"""Array sizes from 64 KiB to 4 GiB. [B]"""


def arguments(make: Maker, at: Shape) -> dict[str, object]:
    """The array."""
    return {"out": make.empty(at["size"] // WIDTH)}


def launch(xp, out):
    """Fill it."""
    out.fill(1.0)


def work(at: Shape) -> Work:
    """The array crosses memory once."""
    return Work(activation_bytes=1.0 * at["size"])


PROBE = Probe(
    name="write",
    version=1,
    kind="pointwise",
    axes={"size": SIZES},
    arguments=arguments,
    launch=launch,
    work=work,
    streamed=("out",),
    states=("warm", "cold"),
    backends=("numpy",),
)
