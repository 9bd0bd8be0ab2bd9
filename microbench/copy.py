"""Copy an array: every byte is read once and written once."""

from roofline.bench.gpu.kernels import stream
from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.work import Work
from roofline.units import PREFIX

WIDTH = 4
SIZES = tuple(int(PREFIX["Ki"] * 2**power) for power in range(6, 23))
"""Read; from 64 KiB to 4 GiB. [B]"""


def arguments(make: Maker, at: Shape) -> dict[str, object]:
    """Two arrays."""
    count = at["size"] // WIDTH
    return {"x": make.normal(count), "out": make.empty(count)}


def launch(xp, x, out):
    """Copy one to the other."""
    xp.copyto(out, x)


def kernels(gpu, x, out):
    """The same on a GPU, where all multiprocessors take part."""
    return stream("copy_stream", x, out, gpu.multiprocessors)


def work(at: Shape) -> Work:
    """Both arrays cross memory."""
    return Work(activation_bytes=2.0 * at["size"])


PROBE = Probe(
    name="copy",
    version=1,
    kind="pointwise",
    axes={"size": SIZES},
    arguments=arguments,
    launch=launch,
    work=work,
    streamed=("x", "out"),
    states=("warm", "cold"),
    kernels=kernels,
)
