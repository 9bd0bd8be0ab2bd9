"""Rotary embedding of all heads of each token, in place, in bf16."""

from roofline.bench.gpu.kernels import rope
from roofline.bench.gpu.torch_attention import angles, positions
from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.work import Work, pointwise

WIDTH = 2
TABLE = 4096
"""Positions."""


def arguments(make: Maker, at: Shape) -> dict[str, object]:
    """Heads of each token, cosines and sines of all positions, and which of them each token has."""
    m, heads, width = at["m"], at["heads"], at["head_dim"]
    return {
        "turned": make.empty(m, heads, width, of="bf16"),
        "cos_sin": make.constant(angles, TABLE, width),
        "places": make.constant(positions, m, TABLE),
    }


def kernels(gpu, turned, cos_sin, places):
    """One kernel."""
    return rope(turned, cos_sin, places, element="bf16")


def work(at: Shape) -> Work:
    """One array in, one out, and the angles."""
    width = at["heads"] * at["head_dim"]
    return pointwise(at["m"], reads=width + at["head_dim"], writes=width, width=WIDTH)


PROBE = Probe(
    name="rope-bf16",
    version=1,
    kind="pointwise",
    axes={
        "m": (1, 4, 16, 64, 256, 1024, 4096, 16384),
        "heads head_dim": ((9, 128), (32, 128), (40, 128), (72, 128), (40, 64)),
    },
    arguments=arguments,
    work=work,
    backends=("cupy",),
    kernels=kernels,
    form="pass-4",
)
