"""Embedding of each token in bf16: rows of a table that follow one another nowhere in it."""

from roofline.bench.gpu.kernels import row_pass
from roofline.bench.gpu.torch_attention import pages
from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.work import Work, pointwise

WIDTH = 2
VOCABULARY = 32768
"""Rows of the table, as many as the most tokens or more. [token]"""


def arguments(make: Maker, at: Shape) -> dict[str, object]:
    """Table, tokens and result."""
    m, width = at["m"], at["width"]
    return {
        "table": make.normal(VOCABULARY, width, of="bf16"),
        "tokens": make.constant(pages, 1, m),
        "output": make.empty(m, width, of="bf16"),
    }


def kernels(gpu, table, tokens, output):
    """One kernel."""
    return row_pass("take_rows", table, tokens, output, element="bf16")


def work(at: Shape) -> Work:
    """One array in, one out."""
    return pointwise(at["m"], reads=at["width"], writes=at["width"], width=WIDTH)


PROBE = Probe(
    name="embedding-bf16",
    version=1,
    kind="pointwise",
    axes={"m": (1, 4, 16, 64, 256, 1024, 4096, 16384), "width": (2048, 3072, 4096, 5120, 8192)},
    arguments=arguments,
    work=work,
    backends=("cupy",),
    kernels=kernels,
    form="pass-4",
)
