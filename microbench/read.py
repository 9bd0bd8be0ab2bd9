"""Read an array: its largest element, which keeps nothing else."""

from roofline.bench.gpu.kernels import stream
from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.work import Work
from roofline.units import PREFIX

WIDTH = 4
SIZES = tuple(int(PREFIX["Ki"] * 2**power) for power in range(6, 23))
"""Array sizes from 64 KiB to 4 GiB. [B]"""


def arguments(make: Maker, at: Shape) -> dict[str, object]:
    """The array and one number."""
    return {"x": make.normal(at["size"] // WIDTH), "out": make.empty(1)}


def launch(xp, x, out):
    """Find the largest element."""
    xp.max(x, keepdims=True, out=out)


def kernels(gpu, x, out):
    """Read every word on a GPU, and keep their parity where nobody sees it."""
    return stream("read_stream", x, out, gpu.multiprocessors)


def work(at: Shape) -> Work:
    """The array crosses memory once."""
    return Work(activation_bytes=1.0 * at["size"])


PROBE = Probe(
    name="read",
    version=1,
    kind="pointwise",
    axes={"size": SIZES},
    arguments=arguments,
    launch=launch,
    work=work,
    streamed=("x",),
    states=("warm", "cold"),
    kernels=kernels,
)
